"""Hold the recommended recipes to their bars: 2,000 cores, the paper's data sizes, as many data sets as asked for.

    python benchmarks/fewer_updates.py [--seeds 10] [--cores 2000]

FrozenLake (1 M transitions), at most 20 M updates: every data set's table within 0.02 of the data's own fixed point;
the mean error against Q* at most 0.005 on average over the data sets, and nowhere 0.001 above the exact solution's,
below which the data do not reach. Taxi (5 M), at most 3 rounds and 100 M updates: return 7.93 on every data set.
FrozenLake 8x8 has no bar: no recipe was chosen by it. Prints a Markdown table; exits with 1 if a bar is missed.
"""

import argparse
import sys

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
    """Return a row a run."""
    found = []
    for environment, rows in ROWS.items():
        for seed in range(seeds):
            exact = Run(
                environment,
                transitions=rows,
                cores=1,
                episodes=1,
                tau=1,
                seed=seed,
                backend="exact",
                monte_carlo_episodes=0,
            )
            found.append({"recipe": "exact"} | exact.run())
            for name, recipe in RECIPES.items():
                episodes = 50 * ROUNDS_OF_THE_PAPER[environment] if name == "paper" else EPISODES[environment]
                for number_format in FORMATS if name != "paper" else FORMATS[:1]:
                    cell = Run(
                        environment,
                        transitions=rows,
                        number_format=number_format,
                        cores=cores,
                        episodes=episodes,
                        seed=seed,
                        backend="cpu",
                        monte_carlo_episodes=0,
                        **recipe,
                    )
                    found.append({"recipe": name} | cell.run())
    return pd.DataFrame(found)


def worst(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the worst of all data sets, by environment, recipe and number format."""
    by = ["environment", "recipe", "number_format"]
    floor = rows[rows["recipe"] == "exact"].set_index(["environment", "seed"])["mean_error_optimal"]
    rows = rows.join(floor.rename("floor"), on=["environment", "seed"])
    rows = rows.assign(above_model=rows["mean_error_optimal"] - rows["floor"])
    return rows.groupby(by, sort=False).agg(
        data_sets=("seed", "nunique"),
        updates_m=("nominal_updates", lambda updates: updates.max() / 1e6),
        rounds=("rounds", "max"),
        largest_max_error_empirical=("max_error_empirical", "max"),
        average_mean_error_optimal=("mean_error_optimal", "mean"),
        most_above_model=("above_model", "max"),
        least_return=("exact_return", "min"),
    )


def missed(table: pd.DataFrame) -> list[str]:
    """Return the bars that a recommended recipe missed, as sentences."""
    told = []
    for (environment, recipe, number_format), row in table.drop(
        index=["paper", "exact"], level="recipe"
    ).iterrows():
        name = f"{environment} {recipe} {number_format}"
        if environment == "frozenlake":
            if row["updates_m"] > 20 or row["largest_max_error_empirical"] > 0.02:
                told.append(
                    f"{name}: {row['largest_max_error_empirical']:.4f} from the data's own fixed point"
                )
            if row["average_mean_error_optimal"] > 0.005 or row["most_above_model"] > 0.001:
                told.append(f"{name}: mean error {row['average_mean_error_optimal']:.4f}")
        if environment == "taxi" and (
            row["rounds"] > 3 or row["updates_m"] > 100 or row["least_return"] < 7.93 - 1e-6
        ):
            told.append(f"{name}: return {row['least_return']:.3f}")
    return told


def main() -> int:
    """Run, print, and say what was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cores", type=int, default=2000)
    options = parser.parse_args()
    table = worst(runs(options.seeds, options.cores))
    shown = table.reset_index()
    print("| " + " | ".join(shown.columns) + " |\n|" + " --- |" * shown.shape[1])
    for row in shown.itertuples(index=False):
        print("| " + " | ".join(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) + " |")
    bars = missed(table)
    print("\n".join(bars) or "all bars hold")
    return int(bool(bars))


if __name__ == "__main__":
    sys.exit(main())
