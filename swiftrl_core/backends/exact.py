"""The `exact` backend, a baseline: count the transitions and solve the empirical MDP exactly.

Q-learning on a data set converges to the fixed point of the Bellman equation with the empirical frequencies. Counting
and solving take milliseconds where replaying takes seconds, and the errors of learned tables are distances to this
fixed point.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from swiftrl_core.backend import Evidence, Problem, Round
from swiftrl_core.data import Dataset
from swiftrl_core.learner import Learner
from swiftrl_core.learner.chunks import Chunks, pack
from swiftrl_core.learner.layout import kernel_headers
from swiftrl_core.training.counting import HEADER as COUNTING_HEADER
from swiftrl_core.util import toolchain
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.toolchain import FLOAT64, INT64, POINTER, load_library

SOURCE = Path(__file__).parent / "exact.c"
TOLERANCE = 1e-9
"""Largest distance of an entry to the exact fixed point, in values."""
MOST_SWEEPS = 1_000_000


def available() -> str | None:
    """Return why this backend cannot be used here, or None: it always can."""
    return None


def open_backend(problem: Problem, cores: int) -> "ExactBackend":
    """Return a backend that solves the model of all chunks together, however many cores they are cut for."""
    return ExactBackend(problem)


def empirical_fixed_point(dataset: Dataset, gamma: float, tolerance: float = TOLERANCE) -> np.ndarray:
    """Return the fixed point of Q-learning on a data set.

    Q(s, a) is the mean, over the rows with (s, a), of r + gamma * max Q(s', .), without the second term where the row
    terminated. A pair that never occurs keeps 0, as in a learner's table, and takes part in the maximum.

    Parameters
    ----------
    dataset : Dataset
    gamma : float
        Discount, at least 0 and below 1.
    tolerance : float
        Largest distance of an entry to the exact fixed point, above 0.

    Returns
    -------
    float64 array (states, actions)

    Raises
    ------
    SwiftRLError
        If gamma or tolerance is out of range, the data set does not fit 8-byte records, or float64 cannot reach the
        tolerance.
    """
    learner = Learner(gamma=gamma, reward_range=dataset.reward_range)
    problem = Problem(learner, dataset.n_states, dataset.n_actions)
    flat = _solve(problem, pack(dataset, learner), tolerance)
    return flat.reshape(dataset.n_states, dataset.n_actions)


class ExactBackend:
    """Solves the data's own MDP; the time is measured, and the number of episodes plays no part."""

    name = "exact"
    evidence = Evidence.MEASURED

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._answer: Round | None = None
        _compile(problem)

    def load(self, chunks: Chunks) -> float:
        """Keep the records where they are; nothing is copied, so it takes no time."""
        self._records = chunks.records
        self._answer = None
        return 0.0

    def run_round(self, table: np.ndarray, episodes: int, targets: None = None) -> Round:
        """Return the fixed point, whatever `table` and `episodes` are; a round after the first costs nothing.

        Every transition is looked at once: those are the executed updates.

        Raises
        ------
        SwiftRLError
            If gamma is 1, or float64 cannot reach the tolerance.
        """
        if self._answer is None:
            start = time.perf_counter()
            q = self._problem.learner.to_raw(_solve(self._problem, self._records, TOLERANCE))
            seconds = time.perf_counter() - start
            self._answer = Round(q[np.newaxis], 0.0, 0.0, 0.0, 0)
            return Round(self._answer.tables, 0.0, seconds, 0.0, len(self._records))
        return self._answer

    def describe(self) -> dict:
        """Return the compiler and the tolerance."""
        return {
            "name": "this host's CPU",
            "compiler": f"zig {toolchain.compiler_version()}",
            "threads": 1,
            "tolerance": TOLERANCE,
        }

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _solve(problem: Problem, records: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the fixed point as values, float64 (entries,)."""
    gamma = problem.learner.gamma
    if not 0 <= gamma < 1:
        raise SwiftRLError(f"gamma is {gamma:g}: the exact solution needs a number from 0 to below 1")
    if not tolerance > 0:
        raise SwiftRLError(f"tolerance is {tolerance}: give a number above 0")
    q = np.zeros(problem.entries)
    sweeps = _compile(problem)(
        np.ascontiguousarray(records).ctypes.data,
        len(records),
        problem.n_states,
        problem.n_actions,
        1 / problem.learner.scale,
        gamma,
        tolerance,
        MOST_SWEEPS,
        q.ctypes.data,
    )
    if sweeps < 0:
        raise MemoryError(f"no memory to count {len(records):,} transitions")
    if sweeps == 0:
        raise SwiftRLError(
            f"the exact solution is not within {tolerance:g} of its fixed point after {MOST_SWEEPS:,} sweeps with "
            f"gamma {gamma:g}: use a smaller gamma or a larger tolerance"
        )
    return q


def _compile(problem: Problem) -> Callable[..., int]:
    arguments = [POINTER, INT64, INT64, INT64, FLOAT64, FLOAT64, FLOAT64, INT64, POINTER]
    return load_library(
        [SOURCE],
        {"fixed_point": (INT64, arguments)},
        [COUNTING_HEADER, *kernel_headers()],
        defines={"NUMBER_FORMAT": problem.switches["NUMBER_FORMAT"]},
    ).fixed_point
