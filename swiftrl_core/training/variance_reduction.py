"""The host's half of the variance-reduced update: Tbar, from the counts of all transitions. See `dpu_src/td_update.h`.

    Tbar(s, a) = mean over the data's transitions of (s, a) of r + gamma * max Qbar(s', .), or of r where one terminated

What cores would otherwise add up in a pass over their chunks and send to the host, the host knows: it cut the data
itself. Transitions of a pair that lead to the same state are one number, so Tbar takes FrozenLake's host 190 products
and not a million. In float64, rounded once to the number format; gamma is the exact one, in fixed point as well.
"""

import numpy as np

from swiftrl_core.backend import Problem
from swiftrl_core.learner import NumberFormat
from swiftrl_core.learner.fixed_point import LARGEST_ENTRY
from swiftrl_core.training.counting import Outcomes
from swiftrl_core.util.errors import SwiftRLError


class BellmanTargets:
    """Computes Tbar for any table, from the counts of one data set.

    Parameters
    ----------
    problem : Problem
    counted : Outcomes
        All the data.
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
        """Return Tbar; 0 for a pair that the data do not hold, which no core asks for.

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
        ahead = np.bincount(data.pair, data.count * values[data.next_state], self._problem.entries)
        with np.errstate(over="ignore", invalid="ignore"):
            targets = (data.rewards + learner.gamma * ahead) / np.maximum(data.visits, 1)
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
