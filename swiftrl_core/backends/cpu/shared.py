"""The `cpu-shared` backend, a baseline: all threads learn in one table without locks, as the paper uses a CPU.

A core is a thread. There is nothing to average, so a round is just its episodes; a run of several threads does not
repeat bit for bit.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from swiftrl_core.backend import Evidence, Problem, Round
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.learner.layout import kernel_headers
from swiftrl_core.util import toolchain

SOURCE = Path(__file__).parent / "shared.c"


def available() -> str | None:
    """Return why this backend cannot be used here, or None: it always can."""
    return None


def open_backend(problem: Problem, cores: int) -> "SharedTableBackend":
    """Return a backend of `cores` threads, each with a chunk, on one table."""
    return SharedTableBackend(problem, cores)


class SharedTableBackend:
    """Trains one table with many threads; times are measured from when all are ready until the last ends."""

    name = "cpu-shared"
    evidence = Evidence.MEASURED

    def __init__(self, problem: Problem, cores: int) -> None:
        self._problem = problem
        functions = {"train_shared": (None, [toolchain.POINTER] * 3)}
        library = toolchain.load_library([SOURCE], functions, kernel_headers(), defines=problem.switches)
        self._train = library.train_shared
        self._cores = cores
        self._pool = ThreadPoolExecutor(cores)

    def load(self, chunks: Chunks) -> float:
        """Keep the chunks where they are; nothing is copied, so it takes no time."""
        self._chunks = chunks
        self._args = self._problem.arguments(chunks)
        return 0.0

    def run_round(self, table: np.ndarray, episodes: int, targets: None = None) -> Round:
        """Train `table` by all threads at once for `episodes` passes each; see `Backend.run_round`."""
        self._args["episodes"] = episodes
        shared = np.array(table, self._problem.learner.dtype)
        ready = threading.Barrier(self._cores + 1)
        running = [self._pool.submit(self._thread, shared, core, ready) for core in range(self._cores)]
        ready.wait()
        start = time.perf_counter()
        for thread in running:
            thread.result()
        return Round(shared[np.newaxis], 0.0, time.perf_counter() - start, 0.0)

    def describe(self) -> dict:
        """Return the compiler and threads, and whether a run repeats."""
        return {
            "name": "this host's CPU",
            "compiler": f"zig {toolchain.compiler_version()}",
            "threads": self._cores,
            "deterministic": self._cores == 1,
        }

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    def _thread(self, shared: np.ndarray, core: int, ready: threading.Barrier) -> None:
        arrays = (shared, self._chunks.chunk(core), self._args[core : core + 1])
        pointers = [array.ctypes.data for array in arrays]
        ready.wait()
        self._train(*pointers)
