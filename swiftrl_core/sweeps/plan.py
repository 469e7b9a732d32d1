"""Plans: the runs of a sweep that have no row yet, executed so that every finished row is kept.

A sweep is a set of runs, a folder and an executor. Runs whose rows are in the folder are not executed again, so after a
kill, a full disk or Ctrl-C the same command resumes the sweep.
"""

import contextlib
import fcntl
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from pathlib import Path

from swiftrl_core.sweeps.executors import Executor, Outcome, Serial
from swiftrl_core.sweeps.grid import unique
from swiftrl_core.sweeps.job import Job, lock_file, missing
from swiftrl_core.sweeps.progress import Progress
from swiftrl_core.sweeps.store import Store
from swiftrl_core.util.errors import SwiftRLError

INTERRUPT_SECONDS = 4
"""How long a sweep may take to end after Ctrl-C."""
LOG = "sweep.log"
RESULTS = Path("results")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a sweep; the text states what is done and how to resume."""


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep, and which of them are left.

    Attributes
    ----------
    jobs : list of Job
        All, each once.
    done, failed : frozenset of str
        Configuration hashes of the runs that finished, or failed and are not to be tried again.
    left_out : dict
        Backend to the reason why its runs are left out on this machine.
    """

    jobs: list[Job]
    done: frozenset[str]
    failed: frozenset[str]
    left_out: dict[str, str]

    @property
    def pending(self) -> list[Job]:
        """The runs to execute."""
        return [job for job in self.jobs if job.config_hash not in self.done | self.failed]

    @property
    def ordered(self) -> list[Job]:
        """The runs to execute, smaller seeds first, so that early rows cover all settings.

        Within a seed, runs with the same data follow each other, so that a worker makes its data set once.
        """
        groups: dict[tuple, list[Job]] = {}
        for job in self.pending:
            groups.setdefault((job.seed, *job.data_key), []).append(job)
        return [job for key in sorted(groups, key=itemgetter(0)) for job in groups[key]]

    def __str__(self) -> str:
        failed = (
            f", {len(self.failed)} failed before (--retry-failed executes them again)" if self.failed else ""
        )
        return f"{len(self.jobs)} runs: {len(self.done)} done{failed}, {len(self.pending)} left"


@dataclass(frozen=True)
class Summary:
    """The outcome of a sweep.

    Attributes
    ----------
    total, done, failed : int
        Runs in all; with a row; without one because they failed, now or before.
    table : Path or None
        All rows as Parquet, if no run failed.
    first_error : str or None
        Of the first failed run.
    """

    total: int
    done: int
    failed: int
    table: Path | None
    first_error: str | None


def make_plan(
    jobs: Iterable[Job], store: Store, *, retry_failed: bool = False, where_available: bool = False
) -> Plan:
    """Compare runs with the rows of a store.

    Parameters
    ----------
    jobs : iterable of Job
    store : Store
    retry_failed : bool
        Execute failed runs again.
    where_available : bool
        Leave out runs whose backend is not on this machine and that have no row yet.

    Raises
    ------
    SwiftRLError
        If the store's rows are of another schema version.
    """
    jobs = unique(jobs)
    done = {job.config_hash for job in jobs if job.config_hash in store}
    left_out = missing(job for job in jobs if job.config_hash not in done) if where_available else {}
    jobs = [job for job in jobs if job.config_hash in done or job.group[1] not in left_out]
    failed = frozenset() if retry_failed else frozenset(store.failures())
    hashes = frozenset(job.config_hash for job in jobs)
    return Plan(jobs, frozenset(done), (failed & hashes) - done, left_out)


