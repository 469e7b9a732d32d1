"""The columns of a training run's row: its data, the quality of its table, its updates and its times.

What runs have in common, a data set or an exact solution, is computed once in a process.
"""

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from swiftrl_core import backend as backends
from swiftrl_core.backends.exact import empirical_fixed_point
from swiftrl_core.data import Dataset, collect, environments, evaluation, open_data
from swiftrl_core.data.environments import Environment
from swiftrl_core.learner.chunks import lengths
from swiftrl_core.sweeps import results
from swiftrl_core.sweeps.settings import to_json
from swiftrl_core.training.loop import TrainingResult
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import opened, sha256_file

RECORD_BYTES = 8  # of a transition on its way to a core: layout.h


class Settings(Protocol):
    """The settings of a run that the columns of its row depend on; see `Run`."""

    environment: str
    environment_options: Mapping[str, Any]
    data_key: tuple
    gamma: float
    cores: int
    episodes: int
    backend: str
    monte_carlo_episodes: int
    evaluation_seed: int
    ties: str


def data_columns(environment: Environment, dataset: Dataset, cores: int) -> dict[str, Any]:
    """Return what the data and each core's chunk hold."""
    pairs = environment.n_states * environment.n_actions
    reachable = _reachable(environment.name, to_json(environment.kwargs)).sum() * environment.n_actions
    pair = dataset.state.astype(np.int64) * environment.n_actions + dataset.action
    chunk = np.repeat(np.arange(cores), lengths(len(dataset), cores))
    seen = np.zeros((cores, pairs), bool)
    seen[chunk, pair] = True
    paid = np.zeros(cores, bool)
    paid[chunk[dataset.reward > 0]] = True
    return {
        "coverage": float(seen.any(axis=0).sum() / reachable),
        "chunk_coverage": float(seen.sum() / (cores * reachable)),
        "chunks_without_positive_reward": int(cores - paid.sum()),
    }


def quality_columns(environment: Environment, q: np.ndarray, run: Settings) -> dict[str, Any]:
    """Return how good the learned table is; `q` is float32, shape (n_states, n_actions)."""
    options = to_json(run.environment_options)
    optimal = _optimal_q(run.environment, options, run.gamma)
    empirical = None if run.gamma == 1 else _empirical_q(run.data_key, run.gamma)
    mean = error = None
    if run.monte_carlo_episodes:
        mean, error = evaluation.monte_carlo_return(
            environment, q, episodes=run.monte_carlo_episodes, seed=run.evaluation_seed
        )
    exact = environment.inexact is None
    states = _reachable(run.environment, options)
    return {
        "exact_return": evaluation.exact_return(environment, q, run.ties) if exact else None,
        "optimum": None if optimal is None else _optimum(run.environment, options, run.gamma, run.ties),
        "monte_carlo_mean": mean,
        "monte_carlo_standard_error": error,
        **_errors("optimal", q, optimal, states),
        **_errors("empirical", q, empirical, states),
    }


@functools.lru_cache(maxsize=64)
def _optimum(name: str, options: str, gamma: float, ties: str) -> float:
    return evaluation.exact_return(resolve(name, options), _optimal_q(name, options, gamma), ties)


def _errors(
    against: str, q: np.ndarray, target: np.ndarray | None, states: np.ndarray
) -> dict[str, float | None]:
    names = f"max_error_{against}", f"mean_error_{against}"
    if target is None:
        return dict.fromkeys(names)
    error = np.abs(q - target)[states]
    return dict(zip(names, (float(error.max()), float(error.mean())), strict=True))


def training_columns(run: Settings, result: TrainingResult, rows: int) -> dict[str, Any]:
    """Return what was done, how long it took, and on what; `rows` is the data set's length."""
    times = asdict(result.breakdown)
    machine = result.machine
    down, up = result.round_bytes_down, result.round_bytes_up
    total = RECORD_BYTES * rows + result.rounds * (down + up)
    distributed = backends.registered(run.backend).own_memories
    simulated = result.breakdown.evidence == backends.Evidence.SIMULATED
    return {
        "q_sha256": hashlib.sha256(np.ascontiguousarray(result.q_raw)).hexdigest(),
        "nominal_updates": rows * run.episodes,
        "executed_updates": result.executed_updates,
        "rounds": result.rounds,
        "round_bytes_down": down if distributed else None,
        "round_bytes_up": up if distributed else None,
        "bytes_communicated": total if distributed else None,
        **{name: times[name] for name in (*results.PARTS, "host_averaging")},
        "evidence": str(result.breakdown.evidence),
        "simulated_dpus": machine.get("simulated_dpus", run.cores) if simulated else None,
        "hardware_profile": machine.get("hardware"),
        "model_version": _text_or_none(machine.get("model_version")),
        "machine": machine["name"],
        "machine_details": to_json(machine),
    }


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


# --- computed once in a process ---------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def resolve(name: str, options: str) -> Environment:
    """Return an environment; `options` are its arguments as JSON."""
    return environments.resolve(name, **json.loads(options))


@functools.lru_cache(maxsize=2)  # a data set of the paper's size takes 110 MB
def load_dataset(
    name: str, options: str, data: str | None, sha256: str | None, transitions: int | None, seed: int | None
) -> Dataset:
    """Return the data set that a `Run.data_key` names.

    Raises
    ------
    SwiftRLError
        If the file cannot be read, or is no longer the one with that checksum.
    """
    environment = resolve(name, options)
    if data is None:
        return collect(environment, transitions, seed)
    if file_sha256(data) != sha256:
        raise SwiftRLError(f"{data} is not the file it was when the run was made: plan the sweep again")
    dataset = open_data(data, environment)
    return dataset if transitions is None else dataset.rows(0, transitions)


def file_sha256(path: str) -> str:
    """Return a file's checksum, read again only after the file has changed.

    Raises
    ------
    SwiftRLError
        If the file cannot be read.
    """
    with opened(Path(path)) as stream:
        status = os.fstat(stream.fileno())
    return _sha256_of_version(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _sha256_of_version(path: str, _modified: int, _size: int) -> str:
    return sha256_file(path)


@functools.lru_cache(maxsize=8)
def _empirical_q(data_key: tuple, gamma: float) -> np.ndarray:
    """Return the fixed point of Q-learning on a data set."""
    return empirical_fixed_point(load_dataset(*data_key), gamma)


def forget_data() -> None:
    """Drop the data sets that are kept, and what was computed from them."""
    load_dataset.cache_clear()
    _empirical_q.cache_clear()


@functools.lru_cache(maxsize=64)
def _optimal_q(name: str, options: str, gamma: float) -> np.ndarray | None:
    """Return Q*, or None where it is not defined: at gamma 1, or where P is not exact."""
    environment = resolve(name, options)
    if gamma == 1 or environment.inexact:
        return None
    return evaluation.value_iteration(environment, gamma)


@functools.lru_cache(maxsize=64)
def _reachable(name: str, options: str) -> np.ndarray:
    """Return which states an episode can reach with an action still to take, bool, shape (n_states,).

    Taxi's table has states that no episode reaches; their values do not count against a learner.
    """
    environment = resolve(name, options)
    goes_on = (environment.probability > 0) & ~environment.terminated
    reached = environment.start > 0
    while True:
        following = reached.copy()
        following[environment.next_state[reached][goes_on[reached]]] = True
        if np.array_equal(following, reached):
            return reached
        reached = following
