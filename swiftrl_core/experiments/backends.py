"""Experiment 05: DPUs, this CPU, a GPU and the exact solution compared on the same data."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from swiftrl_core.backend import missing
from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.experiments.grids import (
    FORMATS,
    PAPER_ROWS,
    PAPER_SCHEDULE,
    PAPER_SEEDS,
    QUICK_SEEDS,
    SAMPLED,
    SMOKE_ROWS,
    TIMED_ROWS,
    TIMED_SCHEDULE,
    by_environment,
    solved,
)
from swiftrl_core.plotting.captions import averaging, sample, simulator, updates
from swiftrl_core.plotting.intervals import bars_of, means_over, over_seeds
from swiftrl_core.plotting.style import (
    FORMAT_COLOURS,
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
from swiftrl_core.util.errors import SwiftRLError

BACKENDS = {
    "cpu-shared": "CPU, one shared table",
    "cpu-local": "CPU, one table per thread",
    "cpu": "CPU, engine",
    "gpu-shared": "GPU, one shared table",
    "gpu": "GPU, engine",
    "pim": "PIM",
    "exact": "CPU, exact solution",
}
"""Name of each in figures, from the paper's baselines to the exact solution."""
BASELINE = "cpu-local"
"""Backend that speed-ups are over."""
ABSENT = "not on the machine of this run"
PAPER_THREADS = 16
"""Threads of the paper's CPU baselines."""


def _machines(
    transitions: Mapping[str, int], cores: int, threads: int, **grid: Any
) -> tuple[Mapping[str, Any], ...]:
    """Return grids of all backends: PIM cores on the first four, threads of the host on the baselines."""
    return (
        *by_environment(transitions, cores=cores, backend=("cpu", "gpu", "gpu-shared"), **grid),
        *by_environment(transitions, cores=cores, backend="pim", backend_options=SAMPLED, **grid),
        *by_environment(transitions, cores=threads, backend=("cpu-shared", "cpu-local"), **grid),
        *solved(transitions, **grid),
    )


_QUICK = {"number_format": FORMATS, **TIMED_SCHEDULE, "seed": QUICK_SEEDS}
_PAPER = {"number_format": FORMATS, **PAPER_SCHEDULE, "seed": PAPER_SEEDS}
SIZES = {
    "smoke": _machines(SMOKE_ROWS, cores=8, threads=2, episodes=4, tau=2, seed=0),
    "quick": _machines(TIMED_ROWS, cores=2000, threads=4, **_QUICK),
    "paper": _machines(PAPER_ROWS, cores=2000, threads=PAPER_THREADS, **_PAPER),
}


def table_backends(rows: pd.DataFrame, absent: dict[str, str] | None = None) -> pd.DataFrame:
    """Return time, speed-up and quality of every backend; one that did not run has a reason and no numbers.

    Parameters
    ----------
    rows : DataFrame
        Rows of `results.COLUMNS`.
    absent : dict, optional
        Backend to the reason why it has no rows; by default `ABSENT`.

    Returns
    -------
    DataFrame
        environment, transitions, number_format, backend, cores, width (cores in words, such as `4 threads`), seeds;
        seconds with their interval over seeds; speedup over `BASELINE`; nominal_updates, executed_updates,
        exact_return, mean_error_optimal (means over seeds), evidence, reason.
    """
    rows = rows.assign(
        seconds=rows[list(PARTS)].sum(axis=1), width=[_width(row) for row in rows.itertuples()]
    )
    by = [
        "environment",
        "transitions",
        "number_format",
        "backend",
        "cores",
        "width",
        "nominal_updates",
        "evidence",
    ]
    measures = ["seconds", "executed_updates", "exact_return", "mean_error_optimal"]
    table = over_seeds(rows, by, measures)
    table = table.drop(columns=[f"{name}_{edge}" for name in measures[1:] for edge in ("low", "high")])
    base = table[table["backend"] == BASELINE].set_index(["environment", "number_format"])["seconds"]
    keys = pd.MultiIndex.from_frame(table[["environment", "number_format"]])
    table["speedup"] = base.reindex(keys).to_numpy() / table["seconds"]
    table["reason"] = ""
    without = [
        _missing(entry, table, absent or {})
        for entry in table[["environment", "number_format"]].drop_duplicates().itertuples()
    ]
    table = pd.concat([table, *without], ignore_index=True) if any(map(len, without)) else table
    order = table["backend"].map(list(BACKENDS).index)
    return (
        table.assign(order=order)
        .sort_values(["environment", "number_format", "order"], kind="stable", ignore_index=True)
        .drop(columns="order")
    )


