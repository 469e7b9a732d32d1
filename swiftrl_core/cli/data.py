"""Data sets and their evaluation: `swiftrl collect`, `swiftrl convert`, `swiftrl evaluate`."""

import argparse
import zipfile

import numpy as np

from swiftrl_core.cli import minari
from swiftrl_core.cli.options import add_json, report
from swiftrl_core.data import Dataset, environments, evaluation, files, write_text
from swiftrl_core.data import collect as log
from swiftrl_core.learner import Learner
from swiftrl_core.util.errors import SwiftRLError


def add_collect(parser: argparse.ArgumentParser) -> None:
    """Add the options of `swiftrl collect`."""
    parser.set_defaults(command=collect)
    parser.add_argument(
        "--env", required=True, help="frozenlake, frozenlake8x8, taxi, cliffwalking or a Gymnasium id"
    )
    parser.add_argument(
        "--transitions", type=int, required=True, metavar="N", help="number of transitions to log"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the policy and the environment (default: 0)"
    )
    parser.add_argument("--out", required=True, metavar="FILE.parquet", help="file to write")


def collect(options: argparse.Namespace) -> None:
    """Log transitions of a uniform random policy to a Parquet file."""
    if not files.is_parquet(options.out):
        raise SwiftRLError(f"--out {options.out}: collect writes Parquet, so name the file *.parquet")
    dataset = log(options.env, options.transitions, options.seed)
    files.save(dataset, options.out)
    print(f"{options.out}: {len(dataset):,} transitions of {dataset.metadata['env_id']}")


def add_convert(parser: argparse.ArgumentParser) -> None:
    """Add the options of `swiftrl convert`."""
    parser.set_defaults(command=convert)
    parser.add_argument(
        "input", metavar="IN", help="Parquet file, text file in the authors' format, or minari:ID"
    )
    parser.add_argument(
        "output", metavar="OUT", help="*.parquet for Parquet, minari:ID for Minari, any other name for text"
    )
    add_env(parser)
    parser.add_argument("--large", action="store_true", help="allow more than 1 GB in Minari")


def convert(options: argparse.Namespace) -> None:
    """Convert a data set; the names of input and output decide the formats."""
    dataset = open_data(options.input, options.env)
    if exported := minari.named(options.output):
        _export_to_minari(dataset, exported, options.large)
    else:
        write = files.save if files.is_parquet(options.output) else write_text
        write(dataset, options.output)
    print(f"{options.output}: {len(dataset):,} transitions")


def add_env(parser: argparse.ArgumentParser) -> None:
    """Add `--env` for commands that read data."""
    parser.add_argument(
        "--env", help="environment the data come from; required for text, stored in the other formats"
    )


def open_data(source: str, env: str | None) -> Dataset:
    """Read a Parquet or text file, or a data set of Minari's."""
    if dataset_id := minari.named(source):
        return minari.load(dataset_id, env)
    return files.open_data(source, env)


def _export_to_minari(dataset: Dataset, dataset_id: str, large: bool) -> None:
    expected = minari.estimate(dataset)
    print(f"Minari will take {expected}", flush=True)
    if expected.bytes > minari.LARGE_BYTES and not large:
        raise SwiftRLError("that is more than 1 GB in Minari: export fewer transitions, or pass --large")
    minari.save(dataset, dataset_id)


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the options of `swiftrl evaluate`."""
    parser.set_defaults(command=evaluate)
    parser.add_argument("--env", required=True, help="environment to evaluate in")
    parser.add_argument("--q-table", required=True, metavar="FILE.npy", help="q_table.npy of a run")
    parser.add_argument(
        "--gamma",
        type=float,
        default=Learner.gamma,
        metavar="X",
        help="discount factor of the optimum to compare with (default: %(default)s)",
    )
    parser.add_argument(
        "--ties",
        choices=("lowest", "mean"),
        default="lowest",
        help="greedy choice among equal values: the lowest action, or the mean over all (default: lowest)",
    )
    parser.add_argument(
        "--episodes", type=int, default=1000, metavar="N", help="episodes to play (default: 1000)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the episodes (default: 0)")
    add_json(parser)


def evaluate(options: argparse.Namespace) -> None:
    """Compute the return of the greedy policy of a Q-table, exactly and over seeded episodes."""
    environment = environments.resolve(options.env)
    q = _read_table(options.q_table)
    optimum = evaluation.value_iteration(environment, options.gamma)
    mean, error = evaluation.monte_carlo_return(environment, q, episodes=options.episodes, seed=options.seed)
    content = {
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
        f"exact return        {content['exact_return']:.5f}",
        f"optimum             {content['optimum']:.5f}   (greedy on Q* at gamma {options.gamma:g})",
        f"{options.episodes:,} episodes      {mean:.5f} +- {error:.5f}",
    ]
    report(options, content, lines)


def _read_table(path: str) -> np.ndarray:
    try:
        table = np.load(path)
    except OSError as error:
        raise SwiftRLError(f"cannot read {path} ({error.strerror}): name the q_table.npy of a run") from error
    except (ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise SwiftRLError(
            f"{path} is not a readable .npy table ({error}): name the q_table.npy of a run"
        ) from error
    if not np.issubdtype(table.dtype, np.floating) or not np.isfinite(table).all():
        raise SwiftRLError(
            f"{path} does not hold finite values in floating point: name the q_table.npy of a run"
        )
    return table
