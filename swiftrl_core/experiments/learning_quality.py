"""Experiment 03: the quality of the twelve learners' tables, and the effect of cores and fixed point on it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.experiments.grids import (
    EARLY_EXIT,
    FORMATS,
    LEARNER,
    PAPER_ROWS,
    PAPER_SCHEDULE,
    PAPER_SEEDS,
    QUICK_ROWS,
    QUICK_SEEDS,
    SMOKE_ROWS,
    SMOKE_SEEDS,
    by_environment,
)
from swiftrl_core.plotting import captions
from swiftrl_core.plotting.intervals import bars_of, means_over, over_seeds
from swiftrl_core.plotting.style import (
    ALGORITHM_COLOURS,
    MARKS,
    PAGE_INCHES,
    colour,
    count_ticks,
    legend_above,
    named,
    new_figure,
    note,
    plain_log_ticks,
    style,
)

ERRORS = {"mean_error_optimal": "to Q*", "mean_error_empirical": "to the data's own Q*"}
"""Measures of a table's error, and what it is an error to."""


def _twelve(transitions: Mapping[str, int], **grid: Any) -> tuple[Mapping[str, Any], ...]:
    """Return grids of the twelve learners on the CPU engine, with early exit where it is exact."""
    parts = (
        {"algorithm": "q_learning", "sampling": ("SEQ", "STR"), "backend_options": EARLY_EXIT},
        {"algorithm": "q_learning", "sampling": "RAN"},
        {"algorithm": "sarsa", "sampling": ("SEQ", "STR", "RAN")},
    )
    common = {"number_format": FORMATS, "backend": "cpu", **grid}
    return tuple(entry for part in parts for entry in by_environment(transitions, **part, **common))


SIZES = {
    "smoke": _twelve(SMOKE_ROWS, cores=(1, 8), episodes=20, tau=10, seed=SMOKE_SEEDS),
    "quick": _twelve(QUICK_ROWS, cores=(1, 16, 125, 1000), episodes=100, tau=10, seed=QUICK_SEEDS),
    "paper": _twelve(PAPER_ROWS, cores=(1, 125, 500, 2000), **PAPER_SCHEDULE, seed=PAPER_SEEDS),
}


