"""Experiment 01, the quickstart: the learning curve, the four parts of the time, and the policy of one training."""

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from swiftrl_core.data import Dataset
from swiftrl_core.data.environments import Environment, resolve
from swiftrl_core.data.evaluation import check_shape, exact_return, greedy_policy, value_iteration
from swiftrl_core.experiments.experiment import Experiment, Plot
from swiftrl_core.learner import Learner
from swiftrl_core.plotting.style import COLUMN_INCHES, PARTS, evidence_of, new_figure, style
from swiftrl_core.training.loop import Schedule, TrainingResult, train
from swiftrl_core.util.errors import SwiftRLError

ARROWS = "←↓→↑"
"""FrozenLake's actions 0 to 3."""
TILES = {"S": "#d9e8f5", "F": "#d9e8f5", "H": "#3b5b7a", "G": "#f2c14e"}


def train_with_curve(
    environment: Environment,
    dataset: Dataset,
    learner: Learner,
    schedule: Schedule,
    backend: str,
    label: str,
    most_points: int | None = None,
) -> tuple[TrainingResult, pd.DataFrame]:
    """Train, and evaluate the table exactly after the rounds.

    Parameters
    ----------
    environment : Environment
    dataset : Dataset
    learner : Learner
    schedule : Schedule
    backend : str
    label : str
        Name of the curve in a figure.
    most_points : int, optional
        Maximum number of points; by default one for each round.

    Returns
    -------
    result : TrainingResult
    curve : DataFrame
        run (label), episodes, exact_return, optimum (the return of the greedy policy on Q*).
    """
    every = -(-len(schedule.rounds) // (most_points or len(schedule.rounds)))
    optimum = exact_return(environment, value_iteration(environment, learner.gamma))
    points, rounds, done = [], 0, 0

    def record(episodes: int, table: np.ndarray) -> None:
        nonlocal rounds, done
        rounds, done = rounds + 1, done + episodes
        if rounds % every == 0 or done == schedule.episodes:
            points.append((label, done, exact_return(environment, table), optimum))

    result = train(dataset, learner, schedule, backend, on_round=record)
    return result, pd.DataFrame(points, columns=["run", "episodes", "exact_return", "optimum"])


def table_breakdown(results: Mapping[str, TrainingResult]) -> pd.DataFrame:
    """Return the four parts of the time of some trainings.

    Parameters
    ----------
    results : mapping
        Label to what `train` returned.

    Returns
    -------
    DataFrame
        run (label), cpu_to_pim, pim_kernel, inter_pim_core, pim_to_cpu (seconds), evidence.
    """
    return pd.DataFrame(
        [
            {"run": label}
            | {part: getattr(result.breakdown, part) for part in PARTS}
            | {"evidence": result.breakdown.evidence}
            for label, result in results.items()
        ]
    )


@style()
def fig_breakdown(times: pd.DataFrame) -> Figure:
    """Draw the four parts of the time, one stacked bar for each training.

    Parameters
    ----------
    times : DataFrame
        Columns run (label), cpu_to_pim, pim_kernel, inter_pim_core, pim_to_cpu (seconds) and evidence.
    """
    figure = new_figure(COLUMN_INCHES, 1.1 + 0.28 * len(times))
    axes = figure.subplots()
    left = np.zeros(len(times))
    labels = [f"{run}\n({evidence})" for run, evidence in zip(times["run"], times["evidence"], strict=True)]
    for (part, name), colour in zip(PARTS.items(), sns.color_palette("colorblind"), strict=False):
        width = times[part].to_numpy() * 1e3
        axes.barh(labels, width, left=left, label=name, color=colour)
        left += width
    axes.set_xlabel(f"time (ms, {evidence_of(times)})")
    axes.invert_yaxis()
    figure.legend(loc="outside upper center", ncols=4, frameon=False, columnspacing=1, handlelength=1)
    return figure


def policy_on_map(environment: str | Environment, q: np.ndarray) -> pd.DataFrame:
    """Return the greedy policy tile by tile, for an environment whose states are the tiles of a letter map.

    Parameters
    ----------
    environment : str or Environment
        FrozenLake of any size: `desc` holds its map, a letter a tile.
    q : (S, A) numbers
        The Q-table.

    Returns
    -------
    DataFrame
        One row a state: row, column, tile (a letter), action (greedy, lowest of equals), value (its Q).

    Raises
    ------
    SwiftRLError
        If the environment has no map with a tile for each state, or the table does not fit.
    """
    environment = resolve(environment)
    check_shape(environment, q, "Q-table")
    tiles = getattr(environment.make().unwrapped, "desc", None)
    if tiles is None or np.size(tiles) != environment.n_states:
        raise SwiftRLError(f"{environment.env_id} has no map with one tile for each state; use FrozenLake")
    row, column = np.divmod(np.arange(environment.n_states), np.shape(tiles)[1])
    letters = [tile.decode() for tile in np.ravel(tiles)]
    action = greedy_policy(q).argmax(axis=1)
    return pd.DataFrame(
        {"row": row, "column": column, "tile": letters, "action": action, "value": np.max(q, axis=1)}
    )


@style()
def fig_policy(policy: pd.DataFrame) -> Figure:
    """Draw a greedy policy on FrozenLake's map: an arrow for each state, over its value.

    Parameters
    ----------
    policy : DataFrame
        One row a tile: row, column, tile (S, F, H or G), action (0 left, 1 down, 2 right, 3 up), value.
    """
    rows, columns = policy["row"].max() + 1, policy["column"].max() + 1
    figure = new_figure(COLUMN_INCHES, COLUMN_INCHES * rows / columns)
    axes = figure.subplots()
    for tile in policy.itertuples():
        axes.add_patch(
            mpl.patches.Rectangle(
                (tile.column, tile.row), 1, 1, facecolor=TILES[tile.tile], edgecolor="white", lw=2
            )
        )
        if tile.tile in "SF":
            x, y = tile.column + 0.5, tile.row + 0.5
            axes.text(x, y - 0.05, ARROWS[tile.action], ha="center", va="center", size=13)
            axes.text(x, y + 0.33, f"{tile.value:.3f}", ha="center", va="center", size=6, color="#333333")
        elif tile.tile == "G":
            axes.text(tile.column + 0.5, tile.row + 0.5, "goal", ha="center", va="center")
    axes.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[], aspect="equal")
    axes.set_title("greedy action and its value; dark tiles are holes")
    sns.despine(ax=axes, left=True, bottom=True)
    return figure


