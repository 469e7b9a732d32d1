"""Run many cells and keep every row, whatever happens in between.

A sweep is cells, a folder and an executor. Cells whose rows are in the folder are not run again, so the way to go on
after a kill, a full disk or Ctrl-C is to start the same sweep once more.
"""

import contextlib
import fcntl
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from pathlib import Path

from swiftrl_core.sweeps import progress
from swiftrl_core.sweeps.executors import Executor, Outcome, Serial
from swiftrl_core.sweeps.grid import unique
from swiftrl_core.sweeps.job import Job, missing
from swiftrl_core.sweeps.progress import Reporter, Tally
from swiftrl_core.sweeps.store import Store
from swiftrl_core.util.errors import SwiftRLError

INTERRUPT_SECONDS = 4
"""How long after Ctrl-C a sweep may take to put things away."""
LOG = "sweep.log"
RESULTS = Path("results")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a sweep; the text says what is done and how to go on."""


@dataclass(frozen=True)
class Plan:
    """What is to do.

    Attributes
    ----------
    cells : list of Run
        All, each once.
    done, failed : frozenset of str
        Configuration hashes of the cells that finished, or failed and are not to be tried again.
    left_out : dict
        Backend to the reason why its cells are left out on this machine.
    """

    cells: list[Job]
    done: frozenset[str]
    failed: frozenset[str]
    left_out: dict[str, str]

    @property
    def pending(self) -> list[Job]:
        """The cells to run."""
        return [cell for cell in self.cells if cell.config_hash not in self.done | self.failed]

    @property
    def ordered(self) -> list[Job]:
        """The cells to run: smaller seeds first, so that there is soon something of everything to look at.

        Of one seed, cells with the same data stand together, so that a worker makes its data set once.
        """
        groups: dict[tuple, list[Job]] = {}
        for cell in self.pending:
            groups.setdefault((cell.seed, *cell.data_key), []).append(cell)
        return [cell for key in sorted(groups, key=itemgetter(0)) for cell in groups[key]]

    def __str__(self) -> str:
        failed = f", {len(self.failed)} failed before (--retry-failed runs them again)" if self.failed else ""
        return f"{len(self.cells)} cells: {len(self.done)} done{failed}, {len(self.pending)} to run"


@dataclass(frozen=True)
class Summary:
    """What a sweep came to.

    Attributes
    ----------
    total, done, failed : int
        Cells in all; with a row; without one, for they failed now or before.
    table : Path or None
        All rows as Parquet, where no cell failed.
    first_error : str or None
        Of the first failed cell.
    """

    total: int
    done: int
    failed: int
    table: Path | None
    first_error: str | None


def make_plan(
    cells: Iterable[Job], store: Store, *, retry_failed: bool = False, where_available: bool = False
) -> Plan:
    """Compare cells with what a store has.

    Parameters
    ----------
    cells : iterable of Run
    store : Store
    retry_failed : bool
        Run failed cells again.
    where_available : bool
        Leave out cells whose backend is not on this machine and that have no row yet.

    Raises
    ------
    SwiftRLError
        If the store's rows are of another schema version.
    """
    cells = unique(cells)
    done = {cell.config_hash for cell in cells if cell.config_hash in store}
    left_out = missing(cell for cell in cells if cell.config_hash not in done) if where_available else {}
    cells = [cell for cell in cells if cell.config_hash in done or cell.group[1] not in left_out]
    failed = frozenset() if retry_failed else frozenset(store.failures())
    hashes = frozenset(cell.config_hash for cell in cells)
    return Plan(cells, frozenset(done), (failed & hashes) - done, left_out)


def execute(
    plan: Plan, store: Store, executor: Executor | None = None, reporters: Sequence[Reporter] | None = None
) -> Summary:
    """Run what a plan still needs; keep rows and failures as they come; compact the table when all is done.

    Parameters
    ----------
    plan : Plan
    store : Store
    executor : Executor, optional
        By default `Serial`.
    reporters : sequence of Reporter, optional
        By default what `progress.reporters` finds right for the place.

    Raises
    ------
    SwiftRLError
        If the executor lacks what a cell needs, or the folder cannot be written.
    Interrupted
        On Ctrl-C.
    """
    executor = executor or Serial()
    if plan.pending:
        with executor:
            executor.check(plan.pending)
            store.prepare()
            with _order(plan.ordered, store) as cells:
                _drive(plan, cells, store, executor, progress.reporters() if reporters is None else reporters)
    return _summarise(plan, store)


def require_all(summary: Summary, store: Store) -> None:
    """Raise `SwiftRLError` if a cell of a sweep failed."""
    if summary.failed:
        raise SwiftRLError(
            f"{summary.failed} of {summary.total} cells failed, the first with: {summary.first_error}; "
            f"all errors are in {store.directory / 'failed'}, and --retry-failed runs these cells again"
        )


@contextlib.contextmanager
def ends_soon(told: Callable[[], str]) -> Iterator[None]:
    """End the process soon after Ctrl-C, even where compiled code holds the main thread and hears nothing.

    For the command line; in a notebook it would take the kernel down. Everything finished is on the disk by then.

    Parameters
    ----------
    told : callable
        Returns the last words.
    """
    listen, write = os.pipe()
    os.set_blocking(write, False)
    ended = threading.Event()

    def watch() -> None:
        while number := os.read(listen, 1):
            if number[0] == signal.SIGINT and not ended.wait(INTERRUPT_SECONDS):
                print(f"\nswiftrl: {told()}", file=sys.stderr, flush=True)
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
    """Return what to say after Ctrl-C."""
    done = sum(cell.config_hash in store for cell in plan.cells)
    return (
        f"interrupted: {done} of {len(plan.cells)} cells are done and kept in {store.directory}; "
        "run the same command again to go on"
    )


def _drive(
    plan: Plan, cells: Iterable[Job], store: Store, executor: Executor, reporters: Sequence[Reporter]
) -> None:
    """Take outcomes from the executor and keep them."""
    tally = Tally(len(plan.cells), len(plan.done), plan.pending)
    _log(store, f"start: {plan}, executor {executor.name} with {executor.workers} workers")
    for reporter in reporters:
        reporter.show(tally)
    try:
        for outcome in executor.run(_not_done(cells, store, tally)):
            _keep(outcome, store)
            failed = outcome.row is None
            tally.count(outcome.cell, failed=failed)
            for reporter in reporters:
                reporter.show(tally, outcome.cell, failed=failed)
    except KeyboardInterrupt as error:
        told = interrupted(plan, store)
        _log(store, told)
        raise Interrupted(told) from error
    finally:
        for reporter in reporters:
            reporter.close(tally)
    _log(store, f"end: {tally}")


def _keep(outcome: Outcome, store: Store) -> None:
    cell = outcome.cell
    if outcome.row is None:
        store.fail(cell.config, cell.config_hash, outcome.error, outcome.details)
        _log(store, f"{cell.config_hash} FAILED {cell.label}: {outcome.error}")
    else:
        store.add(outcome.row)
        _log(store, f"{cell.config_hash} {outcome.row['wall_seconds']:.3f} s {cell.label}")


def _not_done(cells: Iterable[Job], store: Store, tally: Tally) -> Iterator[Job]:
    """Yield cells that nobody else has finished by the time it is their turn."""
    for cell in cells:
        if cell.config_hash in store:
            tally.count(cell, found=True)
        else:
            yield cell


@contextlib.contextmanager
def _order(cells: list[Job], store: Store) -> Iterator[list[Job]]:
    """Yield the cells in order, or from the end where another sweep is at work on the folder: they meet halfway."""
    with (store.directory / ".sweep.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log(store, "another sweep is at work in this folder: this one starts from the end")
            yield cells[::-1]
            return
        yield cells


def _summarise(plan: Plan, store: Store) -> Summary:
    failures = store.failures()
    hashes = [cell.config_hash for cell in plan.cells]
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
