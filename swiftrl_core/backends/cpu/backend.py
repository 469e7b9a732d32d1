"""The `cpu` backend: virtual PIM cores trained by `engine.c`, threads with the interpreter lock released."""

import ctypes
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from swiftrl_core.backend import Evidence, Problem, Round
from swiftrl_core.learner import MOST_TRANSITIONS, Algorithm, Sampling
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.learner.layout import kernel_headers
from swiftrl_core.util import toolchain
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.toolchain import INT32, INT64, POINTER, available_threads, load_library

FOLDER = Path(__file__).parent
SOURCES = (FOLDER / "engine.c", FOLDER / "scalar.c")
CACHE_LINE = 64
FEW_CORES = 4
"""Up to this many cores run faster one after another than in lanes that are mostly empty."""


def available() -> str | None:
    """Return why this backend cannot be used here, or None: it always can, its compiler comes with the package."""
    return None


def open_backend(
    problem: Problem, cores: int, *, threads: int | None = None, early_exit: bool = False
) -> "CpuBackend":
    """Return a backend for `cores` virtual PIM cores.

    Parameters
    ----------
    problem : Problem
    cores : int
    threads : int, optional
        At least 1; by default as many as the process may use.
    early_exit : bool
        Leave out the episodes of a core's round after one that changed no bit of its table: they would change
        none either. Only for Q-learning in SEQ, STR or REV with a constant alpha, where an episode is a function of
        the table. Results are the same in every bit; `Round.executed_updates` counts those that were made. Off for the
        paper's setting.

    Raises
    ------
    SwiftRLError
        If threads is not a whole number of at least 1, or early_exit is set and the learner draws random numbers or
        lets alpha fall.
    """
    threads = available_threads() if threads is None else whole_number(threads, "threads", 1)
    learner = problem.learner
    if early_exit and (learner.algorithm != Algorithm.Q_LEARNING or learner.sampling == Sampling.RAN):
        raise SwiftRLError(
            f"early_exit does not apply to {learner.sampling} {learner.algorithm}, whose episodes differ by their "
            "random draws: leave it out, or use SEQ or STR q_learning"
        )
    if early_exit and learner.decaying_alpha:
        raise SwiftRLError(
            f"early_exit does not apply to alpha_schedule {learner.alpha_schedule}, whose episodes differ by their "
            "alpha: leave it out, or use constant"
        )
    return CpuBackend(
        problem, cores, threads, early_exit, by_lanes=cores > FEW_CORES and not learner.decaying_alpha
    )


def headers() -> list[Path]:
    """Return all headers that C of this backend may include."""
    return [*kernel_headers(), *sorted(FOLDER.glob("*.h"))]


