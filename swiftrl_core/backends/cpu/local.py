"""The `cpu-local` backend, a baseline: a table per thread, averaged every tau episodes, as the paper uses a CPU.

A core is a thread that makes one update after the other, with nothing clever about it (`scalar.c`). Its tables are
those of `cpu` with as many cores, bit for bit; only the time differs.
"""

from swiftrl_core.backend import Problem
from swiftrl_core.backends.cpu.backend import CpuBackend


def available() -> str | None:
    """Return why this backend cannot be used here, or None: it always can."""
    return None


def open_backend(problem: Problem, cores: int) -> "LocalTablesBackend":
    """Return a backend of `cores` threads, each with a chunk and a table."""
    return LocalTablesBackend(problem, cores)


class LocalTablesBackend(CpuBackend):
    """Trains a table on every thread; times are measured."""

    name = "cpu-local"

    def __init__(self, problem: Problem, cores: int) -> None:
        super().__init__(problem, cores, threads=cores, by_lanes=False)
