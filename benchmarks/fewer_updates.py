"""The recommended recipes against their bars: `swiftrl bench --only fewer-updates [--seeds 10] [--cores 2000]`.

FrozenLake (1 M transitions), at most 20 M updates: the table of every data set is within 0.02 of the data's own fixed
point; the mean error against Q* is at most 0.005 on average over the data sets, and nowhere 0.001 above that of the
exact solution, which is the smallest that the data allow. Taxi (5 M), at most 3 rounds and 100 M updates: return 7.93
on every data set. FrozenLake 8x8 has no bar, because no recipe was chosen by it.
"""

import pandas as pd

from swiftrl_core.experiments import grids
from swiftrl_core.sweeps.run import Run

PAPER = {"aggregation": "mean", "tau": 50}
RECIPES = {"paper": PAPER, "safe": grids.SAFE, "fast": grids.FAST}
EPISODES = {"frozenlake": 20, "taxi": 6, "frozenlake8x8": 20}
"""Passes of the recommended recipes: 20 M updates; 3 rounds and 30 M; 20 M."""
ROUNDS_OF_THE_PAPER = {"frozenlake": 8, "taxi": 8, "frozenlake8x8": 8}
ROWS = {**grids.PAPER_ROWS, "frozenlake8x8": 1_000_000}
FORMATS = ("FP32", "INT32")


def runs(seeds: int, cores: int) -> pd.DataFrame:
    """Execute the exact solution and every recipe on each data set; return a row for each run."""
    found = []
    for environment, transitions in ROWS.items():
        for seed in range(seeds):
            shared = {
                "environment": environment,
                "transitions": transitions,
                "seed": seed,
                "monte_carlo_episodes": 0,
            }
            exact = Run(**shared, cores=1, episodes=1, tau=1, backend="exact")
            found.append({"recipe": "exact"} | exact.run())
            for name, recipe in RECIPES.items():
                episodes = 50 * ROUNDS_OF_THE_PAPER[environment] if name == "paper" else EPISODES[environment]
                for number_format in FORMATS if name != "paper" else FORMATS[:1]:
                    run = Run(
                        **shared,
                        number_format=number_format,
                        cores=cores,
                        episodes=episodes,
                        backend="cpu",
                        **recipe,
                    )
                    found.append({"recipe": name} | run.run())
    return pd.DataFrame(found)


def worst(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the worst over all data sets, by environment, recipe and number format."""
    by = ["environment", "recipe", "number_format"]
    floor = rows[rows["recipe"] == "exact"].set_index(["environment", "seed"])["mean_error_optimal"]
    rows = rows.join(floor.rename("floor"), on=["environment", "seed"])
    rows = rows.assign(above_exact=rows["mean_error_optimal"] - rows["floor"])
    return rows.groupby(by, sort=False).agg(
        data_sets=("seed", "nunique"),
        updates_m=("nominal_updates", lambda updates: updates.max() / 1e6),
        rounds=("rounds", "max"),
        largest_max_error_empirical=("max_error_empirical", "max"),
        average_mean_error_optimal=("mean_error_optimal", "mean"),
        most_above_exact=("above_exact", "max"),
        least_return=("exact_return", "min"),
    )


def rows(seeds: int = 10, cores: int = 2000) -> list[dict]:
    """Train all recipes; return the worst over the data sets for each environment, recipe and number format.

    Parameters
    ----------
    seeds : int
        Data sets of each environment, with seeds from 0.
    cores : int
        PIM cores of the recipes.
    """
    return worst(runs(seeds, cores)).reset_index().to_dict("records")


def table(measured: list[dict]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| " + " | ".join(measured[0]) + " |", "|" + " --- |" * len(measured[0])]
    for row in measured:
        values = (f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values())
        lines.append("| " + " | ".join(values) + " |")
    return "\n".join(lines)


def missed(measured: list[dict]) -> list[str]:
    """Return the bars that a recommended recipe missed, a sentence each."""
    found = []
    for row in measured:
        if row["recipe"] in ("paper", "exact"):
            continue
        name = f"{row['environment']} {row['recipe']} {row['number_format']}"
        if row["environment"] == "frozenlake":
            distance, error = row["largest_max_error_empirical"], row["average_mean_error_optimal"]
            if row["updates_m"] > 20 or distance > 0.02:
                found.append(f"{name}: {distance:.4f} from the data's own fixed point")
            if error > 0.005 or row["most_above_exact"] > 0.001:
                found.append(f"{name}: mean error {error:.4f}")
        if row["environment"] == "taxi" and (
            row["rounds"] > 3 or row["updates_m"] > 100 or row["least_return"] < 7.93 - 1e-6
        ):
            found.append(f"{name}: return {row['least_return']:.3f}")
    return found
