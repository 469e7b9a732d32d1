"""The `swiftrl` command: data sets, training, evaluation, sweeps and experiments, and what this machine can do."""

import argparse
import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tqdm import tqdm

from swiftrl_core import backend as backends
from swiftrl_core.backends.pim.binding import hardware_reason
from swiftrl_core.backends.pim.tuning import KERNELS
from swiftrl_core.cli import benches
from swiftrl_core.data import datasets, environments, evaluation, minari_io
from swiftrl_core.dpusim import HARDWARE_PROFILES, MODEL_VERSION, validation
from swiftrl_core.experiments import notebooks
from swiftrl_core.experiments import registry as experiments
from swiftrl_core.learner import (
    Aggregation,
    Algorithm,
    AlphaSchedule,
    Bootstrap,
    Learner,
    NumberFormat,
    Sampling,
    Update,
)
from swiftrl_core.sweeps import executors, progress, results, spec
from swiftrl_core.sweeps.estimate import estimate
from swiftrl_core.sweeps.job import Job
from swiftrl_core.sweeps.manifest import prepare_directory, write_run
from swiftrl_core.sweeps.plan import RESULTS, ends_soon, execute, interrupted, make_plan, require_all
from swiftrl_core.sweeps.store import Store
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

DEFAULT_EPISODES = 2000
DEFAULT_TAU = 50
PIM_PARTS = ("CPU-PIM", "PIM kernel", "inter-PIM-core", "PIM-CPU")
OTHER_PARTS = ("load", "learn", "synchronise", "collect")
"""What the four parts of the time are called on PIM, in the paper's words, and on a machine that has no PIM."""
PIM_OPTIONS = ("tasklets", "kernel", "simulated_dpus", "hardware")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 0, or 1 with one sentence on standard error, or 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
        sys.stdout.flush()
    except SwiftRLError as error:
        return _failed(str(error))
    except BrokenPipeError:  # whoever read our output has gone; Python must not flush to it again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _failed(f"{error.filename or 'output'}: {error.strerror or error}")
    except MemoryError as error:
        return _failed(f"this machine's memory does not suffice ({error}): ask for less")
    except KeyboardInterrupt as interruption:
        print(f"swiftrl: {str(interruption) or 'interrupted'}", file=sys.stderr)
        return 130
    return 0


def _failed(sentence: str) -> int:
    print(f"swiftrl: {' '.join(sentence.split())}", file=sys.stderr)
    return 1


def validate(options: argparse.Namespace) -> None:
    """Hold the DPU simulator to published hardware numbers: predicted, published, error; fails when a bar is missed."""
    if options.write_golden:
        validation.counts.write_golden()
        print(f"{validation.counts.GOLDEN}: golden counts of {len(validation.counts.CASES)} kernels")
        return
    show = None if options.json else lambda section: print(section, end="\n\n", flush=True)
    sections, absent = validation.validate(
        options.only, options.calibration, options.hardware_rows, on_section=show
    )
    missed = [bar for section in sections for bar in section.bars if not bar.holds]
    report = {
        "model_version": MODEL_VERSION,
        "holds": not missed,
        "sections": {section.name: section.to_json() for section in sections},
        "left_out": absent,
    }
    bars = sum(len(section.bars) for section in sections)
    lines = [f"left out: {name} ({reason})" for name, reason in absent.items()]
    _report(report, options.json, [*lines, f"{bars - len(missed)} of {bars} bars hold"])
    if missed:
        raise SwiftRLError(f"{len(missed)} bars were missed: {'; '.join(bar.name for bar in missed)}")


def bench_command(options: argparse.Namespace) -> None:
    """Measure how fast this machine simulates DPUs and learns, with what that is to be compared with."""
    host, measured = benches.load("engine").machine(), []
    if not options.json:
        print(", ".join(f"{key} {value}" for key, value in host.items()))
    for name in benches.NAMES:
        if options.only in (None, name):
            section = benches.load(name)
            rows = section.rows()
            measured += rows
            if not options.json:
                print(f"\n{name}\n{section.table(rows)}", flush=True)
    if options.json:
        print(json.dumps({"machine": host, "rows": measured}, indent=2))


