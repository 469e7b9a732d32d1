"""How long a sweep will take: small runs of each kind are timed here and now, and scaled to the sizes asked for.

A measured extrapolation, no promise. It takes seconds where the sweep takes hours, because each part of a run is timed
by itself and grows in proportion to something that is known beforehand:

- *A data set* is collected once at its own size, up to `MOST_ROWS`, beyond that in proportion to its rows; so is what a
  run does with it besides learning: packing it, counting it, evaluating the table.
- *The engine* takes the same time for every update of a learner as long as chunks are as long as the run's, for on that
  depends which caches hold them (random access to 5 million records takes many times that to a few), and with early
  exit also after how many passes a table rests. So a probe keeps the chunk and takes fewer cores, enough to fill every
  thread's vectors, and a few passes; with early exit it makes `EARLY_ROUNDS` rounds of the run's own tau.
- *A synchronisation* depends on cores and table, not on data: rounds of all cores on a few rows.
- *The simulator* takes the same time for every instruction of a kernel, and a kernel about the same number of them for
  every update once its table is no longer zeros. So a few passes of a few DPUs, interpreted, tell how long all would
  take interpreted. A program that gets to `dpusim.machine.translation_seconds` of that is translated in the run, so it
  counts as interpreted up to there, as much again for translating it, and the rest as translated. How much faster that
  is, is timed on one kernel, the one with the most to do, of those that share algorithm, number format, bootstrap and
  random sampling or not; on FrozenLake and Taxi such kernels were seen to gain alike to about a third.
- *A measurement* of another kind is done with the least work and with enough more to tell; the difference grows with
  its updates.

Not counted: compiling what the cache does not have yet (seconds for each learner, once a machine); the waiting of
workers for each other, that they share caches and memory, and that a worker has fewer threads than the estimate; other
load and the processor's clock, which may change within the hours of a run; notebooks and figures.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from swiftrl_core.backend import Problem, open_backend
from swiftrl_core.backends.cpu.backend import available_threads
from swiftrl_core.backends.pim.binding import hardware_reason
from swiftrl_core.backends.pim.kernels import compile_learner
from swiftrl_core.data import Dataset
from swiftrl_core.dpusim.machine import is_translated, translate, translation_seconds
from swiftrl_core.dpusim.program.elf import load_program
from swiftrl_core.learner import Sampling, Update
from swiftrl_core.learner.chunks import split
from swiftrl_core.sweeps.job import Job, missing
from swiftrl_core.sweeps.probe import Probe
from swiftrl_core.sweeps.run import SIMULATED_DPUS, Run, load_dataset
from swiftrl_core.training.loop import Schedule, train

MOST_ROWS = 5_000_000
LEAST_ROWS = 4_000
PROBE_UPDATES = 4_000_000
"""Of the engine: ten milliseconds and more, so that a busy machine's short interruptions do not decide."""
CORES_A_THREAD = 32
"""What one thread of the engine learns at a time, or a little more (`team_cores` of cpu/engine.c)."""
EARLY_ROUNDS = 4
"""The first starts from zeros and is no measure of the others."""
ROUNDS = 4
ROUND_ROWS = 4
"""Rows of each core where only the synchronisation counts."""
DPUS = 8
DPU_ROWS = 2_000
DPU_UPDATES = 200_000
"""In a launch of the simulator, where the run has that many."""
BRIEF_S = 0.25
"""A measurement that takes less is repeated, and the least time counts: what disturbs makes it longer."""
LARGER = (4, 64)
"""How much larger than the smallest the second run of a measurement is: the first that takes `CLEAR_S` longer."""
CLEAR_S = 0.1


def estimate(runs: Iterable[Job], workers: int = 1) -> tuple[float, list[str]]:
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
    simulations = _Simulations()
    seconds = sum(
        _of_a_size(some, simulations)
        for some in _grouped((run for run in here if isinstance(run, Run)), _size)
    )
    seconds += sum(
        _of_a_kind(some, simulations)
        for some in _grouped((run for run in here if isinstance(run, Probe)), _kind)
    )
    return (seconds + simulations.seconds()) / workers, sorted(untimed)


