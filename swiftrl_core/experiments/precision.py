"""What a number format costs: the same training in FP32, INT32 and INT32_POW2, against double precision."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from swiftrl_core.data import collect
from swiftrl_core.data.evaluation import exact_return
from swiftrl_core.experiments import reference_fp64 as doubles
from swiftrl_core.learner import Learner, NumberFormat
from swiftrl_core.sweeps.probe import Probe
from swiftrl_core.sweeps.results import column
from swiftrl_core.training.loop import Schedule, train

SMALL_TRANSITIONS = 200_000
SMALL_EPISODES = 20
"""For an estimate."""


@dataclass(frozen=True, kw_only=True)
class Precision(
    Probe,
    kind_of_run="Precision",
    found=pa.schema(
        [
            # |Q - Q in doubles|, over all entries
            column("max_error", pa.float64()),
            column("mean_error", pa.float64()),
            column("bias", pa.float64()),  # mean of the signed difference
            column("bound", pa.float64(), nullable=True),  # proved for max_error; null in FP32
            column("exact_return", pa.float64()),
            column("exact_return_doubles", pa.float64()),
        ]
    ),
):
    """How far SEQ Q-learning in a number format ends from the same training in double precision, on the `cpu` backend.

    Attributes
    ----------
    environment, transitions, seed
        Of the data set.
    cores, episodes, tau
        See `Schedule`.
    number_format : str
    """

    environment: str
    transitions: int
    cores: int
    episodes: int
    tau: int
    number_format: str
    seed: int = 0

    @property
    def updates(self) -> int:
        """Updates of the two trainings."""
        return 2 * self.transitions * self.episodes

    def small(self, times: int) -> Self:
        """Return a small training of the same learner, in one round."""
        episodes = min(self.episodes, times * SMALL_EPISODES)
        transitions = min(self.transitions, SMALL_TRANSITIONS)
        return replace(self, transitions=transitions, episodes=episodes, tau=episodes)

    def measure(self) -> dict[str, Any]:
        """Train twice and compare."""
        dataset = collect(self.environment, self.transitions, self.seed)
        learner = Learner(number_format=self.number_format, reward_range=dataset.reward_range)
        schedule = Schedule(self.cores, self.episodes, self.tau)
        exact = doubles.train(dataset, self.cores, self.episodes, self.tau)
        table = train(dataset, learner, schedule, "cpu").q_table
        error = table.astype(np.float64) - exact
        return {
            "max_error": float(np.abs(error).max()),
            "mean_error": float(np.abs(error).mean()),
            "bias": float(error.mean()),
            "bound": _bound(learner, schedule),
            "exact_return": exact_return(self.environment, table),
            "exact_return_doubles": exact_return(self.environment, exact),
        }


def _bound(learner: Learner, schedule: Schedule) -> float | None:
    if learner.number_format == NumberFormat.FP32:
        return None
    return learner.coefficients.error_bound(learner.alpha, learner.gamma, len(schedule.rounds))