def doctor(options: argparse.Namespace) -> None:
    """Say which backends can be used here, and why the others cannot."""
    reasons = {name: backends.module(name).available() for name in backends.BACKENDS}
    hardware = hardware_reason()
    runs_on = "the DPU simulator" if hardware else "UPMEM hardware"
    report = {
        "backends": {
            name: {"available": reason is None, "reason": reason} for name, reason in reasons.items()
        },
        "pim_runs_on": runs_on,
        "hardware": {"available": hardware is None, "reason": hardware},
    }
    lines = [f"{name:11} {'yes' if reason is None else 'no: ' + reason}" for name, reason in reasons.items()]
    lines.append(f"{'':11} pim runs on {runs_on}" + (f" ({hardware})" if hardware else ""))
    _report(report, options.json, lines)


def collect(options: argparse.Namespace) -> None:
    """Log transitions of a uniform random policy into a Parquet file."""
    if not datasets.is_parquet(options.out):
        raise SwiftRLError(f"--out {options.out}: collect writes Parquet, so name the file *.parquet")
    environment = environments.resolve(options.env)
    dataset = datasets.collect(environment, options.transitions, options.seed)
    datasets.save(dataset, options.out)
    print(f"{options.out}: {len(dataset):,} transitions of {environment.env_id}")


def convert(options: argparse.Namespace) -> None:
    """Turn the authors' text format into Parquet, or back, or either from or into Minari; the names decide."""
    dataset = _open_data(options.input, options.env)
    if exported := minari_io.named(options.output):
        _export_to_minari(dataset, exported, options.large)
    else:
        write = datasets.save if datasets.is_parquet(options.output) else datasets.write_text
        write(dataset, options.output)
    print(f"{options.output}: {len(dataset):,} transitions")


def _open_data(named: str, env: str | None) -> datasets.Dataset:
    """Read a file, or a data set of Minari's."""
    environment = env and environments.resolve(env)
    if dataset_id := minari_io.named(named):
        return minari_io.load(dataset_id, environment)
    return datasets.open_data(named, environment)


def _export_to_minari(dataset: datasets.Dataset, dataset_id: str, large: bool) -> None:
    expected = minari_io.estimate(dataset)
    print(f"Minari will take {expected}", flush=True)
    if expected.bytes > minari_io.LARGE_BYTES and not large:
        raise SwiftRLError("that is more than 1 GB in Minari: export fewer transitions, or say --large")
    minari_io.save(dataset, dataset_id)


def train_command(options: argparse.Namespace) -> None:
    """Train a learner and write its tables and manifest."""
    _refuse_misfits(options)
    directory = prepare_directory(options.out)
    dataset = _open_data(options.data, options.env)
    learner = Learner(
        algorithm=options.algorithm,
        sampling=options.sampling,
        number_format=options.number_format,
        alpha=Learner.alpha if options.alpha is None else options.alpha,
        gamma=options.gamma,
        epsilon=Learner.epsilon if options.epsilon is None else options.epsilon,
        reward_range=dataset.reward_range,
        aggregation=options.aggregation,
        update=options.update,
        alpha_schedule=options.alpha_schedule,
        bootstrap=options.bootstrap,
    )
    tau = min(DEFAULT_TAU, options.episodes) if options.tau is None else options.tau
    schedule = Schedule(options.dpus, options.episodes, tau, options.seed)
    given = {name: getattr(options, name) for name in PIM_OPTIONS}
    extra = {name: value for name, value in given.items() if value is not None}
    with (
        ends_soon(lambda: "interrupted; no result was written"),
        tqdm(total=options.episodes, unit="episode", disable=options.json or None) as bar,
    ):
        result = train(
            dataset,
            learner,
            schedule,
            options.backend,
            on_round=lambda episodes, _: bar.update(episodes),
            **extra,
        )
    manifest = write_run(directory, dataset, learner, schedule, options.backend, result)
    _report(manifest, options.json, _training_lines(directory, result, options.backend))


