"""Experiment 12: the time to the optimum on DPUs, on this CPU and by the exact solution, and its growth with the data.

The optimum is what the data allow: the return of the exact solution of the same data. A run is cut off after some
rounds; the first cut from which on the policy is as good is the time a recipe takes. For larger data sets than were
run, `table_data_size` extrapolates these times: they are `modelled`, where the others are measured or simulated.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from swiftrl_core.dpusim.timing import resolve_hardware, transfer_seconds
from swiftrl_core.experiments.aggregation import first_that_lasts, recipe_of
from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.experiments.grids import (
    FAST,
    PAPER_ROWS,
    PAPER_SEEDS,
    QUICK_SEEDS,
    RECORD_BYTES,
    SAMPLED,
    SMOKE_ROWS,
    TASKLETS,
    solved,
)
from swiftrl_core.plotting.captions import sample, simulator
from swiftrl_core.plotting.intervals import bars_of, means_over, over_seeds
from swiftrl_core.plotting.style import (
    PAGE_INCHES,
    PARTS,
    colour,
    evidence_of,
    mark_of,
    named,
    new_figure,
    note,
    style,
)

WITHIN = 0.01
"""Share of the exact solution's return that an optimal policy may lack."""
SPENT = (
    *("episodes", "rounds", "updates_m", *PARTS),
    *("total_s", "total_s_low", "total_s_high", "exact_return", "goal"),
)
MRAM_BYTES = 64 << 20
LARGEST = 10_000_000_000
"""Transitions at which `table_data_size` ends."""
ON_DPUS: tuple[tuple[Mapping[str, Any], dict], ...] = (
    ({"tau": 50}, {}),
    (FAST, {"kernel": "tuned"}),
    (TASKLETS, {"kernel": "tuned", "tasklets": 11}),
)
"""The paper's recipe on its kernel; fewer updates on a faster kernel; a kernel that fills the DPU."""


def _grids(
    transitions: Mapping[str, int],
    cores: int,
    fewer: int,
    passes: Mapping[int, Mapping[str, tuple[int, ...]]],
    **grid: Any,
) -> tuple[Mapping[str, Any], ...]:
    """Return grids of recipes on DPUs and on the engine, cut off after fewer and more passes, by their tau.

    On `fewer` cores, with longer chunks, each makes one round: it shows how the kernel's time grows with the chunk.
    """
    common = {"number_format": "INT32", "monte_carlo_episodes": 0, **grid}
    found: list[Mapping[str, Any]] = []
    for recipe, options in ON_DPUS:
        for name, rows in transitions.items():
            learner = {"environment": name, "transitions": rows, **recipe, **common}
            on_dpus = {**learner, "backend": "pim", "backend_options": SAMPLED | options}
            cuts = passes[recipe["tau"]][name]
            found.append({**on_dpus, "cores": cores, "episodes": cuts})
            found.append({**on_dpus, "cores": fewer, "episodes": recipe["tau"]})
            found.append({**learner, "backend": "cpu", "cores": cores, "episodes": cuts})
    return *found, *solved(transitions, seed=grid["seed"], episodes=1, tau=1, monte_carlo_episodes=0)


_CUTS = {
    50: {"frozenlake": (50, 100, 150, 200), "taxi": (250, 300, 350, 400, 450, 500, 600)},
    2: {"frozenlake": (2, 4, 6, 8, 10, 12), "taxi": (2, 4, 6, 8)},
    5: {"frozenlake": (5, 10, 15, 20, 25, 30), "taxi": (10, 15, 20, 25, 30)},
}
_SMOKE_CUTS = {tau: dict.fromkeys(SMOKE_ROWS, (tau, 2 * tau, 4 * tau)) for tau in (50, 2, 5)}
SIZES = {
    "smoke": _grids(SMOKE_ROWS, 16, 8, _SMOKE_CUTS, seed=0),
    "quick": _grids(PAPER_ROWS, 2000, 250, _CUTS, seed=QUICK_SEEDS),
    "paper": _grids(PAPER_ROWS, 2000, 250, _CUTS, seed=PAPER_SEEDS),
}


