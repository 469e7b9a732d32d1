"""Figures of a population of independent agents."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from swiftrl_core.plotting import captions
from swiftrl_core.plotting.style import (
    FORMAT_COLOURS,
    PAGE_INCHES,
    colour,
    mark_of,
    named,
    new_figure,
    note,
    style,
)

PIPELINE_TASKLETS = 11
"""A tasklet issues an instruction every 11 cycles at most, so that many keep a DPU's pipeline full."""

FORMAT_MARKS = {"FP32": "o", "INT32": "s", "INT32_POW2": "D"}

MOST_LABELS = 8
"""Cells of a heat map in one direction that still have room for a number each."""


def table_population(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what `fig_population` shows: one row an agent, means over the data sets.

    Returns
    -------
    DataFrame
        environment, transitions, alpha, gamma, exact_return, agreement (share of states in which its greedy action is
        the population's most common one), optimum, seeds.
    """
    each = ["alpha", "gamma", "exact_return", "agreement"]
    agents = rows.loc[rows["side"].notna(), ["environment", "transitions", "optimum", "seed", *each]]
    agents = agents.explode(each).astype(dict.fromkeys(each, float))
    means = {name: (name, "mean") for name in ("exact_return", "agreement", "optimum")}
    keys = ["environment", "transitions", "gamma", "alpha"]
    return agents.groupby(keys, as_index=False, sort=True).agg(**means, seeds=("seed", "nunique"))


def fig_population(rows: pd.DataFrame) -> Figure:
    """Draw how good independent agents are, and how far they agree, over their alpha and gamma.

    Parameters
    ----------
    rows : DataFrame
        Rows of `agent_runs.Agents`; see `table_population`.

    Returns
    -------
    Figure, a page wide
    """
    agents = table_population(rows)
    panels = (
        ("exact_return", "exact expected return", "viridis", agents["optimum"].max()),
        ("agreement", "states decided as by the majority", "cividis", 1.0),
    )
    with style():
        figure = new_figure(PAGE_INCHES, 3.0)
        for axes, (column, title, colours, most) in zip(figure.subplots(1, 2), panels, strict=True):
            grid = agents.pivot(index="gamma", columns="alpha", values=column)
            image = axes.pcolormesh(grid.to_numpy(), cmap=colours, vmin=grid.min(axis=None), vmax=most)
            figure.colorbar(image, ax=axes, pad=0.02, label=title)
            _number_cells(axes, grid, image)
            _label_every(axes.xaxis, grid.columns)
            _label_every(axes.yaxis, grid.index)
            axes.set(xlabel="learning rate alpha", ylabel="discount gamma")
            sns.despine(ax=axes, left=True, bottom=True)
        note(figure, [_population(agents)])
    return figure


def _population(agents: pd.DataFrame) -> str:
    sets, first = agents["seeds"].max(), agents.iloc[0]
    over = f"means over {sets} data sets" if sets > 1 else "one data set"
    return (
        f"{named(first['environment'])}, {len(agents):,} agents that learn alone from the same "
        f"{first['transitions']:,} transitions, {over}; the optimum is {first['optimum']:.3f}."
    )


def table_agents_per_dpu(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what `fig_agents_per_dpu` shows: means over the data sets.

    Returns
    -------
    DataFrame
        environment, agents, transitions, number_format, agents_per_dpu, dpus, kernel_s (seconds until all agents are
        done), transfer_s, dpu_us_per_update (microseconds of one DPU for an agent's update), simulated_dpus, evidence,
        hardware_profile, model_version, seeds.
    """
    packed = rows[rows["agents_per_dpu"].notna()]
    packed = packed.assign(
        transfer_s=packed["cpu_to_pim"] + packed["pim_to_cpu"],
        dpu_us_per_update=1e6 * packed["dpus"] * packed["pim_kernel"] / packed["updates"],
    ).astype({"agents_per_dpu": int, "dpus": int})
    keys = [
        "environment",
        "agents",
        "transitions",
        "number_format",
        "agents_per_dpu",
        "dpus",
        "simulated_dpus",
    ]
    keys += ["evidence", "hardware_profile", "model_version"]
    found = packed.groupby(keys, as_index=False, sort=False, dropna=False).agg(
        kernel_s=("pim_kernel", "mean"),
        transfer_s=("transfer_s", "mean"),
        dpu_us_per_update=("dpu_us_per_update", "mean"),
        seeds=("seed", "nunique"),
    )
    return found.sort_values(["number_format", "agents_per_dpu"], ignore_index=True)


def fig_agents_per_dpu(rows: pd.DataFrame) -> Figure:
    """Draw what it costs to put several agents on a DPU, one a tasklet.

    Parameters
    ----------
    rows : DataFrame
        Rows of `agent_runs.Agents`; see `table_agents_per_dpu`.

    Returns
    -------
    Figure, a page wide; hollow markers are simulated
    """
    packing = table_agents_per_dpu(rows)
    evidence = " and ".join(sorted(set(packing["evidence"])))
    panels = (
        ("kernel_s", 1e3, f"ms to learn, {evidence}"),
        ("dpu_us_per_update", 1, f"DPU µs an update, {evidence}"),
    )
    with style():
        figure = new_figure(PAGE_INCHES, 2.8)
        for axes, (column, unit, label) in zip(figure.subplots(1, 2), panels, strict=True):
            for name, own in packing.groupby("number_format", sort=False):
                look = {"marker": FORMAT_MARKS[name], "ms": 5, "lw": 1, "color": colour(FORMAT_COLOURS[name])}
                simulated = mark_of(own["evidence"].iloc[0])
                axes.plot(own["agents_per_dpu"], own[column] * unit, label=name, **look | simulated)
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
        note(figure, [_packing(packing), captions.simulator(packing)])
    return figure


def _packing(packing: pd.DataFrame) -> str:
    first = packing.iloc[0]
    return (
        f"{first['agents']:,} agents on {named(first['environment'])}, {first['transitions']:,} transitions each. Of "
        f"each set {first['simulated_dpus']:.0f} DPU was simulated; its agents' tables equal the CPU's in every bit."
        if first["evidence"] == "simulated"
        else f"{first['agents']:,} agents on {named(first['environment'])}, measured on all DPUs."
    )


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
