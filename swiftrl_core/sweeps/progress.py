"""How far a sweep is: one line on a terminal, a table in a notebook, nothing elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, TextIO

import pandas as pd

from swiftrl_core.sweeps.job import Job

REFRESH_SECONDS = 0.2
CELL_WORK = 1_000_000
"""What a cell costs besides its updates, counted in updates: collecting, evaluating, keeping."""


def work(cell: Job) -> int:
    """Return what a cell costs, in updates; a guess that serves to weigh cells against each other."""
    return cell.updates + CELL_WORK


@dataclass
class Tally:
    """Where a sweep stands.

    Attributes
    ----------
    total, found : int
        Cells of the sweep, and those that were finished before it began.
    done, failed : int
        Cells that finished or failed since.
    """

    total: int
    found: int
    pending: Iterable[Job]
    done: int = 0
    failed: int = 0
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.pending = list(self.pending)
        self._work_left = sum(map(work, self.pending))
        self._work_done = 0

    def count(self, cell: Job, *, failed: bool = False, found: bool = False) -> None:
        """Count a cell that finished, failed, or turned out to be finished by somebody else."""
        self._work_left -= work(cell)
        if found:
            self.found += 1
            return
        self._work_done += work(cell)
        self.failed += failed
        self.done += not failed

    @property
    def rate(self) -> float:
        """Cells a second, since the start."""
        return (self.done + self.failed) / max(time.monotonic() - self.started, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Time left if work goes on at this speed; None while nothing is known."""
        if not self._work_done:
            return None
        return self._work_left / self._work_done * (time.monotonic() - self.started)

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        left = f", {duration(self.seconds_left)} left" if self._work_done and self._work_left else ""
        return f"{self.found + self.done}/{self.total} done{failed}, {self.rate:.1f} cells/s{left}"


class Reporter(Protocol):
    """What is told how far a sweep is."""

    def show(self, tally: Tally, cell: Job | None = None, *, failed: bool = False) -> None:
        """Take notice of the tally, after a cell, or before the first."""

    def close(self, tally: Tally) -> None:
        """Take notice that the sweep ends."""


class Line:
    """One line on a terminal, written over and over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._shown, self._width = stream, 0.0, 0

    def show(self, tally: Tally, cell: Job | None = None, *, failed: bool = False) -> None:
        """See `Reporter`."""
        if time.monotonic() - self._shown >= REFRESH_SECONDS:
            self._write(str(tally), end="")

    def close(self, tally: Tally) -> None:
        """See `Reporter`."""
        self._write(str(tally), end="\n")

    def _write(self, text: str, end: str) -> None:
        self._stream.write("\r" + text.ljust(self._width) + end)
        self._stream.flush()
        self._shown, self._width = time.monotonic(), len(text)


class NotebookTable:
    """A table in a notebook that refreshes in its place: a row for each environment and backend."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._handle = display(HTML(""), display_id=True)
        self._shown = 0.0
        self._done: Counter[tuple[str, str]] = Counter()
        self._failed: Counter[tuple[str, str]] = Counter()

    def show(self, tally: Tally, cell: Job | None = None, *, failed: bool = False) -> None:
        """See `Reporter`."""
        if cell is not None:
            (self._failed if failed else self._done)[cell.group] += 1
        if time.monotonic() - self._shown >= REFRESH_SECONDS:
            self._draw(tally)

    def close(self, tally: Tally) -> None:
        """See `Reporter`."""
        self._draw(tally)

    def _draw(self, tally: Tally) -> None:
        planned = Counter(cell.group for cell in tally.pending)
        table = pd.DataFrame(
            [
                {
                    "environment": environment,
                    "backend": backend,
                    "to run": number,
                    "done": self._done[environment, backend],
                    "failed": self._failed[environment, backend],
                }
                for (environment, backend), number in planned.items()
            ]
        )
        self._handle.update(self._html(table.to_html(index=False) + f"<p>{tally}</p>"))
        self._shown = time.monotonic()


def reporters(stream: TextIO | None = None) -> list[Reporter]:
    """Return what suits the place: a table in a notebook, a line on a terminal, else nothing."""
    stream = stream or sys.stderr
    if _in_notebook():
        return [NotebookTable()]
    return [Line(stream)] if stream.isatty() else []


def duration(seconds: float) -> str:
    """Return a duration as people say it: `7 s`, `3 min`, `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _in_notebook() -> bool:
    """Return whether a Jupyter kernel runs this."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
