"""The host's part of a round: what goes down to the cores, and how what comes up becomes one table."""

import time

import numpy as np

from swiftrl_core.backend import Problem
from swiftrl_core.learner import Aggregation, Update
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.training import aggregation
from swiftrl_core.training.counting import Counter
from swiftrl_core.training.variance_reduction import BellmanTargets

ENTRY_BYTES = 4
"""Of a table's entry, in every number format."""


class Synchronisation:
    """Everything between two rounds that the learner's choices decide. Used as load, then targets and combine in turns.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        learner = problem.learner
        aggregation.compile_sums(learner.dtype)
        self._reduces_variance = learner.update == Update.VR
        self._weighs = learner.aggregation != Aggregation.MEAN
        self._counter = Counter(problem) if self._reduces_variance or self._weighs else None
        self._targets: BellmanTargets | None = None
        self._weights: np.ndarray | None = None

    def load(self, chunks: Chunks) -> float:
        """Count what the learner's choices need of the data; return the seconds it took, 0 where they need nothing.

        It is the host's work on the data beyond the paper's, before the first round.
        """
        if self._counter is None:
            return 0.0
        start = time.perf_counter()
        if self._reduces_variance:
            self._targets = BellmanTargets(self._problem, self._counter.outcomes(chunks.records))
        if self._weighs:
            visits = self._counter.visits(chunks)
            only_whether = self._problem.learner.aggregation == Aggregation.VISITED
            self._weights = (visits > 0).astype(np.int32) if only_whether else visits
        return time.perf_counter() - start

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
