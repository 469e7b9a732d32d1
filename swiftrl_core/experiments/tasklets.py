"""Tasklets that share a chunk: the throughput of a DPU, and the quality of their tables. A part of experiment 11.

Tasklets share a chunk where the bootstrap is frozen (`dpu_src/tasklet_learner.c`), which is another learner than the
paper's, so throughput is reported with quality. Throughput: kernel time of launches of tau episodes with the chunks of
2,000 DPUs, simulated, against the paper's kernel on one tasklet; the tables are compared with the engine's as they are
learned. Quality: error and return after the same number of updates, frozen against current, for the paper's recipe and
for those that need fewer updates.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from swiftrl_core.backends.pim.tuning import KERNELS
from swiftrl_core.dpusim.timing import resolve_hardware
from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.experiments.grids import FAST, PAPER_CHUNK, SAFE, TASKLETS
from swiftrl_core.learner import Bootstrap
from swiftrl_core.plotting import captions
from swiftrl_core.plotting.style import (
    FORMAT_COLOURS,
    PAGE_INCHES,
    colour,
    count_ticks,
    evidence_of,
    legend_above,
    mark_of,
    named,
    new_figure,
    note,
    style,
)

FORMATS = ("INT32", "FP32")
TAU = 50
GOALS = MappingProxyType({"frozenlake": 8, "taxi": 4})
"""Throughput to reach with 11 tasklets in INT32, in units of that of the paper's kernel."""
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "mean": {"tau": TAU, "aggregation": "mean"},
        "count": {"tau": TAU, "aggregation": "count"},
        "safe": SAFE,
        "fast": FAST,
        "tasklets": {name: value for name, value in TASKLETS.items() if name != "bootstrap"},
    }
)
"""The paper's recipe, count weights, the two recommended recipes, and the one for tasklets."""
LOOKS = {"paper": {"ls": "--", "marker": "o"}, "tuned": {"ls": "-", "marker": "s"}}
"""Line and mark of each kernel."""


def _launches(dpus: int, simulated: int, tasklets: tuple[int, ...]) -> tuple[Mapping[str, Any], ...]:
    """Return grids of single rounds on DPUs: both kernels on one tasklet, then with each number of tasklets.

    `simulated` of the DPUs run in the simulator; the slowest of them gives the time.
    """

    def options(counts: tuple[int, ...]) -> tuple[dict, ...]:
        shared = {"simulated_dpus": simulated}
        return tuple(shared | {"kernel": kernel, "tasklets": count} for kernel in KERNELS for count in counts)

    common = {"cores": dpus, "episodes": TAU, "tau": TAU, "backend": "pim", "monte_carlo_episodes": 0}
    return tuple(
        {"environment": name, "transitions": chunk * dpus, **common}
        | {"number_format": FORMATS, "bootstrap": bootstrap.value, "backend_options": options(counts)}
        for name, chunk in PAPER_CHUNK.items()
        for bootstrap, counts in ((Bootstrap.CURRENT, (1,)), (Bootstrap.FROZEN, tasklets))
    )


def _recipes(dpus: int, seeds: int, rounds: Mapping[str, tuple[int, ...]]) -> tuple[Mapping[str, Any], ...]:
    """Return grids of recipes on the engine, frozen and current, after each number of rounds."""
    common = {"cores": dpus, "backend": "cpu", "monte_carlo_episodes": 0}
    return tuple(
        {"environment": name, "transitions": chunk * dpus, **common}
        | {"seed": seed, "episodes": tuple(count * RECIPES[recipe]["tau"] for count in counts)}
        | {"number_format": FORMATS, "bootstrap": tuple(map(str, Bootstrap)), **RECIPES[recipe]}
        for name, chunk in PAPER_CHUNK.items()
        for seed in range(seeds)  # a data set is made once for all runs on it
        for recipe, counts in rounds.items()
    )


_FEW = {"mean": (1,), "safe": (2,)}
_MORE = dict.fromkeys(RECIPES, (1, 2, 4))
_MOST = {
    "mean": (1, 2, 4, 8),
    "count": (1, 2, 4),
    "safe": (1, 2, 4, 6, 10),
    "fast": (1, 2, 4, 6, 10),
    "tasklets": (1, 2, 3, 4, 6, 8, 10),
}
SIZES = {
    "smoke": (*_launches(8, 2, (1, 11)), *_recipes(8, 1, _FEW)),
    "quick": (*_launches(200, 4, (1, 8, 11, 16)), *_recipes(200, 2, _MORE)),
    "paper": (*_launches(2_000, 8, (1, 2, 4, 8, 11, 12, 16, 24)), *_recipes(2_000, 10, _MOST)),
}


