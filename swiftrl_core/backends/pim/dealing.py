"""Partition a chunk among the tasklets of a DPU by state-action pairs, as `dpu_src/tasklet_learner.c` reads it.

Each pair's transitions go to one tasklet, in the chunk's order, as a run (`struct run` of layout.h): its head, then its
outcomes, 8 bytes each. Pairs go out by longest processing time first: the one with the most transitions to the tasklet
with the least to do so far, then the next. The busiest tasklet then has at most 4/3 of the least possible (Graham,
SIAM J. Appl. Math. 17, 1969). The partition changes the time of learning, not its result.
"""

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from swiftrl_core.backend import Problem
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.learner.layout import constant, kernel_headers, struct
from swiftrl_core.util.toolchain import INT32, INT64, POINTER, load_library

SOURCE = Path(__file__).parent / "dealing.c"


@dataclass(frozen=True, eq=False)
class Dealt:
    """Every core's chunk as its tasklets read it.

    Attributes
    ----------
    words : structured array (n,)
        Heads and outcomes, 8 bytes each, as `struct outcome`; core by core, tasklet by tasklet, pair by pair.
    starts : int64 array (cores + 1,)
        Core i's words are words[starts[i]:starts[i + 1]].
    shares : uint32 array (cores, tasklets + 1)
        Tasklet t of core i has words shares[i, t] up to shares[i, t + 1], exclusive, of its core's.
    """

    words: np.ndarray
    starts: np.ndarray
    shares: np.ndarray

    def core(self, core: int) -> np.ndarray:
        """Return one core's words."""
        return self.words[self.starts[core] : self.starts[core + 1]]


def deal(problem: Problem, chunks: Chunks, tasklets: int) -> Dealt:
    """Deal every chunk out to the tasklets of its DPU.

    Parameters
    ----------
    problem : Problem
    chunks : Chunks
    tasklets : int
        At least 1; one without a pair gets an empty share.

    Raises
    ------
    MemoryError
        If there is no memory for 16 bytes a pair and 4 a transition of the longest chunk.
    """
    starts = np.concatenate(([0], np.cumsum(_words_of(problem, chunks))))
    words = np.empty(starts[-1], struct("outcome", problem.learner.dtype))
    shares = np.empty((chunks.cores, tasklets + 1), np.uint32)
    records, first = _of(chunks)
    arrays = (words, starts, shares, records, first)
    sizes = (chunks.cores, problem.entries, problem.n_states, tasklets, int(chunks.lengths.max()))
    if compile_dealing().deal_chunks(*(array.ctypes.data for array in arrays), *sizes):
        raise MemoryError(f"no memory to partition chunks of {problem.entries:,} pairs")
    return Dealt(words, starts, shares)


def _words_of(problem: Problem, chunks: Chunks) -> np.ndarray:
    """Return how many words each chunk becomes, int64 (cores,): one for each transition, and for each pair it holds."""
    words = np.empty(chunks.cores, np.int64)
    records, first = _of(chunks)
    arrays = (words, records, first)
    if compile_dealing().count_words(*(array.ctypes.data for array in arrays), chunks.cores, problem.entries):
        raise MemoryError(f"no memory to count {problem.entries:,} pairs")
    return words


def _of(chunks: Chunks) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(chunks.records), np.ascontiguousarray(chunks.starts, np.int64)


def compile_dealing() -> ctypes.CDLL:
    """Return dealing.c, compiled; call it before you time a partition."""
    functions = {
        "count_words": (INT32, [POINTER] * 3 + [INT64] * 2),
        "deal_chunks": (INT32, [POINTER] * 5 + [INT64] * 5),
    }
    number_format = {"NUMBER_FORMAT": constant("NUMBER_FORMAT_INT32")}
    return load_library([SOURCE], functions, kernel_headers(), defines=number_format)
