"""The roofline: what bounds an update on this CPU, and on a DPU."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from swiftrl_core.plotting import captions
from swiftrl_core.plotting.style import PAGE_INCHES, colour, mark_of, named, new_figure, note, style

MARKS = "os^Dv"
SHADES = {"frozenlake": 0, "taxi": 1}
LINES = ("-", "--", ":")
"""Of the ceilings, the highest first."""


SHOWN = (
    *("machine", "kind", "name", "environment", "number_format", "value", "unit"),
    *("ns_per_update", "operations", "bytes_touched", "bytes_streamed"),
    *("evidence", "hardware_profile", "model_version", "source"),
)


def table_roofline(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what `fig_roofline` shows: the columns `SHOWN` of its rows."""
    return rows[list(SHOWN)]


def fig_roofline(rows: pd.DataFrame) -> Figure:
    """Draw ceilings and learners of this CPU and of a DPU: operations a second on operations a byte.

    Parameters
    ----------
    rows : DataFrame
        Rows of `roofline.Speed`; see `table_roofline`.

    Returns
    -------
    Figure, a page wide; a learner's mark counts every byte it touches, its tick only those it must stream from memory
    """
    table = table_roofline(rows)
    with style():
        figure = new_figure(PAGE_INCHES, 3.7)
        panels = figure.subplots(1, table["machine"].nunique(), squeeze=False)[0]
        for axes, (machine, own) in zip(panels, table.groupby("machine", sort=False), strict=True):
            ceilings, learners = own[own["kind"] != "learner"], own[own["kind"] == "learner"]
            low = (learners["operations"] / learners["bytes_touched"]).min() / 8
            high = _streamed(learners).max() * 20
            _ceilings(axes, ceilings, low, high)
            kinds = _learners(axes, learners)
            axes.set(xscale="log", yscale="log", xlim=(low, high), xlabel="operations a byte")
            peaks, roofs = (ceilings.loc[ceilings["kind"] == kind, "value"] for kind in ("peak", "bandwidth"))
            axes.set_ylim(min(learners["value"].min() / 5, low * roofs.min()), peaks.max() * 3)
            axes.set_title(f"{machine}: {' and '.join(sorted(set(own['evidence'])))}")
            axes.legend(handles=kinds, frameon=False, loc="lower right", fontsize=6.5)
        shades = [Line2D([], [], lw=3, color=colour(SHADES[name]), label=named(name)) for name in SHADES]
        figure.legend(handles=shades, loc="outside upper center", ncols=2, frameon=False)
        panels[0].set_ylabel("operations / s")
        note(figure, _sentences(table))
    return figure


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
    """Draw the learners; return what explains their marks."""
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
        "Marks count every byte an update touches, ticks at the other end of a line only the record it must stream.",
        "Filled: measured here on one core. Hollow: simulated.",
        captions.simulator(table),
        f"Ceilings of the DPU are modelled ({'; '.join(dict.fromkeys(modelled))}).",
    ]
