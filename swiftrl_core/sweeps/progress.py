"""The progress of a sweep: tqdm's bar on a terminal or in a notebook, a line every half minute in a log."""

import sys
from collections.abc import Iterable
from typing import TextIO

from tqdm.auto import tqdm
from tqdm.notebook import tqdm_notebook

from swiftrl_core.sweeps.job import Job

RUN_WORK = 1_000_000
"""The work of a run besides its updates, counted in updates: the data set, the evaluation, the row."""
LOG_SECONDS = 30.0


def work(job: Job) -> int:
    """Return about what a run costs, in updates; it serves to weigh runs against each other."""
    return job.updates + RUN_WORK


class Progress:
    """Counts of a sweep's runs, and a bar whose time left follows from the work left.

    Parameters
    ----------
    pending : iterable of Job
        The runs to execute.
    done : int
        Runs that have a row already.
    show : bool
        Show the bar; otherwise only count.
    """

    def __init__(self, pending: Iterable[Job], done: int = 0, *, show: bool = True) -> None:
        pending = list(pending)
        self.total, self.done, self.failed = done + len(pending), done, 0
        self._bar = tqdm(
            total=sum(map(work, pending)),
            desc=str(self),
            smoothing=0,  # over the whole sweep: runs of different size come in blocks
            miniters=1,
            disable=not show,
            **_layout(sys.stderr),
        )

    def count(self, job: Job, *, failed: bool = False) -> None:
        """Count a run that finished or failed."""
        self.done += not failed
        self.failed += failed
        self._bar.set_description_str(str(self), refresh=False)
        self._bar.update(work(job))

    def skip(self, job: Job) -> None:
        """Count a run that another sweep finished meanwhile; its work is no evidence of the speed here."""
        self.done += 1
        self._bar.total -= work(job)

    def close(self) -> None:
        """Show the last counts."""
        self._bar.close()

    def __str__(self) -> str:
        return f"{self.done}/{self.total} runs" + f", {self.failed} failed" * bool(self.failed)


def duration(seconds: float) -> str:
    """Format a duration for humans: `7 s`, `3 min`, `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class _Lines:
    """A stream that gives each state of a bar a line of its own, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        if text.strip():
            self._stream.write(text.strip() + "\n")

    def flush(self) -> None:
        self._stream.flush()


def _layout(stream: TextIO) -> dict:
    """Return the options of tqdm that suit the place where the progress appears."""
    if stream.isatty() or issubclass(tqdm, tqdm_notebook):
        return {"file": stream, "bar_format": "{desc} {bar} {elapsed}, {remaining} left"}
    return {
        "file": _Lines(stream),
        "bar_format": "{desc}, {elapsed}, {remaining} left",
        "mininterval": LOG_SECONDS,
        "delay": LOG_SECONDS,
    }
