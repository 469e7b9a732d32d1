"""Experiment 08: the roofline, the limits of an update on this CPU and on a DPU."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from swiftrl_core.experiments import roofline_probe as probe
from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.plotting import captions
from swiftrl_core.plotting.style import PAGE_INCHES, colour, mark_of, named, new_figure, note, style

MARKS = "os^Dv"
SHADES = {"frozenlake": 0, "taxi": 1}
LINES = ("-", "--", ":")
"""Line styles of the ceilings, the highest first."""
SHOWN = (
    *("machine", "kind", "name", "environment", "number_format", "value", "unit"),
    *("ns_per_update", "operations", "bytes_touched", "bytes_streamed"),
    *("evidence", "hardware_profile", "model_version", "source"),
)
"""Columns of the table."""


def _speeds(
    transitions: int, cores: int, repetitions: int, memory: int, dpu_transitions: int, passes: int
) -> tuple[dict[str, Any], ...]:
    """Return grids of the ceilings and learners of one core of this CPU, then of one DPU.

    `memory` is the number of bytes to read from memory, more than the caches hold.
    """
    environments = ("frozenlake", "taxi")
    host = {"machine": probe.HOST, "repetitions": repetitions}
    learns = host | {"kind": "learner", "environment": environments, "transitions": transitions}
    dpu = {"machine": probe.DPU}
    return (
        *(
            host | {"kind": "bandwidth", "name": name, "bytes_read": size}
            for name, size in {**probe.CACHES, "memory": memory}.items()
        ),
        host | {"kind": "peak", "name": tuple(probe.PEAKS)},
        dpu | {"kind": "bandwidth", "name": ("WRAM", "MRAM")},
        dpu | {"kind": "peak", "name": tuple(probe.DPU_PEAKS)},
        *(
            learns
            | {"name": name, "number_format": number_format, "cores": cores if "vectors" in name else 1}
            for name, number_format in probe.LEARNERS.items()
        ),
        dpu
        | {"kind": "learner", "name": "kernel, 1 tasklet", "environment": environments}
        | {"number_format": ("INT32", "FP32"), "transitions": dpu_transitions, "passes": passes},
    )


SIZES = {
    "smoke": _speeds(50_000, 128, 5, 64 << 20, 1_000, 2),
    "quick": _speeds(1_000_000, 2000, 25, 256 << 20, 4_000, 10),
    "paper": _speeds(1_000_000, 2000, 50, 256 << 20, 8_000, 50),
}


def table_roofline(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns `SHOWN` of the rows."""
    return rows[list(SHOWN)]


@style()
def fig_roofline(rows: pd.DataFrame) -> Figure:
    """Draw ceilings and learners of this CPU and of a DPU: operations per second against operations per byte.

    A learner's mark counts every byte it touches, its tick only those it must stream from memory.
    """
    table = table_roofline(rows)
    figure = new_figure(PAGE_INCHES, 3.7)
    panels = figure.subplots(1, table["machine"].nunique(), squeeze=False)[0]
    for axes, (machine, own) in zip(panels, table.groupby("machine", sort=False), strict=True):
        ceilings, learners = own[own["kind"] != "learner"], own[own["kind"] == "learner"]
        low = (learners["operations"] / learners["bytes_touched"]).min() / 8
        high = _streamed(learners).max() * 20
        _ceilings(axes, ceilings, low, high)
        kinds = _learners(axes, learners)
        axes.set(xscale="log", yscale="log", xlim=(low, high), xlabel="operations per byte")
        peaks, roofs = (ceilings.loc[ceilings["kind"] == kind, "value"] for kind in ("peak", "bandwidth"))
        axes.set_ylim(min(learners["value"].min() / 5, low * roofs.min()), peaks.max() * 3)
        axes.set_title(f"{machine}: {' and '.join(sorted(set(own['evidence'])))}")
        axes.legend(handles=kinds, frameon=False, loc="lower right", fontsize=6.5)
    shades = [Line2D([], [], lw=3, color=colour(SHADES[name]), label=named(name)) for name in SHADES]
    figure.legend(handles=shades, loc="outside upper center", ncols=2, frameon=False)
    panels[0].set_ylabel("operations / s")
    note(figure, _sentences(table))
    return figure


def summary_host(rows: pd.DataFrame) -> Summary:
    """Return how close the learners come to the ceilings of this CPU."""
    host = rows[rows["machine"] == probe.HOST]
    ceiling = host.set_index("name")["value"]
    sentences = []
    for row in host[host["kind"] == "learner"].itertuples():
        rate = row.bytes_streamed / row.ns_per_update * 1e9
        sentences.append(
            f"{named(row.environment)}, {row.name}: {row.ns_per_update:.2f} ns per update (measured). It streams "
            f"{rate / 1e9:.2g} GB/s, {rate / ceiling['memory']:.0%} of the memory's bandwidth, and does "
            f"{row.value / ceiling['vectors']:.1%} of the operations that vectors could."
        )
    return Summary(sentences)


