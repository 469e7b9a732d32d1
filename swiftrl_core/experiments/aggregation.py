"""Figures about aggregation and update: what a recipe needs to learn, in updates, rounds and bytes."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swiftrl_core.plotting.intervals import bars_of, over_seeds
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

RECORD_BYTES = 8  # of a transition on its way to a core, once
PASSES = 50
"""Passes over the data after which recipes are compared by cores: what the paper's tau makes in one round."""
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
"""Where axes of errors end: a unit of INT32, and far below what a policy could tell apart."""
LOOKS = ("o", "s", "^", "v", "D", "P", "X", "*")


def recipe_of(row) -> str:
    """Return what a row's learner does beyond algorithm and number format, and how often its cores talk."""
    words = [row.update, row.aggregation, row.sampling if row.sampling != "SEQ" else ""]
    words.append(row.bootstrap if row.bootstrap != "current" else "")
    words.append(
        "alpha falls" if pd.isna(row.alpha) else f"alpha {row.alpha:g}" if row.update == "vr" else ""
    )
    return " ".join(filter(None, words)) + f", tau {row.tau}"


def table_recipes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return quality and cost of every recipe after every number of passes, and of the model.

    Returns
    -------
    DataFrame
        environment, transitions, cores, recipe (`exact` for the exact solution), episodes, rounds, optimum, updates_m
        (million nominal updates; the model's are the transitions it counts), table_mb (million bytes of tables, down to
        the cores and up, chunks apart), seeds; exact_return, max_error_empirical and mean_error_optimal, means with
        intervals over seeds.
    """
    rows = _in_order(rows)
    solved = rows["backend"] == "exact"
    told = rows.assign(
        recipe=["exact" if row.backend == "exact" else recipe_of(row) for row in rows.itertuples()],
        updates_m=rows["nominal_updates"].where(~solved, rows["transitions"]) / 1e6,
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
    return over_seeds(told, by, QUALITY)


def table_fewer_updates(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `table_recipes` on the most cores, and of the model."""
    table = table_recipes(rows)
    solved = table["recipe"] == "exact"
    return table[solved | (table["cores"] == table.loc[~solved, "cores"].max())]


table_what_it_costs = table_fewer_updates


