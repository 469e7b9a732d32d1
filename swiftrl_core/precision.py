"""What a number format costs: the same training in FP32, INT32 and INT32_POW2, against double precision."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from swiftrl_core.cpu import doubles
from swiftrl_core.datasets import collect
from swiftrl_core.evaluation import exact_return
from swiftrl_core.learner import Learner, NumberFormat
from swiftrl_core.training import Schedule, train

SIZES = {
    "smoke": {
        "transitions": {"frozenlake": 4_000, "taxi": 8_000},
        "cores": (1, 8),
        "episodes": 20,
        "tau": 10,
    },
    "quick": {
        "transitions": {"frozenlake": 200_000, "taxi": 500_000},
        "cores": (1, 125),
        "episodes": 100,
        "tau": 10,
    },
    "paper": {
        "transitions": {"frozenlake": 1_000_000, "taxi": 5_000_000},
        "cores": (1, 2000),
        "episodes": 2000,
        "tau": 50,
    },
}
"""By profile; the schedules are those of the experiment on learning quality."""


def against_doubles(profile: str = "smoke", seed: int = 0) -> pd.DataFrame:
    """Train SEQ Q-learning in every number format and in doubles; see `compare`.

    Parameters
    ----------
    profile : str
        A name of `SIZES`.
    seed : int
        Of the data sets.
    """
    size = SIZES[profile]
    schedules = [Schedule(cores, size["episodes"], size["tau"]) for cores in size["cores"]]
    parts = [
        compare(environment, transitions, schedules, seed)
        for environment, transitions in size["transitions"].items()
    ]
    return pd.concat(parts, ignore_index=True)


def compare(environment: str, transitions: int, schedules: Sequence[Schedule], seed: int = 0) -> pd.DataFrame:
    """Return how far each number format's table ends from that of the same training in double precision.

    Returns
    -------
    DataFrame
        environment, transitions, episodes, tau, cores, number_format; max_error, mean_error and bias (mean of the
        signed difference) over all entries; bound, proved for max_error (`Coefficients.error_bound`; NaN in
        FP32); exact_return, and exact_return_doubles.
    """
    dataset = collect(environment, transitions, seed)
    rows = []
    for schedule in schedules:
        plan = {"cores": schedule.cores, "episodes": schedule.episodes, "tau": schedule.tau}
        exact = doubles.train(dataset, **plan)
        for number_format in NumberFormat:
            learner = Learner(number_format=number_format, reward_range=dataset.reward_range)
            table = train(dataset, learner, schedule, "cpu").q_table
            error = table.astype(np.float64) - exact
            rows.append(
                {"environment": environment, "transitions": transitions}
                | plan
                | {
                    "number_format": str(number_format),
                    "max_error": np.abs(error).max(),
                    "mean_error": np.abs(error).mean(),
                    "bias": error.mean(),
                    "bound": _bound(learner, schedule),
                    "exact_return": exact_return(environment, table),
                    "exact_return_doubles": exact_return(environment, exact),
                }
            )
    return pd.DataFrame(rows)


def _bound(learner: Learner, schedule: Schedule) -> float:
    if learner.number_format == NumberFormat.FP32:
        return float("nan")
    return learner.coefficients.error_bound(learner.alpha, learner.gamma, len(schedule.rounds))
