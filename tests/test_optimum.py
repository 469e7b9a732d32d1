"""Time to the optimum, and its extrapolation to more data; rows are made up, so that numbers can be checked."""

import pandas as pd
import pytest

from swiftrl_core.dpusim.timing import resolve_hardware, transfer_seconds
from swiftrl_core.experiments import time_to_optimum as optimum
from swiftrl_core.experiments.aggregation import first_that_lasts

PROFILE = "upmem-2556"
PAPER = {
    "update": "td",
    "aggregation": "mean",
    "bootstrap": "current",
    "sampling": "SEQ",
    "alpha": 0.1,
    "tau": 50,
}


def row(**given) -> dict:
    """A row of results: one tasklet of each of 100 DPUs learns 1,000,000 transitions as the paper does."""
    pim = given.get("backend", "pim") == "pim"
    common = {
        **PAPER, "environment": "taxi", "seed": 0, "backend": "pim", "backend_options": "{}", "cores": 100,
        "machine_details": '{"threads": 2}', "transitions": 1_000_000, "episodes": 50, "exact_return": 0.0,
        "evidence": "simulated" if pim else "measured", "hardware_profile": PROFILE if pim else None,
        "model_version": "0" if pim else None, "simulated_dpus": 8.0 if pim else None,
        "cpu_to_pim": 0.5, "pim_kernel": 1.0, "inter_pim_core": 0.25, "pim_to_cpu": 0.125,
    }  # fmt: skip
    whole = common | given
    whole["rounds"] = whole["episodes"] // whole["tau"]
    whole["nominal_updates"] = whole["episodes"] * whole["transitions"]
    return whole


def solved(exact_return: float, seed: int = 0) -> dict:
    parts = {"cpu_to_pim": 0.0, "pim_kernel": 0.01, "inter_pim_core": 0.0, "pim_to_cpu": 0.0}
    return row(backend="exact", cores=1, episodes=1, tau=1, exact_return=exact_return, seed=seed, **parts)


def test_what_lasts_is_what_holds_from_there_to_the_end():
    assert first_that_lasts(pd.Series([True, False, True, True], index=[1, 2, 3, 4])) == 3
    assert first_that_lasts(pd.Series([True, True], index=[8, 2])) == 2
    assert first_that_lasts(pd.Series([True, False], index=[1, 2])) is None


def test_a_way_is_there_once_it_is_good_on_every_data_set_and_stays_so():
    returns = {50: (8.0, 8.0), 100: (8.0, 2.0), 150: (7.93, 7.99), 200: (8.0, 7.95)}
    rows = pd.DataFrame(
        [solved(8.0, 0), solved(8.0, 1)]
        + [
            row(episodes=episodes, seed=seed, exact_return=value, pim_kernel=episodes / 100 + seed)
            for episodes, pair in returns.items()
            for seed, value in enumerate(pair)
        ]
    )
    table = optimum.table_time_to_optimum(rows).set_index("way")
    pim = table.loc["PIM: td mean, tau 50, 1 tasklet"]
    assert pim["episodes"] == 150
    assert pim["rounds"] == 3
    assert pim["updates_m"] == 150
    assert pim["pim_kernel"] == pytest.approx((1.5 + 2.5) / 2)
    assert pim["total_s"] == pytest.approx(0.5 + 2.0 + 0.25 + 0.125)
    assert pim["seeds"] == 2
    assert table.loc["exact solution, 1 thread", "total_s"] == pytest.approx(0.01)
    late = rows.assign(exact_return=rows["exact_return"].where(rows["backend"] == "exact", 7.9))
    assert pd.isna(optimum.table_time_to_optimum(late).set_index("way").loc[pim.name, "total_s"])


def test_what_counts_as_optimal_is_the_exact_solution_of_the_same_data_also_where_returns_are_negative():
    rows = pd.DataFrame([solved(-200.0), row(exact_return=-201.9), row(episodes=100, exact_return=-202.1)])
    assert pd.isna(optimum.table_time_to_optimum(rows)["total_s"].iloc[1])
    assert optimum.table_time_to_optimum(rows.iloc[:2])["episodes"].iloc[1] == 50


