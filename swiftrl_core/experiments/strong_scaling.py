"""Experiment 04: strong scaling, the same data on more and more DPUs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.experiments.grids import (
    LEARNER,
    LEARNERS,
    PAPER_CORES,
    PAPER_ROWS,
    PAPER_SCHEDULE,
    PAPER_SEEDS,
    SAMPLED,
    SMOKE_ROWS,
    TIMED_ROWS,
    TIMED_SCHEDULE,
    by_environment,
    solved,
)
from swiftrl_core.plotting.captions import averaging, learner, reference, sample, simulator, updates
from swiftrl_core.plotting.intervals import on_most_cores
from swiftrl_core.plotting.style import (
    MARKS,
    PAGE_INCHES,
    PARTS,
    colour,
    count_ticks,
    evidence_of,
    mark_of,
    named,
    new_figure,
    note,
    style,
)

SHADES = {("q_learning", "FP32"): 0, ("q_learning", "INT32"): 1, ("sarsa", "FP32"): 2, ("sarsa", "INT32"): 4}
"""Colour of each algorithm and number format, as places in the palette."""


def _scaling(transitions: Mapping[str, int], **grid: Any) -> tuple[Mapping[str, Any], ...]:
    """Return grids of learners on DPUs, and of the exact solution that every speed-up is reported with.

    Settings of a learner in the grid narrow the twelve down.
    """
    common = {name: grid[name] for name in ("episodes", "tau", "seed")}
    pim = by_environment(transitions, **{**LEARNERS, "backend": "pim", **grid})
    return *pim, *solved(transitions, **common)


SIZES = {
    "smoke": _scaling(SMOKE_ROWS, sampling="SEQ", cores=(2, 4, 8), episodes=4, tau=2, seed=0),
    "quick": _scaling(TIMED_ROWS, cores=PAPER_CORES, **TIMED_SCHEDULE, seed=0, backend_options=SAMPLED),
    "paper": _scaling(
        PAPER_ROWS, cores=PAPER_CORES, **PAPER_SCHEDULE, seed=PAPER_SEEDS, backend_options=SAMPLED
    ),
}


def table_strong_scaling(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the time of every learner on every number of DPUs, and its speed-up over the fewest.

    Returns
    -------
    DataFrame
        environment, transitions, episodes, tau, algorithm, sampling, number_format, cores; the four parts and total_s,
        seconds, means over seeds; speedup and efficiency (speed-up over the growth in DPUs) against the fewest DPUs;
        nominal_updates, executed_updates, evidence, hardware_profile, model_version; exact_solution_s and
        exact_solution_evidence, of counting and solving the same data on the host.
    """
    runs = rows[rows["backend"] == "pim"]
    group = ["environment", "transitions", "episodes", "tau", *LEARNER]
    settled = [
        *group,
        "cores",
        "nominal_updates",
        "executed_updates",
        "evidence",
        "hardware_profile",
        "model_version",
    ]
    table = runs.groupby(settled, sort=False, dropna=False)[list(PARTS)].mean().reset_index()
    table = table.sort_values([*group, "cores"], key=_in_order, kind="stable", ignore_index=True)
    table["total_s"] = table[list(PARTS)].sum(axis=1)
    fewest = table.groupby(group, sort=False)[["cores", "total_s"]].transform("first")
    table["speedup"] = fewest["total_s"] / table["total_s"]
    table["efficiency"] = table["speedup"] * fewest["cores"] / table["cores"]
    exact = rows[rows["backend"] == "exact"].groupby("environment")["pim_kernel"].median()
    table["exact_solution_s"] = table["environment"].map(exact).astype(float)
    table["exact_solution_evidence"] = np.where(table["exact_solution_s"].notna(), "measured", None)
    return table


def _in_order(column: pd.Series) -> pd.Series:
    """Return the sort key of a column: samplings in the order of the paper, the rest unchanged."""
    return column.map(list(MARKS).index) if column.name == "sampling" else column


