"""Sizes, fonts, names and marks of all figures, and how figures are saved."""

import os
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swiftrl_core.util.files import atomic_path

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
NOTE_POINTS = 6.5
NOTE_CHARACTERS_PER_INCH = 21
"""Width of a note's letters, which are smaller than the rest."""

NAMES = {
    "frozenlake": "FrozenLake",
    "frozenlake8x8": "FrozenLake 8x8",
    "taxi": "Taxi",
    "cliffwalking": "CliffWalking",
    "q_learning": "Q-learning",
    "sarsa": "SARSA",
}
"""Names in figures of what has a short name in tables."""

PARTS = {
    "cpu_to_pim": "CPU-PIM",
    "pim_kernel": "PIM kernel",
    "inter_pim_core": "inter-PIM-core",
    "pim_to_cpu": "PIM-CPU",
}
"""The paper's four parts of the time, in the order they happen."""

MARKS = {"SEQ": "o", "STR": "s", "RAN": "^"}
"""Mark of each sampling."""
FORMAT_COLOURS = {"FP32": 0, "INT32": 1, "INT32_POW2": 2}
ALGORITHM_COLOURS = {"q_learning": 0, "sarsa": 3}
"""Places of the colours in the palette."""


def colour(place: int) -> tuple[float, float, float]:
    """Return a colour of seaborn's colour-blind palette."""
    return sns.color_palette("colorblind")[place]


def named(name: str) -> str:
    """Return the name of something in figures."""
    return NAMES.get(name, name)


def mark_of(evidence: str) -> dict[str, str]:
    """Return the style of a mark: filled for measured times, hollow for all others."""
    return {} if evidence == "measured" else {"mfc": "white"}


def evidence_of(rows: pd.DataFrame) -> str:
    """Return the evidence of rows in words, such as `measured and simulated`."""
    return " and ".join(sorted(set(rows["evidence"])))


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, with constrained layout."""
    return Figure(figsize=(width, height), layout="constrained")


def note(figure: Figure, sentences: Iterable[str]) -> None:
    """Write sentences under a figure, as a part of it."""
    width = int(figure.get_figwidth() * NOTE_CHARACTERS_PER_INCH)
    lines = textwrap.fill(" ".join(filter(None, sentences)), width)
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=NOTE_POINTS, color="#444444")


def legend_above(figure: Figure, axes: Axes, columns: int | None = None) -> None:
    """Put the legend of one panel over the whole figure."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=columns or len(labels),
        frameon=False,
        columnspacing=1.2,
        handlelength=1.6,
    )


def count_ticks(axis: mpl.axis.Axis, counts: Sequence[int]) -> None:
    """Put ticks at the given whole numbers of a logarithmic axis, and nowhere else."""
    counts = sorted(set(counts))
    axis.set_ticks(counts, [f"{count:,}" for count in counts])
    axis.set_minor_locator(mpl.ticker.NullLocator())


def plain_log_ticks(axis: mpl.axis.Axis) -> None:
    """Label a logarithmic axis, whose data are drawn, with plain numbers: decades, and 2 and 5 where these are few."""
    low, high = axis.get_view_interval()
    subs = (1, 2, 5) if high < 30 * low else (1,)
    axis.set_major_locator(mpl.ticker.LogLocator(subs=subs, numticks=12 if high < 5e3 * low else 5))
    axis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(mpl.ticker.NullFormatter())


def save(figure: Figure, table: pd.DataFrame, directory: str | os.PathLike, name: str) -> list[Path]:
    """Write a figure as PDF and PNG, and its table as CSV; the same input gives the same bytes.

    Raises
    ------
    SwiftRLError
        If the folder cannot be written.
    """
    directory = Path(directory)
    pdf, png, csv = (directory / f"{name}.{suffix}" for suffix in ("pdf", "png", "csv"))
    with style():
        with atomic_path(pdf) as temporary:
            figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
        with atomic_path(png) as temporary:
            figure.savefig(temporary, format="png", dpi=200, metadata={"Software": None})
    with atomic_path(csv) as temporary:
        table.to_csv(temporary, index=False)
    return [pdf, png, csv]


@contextmanager
def style() -> Iterator[None]:
    """Draw in the package's style, independent of the caller's and of the user's matplotlibrc; also a decorator."""
    defaults = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    with mpl.rc_context(defaults | STYLE):
        yield