def execute(
    plan: Plan,
    store: Store,
    executor: Executor | None = None,
    *,
    show_progress: bool = True,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Summary:
    """Execute the runs that a plan has left; keep rows and failures as they come; compact the table at the end.

    Parameters
    ----------
    plan : Plan
    store : Store
    executor : Executor, optional
        By default `Serial`.
    show_progress : bool
        Show a bar; in a log, a line now and then.
    on_outcome : callable, optional
        Called with each outcome once it is kept.

    Raises
    ------
    SwiftRLError
        If the executor lacks something that a run needs, or the folder cannot be written.
    Interrupted
        On Ctrl-C.
    """
    executor = executor or Serial()
    if plan.pending:
        with executor:
            executor.check(plan.pending)
            store.prepare()
            with _order(plan.ordered, store) as jobs:
                progress = Progress(plan.pending, len(plan.done), show=show_progress)
                _drive(plan, jobs, store, executor, progress, on_outcome)
    return _summarise(plan, store)


def require_all(summary: Summary, store: Store) -> None:
    """Raise `SwiftRLError` if a run of a sweep failed."""
    if summary.failed:
        raise SwiftRLError(
            f"{summary.failed} of {summary.total} runs failed, the first with: {summary.first_error}; "
            f"all errors are in {store.directory / 'failed'}, and --retry-failed executes these runs again"
        )


@contextlib.contextmanager
def ends_soon(message: Callable[[], str]) -> Iterator[None]:
    """End the process soon after Ctrl-C, even while compiled code holds the main thread.

    For the command line; in a notebook it would end the kernel. Everything finished is on the disk by then.

    Parameters
    ----------
    message : callable
        Returns what to print at the end.
    """
    listen, write = os.pipe()
    os.set_blocking(write, False)
    ended = threading.Event()

    def watch() -> None:
        while number := os.read(listen, 1):
            if number[0] == signal.SIGINT and not ended.wait(INTERRUPT_SECONDS):
                print(f"\nswiftrl: {message()}", file=sys.stderr, flush=True)
                os._exit(130)

    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        os.close(write)
        watcher.join()
        os.close(listen)


def interrupted(plan: Plan, store: Store) -> str:
    """Return the message after Ctrl-C."""
    done = sum(job.config_hash in store for job in plan.jobs)
    return (
        f"interrupted: {done} of {len(plan.jobs)} runs are done and kept in {store.directory}; "
        "run the same command again to resume"
    )


def _drive(
    plan: Plan,
    jobs: Iterable[Job],
    store: Store,
    executor: Executor,
    progress: Progress,
    on_outcome: Callable[[Outcome], None] | None,
) -> None:
    """Keep the outcomes of an executor."""
    _log(store, f"start: {plan}, executor {executor.name} with {executor.workers} workers")
    try:
        for outcome in executor.run(_not_done(jobs, store, progress)):
            _keep(outcome, store)
            progress.count(outcome.job, failed=outcome.row is None)
            if on_outcome:
                on_outcome(outcome)
    except KeyboardInterrupt as error:
        message = interrupted(plan, store)
        _log(store, message)
        raise Interrupted(message) from error
    finally:
        progress.close()
    _log(store, f"end: {progress}")


def _keep(outcome: Outcome, store: Store) -> None:
    job = outcome.job
    if outcome.row is None:
        store.fail(job.config, job.config_hash, outcome.error, outcome.details)
        _log(store, f"{job.config_hash} FAILED {job.label}: {outcome.error}")
    else:
        store.add(outcome.row)
        _log(store, f"{job.config_hash} {outcome.row['wall_seconds']:.3f} s {job.label}")


def _not_done(jobs: Iterable[Job], store: Store, progress: Progress) -> Iterator[Job]:
    """Yield the jobs that no other sweep has finished by the time it is their turn."""
    for job in jobs:
        if job.config_hash in store:
            progress.skip(job)
        else:
            yield job


@contextlib.contextmanager
def _order(jobs: list[Job], store: Store) -> Iterator[list[Job]]:
    """Yield the jobs in order, or reversed if another sweep uses the folder: the two meet halfway."""
    with (store.directory / ".sweep.lock").open("a") as lock:
        try:
            lock_file(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log(store, "another sweep uses this folder: this one executes the runs in reverse order")
            yield jobs[::-1]
            return
        yield jobs


def _summarise(plan: Plan, store: Store) -> Summary:
    failures = store.failures()
    hashes = [job.config_hash for job in plan.jobs]
    failed = [name for name in hashes if name in failures and name not in store]
    return Summary(
        total=len(hashes),
        done=len(hashes) - len(failed),
        failed=len(failed),
        table=None if failed else store.compact(hashes),
        first_error=failures[failed[0]]["error"] if failed else None,
    )


def _log(store: Store, line: str) -> None:
    store.append(LOG, f"{datetime.now().astimezone().isoformat(timespec='seconds')} {line}\n")