@style()
def fig_strong_scaling(rows: pd.DataFrame) -> Figure:
    """Draw speed-up and efficiency against the number of DPUs, with the ideal.

    Hollow marks are simulated.
    """
    table = table_strong_scaling(rows)
    groups = list(table.groupby("environment", sort=False))
    evidence = evidence_of(table)
    figure = new_figure(PAGE_INCHES, 4.5)
    panels = figure.subplots(2, len(groups), sharex=True, sharey="row", height_ratios=(1.5, 1), squeeze=False)
    for (upper, lower), (environment, own) in zip(panels.T, groups, strict=True):
        learners = list(own.groupby(list(LEARNER), sort=False))
        for number, (names, some) in enumerate(learners):
            apart = 1.02 ** (number - (len(learners) - 1) / 2)  # side by side, for they are nearly equal
            _curve(upper, some, "speedup", names)
            _curve(lower, some, "efficiency", names, apart)
        cores = np.array(sorted(own["cores"].unique()))
        upper.plot(cores, cores / cores[0], color="black", lw=0.8, ls="--")
        lower.axhline(1, color="black", lw=0.8, ls="--")
        upper.set(title=named(environment), xscale="log", yscale="log")
        lower.set(xlabel="DPUs")
        count_ticks(lower.xaxis, cores)
        upper.minorticks_off()
        count_ticks(upper.yaxis, [round(count / cores[0]) for count in cores])
    panels[0, 0].set_ylabel(f"speed-up over {cores[0]:,} DPUs\n({evidence} times)")
    panels[1, 0].set_ylabel("efficiency\n(marks side by side)")
    panels[1, 0].set_ylim(min(0.8, table["efficiency"].min() - 0.05), table["efficiency"].max() + 0.05)
    _legend(figure, table)
    note(figure, [_marks_sentence(table), *_facts(rows)])
    return figure


def _curve(
    axes: Axes, some: pd.DataFrame, column: str, names: tuple[str, str, str], apart: float = 1.0
) -> None:
    algorithm, sampling, number_format = names
    look = {"color": colour(SHADES[algorithm, number_format]), "marker": MARKS[sampling], "ms": 4, "lw": 0.8}
    axes.plot(some["cores"] * apart, some[column], **look, **mark_of(evidence_of(some)))


def _legend(figure: Figure, table: pd.DataFrame) -> None:
    seen = set(zip(table["algorithm"], table["number_format"], strict=True))
    handles = [
        Line2D([], [], color=colour(place), lw=2, label=f"{named(algorithm)} {number_format}")
        for (algorithm, number_format), place in SHADES.items()
        if (algorithm, number_format) in seen
    ]
    hollow = mark_of(evidence_of(table))
    handles += [
        Line2D([], [], color="#444444", marker=mark, ms=4, ls="none", label=name, **hollow)
        for name, mark in MARKS.items()
        if name in set(table["sampling"])
    ]
    handles.append(Line2D([], [], color="black", lw=0.8, ls="--", label="ideal"))
    figure.legend(
        handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, columnspacing=1
    )


def _marks_sentence(table: pd.DataFrame) -> str:
    if evidence_of(table) == "measured":
        return "All times measured on UPMEM hardware."
    return "Hollow marks: simulated."


def _facts(rows: pd.DataFrame) -> list[str]:
    """Return the sentences that every speed-up is reported with."""
    runs = rows[rows["backend"] == "pim"]
    return [simulator(runs), sample(runs), updates(runs), averaging(runs), reference(rows)]


def summary_strong_scaling(rows: pd.DataFrame) -> Summary:
    """Return the speed-up from the fewest DPUs to the most, and the exact solution's time in comparison."""
    sentences = []
    for environment, own in table_strong_scaling(rows).groupby("environment", sort=False):
        fewest, most = own["cores"].min(), own["cores"].max()
        last = own[own["cores"] == most]
        worst, best = last.loc[last["speedup"].idxmin()], last.loc[last["speedup"].idxmax()]
        sentences.append(
            f"{named(environment)}: {most / fewest:g} times the DPUs, {most:,} instead of {fewest:,}, make learners "
            f"{worst['speedup']:.1f} ({learner(worst)}) to {best['speedup']:.1f} times ({learner(best)}) as fast "
            f"({evidence_of(last)})."
        )
        sentences.append(
            f"{named(environment)}: the fastest learner there takes {last['total_s'].min() * 1e3:.3g} ms "
            f"({evidence_of(last)}) for {last['nominal_updates'].iloc[0]:,} updates; one core of this host counts and "
            f"solves the same data in {own['exact_solution_s'].iloc[0] * 1e3:.2g} ms (measured)."
        )
    return Summary(sentences)


