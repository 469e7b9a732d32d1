"""Experiment 02: the coverage and the rewards of a core's chunk as the number of cores grows."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from swiftrl_core.data import Dataset
from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.experiments.grids import (
    PAPER_CORES,
    PAPER_ROWS,
    PAPER_SEEDS,
    QUICK_ROWS,
    QUICK_SEEDS,
    SMOKE_ROWS,
    SMOKE_SEEDS,
    by_environment,
)
from swiftrl_core.plotting.captions import millions
from swiftrl_core.plotting.intervals import bars_of, means_over, on_most_cores, over_seeds
from swiftrl_core.plotting.style import (
    COLUMN_INCHES,
    PAGE_INCHES,
    colour,
    count_ticks,
    legend_above,
    named,
    new_figure,
    note,
    style,
)

MARKS = "os^D"
ACTIONS = {4: ("left", "down", "right", "up"), 6: ("south", "north", "east", "west", "pick up", "drop")}
"""Names of the actions of FrozenLake and Taxi."""

SIZES = {
    "smoke": by_environment(SMOKE_ROWS, cores=(1, 8, 64), episodes=5, tau=5, seed=SMOKE_SEEDS, backend="cpu"),
    "quick": by_environment(
        QUICK_ROWS, cores=(1, 8, 64, 500, 2000), episodes=50, tau=50, seed=QUICK_SEEDS, backend="cpu"
    ),
    "paper": by_environment(
        PAPER_ROWS, cores=(1, *PAPER_CORES), episodes=50, tau=50, seed=PAPER_SEEDS, backend="cpu"
    ),
}


def table_coverage(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of (state, action) pairs that occur, for each environment and number of cores.

    Returns
    -------
    DataFrame
        environment, transitions, cores, seeds, coverage (of all data), chunk_coverage (mean of the chunks), with their
        intervals over seeds.
    """
    by = ["environment", "transitions", "cores"]
    return over_seeds(rows.sort_values(["environment", "cores"]), by, ["coverage", "chunk_coverage"])


@style()
def fig_coverage(rows: pd.DataFrame) -> Figure:
    """Draw the share of pairs that a chunk covers, against the number of cores."""
    table = table_coverage(rows)
    figure = new_figure(COLUMN_INCHES, 2.4)
    axes = figure.subplots()
    for place, (environment, own) in enumerate(table.groupby("environment", sort=False)):
        look = {"color": colour(place), "lw": 1, "ms": 4, "marker": MARKS[place]}
        axes.errorbar(
            own["cores"],
            own["chunk_coverage"],
            bars_of(own, "chunk_coverage"),
            label=f"{named(environment)}, a chunk",
            **look,
        )
        axes.axhline(
            own["coverage"].mean(),
            color=colour(place),
            lw=0.8,
            ls="--",
            label=f"{named(environment)}, all data",
        )
    axes.set(xscale="log", xlabel="cores", ylabel="share of pairs (s, a) covered", ylim=(0, 1.05))
    count_ticks(axes.xaxis, table["cores"])
    legend_above(figure, axes, 2)
    sizes = ", ".join(
        f"{named(name)} {millions(own['transitions'].iloc[0])}"
        for name, own in table.groupby("environment", sort=False)
    )
    note(figure, [f"{sizes} transitions; {means_over(table)}."])
    return figure


def summary_coverage(rows: pd.DataFrame) -> Summary:
    """Return the coverage of a chunk on the largest number of cores."""
    return Summary(
        f"{named(row.environment)}: all data cover {row.coverage:.1%} of the pairs; with {row.cores:,} cores, a chunk "
        f"covers {row.chunk_coverage:.1%}."
        for row in on_most_cores(table_coverage(rows)).itertuples()
    )


