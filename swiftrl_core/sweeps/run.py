"""A cell: one run as data, with a name made of its content, and the row it becomes.

Everything that decides a result stands in the cell, and nothing else. Two cells with the same `config_hash` are the
same run, wherever and whenever they are made; that is what lets a sweep skip what is done.
"""

import functools
import hashlib
import inspect
import json
import math
import numbers
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from swiftrl_core import backend as backends
from swiftrl_core.backends.exact import empirical_fixed_point
from swiftrl_core.backends.pim.binding import hardware_reason
from swiftrl_core.backends.pim.kernels import check_tasklets
from swiftrl_core.data import datasets, environments, evaluation
from swiftrl_core.data.datasets import Dataset
from swiftrl_core.data.environments import Environment
from swiftrl_core.learner import (
    BEYOND_THE_PAPER,
    CHOICES,
    Aggregation,
    Algorithm,
    AlphaSchedule,
    Bootstrap,
    Learner,
    NumberFormat,
    Sampling,
    Update,
)
from swiftrl_core.sweeps import manifest, results
from swiftrl_core.sweeps.job import alone_on, taken_alone
from swiftrl_core.training.loop import Schedule, TrainingResult, train
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import sha256_file

RECORD_BYTES = 8  # of a transition on its way to a core: layout.h
SAMPLE = "simulated_dpus"  # an option of `pim` that `train` takes, not its backend
DISTRIBUTED = frozenset(("pim", "cpu", "gpu"))
"""Backends whose cores hold chunks and tables of their own, so that communication is defined."""


