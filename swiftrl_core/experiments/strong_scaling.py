"""Figures about strong scaling: the same data on more and more DPUs."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from swiftrl_core.experiments.learning_quality import LEARNER
from swiftrl_core.experiments.quickstart import PARTS
from swiftrl_core.plotting.captions import averaging, reference, sample, simulator, updates
from swiftrl_core.plotting.style import (
    MARKS,
    PAGE_INCHES,
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


def table_strong_scaling(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the time of every learner on every number of DPUs, and what it gains over the fewest.

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
    solved = rows[rows["backend"] == "exact"].groupby("environment")["pim_kernel"].median()
    table["exact_solution_s"] = table["environment"].map(solved).astype(float)
    table["exact_solution_evidence"] = np.where(table["exact_solution_s"].notna(), "measured", None)
    return table


def _in_order(column: pd.Series) -> pd.Series:
    """Sort samplings as the paper names them, and the rest as they are."""
    return column.map(list(MARKS).index) if column.name == "sampling" else column


def fig_strong_scaling(rows: pd.DataFrame) -> Figure:
    """Draw speed-up and efficiency against the number of DPUs, beside the ideal.

    Parameters
    ----------
    rows : DataFrame
        Rows of `results.COLUMNS`; see `table_strong_scaling`.

    Returns
    -------
    Figure, a page wide; hollow marks are simulated
    """
    table = table_strong_scaling(rows)
    groups = list(table.groupby("environment", sort=False))
    evidence = evidence_of(table)
    with style():
        figure = new_figure(PAGE_INCHES, 4.5)
        panels = figure.subplots(
            2, len(groups), sharex=True, sharey="row", height_ratios=(1.5, 1), squeeze=False
        )
        for (upper, lower), (environment, own) in zip(panels.T, groups, strict=True):
            learners = list(own.groupby(LEARNER, sort=False))
            for number, (learner, some) in enumerate(learners):
                apart = 1.02 ** (
                    number - (len(learners) - 1) / 2
                )  # beside each other, for they are nearly equal
                _curve(upper, some, "speedup", learner)
                _curve(lower, some, "efficiency", learner, apart)
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
    axes: Axes, some: pd.DataFrame, column: str, learner: tuple[str, str, str], apart: float = 1.0
) -> None:
    algorithm, sampling, number_format = learner
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
    """Return what must stand beside a speed-up."""
    runs = rows[rows["backend"] == "pim"]
    return [simulator(runs), sample(runs), updates(runs), averaging(runs), reference(rows)]


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


def fig_scaling_breakdown(rows: pd.DataFrame) -> Figure:
    """Draw where the time of each number of DPUs goes: stacked, in milliseconds and in shares.

    The first algorithm and sampling of the rows stand for all; the table has every learner.

    Parameters
    ----------
    rows : DataFrame
        Rows of `results.COLUMNS`; see `table_scaling_breakdown`.

    Returns
    -------
    Figure, a page wide
    """
    table = table_scaling_breakdown(rows)
    algorithm, sampling = table["algorithm"].iloc[0], table["sampling"].iloc[0]
    shown = table[(table["algorithm"] == algorithm) & (table["sampling"] == sampling)]
    groups = list(shown.groupby(["environment", "number_format"], sort=False))
    unit, factor = ("s", 1) if shown["total_s"].max() > 1 else ("ms", 1e3)
    with style():
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
        panels[0, 0].set_ylabel(f"time ({unit}), {evidence_of(shown)}")
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
            f"{total:.3g}",
            (place, total),
            xytext=(0, 1.5),
            textcoords="offset points",
            ha="center",
            size=6,
        )
    axes.margins(y=0.12)