def table_learning_quality(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the returns of every learner, environment and number of cores.

    Returns
    -------
    DataFrame
        environment, transitions, episodes, algorithm, sampling, number_format, cores, optimum, seeds; exact_return and
        monte_carlo_mean with their intervals over seeds; nominal_updates and executed_updates, means.
    """
    by = ["environment", "transitions", "episodes", *LEARNER, "cores", "optimum", "nominal_updates"]
    return over_seeds(rows, by, ["exact_return", "monte_carlo_mean", "executed_updates"]).drop(
        columns=["executed_updates_low", "executed_updates_high"]
    )


@style()
def fig_learning_quality(rows: pd.DataFrame) -> Figure:
    """Draw the return of each learner's greedy policy, for several numbers of cores."""
    table = table_learning_quality(rows)
    learners = table[list(LEARNER)].drop_duplicates().itertuples(index=False)
    places = {tuple(learner): -place for place, learner in enumerate(learners)}
    cores = sorted(table["cores"].unique())
    groups = list(table.groupby("environment", sort=False))
    figure = new_figure(PAGE_INCHES, 1.5 + 0.3 * len(places))
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    for axes, (environment, own) in zip(panels, groups, strict=True):
        for number, count in enumerate(cores):
            some = own[own["cores"] == count]
            height = [places[tuple(learner)] for learner in some[list(LEARNER)].itertuples(index=False)]
            height = np.array(height) + 0.56 * (0.5 - (number + 0.5) / len(cores))
            _returns(axes, some, height, colour(number), captions.cores(count))
        axes.axvline(own["optimum"].max(), color="black", lw=0.8, ls="--", label="optimum, greedy on Q*")
        axes.set(title=named(environment), xlabel="return of the greedy policy")
        for place in places.values():
            axes.axhline(place - 0.5, color="#dddddd", lw=0.5, zorder=0)
    panels[0].set_yticks(
        list(places.values()),
        [captions.learner(dict(zip(LEARNER, learner, strict=True))) for learner in places],
    )
    panels[0].set_ylim(min(places.values()) - 0.6, 0.6)
    panels[0].plot([], [], "x", color="#444444", ms=4, label="mean of played episodes")
    legend_above(figure, panels[0])
    episodes = int(rows["monte_carlo_episodes"].max())
    note(
        figure,
        [
            f"Dots: exact expected return; {means_over(table)}.",
            f"Crosses: mean of {episodes:,} played episodes, as in the paper.",
            _updates_sentence(table),
        ],
    )
    return figure


def _returns(axes: Axes, some: pd.DataFrame, height: np.ndarray, shade: tuple, label: str) -> None:
    bars = bars_of(some, "exact_return")
    axes.errorbar(
        some["exact_return"],
        height,
        xerr=bars,
        fmt="o",
        ms=3.5,
        lw=0.9,
        color=shade,
        label=label,
        clip_on=False,
    )
    axes.plot(some["monte_carlo_mean"], height, "x", ms=3.5, mew=0.8, color=shade, alpha=0.9)


def _updates_sentence(table: pd.DataFrame) -> str:
    """Return the share of nominal updates that early exit did not skip."""
    executed, nominal = table["executed_updates"].sum(), table["nominal_updates"].sum()
    if executed == nominal:
        return "Every nominal update was executed."
    return (
        f"Of the nominal updates {executed / nominal:.0%} were executed; the others could not change a bit."
    )


def summary_learning_quality(rows: pd.DataFrame) -> Summary:
    """Return the range of returns for each number of cores, and the error of played episodes."""
    sentences = []
    table = table_learning_quality(rows)
    for (environment, cores), own in table.groupby(["environment", "cores"]):
        low, high = own["exact_return"].min(), own["exact_return"].max()
        sentences.append(
            f"{named(environment)}, {captions.cores(cores)}: the mean returns of the learners lie between {low:.3f} "
            f"and {high:.3f}; the optimum is {own['optimum'].max():.3f}."
        )
    rows = rows.assign(off=(rows["exact_return"] - rows["monte_carlo_mean"]).abs())
    for environment, own in rows.groupby("environment"):
        sentences.append(
            f"{named(environment)}: the mean of {own['monte_carlo_episodes'].max():,} played episodes differs from the "
            f"exact return by {own['off'].mean():.2g} on average and by at most {own['off'].max():.2g}, in "
            f"{len(own):,} runs."
        )
    return Summary(sentences)


def table_table_error(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the distance of every learner's table to Q*, and to the fixed point of Q-learning on its data.

    Returns
    -------
    DataFrame
        environment, transitions, episodes, algorithm, sampling, number_format, cores, seeds; for the two targets the
        mean and the largest absolute difference over the pairs an episode can meet, with intervals over seeds.
    """
    by = ["environment", "transitions", "episodes", *LEARNER, "cores"]
    return over_seeds(rows, by, [*ERRORS, *(name.replace("mean", "max") for name in ERRORS)])


@style()
def fig_table_error(rows: pd.DataFrame) -> Figure:
    """Draw the distance of the learned tables to the true values against the number of cores.

    Solid and filled FP32, dashed and hollow INT32.
    """
    table = table_table_error(rows)
    groups = list(table.groupby("environment", sort=False))
    figure = new_figure(PAGE_INCHES, 2.9)
    panels = figure.subplots(1, 2 * len(groups))
    for number, (environment, own) in enumerate(groups):
        for axes, (column, target) in zip(panels[2 * number :], ERRORS.items(), strict=False):
            for learner, some in own.groupby(list(LEARNER), sort=False):
                _errors(axes, some, column, learner)
            axes.set(title=f"{named(environment)}\n{target}", xscale="log", yscale="log", xlabel="cores")
            count_ticks(axes.xaxis, table["cores"])
        low, high = _common_limits(panels[2 * number : 2 * number + 2])
        for axes in panels[2 * number : 2 * number + 2]:
            axes.set_ylim(low, high)
            plain_log_ticks(axes.yaxis)
    panels[0].set_ylabel("mean |Q - target| over pairs")
    _learner_legend(figure, table)
    note(
        figure,
        [
            f"Dots: {means_over(table)}.",
            "The data's own Q* is the fixed point of Q-learning on the same data; SARSA explores and has another.",
        ],
    )
    return figure


def _errors(axes: Axes, some: pd.DataFrame, column: str, learner: tuple[str, str, str]) -> None:
    algorithm, sampling, number_format = learner
    shade, exact = colour(ALGORITHM_COLOURS[algorithm]), number_format == "FP32"
    axes.errorbar(
        some["cores"],
        some[column],
        bars_of(some, column),
        color=shade,
        marker=MARKS[sampling],
        ms=4,
        lw=0.9,
        ls="-" if exact else "--",
        mfc=shade if exact else "white",
        alpha=0.85,
    )


def _common_limits(panels: Sequence[Axes]) -> tuple[float, float]:
    limits = np.array([axes.get_ylim() for axes in panels])
    return limits[:, 0].min(), limits[:, 1].max()


def _learner_legend(figure: Figure, table: pd.DataFrame) -> None:
    """Explain colours, marks and lines separately, as all their combinations would fill the page."""
    handles = [
        Line2D([], [], color=colour(place), lw=2, label=named(name))
        for name, place in ALGORITHM_COLOURS.items()
        if name in set(table["algorithm"])
    ]
    handles += [
        Line2D([], [], color="#444444", marker=mark, ms=4, ls="none", label=name)
        for name, mark in MARKS.items()
        if name in set(table["sampling"])
    ]
    handles += [
        Line2D([], [], color="#444444", marker="o", ms=4, lw=0.9, label="FP32"),
        Line2D([], [], color="#444444", marker="o", ms=4, lw=0.9, ls="--", mfc="white", label="INT32"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)


def summary_table_error(rows: pd.DataFrame) -> Summary:
    """Return the number of cores at which each algorithm is nearest to Q*, and its distance to the exact solution."""
    table = table_table_error(rows)
    best = table.loc[table.groupby(["environment", "algorithm"], sort=False)["mean_error_optimal"].idxmin()]
    return Summary(
        f"{named(row.environment)}, {named(row.algorithm)}: nearest to Q* on {captions.cores(row.cores)} ("
        f"{row.sampling} {row.number_format}), with a mean error of {row.mean_error_optimal:.2g}; its mean distance to "
        f"the exact solution of the data is {row.mean_error_empirical:.2g}."
        for row in best.itertuples()
    )


def table_number_formats(rows: pd.DataFrame) -> pd.DataFrame:
    """Return FP32 and INT32 side by side: one row for each environment, learner, number of cores and seed.

    Returns
    -------
    DataFrame
        environment, algorithm, sampling, cores, seed; exact_return and mean_error_optimal, each of FP32 and INT32.
    """
    keys = ["environment", "algorithm", "sampling", "cores", "seed"]
    wide = rows.pivot(index=keys, columns="number_format", values=["exact_return", "mean_error_optimal"])
    wide.columns = [f"{name}_{number_format}" for name, number_format in wide.columns]
    return wide.reset_index()


@style()
def fig_number_formats(rows: pd.DataFrame) -> Figure:
    """Draw the quality of INT32 against FP32, a mark for each pair of runs that differ only in the number format.

    On the diagonal the two agree.
    """
    table = table_number_formats(rows)
    groups = list(table.groupby("environment", sort=False))
    pairs = {"mean_error_optimal": "mean |Q - Q*|", "exact_return": "exact return"}
    figure = new_figure(PAGE_INCHES, 2.7)
    panels = figure.subplots(1, 2 * len(groups))
    for number, (environment, own) in enumerate(groups):
        for axes, (column, label) in zip(panels[2 * number :], pairs.items(), strict=False):
            _pairs(axes, own, column)
            axes.set(title=named(environment), xlabel=f"{label}, FP32", ylabel=f"{label}, INT32")
    handles = [
        Line2D([], [], color=colour(place), lw=0, marker="o", ms=4, label=captions.cores(count))
        for place, count in enumerate(sorted(table["cores"].unique()))
    ]
    handles += [
        Line2D([], [], color="#444444", lw=0, marker=mark, ms=4, mfc="none", label=name)
        for name, mark in MARKS.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
    note(
        figure,
        ["A mark is a pair of runs that differ in the number format alone; on the dotted line they agree."],
    )
    return figure


def _pairs(axes: Axes, own: pd.DataFrame, column: str) -> None:
    ends = own[[f"{column}_FP32", f"{column}_INT32"]]
    low, high = ends.min(axis=None), ends.max(axis=None)
    axes.plot([low, high], [low, high], color="black", lw=0.7, ls=":")
    cores = sorted(own["cores"].unique())
    for (count, sampling), some in own.groupby(["cores", "sampling"]):
        look = {"ls": "none", "marker": MARKS[sampling], "ms": 4, "mfc": "none", "mew": 0.8}
        axes.plot(some[f"{column}_FP32"], some[f"{column}_INT32"], color=colour(cores.index(count)), **look)
    if column == "mean_error_optimal":
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            plain_log_ticks(axis)
            axis.set_minor_formatter("")


EXPERIMENT = Experiment(
    id="03_learning_quality",
    question="How good are the twelve learners' tables, and what do cores and fixed point cost in quality?",
    sizes=SIZES,
    figures=(
        Plot("learning_quality", fig_learning_quality, table_learning_quality, summary_learning_quality),
        Plot("table_error", fig_table_error, table_table_error, summary_table_error),
        Plot("number_formats", fig_number_formats, table_number_formats),
    ),
)
