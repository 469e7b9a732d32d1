"""How long a sweep will take: a small run of each kind is done and timed.

A cell's time has three parts that are found apart: making its data set, once for all cells that share it; what it takes
besides training, which grows with the data; and training, by rounds and updates.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from swiftrl_core.cells import Cell
from swiftrl_core.measurements import Measurement
from swiftrl_core.runs import Run, missing

PROBE_SECONDS = 0.1
"""How much longer than the smallest a small cell must train, for its time to say something about a large one."""
PROBE_ROWS = 256
"""Transitions of such a cell for each core."""
LEAST_ROWS = 4_000
FEWEST_EPISODES = 2
REPETITIONS = 2
"""The least time counts: what disturbs a measurement makes it longer."""
LARGER = 4
"""How much larger than the smallest the second run of a measurement is."""


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
    cells = [run for run in here if isinstance(run, Cell)]
    seconds = _training_seconds(cells) + _other_seconds(cells)
    seconds += _measuring_seconds(run for run in here if isinstance(run, Measurement))
    return seconds / workers, sorted(untimed)


def _training_seconds(cells: list[Cell]) -> float:
    """Return the seconds of training; cells of a kind cost the same for a round and for an update."""
    costs: dict[tuple, _Cost] = {}
    seconds = 0.0
    for cell in cells:
        kind = cell.group, str(cell.backend_options), str(cell.learner().switches), cell.cores
        if kind not in costs:
            costs[kind] = _probe(cell)
        seconds += costs[kind].of(cell)
    return seconds


@dataclass(frozen=True)
class _Cost:
    """What training takes, in seconds: for a round, for an update."""

    a_round: float
    an_update: float

    def of(self, cell: Cell) -> float:
        return self.a_round * len(cell.schedule().rounds) + self.an_update * cell.updates


def _probe(cell: Cell) -> _Cost:
    """Time a cell of the same kind, made small: with ever more episodes, until they show beside what it takes to begin.

    The difference is long enough that a busy machine does not hide it. Then a run in two rounds, for what one takes.
    """
    rows = max(PROBE_ROWS * cell.cores, LEAST_ROWS)
    rows, episodes = min(rows, cell.transitions or rows), FEWEST_EPISODES
    _train_small(cell, rows, episodes, episodes)  # compiles, and fills caches
    begin = whole = _train_small(cell, rows, episodes, episodes)
    while whole - begin < PROBE_SECONDS and episodes < cell.episodes:
        episodes *= 4
        whole = _train_small(cell, rows, episodes, episodes)
    a_round = max(_train_small(cell, rows, episodes, episodes // 2) - whole, 0.0)
    more = max(episodes - FEWEST_EPISODES, 1)
    return _Cost(a_round, max(whole - begin, 0.0) / (rows * more))


def _train_small(cell: Cell, rows: int, episodes: int, tau: int) -> float:
    small = replace(cell, transitions=rows, episodes=episodes, tau=tau, monte_carlo_episodes=0)
    return min(small.run()["wall_seconds"] for _ in range(REPETITIONS))


def _other_seconds(cells: list[Cell]) -> float:
    """Return the seconds of making data sets and of all that is not training, timed at the data's own size."""
    seconds = 0.0
    sizes: dict[tuple, list[Cell]] = {}
    for cell in cells:
        sizes.setdefault((cell.environment, cell.transitions, cell.monte_carlo_episodes), []).append(cell)
    for some in sizes.values():
        one = replace(some[0], backend="cpu", backend_options={}, hardware=False, cores=1, episodes=1, tau=1)
        _train_small(one, LEAST_ROWS, 2, 2)  # compiles
        first, again = _seconds(one), min(_seconds(one) for _ in range(REPETITIONS))
        data_sets = len({cell.data_key for cell in some})
        seconds += data_sets * max(first - again, 0.0) + len(some) * again
    return seconds


def _seconds(run: Run) -> float:
    start = time.perf_counter()
    run.run()
    return time.perf_counter() - start


def _measuring_seconds(measurements: Iterable[Measurement]) -> float:
    """Return the seconds of measurements; those that differ in seed and amount alone are a kind."""
    kinds: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        settings = measurement.small(1).config | {"seed": None}
        kinds.setdefault(str(settings), []).append(measurement)
    return sum(_of_a_kind(some) for some in kinds.values())


def _of_a_kind(measurements: list[Measurement]) -> float:
    """Time two small measurements: what the larger takes longer, its additional updates take."""
    smallest, larger = (measurements[0].small(times) for times in (1, LARGER))
    smallest.run()  # compiles, and fills caches
    least = min(_seconds(smallest) for _ in range(REPETITIONS))
    more = larger.updates - smallest.updates
    if not more:
        return least * len(measurements)
    an_update = max(min(_seconds(larger) for _ in range(REPETITIONS)) - least, 0.0) / more
    return sum(least + an_update * (each.updates - smallest.updates) for each in measurements)
