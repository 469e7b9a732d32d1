"""The tasklets experiment: its tables, and that the kernel reaches its goals where the sizes are small."""

import numpy as np
import pandas as pd
import pytest

from swiftrl_core.experiments import tasklets
from swiftrl_core.experiments.grids import PAPER_CHUNK
from swiftrl_core.util.errors import SwiftRLError


def rows_of(backend: str, environments=tuple(PAPER_CHUNK)) -> pd.DataFrame:
    """INT32 only."""
    runs = [
        run
        for run in tasklets.EXPERIMENT.expand("smoke")
        if run.backend == backend and run.number_format == "INT32" and run.environment in environments
    ]
    return pd.DataFrame([run.run() for run in runs])


@pytest.fixture(scope="module")
def launches() -> pd.DataFrame:
    return rows_of("pim")


@pytest.fixture(scope="module")
def trained() -> pd.DataFrame:
    return rows_of("cpu")


def test_tasklets_reach_their_goals(launches):
    rows = tasklets.table_throughput(launches)
    assert set(rows["evidence"]) == {"simulated"}
    assert (rows["simulated_dpus"] < rows["dpus"]).all()
    np.testing.assert_allclose(
        rows["launch_ms"] * 1e-3 * rows["updates_per_s"],
        rows["environment"].map(PAPER_CHUNK) * 8 * 50,
    )
    for environment, goal in tasklets.GOALS.items():
        own = rows[rows["environment"] == environment].set_index(["bootstrap", "kernel", "tasklets"])
        assert own.loc[("current", "paper", 1), "speedup"] == 1
        assert own.loc[("frozen", "paper", 11), "speedup"] > goal
        assert own.loc[("frozen", "tuned", 11), "speedup"] > own.loc[("frozen", "paper", 11), "speedup"]


def test_quality_stands_side_by_side(trained):
    rows = trained[trained["environment"] == "frozenlake"]
    table = tasklets.table_quality(rows)
    assert len(table) == len(rows) / 2
    assert table["recipe"].tolist() == ["mean", "safe"]
    assert (table["data_sets"] == 1).all()
    for bootstrap in ("current", "frozen"):
        own = rows[rows["bootstrap"] == bootstrap]
        assert table[f"max_error_{bootstrap}"].tolist() == own["max_error_empirical"].tolist()
        assert table[f"least_return_{bootstrap}"].tolist() == own["exact_return"].tolist()
    assert table["max_error_current"].tolist() != table["max_error_frozen"].tolist()


def test_figure_and_summary_take_any_size(launches, trained):
    rows = pd.concat([launches, trained], ignore_index=True)
    (plot,) = tasklets.EXPERIMENT.figures
    figure = plot.draw(rows)
    assert [axes.get_title() for axes in figure.axes] == ["FrozenLake", "Taxi"]
    assert "simulated" in figure.axes[0].get_ylabel()
    assert len(plot.summary(rows)) == 2


def test_a_size_must_exist():
    with pytest.raises(SwiftRLError, match="size is 'huge': choose one of smoke, quick, paper"):
        tasklets.EXPERIMENT.expand("huge")
