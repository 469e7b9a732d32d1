"""Draw the figures of stored results again, executing no run.

A folder of results holds rows of runs (`table.parquet`, in the folder of an experiment), or the tables that figures
were drawn from (such as `learning_curve.csv`). Each figure is drawn again in its place, with the same bytes.
"""

from collections.abc import Iterator
from pathlib import Path

from pyarrow import csv

from swiftrl_core.experiments.experiment import Plot
from swiftrl_core.experiments.registry import EXPERIMENTS, NOTEBOOKS_ALONE
from swiftrl_core.plotting.style import save
from swiftrl_core.sweeps import results
from swiftrl_core.sweeps.store import TABLE
from swiftrl_core.util.errors import SwiftRLError


def regenerate(root: Path) -> tuple[list[Path], list[str]]:
    """Draw every figure whose data lie in a folder or below.

    Parameters
    ----------
    root : Path

    Returns
    -------
    written : list of Path
    problems : list of str
        A sentence for each stored table that cannot be read.
    """
    written, problems = [], []
    for folder in sorted({path.parent for path in root.rglob("*") if path.suffix in (".parquet", ".csv")}):
        try:
            written += _from_rows(folder)
        except SwiftRLError as error:
            problems.append(str(error))
        for plot in _plots_without_rows():
            if (folder / f"{plot.name}.csv").exists():
                written += _from_its_table(plot, folder)
    return written, problems


def _from_rows(folder: Path) -> list[Path]:
    """Draw the figures of the experiment that a folder belongs to, if it holds rows."""
    name = next((part for part in reversed(folder.parts) if part in EXPERIMENTS), None)
    if name is None or not (folder / TABLE).exists():
        return []
    experiment = EXPERIMENTS[name]
    return experiment.draw(results.read_table(folder / TABLE, experiment.columns), folder)


def _plots_without_rows() -> Iterator[Plot]:
    for experiment in (*EXPERIMENTS.values(), *NOTEBOOKS_ALONE.values()):
        yield from (plot for plot in experiment.figures if plot.table is None)


def _from_its_table(plot: Plot, folder: Path) -> list[Path]:
    table = csv.read_csv(
        folder / f"{plot.name}.csv"
    ).to_pandas()  # keeps numbers exactly as they were written
    return save(plot.draw(table), table, folder, plot.name)
