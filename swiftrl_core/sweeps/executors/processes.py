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

ATTEMPTS = 2
"""How often a run may take its process down before it counts as failed."""


class Processes:
    """Runs cells in worker processes on this machine, each on its own share of the processors.

    A worker that dies takes one cell with it; the cell is tried again in a new worker, `ATTEMPTS` times at most.
    Workers end by themselves when the driver dies.

    Parameters
    ----------
    workers : int, optional
        By default one for each processor this process may use.
    """

    name = "processes"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self._workers = [_Worker(processors, self.workers) for processors in _shares(self.workers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    def check(self, cells: Sequence[Job]) -> None:
        """See `Executor`."""
        check_host(cells)

    def run(self, cells: Iterable[Job]) -> Iterator[Outcome]:
        """See `Executor`."""
        turns, deaths = Turns(cells, taken_alone), Counter()
        self._hand_out(turns)
        while busy := {worker.connection: worker for worker in self._workers if worker.cell}:
            for connection in multiprocessing.connection.wait(list(busy)):
                worker = busy[connection]
                outcome = worker.receive() or self._after_death(worker, turns, deaths)
                self._hand_out(turns)
                if outcome:
                    yield outcome

    def _hand_out(self, turns: "Turns") -> None:
        for worker in self._workers:
            taken = {taken_alone(other.cell) for other in self._workers if other.cell} - {None}
            if worker.cell is None and (cell := turns.next(taken)):
                worker.give(cell)

    def _after_death(self, worker: "_Worker", turns: "Turns", deaths: Counter) -> Outcome | None:
        """Queue a dead worker's cell again; return its failure where it has had its attempts."""
        cell, how = worker.cell, worker.end()
        deaths[cell.config_hash] += 1
        if deaths[cell.config_hash] < ATTEMPTS:
            turns.again(cell)
            return None
        return Outcome(cell, None, f"its process died {ATTEMPTS} times, at last {how}")


class _Worker:
    """A place for a process that runs one cell after the other; the process starts with the first cell."""

    def __init__(self, processors: Sequence[int], workers: int) -> None:
        self._arguments = [workers, *processors]
        self._process: subprocess.Popen | None = None
        self.connection: multiprocessing.connection.Connection | None = None
        self.cell: Job | None = None

    def give(self, cell: Job) -> None:
        """Send a cell to the process, which starts where there is none."""
        if self._process is None:
            self._start()
        self.cell = cell
        with contextlib.suppress(ConnectionError):  # a dead process is noticed when its outcome is asked for
            self.connection.send(cell)

    def receive(self) -> Outcome | None:
        """Return the outcome of the cell, or None if the process died."""
        try:
            outcome = self.connection.recv()
        except (EOFError, ConnectionError):
            return None
        self.cell = None
        return outcome

    def end(self) -> str:
        """End the process, if there is one; return how it ended, where it was dead before."""
        self.cell = None
        if self._process is None:
            return "before it started"
        self.connection.close()
        self._process.kill()
        code = self._process.wait()
        self._process = None
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def _start(self) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        root = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        program = f"from {__name__} import work; work()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, (theirs.fileno(), *self._arguments))],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the driver, which then ends its workers
        )
        theirs.close()  # the process holds the only other end, so its death closes the connection


def work() -> None:
    """Run cells for the driver, until it closes the connection or dies. The body of a worker process."""
    descriptor, workers, *processors = map(int, sys.argv[1:])
    os.sched_setaffinity(0, processors)
    threading.Thread(target=_end_with, args=(descriptor,), daemon=True).start()
    with multiprocessing.connection.Connection(descriptor) as driver:
        while True:
            try:
                cell = driver.recv()
            except (EOFError, ConnectionError):
                return
            driver.send(attempt(cell, workers))


def _end_with(descriptor: int) -> None:
    """End this process, whatever it is doing, once nobody holds the other end of a connection."""
    poll = select.poll()
    poll.register(descriptor, 0)  # hanging up is always reported
    poll.poll()
    os._exit(1)


def _shares(workers: int) -> list[list[int]]:
    """Divide the processors among workers; with more workers than processors, several get the same one."""
    processors = sorted(os.sched_getaffinity(0))
    return [
        processors[number::workers] or [processors[number % len(processors)]] for number in range(workers)
    ]