def test_fewer_cores_lend_the_kernel_s_growth_and_nothing_else():
    """An episode of c transitions takes 1 ms + 2 us * c; the paper's way arrives after 100 episodes."""

    def kernel(episodes: int, chunk: float) -> float:
        return episodes * (1e-3 + 2e-6 * chunk)

    rows = pd.DataFrame(
        [
            solved(8.0),
            row(episodes=50, exact_return=1.0, pim_kernel=kernel(50, 10_000)),
            row(episodes=100, exact_return=8.0, pim_kernel=kernel(100, 10_000)),
            row(episodes=50, exact_return=8.0, pim_kernel=kernel(50, 40_000), cores=25),
            row(episodes=100, exact_return=8.0, backend="cpu", pim_kernel=4.0),
        ]
    )
    fixed, each = optimum.kernel_line(rows[rows["backend"] == "pim"])
    assert fixed == pytest.approx(1e-3)
    assert each == pytest.approx(2e-6)
    assert optimum.table_time_to_optimum(rows)["cores"].max() == 100
    sizes = (1_000_000, 50_000_000)
    table = optimum.table_data_size(rows, sizes).set_index(["backend", "transitions"])
    for size in sizes:
        in_place = kernel(100, size / 100) + 0.25 + 0.125
        assert table.loc[("pim", size), "seconds_in_place"] == pytest.approx(in_place)
        sent = [
            transfer_seconds(resolve_hardware(PROFILE), "to_dpu", 100, 8 * n // 100)
            for n in (size, 1_000_000)
        ]
        load = sent[0] + (0.5 - sent[1]) * size / 1_000_000
        assert table.loc[("pim", size), "seconds"] == pytest.approx(in_place + load)
        assert table.loc[("cpu", size), "seconds"] == pytest.approx((4.0 + 0.875) * size / 1_000_000)
        assert table.loc[("exact", size), "seconds"] == pytest.approx(0.01 * size / 1_000_000)
    assert set(table["evidence"]) == {"modelled"}


def test_the_ten_billionth_transition_needs_more_mram_than_a_hundred_dpus_have():
    rows = pd.DataFrame([solved(8.0), row(exact_return=8.0)])
    table = optimum.table_data_size(rows)
    held = table[table["backend"] == "pim"]["transitions"].max()
    assert held * 8 <= 100 * 64 * 2**20 < 8 * optimum.LARGEST
    assert table[table["backend"] == "exact"]["transitions"].max() == optimum.LARGEST


def test_who_wins_from_where():
    """100 DPUs take 1.375 s + sending, the CPU 3 us a transition: ahead from half a million on, of the model never."""
    parts = {"cpu_to_pim": 0.0, "pim_kernel": 3.0, "inter_pim_core": 0.0, "pim_to_cpu": 0.0}
    rows = pd.DataFrame(
        [
            solved(8.0),
            row(exact_return=8.0, cpu_to_pim=0.0, pim_kernel=1.0),
            row(exact_return=8.0, backend="cpu", **parts),
        ]
    )
    won = optimum.table_winners(rows).set_index("against")
    table = optimum.table_data_size(rows)
    sizes = sorted(table.loc[table["backend"] == "pim", "transitions"])
    ahead = next(n for n in sizes if 0.375 + n / 1e6 < 3 * n / 1e6)
    cpu = won.loc["CPU: td mean, tau 50, 2 threads"]
    assert cpu["from_transitions_in_place"] == ahead
    assert cpu["from_transitions"] >= ahead
    assert pd.isna(won.loc["exact solution, 1 thread", "from_transitions"])
    sizes = str(optimum.summary_data_size(rows))
    assert "at no size" in sizes
    assert "modelled" in sizes
    first = str(optimum.summary_time_to_optimum(rows))
    there = "reaches the optimum in 1,375 ms, 1,000 of them in the kernel (simulated, but the host's share measured)."
    assert f"`PIM: td mean, tau 50, 1 tasklet` {there}" in first
    assert "the fastest of all is `exact solution, 1 thread`, 10 ms (measured)." in first
