"""Figures of a population of independent agents."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from swiftrl_core.figures.style import PAGE_INCHES, style

PIPELINE_TASKLETS = 11
"""A tasklet issues an instruction every 11 cycles at most, so that many keep a DPU's pipeline full."""

MOST_LABELS = 8
"""Cells of a heat map in one direction that still have room for a number each."""


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
    with style():
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
    with style():
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
