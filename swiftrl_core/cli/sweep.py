"""`swiftrl sweep`, and the execution of any set of runs with its options."""

import argparse
from collections.abc import Sequence

from swiftrl_core.sweeps import executors, spec
from swiftrl_core.sweeps.estimate import estimate
from swiftrl_core.sweeps.job import Job
from swiftrl_core.sweeps.plan import RESULTS, ends_soon, execute, interrupted, make_plan, require_all
from swiftrl_core.sweeps.store import Store


def add_sweep(parser: argparse.ArgumentParser) -> None:
    """Add the options of `swiftrl sweep`."""
    parser.set_defaults(command=sweep)
    parser.add_argument(
        "spec", metavar="SPEC.yaml", help="grids of runs; examples/lake.yaml shows the format"
    )
    parser.add_argument("--out", metavar="DIR", help="folder for the result rows (default: results/NAME)")
    add_execution(parser)


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide how runs are executed."""
    parser.add_argument(
        "--executor",
        choices=list(executors.EXECUTORS),
        default="serial",
        help="where runs are executed: in this process, in several, or on a Dask cluster (default: serial)",
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="Dask scheduler (default: a cluster on this machine)"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="number of processes (default: one per processor)"
    )
    parser.add_argument("--retry-failed", action="store_true", help="execute failed runs again")
    parser.add_argument("--estimate", action="store_true", help="estimate the running time first")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be executed and the estimated time, then stop",
    )


def sweep(options: argparse.Namespace) -> None:
    """Execute the runs of a specification file that have no result row yet."""
    asked = spec.read(options.spec)
    execute_runs(options, asked.runs, Store(options.out or RESULTS / asked.name), where_available=False)


def execute_runs(
    options: argparse.Namespace, runs: Sequence[Job], store: Store, *, where_available: bool
) -> float:
    """Print the plan, execute it unless this is a dry run, and print where the table is.

    Parameters
    ----------
    options : Namespace
        The options of `add_execution`.
    runs : sequence of Job
    store : Store
        Where rows are kept; runs that have one are not executed again.
    where_available : bool
        Leave out runs whose backend is not on this machine, where otherwise the sweep stops.

    Returns
    -------
    float
        Estimated seconds; 0 where no estimate was asked for.
    """
    executor = executors.make(options.executor, workers=options.workers, scheduler=options.scheduler)
    plan = make_plan(runs, store, retry_failed=options.retry_failed, where_available=where_available)
    for reason in plan.left_out.values():
        print(f"left out: {reason}")
    print(f"{store.directory}: {plan}", flush=True)
    seconds = 0.0
    if plan.pending and (options.dry_run or options.estimate):
        expected = estimate(plan, store, executor.workers or 1)
        seconds = expected.seconds
        print(expected, flush=True)
    if options.dry_run:
        return seconds
    with ends_soon(lambda: interrupted(plan, store)):
        summary = execute(plan, store, executor)
    require_all(summary, store)
    print(f"{summary.table}: {summary.done} rows", flush=True)
    return seconds