@style()
def fig_learning_curve(curve: pd.DataFrame) -> Figure:
    """Draw the exact return after each round against the optimum.

    Parameters
    ----------
    curve : DataFrame
        Columns run (label), episodes, exact_return, optimum.
    """
    figure = new_figure(COLUMN_INCHES, 2.2)
    axes = figure.subplots()
    runs = curve.groupby("run", sort=False)
    palette = sns.color_palette("colorblind", len(runs))
    for number, ((run, rows), colour) in enumerate(zip(runs, palette, strict=True)):
        ring = {
            "marker": "o",
            "ms": 3 + 2.5 * number,
            "mfc": "none",
        }  # rings in rings: equal curves both show
        axes.plot(rows["episodes"], rows["exact_return"], **ring, lw=1, color=colour, label=run)
    for optimum in curve["optimum"].unique():
        axes.axhline(optimum, color="black", lw=0.8, ls="--", label=f"optimum {optimum:.4f}")
    axes.set(xlabel="episodes (passes over the data)", ylabel="exact expected return")
    axes.legend(frameon=False, loc="lower right")
    return figure


EXPERIMENT = Experiment(
    id="01_quickstart",
    question="Can processors inside the memory learn to cross a frozen lake, and what does the arithmetic cost them?",
    figures=(
        Plot("learning_curve", fig_learning_curve),
        Plot("time_breakdown", fig_breakdown),
        Plot("policy", fig_policy),
    ),
)
