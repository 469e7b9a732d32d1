"""Redraw figures from stored results without running anything: `swiftrl figures`.

A folder of results holds rows of runs (`table.parquet`, in an experiment's folder), or only the tables that figures
showed (such as `learning_curve.csv`). Each is drawn again in its place, and comes out the same in every byte.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from pyarrow import csv

from swiftrl_core.dpusim.validation.published import SATURATING_TASKLETS
from swiftrl_core.experiments import figures, simulator
from swiftrl_core.experiments import registry as experiments
from swiftrl_core.sweeps import results
from swiftrl_core.sweeps.store import TABLE
from swiftrl_core.util.errors import SwiftRLError

SHOWN: dict[str, Callable[[pd.DataFrame], Figure]] = {
    "bandwidth": simulator.fig_bandwidth,
    "kernel_lines": simulator.fig_lines,
    "kernel_study": figures.fig_kernel_study,
    "learning_curve": figures.fig_learning_curve,
    "policy": figures.fig_policy,
    "saturation": partial(simulator.fig_saturation, published=SATURATING_TASKLETS),
    "throughput": simulator.fig_throughput,
    "time_breakdown": figures.fig_breakdown,
    "visits": figures.fig_visits,
    "whole_kernels": simulator.fig_whole_kernels,
}
"""Figures whose stored table is the one they show."""


def regenerate(root: Path) -> tuple[list[Path], list[str]]:
    """Draw every figure whose data lie in a folder or below.

    Returns
    -------
    written : list of Path
    problems : list of str
        A sentence for each stored table that cannot be read.
    """
    written, problems = [], []
    for folder in sorted({path.parent for path in root.rglob("*") if path.suffix in (".parquet", ".csv")}):
        for draw in _in(folder):
            try:
                written += draw()
            except SwiftRLError as error:
                problems.append(str(error))
    return written, problems


def _in(folder: Path) -> list[Callable[[], list[Path]]]:
    """Return what draws the figures of one folder."""
    found: list[Callable[[], list[Path]]] = []
    experiment = next((part for part in reversed(folder.parts) if part in experiments.EXPERIMENTS), None)
    if experiment and (folder / TABLE).exists():
        found.append(partial(_draw_runs, experiment, folder))
    for name, draw in SHOWN.items():
        if (folder / f"{name}.csv").exists():
            found.append(partial(_draw_shown, folder, name, draw))
    return found


def _draw_runs(experiment: str, folder: Path) -> list[Path]:
    columns = experiments.find(experiment).columns
    return experiments.draw(experiment, results.read_table(folder / TABLE, columns), folder)


def _draw_shown(folder: Path, name: str, draw: Callable[[pd.DataFrame], Figure]) -> list[Path]:
    table = csv.read_csv(folder / f"{name}.csv").to_pandas()  # which reads a number as it was written
    return figures.save(draw(table), table, folder, name)
