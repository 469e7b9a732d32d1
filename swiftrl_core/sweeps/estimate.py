"""An estimate of how long a sweep takes, extrapolated from its finished runs or from small ones here.

Runs are grouped by environment, backend and kind; time is taken to grow with a run's updates and a constant. The rate
of a group is that of its finished rows or, without any, of runs at equal distances of its work, each repeated ever
larger until the time of more updates is clear. Expect a factor of two, more where the runs of a group differ much. Not
counted: compilation, other load, that of workers on each other, notebooks and figures.
"""

import time
from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from swiftrl_core.sweeps.job import Job, missing
from swiftrl_core.sweeps.plan import Plan
from swiftrl_core.sweeps.progress import duration, work
from swiftrl_core.sweeps.row import forget_data
from swiftrl_core.sweeps.store import Store

PILOTS = 3
CLEAR_S = 0.25
TRANSLATED_S = 2.5  # the simulator translates a kernel after some seconds and is then several times as fast


@dataclass(frozen=True)
class Estimate:
    """Seconds with a number of workers, the runs they come from, and the backends without which they are counted."""

    seconds: float
    workers: int
    finished: int
    small: int
    untimed: tuple[str, ...]

    def __str__(self) -> str:
        text = f"about {duration(self.seconds)} with {self.workers} worker{'s' * (self.workers > 1)}, "
        text += f"extrapolated from {self.finished} finished and {self.small} small runs"
        return text + f", without {' and '.join(self.untimed)}, which cannot run here" * bool(self.untimed)


def estimate(plan: Plan, store: Store, workers: int = 1) -> Estimate:
    """Return about how long the rest of a plan takes."""
    untimed = missing(plan.pending)
    finished = _grouped(job for job in plan.jobs if job.config_hash in plan.done)
    seconds, used, small, data_sets = 0.0, 0, 0, set()
    for key, jobs in _grouped(job for job in plan.pending if job.group[1] not in untimed).items():
        more, making = _overheads(jobs[0].small(1))
        done, new = finished.get(key, []), {job.data_key for job in jobs} - data_sets
        pilots = [] if done else _spread([job for job in jobs if job.seed == jobs[0].seed])
        rates = [_seconds(job) / work(job) for job in pilots]
        if took := [store.row(job.config_hash)["wall_seconds"] + more for job in done]:
            rates = [sum(took) / sum(map(work, done))]
        seconds += making * len(new) + sum(rates) / len(rates) * sum(map(work, jobs))
        used, small, data_sets = used + len(done), small + len(pilots), data_sets | new
    return Estimate(seconds / workers, workers, used, small, tuple(sorted(untimed)))


def _grouped(jobs: Iterable[Job]) -> dict[tuple, list[Job]]:
    groups: dict[tuple, list[Job]] = {}
    for job in jobs:
        groups.setdefault((*job.group, job.kind_of_run), []).append(job)
    return groups


def _spread(jobs: list[Job]) -> list[Job]:
    """Return jobs at equal distances of the work that all make in order; a large one perhaps several times."""
    made = list(accumulate(map(work, jobs)))
    count = min(PILOTS, len(jobs))
    return [jobs[bisect(made, (number + 0.5) / count * made[-1])] for number in range(count)]


def _overheads(small: Job) -> tuple[float, float]:
    """Return the seconds of a run that are not in its `wall_seconds`, and those for making its data set."""
    small.run()  # compiles
    forget_data()
    (first, _), (again, row) = _timed(small), _timed(small)
    return max(again - row["wall_seconds"], 0.0), max(first - again, 0.0)


def _seconds(job: Job) -> float:
    """Return about how long a job takes whose data set is there."""
    done, times, longer, updates = job.small(1), 1, 0.0, 1
    took, clear = _least(done), TRANSLATED_S if job.device == "pim" else CLEAR_S
    while longer < clear and (larger := job.small(times := 4 * times)) != done:
        longer, updates = _least(larger) - took, max(larger.updates - done.updates, 1)
        done, took = larger, took + longer
    return took + max(longer, 0.0) / updates * (job.updates - done.updates)


def _least(job: Job) -> float:
    """Return the seconds of the quicker of two runs: the first may make the data set, or wait for a translation."""
    return min(_timed(job)[0], _timed(job)[0])


def _timed(job: Job) -> tuple[float, dict]:
    start = time.perf_counter()
    row = job.run()
    return time.perf_counter() - start, row