def table_throughput(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the throughput of each kernel with each number of tasklets, in a launch of 50 episodes from zeros.

    Returns
    -------
    DataFrame
        environment, number_format, bootstrap, kernel (`pim.tuning`), tasklets; cycles_per_update of the slowest DPU,
        without the launch; launch_ms of the whole launch, with its latency; updates_per_s of all DPUs together;
        speedup, throughput over that of the paper's kernel on one tasklet; dpus, simulated_dpus, evidence,
        hardware_profile, model_version.
    """
    found = []
    for row in rows[rows["backend"] == "pim"].itertuples():
        options = json.loads(row.backend_options)
        found.append(
            {
                "environment": row.environment,
                "number_format": row.number_format,
                "bootstrap": row.bootstrap,
                "kernel": options["kernel"],
                "tasklets": options["tasklets"],
                "cycles_per_update": _cycles_per_update(row),
                "launch_ms": 1e3 * row.pim_kernel,
                "updates_per_s": row.nominal_updates / row.pim_kernel,
                "dpus": row.cores,
                "simulated_dpus": row.simulated_dpus,
                "evidence": row.evidence,
                "hardware_profile": row.hardware_profile,
                "model_version": row.model_version,
            }
        )
    table = pd.DataFrame(found).sort_values(
        ["environment", "number_format", "bootstrap", "kernel", "tasklets"], ignore_index=True
    )
    paper = table[(table["bootstrap"] == Bootstrap.CURRENT) & (table["kernel"] == "paper")]
    paper = paper.set_index(["environment", "number_format"])["updates_per_s"]
    keys = pd.MultiIndex.from_frame(table[["environment", "number_format"]])
    return table.assign(speedup=table["updates_per_s"] / paper.reindex(keys).to_numpy())


def _cycles_per_update(row: Any) -> float:
    hardware = resolve_hardware(row.hardware_profile)
    longest_chunk = -(-row.transitions // row.cores)
    return (row.pim_kernel - hardware.launch_s) * hardware.clock_hz / (longest_chunk * row.episodes)


def table_quality(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the error and the return of frozen and current bootstraps after the same number of updates.

    Returns
    -------
    DataFrame
        environment, number_format, recipe, updates_m (millions), data_sets; for each bootstrap the mean and the largest
        max_error_empirical and the mean and the least exact_return: max_error_current, ..., least_return_frozen.
    """
    rows = rows[rows["backend"] == "cpu"]
    recipe = [_recipe_of(row) for row in rows.itertuples()]
    rows = rows.assign(recipe=recipe, updates_m=rows["nominal_updates"] / 1e6)
    by = ["environment", "number_format", "recipe", "updates_m"]
    means = rows.groupby([*by, "bootstrap"], sort=False).agg(
        data_sets=("seed", "nunique"),
        max_error=("max_error_empirical", "mean"),
        largest_error=("max_error_empirical", "max"),
        exact_return=("exact_return", "mean"),
        least_return=("exact_return", "min"),
    )
    each = [means.xs(bootstrap, level="bootstrap").add_suffix(f"_{bootstrap}") for bootstrap in Bootstrap]
    both = pd.concat(each, axis=1)
    data_sets = both.pop(f"data_sets_{Bootstrap.FROZEN}")
    del both[f"data_sets_{Bootstrap.CURRENT}"]
    both.insert(0, "data_sets", data_sets)
    return both.reset_index()


def _recipe_of(row: Any) -> str:
    """Return the name of a row's recipe."""
    if row.update == "td":
        return row.aggregation
    if pd.isna(row.alpha):
        return "safe"
    return "tasklets" if row.tau == TASKLETS["tau"] else "fast"


@style()
def fig_throughput(rows: pd.DataFrame) -> Figure:
    """Draw the speed-up over the paper's kernel against the number of tasklets. Hollow marks are simulated."""
    table = table_throughput(rows)
    shared = table[table["bootstrap"] == Bootstrap.FROZEN]
    groups = list(shared.groupby("environment", sort=False))
    figure = new_figure(PAGE_INCHES, 2.6)
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    for axes, (environment, own) in zip(panels, groups, strict=True):
        for (number_format, kernel), some in own.groupby(["number_format", "kernel"], sort=False):
            look = {"color": colour(FORMAT_COLOURS[number_format]), "lw": 1, "ms": 4, **LOOKS[kernel]}
            label = f"{number_format}, {kernel} kernel"
            axes.plot(some["tasklets"], some["speedup"], label=label, **look, **mark_of(evidence_of(some)))
        axes.set(title=named(environment), xscale="log", xlabel="tasklets of a DPU", ylim=(0, None))
        count_ticks(axes.xaxis, own["tasklets"])
    panels[0].set_ylabel(f"speed-up over the paper's kernel\n({evidence_of(shared)} times)")
    legend_above(figure, panels[0])
    dpus = table["dpus"].max()
    facts = f"{dpus:,} DPUs whose tasklets share a chunk (frozen bootstrap), one round of {TAU} episodes."
    note(figure, [facts, captions.simulator(table)])
    return figure


def summary_tasklets(rows: pd.DataFrame) -> Summary:
    """Return the highest throughput of each environment, and the error that a frozen bootstrap causes."""
    sentences = []
    table, quality = table_throughput(rows), table_quality(rows)
    for (environment, number_format), own in table.groupby(["environment", "number_format"], sort=False):
        best = own.loc[own["speedup"].idxmax()]
        same = (quality["environment"] == environment) & (quality["number_format"] == number_format)
        last = quality[same & (quality["recipe"] == "mean")].iloc[-1]
        sentences.append(
            f"{named(environment)} {number_format}: {best['tasklets']} tasklets on the {best['kernel']} kernel give "
            f"{best['speedup']:.1f} times the update rate of the paper's kernel ({best['evidence']}); after "
            f"{last['updates_m']:g} M updates the paper's recipe is off the exact solution by at most "
            f"{last['max_error_frozen']:.2g} with a frozen bootstrap and {last['max_error_current']:.2g} without."
        )
    return Summary(sentences)


EXPERIMENT = Experiment(
    id="tasklets",
    question="How much faster is a DPU whose tasklets share a chunk, and what does it cost in quality?",
    sizes=SIZES,
    figures=(Plot("tasklets", fig_throughput, table_throughput, summary_tasklets),),
    part_of="11_kernel_study",
)
