"""The `cpu` backend: virtual PIM cores trained by `engine.c`, threads with the interpreter lock released."""

import ctypes
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from swiftrl_core import toolchain
from swiftrl_core.backends import Evidence, Problem, Round
from swiftrl_core.chunks import Chunks
from swiftrl_core.layout import KERNEL_DIRECTORY

ENGINE = Path(__file__).parent / "engine.c"


def available() -> str | None:
    """Return why this backend cannot be used here, or None: it always can, its compiler comes with the package."""
    return None


def open_backend(problem: Problem, cores: int, *, threads: int | None = None) -> "CpuBackend":
    """Return a backend for `cores` virtual PIM cores on `threads` threads (default: all the process may use)."""
    return CpuBackend(problem, cores, threads or len(os.sched_getaffinity(0)))


def compile_engine(problem: Problem) -> ctypes.CDLL:
    """Return the engine built for a problem's learner and number of actions."""
    switches = problem.learner.switches | {"N_ACTIONS": problem.n_actions}
    library = toolchain.compile_shared_library(
        [ENGINE],
        headers=sorted(KERNEL_DIRECTORY.glob("*.h")),
        include_directories=[KERNEL_DIRECTORY],
        flags=[f"-D{name}={value}" for name, value in switches.items()],
    )
    engine = ctypes.CDLL(str(library))
    engine.train_cores.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64] * 3
    engine.train_cores.restype = None
    return engine


class CpuBackend:
    """Trains all cores of a problem on the host; times are measured."""

    name = "cpu"
    evidence = Evidence.MEASURED

    def __init__(self, problem: Problem, cores: int, threads: int) -> None:
        self._problem = problem
        self._tables = np.zeros((cores, problem.entries), problem.learner.dtype)
        self._engine = compile_engine(problem)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._edges = np.linspace(0, cores, min(cores, 4 * threads) + 1).astype(int)
        self._chunks: Chunks | None = None

    def load(self, chunks: Chunks) -> float:
        """Keep the chunks where they are; nothing is copied, so it takes no time."""
        self._chunks = chunks
        self._args = self._problem.arguments(chunks)
        return 0.0

    def run_round(self, table: np.ndarray, episodes: int) -> Round:
        """Train every core from `table` for `episodes` passes; see `Backend.run_round`."""
        self._args["episodes"] = episodes
        start = time.perf_counter()
        self._tables[:] = table
        ready = time.perf_counter()
        list(self._pool.map(self._train, self._edges[:-1], self._edges[1:]))
        return Round(self._tables, ready - start, time.perf_counter() - ready, 0.0)

    def describe(self) -> dict:
        """Return the engine's compiler and threads, for the manifest."""
        return {
            "name": "this host's CPU",
            "compiler": f"zig {toolchain.compiler_version()}",
            "threads": self._threads,
        }

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    def _train(self, first: int, last: int) -> None:
        arrays = (self._tables, self._chunks.records, self._chunks.starts, self._args)
        pointers = [array.ctypes.data for array in arrays]
        self._engine.train_cores(*pointers, self._problem.entries, int(first), int(last))
