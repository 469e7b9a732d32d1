"""The executor for measured times and for a debugger: one run after the other, in this process."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from swiftrl_core.sweeps.executors.executor import Outcome, attempt, check_host
from swiftrl_core.sweeps.job import Job


class Serial:
    """Runs one job after the other in this process: for measured times, and for a debugger."""

    name = "serial"
    workers = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def check(self, jobs: Sequence[Job]) -> None:
        """See `Executor`."""
        check_host(jobs)

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """See `Executor`."""
        return map(attempt, jobs)
