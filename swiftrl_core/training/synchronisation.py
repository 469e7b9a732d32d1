"""The host's part of a round: the targets it broadcasts, and how it combines the tables that come back."""

import time

import numpy as np

from swiftrl_core.backend import Problem
from swiftrl_core.learner import Aggregation, NumberFormat, Update
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.learner.fixed_point import LARGEST_ENTRY
from swiftrl_core.training import aggregation
from swiftrl_core.training.counting import Counter, Outcomes
from swiftrl_core.util.errors import SwiftRLError

ENTRY_BYTES = 4
"""Of a table's entry, in every number format."""


class Synchronisation:
    """What the host does between two rounds, as the learner chooses. Its calls are load, then targets and combine.

    Each call returns the seconds it took.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        aggregation.compile_sums(problem.learner.dtype)
        self._counter = None if problem.learner.synchronises_as_the_paper else Counter(problem)
        self._targets: BellmanTargets | None = None
        self._weights: np.ndarray | None = None

    def load(self, chunks: Chunks) -> float:
        """Count what the learner's choices need of the data; return the seconds it took, 0 where they need nothing.

        It is the host's work on the data beyond the paper's, before the first round.
        """
        if self._counter is None:
            return 0.0
        start, learner = time.perf_counter(), self._problem.learner
        if learner.update == Update.VR:
            self._targets = BellmanTargets(self._problem, self._counter.outcomes(chunks.records))
        if learner.aggregation != Aggregation.MEAN:
            visits = self._counter.visits(chunks)
            visited = learner.aggregation == Aggregation.VISITED
            self._weights = (visits > 0).astype(np.int32) if visited else visits
        return time.perf_counter() - start

    def targets(self, table: np.ndarray) -> tuple[np.ndarray | None, float]:
        """Return the targets to broadcast with the table (entries,), Tbar in update vr, else None; and the seconds."""
        if self._targets is None:
            return None, 0.0
        start = time.perf_counter()
        return self._targets.of(table), time.perf_counter() - start

    def combine(self, tables: np.ndarray, old: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the aggregate (entries,) of local tables (cores, entries) that began as `old`; and the seconds."""
        start = time.perf_counter()
        weights = self._weights
        table = aggregation.mean(tables) if weights is None else aggregation.weighted(tables, weights, old)
        return table, time.perf_counter() - start


class BellmanTargets:
    """The host's half of the variance-reduced update: Tbar for any table, from the counts of one data set.

        Tbar(s, a) = mean over the data's transitions of (s, a) of r + gamma * max Qbar(s', .), or of r at the end

    Instead of each core adding up a pass over its chunk and sending the sums, the host computes them, since it has cut
    the data itself. Transitions of a pair that lead to the same state count as one term, so Tbar takes FrozenLake's
    host 190 products and not a million. In float64, rounded once to the number format; gamma is exact, in fixed point
    as well. See `dpu_src/td_update.h`.

    Parameters
    ----------
    problem : Problem
    counted : Outcomes
        Of all the data.
    """

    def __init__(self, problem: Problem, counted: Outcomes) -> None:
        self._problem = problem
        self._counted = counted
        if problem.learner.number_format == NumberFormat.FP32:
            self._largest_gap = self._largest_entry = float(np.finfo(np.float32).max)
        else:
            self._largest_gap = problem.learner.coefficients.largest_gap
            self._largest_entry = float(LARGEST_ENTRY)

    def of(self, table: np.ndarray) -> np.ndarray:
        """Return Tbar; 0 for a pair that does not occur in the data, which no core asks for.

        Sums run in float64 over a pair's rewards in the order of the data, and over its next states in ascending
        order, count times value; then (rewards + gamma * values) / transitions, rounded once: to float32, or to the
        nearest integer, ties to even.

        Parameters
        ----------
        table : float32 or int32 array (entries,)
            Qbar, in the number format's raw units.

        Returns
        -------
        array (entries,), the table's dtype

        Raises
        ------
        SwiftRLError
            If Tbar is so far from Qbar that learning on would overflow: the run diverges.
        """
        learner = self._problem.learner
        data = self._counted
        values = state_values(table, self._problem.n_actions).astype(np.float64)
        next_values = np.bincount(data.pair, data.count * values[data.next_state], self._problem.entries)
        with np.errstate(over="ignore", invalid="ignore"):
            targets = (data.rewards + learner.gamma * next_values) / np.maximum(data.visits, 1)
            gap = np.abs(targets - table)[data.visits > 0].max()
        if not gap <= self._largest_gap or not np.abs(table).max() <= self._largest_entry:
            raise SwiftRLError(
                f"update vr diverges: a round's table is {gap / learner.scale:g} away from its targets, and "
                f"{learner.number_format} could not hold what follows; use a smaller tau or alpha, or aggregation count"
            )
        if learner.number_format == NumberFormat.FP32:
            return targets.astype(np.float32)
        return np.rint(targets).astype(np.int32)


def state_values(table: np.ndarray, n_actions: int) -> np.ndarray:
    """Return max Q(s, .) of every state, (states,), compared in the order of `td_update.h`: of equals, the first."""
    columns = table.reshape(-1, n_actions).T
    best = columns[0].copy()
    for column in columns[1:]:
        np.copyto(best, column, where=column > best)
    return best


def bytes_of_a_round(problem: Problem, cores: int) -> tuple[int, int]:
    """Return the bytes that a round sends down to all cores together and up from them: tables only.

    The chunks go down once, 8 bytes a transition; arguments are 4 bytes a round and core, and not counted.
    """
    up = cores * problem.entries * ENTRY_BYTES
    return (2 * up if problem.learner.update == Update.VR else up), up
