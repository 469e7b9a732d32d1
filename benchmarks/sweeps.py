"""Throughput of small runs in a sweep, and the overhead of each executor; part of `swiftrl bench`."""

import importlib.util
import tempfile
import time

from swiftrl_core.sweeps import executors
from swiftrl_core.sweeps.executors import Outcome
from swiftrl_core.sweeps.grid import combine
from swiftrl_core.sweeps.plan import execute, make_plan, require_all
from swiftrl_core.sweeps.run import Run
from swiftrl_core.sweeps.store import Store

RUNS = 500
WORKERS = 2
SMALL = {
    "transitions": 2_000,
    "cores": 8,
    "episodes": 20,
    "tau": 10,
    "backend": "cpu",
    "backend_options": {"threads": 1},
    "monte_carlo_episodes": 0,
}
"""A small run, of which a sweep may have thousands: 40,000 updates."""


class _Clock:
    """Notes when the first and the last outcome came back."""

    def __init__(self) -> None:
        self.first = self.last = 0.0

    def note(self, _: Outcome) -> None:
        self.last = time.perf_counter()
        self.first = self.first or self.last


def rows(runs: int = RUNS, workers: int = WORKERS) -> list[dict]:
    """Run the same small runs with each executor, rows kept on disk as in any sweep.

    Parameters
    ----------
    runs : int
        At least 2.
    workers : int
        Of the executors that have several.

    Returns
    -------
    list of dict
        `executor`, `workers`, `runs`, `runs_per_s` (the executor's start included), `started_s` (until the first
        outcome) and `overhead_ms`: workers' time per run from then on, less that of the serial executor.
    """
    jobs = combine(SMALL | {"seed": list(range(runs))})
    _run(jobs[:1], "serial", 1)  # compiles the engine
    measured = [_run(jobs, name, 1 if name == "serial" else workers) for name in _available()]
    serial = measured[0]["worker_ms"]
    return [row | {"overhead_ms": row.pop("worker_ms") - serial} for row in measured]


def table(measured: list[dict]) -> str:
    """Return the rows as text."""
    head = f"{'executor':10} {'workers':>7} {'runs/s':>8} {'start s':>8} {'overhead ms a run':>18}"
    form = "{executor:10} {workers:7} {runs_per_s:8.1f} {started_s:8.2f} {overhead_ms:18.2f}"
    return "\n".join([head, *(form.format(**row) for row in measured)])


def _available() -> tuple[str, ...]:
    return tuple(
        name
        for name in executors.EXECUTORS
        if name != "dask" or importlib.util.find_spec("distributed") is not None
    )


def _run(jobs: list[Run], name: str, workers: int) -> dict:
    clock = _Clock()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        plan = make_plan(jobs, store)
        executor = executors.make(name, workers=workers)
        start = time.perf_counter()
        summary = execute(plan, store, executor, show_progress=False, on_outcome=clock.note)
    require_all(summary, store)
    return {
        "executor": name,
        "workers": workers,
        "runs": len(jobs),
        "runs_per_s": len(jobs) / (clock.last - start),
        "started_s": clock.first - start,
        "worker_ms": 1e3 * workers * (clock.last - clock.first) / max(len(jobs) - 1, 1),
    }
