"""Experiment 10: the updates, rounds and bytes that recipes need to learn, and how they depend on the cores."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.experiments.grids import (
    FAST,
    PAPER_CORES,
    PAPER_ROWS,
    PAPER_SEEDS,
    QUICK_ROWS,
    QUICK_SEEDS,
    RECORD_BYTES,
    SAFE,
    SMOKE_ROWS,
    SMOKE_SEEDS,
    by_environment,
    solved,
)
from swiftrl_core.plotting import captions
from swiftrl_core.plotting.intervals import bars_of, means_over, on_most_cores, over_seeds
from swiftrl_core.plotting.style import (
    NAMES,
    PAGE_INCHES,
    colour,
    count_ticks,
    legend_above,
    named,
    new_figure,
    note,
    plain_log_ticks,
    style,
)

PASSES = 50
"""Passes over the data after which recipes are compared by cores: one round of the paper's tau."""
QUALITY = ["exact_return", "max_error_empirical", "mean_error_optimal"]
LABELS = {
    "exact_return": "exact return",
    "max_error_empirical": "max |Q - fixed point|",
    "mean_error_optimal": "mean |Q - Q*|",
    "updates_m": "updates (M)",
    "rounds": "rounds",
    "table_mb": "tables, both ways (MB)",
}
LEAST_ERROR = 1e-4
"""Lower end of error axes: one unit of INT32, far below the differences that change a policy."""
LOOKS = ("o", "s", "^", "v", "D", "P", "X", "*")

RECIPES: tuple[Mapping[str, Any], ...] = (
    {"tau": 50, "aggregation": ("mean", "count")},
    {"tau": 1, "aggregation": ("mean", "count")},
    SAFE,
    FAST,
)
"""The paper's mean and count weights, each with large and small tau; then the two recommended recipes."""


def _recipes(
    transitions: Mapping[str, int], passes: Mapping[int, tuple[int, ...]], **grid: Any
) -> tuple[Mapping[str, Any], ...]:
    """Return grids of all recipes after fewer and more passes, by their tau, and of the exact solution.

    Every point of a curve is a separate run that stops there.
    """
    # The seed changes slowest, so that a data set is made once for all runs on it.
    grids = [
        {"seed": grid["seed"], **recipe, "episodes": passes[recipe["tau"]], **grid} for recipe in RECIPES
    ]
    common = {"backend": "cpu", "monte_carlo_episodes": 0}
    curves = tuple(entry for each in grids for entry in by_environment(transitions, **each, **common))
    return *curves, *solved(transitions, seed=grid["seed"], episodes=1, tau=1, monte_carlo_episodes=0)


SIZES = {
    "smoke": _recipes(
        SMOKE_ROWS | {"frozenlake8x8": 4_000},
        {50: (50,), 1: (1, 10), 2: (2, 10)},
        cores=(8, 64),
        seed=SMOKE_SEEDS,
    ),
    "quick": _recipes(
        QUICK_ROWS | {"frozenlake8x8": 200_000},
        {50: (50, 100, 200, 500), 1: (1, 2, 4, 8, 20, 40), 2: (2, 4, 8, 12, 20, 40)},
        cores=(125, 1000),
        seed=QUICK_SEEDS,
    ),
    "paper": _recipes(
        PAPER_ROWS | {"frozenlake8x8": 1_000_000},
        {50: (50, 100, 200, 500, 1000), 1: (1, 2, 4, 8, 20, 40), 2: (2, 4, 8, 12, 20, 40)},
        cores=PAPER_CORES,
        seed=PAPER_SEEDS,
    ),
}


def recipe_of(row) -> str:
    """Name the recipe of a row: update, aggregation, sampling, bootstrap and alpha beyond the defaults, and tau."""
    words = [row.update, row.aggregation, row.sampling if row.sampling != "SEQ" else ""]
    words.append(row.bootstrap if row.bootstrap != "current" else "")
    words.append(
        "alpha falls" if pd.isna(row.alpha) else f"alpha {row.alpha:g}" if row.update == "vr" else ""
    )
    return " ".join(filter(None, words)) + f", tau {row.tau}"


def table_recipes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return quality and cost of every recipe after every number of passes, and of the exact solution.

    Returns
    -------
    DataFrame
        environment, transitions, cores, recipe (`exact` for the exact solution), episodes, rounds, optimum, updates_m
        (million nominal updates; for the exact solution the transitions it counts), table_mb (million bytes of
        tables, broadcast and gathered, without the chunks), seeds; exact_return, max_error_empirical and
        mean_error_optimal, means with intervals over seeds.
    """
    rows = _in_order(rows)
    exact = rows["backend"] == "exact"
    rows = rows.assign(
        recipe=["exact" if row.backend == "exact" else recipe_of(row) for row in rows.itertuples()],
        updates_m=rows["nominal_updates"].where(~exact, rows["transitions"]) / 1e6,
        table_mb=_table_bytes(rows) / 1e6,
    )
    by = [
        "environment",
        "transitions",
        "cores",
        "recipe",
        "episodes",
        "rounds",
        "optimum",
        "updates_m",
        "table_mb",
    ]
    return over_seeds(rows, by, QUALITY)


def table_fewer_updates(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `table_recipes` on the most cores, and of the exact solution."""
    table = table_recipes(rows)
    exact = table["recipe"] == "exact"
    return table[exact | (table["cores"] == table.loc[~exact, "cores"].max())]


