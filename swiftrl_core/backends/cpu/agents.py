"""Independent agents on the host's own cores: in vector lanes where all take the same steps, else one by one."""

import ctypes
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from swiftrl_core.backend import Evidence, Population, Problem, TrainedAgents
from swiftrl_core.backends.cpu.backend import FOLDER, available, headers
from swiftrl_core.learner import Algorithm, Sampling
from swiftrl_core.util import toolchain
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.toolchain import INT32, INT64, POINTER, available_threads, load_library

__all__ = ["available", "compile_lanes", "in_lanes", "train"]


def train(population: Population, *, threads: int | None = None) -> TrainedAgents:
    """Train all agents from tables of zeros; times are measured.

    The machine's `core_s` is the computing time of all threads together: the time on one core, whatever else runs on
    this machine.

    Parameters
    ----------
    population : Population
    threads : int, optional
        At least 1; by default as many as the process may use.

    Raises
    ------
    SwiftRLError
        If threads is not a whole number of at least 1.
    MemoryError
        If there is no memory for the tables a thread works on.
    """
    threads = available_threads() if threads is None else whole_number(threads, "threads", 1)
    run = _in_lanes if in_lanes(population) else _one_by_one
    tables = np.empty((population.agents, population.problem.entries), population.problem.learner.dtype)
    seconds, lanes = run(population, tables, threads)
    machine = {
        "name": "this host's CPU",
        "compiler": f"zig {toolchain.compiler_version()}",
        "threads": threads,
        "lanes": lanes,
        "core_s": seconds.core_s,
    }
    return TrainedAgents(tables, 0.0, seconds.wall_s, 0.0, evidence=Evidence.MEASURED, machine=machine)


def in_lanes(population: Population) -> bool:
    """Return whether the agents stay in step: one stream, and no draw that sends one of them its own way."""
    learner = population.problem.learner
    in_step = learner.algorithm == Algorithm.Q_LEARNING and learner.sampling != Sampling.RAN
    return in_step and population.shares_data and population.agents > 1


def compile_lanes(problem: Problem, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Return agents.c built for a problem; `flags` are more compiler flags."""
    functions = {
        "lanes": (INT64, []),
        "team": (INT64, []),
        "train_vectors": (INT32, [POINTER, INT64, POINTER, POINTER, INT64, INT64, INT64]),
    }
    return _load("agents.c", functions, problem, flags)


def _load(source: str, functions: dict, problem: Problem, flags: Sequence[str] = ()) -> ctypes.CDLL:
    return load_library([FOLDER / source], functions, headers(), defines=problem.switches, flags=flags)


@dataclass(frozen=True)
class _Seconds:
    """Seconds on the clock, and seconds of computing added up over threads."""

    wall_s: float
    core_s: float


def _in_lanes(population: Population, tables: np.ndarray, threads: int) -> tuple[_Seconds, int]:
    """Fill the tables; return the seconds and the agents in a vector."""
    engine = compile_lanes(population.problem)
    vectors = -(-population.agents // engine.lanes())
    records, args = (np.ascontiguousarray(array) for array in (population.records, population.args))

    def work(first: int, last: int) -> None:
        if engine.train_vectors(
            records.ctypes.data,
            len(records),
            args.ctypes.data,
            tables.ctypes.data,
            population.agents,
            first,
            last,
        ):
            raise MemoryError("no memory for the tables of one thread of the cpu backend")

    return _timed(work, vectors, engine.team(), threads), engine.lanes()


def _one_by_one(population: Population, tables: np.ndarray, threads: int) -> tuple[_Seconds, int]:
    """Fill the tables; return the seconds and 1, the agents that learn in step."""
    functions = {"train_agents": (None, [POINTER] * 4 + [INT64] * 2)}
    engine = _load("agents_alone.c", functions, population.problem)
    given = (population.records, population.starts, population.args)
    arrays = [*map(np.ascontiguousarray, given), tables]
    pointers = [array.ctypes.data for array in arrays]

    def work(first: int, last: int) -> None:
        engine.train_agents(*pointers, first, last)

    return _timed(work, population.agents, 1, threads), 1


def _timed(work: Callable[[int, int], None], items: int, unit: int, threads: int) -> _Seconds:
    """Have threads do work(first, last) over all items, `unit` at a time; return the seconds."""

    def part(first: int) -> float:
        start = time.thread_time()
        work(first, min(first + unit, items))
        return time.thread_time() - start

    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        core_s = sum(pool.map(part, range(0, items, unit)))
        return _Seconds(time.perf_counter() - start, core_s)
