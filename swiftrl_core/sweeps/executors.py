"""What runs a sweep's cells: this process, several processes on this machine, or a Dask cluster.

An engine turns cells into outcomes and touches no file: the sweep that drives it keeps what comes back. So a worker
needs no folder in common with the driver, and the death of either loses only the cells that were under way.
"""

import contextlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import select
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from swiftrl_core.sweeps.job import Job, missing, taken_alone
from swiftrl_core.util.errors import SwiftRLError

ATTEMPTS = 2
"""How often a cell may take its process down before it counts as failed."""
CONNECT_SECONDS = 3
"""How long to look for a Dask scheduler and its workers."""
POLL_SECONDS = 0.005
LOOK_SECONDS = 2.0
"""How often to ask a cluster for outcomes, and for the workers it has."""


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: a row, or an error in one line with its details.

    Attributes
    ----------
    cell : Run
    row : dict or None
        With the cell's `columns`.
    error : str or None
    details : str
        The traceback.
    """

    cell: Job
    row: dict[str, Any] | None = None
    error: str | None = None
    details: str = ""


class Executor(Protocol):
    """What runs cells. Used as a context manager: check, then run."""

    name: str
    workers: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self, cells: Sequence[Job]) -> None:
        """Raise `SwiftRLError` where a cell asks for what the engine does not have."""

    def run(self, cells: Iterable[Job]) -> Iterator[Outcome]:
        """Run cells, taken from the iterable as there is room for them; yield outcomes as they come."""


def attempt(cell: Job, workers: int = 1) -> Outcome:
    """Run a cell and return what became of it; a cell's own failure is an outcome, too."""
    try:
        return Outcome(cell, cell.run(workers))
    except Exception as error:
        line = " ".join(str(error).split())
        told = line if isinstance(error, SwiftRLError) else f"{type(error).__name__}: {line}"
        return Outcome(cell, None, told, traceback.format_exc())


class Serial:
    """Runs cells one after the other in this process: for measured times, and for a debugger."""

    name = "serial"
    workers = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def check(self, cells: Sequence[Job]) -> None:
        """See `Engine`."""
        _check_host(cells)

    def run(self, cells: Iterable[Job]) -> Iterator[Outcome]:
        """See `Engine`."""
        return map(attempt, cells)


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
        """See `Engine`."""
        _check_host(cells)

    def run(self, cells: Iterable[Job]) -> Iterator[Outcome]:
        """See `Engine`."""
        turns, deaths = _Turns(cells, taken_alone), Counter()
        self._hand_out(turns)
        while busy := {worker.connection: worker for worker in self._workers if worker.cell}:
            for connection in multiprocessing.connection.wait(list(busy)):
                worker = busy[connection]
                outcome = worker.receive() or self._after_death(worker, turns, deaths)
                self._hand_out(turns)
                if outcome:
                    yield outcome

    def _hand_out(self, turns: "_Turns") -> None:
        for worker in self._workers:
            taken = {taken_alone(other.cell) for other in self._workers if other.cell} - {None}
            if worker.cell is None and (cell := turns.next(taken)):
                worker.give(cell)

    def _after_death(self, worker: "_Worker", turns: "_Turns", deaths: Counter) -> Outcome | None:
        """Queue a dead worker's cell again; return its failure where it has had its attempts."""
        cell, how = worker.cell, worker.end()
        deaths[cell.config_hash] += 1
        if deaths[cell.config_hash] < ATTEMPTS:
            turns.again(cell)
            return None
        return Outcome(cell, None, f"its process died {ATTEMPTS} times, at last {how}")