def table_chunk_rewards(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of chunks without a positive reward, and the return, for each environment and number of cores.

    Returns
    -------
    DataFrame
        environment, transitions, episodes, tau, cores, optimum, seeds, without_reward (share of the chunks),
        exact_return (of the mean table), with their intervals over seeds.
    """
    rows = rows.assign(without_reward=rows["chunks_without_positive_reward"] / rows["cores"])
    by = ["environment", "transitions", "episodes", "tau", "cores", "optimum"]
    return over_seeds(rows.sort_values(["environment", "cores"]), by, ["without_reward", "exact_return"])


@style()
def fig_chunk_rewards(rows: pd.DataFrame) -> Figure:
    """Draw the share of chunks without a reward, and the return of the mean table."""
    table = table_chunk_rewards(rows)
    groups = list(table.groupby("environment", sort=False))
    figure = new_figure(PAGE_INCHES, 2.5)
    left, *others = figure.subplots(1, 1 + len(groups))
    for place, ((environment, own), axes) in enumerate(zip(groups, others, strict=True)):
        look = {"color": colour(place), "lw": 1, "ms": 4, "marker": MARKS[place], "label": named(environment)}
        left.errorbar(own["cores"], own["without_reward"], bars_of(own, "without_reward"), **look)
        axes.errorbar(own["cores"], own["exact_return"], bars_of(own, "exact_return"), **look)
        axes.axhline(own["optimum"].max(), color="black", lw=0.8, ls="--")
        axes.set(title=f"{named(environment)} (dashed: optimum)", ylabel="exact return of the mean table")
    left.set(title="chunks without a positive reward", ylabel="share of chunks", ylim=(-0.03, 1.03))
    left.legend(frameon=False)
    for axes in (left, *others):
        axes.set(xscale="log", xlabel="cores")
        count_ticks(axes.xaxis, table["cores"])
        axes.tick_params(axis="x", rotation=45)
    rounds = int(-(-table["episodes"].max() // table["tau"].max()))
    note(
        figure,
        [
            f"For each environment, {means_over(table)}.",
            f"Tables after {table['episodes'].max()} passes over each chunk and {rounds} averaging"
            + ("s." if rounds > 1 else "."),
        ],
    )
    return figure


def summary_chunk_rewards(rows: pd.DataFrame) -> Summary:
    """Return the share of chunks without a reward on the largest number of cores, and the mean table's return."""
    return Summary(
        f"{named(row.environment)}, {row.cores:,} cores: {row.without_reward:.0%} of the chunks contain no positive "
        f"reward; the exact return of the mean table is {row.exact_return:.3f}, the optimum {row.optimum:.3f}."
        for row in on_most_cores(table_chunk_rewards(rows)).itertuples()
    )


def table_visits(data: Dataset, cores: int) -> pd.DataFrame:
    """Count how often each pair occurs in all data, and in the chunk of the first core.

    Parameters
    ----------
    data : Dataset
    cores : int

    Returns
    -------
    DataFrame
        part (which part of the data), state, action, visits; a row for each pair and part.
    """
    chunk = data.rows(0, -(-len(data) // cores))
    titles = {
        f"all {len(data):,} transitions, {int(data.reward.sum()):,} of them reach the goal": data,
        f"one of {cores:,} chunks: {len(chunk):,} transitions, {int(chunk.reward.sum()):,} reach the goal": chunk,
    }
    parts = []
    for title, part in titles.items():
        pairs = part.state * part.n_actions + part.action
        visits = np.bincount(pairs, minlength=part.n_states * part.n_actions)
        state, action = np.divmod(np.arange(len(visits)), part.n_actions)
        parts.append(pd.DataFrame({"part": title, "state": state, "action": action, "visits": visits}))
    return pd.concat(parts)


@style()
def fig_visits(visits: pd.DataFrame) -> Figure:
    """Draw the number of times each action was tried in each state, in all data and in one core's chunk.

    Parameters
    ----------
    visits : DataFrame
        One row a pair and part: part (what of the data), state, action, visits.

    Pairs never seen stay white.
    """
    parts = list(visits.groupby("part", sort=False))
    states, actions = visits["state"].max() + 1, visits["action"].max() + 1
    most = np.log10(visits["visits"].max())
    figure = new_figure(PAGE_INCHES, 0.9 + 0.16 * actions * len(parts))
    panels = figure.subplots(len(parts), 1, sharex=True)
    for axes, (part, own) in zip(np.atleast_1d(panels), parts, strict=True):
        grid = own.pivot(index="action", columns="state", values="visits").to_numpy(np.float64)
        logs = np.log10(np.where(grid > 0, grid, np.nan))
        image = axes.pcolormesh(logs, cmap="viridis", vmin=0, vmax=most, edgecolors="#dddddd", lw=0.3)
        axes.set_yticks(np.arange(actions) + 0.5, ACTIONS.get(actions, range(actions)))
        axes.set_title(part)
        axes.tick_params(length=0)
    axes.set_xticks(np.arange(0, states, -(-states // 16)) + 0.5, range(0, states, -(-states // 16)))
    axes.set_xlabel("state (white: never tried, or terminal)")
    bar = figure.colorbar(image, ax=panels, pad=0.01)
    bar.set_ticks(range(int(most) + 1), labels=[f"{10**decade:,}" for decade in range(int(most) + 1)])
    bar.set_label("transitions")
    return figure


EXPERIMENT = Experiment(
    id="02_datasets",
    question="What does a core's chunk of random experience still contain as the number of cores grows?",
    sizes=SIZES,
    figures=(
        Plot("coverage", fig_coverage, table_coverage, summary_coverage),
        Plot("chunk_rewards", fig_chunk_rewards, table_chunk_rewards, summary_chunk_rewards),
        Plot("visits", fig_visits),
    ),
)