def summary_dpu(rows: pd.DataFrame) -> Summary:
    """Return how close the kernel comes to the ceilings of a DPU."""
    dpu = rows[rows["machine"] == probe.DPU]
    ceiling = dpu.set_index("name")["value"]
    sentences = []
    for row in dpu[dpu["kind"] == "learner"].itertuples():
        slots = row.ns_per_update * 1e-9 * ceiling["1 tasklet"]
        rate = row.bytes_streamed / row.ns_per_update * 1e9
        sentences.append(
            f"{named(row.environment)} {row.number_format}: {row.ns_per_update / 1e3:.1f} µs per update ("
            f"{row.evidence}), the time of {slots:.0f} instructions of one tasklet for {row.operations:.1f} operations."
            f" It streams {rate / 1e6:.2g} MB/s, {rate / ceiling['MRAM']:.1%} of the MRAM's bandwidth (modelled)."
        )
    return Summary(sentences)


def summary_roofline(rows: pd.DataFrame) -> Summary:
    """Return how close learners come to the ceilings of this CPU and of a DPU."""
    return Summary((*summary_host(rows), *summary_dpu(rows)))


def _streamed(learners: pd.DataFrame) -> pd.Series:
    return learners["operations"] / learners["bytes_streamed"]


def _ceilings(axes: Axes, ceilings: pd.DataFrame, low: float, high: float) -> None:
    peaks = ceilings[ceilings["kind"] == "peak"].sort_values("value", ascending=False)
    roofs = ceilings[ceilings["kind"] == "bandwidth"].sort_values("value", ascending=False)
    top = peaks["value"].max()
    for roof, line in zip(roofs.itertuples(), LINES, strict=False):
        ridge = top / roof.value
        axes.plot([low, ridge], [low * roof.value, top], color="black", lw=0.9, ls=line)
        axes.text(
            low * 1.25,
            low * 1.25 * roof.value,
            f"{roof.name}, {_giga(roof.value)}B/s",
            va="center",
            size=6,
            bbox={"fc": "white", "ec": "none", "pad": 0.6},
        )
    for peak, line in zip(peaks.itertuples(), LINES, strict=False):
        start = peak.value / roofs["value"].max()
        axes.plot([start, high], [peak.value, peak.value], color="black", lw=0.9, ls=line)
        axes.annotate(
            f"{peak.name}, {_giga(peak.value)}op/s",
            (high / 1.1, peak.value),
            xytext=(0, 2),
            textcoords="offset points",
            ha="right",
            size=6,
        )


def _learners(axes: Axes, learners: pd.DataFrame) -> list[Line2D]:
    """Draw the learners; return handles for a legend of their marks."""
    kinds = {}
    for row, streamed in zip(learners.itertuples(), _streamed(learners), strict=True):
        kind = f"{row.name}, {row.number_format}"
        mark = MARKS[len(kinds)] if kind not in kinds else kinds[kind].get_marker()
        look = {"marker": mark, "ls": "none", "ms": 5.5, **mark_of(row.evidence)}
        kinds[kind] = Line2D([], [], color="#444444", label=kind, **look)
        touched, shade = row.operations / row.bytes_touched, colour(SHADES[row.environment])
        axes.plot([touched, streamed], [row.value] * 2, color=shade, lw=0.7)
        axes.plot(streamed, row.value, "|", ms=6, mew=1.2, color=shade)
        axes.plot(touched, row.value, color=shade, **look)
    return list(kinds.values())


def _giga(value: float) -> str:
    """Return a rate with its prefix."""
    return f"{value / 1e9:.3g} G" if value >= 1e9 else f"{value / 1e6:.3g} M"


def _sentences(table: pd.DataFrame) -> list[str]:
    modelled = table.loc[table["evidence"] == "modelled", "source"]
    return [
        "Marks count every byte that an update touches; ticks at the other end of a line only the streamed record.",
        "Filled: measured here on one core. Hollow: simulated.",
        captions.simulator(table),
        f"Ceilings of the DPU are modelled ({'; '.join(dict.fromkeys(modelled))}).",
    ]


EXPERIMENT = Experiment(
    id="08_roofline",
    question="What limits an update, on this CPU and on a DPU?",
    sizes=SIZES,
    figures=(Plot("roofline", fig_roofline, table_roofline, summary_roofline),),
    of=probe.Speed,
)
