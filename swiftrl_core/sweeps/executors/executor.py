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
    """The outcome of a run: a row, or an error in one line with its details.

    Attributes
    ----------
    job : Job
    row : dict or None
        With the job's `columns`.
    error : str or None
    details : str
        The traceback.
    """

    job: Job
    row: dict[str, Any] | None = None
    error: str | None = None
    details: str = ""


class Executor(Protocol):
    """Carries out a plan. Used as a context manager: check, then run."""

    name: str
    workers: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self, jobs: Sequence[Job]) -> None:
        """Raise `SwiftRLError` if a job needs something that the executor does not have."""

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Run jobs, taken from the iterable when a worker is free; yield outcomes as they come."""


def attempt(job: Job, workers: int = 1) -> Outcome:
    """Run a job and return its outcome; its own failure is also an outcome."""
    try:
        return Outcome(job, job.run(workers))
    except Exception as error:
        line = " ".join(str(error).split())
        message = line if isinstance(error, SwiftRLError) else f"{type(error).__name__}: {line}"
        return Outcome(job, None, message, traceback.format_exc())


def check_host(jobs: Sequence[Job]) -> None:
    """Raise `SwiftRLError` if this machine lacks something that a job needs."""
    for reason in missing(jobs).values():
        raise SwiftRLError(reason)


class Turns:
    """Hands out jobs in order; those whose device is taken wait for it."""

    def __init__(self, jobs: Iterable[Job], device: Callable[[Job], str | None]) -> None:
        self._jobs, self._device = iter(jobs), device
        self._waiting: defaultdict[str | None, deque[Job]] = defaultdict(deque)

    def again(self, job: Job) -> None:
        """Queue a job again, before the others of its device."""
        self._waiting[self._device(job)].appendleft(job)

    def next(self, taken: Collection[str | None]) -> Job | None:
        """Return the next job whose device is not taken, or None."""
        for device, jobs in self._waiting.items():
            if jobs and device not in taken:
                return jobs.popleft()
        for job in self._jobs:
            device = self._device(job)
            if device not in taken:
                return job
            self._waiting[device].append(job)
        return None
