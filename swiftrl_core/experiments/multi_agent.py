"""Experiment 07: a population of independent agents, their agreement, and the number that fits a DPU."""

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.experiments.grids import PAPER_SEEDS, QUICK_SEEDS, SMOKE_SEEDS
from swiftrl_core.experiments.multi_agent_probe import Agents
from swiftrl_core.learner import NumberFormat
from swiftrl_core.plotting import captions
from swiftrl_core.plotting.style import (
    FORMAT_COLOURS,
    PAGE_INCHES,
    colour,
    evidence_of,
    mark_of,
    named,
    new_figure,
    note,
    style,
)

PIPELINE_TASKLETS = 11
"""A tasklet issues at most one instruction every 11 cycles, so 11 keep the pipeline of a DPU full."""

FORMAT_MARKS = {"FP32": "o", "INT32": "s", "INT32_POW2": "D"}

MOST_LABELS = 8
"""Cells of a heat map, in each direction, that still have room for a number."""

AUTHORS_AGENTS = {"environment": "frozenlake", "transitions": 10_000, "agents": 1_000}
"""From the authors' multi-agent code: a thousand agents that learn from the same data."""
AGENTS_PER_DPU = (1, 2, 4, 8, 11, 16, 24)
"""One on each tasklet; WRAM holds 24 tables of FrozenLake."""


def _populations(side: int, episodes: int, packed: Mapping[str, Any], **grid: Any) -> tuple[dict, ...]:
    """Return grids of agents that differ, of equal agents packed on DPUs, and of equal agents on the host."""
    alike = AUTHORS_AGENTS | grid
    differ = alike | {"agents": side**2, "side": side, "episodes": episodes, "backend": "cpu"}
    packing = {"backend": "pim", "agents_per_dpu": AGENTS_PER_DPU, "simulated_dpus": 1} | packed
    formats = tuple(map(str, NumberFormat))
    return (
        differ,
        alike | {"number_format": formats} | packing,
        alike | {"episodes": episodes, "backend": ("cpu", "gpu")},
    )


_FEW_AGENTS = {"transitions": 500, "agents": 96, "episodes": 1, "agents_per_dpu": (1, 11, 24)}
SIZES = {
    "smoke": _populations(8, 20, _FEW_AGENTS, seed=SMOKE_SEEDS),
    "quick": _populations(16, 100, {"transitions": 2_000, "episodes": 1}, seed=QUICK_SEEDS),
    "paper": _populations(32, 100, {"episodes": 10}, seed=PAPER_SEEDS),
}


def table_population(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the quality of each agent and its agreement with the others, means over the data sets.

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


@style()
def fig_population(rows: pd.DataFrame) -> Figure:
    """Draw the returns of independent agents and their agreement, over their alpha and gamma."""
    agents = table_population(rows)
    panels = (
        ("exact_return", "exact expected return", "viridis", agents["optimum"].max()),
        ("agreement", "states decided like the majority", "cividis", 1.0),
    )
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
        f"{named(first['environment'])}, {len(agents):,} independent agents that learn from the same "
        f"{first['transitions']:,} transitions, {over}; the optimum is {first['optimum']:.3f}."
    )


def summary_population(rows: pd.DataFrame) -> Summary:
    """Return the agreement of independent agents, and the returns of their majority and of their mean."""
    differ = rows[rows["side"].notna()]
    best, median = (differ["exact_return"].map(of) for of in (np.max, np.median))
    agree = differ["agreement"].map(np.mean)
    sets = f"{len(differ)} data set{'s' * int(len(differ) > 1)}"
    return Summary(
        [
            f"On {sets} the best of {differ['agents'].max():,.0f} agents reaches {_range(best)}, of at most "
            f"{differ['optimum'].max():.3f}; the median agent reaches {_range(median)}.",
            f"On average, an agent decides like the majority in {agree.min():.0%} to {agree.max():.0%} of the states.",
            f"The policy of the majority in each state earns {_range(differ['majority_return'])}, the greedy policy of "
            f"the mean of all tables {_range(differ['mean_return'])}.",
        ]
    )


def _range(values: pd.Series) -> str:
    low, high = f"{values.min():.3f}", f"{values.max():.3f}"
    return low if low == high else f"{low} to {high}"


def table_agents_per_dpu(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the time of populations for each number of agents on a DPU, means over the data sets.

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


@style()
def fig_agents_per_dpu(rows: pd.DataFrame) -> Figure:
    """Draw the time of several agents on a DPU, one on each tasklet.

    Hollow markers are simulated.
    """
    packing = table_agents_per_dpu(rows)
    evidence = evidence_of(packing)
    panels = (
        ("kernel_s", 1e3, f"learning time (ms, {evidence})"),
        ("dpu_us_per_update", 1, f"DPU time per update (µs, {evidence})"),
    )
    figure = new_figure(PAGE_INCHES, 2.8)
    for axes, (column, unit, label) in zip(figure.subplots(1, 2), panels, strict=True):
        for name, own in packing.groupby("number_format", sort=False):
            look = {"marker": FORMAT_MARKS[name], "ms": 5, "lw": 1, "color": colour(FORMAT_COLOURS[name])}
            simulated = mark_of(own["evidence"].iloc[0])
            axes.plot(own["agents_per_dpu"], own[column] * unit, label=name, **look | simulated)
        axes.axvline(
            PIPELINE_TASKLETS, color="black", lw=0.8, ls=":", label=f"{PIPELINE_TASKLETS} fill the pipeline"
        )
        axes.set(xscale="log", yscale="log", xlabel="agents on a DPU, one per tasklet", ylabel=label)
        axes.set_xticks(sorted(set(packing["agents_per_dpu"])), sorted(set(packing["agents_per_dpu"])))
        axes.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
        axes.minorticks_off()
        axes.grid(axis="y", lw=0.4, alpha=0.5)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    note(figure, [_packing(packing), captions.simulator(packing)])
    return figure


def summary_agents_per_dpu(rows: pd.DataFrame) -> Summary:
    """Return the time of several agents on a DPU over that of one."""
    sentences = []
    for name, own in table_agents_per_dpu(rows).groupby("number_format", sort=False):
        kernel = own.set_index("agents_per_dpu")["kernel_s"]
        ratios = ", ".join(f"{count} take {kernel[count] / kernel.iloc[0]:.2f}" for count in kernel.index[1:])
        sentences.append(
            f"{name}, in units of the time of one agent on a DPU: {ratios} ({evidence_of(own)})."
        )
    return Summary(sentences)


def _packing(packing: pd.DataFrame) -> str:
    first = packing.iloc[0]
    return (
        f"{first['agents']:,} agents on {named(first['environment'])}, {first['transitions']:,} transitions each. "
        f"{first['simulated_dpus']:.0f} DPU was simulated in each run; its agents' tables equal the CPU's in every bit."
        if first["evidence"] == "simulated"
        else f"{first['agents']:,} agents on {named(first['environment'])}, measured on all DPUs."
    )


def _label_every(axis: mpl.axis.Axis, values: pd.Index) -> None:
    """Label the rows or columns of a heat map, as many as fit."""
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


EXPERIMENT = Experiment(
    id="07_multi_agent",
    question="Do independent agents make the same decisions, and how many fit on a DPU?",
    sizes=SIZES,
    figures=(
        Plot("population", fig_population, table_population, summary_population),
        Plot("agents_per_dpu", fig_agents_per_dpu, table_agents_per_dpu, summary_agents_per_dpu),
    ),
    of=Agents,
    where_available=True,
)
