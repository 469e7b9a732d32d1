"""The executor for one machine: worker processes, each on its own share of the processors."""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import select
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

from swiftrl_core.sweeps.executors.executor import Outcome, Turns, attempt, check_host
from swiftrl_core.sweeps.job import Job, taken_alone
from swiftrl_core.util.toolchain import available_threads

ATTEMPTS = 2
"""How often a run may take its process down before it counts as failed."""


class Processes:
    """Runs jobs in worker processes on this machine, each on its own share of the processors.

    The job of a worker that dies is tried again in a new worker, `ATTEMPTS` times at most. Workers end by themselves
    when the driver dies.

    Parameters
    ----------
    workers : int, optional
        By default one for each processor this process may use.
    """

    name = "processes"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or available_threads()
        self._workers = [_Worker(processors, self.workers) for processors in _shares(self.workers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    def check(self, jobs: Sequence[Job]) -> None:
        """See `Executor`."""
        check_host(jobs)

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """See `Executor`."""
        turns, deaths = Turns(jobs, taken_alone), Counter()
        self._hand_out(turns)
        while busy := {worker.connection: worker for worker in self._workers if worker.job}:
            for connection in multiprocessing.connection.wait(list(busy)):
                worker = busy[connection]
                outcome = worker.receive() or self._after_death(worker, turns, deaths)
                self._hand_out(turns)
                if outcome:
                    yield outcome

    def _hand_out(self, turns: "Turns") -> None:
        for worker in self._workers:
            taken = {taken_alone(other.job) for other in self._workers if other.job} - {None}
            if worker.job is None and (job := turns.next(taken)):
                worker.give(job)

    def _after_death(self, worker: "_Worker", turns: "Turns", deaths: Counter) -> Outcome | None:
        """Queue a dead worker's job again, or return its failure after the last attempt."""
        job, how = worker.job, worker.end()
        deaths[job.config_hash] += 1
        if deaths[job.config_hash] < ATTEMPTS:
            turns.again(job)
            return None
        return Outcome(job, None, f"its worker process died {ATTEMPTS} times, most recently {how}")


class _Worker:
    """A slot for a process that runs one job after the other; the process starts with the first job."""

    def __init__(self, processors: Sequence[int], workers: int) -> None:
        self._arguments = [workers, *processors]
        self._process: subprocess.Popen | None = None
        self.connection: multiprocessing.connection.Connection | None = None
        self.job: Job | None = None

    def give(self, job: Job) -> None:
        """Send a job to the process; start one if there is none."""
        if self._process is None:
            self._start()
        self.job = job
        with contextlib.suppress(ConnectionError):  # a dead process is noticed by `receive`
            self.connection.send(job)

    def receive(self) -> Outcome | None:
        """Return the outcome of the job, or None if the process died."""
        try:
            outcome = self.connection.recv()
        except (EOFError, ConnectionError):
            return None
        self.job = None
        return outcome

    def end(self) -> str:
        """End the process, if there is one; return how it ended if it was dead before."""
        self.job = None
        if self._process is None:
            return "before it started"
        self.connection.close()
        self._process.kill()
        code = self._process.wait()
        self._process = None
        return f"from signal {-code}" if code < 0 else f"with exit code {code}"

    def _start(self) -> None:
        self.connection, remote = multiprocessing.Pipe()
        root = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        program = f"from {__name__} import work; work()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, (remote.fileno(), *self._arguments))],
            pass_fds=[remote.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the driver, which then ends its workers
        )
        remote.close()  # the process holds the only other end, so its death closes the connection


def work() -> None:
    """Run jobs for the driver until it closes the connection or dies; the body of a worker process."""
    descriptor, workers, *processors = map(int, sys.argv[1:])
    os.sched_setaffinity(0, processors)
    threading.Thread(target=_end_with, args=(descriptor,), daemon=True).start()
    with multiprocessing.connection.Connection(descriptor) as driver:
        while True:
            try:
                job = driver.recv()
            except (EOFError, ConnectionError):
                return
            driver.send(attempt(job, workers))


def _end_with(descriptor: int) -> None:
    """End this process, whatever it is doing, once nobody holds the other end of a connection."""
    poll = select.poll()
    poll.register(descriptor, 0)  # hanging up is always reported
    poll.poll()
    os._exit(1)


def _shares(workers: int) -> list[list[int]]:
    """Partition the processors among workers; with more workers than processors, some share one."""
    processors = sorted(os.sched_getaffinity(0))
    return [
        processors[number::workers] or [processors[number % len(processors)]] for number in range(workers)
    ]
