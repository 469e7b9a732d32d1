"""The host's part of a round: what goes down to the cores, and how what comes up becomes one table."""

import numpy as np

from swiftrl_core import aggregation
from swiftrl_core.backends import Problem
from swiftrl_core.chunks import Chunks
from swiftrl_core.learner import Aggregation, Update
from swiftrl_core.variance_reduction import BellmanTargets

ENTRY_BYTES = 4
"""Of a table's entry, in every number format."""


class Synchronisation:
    """Everything between two rounds that the learner's choices decide.

    Counting pairs and transitions is part of cutting the data into chunks: like packing it is done before the first
    round, and no time is booked for it.

    Parameters
    ----------
    problem : Problem
    chunks : Chunks
    """

    def __init__(self, problem: Problem, chunks: Chunks) -> None:
        learner = problem.learner
        self._targets = BellmanTargets(problem, chunks.records) if learner.update == Update.VR else None
        self._weights = None
        if learner.aggregation != Aggregation.MEAN:
            visits = aggregation.visits(chunks, problem.entries)
            self._weights = (
                visits if learner.aggregation == Aggregation.COUNT else (visits > 0).astype(np.int32)
            )

    def targets(self, table: np.ndarray) -> np.ndarray | None:
        """Return what goes down beside the table (entries,): Tbar in update vr, else None."""
        return None if self._targets is None else self._targets.of(table)

    def combine(self, tables: np.ndarray, old: np.ndarray) -> np.ndarray:
        """Return the table (entries,) to go on from, of the local tables (cores, entries) that came of `old`."""
        if self._weights is None:
            return aggregation.mean(tables)
        return aggregation.weighted(tables, self._weights, old)


def bytes_of_a_round(problem: Problem, cores: int) -> tuple[int, int]:
    """Return the bytes that a round sends down to all cores together and up from them: tables only.

    The chunks go down once, 8 bytes a transition; arguments are 4 bytes a round and core, and not counted.
    """
    up = cores * problem.entries * ENTRY_BYTES
    return (2 * up if problem.learner.update == Update.VR else up), up
