"""Independent agents on the host's own cores: in lanes where they share a stream (`agents.c`), else one by one."""

import ctypes
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from swiftrl_core import toolchain
from swiftrl_core.backends import Evidence, Problem
from swiftrl_core.checks import whole_number
from swiftrl_core.cpu.backend import FOLDER, available, available_threads, compile_engine
from swiftrl_core.layout import KERNEL_DIRECTORY
from swiftrl_core.learner import Algorithm, Sampling
from swiftrl_core.population import Population, Trained

__all__ = ["available", "compile_lanes", "in_lanes", "train"]


def train(population: Population, *, threads: int | None = None) -> Trained:
    """Train all agents from tables of zeros; times are measured.

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
    kernel_s, lanes = run(population, tables, threads)
    machine = {
        "name": "this host's CPU",
        "compiler": f"zig {toolchain.compiler_version()}",
        "threads": threads,
        "lanes": lanes,
    }
    return Trained(tables, 0.0, kernel_s, 0.0, Evidence.MEASURED, machine)


def in_lanes(population: Population) -> bool:
    """Return whether the agents stay in step: one stream, and no draw that sends one of them its own way."""
    learner = population.problem.learner
    in_step = learner.algorithm == Algorithm.Q_LEARNING and learner.sampling != Sampling.RAN
    return in_step and population.shares_data and population.agents > 1


def compile_lanes(problem: Problem, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Return agents.c built for a problem; `flags` are more compiler flags."""
    switches = problem.learner.switches | {"N_STATES": problem.n_states, "N_ACTIONS": problem.n_actions}
    library = toolchain.compile_shared_library(
        [FOLDER / "agents.c"],
        headers=sorted([*KERNEL_DIRECTORY.glob("*.h"), *FOLDER.glob("*.h")]),
        include_directories=[KERNEL_DIRECTORY],
        flags=[*(f"-D{name}={value}" for name, value in switches.items()), *flags],
    )
    engine = ctypes.CDLL(str(library))
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    engine.lanes.restype = engine.team.restype = count
    engine.train_vectors.argtypes = [pointer, count, pointer, pointer, count, count, count]
    engine.train_vectors.restype = ctypes.c_int
    return engine


def _in_lanes(population: Population, tables: np.ndarray, threads: int) -> tuple[float, int]:
    """Fill the tables; return the seconds it took and the agents in a vector."""
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
            raise MemoryError("no memory for the tables that a thread of the cpu backend works on")

    return _timed(work, vectors, engine.team(), threads), engine.lanes()


def _one_by_one(population: Population, tables: np.ndarray, threads: int) -> tuple[float, int]:
    """Fill the tables; return the seconds it took and 1, the agents that learn in step."""
    engine = compile_engine(population.problem)
    start = np.zeros(population.problem.entries, tables.dtype)
    records, starts = (np.ascontiguousarray(array) for array in (population.records, population.starts))
    args, passes = population.args.copy(), np.zeros(population.agents, np.int64)
    pointers = [array.ctypes.data for array in (start, tables, records, starts, args, passes)]
    return _timed(
        lambda first, last: engine.train_cores(*pointers, first, last), population.agents, 1, threads
    ), 1


def _timed(work, items: int, unit: int, threads: int) -> float:
    """Have threads do work(first, last) over all items, `unit` at a time; return the seconds."""
    firsts = range(0, items, unit)
    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        list(pool.map(work, firsts, [min(first + unit, items) for first in firsts]))
        return time.perf_counter() - start