def evaluate(options: argparse.Namespace) -> None:
    """Say what the greedy policy of a Q-table earns, exactly and over seeded episodes."""
    environment = environments.resolve(options.env)
    q = _read_table(options.q_table)
    optimum = evaluation.value_iteration(environment, options.gamma)
    mean, error = evaluation.monte_carlo_return(environment, q, episodes=options.episodes, seed=options.seed)
    report = {
        "environment": environment.env_id,
        "exact_return": evaluation.exact_return(environment, q, ties=options.ties),
        "optimum": evaluation.exact_return(environment, optimum, ties=options.ties),
        "monte_carlo_return": mean,
        "monte_carlo_standard_error": error,
        "monte_carlo_episodes": options.episodes,
        "mean_error_to_optimal_q": float(np.abs(q - optimum).mean()),
        "gamma": options.gamma,
        "ties": options.ties,
    }
    lines = [
        f"exact return        {report['exact_return']:.5f}",
        f"optimum             {report['optimum']:.5f}   (greedy on Q* at gamma {options.gamma:g})",
        f"{options.episodes:,} episodes      {mean:.5f} +- {error:.5f}",
    ]
    _report(report, options.json, lines)


def sweep_command(options: argparse.Namespace) -> None:
    """Run the cells of a specification file that have no row yet, and keep a row for each."""
    asked = spec.read(options.spec)
    _sweep(options, asked.cells, Store(options.out or RESULTS / asked.name), where_available=False)


def experiment_list(options: argparse.Namespace) -> None:
    """List the experiments: id, question, and runs in each size."""
    found = [
        {
            "id": entry.id,
            "question": entry.question,
            "part_of": entry.part_of,
            "notebook": entry.notebook,
            "cells": {size: len(experiments.expand(entry, size)) for size in experiments.SIZES},
        }
        for entry in experiments.EXPERIMENTS.values()
    ]
    lines = []
    for entry in found:
        sizes = ", ".join(f"{size} {count:,}" for size, count in entry["cells"].items())
        part = f", a part of {entry['part_of']}" if entry["part_of"] else ""
        lines += [f"{entry['id']}{part}", f"    {entry['question']}", f"    runs: {sizes}"]
    _report({"experiments": found}, options.json, lines)


def experiment_run(options: argparse.Namespace) -> None:
    """Run what an experiment, or all of them, still need, and keep a row for each run.

    Of several experiments the first seed of each comes first: then there is something of everything to draw.
    """
    everything = options.id == "all"
    found = list(experiments.EXPERIMENTS.values()) if everything else experiments.with_parts(options.id)
    planned = [(entry, experiments.expand(entry, options.size)) for entry in found]
    if everything and not options.dry_run:
        for entry, cells in planned:
            first = min(cell.seed for cell in cells)
            _run_experiment(options, entry, [cell for cell in cells if cell.seed == first])
    seconds = [_run_experiment(options, entry, cells) for entry, cells in planned]
    if options.dry_run and len(found) > 1:
        print(f"all together: about {progress.duration(sum(seconds))}")


def _run_experiment(options: argparse.Namespace, entry: experiments.Experiment, cells: list[Job]) -> float:
    store = Store(experiments.default_directory(entry, options.size, options.out), entry.columns)
    return _sweep(options, cells, store, where_available=entry.where_available)


def experiment_notebook(options: argparse.Namespace) -> None:
    """Run a notebook, or all of them, with checked parameters; what it draws goes into its folder of results."""
    sources = notebooks.all_notebooks() if options.id == "all" else [notebooks.find(options.id)]
    jobs = [_notebook_job(options, source) for source in sources]
    todo = [job for job in jobs if not (options.skip_done and notebooks.is_done(job))]
    errors = notebooks.execute_all(todo, workers=options.workers, timeout=options.timeout)
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