table_what_it_costs = table_fewer_updates


def table_recipes_by_cores(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `table_recipes` after the most passes up to `PASSES`, and of the exact solution."""
    table = table_recipes(rows)
    learned = table[(table["recipe"] != "exact") & (table["episodes"] <= PASSES)]
    last = learned.loc[learned.groupby(["environment", "recipe", "cores"], sort=False)["episodes"].idxmax()]
    return pd.concat([last.sort_values("cores", kind="stable"), table[table["recipe"] == "exact"]])


def fig_fewer_updates(rows: pd.DataFrame) -> Figure:
    """Draw quality against updates on the most cores: a row of panels for each environment, a column a measure."""
    return _panels(table_fewer_updates(rows), [("updates_m", measure) for measure in QUALITY])


def fig_what_it_costs(rows: pd.DataFrame) -> Figure:
    """Draw the distance to the data's own fixed point against updates, rounds and bytes, on the most cores."""
    costs = ("updates_m", "rounds", "table_mb")
    return _panels(table_what_it_costs(rows), [(cost, "max_error_empirical") for cost in costs])


def fig_recipes_by_cores(rows: pd.DataFrame) -> Figure:
    """Draw the quality of recipes within a budget of passes, against the number of cores."""
    sentence = f"Each recipe after at most {PASSES} passes over the data."
    return _panels(table_recipes_by_cores(rows), [("cores", measure) for measure in QUALITY], [sentence])


@style()
def _panels(table: pd.DataFrame, columns: Sequence[tuple[str, str]], sentences: Sequence[str] = ()) -> Figure:
    """Return a figure with a row for each environment and a panel for each pair of a cost and a measure."""
    recipes = [name for name in table["recipe"].unique() if name != "exact"]
    groups = list(table.groupby("environment", sort=False))
    figure = new_figure(PAGE_INCHES, 1.5 + 1.65 * len(groups))
    panels = figure.subplots(len(groups), len(columns), squeeze=False)
    for line, (environment, own) in zip(panels, groups, strict=True):
        for axes, (cost, measure) in zip(line, columns, strict=True):
            for place, recipe in enumerate(recipes):
                _curve(axes, own[own["recipe"] == recipe], cost, measure, place)
            _references(axes, own, measure)
            _scales(axes, own, cost, measure)
            axes.set_ylabel(LABELS[measure])
        line[0].set_ylabel(f"{named(environment)}\n{LABELS[columns[0][1]]}")
    for axes, (cost, _) in zip(panels[-1], columns, strict=True):
        axes.set_xlabel(LABELS.get(cost, cost))
    legend_above(figure, panels[0, 0], columns=4)
    note(figure, [*sentences, *_sentences(table)])
    return figure


def _curve(axes: Axes, some: pd.DataFrame, cost: str, measure: str, place: int) -> None:
    # Smaller and smaller, so that one curve under another still shows.
    look = {"color": colour(place), "marker": LOOKS[place], "ms": 5.5 - place / 2, "lw": 1, "elinewidth": 0.8}
    shown = some[measure].clip(lower=LEAST_ERROR) if "error" in measure else some[measure]
    bars = bars_of(some, measure)
    axes.errorbar(some[cost], shown, bars, label=some["recipe"].iloc[0], **look)


def _references(axes: Axes, own: pd.DataFrame, measure: str) -> None:
    """Draw the value of the exact solution of the same data, and the optimal return."""
    exact = own.loc[own["recipe"] == "exact", measure]
    if measure == "exact_return":
        axes.axhline(own["optimum"].max(), color="black", lw=0.8, ls="--", label="optimum")
    if len(exact):
        axes.axhline(max(exact.iloc[0], LEAST_ERROR), color="#777777", lw=1, ls=":", label="exact solution")


def _scales(axes: Axes, own: pd.DataFrame, cost: str, measure: str) -> None:
    axes.set_xscale("log")
    if cost == "cores":
        count_ticks(axes.xaxis, own.loc[own["recipe"] != "exact", "cores"])
    else:
        plain_log_ticks(axes.xaxis)
    if "error" in measure:
        drawn = own[measure].clip(
            lower=LEAST_ERROR
        )  # no logarithm of 0: data without a reward have no error at all
        axes.set_ylim(drawn.min() / 1.5, drawn.max() * 1.5)
        axes.set_yscale("log")
        plain_log_ticks(axes.yaxis)
    elif own[measure].min() < -20:
        axes.set_yscale("symlog", linthresh=10)
        axes.set_yticks([-100, -10, 0, 10], ["-100", "-10", "0", "10"])


def _sentences(table: pd.DataFrame) -> list[str]:
    cores = table.loc[table["recipe"] != "exact", "cores"]
    sizes = table.groupby("environment", sort=False)["transitions"].max().items()
    transitions = ", ".join(f"{named(name)} {count / 1e6:g} M" for name, count in sizes)
    size = f"{cores.max():,}" if cores.nunique() == 1 else f"{cores.min():,} to {cores.max():,}"
    return [
        f"{size} cores; transitions: {transitions}; {means_over(table)}. Errors below {LEAST_ERROR:g} are drawn there.",
        "Fixed point: that of Q-learning on all of the data. The exact solution reaches it, so its distance is 0.",
    ]


def table_needed(rows: pd.DataFrame, measure: str, within: float) -> pd.DataFrame:
    """Return the passes, rounds, updates and bytes after which each recipe is good on every data set, and stays so.

    Parameters
    ----------
    rows : DataFrame
        Rows of training runs.
    measure : str
        `exact_return`, good where it is below the optimum by at most `within` times its absolute value; or a column of
        errors, good where at most `within`.
    within : float

    Returns
    -------
    DataFrame
        environment, cores, recipe, episodes, rounds, updates_m, table_mb, seeds; NaN where a recipe never is.
    """
    learned = _in_order(rows[rows["backend"] != "exact"])
    learned = learned.assign(
        recipe=[recipe_of(row) for row in learned.itertuples()],
        updates_m=learned["nominal_updates"] / 1e6,
        table_mb=_table_bytes(learned) / 1e6,
    )
    costs, found = ["episodes", "rounds", "updates_m", "table_mb"], []
    for (environment, cores, recipe), own in learned.groupby(["environment", "cores", "recipe"], sort=False):
        short = own["optimum"] - own[measure] if measure == "exact_return" else own[measure]
        allowed = within * own["optimum"].abs() if measure == "exact_return" else within
        episodes = first_that_lasts((short <= allowed).groupby(own["episodes"]).all())
        entry = {"environment": environment, "cores": cores, "recipe": recipe}
        entry |= (
            dict.fromkeys(costs)
            if episodes is None
            else own[own["episodes"] == episodes].iloc[0][costs].to_dict()
        )
        found.append(entry | {"seeds": own["seed"].nunique()})
    return pd.DataFrame(found)


def first_that_lasts(good: pd.Series) -> int | None:
    """Return the smallest index from which on all of a series is true, or None."""
    stays = good.sort_index()[::-1].cummin()[::-1]
    return int(stays.idxmax()) if stays.any() else None


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows by environment, ordered from the paper's recipe to the one that differs most from it."""
    places = {name: place for place, name in enumerate(NAMES)}
    ranked = rows.assign(
        place=rows["environment"].map(places).fillna(len(places)),
        weighted=rows["aggregation"] != "mean",
        small_tau=-rows["tau"],
        constant=rows["alpha"].notna(),
    )
    by = ["place", "environment", "update", "small_tau", "weighted", "constant", "cores", "episodes", "seed"]
    return rows.loc[ranked.sort_values(by).index]


def _table_bytes(rows):
    """Return the bytes of all tables that a run sent; the bytes of its chunks are left out."""
    return rows["bytes_communicated"] - RECORD_BYTES * rows["transitions"]


def summary_aggregation(rows: pd.DataFrame) -> Summary:
    """Return what the best recipe and the paper's need on the most cores, on every data set."""
    sentences = []
    most = rows["nominal_updates"].groupby(rows["environment"]).max() / 1e6
    goals = (
        ("return within 1 % of the optimum", "exact_return", 0.01),
        ("table within 0.02 of the data's own fixed point", "max_error_empirical", 0.02),
    )
    for goal, measure, within in goals:
        table = on_most_cores(table_needed(rows, measure, within))
        for environment, own in table.groupby("environment", sort=False):
            paper, needed = own.iloc[0], own["updates_m"]
            start = (
                f"{named(environment)}, {captions.cores(paper['cores'])}, {own['seeds'].max()} data sets: "
            )
            if needed.isna().all():
                sentences.append(f"{start}no recipe ends with a {goal} on all of them.")
                continue
            best = own.loc[needed.idxmin()]
            papers = (
                f"does not reach it within {most[environment]:,.4g} M."
                if pd.isna(paper["updates_m"])
                else f"needs {paper['updates_m']:,.4g} M in {paper['rounds']:.0f}."
            )
            sentences.append(
                f"{start}a {goal} takes `{best['recipe']}` {best['updates_m']:,.3g} M updates in "
                f"{best['rounds']:.0f} rounds; the paper's recipe, `{paper['recipe']}`, {papers}"
            )
    return Summary(sentences)


EXPERIMENT = Experiment(
    id="10_aggregation",
    question="How many updates, rounds and bytes does learning need if tables are weighted by what each core saw?",
    sizes=SIZES,
    figures=(
        Plot("fewer_updates", fig_fewer_updates, table_fewer_updates, summary_aggregation),
        Plot("what_it_costs", fig_what_it_costs, table_what_it_costs),
        Plot("recipes_by_cores", fig_recipes_by_cores, table_recipes_by_cores),
    ),
)
