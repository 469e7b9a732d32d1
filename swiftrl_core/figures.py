"""Figures as pure functions of a table: `fig_xxx(DataFrame) -> Figure`, ready for a paper's column.

Widths are those of a two-column page, text is 8 pt, fonts are embedded as TrueType, colours are seaborn's
colour-blind palette. A time is drawn with its evidence beside it: measured, simulated or modelled.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from swiftrl_core.files import atomic_path

COLUMN_INCHES = 3.33
PAGE_INCHES = 7.0
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "pdf.fonttype": 42,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 150,
}
PARTS = {
    "cpu_to_pim": "CPU-PIM",
    "pim_kernel": "PIM kernel",
    "inter_pim_core": "inter-PIM-core",
    "pim_to_cpu": "PIM-CPU",
}
"""The paper's four parts of the time, in the order they happen."""

PIPELINE_TASKLETS = 11
"""A tasklet issues an instruction every 11 cycles at most, so that many keep a DPU's pipeline full."""

MOST_LABELS = 8
"""Cells of a heat map in one direction that still have room for a number each."""

ARROWS = "←↓→↑"
"""FrozenLake's actions 0 to 3."""
TILES = {"S": "#d9e8f5", "F": "#d9e8f5", "H": "#3b5b7a", "G": "#f2c14e"}


def fig_breakdown(times: pd.DataFrame) -> Figure:
    """Draw where the time went, one stacked bar a run.

    Parameters
    ----------
    times : DataFrame
        Columns run (label), cpu_to_pim, pim_kernel, inter_pim_core, pim_to_cpu (seconds) and evidence.

    Returns
    -------
    Figure, one column wide
    """
    with _style():
        figure = Figure(figsize=(COLUMN_INCHES, 1.1 + 0.28 * len(times)), layout="constrained")
        axes = figure.subplots()
        left = np.zeros(len(times))
        labels = [
            f"{run}\n({evidence})" for run, evidence in zip(times["run"], times["evidence"], strict=True)
        ]
        for (part, name), colour in zip(PARTS.items(), sns.color_palette("colorblind"), strict=False):
            width = times[part].to_numpy() * 1e3
            axes.barh(labels, width, left=left, label=name, color=colour)
            left += width
        axes.set_xlabel("time (ms), " + " and ".join(sorted(set(times["evidence"]))))
        axes.invert_yaxis()
        figure.legend(loc="outside upper center", ncols=4, frameon=False, columnspacing=1, handlelength=1)
    return figure


def fig_policy(policy: pd.DataFrame) -> Figure:
    """Draw a greedy policy on FrozenLake's map: an arrow a state, over its value.

    Parameters
    ----------
    policy : DataFrame
        One row a tile: row, column, tile (S, F, H or G), action (0 left, 1 down, 2 right, 3 up), value.

    Returns
    -------
    Figure, one column wide
    """
    rows, columns = policy["row"].max() + 1, policy["column"].max() + 1
    with _style():
        figure = Figure(figsize=(COLUMN_INCHES, COLUMN_INCHES * rows / columns), layout="constrained")
        axes = figure.subplots()
        for tile in policy.itertuples():
            axes.add_patch(
                mpl.patches.Rectangle(
                    (tile.column, tile.row), 1, 1, facecolor=TILES[tile.tile], edgecolor="white", lw=2
                )
            )
            if tile.tile in "SF":
                x, y = tile.column + 0.5, tile.row + 0.5
                axes.text(x, y - 0.05, ARROWS[tile.action], ha="center", va="center", size=13)
                axes.text(x, y + 0.33, f"{tile.value:.3f}", ha="center", va="center", size=6, color="#333333")
            elif tile.tile == "G":
                axes.text(tile.column + 0.5, tile.row + 0.5, "goal", ha="center", va="center")
        axes.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[], aspect="equal")
        axes.set_title("greedy action and its value; dark tiles are holes")
        sns.despine(ax=axes, left=True, bottom=True)
    return figure


def fig_learning_curve(curve: pd.DataFrame) -> Figure:
    """Draw the exact return after each round against the optimum.

    Parameters
    ----------
    curve : DataFrame
        Columns run (label), episodes, exact_return, optimum.

    Returns
    -------
    Figure, one column wide
    """
    with _style():
        figure = Figure(figsize=(COLUMN_INCHES, 2.2), layout="constrained")
        axes = figure.subplots()
        runs = curve.groupby("run", sort=False)
        palette = sns.color_palette("colorblind", len(runs))
        for number, ((run, rows), colour) in enumerate(zip(runs, palette, strict=True)):
            ring = {
                "marker": "o",
                "ms": 3 + 2.5 * number,
                "mfc": "none",
            }  # rings in rings: equal curves both show
            axes.plot(rows["episodes"], rows["exact_return"], **ring, lw=1, color=colour, label=run)
        for optimum in curve["optimum"].unique():
            axes.axhline(optimum, color="black", lw=0.8, ls="--", label=f"optimum {optimum:.4f}")
        axes.set(xlabel="episodes (passes over the data)", ylabel="exact expected return")
        axes.legend(frameon=False, loc="lower right")
    return figure