def _sweep(options: argparse.Namespace, cells: list[Job], store: Store, *, where_available: bool) -> float:
    """Say what is to do, do it unless this is a dry run, and say where the table is.

    Returns the estimated seconds, 0 where no estimate was asked for.
    """
    engine = executors.make(options.engine, workers=options.workers, scheduler=options.scheduler)
    plan = make_plan(cells, store, retry_failed=options.retry_failed, where_available=where_available)
    for reason in plan.left_out.values():
        print(f"left out: {reason}")
    print(f"{store.directory}: {plan}", flush=True)
    seconds = 0.0
    if plan.pending and (options.dry_run or options.estimate):
        estimated = estimate(plan, store, engine.workers or 1)
        seconds = estimated.seconds
        print(f"{estimated}; {_workers(engine)}", flush=True)
    if options.dry_run:
        return seconds
    with ends_soon(lambda: interrupted(plan, store)):
        summary = execute(plan, store, engine)
    require_all(summary, store)
    print(f"{summary.table}: {summary.done} rows", flush=True)
    return seconds


def _workers(engine: executors.Executor) -> str:
    count = engine.workers or 1
    return f"{count} worker{'s' * (count != 1)}"


def _refuse_misfits(options: argparse.Namespace) -> None:
    """Raise where an option was given that another one makes meaningless."""
    if options.epsilon is not None and options.algorithm != Algorithm.SARSA:
        raise SwiftRLError(
            f"--epsilon does not apply to {options.algorithm}: drop it, or use --algorithm sarsa"
        )
    if options.alpha is not None and options.alpha_schedule != AlphaSchedule.CONSTANT:
        raise SwiftRLError(
            f"--alpha does not apply to --alpha-schedule {options.alpha_schedule}, which sets it: drop one of the two"
        )
    for name in PIM_OPTIONS:
        if getattr(options, name) is not None and options.backend != "pim":
            option = "--" + name.replace("_", "-")
            raise SwiftRLError(
                f"{option} does not apply to --backend {options.backend}: drop it, or use --backend pim"
            )
    if options.tau is not None and options.tau > options.episodes:
        raise SwiftRLError(
            f"--tau {options.tau} is more than --episodes {options.episodes}: a round has at most all episodes"
        )


def _read_table(path: str) -> np.ndarray:
    try:
        table = np.load(path)
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise SwiftRLError(
            f"{path} is not a readable .npy table ({error}): name the q_table.npy of a run"
        ) from error
    if not np.issubdtype(table.dtype, np.floating) or not np.isfinite(table).all():
        raise SwiftRLError(
            f"{path} does not hold finite values in floating point: name the q_table.npy of a run"
        )
    return table


def _training_lines(directory: Path, result, backend: str) -> list[str]:
    parts = result.breakdown
    named = PIM_PARTS if backend == "pim" else OTHER_PARTS
    return [
        f"{directory}: {result.updates:,} updates in {result.rounds} rounds",
        f"tables, a round: {result.round_bytes_down:,} bytes down to the cores, {result.round_bytes_up:,} up",
        f"time, {parts.evidence} ({result.machine['name']}; averaging on the host is measured here)",
        *(
            f"  {name:15} {getattr(parts, part):12.6f} s"
            for part, name in zip(results.PARTS, named, strict=True)
        ),
    ]


def _report(report: dict, as_json: bool, lines: list[str]) -> None:
    print(json.dumps(report, indent=2) if as_json else "\n".join(lines))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="swiftrl", description="Tabular reinforcement learning on processing-in-memory hardware."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_small_commands(commands)
    _add_train(commands)
    _add_sweeps(commands)
    return parser


