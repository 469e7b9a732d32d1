"""The recommended recipes at the paper's size: 2,000 cores, five data sets. And the figures that show them."""

import numpy as np
import pandas as pd
import pytest

from swiftrl_core.experiments import aggregation, grids
from swiftrl_core.sweeps.run import Run

RECIPES = {"safe": grids.SAFE, "fast": grids.FAST}


def rows_of(environment, recipe, number_format, episodes, seeds=range(5), **settings):
    runs = [
        Run(
            environment,
            transitions=grids.PAPER_ROWS[environment],
            number_format=number_format,
            episodes=episodes,
            seed=seed,
            monte_carlo_episodes=0,
            **{"backend": "cpu", "cores": 2000, **recipe, **settings},
        )
        for seed in seeds
    ]
    return pd.DataFrame([run.run() for run in runs])


@pytest.mark.slow
@pytest.mark.parametrize("number_format", ["FP32", "INT32"])
@pytest.mark.parametrize("name", RECIPES)
def test_frozenlake_is_right_within_20_million_updates(name, number_format):
    rows = rows_of("frozenlake", RECIPES[name], number_format, episodes=20)
    print(rows[["max_error_empirical", "mean_error_optimal", "exact_return"]])
    assert rows["nominal_updates"].max() <= 20e6
    assert rows["max_error_empirical"].max() <= 0.02
    assert rows["mean_error_optimal"].mean() <= 0.005
    exact = rows_of("frozenlake", {}, "FP32", 1, backend="exact", tau=1, cores=1)
    assert (rows["mean_error_optimal"] - exact["mean_error_optimal"]).max() <= 0.001
    assert np.allclose(rows["exact_return"], rows["optimum"])


@pytest.mark.slow
@pytest.mark.parametrize("number_format", ["FP32", "INT32"])
@pytest.mark.parametrize("name", RECIPES)
def test_taxi_is_optimal_within_3_rounds(name, number_format):
    rows = rows_of("taxi", RECIPES[name], number_format, episodes=6)
    print(rows[["exact_return", "max_error_empirical"]])
    assert rows["rounds"].max() <= 3
    assert rows["nominal_updates"].max() <= 100e6
    assert np.allclose(rows["exact_return"], 7.93)


@pytest.mark.slow
def test_the_papers_recipe_is_not_right_however_long_it_learns():
    """Its error grows with training on short chunks: that is what the recommended recipes are for."""
    paper = {"tau": 50}
    rows = rows_of("frozenlake", paper, "FP32", episodes=400, seeds=range(3))
    assert rows["mean_error_optimal"].min() > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 8, 125])
def test_the_safe_recipe_converges_on_few_cores_too(cores):
    rows = rows_of("frozenlake", grids.SAFE, "FP32", episodes=40, seeds=range(2), cores=cores)
    assert rows["max_error_empirical"].max() <= 1e-4


# --- figures ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    runs = [
        run
        for run in aggregation.EXPERIMENT.expand("smoke")
        if run.environment == "frozenlake" and run.seed == 0
    ]
    return pd.DataFrame([run.run() for run in runs])


def test_a_row_counts_the_bytes_of_a_round(rows):
    learned = rows[rows["backend"] == "cpu"]
    table = learned["cores"] * 64 * 4
    assert (learned["round_bytes_up"] == table).all()
    assert (learned["round_bytes_down"] == table * (1 + (learned["update"] == "vr"))).all()
    both = learned["round_bytes_down"] + learned["round_bytes_up"]
    assert (learned["bytes_communicated"] == 8 * learned["transitions"] + learned["rounds"] * both).all()
    assert rows.loc[rows["backend"] == "exact", "round_bytes_up"].isna().all()


def test_figures_name_every_recipe_and_the_exact_solution(rows):
    table = aggregation.table_fewer_updates(rows)
    assert table["recipe"].nunique() == 7
    assert set(table.loc[table["recipe"] != "exact", "cores"]) == {64}
    for draw in (
        aggregation.fig_fewer_updates,
        aggregation.fig_what_it_costs,
        aggregation.fig_recipes_by_cores,
    ):
        figure = draw(rows)
        texts = {text.get_text() for text in figure.legends[0].get_texts()}
        assert {*table["recipe"]} - {"exact"} <= texts
        assert "exact solution" in texts


def test_data_without_any_error_can_be_drawn(rows):
    """Where no chunk holds a reward, every table is exactly right about the data: all zeros."""
    errors = [name for name in rows.columns if "error" in name]
    spotless = rows.assign(**dict.fromkeys(errors, 0.0))
    for draw in (
        aggregation.fig_fewer_updates,
        aggregation.fig_what_it_costs,
        aggregation.fig_recipes_by_cores,
    ):
        figure = draw(spotless)
        figure.draw_without_rendering()
        assert all(
            0 < axes.get_ylim()[0] < axes.get_ylim()[1] for axes in figure.axes if axes.get_yscale() == "log"
        )


def learned(measure: str, values: dict[int, tuple[float, ...]], **columns) -> pd.DataFrame:
    """Rows by hand: a measure after so many episodes, one value a seed."""
    return pd.DataFrame(
        [
            {
                "environment": "frozenlake", "cores": 4, "backend": "cpu", "update": "td", "aggregation": "mean",
                "bootstrap": "current",
                "sampling": "SEQ", "alpha": 0.1, "tau": 10, "episodes": episodes, "rounds": episodes // 10,
                "nominal_updates": episodes * 1_000, "transitions": 1_000, "seed": seed, "optimum": 1.0,
                "bytes_communicated": 8_000 + episodes * 100, measure: value, **columns,
            }
            for episodes, seeds in values.items()
            for seed, value in enumerate(seeds)
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("optimum", "good", "short"), [(50.0, 49.6, 49.4), (0.5, 0.496, 0.494), (-13.0, -13.1, -13.2)]
)
def test_within_1_percent_is_relative_to_the_optimum(optimum, good, short):
    rows = learned("exact_return", {10: (short, optimum), 20: (good, good)}, optimum=optimum)
    (needed,) = aggregation.table_needed(rows, "exact_return", 0.01).itertuples()
    assert needed.episodes == 20


def test_the_megabytes_of_tables_are_millions_of_bytes_without_the_chunks():
    rows = learned("exact_return", {10: (0.5,)}, bytes_communicated=8 * 1_000 + 3_000_000)
    rows = rows.assign(max_error_empirical=0.1, mean_error_optimal=0.1)
    (row,) = aggregation.table_recipes(rows).itertuples()
    assert (row.table_mb, row.updates_m) == pytest.approx((3.0, 0.01), rel=1e-12)


def test_what_a_recipe_needed_is_the_first_point_from_which_all_are_good():
    errors = {10: (0.5, 0.01), 20: (0.01, 0.01), 30: (0.3, 0.01), 40: (0.01, 0.02), 50: (0.0, 0.0)}
    rows = learned("max_error_empirical", errors)
    (needed,) = aggregation.table_needed(rows, "max_error_empirical", 0.02).itertuples()
    assert (needed.episodes, needed.rounds, needed.seeds) == (40, 4, 2)
    assert needed.table_mb == pytest.approx(0.004)
    (never,) = aggregation.table_needed(rows, "max_error_empirical", -1).itertuples()
    assert pd.isna(never.episodes)


def test_the_summary_has_sentences_for_each_environment(rows):
    summary = aggregation.summary_aggregation(rows)
    assert len(summary) == 2
    assert all(sentence.startswith("FrozenLake, 64 cores, 1 data set") for sentence in summary)