def compile_engine(problem: Problem, early_exit: bool = False, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Return engine.c and scalar.c built for a problem.

    Parameters
    ----------
    problem : Problem
    early_exit : bool
    flags : sequence of str
        More compiler flags; the benchmark builds for processors without AVX-512 by `-mcpu=x86_64_v3`.
    """
    functions = {
        "lanes": (INT64, []),
        "team_cores": (INT64, []),
        "steps_bytes": (INT64, [INT64]),
        "unpack": (None, [POINTER] * 4 + [INT64] * 3),
        "train_teams": (INT32, [POINTER] * 9 + [INT64] * 3),
        "train_cores": (None, [POINTER] * 7 + [INT64] * 2),
    }
    switches = problem.switches | {"EARLY_EXIT": int(early_exit)}
    return load_library(SOURCES, functions, headers(), defines=switches, flags=flags)


class CpuBackend:
    """Trains all cores of a problem on the host; times are measured."""

    name = "cpu"
    evidence = Evidence.MEASURED

    def __init__(
        self,
        problem: Problem,
        cores: int,
        threads: int,
        early_exit: bool = False,
        *,
        by_lanes: bool,
        flags: Sequence[str] = (),
    ) -> None:
        self._problem = problem
        self._tables = np.empty((cores, problem.entries), problem.learner.dtype)
        self._passes = np.zeros(cores, np.int64)
        self._engine = compile_engine(problem, early_exit, flags)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._by_lanes = by_lanes
        self._lanes = self._engine.lanes()
        self._teams = -(-cores // self._engine.team_cores())
        self._chunks: Chunks | None = None

    def load(self, chunks: Chunks) -> float:
        """Take the chunks, and unpack them for the lanes, except in RAN; return the seconds that took.

        Raises
        ------
        SwiftRLError
            If there is not a chunk for each core, or if in RAN the chunks of cores that share a team hold 2^32
            transitions or more.
        """
        if chunks.cores != len(self._tables):
            raise SwiftRLError(
                f"{chunks.cores} chunks for a backend of {len(self._tables)} cores: split the data for as many cores"
            )
        start = time.perf_counter()
        self._chunks = chunks
        self._args = self._problem.arguments(chunks)
        if self._by_lanes:
            self._unpack(chunks)
        return time.perf_counter() - start

    def run_round(self, table: np.ndarray, episodes: int, targets: np.ndarray | None = None) -> Round:
        """Train every core from `table` for `episodes` passes; see `Backend.run_round`.

        Raises
        ------
        MemoryError
            If there is no memory for the tables a thread works on.
        """
        self._args["episodes"] = episodes
        self._table = np.ascontiguousarray(table, self._tables.dtype)
        self._targets = self._table if targets is None else np.ascontiguousarray(targets, self._tables.dtype)
        start = time.perf_counter()
        if self._by_lanes:
            self._share_out(self._teams, self._train_teams)
        else:
            self._share_out(len(self._tables), self._train_cores)
        seconds = time.perf_counter() - start
        executed = int(self._passes @ self._chunks.lengths)
        return Round(self._tables, 0.0, seconds, 0.0, executed)

    def describe(self) -> dict:
        """Return the engine's compiler, threads and lanes, for the manifest."""
        return {
            "name": "this host's CPU",
            "compiler": f"zig {toolchain.compiler_version()}",
            "threads": self._threads,
            "lanes": self._lanes if self._by_lanes else 1,
        }

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    def _share_out(self, items: int, work: Callable[[int, int], None]) -> None:
        """Have the threads do work(first, last) over all items.

        A task is half of a thread's share of what is left, down to one item: few calls, and threads that end
        together.
        """
        edges = [0]
        while edges[-1] < items:
            edges.append(edges[-1] + max(1, (items - edges[-1]) // (2 * self._threads)))
        list(self._pool.map(work, edges[:-1], edges[1:]))

    def _unpack(self, chunks: Chunks) -> None:
        together = self._engine.team_cores()
        firsts = np.arange(0, chunks.cores, together)
        rows = int(np.add.reduceat(chunks.lengths, firsts).max())
        if self._problem.learner.sampling == Sampling.RAN and rows > MOST_TRANSITIONS:
            raise SwiftRLError(
                f"{together} neighbouring cores share {rows:,} transitions; in RAN the cpu backend takes at most "
                f"{MOST_TRANSITIONS:,}: use more cores, or fewer transitions"
            )
        groups = -(-np.minimum(chunks.cores - firsts, together) // self._lanes)
        longest = np.maximum.reduceat(chunks.lengths, firsts)
        self._step_starts = np.concatenate(([0], np.cumsum(groups * longest)))
        self._steps = _aligned(self._engine.steps_bytes(int(self._step_starts[-1])))

        def unpack(first: int, last: int) -> None:
            arrays = (self._steps, self._step_starts, chunks.records, chunks.starts)
            self._engine.unpack(*_pointers(arrays), chunks.cores, first, last)

        self._share_out(self._teams, unpack)

    def _train_teams(self, first: int, last: int) -> None:
        tables = (self._table, self._targets, self._tables)
        chunks = (self._steps, self._step_starts, self._chunks.records, self._chunks.starts)
        arrays = (*tables, *chunks, self._args, self._passes)
        if self._engine.train_teams(*_pointers(arrays), len(self._tables), first, last):
            raise MemoryError("no memory for the tables of one thread of the cpu backend")

    def _train_cores(self, first: int, last: int) -> None:
        records, starts = self._chunks.records, self._chunks.starts
        arrays = (self._table, self._targets, self._tables, records, starts, self._args, self._passes)
        self._engine.train_cores(*_pointers(arrays), first, last)


def _aligned(size: int) -> np.ndarray:
    """Return uninitialised bytes that start at a cache line."""
    room = np.empty(size + CACHE_LINE, np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    return room[start : start + size]


def _pointers(arrays: Sequence[np.ndarray]) -> list[int]:
    return [array.ctypes.data for array in arrays]
