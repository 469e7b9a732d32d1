"""The rate of a sweep of small runs, and the time that each executor adds to a run: `swiftrl bench`."""

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
"""A small run, of the kind that sweeps have by the thousand: 40,000 updates."""


class _Clock:
    """Records when the first and the last outcome came back."""

    def __init__(self) -> None:
        self.first = self.last = 0.0

    def note(self, _: Outcome) -> None:
        self.last = time.perf_counter()
        self.first = self.first or self.last


def rows(runs: int = RUNS, workers: int = WORKERS) -> list[dict]:
    """Execute the same small runs with each executor; rows are kept on disk as in any sweep.

    Parameters
    ----------
    runs : int
        At least 2.
    workers : int
        Number of workers, for executors that have several.

    Returns
    -------
    list of dict
        `executor`, `workers`, `runs`, `runs_per_s` (including the executor's start), `started_s` (until the first run
        came back) and `overhead_ms`: the workers' time for a run from then on, minus that of the serial executor.
    """
    asked = combine(SMALL | {"seed": list(range(runs))})
    _run(asked[:1], "serial", 1)  # compiles the engine of backend cpu
    measured = [_run(asked, name, 1 if name == "serial" else workers) for name in _executors()]
    serial = measured[0]["worker_ms"]
    return [row | {"overhead_ms": row.pop("worker_ms") - serial} for row in measured]


def table(measured: list[dict]) -> str:
    """Return the rows as text."""
    head = f"{'executor':10} {'workers':>7} {'runs/s':>8} {'start s':>8} {'overhead ms/run':>19}"
    form = "{executor:10} {workers:7} {runs_per_s:8.1f} {started_s:8.2f} {overhead_ms:19.2f}"
    return "\n".join([head, *(form.format(**row) for row in measured)])


def _executors() -> tuple[str, ...]:
    return tuple(
        name
        for name in executors.EXECUTORS
        if name != "dask" or importlib.util.find_spec("distributed") is not None
    )


def _run(runs: list[Run], name: str, workers: int) -> dict:
    clock = _Clock()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        plan = make_plan(runs, store)
        executor = executors.make(name, workers=workers)
        start = time.perf_counter()
        summary = execute(plan, store, executor, show_progress=False, on_outcome=clock.note)
    require_all(summary, store)
    return {
        "executor": name,
        "workers": workers,
        "runs": len(runs),
        "runs_per_s": len(runs) / (clock.last - start),
        "started_s": clock.first - start,
        "worker_ms": 1e3 * workers * (clock.last - clock.first) / max(len(runs) - 1, 1),
    }
