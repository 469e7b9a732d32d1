"""How many small cells a second a sweep gets through here, and what an engine adds to each; part of `swiftrl bench`."""

import importlib.util
import tempfile
import time

from swiftrl_core.sweeps import executors
from swiftrl_core.sweeps.grid import combine
from swiftrl_core.sweeps.plan import execute, make_plan, require_all
from swiftrl_core.sweeps.progress import Tally
from swiftrl_core.sweeps.run import Run
from swiftrl_core.sweeps.store import Store

CELLS = 500
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
"""A cell of the kind that thousands are run of: 40,000 updates."""


class _Clock:
    """A reporter that notes when the first and the last cell came back."""

    def __init__(self) -> None:
        self.first = self.last = 0.0

    def show(self, tally: Tally, cell: Run | None = None, *, failed: bool = False) -> None:
        """See `progress.Reporter`."""
        if cell is not None:
            self.last = time.perf_counter()
            self.first = self.first or self.last

    def close(self, tally: Tally) -> None:
        """See `progress.Reporter`."""


def rows(cells: int = CELLS, workers: int = WORKERS) -> list[dict]:
    """Run the same small cells with each engine, rows kept on disk as in any sweep.

    Parameters
    ----------
    cells : int
        At least 2.
    workers : int
        Of the engines that have several.

    Returns
    -------
    list of dict
        `engine`, `workers`, `cells`, `cells_per_s` (the engine's start included), `started_s` (until the first cell
        came back) and `overhead_ms`: workers' time a cell from then on, less the serial engine's.
    """
    asked = combine(SMALL | {"seed": list(range(cells))})
    _run(asked[:1], "serial", 1)  # compiles the engine
    measured = [_run(asked, name, 1 if name == "serial" else workers) for name in _engines()]
    serial = measured[0]["worker_ms"]
    return [row | {"overhead_ms": row.pop("worker_ms") - serial} for row in measured]


def table(measured: list[dict]) -> str:
    """Return the rows as text."""
    head = f"{'engine':10} {'workers':>7} {'cells/s':>8} {'start s':>8} {'overhead ms a cell':>19}"
    form = "{engine:10} {workers:7} {cells_per_s:8.1f} {started_s:8.2f} {overhead_ms:19.2f}"
    return "\n".join([head, *(form.format(**row) for row in measured)])


def _engines() -> tuple[str, ...]:
    return tuple(
        name
        for name in executors.EXECUTORS
        if name != "dask" or importlib.util.find_spec("distributed") is not None
    )


def _run(cells: list[Run], name: str, workers: int) -> dict:
    clock = _Clock()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        plan = make_plan(cells, store)
        start = time.perf_counter()
        summary = execute(plan, store, executors.make(name, workers=workers), [clock])
    require_all(summary, store)
    return {
        "engine": name,
        "workers": workers,
        "cells": len(cells),
        "cells_per_s": len(cells) / (clock.last - start),
        "started_s": clock.first - start,
        "worker_ms": 1e3 * workers * (clock.last - clock.first) / max(len(cells) - 1, 1),
    }
