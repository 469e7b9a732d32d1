"""The error of each number format: the same training in FP32, INT32 and INT32_POW2, against double precision.

A part of experiment 03.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.figure import Figure

from swiftrl_core.data import collect
from swiftrl_core.data.evaluation import exact_return
from swiftrl_core.experiments import reference_fp64
from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.experiments.grids import (
    PAPER_ROWS,
    PAPER_SCHEDULE,
    PAPER_SEEDS,
    QUICK_ROWS,
    SMOKE_ROWS,
    by_environment,
)
from swiftrl_core.learner import Learner, NumberFormat
from swiftrl_core.learner.fixed_point import Coefficients
from swiftrl_core.plotting import captions
from swiftrl_core.plotting.style import PAGE_INCHES, colour, legend_above, named, new_figure, note, style
from swiftrl_core.sweeps.probe import Probe
from swiftrl_core.sweeps.results import column
from swiftrl_core.training.loop import Schedule, train

SMALL_TRANSITIONS = 200_000
SMALL_EPISODES = 20
"""Size of a run that is timed for an estimate."""


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
    """SEQ Q-learning in a number format on the `cpu` backend, against the same training in double precision.

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
        exact = reference_fp64.train(dataset, self.cores, self.episodes, self.tau)
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
    return error_bound(learner.coefficients, learner.alpha, learner.gamma, len(schedule.rounds))


def _formats(transitions: Mapping[str, int], **grid: Any) -> tuple[Mapping[str, Any], ...]:
    """Return grids of all number formats."""
    return by_environment(transitions, number_format=tuple(map(str, NumberFormat)), **grid)


SIZES = {
    "smoke": _formats(SMOKE_ROWS, cores=(1, 8), episodes=20, tau=10, seed=0),
    "quick": _formats(QUICK_ROWS, cores=(1, 125), episodes=100, tau=10, seed=0),
    "paper": _formats(PAPER_ROWS, cores=(1, 2000), **PAPER_SCHEDULE, seed=PAPER_SEEDS),
}


def table_precision(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of every number format.

    Returns
    -------
    DataFrame
        environment, transitions, cores, number_format; over the data sets the largest max_error, the means of
        mean_error and bias, the bound proved for max_error (NaN in FP32); seeds.
    """
    keys = ["environment", "transitions", "episodes", "tau", "number_format", "cores"]
    return rows.groupby(keys, as_index=False, sort=False).agg(
        max_error=("max_error", "max"),
        mean_error=("mean_error", "mean"),
        bias=("bias", "mean"),
        bound=("bound", "max"),
        seeds=("seed", "nunique"),
    )


@style()
def fig_precision(rows: pd.DataFrame) -> Figure:
    """Draw the distance of each number format's table to the same training in double precision.

    Hollow marks are the proved bound of the largest difference.
    """
    errors = table_precision(rows)
    groups = list(errors.groupby("environment", sort=False))
    formats = list(dict.fromkeys(errors["number_format"]))
    figure = new_figure(PAGE_INCHES, 2.5)
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    for axes, (environment, own) in zip(panels, groups, strict=True):
        for place, (count, some) in enumerate(own.groupby("cores")):
            at = np.array([formats.index(name) for name in some["number_format"]]) + 0.24 * place - 0.12
            shade, cores = colour(place), captions.cores(count)
            axes.plot(at, some["max_error"], "o", ms=4.5, color=shade, label=f"{cores}, largest")
            axes.plot(at, some["mean_error"], "_", ms=9, mew=1.5, color=shade, label=f"{cores}, mean")
        bounds = own.groupby("number_format", sort=False)["bound"].max().reindex(formats)
        axes.plot(range(len(formats)), bounds, "v", mfc="white", mec="black", ms=6, label="proved bound")
        axes.set(title=named(environment), yscale="log")
        axes.set_xticks(range(len(formats)), formats)
        axes.margins(x=0.15)
        axes.grid(axis="y", lw=0.3, alpha=0.6)
    panels[0].set_ylabel("|Q - Q in doubles|")
    legend_above(figure, panels[0])
    first, seeds = errors.iloc[0], errors["seeds"].max()
    over = f"The largest difference and the mean over {seeds} data sets" if seeds > 1 else "One data set"
    note(
        figure,
        [
            f"Q-learning SEQ, {first['episodes']:,} episodes, tau {first['tau']}, against the same training in "
            f"double precision. {over}. The bound is for the largest difference."
        ],
    )
    return figure


def summary_precision(rows: pd.DataFrame) -> Summary:
    """Return the largest error of each number format with its bound, and in how many runs the return changes."""
    sentences = []
    for name, own in rows.groupby("number_format", sort=False):
        worst = own.loc[own["max_error"].idxmax()]
        proved = f", proved bound {worst['bound']:.2g}" if worst["bound"] == worst["bound"] else ""
        sentences.append(
            f"{name} ends at most {worst['max_error']:.1e} from double precision ({named(worst['environment'])}, "
            f"{captions.cores(worst['cores'])}{proved})."
        )
    changed = (rows["exact_return"] != rows["exact_return_doubles"]).sum()
    sentences.append(
        f"The return of the greedy policy differs from that in double precision in {changed} of {len(rows)} runs."
    )
    return Summary(sentences)


EXPERIMENT = Experiment(
    id="precision",
    question="How far is each number format's result from the same training in double precision?",
    sizes=SIZES,
    figures=(Plot("precision", fig_precision, table_precision, summary_precision),),
    of=Precision,
    part_of="03_learning_quality",
)


def error_bound(used: Coefficients, alpha: float, gamma: float, averagings: int = 0) -> float:
    """Return the largest possible distance to exact arithmetic, in values (not units); see `fixed_point.h`.

    Of update td with a constant alpha. Of update vr it is known where it rests: 1 / (1 - gamma) units at most.

    Parameters
    ----------
    used : Coefficients
        What the integer kernel computes with.
    alpha, gamma : float
        What the exact computation uses.
    averagings : int
        How often tables were averaged; each adds half a unit.
    """
    alpha_off = abs(float(used.alpha_used) - alpha)
    gamma_off = abs(float(used.gamma_used) - gamma)
    largest = max(used.high, -used.low)
    step_error = 1 + alpha_off * (used.high - used.low)
    units = (1 + gamma_off * largest + step_error / alpha) / (1 - gamma) + averagings / 2
    return units / used.scale
