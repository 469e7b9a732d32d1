"""Count a data set in C: how often each state-action pair occurs, the rewards it earned, and the states it led to."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from swiftrl_core.backend import Problem
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.learner.layout import kernel_headers
from swiftrl_core.util.toolchain import INT32, INT64, POINTER, load_library

SOURCE = Path(__file__).parent / "counting.c"
HEADER = SOURCE.with_suffix(".h")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The transitions of a data set, as counts.

    Attributes
    ----------
    visits : int64 array (entries,)
        Rows of each pair.
    rewards : float64 array (entries,)
        Sums of each pair's rewards, in the number format's raw units, added in the order of the rows.
    pair, next_state, count : int64 arrays (outcomes,)
        `pair` led to `next_state` without terminating in `count` rows; ascending by pair, then by next state.
    """

    visits: np.ndarray
    rewards: np.ndarray
    pair: np.ndarray
    next_state: np.ndarray
    count: np.ndarray


class Counter:
    """Counts data sets of a problem.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._library = load_library(
            [SOURCE],
            {
                "count_outcomes": (INT32, [POINTER, INT64, INT64, INT64, *[POINTER] * 6]),
                "count_visits": (None, [POINTER, POINTER, INT64, INT64, POINTER]),
            },
            [HEADER, *kernel_headers()],
            defines={"NUMBER_FORMAT": problem.switches["NUMBER_FORMAT"]},
        )

    def outcomes(self, records: np.ndarray) -> Outcomes:
        """Count `struct transition` records of layout.h, shape (n,).

        Raises
        ------
        MemoryError
            If there is no memory for 8 bytes a transition.
        """
        records, problem = np.ascontiguousarray(records), self._problem
        visits, first, end = np.zeros((3, problem.entries), np.int64)
        rewards = np.zeros(problem.entries)
        following, counts = np.empty((2, len(records)), np.uint32)
        pointers = [array.ctypes.data for array in (visits, rewards, first, end, following, counts)]
        shape = problem.n_states, problem.n_actions
        if self._library.count_outcomes(records.ctypes.data, len(records), *shape, *pointers):
            raise MemoryError(f"no memory to count {len(records):,} transitions")
        pair = np.repeat(np.arange(problem.entries), end - first)
        place = np.concatenate([np.arange(a, b) for a, b in zip(first, end, strict=True)])
        order = np.lexsort((following[place], pair))
        next_state, count = (array[place][order].astype(np.int64) for array in (following, counts))
        return Outcomes(visits, rewards, pair, next_state, count)

    def visits(self, chunks: Chunks) -> np.ndarray:
        """Return how often each chunk holds each pair, int32 (cores, entries)."""
        counted = np.zeros((chunks.cores, self._problem.entries), np.int32)
        records, starts = np.ascontiguousarray(chunks.records), np.ascontiguousarray(chunks.starts, np.int64)
        self._library.count_visits(
            records.ctypes.data, starts.ctypes.data, *counted.shape, counted.ctypes.data
        )
        return counted
