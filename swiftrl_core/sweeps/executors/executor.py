"""The protocol of executors, and what they share: one attempt at a run, and whose turn it is.

An executor turns runs into outcomes and touches no file: the sweep that drives it keeps what comes back. So a worker
needs no folder in common with the driver, and the death of either loses only the runs that were under way.
"""

import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from swiftrl_core.sweeps.job import Job, missing
from swiftrl_core.util.errors import SwiftRLError


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: a row, or an error in one line with its details.

    Attributes
    ----------
    cell : Run
    row : dict or None
        With the cell's `columns`.
    error : str or None
    details : str
        The traceback.
    """

    cell: Job
    row: dict[str, Any] | None = None
    error: str | None = None
    details: str = ""


class Executor(Protocol):
    """What runs cells. Used as a context manager: check, then run."""

    name: str
    workers: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self, cells: Sequence[Job]) -> None:
        """Raise `SwiftRLError` where a cell asks for what the engine does not have."""

    def run(self, cells: Iterable[Job]) -> Iterator[Outcome]:
        """Run cells, taken from the iterable as there is room for them; yield outcomes as they come."""


def attempt(cell: Job, workers: int = 1) -> Outcome:
    """Run a cell and return what became of it; a cell's own failure is an outcome, too."""
    try:
        return Outcome(cell, cell.run(workers))
    except Exception as error:
        line = " ".join(str(error).split())
        told = line if isinstance(error, SwiftRLError) else f"{type(error).__name__}: {line}"
        return Outcome(cell, None, told, traceback.format_exc())


def check_host(cells: Sequence[Job]) -> None:
    """Raise where this machine lacks what a cell needs; one cell of each kind is asked."""
    for reason in missing(cells).values():
        raise SwiftRLError(reason)


class Turns:
    """Hands out cells in order, but for those whose device is taken: they wait for their turn."""

    def __init__(self, cells: Iterable[Job], device: Callable[[Job], str | None]) -> None:
        self._cells, self._device = iter(cells), device
        self._waiting: defaultdict[str | None, deque[Job]] = defaultdict(deque)

    def again(self, cell: Job) -> None:
        """Queue a run again, before the others of its device."""
        self._waiting[self._device(cell)].appendleft(cell)

    def next(self, taken: Collection[str | None]) -> Job | None:
        """Return the next run whose device is not taken, or None."""
        for device, cells in self._waiting.items():
            if cells and device not in taken:
                return cells.popleft()
        for cell in self._cells:
            device = self._device(cell)
            if device not in taken:
                return cell
            self._waiting[device].append(cell)
        return None