def absent() -> dict[str, str]:
    """Return the backends that this machine does not have, each with the reason."""
    return {name: reason for name in BACKENDS if (reason := missing(name))}


def _width(row) -> str:
    """Describe the cores of a run, such as `2,000 DPUs`."""
    threads = json.loads(row.machine_details).get("threads")
    if row.backend == "pim":
        return f"{row.cores:,} DPUs"
    if row.backend in ("gpu", "gpu-shared"):
        return f"{row.cores:,} lanes"
    return f"{threads} thread{'s' * (threads != 1)}"


def _missing(entry, table: pd.DataFrame, absent: dict[str, str]) -> pd.DataFrame:
    """Return rows without numbers for the backends that have none."""
    own = table[(table["environment"] == entry.environment) & (table["number_format"] == entry.number_format)]
    names = [name for name in BACKENDS if name not in set(own["backend"])]
    return pd.DataFrame(
        {
            "environment": entry.environment,
            "number_format": entry.number_format,
            "backend": names,
            "reason": [absent.get(name, ABSENT) for name in names],
        }
    )


@style()
def fig_backends(rows: pd.DataFrame) -> Figure:
    """Draw the time of each backend on the same data, with its speed-up and its evidence.

    Filled marks are measured, hollow ones simulated.
    """
    table = table_backends(rows)
    groups = list(table.groupby("environment", sort=False))
    formats = [name for name in FORMAT_COLOURS if name in set(table["number_format"])]
    figure = new_figure(PAGE_INCHES, 3.6)
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    for axes, (environment, own) in zip(panels, groups, strict=True):
        for number, name in enumerate(formats):
            _times(axes, own[own["number_format"] == name], 0.36 * (number - (len(formats) - 1) / 2), name)
        _absences(axes, own)
        axes.set(title=named(environment), xscale="log", xlabel=f"time (ms, {evidence_of(rows)})")
        axes.set_xlim(own["seconds"].min() * 1e3 / 3, own["seconds"].max() * 1e3 * 15)
        axes.grid(axis="x", lw=0.3, alpha=0.6)
        axes.xaxis.set_major_formatter("{x:g}")
    panels[0].set_yticks(range(len(BACKENDS)), _labels(table))
    panels[0].set_ylim(len(BACKENDS) - 0.45, -0.55)
    _legend(figure, formats, rows)
    facts = [simulator(rows), sample(rows), updates(rows[rows["backend"] != "exact"]), averaging(rows)]
    facts.append(f"Times: {means_over(table.dropna(subset='seconds'))}.")
    note(figure, [_comparison(rows), _host(rows), *facts, "The exact solution reads each transition once."])
    return figure


def summary_backends(rows: pd.DataFrame) -> Summary:
    """Return which measured learner is fastest, and the times of DPUs and of the exact solution."""
    sentences = []
    table = table_backends(rows).dropna(subset="seconds")
    for (environment, number_format), own in table.groupby(["environment", "number_format"], sort=False):
        own = own.set_index("backend")
        measured = own[(own["evidence"] == "measured") & (own.index != "exact")]
        first, pim, exact = measured.loc[measured["seconds"].idxmin()], own.loc["pim"], own.loc["exact"]
        sentences.append(
            f"{named(environment)} {number_format}: `{first.name}` is the fastest of the measured learners with "
            f"{first['seconds'] * 1e3:.3g} ms; `pim` takes {pim['seconds'] * 1e3:.3g} ms ({pim['evidence']}), the "
            f"exact solution {exact['seconds'] * 1e3:.2g} ms (measured)."
        )
    return Summary(sentences)


