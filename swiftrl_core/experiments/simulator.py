"""Experiment 09: the simulator against published measurements, and where the instructions of a kernel go.

Each figure is a pure function of a table of `dpusim.validation` or of the profiler. Filled marks are simulated, hollow
ones measured.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from swiftrl_core.dpusim import MODEL_VERSION
from swiftrl_core.dpusim.timing import STATED
from swiftrl_core.dpusim.validation import Section
from swiftrl_core.dpusim.validation.published import SATURATING_TASKLETS
from swiftrl_core.experiments.experiment import Experiment, Plot
from swiftrl_core.plotting.style import COLUMN_INCHES, PAGE_INCHES, new_figure, style

SOURCE_CHARACTERS = 58
SMALLEST_SHARE = 1e-3
"""Share of all instructions below which lines are added up."""


@style()
def fig_throughput(table: pd.DataFrame) -> Figure:
    """Draw the arithmetic throughput of one DPU: simulated against measured, and the error of each pair.

    Parameters
    ----------
    table : DataFrame
        Columns type, operation, predicted_mops, published_mops, error_percent; a row a pair.
    """
    figure = new_figure(PAGE_INCHES, 2.5)
    left, right = figure.subplots(1, 2)
    positions = np.arange(len(table))
    colour = sns.color_palette("colorblind")[0]
    labels = [f"{row.type} {row.operation}" for row in table.itertuples()]
    left.plot(positions, table["published_mops"], "o", mfc="none", mec="black", ms=6, label="measured (PrIM)")
    left.plot(positions, table["predicted_mops"], "o", color=colour, ms=3, label="simulated")
    left.set(yscale="log", ylabel="million operations / s")
    left.legend(frameon=False, loc="lower left")
    right.bar(positions, table["error_percent"], color=colour)
    right.axhline(0, color="black", lw=0.8)
    right.set(ylabel="simulated / measured - 1 (%)")
    for axes in (left, right):
        axes.set_xticks(positions, labels, rotation=90)
        axes.tick_params(axis="x", length=0)
    return figure


@style()
def fig_saturation(table: pd.DataFrame, published: int = SATURATING_TASKLETS) -> Figure:
    """Draw throughput against tasklets, and the number at which hardware saturates.

    Parameters
    ----------
    table : DataFrame
        Columns tasklets, predicted_mops.
    published : int
        The number of tasklets measured on hardware.
    """
    figure = new_figure(COLUMN_INCHES, 2.1)
    axes = figure.subplots()
    colour = sns.color_palette("colorblind")[0]
    axes.plot(table["tasklets"], table["predicted_mops"], "o-", color=colour, ms=3, lw=1, label="simulated")
    axes.axvline(published, color="black", ls="--", lw=0.8, label=f"full at {published} (measured, PrIM)")
    axes.set(xlabel="tasklets", ylabel="INT32 additions (million / s)", xlim=(0, None), ylim=(0, None))
    axes.legend(frameon=False, loc="lower right")
    return figure


@style()
def fig_bandwidth(table: pd.DataFrame) -> Figure:
    """Draw MRAM bandwidth against the size of a transfer.

    Parameters
    ----------
    table : DataFrame
        Columns way (read or write), bytes, predicted_mb_s, fit_mb_s, measured_mb_s (NaN where nothing was).
    """
    figure = new_figure(COLUMN_INCHES, 2.1)
    axes = figure.subplots()
    for (way, rows), colour, mark in zip(
        table.groupby("way", sort=False), sns.color_palette("colorblind"), "os", strict=False
    ):
        axes.plot(rows["bytes"], rows["fit_mb_s"], color=colour, lw=1, label=f"{way}, PrIM's fit")
        axes.plot(rows["bytes"], rows["predicted_mb_s"], mark, color=colour, ms=3, label=f"{way}, simulated")
    measured = table.dropna(subset="measured_mb_s")
    axes.plot(
        measured["bytes"],
        measured["measured_mb_s"],
        "o",
        mfc="none",
        mec="black",
        ms=8,
        label="read, measured",
    )
    axes.set_xscale("log", base=2)
    axes.set(xlabel="bytes in one transfer", ylabel="MB / s", ylim=(0, None))
    axes.set_xticks(table["bytes"].unique(), [f"{size:,}" for size in table["bytes"].unique()], rotation=45)
    axes.legend(frameon=False, loc="upper left")
    return figure


@style()
def fig_whole_kernels(rows: pd.DataFrame) -> Figure:
    """Draw the error of whole kernels against their time on hardware.

    Parameters
    ----------
    rows : DataFrame
        Columns benchmark, hardware_ms, error_percent, role (judged, interval or short).
    """
    figure = new_figure(COLUMN_INCHES, 2.5)
    axes = figure.subplots()
    for (name, own), colour, mark in zip(
        rows.groupby("benchmark", sort=False), sns.color_palette("colorblind"), "osD^", strict=False
    ):
        judged = own["role"] == "judged"
        style = {"ls": "none", "marker": mark, "ms": 4, "color": colour}
        axes.plot(own.loc[judged, "hardware_ms"], own.loc[judged, "error_percent"], label=name, **style)
        axes.plot(own.loc[~judged, "hardware_ms"], own.loc[~judged, "error_percent"], mfc="none", **style)
    axes.axhline(0, color="black", lw=0.8)
    axes.set(xscale="log", xlabel="kernel time on hardware (ms, measured)")
    axes.set_ylabel("simulated / measured - 1 (%)")
    axes.set_title("filled marks are judged")
    axes.legend(frameon=False, ncols=2, loc="lower right")
    return figure


@style()
def fig_lines(lines: pd.DataFrame, top: int = 12) -> Figure:
    """Draw the most expensive lines of a kernel, in the order of the source.

    Parameters
    ----------
    lines : DataFrame
        As `profile` returns it: file, line, source, instructions, share.
    top : int
        Number of lines to show; the others are added up in one bar.
    """
    visible = lines[lines["share"] >= SMALLEST_SHARE]
    shown = visible.nlargest(top, "instructions").sort_values(["file", "line"])
    rest = lines["instructions"].sum() - shown["instructions"].sum()
    labels = [f"{_shortened(row.source)}  {row.file}:{row.line}" for row in shown.itertuples()]
    values, shares = list(shown["instructions"]), list(shown["share"])
    if rest:
        labels, values, shares = [*labels, "all other lines"], [*values, rest], [*shares, 1 - sum(shares)]
    figure = new_figure(PAGE_INCHES, 0.6 + 0.18 * len(values))
    axes = figure.subplots()
    positions = np.arange(len(values))
    bars = axes.barh(positions, values, color=sns.color_palette("colorblind")[0])
    axes.bar_label(bars, [f" {share:.1%}" for share in shares], fontsize=7)
    axes.set_yticks(positions, labels, family="monospace", fontsize=6)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    axes.set(xlabel="DPU instructions (simulated)")
    axes.margins(x=0.08)
    axes.invert_yaxis()
    return figure


def _shortened(source: str) -> str:
    # A dollar sign would start a formula in matplotlib.
    source = source.replace("$", r"\$")
    return source if len(source) <= SOURCE_CHARACTERS else source[: SOURCE_CHARACTERS - 1] + "…"


def table_bars(sections: Iterable[Section]) -> pd.DataFrame:
    """Return the bars of the sections of a validation.

    Returns
    -------
    DataFrame
        section, bar, value, limit, unit, holds, detail.
    """
    return pd.DataFrame(
        [
            (section.name, bar.name, bar.value, bar.limit, bar.unit, bar.holds, bar.detail)
            for section in sections
            for bar in section.bars
        ],
        columns=["section", "bar", "value", "limit", "unit", "holds", "detail"],
    )


def table_uncertainty() -> pd.DataFrame:
    """Return the uncertainty that the package states for each kind of kernel.

    Returns
    -------
    DataFrame
        kind, "hardware / simulated, from", to, source.
    """
    return pd.DataFrame(
        [(f"kernels that {kind.description}", kind.low, kind.high, kind.source) for kind in STATED.values()],
        columns=["kind", "hardware / simulated, from", "to", "source"],
    )


def manifest(sections: Iterable[Section], left_out: Mapping[str, str], hardware: str) -> dict[str, Any]:
    """Return the results of a validation, and the sections left out with their reasons."""
    return {
        "model_version": MODEL_VERSION,
        "hardware": hardware,
        "evidence": "simulated, against published measurements",
        "sections": {section.name: section.to_json() for section in sections},
        "left_out": dict(left_out),
    }


EXPERIMENT = Experiment(
    id="09_simulator_validation",
    question="How accurate are the times of the DPU simulator?",
    figures=(
        Plot("throughput", fig_throughput),
        Plot("saturation", fig_saturation),
        Plot("bandwidth", fig_bandwidth),
        Plot("whole_kernels", fig_whole_kernels),
        Plot("kernel_lines", fig_lines),
    ),
)