def table_recipes_by_cores(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `table_recipes` after the most passes up to `PASSES`, and of the model."""
    table = table_recipes(rows)
    learned = table[(table["recipe"] != "exact") & (table["episodes"] <= PASSES)]
    last = learned.loc[learned.groupby(["environment", "recipe", "cores"], sort=False)["episodes"].idxmax()]
    return pd.concat([last.sort_values("cores", kind="stable"), table[table["recipe"] == "exact"]])


def fig_fewer_updates(rows: pd.DataFrame) -> Figure:
    """Draw quality against updates on the most cores: a line an environment, a column a measure.

    Parameters
    ----------
    rows : DataFrame
        Rows of `results.COLUMNS`; see `table_fewer_updates`.

    Returns
    -------
    Figure, a page wide
    """
    return _panels(table_fewer_updates(rows), [("updates_m", measure) for measure in QUALITY])


def fig_what_it_costs(rows: pd.DataFrame) -> Figure:
    """Draw the distance to the data's own fixed point against updates, rounds and bytes, on the most cores.

    Parameters and returns as for `fig_fewer_updates`.
    """
    costs = ("updates_m", "rounds", "table_mb")
    return _panels(table_what_it_costs(rows), [(cost, "max_error_empirical") for cost in costs])


def fig_recipes_by_cores(rows: pd.DataFrame) -> Figure:
    """Draw what recipes come to within a budget of passes, against the number of cores.

    Parameters and returns as for `fig_fewer_updates`.
    """
    said = f"Each recipe where it stands after at most {PASSES} passes over the data."
    return _panels(table_recipes_by_cores(rows), [("cores", measure) for measure in QUALITY], [said])


def _panels(table: pd.DataFrame, columns: Sequence[tuple[str, str]], said: Sequence[str] = ()) -> Figure:
    """Return a figure with a line an environment and a panel for each pair of a cost and a measure."""
    recipes = [name for name in table["recipe"].unique() if name != "exact"]
    groups = list(table.groupby("environment", sort=False))
    with style():
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
        note(figure, [*said, *_sentences(table)])
    return figure


def _curve(axes: Axes, some: pd.DataFrame, cost: str, measure: str, place: int) -> None:
    # Smaller and smaller, so that one curve under another still shows.
    look = {"color": colour(place), "marker": LOOKS[place], "ms": 5.5 - place / 2, "lw": 1, "elinewidth": 0.8}
    shown = some[measure].clip(lower=LEAST_ERROR) if "error" in measure else some[measure]
    bars = bars_of(some, measure)
    axes.errorbar(some[cost], shown, bars, label=some["recipe"].iloc[0], **look)


def _references(axes: Axes, own: pd.DataFrame, measure: str) -> None:
    """Draw what the exact solution of the same data comes to, and the best return."""
    solved = own.loc[own["recipe"] == "exact", measure]
    if measure == "exact_return":
        axes.axhline(own["optimum"].max(), color="black", lw=0.8, ls="--", label="optimum")
    if len(solved):
        axes.axhline(
            max(solved.iloc[0], LEAST_ERROR), color="#777777", lw=1, ls=":", label="model, exactly solved"
        )


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
    told = ", ".join(f"{named(name)} {count / 1e6:g} M" for name, count in sizes)
    size = f"{cores.max():,}" if cores.nunique() == 1 else f"{cores.min():,} to {cores.max():,}"
    return [
        f"{size} cores; transitions: {told}. Means over {table['seeds'].max()} data sets, 95 % bootstrap intervals; "
        f"errors below {LEAST_ERROR:g} are drawn there.",
        "Fixed point: Q-learning's on all of the data, which the model solves exactly, so its distance is 0.",
    ]


def table_needed(rows: pd.DataFrame, measure: str, within: float) -> pd.DataFrame:
    """Return what each recipe needed until it was good, and stayed so, on every data set.

    Parameters
    ----------
    rows : DataFrame
        Rows of `results.COLUMNS`.
    measure : str
        `exact_return`, good where it falls short of the optimum by at most `within` times the optimum's size; or a
        column of errors, good where at most `within`.
    within : float

    Returns
    -------
    DataFrame
        environment, cores, recipe, episodes, rounds, updates_m, table_mb, seeds; NaN where a recipe never was.
    """
    told = []
    learned = _in_order(rows[rows["backend"] != "exact"])
    learned = learned.assign(recipe=[recipe_of(row) for row in learned.itertuples()])
    for (environment, cores, recipe), own in learned.groupby(["environment", "cores", "recipe"], sort=False):
        short = own["optimum"] - own[measure] if measure == "exact_return" else own[measure]
        allowed = within * own["optimum"].abs() if measure == "exact_return" else within
        episodes = first_that_lasts((short <= allowed).groupby(own["episodes"]).all())
        first = None if episodes is None else own[own["episodes"] == episodes].iloc[0]
        told.append(
            {
                "environment": environment,
                "cores": cores,
                "recipe": recipe,
                "episodes": None if first is None else first["episodes"],
                "rounds": None if first is None else first["rounds"],
                "updates_m": None if first is None else first["nominal_updates"] / 1e6,
                "table_mb": None if first is None else _table_bytes(first) / 1e6,
                "seeds": own["seed"].nunique(),
            }
        )
    return pd.DataFrame(told)


def first_that_lasts(good: pd.Series) -> int | None:
    """Return the smallest index from which on all of a series is true, or None."""
    stays = good.sort_index()[::-1].cummin()[::-1]
    return int(stays.idxmax()) if stays.any() else None


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows environment by environment, the paper's way first and what is farthest from it last."""
    places = {name: place for place, name in enumerate(NAMES)}
    ranked = rows.assign(
        place=rows["environment"].map(places).fillna(len(places)),
        weighs=rows["aggregation"] != "mean",
        seldom=-rows["tau"],
        falls=rows["alpha"].notna(),
    )
    by = ["place", "environment", "update", "seldom", "weighs", "falls", "cores", "episodes", "seed"]
    return rows.loc[ranked.sort_values(by).index]


def _table_bytes(rows):
    """Return the bytes of tables that a run sent, its chunks apart."""
    return rows["bytes_communicated"] - RECORD_BYTES * rows["transitions"]
