"""The simulator's benchmark measures what it says."""

import pytest

from swiftrl_core.pim import bench


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_a_row_tells_updates_and_instructions_apart(mode):
    (row,) = bench.rows((bench.Case("frozenlake", "INT32", mode, 2),), repetitions=1)
    assert row["ns_per_update"] == pytest.approx(1e9 / row["updates_per_s"], rel=1e-3)
    per_update = row["instructions_per_s"] / row["updates_per_s"]
    assert 100 < per_update < 140  # 115 were seen on a learned table
    assert f"{row['updates_per_s'] / 1e6:.2f}" in bench.table([row])
