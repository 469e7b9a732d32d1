"""`swiftrl experiment`: list the experiments, execute their runs, render their notebooks."""

import argparse
from pathlib import Path

from swiftrl_core.cli.options import add_json, report
from swiftrl_core.cli.sweep import add_execution, execute_runs
from swiftrl_core.experiments import notebooks
from swiftrl_core.experiments import registry as experiments
from swiftrl_core.experiments.registry import Experiment
from swiftrl_core.sweeps import progress
from swiftrl_core.sweeps.job import Job
from swiftrl_core.sweeps.plan import RESULTS
from swiftrl_core.sweeps.store import Store
from swiftrl_core.util.errors import SwiftRLError


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """Add `list`, `run` and `notebook` with their options."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for name, add_options, description in (
        ("list", _add_list, "list the experiments: id, question, and number of runs in each size"),
        ("run", _add_run, "execute the runs of an experiment, or of all, that have no result row yet"),
        ("notebook", _add_notebook, "execute a notebook, or all of them, with checked parameters"),
    ):
        sentence = f"{description[0].upper()}{description[1:]}."
        add_options(commands.add_parser(name, help=description, description=sentence))


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=list_experiments)
    add_json(parser, "the list")


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    parser.add_argument("id", metavar="ID", help="such as 04_strong_scaling or 04, or all")
    parser.add_argument(
        "--size", choices=experiments.SIZES, default="smoke", help="size of the experiment (default: smoke)"
    )
    parser.add_argument("--out", metavar="DIR", help="result rows are kept in DIR/ID/SIZE (default: results)")
    add_execution(parser)


def _add_notebook(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=render)
    parser.add_argument("id", metavar="ID", help="such as 04_strong_scaling or 04, or all")
    parser.add_argument(
        "--size",
        choices=experiments.SIZES,
        help="size of the experiment, for notebooks that have one (default: the notebook's own)",
    )
    parser.add_argument(
        "-p",
        "--parameter",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="set a notebook parameter; may be repeated",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="parent directory for the notebook's output (default: results)"
    )
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="notebooks to execute at once (default: 1)"
    )
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="time limit for each notebook")
    parser.add_argument(
        "--skip-done", action="store_true", help="skip notebooks whose output is complete and up to date"
    )


def list_experiments(options: argparse.Namespace) -> None:
    """List the experiments: id, question, and number of runs in each size."""
    found = [
        {
            "id": entry.id,
            "question": entry.question,
            "part_of": entry.part_of,
            "notebook": entry.notebook,
            "runs": {size: len(experiments.expand(entry, size)) for size in experiments.SIZES},
        }
        for entry in experiments.EXPERIMENTS.values()
    ]
    lines = []
    for entry in found:
        sizes = ", ".join(f"{size} {count:,}" for size, count in entry["runs"].items())
        part = f", a part of {entry['part_of']}" if entry["part_of"] else ""
        lines += [f"{entry['id']}{part}", f"    {entry['question']}", f"    runs: {sizes}"]
    report(options, {"experiments": found}, lines)


def run(options: argparse.Namespace) -> None:
    """Execute what an experiment, or all of them, still need.

    Of all experiments the first seed of each is executed first, so that every figure can be drawn early.
    """
    everything = options.id == "all"
    found = list(experiments.EXPERIMENTS.values()) if everything else experiments.with_parts(options.id)
    planned = [(entry, experiments.expand(entry, options.size)) for entry in found]
    if everything and not options.dry_run:
        for entry, runs in planned:
            first = min(each.seed for each in runs)
            _execute(options, entry, [each for each in runs if each.seed == first])
    seconds = [_execute(options, entry, runs) for entry, runs in planned]
    if options.dry_run and len(found) > 1:
        print(f"all together: about {progress.duration(sum(seconds))}")


def _execute(options: argparse.Namespace, entry: Experiment, runs: list[Job]) -> float:
    store = Store(experiments.default_directory(entry, options.size, options.out), entry.columns)
    return execute_runs(options, runs, store, where_available=entry.where_available)


def render(options: argparse.Namespace) -> None:
    """Execute a notebook, or all of them, each into its folder of results."""
    sources = notebooks.all_notebooks() if options.id == "all" else [notebooks.find(options.id)]
    jobs = [_notebook_job(options, source) for source in sources]
    remaining = [job for job in jobs if not (options.skip_done and notebooks.is_done(job))]
    errors = notebooks.execute_all(remaining, workers=options.workers, timeout=options.timeout)
    for job in jobs:
        print(f"{job.output}: " + ("failed" if job.source in errors else "done"))
    for error in errors.values():
        notebooks.show(error)
    if errors:
        raise SwiftRLError("; ".join(map(str, errors.values())))


def _notebook_job(options: argparse.Namespace, source: Path) -> notebooks.Job:
    folder = Path(options.out) if options.out else RESULTS
    given = dict(options.parameter)
    known = notebooks.read_parameters(source)
    if options.size and "size" in known:
        given = {"size": options.size} | given
    if options.out and "output" in known:
        given = {"output": str(folder / source.stem)} | given
    return notebooks.Job(source, folder / source.stem / source.name, notebooks.check_texts(source, given))
