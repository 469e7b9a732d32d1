"""Import from and export to Minari, Gymnasium's archive of logged experience; needs the extra `minari`.

Minari stores every episode as a group of its own in a file. An episode takes milliseconds and 13 KB, however short it
is, whereas Parquet takes 3 bytes a transition: Minari is a format to exchange data, not to train from.
"""

import itertools
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from swiftrl_core.data.environments import SHORT_NAMES, Environment, base_id, resolve, size_of
from swiftrl_core.data.transitions import Dataset
from swiftrl_core.util.errors import SwiftRLError

PREFIX = "minari:"
EPISODE_SECONDS = 0.008
EPISODE_BYTES = 13_300
STEP_BYTES = 26
"""Cost of an episode and of each of its steps in Minari 0.5.4 with HDF5, measured on FrozenLake."""
LARGE_BYTES = 1_000_000_000
_ID = re.compile(r"(?:[-\w][-\w.]*/)*[-\w.]+-v\d+")


@dataclass(frozen=True)
class Estimate:
    """The approximate cost of an export.

    Attributes
    ----------
    episodes : int
    seconds : float
    bytes : int
    """

    episodes: int
    seconds: float
    bytes: int

    def __str__(self) -> str:
        return f"{self.episodes:,} episodes, about {self.bytes / 1e6:,.0f} MB and {self.seconds:,.0f} s"


def named(text: str) -> str | None:
    """Return the Minari id that a text names, as `minari:ID` or as an id that is no file here; else None."""
    if text.startswith(PREFIX):
        return text.removeprefix(PREFIX)
    return text if _ID.fullmatch(text) and not os.path.exists(text) else None


def estimate(dataset: Dataset) -> Estimate:
    """Return the approximate cost of exporting a data set."""
    episodes = int(dataset.episode[-1] - dataset.episode[0]) + 1
    return Estimate(
        episodes, episodes * EPISODE_SECONDS, episodes * EPISODE_BYTES + len(dataset) * STEP_BYTES
    )


def load(dataset_id: str, environment: str | Environment | None = None) -> Dataset:
    """Return a Minari data set that is on this machine.

    Parameters
    ----------
    dataset_id : str
        Such as `frozenlake/random-v0`. Nothing is downloaded; `minari download ID` does that.
    environment : str or Environment, optional
        By default the one that the data set names.

    Raises
    ------
    SwiftRLError
        If Minari is not installed, has no such data set here, or its spaces are not Discrete from 0; if the environment
        is unknown, has other sizes, or could not have given a transition.
    """
    minari = _minari()
    try:
        stored = minari.load_dataset(dataset_id)
    except (FileNotFoundError, ValueError) as error:
        raise SwiftRLError(
            f"Minari has no data set {dataset_id!r} on this machine ({' '.join(str(error).split())}): "
            "`minari list local` lists those it has, `minari download ID` fetches others"
        ) from error
    sizes = [
        size_of(dataset_id, kind, space)
        for kind, space in (("observation", stored.observation_space), ("action", stored.action_space))
    ]
    environment = _environment(dataset_id, stored.env_spec) if environment is None else resolve(environment)
    if sizes != [environment.n_states, environment.n_actions]:
        raise SwiftRLError(
            f"{dataset_id} has {sizes[0]} states and {sizes[1]} actions, but {environment.env_id} has "
            f"{environment.n_states} and {environment.n_actions}: name the environment it comes from"
        )
    columns = _columns(dataset_id, stored.iterate_episodes())
    return Dataset.logged_in(environment, columns, source=f"{PREFIX}{dataset_id}")