def summary_same_tables(rows: pd.DataFrame) -> Summary:
    """Return how many runs on DPUs, engine and GPU end with the same table, bit for bit.

    Raises
    ------
    SwiftRLError
        If any two of them differ.
    """
    same = rows[rows["backend"].isin(["pim", "cpu", "gpu"])]
    tables = same.groupby(["environment", "number_format", "cores", "seed"])["q_sha256"].nunique()
    if (tables != 1).any():
        raise SwiftRLError(
            f"backends end with different tables: {tables[tables != 1].to_dict()}; compare their rows"
        )
    names = " and ".join(f"`{name}`" for name in sorted(set(same["backend"])))
    return Summary(
        [f"{len(same)} runs on {names} for {len(tables)} problems: {len(tables)} tables, equal in every bit."]
    )


def _times(axes: Axes, own: pd.DataFrame, shift: float, number_format: str) -> None:
    shade = colour(FORMAT_COLOURS[number_format])
    for row in own.dropna(subset="seconds").itertuples():
        height = list(BACKENDS).index(row.backend) + shift
        bars = bars_of(own.loc[[row.Index]], "seconds", 1e3)
        axes.errorbar(
            row.seconds * 1e3, height, xerr=bars, fmt="o", ms=5, color=shade, lw=1, **mark_of(row.evidence)
        )
        gain = f"  {_times_as_fast(row.speedup)}" if row.backend != BASELINE else ""
        axes.annotate(
            f"{_duration(row.seconds)}{gain}",
            (row.seconds_high * 1e3, height),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            size=6,
            color="#333333",
        )


def _times_as_fast(speedup: float) -> str:
    return f"{speedup:.0f}x" if speedup >= 100 else f"{speedup:.2g}x"


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _absences(axes: Axes, own: pd.DataFrame) -> None:
    for name in own.loc[own["seconds"].isna(), "backend"].unique():
        axes.text(
            0.5,
            list(BACKENDS).index(name),
            ABSENT,
            transform=axes.get_yaxis_transform(),
            ha="center",
            va="center",
            size=6.5,
            style="italic",
            color="#777777",
        )


def _labels(table: pd.DataFrame) -> list[str]:
    widths = table.dropna(subset="seconds").groupby("backend")["width"].first()
    return [f"{text}\n({widths[name]})" if name in widths else text for name, text in BACKENDS.items()]


def _legend(figure: Figure, formats: list[str], rows: pd.DataFrame) -> None:
    handles = [
        Line2D([], [], color=colour(FORMAT_COLOURS[name]), lw=0, marker="s", label=name) for name in formats
    ]
    handles += [
        Line2D([], [], color="#444444", lw=0, marker="o", label=name, **mark_of(name))
        for name in ("measured", "simulated")
        if name in set(rows["evidence"])
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)


def _comparison(rows: pd.DataFrame) -> str:
    both = {"measured", "simulated"} <= set(rows["evidence"])
    warning = (
        " Simulated and measured times are shown side by side: compare them with that in mind."
        if both
        else ""
    )
    return f"Speed-ups are over `{BACKENDS[BASELINE]}`.{warning}"


def _host(rows: pd.DataFrame) -> str:
    hosts = sorted({text.partition(", ")[2] for text in rows["host"]})
    return f"Measured on: {'; '.join(hosts)}."


EXPERIMENT = Experiment(
    id="05_backends",
    question="What learns the same table fastest, DPUs, a CPU or a GPU, and what is the evidence for each time?",
    sizes=SIZES,
    figures=(Plot("backends", fig_backends, table_backends, summary_backends),),
    where_available=True,
)
