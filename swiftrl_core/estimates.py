"""How long a sweep will take: a small run of each kind is done and timed."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from swiftrl_core.cells import Cell
from swiftrl_core.measurements import Measurement
from swiftrl_core.runs import Run, missing

COLLECT_SECONDS = 3e-7
"""A transition's share of making a data set; `datasets.collect` was timed."""
PROBE_SECONDS = 0.05
"""How long a small cell must train for its time to say something about a large one."""
PROBE_ROWS = 64
"""Transitions of such a cell for each core."""


def estimate(runs: Iterable[Run], workers: int = 1) -> tuple[float, list[str]]:
    """Return about how many seconds runs will take.

    Returns
    -------
    seconds : float
    untimed : list of str
        Backends that are not on this machine, whose runs are left out of the estimate.
    """
    runs = list(runs)
    untimed = missing(runs)
    here = [run for run in runs if run.group[1] not in untimed]
    seconds = COLLECT_SECONDS * sum({run.data_key: run.rows_to_collect for run in here}.values())
    costs: dict[tuple, _Cost] = {}
    for run in here:
        kind = _kind(run)
        if kind not in costs:
            costs[kind] = _probe_cell(run) if isinstance(run, Cell) else _probe_measurement(run)
        seconds += costs[kind].of(run)
    return seconds / workers, sorted(untimed)


@dataclass(frozen=True)
class _Cost:
    """What a run takes, in seconds: besides training, for a round, for an update."""

    fixed: float
    a_round: float
    an_update: float

    def of(self, run: Run) -> float:
        rounds = len(run.schedule().rounds) if isinstance(run, Cell) else 0
        return self.fixed + self.a_round * rounds + self.an_update * run.updates


def _kind(run: Run) -> tuple:
    """Return what runs that cost the same for a round and an update have in common."""
    if not isinstance(run, Cell):
        small = run.small()
        return (small.config_hash,)
    return run.group, str(run.backend_options), str(run.learner().switches), run.cores


def _probe_cell(cell: Cell) -> _Cost:
    """Time a cell of the same kind, made small: with ever more episodes, until the clock can tell; then by rounds."""
    rows = max(PROBE_ROWS * cell.cores, 4_000)
    rows, episodes = min(rows, cell.transitions or rows), 2
    _run_small(cell, rows, episodes, episodes)  # compiles, and fills caches
    fixed, whole = _run_small(cell, rows, episodes, episodes)
    while whole < PROBE_SECONDS and episodes < cell.episodes:
        episodes *= 4
        fixed, whole = _run_small(cell, rows, episodes, episodes)
    halves = _run_small(cell, rows, episodes, episodes // 2)[1]
    a_round = max(halves - whole, 0.0)
    return _Cost(fixed, a_round, max(whole - a_round, 0.0) / (rows * episodes))


def _run_small(cell: Cell, rows: int, episodes: int, tau: int) -> tuple[float, float]:
    """Return the seconds a small cell took besides training, and for training."""
    start = time.perf_counter()
    row = replace(cell, transitions=rows, episodes=episodes, tau=tau).run()
    return time.perf_counter() - start - row["wall_seconds"], row["wall_seconds"]


def _probe_measurement(measurement: Measurement) -> _Cost:
    """Time a small measurement; a large one takes as much longer as it makes more updates."""
    small = measurement.small()
    small.run()  # compiles, and fills caches
    start = time.perf_counter()
    small.run()
    took = time.perf_counter() - start
    return _Cost(0.0, 0.0, took / small.updates) if small.updates else _Cost(took, 0.0, 0.0)