class Dask:
    """Runs cells on the workers of a Dask cluster; on one of this machine where no scheduler is named.

    Cells of the `gpu` backends go to workers started with `--resources gpu=1`. Cells of `pim` go to those with `pim=1`
    where the cluster has any, and where a cell asks for hardware it must.

    Parameters
    ----------
    address : str, optional
        Of the scheduler, such as `tcp://node1:8786`.
    workers : int, optional
        Processes of the cluster on this machine; not with an address.
    client : distributed.Client, optional
        One that is connected already, as to a SLURM cluster; it is left open.
    """

    name = "dask"

    def __init__(self, address: str | None = None, workers: int | None = None, client: Any = None) -> None:
        if workers is not None and (address or client):
            raise SwiftRLError("--workers does not apply to a cluster that runs already: drop it")
        self._address = address
        self._local_workers = workers or len(os.sched_getaffinity(0))
        self._client = client
        self._open = contextlib.ExitStack()
        self._offers: Counter[str] = Counter()
        self._on_a_host = 0
        self._looked = 0.0
        self.workers = 0

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            opened.enter_context(_quiet())
            if self._client is None:
                self._client = self._connect(opened)
            _wait_for_workers(self._client)
            self._look()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def check(self, cells: Sequence[Job]) -> None:
        """See `Engine`."""
        for device in {_must_have(cell) for cell in cells} - {None} - self._offers.keys():
            raise SwiftRLError(
                f"no worker of the cluster offers {device}, which some cells need: start workers on such hosts with "
                f"`dask worker ADDRESS --resources {device}=1 --nthreads 1`, or leave these cells out"
            )

    def run(self, cells: Iterable[Job]) -> Iterator[Outcome]:
        """See `Engine`."""
        import distributed

        turns = _Turns(cells, self._resource)
        under_way: dict[str, Job] = {}
        completed = distributed.as_completed(loop=self._client.loop)
        self._submit(turns, under_way, completed)
        while under_way:
            outcome = None
            if completed.has_ready():
                future = next(completed)
                outcome = _outcome(future, under_way.pop(future.key))
            else:
                time.sleep(POLL_SECONDS)
            if time.monotonic() - self._looked > LOOK_SECONDS:  # a cluster's queue may start workers any time
                self._look()
            self._submit(turns, under_way, completed)
            if outcome:
                yield outcome

    def _submit(self, turns: "_Turns", under_way: dict[str, Job], completed: Any) -> None:
        """Keep one cell to do and one at hand with every worker and every device, so that none waits."""
        counts = Counter(map(self._resource, under_way.values()))
        while counts[None] < 2 * self.workers + 2:
            cell = turns.next(
                [device for device, number in self._offers.items() if counts[device] >= 2 * number]
            )
            if cell is None:
                return
            device = self._resource(cell)
            resources = device and {device: 1}
            future = self._client.submit(attempt, cell, self._on_a_host, pure=False, resources=resources)
            counts[device] += 1
            under_way[future.key] = cell
            completed.add(future)

    def _resource(self, cell: Job) -> str | None:
        """Return the resource that a cell is submitted with."""
        device = _must_have(cell) or cell.device
        return device if device in self._offers else None

    def _look(self) -> None:
        """Take notice of the workers there are now."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        hosts: Counter[str] = Counter()
        offers: Counter[str] = Counter()
        for worker in workers:
            hosts[worker["host"]] += worker["nthreads"]
            offers.update(worker["resources"].keys())
        self.workers = hosts.total()
        self._on_a_host = max(hosts.values(), default=0)
        self._offers |= (
            offers  # what was there may come back, and cells that wait for it must not run elsewhere
        )
        self._looked = time.monotonic()

    def _connect(self, opened: contextlib.ExitStack) -> Any:
        import distributed

        address = self._address
        if address is None:
            address = opened.enter_context(
                distributed.LocalCluster(
                    n_workers=self._local_workers,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs="ERROR",
                )
            )
        try:
            return opened.enter_context(
                distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
            )
        except (OSError, ValueError) as error:
            raise SwiftRLError(
                f"no Dask scheduler answers at {address} ({type(error).__name__}): check the address, or start one "
                "with `dask scheduler`"
            ) from error


ENGINES = ("serial", "processes", "dask")


def make(name: str, *, workers: int | None = None, scheduler: str | None = None) -> Executor:
    """Return an engine by name.

    Raises
    ------
    SwiftRLError
        If there is no such engine, or an argument does not apply to it.
    """
    if workers is not None and workers < 1:
        raise SwiftRLError(f"--workers is {workers}: give at least 1")
    if scheduler is not None and name != "dask":
        raise SwiftRLError(f"--scheduler does not apply to --engine {name}: drop it, or use --engine dask")
    if name == "serial":
        if workers not in (None, 1):
            raise SwiftRLError(
                f"--workers {workers} does not apply to --engine serial: use --engine processes"
            )
        return Serial()
    if name == "processes":
        return Processes(workers)
    if name == "dask":
        return Dask(scheduler, workers)
    raise SwiftRLError(f"engine is {name!r}: choose one of {', '.join(ENGINES)}")


def _check_host(cells: Sequence[Job]) -> None:
    """Raise where this machine lacks what a cell needs; one cell of each kind is asked."""
    for reason in missing(cells).values():
        raise SwiftRLError(reason)


# --- processes --------------------------------------------------------------------------------------------


class _Turns:
    """Hands out cells in order, but for those whose device is taken: they wait for their turn."""

    def __init__(self, cells: Iterable[Job], device: Callable[[Job], str | None]) -> None:
        self._cells, self._device = iter(cells), device
        self._waiting: defaultdict[str | None, deque[Job]] = defaultdict(deque)

    def again(self, cell: Job) -> None:
        self._waiting[self._device(cell)].appendleft(cell)

    def next(self, taken: Collection[str | None]) -> Job | None:
        for device, cells in self._waiting.items():
            if cells and device not in taken:
                return cells.popleft()
        for cell in self._cells:
            device = self._device(cell)
            if device not in taken:
                return cell
            self._waiting[device].append(cell)
        return None


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
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        program = "from swiftrl_core.sweeps import executors; executors.work()"
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


# --- dask -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the client's tracebacks about lost connections off the terminal; the sweep says it in a sentence."""
    try:
        import distributed  # noqa: F401, sets the level of its loggers
    except ImportError as error:
        raise SwiftRLError(
            f"the dask engine needs the package distributed ({error}): pip install 'swiftrl[cluster]'"
        ) from error
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _must_have(cell: Job) -> str | None:
    """Return the device that the cell cannot run without, or None: `pim` alone has a simulator."""
    return cell.device if cell.hardware or cell.device == "gpu" else None


def _wait_for_workers(client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError as error:
        raise SwiftRLError(
            f"the Dask scheduler at {client.scheduler.address} has no workers: start some, and run again"
        ) from error


def _outcome(future: Any, cell: Job) -> Outcome:
    """Return what a task came to; a worker that died too often is the cell's failure, a lost scheduler is not."""
    import distributed

    try:
        return future.result()
    except distributed.scheduler.KilledWorker as error:
        return Outcome(cell, None, f"its worker died again and again: {error}", traceback.format_exc())
    except (distributed.CancelledError, OSError) as error:  # a cell's own errors are outcomes, see `attempt`
        raise SwiftRLError(
            "the connection to the Dask scheduler is lost; finished cells are kept: run the same command again"
        ) from error
    finally:
        future.release()