def fig_population(agents: pd.DataFrame) -> Figure:
    """Draw how good independent agents are, and how far they agree, over their alpha and gamma.

    Parameters
    ----------
    agents : DataFrame
        One row an agent, a full grid: alpha, gamma, exact_return, agreement (share of states in which its greedy
        action is the population's most common one), optimum.

    Returns
    -------
    Figure, a page wide
    """
    panels = (
        ("exact_return", "exact expected return", "viridis", agents["optimum"].max()),
        ("agreement", "states decided as by the majority", "cividis", 1.0),
    )
    with _style():
        figure = Figure(figsize=(PAGE_INCHES, 2.9), layout="constrained")
        for axes, (column, title, colours, most) in zip(figure.subplots(1, 2), panels, strict=True):
            grid = agents.pivot(index="gamma", columns="alpha", values=column)
            image = axes.pcolormesh(grid.to_numpy(), cmap=colours, vmin=grid.min(axis=None), vmax=most)
            figure.colorbar(image, ax=axes, pad=0.02)
            _number_cells(axes, grid, image)
            _label_every(axes.xaxis, grid.columns)
            _label_every(axes.yaxis, grid.index)
            axes.set(title=title, xlabel="learning rate alpha", ylabel="discount gamma")
            sns.despine(ax=axes, left=True, bottom=True)
    return figure


def fig_agents_per_dpu(packing: pd.DataFrame) -> Figure:
    """Draw what it costs to put several agents on a DPU, one a tasklet.

    Parameters
    ----------
    packing : DataFrame
        One row a run of one population: number_format, agents_per_dpu, kernel_s (seconds until all agents are
        done), dpu_us_per_update (microseconds of one DPU for an agent's update), evidence.

    Returns
    -------
    Figure, a page wide; hollow markers are simulated
    """
    evidence = " and ".join(sorted(set(packing["evidence"])))
    panels = (
        ("kernel_s", 1e3, f"ms to learn, {evidence}"),
        ("dpu_us_per_update", 1, f"DPU µs an update, {evidence}"),
    )
    with _style():
        figure = Figure(figsize=(PAGE_INCHES, 2.6), layout="constrained")
        for axes, (column, unit, label) in zip(figure.subplots(1, 2), panels, strict=True):
            for marker, (name, rows) in zip(
                "osD^v", packing.groupby("number_format", sort=False), strict=False
            ):
                hollow = {"mfc": "none"} if set(rows["evidence"]) == {"simulated"} else {}
                axes.plot(
                    rows["agents_per_dpu"],
                    rows[column] * unit,
                    marker=marker,
                    ms=5,
                    lw=1,
                    label=name,
                    **hollow,
                )
            axes.axvline(
                PIPELINE_TASKLETS,
                color="black",
                lw=0.8,
                ls=":",
                label=f"{PIPELINE_TASKLETS} fill the pipeline",
            )
            axes.set(xscale="log", yscale="log", xlabel="agents on a DPU, one a tasklet", ylabel=label)
            axes.set_xticks(sorted(set(packing["agents_per_dpu"])), sorted(set(packing["agents_per_dpu"])))
            axes.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
            axes.minorticks_off()
            axes.grid(axis="y", lw=0.4, alpha=0.5)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def save(figure: Figure, table: pd.DataFrame, directory: str | os.PathLike, name: str) -> list[Path]:
    """Write a figure as PDF and PNG, and the table it draws as CSV; the same input gives the same bytes.

    Raises
    ------
    SwiftRLError
        If the folder cannot be written.
    """
    directory = Path(directory)
    pdf, png, csv = (directory / f"{name}.{suffix}" for suffix in ("pdf", "png", "csv"))
    with _style():
        with atomic_path(pdf) as temporary:
            figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
        with atomic_path(png) as temporary:
            figure.savefig(temporary, format="png", dpi=200, metadata={"Software": None})
    with atomic_path(csv) as temporary:
        table.to_csv(temporary, index=False)
    return [pdf, png, csv]


def _label_every(axis: mpl.axis.Axis, values: pd.Index) -> None:
    """Name the middle of a heat map's rows or columns, as many as fit."""
    step = -(-len(values) // MOST_LABELS)
    axis.set_ticks(np.arange(0, len(values), step) + 0.5, [f"{value:.3g}" for value in values[::step]])
    axis.set_tick_params(length=0)


def _number_cells(axes: mpl.axes.Axes, grid: pd.DataFrame, image: mpl.collections.QuadMesh) -> None:
    """Write each value into its cell, dark on light or light on dark, if the cells are large enough."""
    if max(grid.shape) > MOST_LABELS:
        return
    decimals = 2 if np.ptp(grid) < 10 else 0
    for (row, column), value in np.ndenumerate(grid.to_numpy()):
        colour = "white" if image.norm(value) < 0.5 else "black"
        axes.text(
            column + 0.5, row + 0.5, f"{value:.{decimals}f}", ha="center", va="center", size=6, color=colour
        )


@contextmanager
def _style() -> Iterator[None]:
    with mpl.rc_context(STYLE):
        yield