def _grouped(runs: Iterable[Any], key: Callable[[Any], Any]) -> list[list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# --- the simulator ----------------------------------------------------------------------------------------


@dataclass
class _Simulation:
    """What runs ask of one DPU kernel: its ELF, updates to simulate, and how to time one (seconds)."""

    kernel: Path
    family: tuple
    an_update: Callable[[], float]
    updates: int = 0


class _Simulations:
    """All kernels that the simulator runs, each with the updates of all runs of the sweep."""

    def __init__(self) -> None:
        self._of: dict[Path, _Simulation] = {}

    def add(self, kernel: Path, family: tuple, updates: int, an_update: Callable[[], float]) -> None:
        self._of.setdefault(kernel, _Simulation(kernel, family, an_update)).updates += updates

    def seconds(self) -> float:
        return sum(map(_of_a_family, _grouped(self._of.values(), lambda one: one.family)))


def _of_a_family(simulations: list[_Simulation]) -> float:
    """Return the seconds of kernels that gain alike by translation."""
    seconds, long = 0.0, []
    for one in simulations:
        program, an_update = load_program(one.kernel), one.an_update()
        total, pays = an_update * one.updates, translation_seconds(program)
        if is_translated(program) or total <= pays:
            seconds += total
        else:
            long.append((total, pays, an_update, one))
    if long:
        _, _, interpreted, most = max(long, key=lambda each: each[0])
        translate(load_program(most.kernel))
        share = most.an_update() / interpreted
        seconds += sum(2 * pays + share * (total - pays) for total, pays, _, _ in long)
    return seconds


# --- cells ------------------------------------------------------------------------------------------------


def _size(cell: Run) -> tuple:
    options = str(cell.environment_options)
    return cell.environment, options, cell.data, cell.transitions, cell.monte_carlo_episodes


def _of_a_size(cells: list[Run], simulations: _Simulations) -> float:
    """Return the seconds of cells whose data sets are alike, but for what the simulator takes."""
    most = max(cells, key=lambda cell: cell.cores)
    rows = most.transitions and min(most.transitions, max(MOST_ROWS, most.cores))
    one = replace(
        most, transitions=rows, backend="cpu", backend_options={}, hardware=False, episodes=1, tau=1
    )
    replace(one, transitions=min(LEAST_ROWS, rows or LEAST_ROWS), cores=1).run()  # compiles
    load_dataset.cache_clear()
    collecting = _seconds(one.dataset)
    first = _seconds(one.run)
    row: dict[str, Any] = {}
    again = _seconds(lambda: row.update(one.run()))
    evaluating = again - row["wall_seconds"]
    probes, data_sets = _Probes(one.dataset()), len({cell.data_key for cell in cells})
    fixed = (collecting + max(first - again, 0.0)) * data_sets + sum(map(probes.beginning, cells))
    larger = (most.transitions or len(one.dataset())) / len(one.dataset())
    for cell in cells:
        if simulated := _simulated(cell):
            probes.simulate(cell, simulated, simulations)
    return larger * (fixed + evaluating * len(cells)) + sum(map(probes.learning, cells))


def _simulated(cell: Run) -> int:
    """Return how many DPUs the simulator runs for a cell."""
    if cell.backend != "pim" or hardware_reason() is None:
        return 0
    asked = cell.backend_options.get(SIMULATED_DPUS, "all")
    return cell.cores if asked == "all" else asked


class _Probes:
    """Times small trainings on a data set, one of each kind."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._known: dict[tuple, Any] = {}

    def beginning(self, cell: Run) -> float:
        """Return the seconds of a training at the data's own size but for its updates and rounds after the first."""
        cell = _on_the_host(cell)
        kind = "begin", cell.backend, cell.aggregation, cell.update, cell.bootstrap, cell.sampling
        return self._once(kind, lambda: self._begin(cell))

    def learning(self, cell: Run) -> float:
        """Return the seconds of a cell's updates and rounds on the host."""
        if cell.backend == "exact" or _simulated(cell) == cell.cores:
            return 0.0
        cell = _on_the_host(cell)
        learner = str(cell.learner().switches), cell.cores, cell.backend, str(cell.backend_options)
        tau = cell.tau if cell.backend_options.get("early_exit") else None
        an_update = self._once(("update", *learner, tau), lambda: self._update(cell))
        rounds = len(cell.schedule().rounds) - 1
        if not rounds:
            return an_update * self._updates(cell)
        kind = "round", cell.backend, cell.cores, cell.aggregation, cell.update, cell.number_format
        a_round = self._once(kind, lambda: self._round(cell, an_update))
        return an_update * self._updates(cell) + a_round * rounds

    def simulate(self, cell: Run, asked: int, simulations: _Simulations) -> None:
        """Add a cell's simulated updates."""
        kind = "kernel", str(cell.learner().switches), str(cell.backend_options)
        problem = Problem(cell.learner(), self._dataset.n_states, self._dataset.n_actions)
        options = {name: value for name, value in cell.backend_options.items() if name != SIMULATED_DPUS}
        building = {name: options[name] for name in ("tasklets", "kernel") if name in options}
        kernel = self._once(kind, lambda: compile_learner(problem, **building, for_hardware=False))
        dpus, chunk = min(asked, DPUS), min(DPU_ROWS, len(self._dataset) // cell.cores)
        data = self._dataset.rows(0, dpus * chunk)
        family = cell.algorithm, cell.sampling == Sampling.RAN, cell.number_format, cell.bootstrap
        updates = self._updates(cell) * asked // cell.cores
        simulations.add(
            kernel, family, updates, lambda: _simulated_update(problem, data, dpus, cell.tau, options)
        )

    def _updates(self, cell: Run) -> int:
        return (cell.transitions or len(self._dataset)) * cell.episodes

    def _once(self, kind: tuple, measure: Callable[[], Any]) -> Any:
        if kind not in self._known:
            self._known[kind] = measure()
        return self._known[kind]

    def _begin(self, cell: Run) -> float:
        def once() -> float:
            start = time.perf_counter()
            schedule, options = Schedule(cell.cores, 1, 1), cell.backend_options
            result = train(self._dataset, cell.learner(), schedule, cell.backend, **options)
            learning = 0.0 if cell.backend == "exact" else result.breakdown.pim_kernel
            return time.perf_counter() - start - learning

        return _least(once)

    def _update(self, cell: Run) -> float:
        """Return the seconds of a nominal update, of cores with the cell's own chunks."""
        cores = _fewer(cell)
        passes = -(-PROBE_UPDATES * cell.cores // (len(self._dataset) * cores))
        if cell.backend_options.get("early_exit"):
            episodes, tau = min(cell.episodes, EARLY_ROUNDS * cell.tau), cell.tau
            cores = min(cell.cores, cores * -(-passes // episodes))
        else:
            episodes = tau = min(cell.episodes, passes)
        data = self._dataset.rows(0, len(self._dataset) * cores // cell.cores)
        schedule = Schedule(cores, episodes, tau)

        def once() -> float:
            result = train(data, cell.learner(), schedule, cell.backend, **cell.backend_options)
            return result.breakdown.pim_kernel / result.updates

        return _least(once)

    def _round(self, cell: Run, an_update: float) -> float:
        """Return the seconds of a synchronisation of all the cell's cores."""
        data = self._dataset.rows(0, min(len(self._dataset), ROUND_ROWS * cell.cores))
        ends: list[float] = []
        schedule = Schedule(cell.cores, 1 + ROUNDS, 1)
        train(
            data, cell.learner(), schedule, cell.backend, on_round=lambda *_: ends.append(time.perf_counter())
        )
        return max(min(end - start for start, end in pairwise(ends)) - an_update * len(data), 0.0)


def _least(once: Callable[[], float]) -> float:
    """Return what `once` does, or the least of two where that is quick."""
    start = time.perf_counter()
    value = once()
    return value if time.perf_counter() - start > BRIEF_S else min(value, once())


def _on_the_host(cell: Run) -> Run:
    """Return the cell without the simulator: the engine trains all cores beside simulated DPUs."""
    return replace(cell, backend="cpu", backend_options={}, hardware=False) if _simulated(cell) else cell


def _fewer(cell: Run) -> int:
    """Return how many of the cell's cores stand for all; on other devices than the host's threads, all."""
    return min(cell.cores, CORES_A_THREAD * available_threads()) if cell.backend == "cpu" else cell.cores


def _simulated_update(problem: Problem, data: Dataset, dpus: int, tau: int, options: dict[str, Any]) -> float:
    """Return the seconds of simulating an update in launches of `tau` passes, once the table is no longer zeros."""
    passes = min(tau, -(-DPU_UPDATES // len(data)))
    backend = open_backend("pim", problem, dpus, **options)
    try:
        backend.load(split(data, problem.learner, dpus))
        table = np.zeros(problem.entries, problem.learner.dtype)
        targets = [table] if problem.learner.update == Update.VR else []
        table = backend.run_round(table, 1, *targets).tables[0]
        launch = partial(backend.run_round, table, passes, *([table] if targets else []))
        return min(_seconds(launch), _seconds(launch)) / (passes * len(data))
    finally:
        backend.close()


# --- measurements -----------------------------------------------------------------------------------------


def _kind(measurement: Probe) -> str:
    """Return what measurements have in common that differ in seed and amount alone."""
    return str(measurement.small(1).config | {"seed": None})


def _of_a_kind(measurements: list[Probe], simulations: _Simulations) -> float:
    """Time two small measurements: what the larger takes longer, its additional updates take."""
    one = max(measurements, key=lambda each: each.updates)
    smallest = one.small(1)
    least = _least(lambda: _seconds(smallest.run))  # compiles, too
    updates = sum(each.updates - smallest.updates for each in measurements)
    if not updates:
        return least * len(measurements)
    kernel = one.kernel()
    if kernel is None:
        return least * len(measurements) + _additional_update(one, least) * updates
    family = one.group[0], str(one.config.get("number_format"))
    simulations.add(kernel, family, updates, lambda: _additional_update(one, least))
    return least * len(measurements)


def _additional_update(measurement: Probe, least: float) -> float:
    """Return the seconds that each update more takes than the smallest measurement's, which takes `least`."""
    for times in LARGER:
        larger = measurement.small(times)
        longer = _least(lambda run=larger.run: _seconds(run))
        if longer - least > CLEAR_S or larger.updates >= measurement.updates:
            break
    return max(longer - least, 0.0) / (larger.updates - measurement.small(1).updates)
