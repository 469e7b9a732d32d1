"""The figure of the kernel study: what an update costs, a step at a time."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from swiftrl_core.plotting.style import PAGE_INCHES, colour, named, new_figure, note, style

LOOKS = {
    "the paper's": {"color": "#444444"},
    "same bits": {"color": colour(0)},
    "bound": {"fc": "white", "ec": colour(0), "ls": "--"},
    "other bits": {"color": colour(1)},
    "other learner": {"color": colour(2)},
}
"""By kind of variant."""
LABELS = {
    "the paper's": "the paper's kernel",
    "same bits": "step, built on those above: the same bits",
    "bound": "bound, modelled",
    "other bits": "instead, on the last step: other bits",
    "other learner": "tasklets, frozen bootstrap",
}
SAVED = "#dddddd"
BAR_INCHES = 0.155


def fig_kernel_study(table: pd.DataFrame) -> Figure:
    """Draw the cycles of an update after each step, and in grey what the step saved.

    Parameters
    ----------
    table : DataFrame
        As `kernel_study.measure` returns it. STR, which differs from SEQ by its transfers alone, is not drawn.

    Returns
    -------
    Figure, a page wide: a row for each number format and sampling, a column for each environment
    """
    table = table[table["sampling"] != "STR"]
    learners = table[["number_format", "sampling"]].drop_duplicates().to_records(index=False).tolist()
    environments = list(dict.fromkeys(table["environment"]))
    cases = {key: own for key, own in table.groupby(["number_format", "sampling", "environment"], sort=False)}
    bars = [max(len(own) for key, own in cases.items() if key[:2] == learner) for learner in learners]
    with style():
        figure = new_figure(PAGE_INCHES, 0.9 + BAR_INCHES * (sum(bars) + 3.2 * len(bars)))
        panels = figure.subplots(
            len(learners), len(environments), squeeze=False, sharex="row", height_ratios=bars
        )
        for line, learner in zip(panels, learners, strict=True):
            for axes, environment in zip(line, environments, strict=True):
                own = cases.get((*learner, environment))
                if own is None:
                    axes.set_axis_off()
                    continue
                _waterfall(axes, own)
                axes.set_title(f"{named(environment)}, {learner[0]}, {learner[1]}", loc="left")
        for axes in panels[-1]:
            axes.set_xlabel("cycles / update")
        kinds = [kind for kind in LOOKS if kind in set(table["kind"])]
        handles = [Patch(**LOOKS[kind], label=LABELS[kind]) for kind in kinds]
        handles.append(Patch(color=SAVED, label="saved"))
        figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
        note(figure, _sentences(table))
    return figure


def _waterfall(axes: Axes, own: pd.DataFrame) -> None:
    """Draw a learner's variants from top to bottom."""
    before, widest = None, own["cycles"].max()
    for place, row in enumerate(own.itertuples()):
        axes.barh(place, row.cycles, height=0.72, **LOOKS[row.kind])
        end = row.cycles
        if before is not None and before > row.cycles:
            axes.barh(place, before - row.cycles, left=row.cycles, height=0.72, color=SAVED)
            end = before
        text = f"{row.instructions:,.0f} instr., {row.speedup:.{2 - (row.speedup >= 10)}f}x"
        axes.text(end + widest * 0.01, place, text, va="center", size=6)
        if row.kind in ("the paper's", "same bits"):
            before = row.cycles
    axes.set_yticks(range(len(own)), own["step"])
    axes.tick_params(axis="y", length=0)
    axes.set(ylim=(len(own) - 0.4, -0.6), xlim=(0, widest * 1.32))


def _sentences(table: pd.DataFrame) -> list[str]:
    first = table.iloc[0]
    return [
        f"Simulated, but for the bound: {first['hardware_profile']}, model version {first['model_version']}, "
        f"{first['dpus']} DPUs with chunks as 2,000 have them, the second launch of 50 episodes. Instructions are "
        "those of all tasklets together.",
        "Speed-ups are over --kernel paper with one tasklet, which in INT32 is 'paper, lowest terms'.",
    ]