def _command(commands, name: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
    described = run.__doc__.strip()
    sub = commands.add_parser(name, help=described, description=described)
    sub.set_defaults(command=run)
    return sub


def _add_small_commands(commands) -> None:
    sub = _command(commands, "doctor", doctor)
    sub.add_argument("--json", action="store_true")

    sub = _command(commands, "bench", bench_command)
    sub.add_argument("--only", choices=list(benches.NAMES), help="one section of it")
    sub.add_argument("--json", action="store_true")

    sub = _command(commands, "validate", validate)
    sub.add_argument(
        "--only",
        nargs="+",
        choices=validation.SECTIONS,
        metavar="SECTION",
        help=", ".join(validation.SECTIONS),
    )
    sub.add_argument(
        "--calibration", metavar="DIR", help="kernels counted by the vendor's tools: counts.json, kernels/"
    )
    sub.add_argument("--hardware-rows", metavar="F.json", help="times measured on a UPMEM server")
    sub.add_argument(
        "--write-golden",
        action="store_true",
        help="take what the project's own suite costs now as its golden counts",
    )
    sub.add_argument("--json", action="store_true")

    sub = _command(commands, "collect", collect)
    sub.add_argument(
        "--env", required=True, help="frozenlake, frozenlake8x8, taxi, cliffwalking or a Gymnasium id"
    )
    sub.add_argument("--transitions", type=int, required=True)
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--out", required=True, metavar="F.parquet")

    sub = _command(commands, "convert", convert)
    sub.add_argument("input", metavar="IN", help="a file, or minari:ID")
    sub.add_argument("output", metavar="OUT", help="*.parquet for Parquet, minari:ID, anything else for text")
    sub.add_argument("--env", help="needed for text; other inputs name their own")
    sub.add_argument("--large", action="store_true", help="write more than 1 GB into Minari")

    sub = _command(commands, "evaluate", evaluate)
    sub.add_argument("--env", required=True)
    sub.add_argument("--q-table", required=True, metavar="F.npy")
    sub.add_argument("--gamma", type=float, default=0.95, help="discount of the optimum to compare with")
    sub.add_argument(
        "--ties", choices=("lowest", "mean"), default="lowest", help="greedy choice among equal actions"
    )
    sub.add_argument("--episodes", type=int, default=1000)
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--json", action="store_true")


def _add_train(commands) -> None:
    sub = _command(commands, "train", train_command)
    sub.add_argument("--data", required=True, help="a Parquet file, the authors' text format, or minari:ID")
    sub.add_argument("--env", help="needed for text; a Parquet file names its own")
    sub.add_argument(
        "--algorithm",
        choices=list(Algorithm),
        default=Algorithm.Q_LEARNING,
        help="what an update bootstraps from: the largest next value, or that of the next action (default q_learning)",
    )
    sub.add_argument(
        "--sampling",
        choices=list(Sampling),
        default=Sampling.SEQ,
        help="order of a pass over a chunk: sequential, strided by four, random, or from the end (default SEQ)",
    )
    sub.add_argument(
        "--number-format",
        choices=list(NumberFormat),
        default=NumberFormat.FP32,
        help="single precision, or fixed point in units of 1/10,000 or of 2^-13 (default FP32)",
    )
    sub.add_argument(
        "--aggregation",
        choices=list(Aggregation),
        default=Aggregation.MEAN,
        help="mean of all cores' tables, of those that saw a pair, or weighted by how often they did (default mean)",
    )
    sub.add_argument(
        "--update",
        choices=list(Update),
        default=Update.TD,
        help="the paper's td, or vr, variance-reduced (default td)",
    )
    sub.add_argument(
        "--bootstrap",
        choices=list(Bootstrap),
        default=Bootstrap.CURRENT,
        help="values of the table as it is, or frozen, as the pass over the chunk found it (default current)",
    )
    sub.add_argument(
        "--backend",
        choices=list(backends.BACKENDS),
        default="pim",
        help="what runs the learner; `swiftrl doctor` says which work here (default pim)",
    )
    sub.add_argument("--dpus", type=int, default=64, metavar="N", help="PIM cores (default 64)")
    sub.add_argument(
        "--tasklets",
        type=int,
        metavar="T",
        help="tasklets that learn on a DPU: 1, or up to 24 with --bootstrap frozen (default 1)",
    )
    sub.add_argument(
        "--kernel",
        choices=KERNELS,
        help="the paper's, or tuned: the same bits in about half the time with one tasklet (default paper)",
    )
    sub.add_argument(
        "--simulated-dpus",
        type=int,
        metavar="K",
        help="simulate K of the DPUs and train all on the CPU, checked against them (default: simulate all)",
    )
    sub.add_argument("--hardware", metavar="NAME", help=f"server to simulate: {', '.join(HARDWARE_PROFILES)}")
    sub.add_argument(
        "--episodes",
        type=int,
        default=DEFAULT_EPISODES,
        help=f"passes of each core over its chunk (default {DEFAULT_EPISODES})",
    )
    sub.add_argument("--tau", type=int, help=f"episodes between synchronisations (default {DEFAULT_TAU})")
    sub.add_argument("--alpha", type=float, help="learning rate (default 0.1)")
    sub.add_argument(
        "--alpha-schedule",
        choices=list(AlphaSchedule),
        default=AlphaSchedule.CONSTANT,
        help="rescaled_linear: 1 / (1 + (1 - gamma) n) at a pair's n-th update in a round (default constant)",
    )
    sub.add_argument("--gamma", type=float, default=0.95, help="discount (default 0.95)")
    sub.add_argument("--epsilon", type=float, help="SARSA's exploration (default 0.1)")
    sub.add_argument("--seed", type=int, default=0, help="of the cores' random generators (default 0)")
    sub.add_argument("--out", required=True, metavar="DIR", help="folder of the tables and the manifest")
    sub.add_argument("--json", action="store_true", help="print the manifest instead of a summary")


def _add_sweeps(commands) -> None:
    sub = _command(commands, "sweep", sweep_command)
    sub.add_argument("spec", metavar="SPEC.yaml", help="see swiftrl_core/spec.py")
    sub.add_argument("--out", metavar="DIR", help="folder of the rows (default results/NAME)")
    _add_sweep_options(sub)

    group = commands.add_parser("experiment", help="List, run and render the experiments.")
    commands = group.add_subparsers(required=True, metavar="COMMAND")
    sub = _command(commands, "list", experiment_list)
    sub.add_argument("--json", action="store_true")
    sub = _command(commands, "run", experiment_run)
    sub.add_argument("id", metavar="ID", help="such as 04_strong_scaling or 04, or all")
    sub.add_argument("--size", choices=experiments.SIZES, default="smoke")
    sub.add_argument("--out", metavar="DIR", help="the rows go into DIR/ID/PROFILE (default results)")
    _add_sweep_options(sub)
    sub = _command(commands, "notebook", experiment_notebook)
    sub.add_argument("id", metavar="ID", help="of a notebook, or all")
    sub.add_argument("--size", choices=experiments.SIZES, help="the size, where the notebook has one")
    sub.add_argument(
        "-p",
        "--parameter",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="one of its own",
    )
    sub.add_argument("--out", metavar="DIR", help="folder of its folder (default results)")
    sub.add_argument("--workers", type=int, default=1, metavar="N", help="notebooks at a time")
    sub.add_argument("--timeout", type=float, metavar="SECONDS", help="for each notebook")
    sub.add_argument(
        "--skip-done", action="store_true", help="leave complete outputs of the same notebook alone"
    )


def _add_sweep_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--engine", choices=executors.EXECUTORS, default="serial", help="what runs the cells")
    sub.add_argument(
        "--scheduler", metavar="ADDRESS", help="of a Dask cluster; without it, one on this machine"
    )
    sub.add_argument("--workers", type=int, metavar="N", help="processes (default: one a processor)")
    sub.add_argument("--retry-failed", action="store_true", help="run failed cells again")
    sub.add_argument("--estimate", action="store_true", help="say first how long it will take, about")
    sub.add_argument(
        "--dry-run", action="store_true", help="say what is to do and how long it takes, then stop"
    )
