"""`swiftrl train`: one training run, whose options are the fields of `Learner` and `Schedule`."""

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from swiftrl_core import backend as backends
from swiftrl_core.backends.pim.binding import simulation_notice
from swiftrl_core.backends.pim.tuning import KERNELS
from swiftrl_core.cli.data import add_env, open_data
from swiftrl_core.cli.options import add_json, add_settings, flag, given, report
from swiftrl_core.dpusim.timing import HARDWARE_PROFILES
from swiftrl_core.learner import Learner
from swiftrl_core.sweeps import manifest
from swiftrl_core.sweeps.plan import ends_soon
from swiftrl_core.sweeps.results import PARTS
from swiftrl_core.training import loop
from swiftrl_core.training.loop import Schedule, TrainingResult
from swiftrl_core.util.errors import SwiftRLError

PIM_PARTS = ("CPU-PIM", "PIM kernel", "inter-PIM-core", "PIM-CPU")
OTHER_PARTS = ("load", "learn", "synchronise", "collect")
"""Names of the four parts of the time on PIM, in the paper's words, and on a machine that has no PIM."""
PIM_OPTIONS = ("tasklets", "kernel", "simulated_dpus", "hardware")


def add_train(parser: argparse.ArgumentParser) -> None:
    """Add the options of `swiftrl train`."""
    parser.usage = f"{parser.prog} --data DATA --out DIR [options]"
    parser.set_defaults(command=train)
    parser.add_argument(
        "--data",
        required=True,
        metavar="DATA",
        help="Parquet file, text file in the authors' format, or minari:ID",
    )
    add_env(parser)
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the tables and the manifest")
    add_json(parser, "the manifest")
    add_settings(parser.add_argument_group("learner"), Learner)
    add_settings(parser.add_argument_group("schedule"), Schedule, {"cores": "--dpus"})
    _add_backend(parser.add_argument_group("backend"))


def _add_backend(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--backend",
        choices=list(backends.BACKENDS),
        default="pim",
        help="machine to train on; `swiftrl doctor` lists which work here (default: pim)",
    )
    for name, details in {
        "tasklets": {
            "type": int,
            "metavar": "N",
            "help": "pim: tasklets of each DPU, up to 24 with --bootstrap frozen (default: 1)",
        },
        "kernel": {
            "choices": KERNELS,
            "help": "pim: the paper's kernel, or one tuned to the learner, with the same bits (default: paper)",
        },
        "simulated_dpus": {
            "type": int,
            "metavar": "N",
            "help": "pim: simulate only N DPUs, and check them against the CPU, which trains all (default: all)",
        },
        "hardware": {
            "metavar": "PROFILE",
            "help": f"pim: server to simulate, one of {', '.join(HARDWARE_PROFILES)}",
        },
    }.items():
        group.add_argument(flag(name), default=argparse.SUPPRESS, **details)


def train(options: argparse.Namespace) -> None:
    """Train a learner and write its tables and manifest."""
    schedule, backend_options = _schedule(options), _backend_options(options)
    if options.backend == "pim" and (notice := simulation_notice(backend_options.get("hardware"))):
        print(notice, file=sys.stderr if options.json else sys.stdout, flush=True)
    directory = manifest.prepare_directory(options.out)
    dataset = open_data(options.data, options.env)
    learner = _learner(options, dataset.reward_range)
    with (
        ends_soon(lambda: "interrupted; no result was written"),
        tqdm(total=schedule.episodes, unit="episode", disable=options.json or None) as bar,
    ):
        result = loop.train(
            dataset,
            learner,
            schedule,
            options.backend,
            on_round=lambda episodes, _: bar.update(episodes),
            **backend_options,
        )
    written = manifest.write_run(directory, dataset, learner, schedule, options.backend, result)
    report(options, written, _lines(directory, result, options.backend))


def _learner(options: argparse.Namespace, reward_range: tuple[float, float]) -> Learner:
    chosen = given(options, Learner)
    learner = Learner(**chosen, reward_range=reward_range)
    for name, choice in learner.without_effect.items():
        if name in chosen:
            raise SwiftRLError(
                f"{flag(name)} does not apply to {getattr(learner, choice)}: drop it, or use another {flag(choice)}"
            )
    return learner


def _schedule(options: argparse.Namespace) -> Schedule:
    chosen = given(options, Schedule)
    episodes = chosen.get("episodes", Schedule.episodes)
    tau = chosen.setdefault("tau", min(Schedule.tau, episodes))
    if tau > episodes:
        raise SwiftRLError(f"--tau {tau} is more than --episodes {episodes}: use a tau of at most {episodes}")
    return Schedule(**chosen)


def _backend_options(options: argparse.Namespace) -> dict:
    chosen = given(options, PIM_OPTIONS)
    if chosen and options.backend != "pim":
        name = next(iter(chosen))
        raise SwiftRLError(
            f"{flag(name)} does not apply to --backend {options.backend}: drop it, or use --backend pim"
        )
    return chosen


def _lines(directory: Path, result: TrainingResult, backend: str) -> list[str]:
    parts = result.breakdown
    names = PIM_PARTS if backend == "pim" else OTHER_PARTS
    return [
        f"{directory}: {result.updates:,} updates in {result.rounds} round{'s' * (result.rounds != 1)}",
        f"tables in each round: {result.round_bytes_down:,} bytes to the cores, {result.round_bytes_up:,} back",
        f"time, {parts.evidence} ({result.machine['name']}; averaging on the host is measured)",
        *(f"  {name:15} {getattr(parts, part):12.6f} s" for part, name in zip(PARTS, names, strict=True)),
    ]
