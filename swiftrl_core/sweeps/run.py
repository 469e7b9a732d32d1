"""Run: one configuration of training, with a name made of its content, and the row it becomes.

A run holds all settings that decide its result, and nothing else. Two runs with the same `config_hash` have the same
result, so a sweep skips those that are done.
"""

import functools
import hashlib
import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import pyarrow as pa

from swiftrl_core import backend as backends
from swiftrl_core.backends.pim.binding import hardware_reason
from swiftrl_core.backends.pim.kernels import check_tasklets
from swiftrl_core.data import Dataset
from swiftrl_core.data.environments import Environment
from swiftrl_core.learner import BEYOND_THE_PAPER, Learner
from swiftrl_core.sweeps import manifest, results
from swiftrl_core.sweeps.job import alone_on, taken_alone
from swiftrl_core.sweeps.row import (
    data_columns,
    file_sha256,
    load_dataset,
    quality_columns,
    resolve,
    training_columns,
)
from swiftrl_core.sweeps.settings import (
    FROM_THE_DATA,
    LEARNER,
    LearnerSettings,
    checked,
    checks,
    one_of,
    path,
    to_json,
    whole,
)
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError

SIMULATED_DPUS = "simulated_dpus"  # an option of `pim` that `train` takes, not its backend


@dataclass(frozen=True, kw_only=True)
class Run(LearnerSettings):
    """A run: data, learner, schedule, backend and evaluation; complete, checked, in a canonical form.

    Parameters
    ----------
    environment : str
        A name for `environments.resolve`; kept as the short name if there is one.
    environment_options : mapping
        Arguments of the environment, JSON values.
    data : str, optional
        A file with the data set; by default it is collected.
    data_sha256 : str, optional
        Checksum of that file, by default read from it. The run refuses a file with another checksum.
    transitions : int, optional
        Rows to collect, or rows to use of the file, from its start; by default 100,000, or all of the file.
    data_seed : int, optional
        Seed of the collection; by default `seed`, so that a grid over seeds also varies the data set.
    **learner
        The fields of `Learner`. A number that the learner does not use becomes None: `epsilon` in Q-learning, `alpha`
        in a falling schedule.
    cores, episodes, tau, seed : int
        See `Schedule`; `tau` is at most `episodes`.
    backend : str
        A name of `backends.BACKENDS`.
    backend_options : mapping
        Keyword arguments of the backend, JSON values; for `pim` also `simulated_dpus` (see `training.train`), which has
        no meaning on hardware, where all DPUs run.
    hardware : bool
        Require UPMEM hardware for backend `pim`; without it the run fails instead of being simulated.
    monte_carlo_episodes : int
        Episodes to play in addition to the exact evaluation; 0 for none.
    evaluation_seed : int
        Seed of these episodes.
    ties : str
        `lowest` or `mean`, see `evaluation.greedy_policy`.

    Raises
    ------
    SwiftRLError
        If a value is of the wrong type or out of range, or values do not fit together.
    """

    kind_of_run: ClassVar[str] = "training"
    columns: ClassVar[pa.Schema] = results.COLUMNS

    environment: str = "frozenlake"
    environment_options: Mapping[str, Any] = field(default_factory=dict)
    data: str | None = checked(None, path)
    data_sha256: str | None = None
    transitions: int | None = checked(None, whole(1))
    data_seed: int | None = None
    cores: int = checked(64, whole(1))
    episodes: int = checked(2000, whole(1))
    tau: int = checked(50, whole(1))
    seed: int = 0
    backend: str = "pim"
    backend_options: Mapping[str, Any] = field(default_factory=dict)
    hardware: bool = False
    monte_carlo_episodes: int = 1000
    evaluation_seed: int = 0
    ties: str = checked("lowest", one_of("lowest", "mean"))

    def __post_init__(self) -> None:
        for entry in fields(self):
            object.__setattr__(self, entry.name, check_value(entry.name, getattr(self, entry.name)))
        self._settle(environment=self._environment.name, **self._settled_data())
        learner = self.learner()
        self._settle(**self._settled_learner(learner))
        _check_schedule(self)
        _check_backend(self, learner)
        backends.check_learner(self.backend, learner)
        if self.monte_carlo_episodes == 1:
            raise SwiftRLError(
                "monte_carlo_episodes is 1: a standard error needs 2 or more, and 0 plays none"
            )

    @cached_property
    def config(self) -> dict[str, Any]:
        """The settings as a row's columns: plain values, options as JSON; the data's content, not its path."""
        settings = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "data"}
        options = {name: to_json(settings[name]) for name in ("environment_options", "backend_options")}
        return settings | options

    @cached_property
    def config_hash(self) -> str:
        """The first 20 hexadecimal digits of the SHA-256 of `config`, without the defaults of `results.LATER`."""
        later = results.LATER.items()
        named = {name: value for name, value in self.config.items() if (name, value) not in later}
        for name, values in results.RENAMED.items():
            named[name] = {new: old for old, new in values.items()}.get(named[name], named[name])
        return hashlib.sha256(to_json(named).encode()).hexdigest()[:20]

    @property
    def label(self) -> str:
        """A description that distinguishes the run from its neighbours."""
        beyond = [
            getattr(self, name) for name, paper in BEYOND_THE_PAPER.items() if getattr(self, name) != paper
        ]
        learner = " ".join([self.algorithm, self.sampling, self.number_format, *beyond])
        size = f"{self.cores:,} cores, tau {self.tau}, seed {self.seed}"
        return f"{self.environment} {self.transitions or 'all'} rows, {learner}, {size}, {self.backend}"

    @property
    def group(self) -> tuple[str, str]:
        """Environment and backend."""
        return self.environment, self.backend

    @property
    def data_key(self) -> tuple:
        """All that the data set depends on: runs with the same key learn from the same data."""
        options = to_json(self.environment_options)
        return self.environment, options, self.data, self.data_sha256, self.transitions, self.data_seed

    @property
    def updates(self) -> int:
        """Nominal updates; a guess if all of a file is read."""
        return (self.transitions or 100_000) * self.episodes

    @property
    def device(self) -> str | None:
        """The device of the backend, `gpu` or `pim`, or None for the host's processor."""
        return backends.registered(self.backend).device

    def missing(self) -> str | None:
        """Return why it cannot run on this host, as a sentence, or None."""
        if self.hardware:
            reason = hardware_reason()
            return reason and f"this run requires UPMEM hardware, and none can be used here: {reason}"
        return backends.missing(self.backend)

    def run(self, workers: int = 1) -> dict[str, Any]:
        """Train and evaluate; return the row, with every column of `results.COLUMNS`.

        Parameters
        ----------
        workers : int
            Number of concurrent runs on this host; recorded, because they slow each other down.

        Raises
        ------
        SwiftRLError
            If it cannot run here, or the Q-table holds a NaN.
        """
        environment, dataset = self._environment, self.dataset()
        with alone_on(taken_alone(self)):
            if reason := self.missing():
                raise SwiftRLError(reason)
            start = time.perf_counter()
            result = train(dataset, self.learner(), self.schedule(), self.backend, **_options_here(self))
            wall_seconds = time.perf_counter() - start
        return (
            self.config
            | {
                "config_hash": self.config_hash,
                "env_id": environment.env_id,
                "transitions": len(dataset),
                "wall_seconds": wall_seconds,
                "workers": workers,
            }
            | data_columns(environment, dataset, self.cores)
            | quality_columns(environment, result.q_table, self)
            | training_columns(self, result, len(dataset))
            | manifest.provenance()
        )

    def small(self, times: int) -> "Run":
        """Return the run with at most `times` episodes, for an estimate."""
        return replace(self, episodes=min(times, self.episodes), tau=min(times, self.tau))

    def dataset(self) -> Dataset:
        """Return the data set, which successive runs with the same `data_key` share."""
        return load_dataset(*self.data_key)

    def learner(self) -> Learner:
        """Return the learner, with the environment's range of rewards."""
        given = {name: value for name in LEARNER if (value := getattr(self, name)) is not None}
        return Learner(**given, **{FROM_THE_DATA: self._environment.reward_range})

    def schedule(self) -> Schedule:
        """Return the schedule."""
        return Schedule(self.cores, self.episodes, self.tau, self.seed)

    @property
    def _environment(self) -> Environment:
        return resolve(self.environment, to_json(self.environment_options))

    def _settled_learner(self, learner: Learner) -> dict[str, Any]:
        """Return the learner's settings as the learner has them, and None for those it ignores."""
        settled = {name: getattr(learner, name) for name in LEARNER}
        for name, value in settled.items():
            if getattr(self, name) is None and name not in learner.without_effect:
                raise SwiftRLError(f"{name} is missing: this learner needs a number, such as {value}")
        return settled | dict.fromkeys(learner.without_effect)

    def _settled_data(self) -> dict[str, Any]:
        """Return the settings about the data with their defaults."""
        if self.data is None:
            if self.data_sha256 is not None:
                raise SwiftRLError("data_sha256 is given without data: also name the file")
            return {
                "transitions": 100_000 if self.transitions is None else self.transitions,
                "data_seed": self.seed if self.data_seed is None else self.data_seed,
            }
        if self.data_seed is not None:
            raise SwiftRLError(f"data_seed does not apply to the file {self.data}: drop one of the two")
        return {"data_sha256": self.data_sha256 or file_sha256(self.data)}

    def _settle(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


def check_value(name: str, value: Any) -> Any:
    """Return the value of a run's setting in its plain form: NumPy scalars and whole floats as Python's own types.

    Raises
    ------
    SwiftRLError
        If a run has no such setting, or the value is not of its type.
    """
    check_name(name)
    return _CHECKS[name](name, value)


def check_name(name: str) -> None:
    """Raise `SwiftRLError` if a run has no such setting."""
    if name not in _CHECKS:
        raise SwiftRLError(f"{name} is not a setting of a run: choose from {', '.join(_CHECKS)}")


_CHECKS = MappingProxyType(checks(Run))


def _options_here(run: Run) -> dict[str, Any]:
    """Return the backend's options; on UPMEM hardware without those of the simulator."""
    options = dict(run.backend_options)
    if run.backend == "pim" and hardware_reason() is None:
        options.pop(SIMULATED_DPUS, None)
    return options


def _check_schedule(run: Run) -> None:
    if run.tau > run.episodes:
        raise SwiftRLError(
            f"tau is {run.tau}, more than the {run.episodes} episodes: a round has at most all episodes"
        )
    if run.transitions is not None and run.cores > run.transitions:
        raise SwiftRLError(
            f"{run.cores:,} cores for {run.transitions:,} transitions: use fewer cores, or more transitions"
        )


def _check_backend(run: Run, learner: Learner) -> None:
    """Raise the errors of the backend without opening it."""
    known = _backend_options(run.backend)
    for name in run.backend_options:
        if name not in known:
            offered = f"its options are {', '.join(sorted(known))}" if known else "it has none"
            raise SwiftRLError(f"backend {run.backend} has no option {name!r}: {offered}")
    if run.backend_options.get(SIMULATED_DPUS, "all") != "all":
        whole_number(run.backend_options[SIMULATED_DPUS], SIMULATED_DPUS, 1, run.cores)
    if run.backend == "pim":
        check_tasklets(learner, run.backend_options.get("tasklets", 1))
    if run.hardware and run.backend != "pim":
        raise SwiftRLError(f"hardware does not apply to backend {run.backend}: drop it, or use backend pim")


@functools.cache
def _backend_options(backend: str) -> frozenset[str]:
    parameters = inspect.signature(backends.module(backend).open_backend).parameters.values()
    options = frozenset(entry.name for entry in parameters if entry.kind == entry.KEYWORD_ONLY)
    return options | {SIMULATED_DPUS} if backend == "pim" else options
