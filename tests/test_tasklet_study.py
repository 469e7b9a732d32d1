"""The study of tasklets: what it says, and that the kernel reaches its goals where the study is small."""

import numpy as np
import pandas as pd
import pytest

from swiftrl_core.experiments import tasklets as tasklet_study
from swiftrl_core.util.errors import SwiftRLError


@pytest.fixture
def small(monkeypatch):
    """INT32 only."""
    monkeypatch.setattr(tasklet_study, "FORMATS", ("INT32",))


def test_tasklets_reach_their_goals(small):
    rows = tasklet_study.throughput("smoke")
    assert set(rows["evidence"]) == {"simulated"}
    assert (rows["simulated_dpus"] < rows["dpus"]).all()
    np.testing.assert_allclose(
        rows["launch_ms"] * 1e-3 * rows["updates_per_s"],
        rows["environment"].map(tasklet_study.CHUNK) * 8 * 50,
    )
    for environment, goal in tasklet_study.GOALS.items():
        own = rows[rows["environment"] == environment].set_index(["bootstrap", "kernel", "tasklets"])
        assert own.loc[("current", "paper", 1), "speedup"] == 1
        assert own.loc[("frozen", "paper", 11), "speedup"] > goal
        assert own.loc[("frozen", "tuned", 11), "speedup"] > own.loc[("frozen", "paper", 11), "speedup"]


def test_quality_stands_side_by_side(small):
    cells = [cell for cell in tasklet_study.quality_cells("smoke") if cell.environment == "frozenlake"]
    rows = pd.DataFrame([cell.run() for cell in cells])
    table = tasklet_study.quality(rows)
    assert len(table) == len(cells) / 2
    assert table["recipe"].tolist() == ["mean", "safe"]
    assert (table["data_sets"] == 1).all()
    for bootstrap in ("current", "frozen"):
        own = rows[rows["bootstrap"] == bootstrap]
        assert table[f"max_error_{bootstrap}"].tolist() == own["max_error_empirical"].tolist()
        assert table[f"least_return_{bootstrap}"].tolist() == own["exact_return"].tolist()
    assert table["max_error_current"].tolist() != table["max_error_frozen"].tolist()


def test_a_size_must_exist():
    with pytest.raises(SwiftRLError, match="size is 'huge': choose one of smoke, quick, paper"):
        tasklet_study.throughput("huge")