@dataclass(frozen=True)
class Run:
    """One run: data, learner, schedule, backend, evaluation; complete, checked, and brought to one form.

    Parameters
    ----------
    environment : str
        A name that `environments.resolve` knows; kept as the short name where there is one.
    environment_options : mapping
        Arguments of the environment, JSON values.
    data : str, optional
        A file with the data set; by default it is collected.
    data_sha256 : str, optional
        Checksum of that file; read from the file where it is not given. The run refuses a file with another.
    transitions : int, optional
        Rows to collect, or rows to use of the file, from its start; by default 100,000, or all of the file.
    data_seed : int, optional
        Seeds the collection; by default `seed`, so that a grid over seeds runs over data sets, too.
    algorithm, sampling, number_format, aggregation, update, alpha_schedule, bootstrap, alpha, gamma, epsilon
        See `Learner`. What has no meaning is set to None: `epsilon` in Q-learning, `alpha` in a falling schedule.
    cores, episodes, tau, seed : int
        See `Schedule`; `tau` is at most `episodes`.
    backend : str
        A name of `backends.BACKENDS`.
    backend_options : mapping
        Keyword arguments of the backend, JSON values; for `pim` also `simulated_dpus` (see `training.train`), which has
        no meaning on hardware, where all DPUs run.
    hardware : bool
        The `pim` backend must run on UPMEM hardware; without it the run fails, where otherwise it would be simulated.
    monte_carlo_episodes : int
        Episodes to play beside the exact evaluation; 0 for none.
    evaluation_seed : int
        Seeds these episodes.
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
    data: str | None = None
    data_sha256: str | None = None
    transitions: int | None = None
    data_seed: int | None = None
    algorithm: Algorithm = Algorithm.Q_LEARNING
    sampling: Sampling = Sampling.SEQ
    number_format: NumberFormat = NumberFormat.FP32
    aggregation: Aggregation = Aggregation.MEAN
    update: Update = Update.TD
    alpha_schedule: AlphaSchedule = AlphaSchedule.CONSTANT
    bootstrap: Bootstrap = Bootstrap.CURRENT
    alpha: float | None = 0.1
    gamma: float = 0.95
    epsilon: float | None = 0.1
    cores: int = 64
    episodes: int = 2000
    tau: int = 50
    seed: int = 0
    backend: str = "pim"
    backend_options: Mapping[str, Any] = field(default_factory=dict)
    hardware: bool = False
    monte_carlo_episodes: int = 1000
    evaluation_seed: int = 0
    ties: str = "lowest"

    def __post_init__(self) -> None:
        for entry in fields(self):
            object.__setattr__(self, entry.name, check_value(entry.name, getattr(self, entry.name)))
        environment = _environment(self.environment, _json(self.environment_options))
        learner = self._learner(environment)
        self._settle(
            environment=environment.name,
            **{name: getattr(learner, name) for name in CHOICES},
            alpha=None if learner.decaying_alpha else self.alpha,
            epsilon=self.epsilon if learner.algorithm == Algorithm.SARSA else None,
            **self._settled_data(),
        )
        _check_schedule(self)
        _check_backend(self, learner)
        backends.check_learner(self.backend, learner)
        if self.alpha is None and not learner.decaying_alpha:
            raise SwiftRLError("alpha is missing: a constant learning rate needs a number, such as 0.1")
        if learner.algorithm == Algorithm.SARSA and self.epsilon is None:
            raise SwiftRLError("epsilon is missing: sarsa needs a probability of a random next action")
        if self.monte_carlo_episodes == 1:
            raise SwiftRLError(
                "monte_carlo_episodes is 1: a standard error needs 2 or more, and 0 plays none"
            )

    @cached_property
    def config(self) -> dict[str, Any]:
        """The settings as a row's columns: plain values, options as JSON; the data's content, not its path."""
        settings = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "data"}
        options = {name: _json(settings[name]) for name in ("environment_options", "backend_options")}
        return settings | options

    @cached_property
    def config_hash(self) -> str:
        """The first 20 hexadecimal digits of the SHA-256 of `config`, without what `results.LATER` takes as given."""
        later = results.LATER.items()
        named = {name: value for name, value in self.config.items() if (name, value) not in later}
        for name, values in results.RENAMED.items():
            named[name] = {new: old for old, new in values.items()}.get(named[name], named[name])
        return hashlib.sha256(_json(named).encode()).hexdigest()[:20]

    @property
    def label(self) -> str:
        """What a person needs to tell the cell from its neighbours."""
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
        """What the data set depends on: cells with the same key learn from the same data."""
        options = _json(self.environment_options)
        return self.environment, options, self.data, self.data_sha256, self.transitions, self.data_seed

    @property
    def rows_to_collect(self) -> int:
        """Transitions of the data set, where it is not a file."""
        return 0 if self.data else self.transitions

    @property
    def updates(self) -> int:
        """Updates to make; a guess where all of a file is read."""
        return (self.transitions or 100_000) * self.episodes

    @property
    def device(self) -> str | None:
        """What the backend runs on, if not on the host's own processor: `gpu`, `pim`, or None."""
        family = self.backend.split("-")[0]
        return family if family in ("gpu", "pim") else None

    def missing(self) -> str | None:
        """Return why the cell cannot run on this host, as a sentence, or None."""
        if self.hardware:
            reason = hardware_reason()
            return reason and f"the cell asks for UPMEM hardware, and none can be used here: {reason}"
        reason = backends.module(self.backend).available()
        return reason and f"backend {self.backend} is not available here: {reason}"

    def run(self, workers: int = 1) -> dict[str, Any]:
        """Train and evaluate; return the row, with every column of `results.COLUMNS`.

        Parameters
        ----------
        workers : int
            Runs under way on this host at once; recorded, for they slow each other's measured times down.

        Raises
        ------
        SwiftRLError
            If the cell cannot run here, or its table is not a number.
        """
        environment = _environment(self.environment, _json(self.environment_options))
        dataset = self.dataset()
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
            | _data_columns(environment, dataset, self.cores)
            | _quality_columns(environment, result.q_table, self)
            | _training_columns(self, result, len(dataset))
            | manifest.provenance()
        )

    def dataset(self) -> Dataset:
        """Return the data set; made once for all cells with the same `data_key` that follow each other."""
        return load_dataset(*self.data_key)

    def learner(self) -> Learner:
        """Return the learner, with the environment's range of rewards."""
        return self._learner(_environment(self.environment, _json(self.environment_options)))

    def schedule(self) -> Schedule:
        """Return the schedule."""
        return Schedule(self.cores, self.episodes, self.tau, self.seed)

    def _learner(self, environment: Environment) -> Learner:
        return Learner(
            self.algorithm,
            self.sampling,
            self.number_format,
            Learner.alpha if self.alpha is None else self.alpha,
            self.gamma,
            0.0 if self.epsilon is None else self.epsilon,
            environment.reward_range,
            self.aggregation,
            self.update,
            self.alpha_schedule,
            self.bootstrap,
        )

    def _settled_data(self) -> dict[str, Any]:
        """Return what the fields about the data come to."""
        if self.data is None:
            if self.data_sha256 is not None:
                raise SwiftRLError("data_sha256 is given without data: name the file, too")
            return {
                "transitions": 100_000 if self.transitions is None else self.transitions,
                "data_seed": self.seed if self.data_seed is None else self.data_seed,
            }
        if self.data_seed is not None:
            raise SwiftRLError(f"data_seed does not apply to the file {self.data}: drop one of the two")
        return {"data_sha256": self.data_sha256 or _file_sha256(self.data)}

    def _settle(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


def check_value(name: str, value: Any) -> Any:
    """Return a cell's setting in its plain form: NumPy scalars and whole floats as Python's own types.

    Raises
    ------
    SwiftRLError
        If the cell has no such setting, or the value is not of its type.
    """
    check_name(name)
    if value is None and name in _OPTIONAL:
        return None
    return _CHECKS[name](name, value)


def check_name(name: str) -> None:
    """Raise `SwiftRLError` if a cell has no such setting."""
    if name not in _CHECKS:
        raise SwiftRLError(f"{name} is not a setting of a cell: choose from {', '.join(_CHECKS)}")


def _options_here(cell: Run) -> dict[str, Any]:
    """Return the backend's options, without those that are only for the simulator where DPUs are at hand."""
    options = dict(cell.backend_options)
    if cell.backend == "pim" and hardware_reason() is None:
        options.pop(SAMPLE, None)
    return options


# --- settings ---------------------------------------------------------------------------------------------


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise SwiftRLError(f"{name} is {value!r}: give a name")
    return value


def _path(name: str, value: Any) -> str:
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise SwiftRLError(f"{name} is {value!r}: give the path of a file")
    return str(value)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        if isinstance(value, str) and _is_number(value):
            raise SwiftRLError(f"{name} is the text {value!r}: write the number {float(value)!r}")
        raise SwiftRLError(f"{name} is {value!r}: give a number")
    if not math.isfinite(value):
        raise SwiftRLError(f"{name} is {value!r}: give a finite number")
    return float(value)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _whole(least: int):
    return lambda name, value: whole_number(value, name, least, 2**63 - 1)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise SwiftRLError(f"{name} is {value!r}: give true or false")
    return bool(value)


def _options(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise SwiftRLError(f"{name} is {value!r}: give options by name")
    return json.loads(_json(dict(value), name))


def _one_of_ties(name: str, value: Any) -> str:
    if value not in ("lowest", "mean"):
        raise SwiftRLError(f"{name} is {value!r}: choose lowest or mean")
    return value


_CHECKS = MappingProxyType(
    {
        "environment": _text,
        "environment_options": _options,
        "data": _path,
        "data_sha256": _text,
        "transitions": _whole(1),
        "data_seed": _whole(0),
        "algorithm": _text,
        "sampling": _text,
        "number_format": _text,
        "aggregation": _text,
        "update": _text,
        "alpha_schedule": _text,
        "bootstrap": _text,
        "alpha": _number,
        "gamma": _number,
        "epsilon": _number,
        "cores": _whole(1),
        "episodes": _whole(1),
        "tau": _whole(1),
        "seed": _whole(0),
        "backend": _text,
        "backend_options": _options,
        "hardware": _flag,
        "monte_carlo_episodes": _whole(0),
        "evaluation_seed": _whole(0),
        "ties": _one_of_ties,
    }
)
_OPTIONAL = frozenset(("data", "data_sha256", "transitions", "data_seed", "alpha", "epsilon"))


def _check_schedule(cell: Run) -> None:
    if cell.tau > cell.episodes:
        raise SwiftRLError(
            f"tau is {cell.tau}, more than the {cell.episodes} episodes: a round has at most all episodes"
        )
    if cell.transitions is not None and cell.cores > cell.transitions:
        raise SwiftRLError(
            f"{cell.cores:,} cores for {cell.transitions:,} transitions: use fewer cores, or more transitions"
        )


def _check_backend(cell: Run, learner: Learner) -> None:
    """Refuse what the backend would refuse, without opening it."""
    known = _backend_options(cell.backend)
    for name in cell.backend_options:
        if name not in known:
            offered = f"its options are {', '.join(sorted(known))}" if known else "it has none"
            raise SwiftRLError(f"backend {cell.backend} has no option {name!r}: {offered}")
    if cell.backend_options.get(SAMPLE, "all") != "all":
        whole_number(cell.backend_options[SAMPLE], SAMPLE, 1, cell.cores)
    if cell.backend == "pim":
        check_tasklets(learner, cell.backend_options.get("tasklets", 1))
    if cell.hardware and cell.backend != "pim":
        raise SwiftRLError(f"hardware does not apply to backend {cell.backend}: drop it, or use backend pim")


@functools.cache
def _backend_options(backend: str) -> frozenset[str]:
    parameters = inspect.signature(backends.module(backend).open_backend).parameters.values()
    own = frozenset(entry.name for entry in parameters if entry.kind == entry.KEYWORD_ONLY)
    return own | {SAMPLE} if backend == "pim" else own


def _json(value: Any, name: str = "the configuration") -> str:
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise SwiftRLError(f"{name} must hold plain JSON values: {error}") from error


# --- what cells have in common: computed once in a process, for a sweep asks again and again ---------------


@functools.lru_cache(maxsize=64)
def _environment(name: str, options: str) -> Environment:
    return environments.resolve(name, **json.loads(options))


@functools.lru_cache(maxsize=2)  # a data set of the paper's size takes 110 MB
def load_dataset(
    name: str, options: str, data: str | None, sha256: str | None, transitions: int | None, seed: int | None
) -> Dataset:
    """Return the data set that a `Run.data_key` names."""
    environment = _environment(name, options)
    if data is None:
        return datasets.collect(environment, transitions, seed)
    if _file_sha256(data) != sha256:
        raise SwiftRLError(f"{data} is not the file it was when the cell was made: plan the sweep again")
    dataset = datasets.open_data(data, environment)
    return dataset if transitions is None else dataset.rows(0, transitions)


def _file_sha256(path: str) -> str:
    try:
        status = os.stat(path)
        return _sha256_of_version(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise SwiftRLError(f"cannot read {path}: {error.strerror or error}") from error


@functools.lru_cache(maxsize=64)
def _sha256_of_version(path: str, _modified: int, _size: int) -> str:
    return sha256_file(path)


@functools.lru_cache(maxsize=8)
def _empirical_q(data_key: tuple, gamma: float) -> np.ndarray:
    """Return the fixed point of Q-learning on a data set."""
    return empirical_fixed_point(load_dataset(*data_key), gamma)


@functools.lru_cache(maxsize=64)
def _optimal_q(name: str, options: str, gamma: float) -> np.ndarray | None:
    """Return Q*, or None where it is not defined: at gamma 1, or where P is not exact."""
    environment = _environment(name, options)
    if gamma == 1 or environment.inexact:
        return None
    return evaluation.value_iteration(environment, gamma)


@functools.lru_cache(maxsize=64)
def _meetable(name: str, options: str) -> np.ndarray:
    """Return which states an episode can be in with an action still to take, (S,) bool.

    Taxi's table has states that no episode reaches; no learner is to blame for their values.
    """
    environment = _environment(name, options)
    goes_on = (environment.probability > 0) & ~environment.terminated
    reached = environment.start > 0
    while True:
        following = reached.copy()
        following[environment.next_state[reached][goes_on[reached]]] = True
        if np.array_equal(following, reached):
            return reached
        reached = following


# --- columns of a row -------------------------------------------------------------------------------------


def _data_columns(environment: Environment, dataset: Dataset, cores: int) -> dict[str, Any]:
    """Say what the data and each core's chunk hold."""
    pairs = environment.n_states * environment.n_actions
    meetable = _meetable(environment.name, _json(environment.kwargs)).sum() * environment.n_actions
    pair = dataset.state.astype(np.int64) * environment.n_actions + dataset.action
    rows = len(dataset)
    short, longer = divmod(rows, cores)
    lengths = np.where(np.arange(cores) < longer, short + 1, short)
    chunk = np.repeat(np.arange(cores), lengths)
    seen = np.zeros((cores, pairs), bool)
    seen[chunk, pair] = True
    paid = np.zeros(cores, bool)
    paid[chunk[dataset.reward > 0]] = True
    return {
        "coverage": float(seen.any(axis=0).sum() / meetable),
        "chunk_coverage": float(seen.sum() / (cores * meetable)),
        "chunks_without_positive_reward": int(cores - paid.sum()),
    }


def _quality_columns(environment: Environment, q: np.ndarray, cell: Run) -> dict[str, Any]:
    """Say how good the learned table is."""
    options = _json(cell.environment_options)
    optimal = _optimal_q(cell.environment, options, cell.gamma)
    empirical = None if cell.gamma == 1 else _empirical_q(cell.data_key, cell.gamma)
    mean = error = None
    if cell.monte_carlo_episodes:
        mean, error = evaluation.monte_carlo_return(
            environment, q, episodes=cell.monte_carlo_episodes, seed=cell.evaluation_seed
        )
    exact = environment.inexact is None
    states = _meetable(cell.environment, options)
    return {
        "exact_return": evaluation.exact_return(environment, q, cell.ties) if exact else None,
        "optimum": None if optimal is None else _optimum(cell.environment, options, cell.gamma, cell.ties),
        "monte_carlo_mean": mean,
        "monte_carlo_standard_error": error,
        **_errors("optimal", q, optimal, states),
        **_errors("empirical", q, empirical, states),
    }


@functools.lru_cache(maxsize=64)
def _optimum(name: str, options: str, gamma: float, ties: str) -> float:
    return evaluation.exact_return(_environment(name, options), _optimal_q(name, options, gamma), ties)


def _errors(
    against: str, q: np.ndarray, target: np.ndarray | None, states: np.ndarray
) -> dict[str, float | None]:
    names = f"max_error_{against}", f"mean_error_{against}"
    if target is None:
        return dict.fromkeys(names)
    error = np.abs(q - target)[states]
    return dict(zip(names, (float(error.max()), float(error.mean())), strict=True))


def _training_columns(cell: Run, result: TrainingResult, rows: int) -> dict[str, Any]:
    """Say what was done, how long it took, and on what."""
    times = asdict(result.breakdown)
    machine = result.machine
    down, up = result.round_bytes_down, result.round_bytes_up
    total = RECORD_BYTES * rows + result.rounds * (down + up)
    distributed = cell.backend in DISTRIBUTED
    simulated = result.breakdown.evidence == backends.Evidence.SIMULATED
    return {
        "q_sha256": hashlib.sha256(np.ascontiguousarray(result.q_raw)).hexdigest(),
        "nominal_updates": rows * cell.episodes,
        "executed_updates": result.executed_updates,
        "rounds": result.rounds,
        "round_bytes_down": down if distributed else None,
        "round_bytes_up": up if distributed else None,
        "bytes_communicated": total if distributed else None,
        **{name: times[name] for name in (*results.PARTS, "host_averaging")},
        "evidence": str(result.breakdown.evidence),
        "simulated_dpus": machine.get("simulated_dpus", cell.cores) if simulated else None,
        "hardware_profile": machine.get("hardware"),
        "model_version": _text_or_none(machine.get("model_version")),
        "machine": machine["name"],
        "machine_details": _json(machine),
    }


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