def save(dataset: Dataset, dataset_id: str) -> Estimate:
    """Export a data set to Minari's folder on this machine; return the estimated cost.

    Parameters
    ----------
    dataset : Dataset
        Its environment must be known.
    dataset_id : str
        Ends in a version, such as `frozenlake/random-v0`.

    Raises
    ------
    SwiftRLError
        If Minari is not installed, the id is malformed or taken, or the data set's environment is unknown.
    """
    minari = _minari()
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.storage.datasets_root_dir import get_dataset_path

    if not _ID.fullmatch(dataset_id):
        raise SwiftRLError(f"{dataset_id!r} is not a Minari id: write NAME-v0 or GROUP/NAME-v0")
    path = Path(get_dataset_path(dataset_id))
    if path.exists():
        raise SwiftRLError(f"Minari has a data set {dataset_id} already: choose another name or version")
    environment = _known_environment(dataset)
    edges = [0, *(np.flatnonzero(np.diff(dataset.episode)) + 1).tolist(), len(dataset)]
    buffers = [
        EpisodeBuffer(
            id=number,
            observations=[*dataset.state[rows].tolist(), int(dataset.next_state[rows][-1])],
            actions=dataset.action[rows].tolist(),
            rewards=dataset.reward[rows].tolist(),
            terminations=dataset.terminated[rows].tolist(),
            truncations=dataset.truncated[rows].tolist(),
        )
        for number, rows in enumerate(itertools.starmap(slice, itertools.pairwise(edges)))
    ]
    try:
        minari.create_dataset_from_buffers(
            dataset_id,
            buffers,
            env=environment.make(),
            algorithm_name=dataset.metadata.get("policy"),
            description="exported by SwiftRL",
            data_format="hdf5",
        )
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)  # an incomplete data set would look complete
        raise
    return estimate(dataset)


def _minari() -> Any:
    try:
        import h5py  # noqa: F401, which Minari imports only when it is too late
        import minari
    except ImportError as error:
        raise SwiftRLError(
            f"Minari's data sets need the package minari ({error}): pip install 'swiftrl[minari]'"
        ) from error
    return minari


def _environment(dataset_id: str, spec: Any) -> Environment:
    """Resolve the environment that a data set names, in the version that is installed here."""
    if spec is None:
        raise SwiftRLError(f"{dataset_id} does not record its environment: name it with --env")
    defaults = gymnasium.registry[spec.id].kwargs if spec.id in gymnasium.registry else {}
    own = {name: value for name, value in spec.kwargs.items() if defaults.get(name) != value}
    names = (short for short, ids in SHORT_NAMES.items() if base_id(spec.id) in map(base_id, ids))
    return resolve(next(names, spec.id), **own)


def _known_environment(dataset: Dataset) -> Environment:
    env_id = dataset.metadata.get("env_id")
    if env_id is None:
        raise SwiftRLError(
            "the data set does not record its environment, which Minari stores with it: name it"
        )
    return resolve(env_id, **dataset.metadata.get("kwargs", {}))


def _columns(dataset_id: str, episodes: Iterator[Any]) -> dict[str, np.ndarray]:
    parts: dict[str, list[np.ndarray]] = {}
    for number, episode in enumerate(episodes):
        steps = len(episode.rewards)
        if len(episode.observations) != steps + 1:
            raise SwiftRLError(
                f"{dataset_id}: episode {number} has {len(episode.observations)} observations for {steps} steps; "
                f"it needs {steps + 1}"
            )
        terminated = np.asarray(episode.terminations, bool)
        columns = {
            "state": np.asarray(episode.observations[:-1], np.int32),
            "action": np.asarray(episode.actions, np.int32),
            "reward": np.asarray(episode.rewards, np.float32),
            "next_state": np.asarray(episode.observations[1:], np.int32),
            "terminated": terminated,
            "truncated": np.asarray(episode.truncations, bool) & ~terminated,
            "episode": np.full(steps, number, np.int32),
        }
        for name, column in columns.items():
            parts.setdefault(name, []).append(column)
    if not parts:
        raise SwiftRLError(f"{dataset_id} holds no episodes")
    return {name: np.concatenate(columns) for name, columns in parts.items()}
