"""Executors, which carry out a plan: this process, several processes on this machine, or a Dask cluster."""

from swiftrl_core.sweeps.executors.dask import Dask
from swiftrl_core.sweeps.executors.executor import Executor, Outcome
from swiftrl_core.sweeps.executors.processes import Processes
from swiftrl_core.sweeps.executors.serial import Serial
from swiftrl_core.util.errors import SwiftRLError

__all__ = ["EXECUTORS", "Dask", "Executor", "Outcome", "Processes", "Serial", "make"]

EXECUTORS = ("serial", "processes", "dask")


def make(name: str, *, workers: int | None = None, scheduler: str | None = None) -> Executor:
    """Return an executor by name.

    Raises
    ------
    SwiftRLError
        If there is no such executor, or an argument does not apply to it.
    """
    if workers is not None and workers < 1:
        raise SwiftRLError(f"--workers is {workers}: give at least 1")
    if scheduler is not None and name != "dask":
        raise SwiftRLError(
            f"--scheduler does not apply to --executor {name}: drop it, or use --executor dask"
        )
    if name == "serial":
        if workers not in (None, 1):
            raise SwiftRLError(
                f"--workers {workers} does not apply to --executor serial: use --executor processes"
            )
        return Serial()
    if name == "processes":
        return Processes(workers)
    if name == "dask":
        return Dask(scheduler, workers)
    raise SwiftRLError(f"executor is {name!r}: choose one of {', '.join(EXECUTORS)}")