def way_of(row) -> str:
    """Name the way in which a row learned: machine, recipe, kernel and tasklets or threads."""
    if row.backend == "exact":
        return "exact solution, 1 thread"
    options = json.loads(row.backend_options)
    words = [recipe_of(row)]
    if row.backend == "pim":
        tasklets = options.get("tasklets", 1)
        words += [f"{options['kernel']} kernel"] if "kernel" in options else []
        words.append(f"{tasklets} tasklet{'s' * (tasklets != 1)}")
        return "PIM: " + ", ".join(words)
    threads = json.loads(row.machine_details)["threads"]
    return f"CPU: {', '.join(words)}, {threads} thread{'s' * (threads != 1)}"


def table_time_to_optimum(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the time of each way, on the most cores, until its policy is optimal and stays so on every data set.

    Returns
    -------
    DataFrame
        environment, transitions, way, cores, episodes, rounds, updates_m (million nominal updates), seeds; the four
        parts and total_s, seconds, means over seeds, with the interval of total_s; exact_return and goal (the exact
        solution's); evidence, backend. NaN for ways that do not reach it.
    """
    rows = rows.assign(way=[way_of(row) for row in rows.itertuples()], total_s=rows[list(PARTS)].sum(axis=1))
    exact = rows[rows["backend"] == "exact"].set_index(["environment", "seed"])["exact_return"]
    goal = exact.reindex(pd.MultiIndex.from_frame(rows[["environment", "seed"]])).to_numpy()
    rows = rows.assign(goal=goal, good=goal - rows["exact_return"] <= WITHIN * np.abs(goal))
    most = rows.groupby(["environment", "way"])["cores"].transform("max")
    found = []
    for (environment, way), own in rows[rows["cores"] == most].groupby(["environment", "way"], sort=False):
        known = own.iloc[0][["transitions", "cores", "evidence", "backend"]].to_dict()
        entry = {"environment": environment, "way": way, **known, "seeds": own["seed"].nunique()}
        episodes = first_that_lasts(own["good"].groupby(own["episodes"]).all())
        if episodes is not None:
            entry |= _means(own[own["episodes"] == episodes])
        found.append(entry)
    return pd.DataFrame(found, columns=[*found[0], *(name for name in SPENT if name not in found[0])])


def _means(own: pd.DataFrame) -> dict:
    """Return the means over the seeds of runs of equal length."""
    means = own[["episodes", "rounds", *PARTS, "exact_return", "goal"]].mean()
    total = over_seeds(own, ["episodes"], ["total_s"]).iloc[0]
    return {**means, **total.drop(["episodes", "seeds"]), "updates_m": own["nominal_updates"].mean() / 1e6}


@style()
def fig_time_to_optimum(rows: pd.DataFrame) -> Figure:
    """Draw the time of each way to the optimum, and its four parts.

    Filled marks are measured, hollow ones simulated.
    """
    table = table_time_to_optimum(rows)
    groups = list(table.groupby("environment", sort=False))
    figure = new_figure(PAGE_INCHES, 0.9 + sum(0.5 + 0.24 * len(own) for _, own in groups))
    panels = figure.subplots(
        len(groups), 2, sharex="col", width_ratios=(1.4, 1), squeeze=False,
        height_ratios=[len(own) for _, own in groups],
    )  # fmt: skip
    for (left, right), (environment, own) in zip(panels, groups, strict=True):
        _totals(left, own)
        _shares(right, own)
        left.set_title(f"{named(environment)}, {own['transitions'].max():,.0f} transitions")
        right.set_title("parts of the time")
    panels[-1, 0].set_xlabel(f"time (ms, {evidence_of(table)})")
    panels[-1, 1].set_xlabel("share of the time (%)")
    handles = [Line2D([], [], color=colour(i), lw=5, label=name) for i, name in enumerate(PARTS.values())]
    handles += [
        Line2D([], [], color="black", marker="o", ms=4, ls="none", label=evidence, **mark_of(evidence))
        for evidence in sorted(set(table["evidence"]))
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, handlelength=1
    )
    note(figure, [_arrival(table), simulator(rows), sample(rows), _host_share(rows)])
    return figure


def summary_time_to_optimum(rows: pd.DataFrame) -> Summary:
    """Return the speed-up of the best way on DPUs over the paper's, and the fastest way of all."""
    sentences = []
    for environment, own in table_time_to_optimum(rows).groupby("environment", sort=False):
        arrived = own.dropna(subset="total_s")
        pim, paper = arrived[arrived["backend"] == "pim"], own[own["backend"] == "pim"].iloc[0]
        if pim.empty:
            sentences.append(
                f"{named(environment)}: no recipe on DPUs reaches the optimum in this experiment."
            )
            continue
        best, first = (some.loc[some["total_s"].idxmin()] for some in (pim, arrived))
        sentence = f"{named(environment)}: `{best['way']}` reaches the optimum in {_spent(best)}"
        if pd.notna(paper["total_s"]) and best["way"] != paper["way"]:
            times, kernels = (paper[name] / best[name] for name in ("total_s", "pim_kernel"))
            sentence += f", {times:.3g} times as fast as the paper's recipe ({_spent(paper)})"
            sentence += f", its kernel {kernels:.3g} times"
        sentences.append(f"{sentence}.")
        sentences.append(f"{named(environment)}: the fastest of all is `{first['way']}`, {_spent(first)}.")
    return Summary(sentences)


def _spent(row: pd.Series) -> str:
    if row["backend"] != "pim":
        return f"{row['total_s'] * 1e3:,.4g} ms ({row['evidence']})"
    host = "" if row["evidence"] == "measured" else ", but the host's share measured"
    kernel = row["pim_kernel"] * 1e3
    return f"{row['total_s'] * 1e3:,.4g} ms, {kernel:,.4g} of them in the kernel ({row['evidence']}{host})"


def _totals(axes: Axes, own: pd.DataFrame) -> None:
    for place, row in enumerate(own.itertuples()):
        if pd.isna(row.total_s):
            axes.annotate(
                "not within this experiment",
                (0.02, place), xycoords=("axes fraction", "data"), va="center", size=6, color="#666666",
            )  # fmt: skip
            continue
        one = own.iloc[[place]]
        axes.errorbar(
            one["total_s"] * 1e3, [place], xerr=bars_of(one, "total_s", 1e3), marker="o", ms=4, ls="none",
            color="black", lw=0.8, **mark_of(row.evidence),
        )  # fmt: skip
        label = f"{_short(row.total_s * 1e3)} ms"
        label += f"; {_short(row.updates_m)} M updates" * (row.backend != "exact")
        axes.annotate(
            label, (row.total_s * 1e3, place), xytext=(6, 0), textcoords="offset points", va="center", size=6
        )
    axes.set_yticks(range(len(own)), own["way"], size=6.5)
    axes.set(xscale="log", ylim=(len(own) - 0.4, -0.6))
    low, high = own["total_s"].min() * 1e3, own["total_s"].max() * 1e3
    left, right = axes.get_xlim()
    axes.set_xlim(min(left, low / 2), max(right, high * 60))
    axes.grid(axis="x", lw=0.3, alpha=0.6)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _shares(axes: Axes, own: pd.DataFrame) -> None:
    left = np.zeros(len(own))
    for place, part in enumerate(PARTS):
        share = (own[part] / own["total_s"] * 100).fillna(0).to_numpy()
        axes.barh(range(len(own)), share, left=left, height=0.66, color=colour(place))
        left += share
    axes.set(yticks=[], xlim=(0, 100), ylim=(len(own) - 0.4, -0.6))


def _arrival(table: pd.DataFrame) -> str:
    return (
        f"Optimum: the fewest rounds from which the exact return is within {WITHIN:.0%} of that of the exact solution, "
        f"on every data set. Each point is a separate run of that length; {means_over(table)}."
    )


def _host_share(rows: pd.DataFrame) -> str:
    if "simulated" not in set(rows["evidence"]):
        return ""
    return (
        "The host's own work, counting before the first round and combining tables, is measured here and is "
        "part of CPU-PIM, inter-PIM-core and PIM-CPU."
    )


def table_data_size(rows: pd.DataFrame, sizes: Sequence[int] | None = None) -> pd.DataFrame:
    """Return the time of each way for more and more data, by formula.

    Assumes that all ways need the rounds and episodes of `table_time_to_optimum`, whatever the size of the data. With n
    transitions on N DPUs:

    - kernel: episodes * (a + b * n / N), the line through the times of an episode with the two longest chunks among the
      runs of this way, on fewer cores and on the most;
    - CPU-PIM: the formula of `dpusim.timing.transfer_seconds` for 8 n bytes; the rest of that part (the host's
      counting, the table) grows as n does;
    - inter-PIM-core and PIM-CPU: constant, as tables do not grow;
    - on the CPU: proportional to n.

    `in place` leaves CPU-PIM out: the data are in MRAM already, as when they are made or collected there.

    Parameters
    ----------
    rows : DataFrame
        Rows of training runs.
    sizes : sequence of int, optional
        Transitions; by default four a decade, from a hundred thousand to `LARGEST`.

    Returns
    -------
    DataFrame
        environment, way, backend, transitions, seconds, seconds_in_place (NaN but for PIM), evidence (`modelled`).
        Sizes that the DPUs' MRAM could not hold are left out.
    """
    sizes = np.unique(np.geomspace(1e5, LARGEST, 21).astype(np.int64) if sizes is None else sizes)
    arrived = table_time_to_optimum(rows).dropna(subset="total_s")
    rows = rows.assign(way=[way_of(row) for row in rows.itertuples()])
    found = []
    for row in arrived.itertuples():
        own = rows[(rows["environment"] == row.environment) & (rows["way"] == row.way)]
        grown = _grown_pim(row, own, sizes) if row.backend == "pim" else _grown_host(row, sizes)
        known = {"environment": row.environment, "way": row.way, "backend": row.backend}
        found.append(grown.assign(**known, evidence="modelled"))
    columns = ["environment", "way", "backend", "transitions", "seconds", "seconds_in_place", "evidence"]
    return pd.concat(found, ignore_index=True)[columns]


def _grown_host(row, sizes: np.ndarray) -> pd.DataFrame:
    seconds = row.total_s * sizes / row.transitions
    return pd.DataFrame({"transitions": sizes, "seconds": seconds, "seconds_in_place": np.nan})


def _grown_pim(row, own: pd.DataFrame, sizes: np.ndarray) -> pd.DataFrame:
    sizes = sizes[sizes * RECORD_BYTES <= row.cores * MRAM_BYTES]
    profile = resolve_hardware(own["hardware_profile"].iloc[0])
    fixed, each = kernel_line(own)
    kernel = row.episodes * (fixed + each * sizes / row.cores)

    def sent(transitions: float) -> float:
        chunk = int(np.ceil(transitions / row.cores)) * RECORD_BYTES
        return transfer_seconds(profile, "to_dpu", int(row.cores), chunk)

    rest = max(row.cpu_to_pim - sent(row.transitions), 0.0)
    load = np.array([sent(n) for n in sizes]) + rest * sizes / row.transitions
    in_place = kernel + row.inter_pim_core + row.pim_to_cpu
    return pd.DataFrame({"transitions": sizes, "seconds": load + in_place, "seconds_in_place": in_place})


def kernel_line(own: pd.DataFrame) -> tuple[float, float]:
    """Return the time of an episode of one way, in seconds: a fixed part, and a part for each transition of a chunk.

    With runs on one number of cores only, all of it is attributed to the transitions.
    """
    chunk = own["transitions"] / own["cores"]
    episode = (own["pim_kernel"] / own["episodes"]).groupby(chunk).mean().sort_index()
    if len(episode) == 1:
        return 0.0, float(episode.iloc[0] / episode.index[0])
    (short, few), (long, many) = list(episode.items())[-2:]
    each = (many - few) / (long - short)
    return float(few - each * short), float(each)


@style()
def fig_data_size(rows: pd.DataFrame) -> Figure:
    """Draw the growth of the time to the optimum with the data, by formula, and the sizes that were run."""
    table, ran = table_data_size(rows), table_time_to_optimum(rows).dropna(subset="total_s")
    groups = list(table.groupby("environment", sort=False))
    ways = list(dict.fromkeys(table["way"]))
    figure = new_figure(PAGE_INCHES, 3.9)
    panels = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    for axes, (environment, own) in zip(panels, groups, strict=True):
        for way, some in own.groupby("way", sort=False):
            look = {"color": colour(ways.index(way)), "lw": 1.1}
            axes.plot(some["transitions"], some["seconds"], label=way, **look)
            axes.plot(some["transitions"], some["seconds_in_place"], ls=":", **look)
            dot = ran[(ran["environment"] == environment) & (ran["way"] == way)]
            evidence = dot["evidence"].iloc[0]
            axes.plot(
                dot["transitions"], dot["total_s"], marker="o", ms=4, color=look["color"], **mark_of(evidence)
            )
        axes.set(title=named(environment), xscale="log", yscale="log", xlabel="transitions (lines: modelled)")
        axes.grid(lw=0.3, alpha=0.6)
        axes.minorticks_off()
    panels[0].set_ylabel("time to the optimum (s)")
    handles = [Line2D([], [], color=colour(place), lw=1.5, label=way) for place, way in enumerate(ways)]
    handles.append(Line2D([], [], color="#444444", ls=":", label="data in MRAM already"))
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False)
    note(
        figure,
        [
            "Lines are modelled from the runs that the marks show (filled: measured; hollow: simulated), with the "
            "same number of rounds for all sizes.",
            f"PIM: {ran.loc[ran['backend'] == 'pim', 'cores'].max():,.0f} DPUs.",
            simulator(rows),
        ],
    )
    return figure


def table_winners(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the size of `table_data_size` from which the fastest way on PIM beats each other way.

    Returns
    -------
    DataFrame
        environment, against (the other way), from_transitions with the data sent first and
        from_transitions_in_place without; NaN where never.
    """
    table, found = table_data_size(rows), []
    for environment, own in table.groupby("environment", sort=False):
        pim = own[own["backend"] == "pim"].groupby("transitions")[["seconds", "seconds_in_place"]].min()
        for way, other in own[own["backend"] != "pim"].groupby("way", sort=False):
            seconds = other.set_index("transitions")["seconds"].reindex(pim.index)
            found.append(
                {
                    "environment": environment,
                    "against": way,
                    "from_transitions": first_that_lasts(pim["seconds"] < seconds),
                    "from_transitions_in_place": first_that_lasts(pim["seconds_in_place"] < seconds),
                }
            )
    return pd.DataFrame(found)


def summary_data_size(rows: pd.DataFrame) -> Summary:
    """Return the number of transitions from which PIM is modelled to be faster."""
    smallest = table_data_size(rows)["transitions"].min()
    return Summary(
        f"{named(row.environment)}: PIM beats `{row.against}` {_from(row.from_transitions, smallest)}, and "
        f"{_from(row.from_transitions_in_place, smallest)} if the data are in MRAM already (modelled)."
        for row in table_winners(rows).itertuples()
    )


def _from(transitions: float, smallest: int) -> str:
    if pd.isna(transitions):
        return "at no size"
    return "at every size" if transitions == smallest else f"from {transitions / 1e6:,.3g} M transitions on"


EXPERIMENT = Experiment(
    id="12_time_to_optimum",
    question="How long until the optimum, on DPUs, on a CPU and by the exact solution, and when do DPUs win?",
    sizes=SIZES,
    figures=(
        Plot("time_to_optimum", fig_time_to_optimum, table_time_to_optimum, summary_time_to_optimum),
        Plot("data_size", fig_data_size, table_data_size, summary_data_size),
    ),
)
