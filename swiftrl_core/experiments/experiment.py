"""An experiment: a question, the runs that answer it in three sizes, figures with their tables, and a summary.

Sizes: `smoke` takes less than a minute and shows that everything works, `quick` takes minutes on a laptop, `paper`
has the paper's sizes. The package runs the grid (`swiftrl experiment run`); the notebook reads the rows and draws them.
"""

import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from swiftrl_core.sweeps import plan as sweeps
from swiftrl_core.sweeps.executors import Executor
from swiftrl_core.sweeps.grid import Grid, combine, unique
from swiftrl_core.sweeps.job import Job
from swiftrl_core.sweeps.manifest import MANIFEST
from swiftrl_core.sweeps.run import Run
from swiftrl_core.sweeps.store import TABLE, Store
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import atomic_path

if (
    TYPE_CHECKING
):  # matplotlib takes half a second to import, which commands that draw nothing need not wait for
    from matplotlib.figure import Figure

SIZES = ("smoke", "quick", "paper")


class Summary(tuple):
    """Sentences computed from rows; a notebook shows them as a bulleted list."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(self)

    def _repr_markdown_(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self)


@dataclass(frozen=True)
class Plot:
    """A figure of an experiment, with its table and its summary.

    Attributes
    ----------
    name : str
        File name of the figure and of its table, without suffix.
    draw : callable
        Returns the figure for a table of rows, which it leaves unchanged.
    table : callable, optional
        Returns the numbers that the figure of some rows shows. Without it the figure is drawn from the very table it
        is stored with, by a notebook that makes that table itself.
    summary : callable, optional
        Returns the `Summary` of some rows.
    """

    name: str
    draw: Callable[[pd.DataFrame], "Figure"]
    table: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    summary: Callable[[pd.DataFrame], Summary] | None = None


@dataclass(frozen=True)
class Experiment:
    """A question, and the runs that answer it.

    Attributes
    ----------
    id : str
        Also the name of the notebook, without suffix.
    question : str
    sizes : mapping
        Each of `SIZES` to grids; their runs, in order and each once, are the experiment. Empty for a notebook that
        makes its tables itself.
    figures : tuple of Plot
    of : type
        Kind of run that the grids are of: training runs, or a kind of probe.
    where_available : bool
        Leave out runs whose backend this machine does not have, such as a GPU; otherwise the experiment stops.
    part_of : str, optional
        Experiment whose notebook and folder this one shares.
    """

    id: str
    question: str
    sizes: Mapping[str, tuple[Grid, ...]] = field(default_factory=dict)
    figures: tuple[Plot, ...] = ()
    of: type[Job] = Run
    where_available: bool = False
    part_of: str | None = None

    def __post_init__(self) -> None:
        if self.sizes and set(self.sizes) != set(SIZES):
            raise SwiftRLError(f"experiment {self.id} needs grids for exactly the sizes {', '.join(SIZES)}")

    @property
    def notebook(self) -> str:
        """File name of the notebook."""
        return f"{self.part_of or self.id}.ipynb"

    @property
    def columns(self) -> pa.Schema:
        """The columns of the experiment's rows."""
        return self.of.columns

    def folder(self, size: str, root: str | os.PathLike | None = None) -> Path:
        """Return the folder of the rows: `ROOT/ID/SIZE`, by default in `results`; for a part, one inside it."""
        folder = Path(root or sweeps.RESULTS) / (self.part_of or self.id) / size
        return folder / self.id if self.part_of else folder

    def expand(self, size: str) -> list[Job]:
        """Return the runs of a size, in the order of its grids, each once.

        Raises
        ------
        SwiftRLError
            If there is no such size, or a run is not valid.
        """
        check_size(size, self.sizes or SIZES)
        return unique(run for grid in self.sizes.get(size, ()) for run in combine(grid, self.of))

    def run(
        self,
        size: str = "smoke",
        directory: str | os.PathLike | None = None,
        executor: Executor | None = None,
    ) -> pd.DataFrame:
        """Return the rows of a size, one for each run in the order of the grids; execute only runs without a row.

        Parameters
        ----------
        size : str
            `smoke`, `quick` or `paper`.
        directory : path, optional
            By default `results/ID/SIZE`.
        executor : Executor, optional

        Raises
        ------
        SwiftRLError
            As `sweeps.plan.execute` does, and if a run fails.
        """
        store = Store(directory or self.folder(size), self.columns)
        runs = self.expand(size)
        plan = sweeps.make_plan(runs, store, retry_failed=True, where_available=self.where_available)
        for reason in plan.left_out.values():
            print(f"left out: {reason}")
        sweeps.require_all(sweeps.execute(plan, store, executor), store)
        return store.table(run.config_hash for run in plan.jobs)

    def draw(self, rows: pd.DataFrame, directory: str | os.PathLike) -> list[Path]:
        """Draw all figures of some rows, each with its table; return the files written.

        Raises
        ------
        SwiftRLError
            If the folder cannot be written.
        """
        from swiftrl_core.plotting.style import save

        written = []
        for plot in self.figures:
            if plot.table is not None:
                written += save(plot.draw(rows), plot.table(rows), directory, plot.name)
        return written

    def keep(
        self,
        directory: str | os.PathLike,
        rows: pd.DataFrame | None = None,
        manifest: Mapping[str, Any] | None = None,
        **tables: pd.DataFrame,
    ) -> list[str]:
        """Write the figures and tables of a notebook; return the files.

        Parameters
        ----------
        directory : path
        rows : DataFrame, optional
            Rows of the experiment, already in the folder: their figures are drawn.
        manifest : mapping, optional
            Written as `manifest.json`, with the names of the files.
        **tables : DataFrame
            Further tables by name: written as CSV, and drawn where a figure without a `table` function has that name.

        Raises
        ------
        SwiftRLError
            If the folder cannot be written, or a file is missing or empty.
        """
        from swiftrl_core.plotting.style import save

        directory = Path(directory)
        draw = {plot.name: plot.draw for plot in self.figures if plot.table is None}
        written = [] if rows is None else self.draw(rows, directory)
        for name, table in tables.items():
            if name in draw:
                written += save(draw[name](table), table, directory, name)
            else:
                written.append(_write_csv(table, directory / f"{name}.csv"))
        if rows is not None:
            written += [directory / TABLE, (directory / TABLE).with_suffix(".json")]
        if manifest is not None:
            described = {**manifest, "files": [path.name for path in written]}
            with atomic_path(directory / MANIFEST) as temporary:
                temporary.write_text(json.dumps(described, indent=1))
            written.append(directory / MANIFEST)
        return _complete(written)


def check_size(size: str, sizes: Collection[str]) -> None:
    """Raise a SwiftRLError unless the size is one of these."""
    if size not in sizes:
        raise SwiftRLError(f"size is {size!r}: choose one of {', '.join(sizes)}")


def _write_csv(table: pd.DataFrame, path: Path) -> Path:
    """Write a table as CSV, with its index where rows have names, and return its path."""
    with atomic_path(path) as temporary:
        table.to_csv(temporary, index=not isinstance(table.index, pd.RangeIndex))
    return path


def _complete(paths: list[Path]) -> list[str]:
    """Return the paths as text, for a notebook to list.

    Raises
    ------
    SwiftRLError
        If one of them is missing or empty.
    """
    for path in paths:
        if not path.is_file() or not path.stat().st_size:
            raise SwiftRLError(f"{path} is missing or empty: run the notebook again")
    return [str(path) for path in paths]