def table_scaling_breakdown(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the four parts of the time of each learner and number of DPUs, in seconds and as shares of the total.

    Returns
    -------
    DataFrame
        environment, algorithm, sampling, number_format, cores, the four parts, total_s, the four shares NAME_share,
        evidence.
    """
    table = table_strong_scaling(rows)
    shares = table[list(PARTS)].div(table["total_s"], axis=0).add_suffix("_share")
    kept = ["environment", *LEARNER, "cores", *PARTS, "total_s"]
    return pd.concat([table[kept], shares, table[["evidence"]]], axis=1)


@style()
def fig_scaling_breakdown(rows: pd.DataFrame) -> Figure:
    """Draw the four parts of the time for each number of DPUs: stacked, in milliseconds and in shares.

    Only the first algorithm and sampling of the rows are drawn; the table has every learner.

    """
    table = table_scaling_breakdown(rows)
    algorithm, sampling = table["algorithm"].iloc[0], table["sampling"].iloc[0]
    shown = table[(table["algorithm"] == algorithm) & (table["sampling"] == sampling)]
    groups = list(shown.groupby(["environment", "number_format"], sort=False))
    unit, factor = ("s", 1) if shown["total_s"].max() > 1 else ("ms", 1e3)
    figure = new_figure(PAGE_INCHES, 3.9)
    panels = figure.subplots(2, len(groups), sharex="col", squeeze=False)
    for (upper, lower), ((environment, number_format), own) in zip(panels.T, groups, strict=True):
        labels = [f"{count:,}" for count in own["cores"]]
        _stack(upper, labels, own[list(PARTS)] * factor)
        _stack(lower, labels, own[[f"{part}_share" for part in PARTS]] * 100)
        upper.set_title(f"{named(environment)} {number_format}")
        _totals(upper, own["total_s"] * factor)
        lower.set(xlabel="DPUs", ylim=(0, 100))
        lower.tick_params(axis="x", rotation=45)
    panels[0, 0].set_ylabel(f"time ({unit}, {evidence_of(shown)})")
    panels[1, 0].set_ylabel("share of the time (%)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    note(figure, [f"{named(algorithm)}, {sampling}.", *_facts(rows)])
    return figure


def _stack(axes: Axes, labels: list[str], parts: pd.DataFrame) -> None:
    bottom = np.zeros(len(parts))
    for place, (name, column) in enumerate(zip(PARTS.values(), parts, strict=True)):
        height = parts[column].to_numpy()
        axes.bar(labels, height, bottom=bottom, width=0.72, label=name, color=colour(place))
        bottom += height


def _totals(axes: Axes, totals: pd.Series) -> None:
    for place, total in enumerate(totals):
        axes.annotate(
            f"{total:.3g}", (place, total), xytext=(0, 1.5), textcoords="offset points", ha="center", size=6
        )
    axes.margins(y=0.12)


def summary_scaling_breakdown(rows: pd.DataFrame) -> Summary:
    """Return the share of the time outside the kernel on the most DPUs."""
    sentences = []
    for environment, own in on_most_cores(table_scaling_breakdown(rows)).groupby("environment", sort=False):
        other = 1 - own["pim_kernel_share"]
        least, most = own.loc[other.idxmin()], own.loc[other.idxmax()]
        sentences.append(
            f"{named(environment)}, {own['cores'].iloc[0]:,} DPUs: between {other.min():.1%} ({learner(least)}) and "
            f"{other.max():.1%} ({learner(most)}) of the time is spent outside the kernel ({evidence_of(own)})."
        )
    return Summary(sentences)


EXPERIMENT = Experiment(
    id="04_strong_scaling",
    question="How much faster do more DPUs learn the same data, and where does the time go?",
    sizes=SIZES,
    figures=(
        Plot("strong_scaling", fig_strong_scaling, table_strong_scaling, summary_strong_scaling),
        Plot("scaling_breakdown", fig_scaling_breakdown, table_scaling_breakdown, summary_scaling_breakdown),
    ),
)
