"""Runs: one configuration, one name; and the row a run becomes."""

import json
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.data import Dataset, collect, environments, evaluation, save
from swiftrl_core.learner import CHOICES, SOMETIMES_IGNORED, Learner
from swiftrl_core.sweeps import results
from swiftrl_core.sweeps import run as runs
from swiftrl_core.sweeps.row import _reachable, data_columns
from swiftrl_core.sweeps.run import Run
from swiftrl_core.sweeps.settings import LEARNER
from swiftrl_core.training.loop import train
from swiftrl_core.util.errors import SwiftRLError

SMALL = {
    "transitions": 2_000,
    "cores": 4,
    "episodes": 6,
    "tau": 4,
    "backend": "cpu",
    "monte_carlo_episodes": 50,
}


def small(**settings) -> Run:
    return Run(**SMALL | settings)


def test_the_name_is_the_same_today_and_tomorrow():
    """A change here makes every stored result unknown: raise ROW_SCHEMA_VERSION with it."""
    assert Run(backend="cpu", cores=8, seed=3).config_hash == "6fb5343579a16048d5d6"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"alpha": 1}, {"alpha": 1.0}),
        ({"cores": np.int64(8)}, {"cores": 8}),
        ({"alpha": np.float64(0.5)}, {"alpha": 0.5}),
        ({"environment": "FrozenLake-v1"}, {"environment": "frozenlake"}),
        (
            {"environment_options": {"is_slippery": False, "map_name": "4x4"}},
            {"environment_options": {"map_name": "4x4", "is_slippery": False}},
        ),
        ({"algorithm": "q_learning", "epsilon": 0.3}, {"algorithm": "q_learning", "epsilon": 0.7}),
        (
            {"alpha_schedule": "rescaled_linear", "alpha": 0.3},
            {"alpha_schedule": "rescaled_linear", "alpha": None},
        ),
        ({"seed": 5}, {"seed": 5, "data_seed": 5}),
        ({"transitions": None}, {"transitions": 100_000}),
    ],
)
def test_two_ways_to_say_the_same_are_one_run(one, other):
    assert small(**one).config_hash == small(**other).config_hash


CHANGES = {
    "environment": "taxi",
    "environment_options": {"is_slippery": False},
    "transitions": 2_001,
    "data_seed": 7,
    "algorithm": "sarsa",
    "aggregation": "count",
    "update": "vr",
    "alpha_schedule": "rescaled_linear",
    "bootstrap": "frozen",
    "sampling": "RAN",
    "number_format": "INT32",
    "alpha": 0.2,
    "gamma": 0.9,
    "cores": 5,
    "episodes": 7,
    "tau": 3,
    "seed": 1,
    "backend": "pim",
    "backend_options": {"threads": 1},
    "monte_carlo_episodes": 51,
    "evaluation_seed": 1,
    "ties": "mean",
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_changes_the_name(name):
    assert small(**{name: CHANGES[name]}).config_hash != small().config_hash


def test_no_setting_was_forgotten_above():
    elsewhere = {"data", "data_sha256", "epsilon", "hardware"}  # below, or only with other settings
    assert {entry.name for entry in fields(Run)} == CHANGES.keys() | elsewhere
    assert small(backend="pim", hardware=True).config_hash != small(backend="pim").config_hash
    sarsa = small(algorithm="sarsa")
    assert replace(sarsa, epsilon=0.2).config_hash != sarsa.config_hash


def test_a_learner_s_settings_are_those_of_learner_everywhere():
    """In a run, in its checks, and in its row, whose columns have choices before numbers."""
    own = [entry for entry in fields(Learner) if entry.name not in ("reward_range", "units")]
    assert {entry.name for entry in own} == LEARNER.keys()
    defaults = {entry.name: entry.default for entry in fields(Run)}
    assert {entry.name: entry.default for entry in own}.items() <= defaults.items()
    assert runs._CHECKS.keys() == defaults.keys()
    place = results.COLUMNS.names.index("algorithm")
    assert results.COLUMNS.names[place : place + len(own)] == list(LEARNER)
    assert defaults.keys() - {"data"} < set(results.COLUMNS.names)
    assert small().learner() == Learner(reward_range=(0.0, 1.0))
    nullable = {entry.name for entry in results.COLUMNS if entry.nullable}
    assert nullable & LEARNER.keys() == SOMETIMES_IGNORED.keys()
    for name, kind in CHOICES.items():  # what some learner ignores is null in its row, and nothing else
        assert all(Learner(**{name: value}).without_effect.keys() <= nullable for value in kind)


WITH_A_NEW_CHOICE = """
import dataclasses, enum, types
from swiftrl_core import learner

Colour = enum.StrEnum("Colour", {"RED": "red", "BLUE": "blue"})
learner.Learner = dataclasses.make_dataclass(
    "Learner", [("colour", Colour, Colour.RED)], bases=(learner.Learner,), frozen=True
)
from swiftrl_core.sweeps import results
from swiftrl_core.sweeps.run import Run
from swiftrl_core.sweeps.settings import LEARNER

results.LATER = types.MappingProxyType(results.LATER | {"colour": "red"})
settings = {"transitions": 200, "cores": 2, "episodes": 2, "tau": 1, "backend": "cpu", "monte_carlo_episodes": 0}
row = Run(colour="blue", **settings).run()
assert results.to_table([row]).to_pylist()[0]["colour"] == "blue"
assert Run(colour="blue").learner().colour == "blue"
print(Run(colour="red").config_hash, Run(colour="blue").config_hash)
Run(colour=3)
"""


def test_a_new_choice_of_the_learner_needs_nothing_here_but_what_old_rows_stand_for():
    done = subprocess.run([sys.executable, "-c", WITH_A_NEW_CHOICE], capture_output=True, text=True)
    red, blue = done.stdout.split()
    assert done.stderr.splitlines()[-1].endswith("SwiftRLError: colour is 3: give a name")
    assert red == Run().config_hash != blue


def with_rates(number_format, alpha, gamma):
    """Return a strategy for runs of a number format; INT32 cannot hold every alpha and gamma."""
    return st.builds(
        small,
        alpha=alpha,
        gamma=gamma,
        cores=st.integers(1, 2_000),
        seed=st.integers(0, 2**40),
        sampling=st.sampled_from(["SEQ", "STR", "RAN"]),
        number_format=st.just(number_format),
    )


@given(
    with_rates("FP32", st.floats(0.01, 1), st.floats(0, 0.99))
    | with_rates("INT32", st.sampled_from([0.05, 0.1, 0.5, 1.0]), st.sampled_from([0.5, 0.9, 0.95]))
)
def test_the_settings_of_a_row_make_the_run_again(run):
    columns = json.loads(json.dumps(run.config))
    for name in ("environment_options", "backend_options"):
        columns[name] = json.loads(columns[name])
    assert Run(**columns) == run
    assert Run(**columns).config_hash == run.config_hash


@pytest.mark.parametrize(
    ("settings", "needle"),
    [
        ({"alpha": "1e-3"}, "alpha is the text '1e-3': write the number 0.001"),
        ({"alpha": "fast"}, "alpha is 'fast': give a number"),
        ({"alpha": True}, "alpha is True"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"alpha": 0}, "alpha is 0.0"),
        ({"cores": 4.0}, "cores is 4.0"),
        ({"cores": "4"}, "cores is '4'"),
        ({"cores": 0}, "cores is 0"),
        ({"cores": 2_001}, "2,001 cores for 2,000 transitions"),
        ({"tau": 7}, "tau is 7, more than the 6 episodes"),
        ({"sampling": "SEK"}, "sampling is 'SEK'"),
        ({"environment": "pond"}, "environment 'pond' is unknown"),
        ({"environment_options": {"slippy": True}}, "slippy"),
        ({"environment_options": {"desc": {1, 2}}}, "environment_options"),
        ({"backend": "abacus"}, "backend is 'abacus'"),
        ({"backend_options": {"thread": 2}}, "backend cpu has no option 'thread'"),
        ({"backend_options": {"simulated_dpus": 2}}, "backend cpu has no option 'simulated_dpus'"),
        ({"backend": "pim", "backend_options": {"tasklets": 2}}, "tasklets is 2: with bootstrap current"),
        ({"bootstrap": "frozen", "algorithm": "sarsa"}, "bootstrap frozen does not apply to sarsa"),
        ({"hardware": True}, "hardware does not apply to backend cpu"),
        ({"data_seed": 1, "data": "lake.parquet"}, "data_seed does not apply to the file lake.parquet"),
        ({"data": "no-such-file"}, "cannot read no-such-file"),
        ({"data_sha256": "0" * 64}, "data_sha256 is given without data"),
        ({"algorithm": "sarsa", "epsilon": None}, "epsilon is missing"),
        ({"ties": "any"}, "ties is 'any'"),
        ({"monte_carlo_episodes": 1}, "monte_carlo_episodes is 1"),
    ],
)
def test_a_run_that_cannot_work_is_refused_when_it_is_made(settings, needle):
    with pytest.raises(SwiftRLError) as told:
        small(**settings)
    assert needle in str(told.value)


def test_a_row_says_what_the_package_says():
    run = small(seed=3, algorithm="sarsa")
    row = run.run(workers=2)
    assert list(results.to_table([row]).column_names) == results.COLUMNS.names
    lake = environments.resolve("frozenlake")
    trained = train(collect(lake, 2_000, 3), run.learner(), run.schedule(), "cpu")
    optimal = evaluation.value_iteration(lake, 0.95)
    assert row["exact_return"] == evaluation.exact_return(lake, trained.q_table)
    assert row["optimum"] == pytest.approx(0.72977, abs=1e-5)
    mean, error = evaluation.monte_carlo_return(lake, trained.q_table, episodes=50, seed=0)
    assert (row["monte_carlo_mean"], row["monte_carlo_standard_error"]) == (mean, error)
    states = ~lake.terminal  # on the lake these are the states that can be met
    assert row["max_error_optimal"] == np.abs(trained.q_table - optimal)[states].max()
    assert row["mean_error_optimal"] == np.abs(trained.q_table - optimal)[states].mean()
    assert row["nominal_updates"] == 2_000 * 6
    assert row["rounds"] == 2
    assert row["round_bytes_down"] == row["round_bytes_up"] == 4 * 64 * 4
    assert (
        row["bytes_communicated"] == 2_000 * 8 + 2 * 2 * 4 * 64 * 4
    )  # records; 2 ways x 2 rounds x 4 cores x table
    assert (row["evidence"], row["workers"]) == ("measured", 2)
    assert sum(row[part] for part in results.PARTS) <= row["wall_seconds"]


def test_a_row_counts_what_chunks_hold():
    row = small(environment="taxi", cores=7).run()
    data = collect("taxi", 2_000, 0)
    pair = data.state * 6 + data.action
    chunks = np.array_split(np.arange(2_000), 7)  # the first chunks are the longer ones, as in `chunks.split`
    pairs = 400 * 6  # 400 states can be met with an action to take
    assert row["coverage"] == len(set(pair)) / pairs
    assert row["chunk_coverage"] == pytest.approx(np.mean([len(set(pair[rows])) for rows in chunks]) / pairs)
    assert row["chunks_without_positive_reward"] == sum(not (data.reward[rows] > 0).any() for rows in chunks)


def test_a_reward_of_nothing_is_no_positive_reward():
    """Six rows by hand, three chunks of two: the second alone holds a reward. 11 of the lake's states go on."""
    zeros, ends = np.zeros(6, np.int32), np.zeros(6, bool)
    data = Dataset(
        state=zeros,
        action=np.array([0, 1, 0, 0, 2, 0], np.int32),
        reward=np.array([0, 0, 0, 1, -1, 0], np.float32),
        next_state=zeros,
        terminated=ends,
        truncated=ends,
        episode=zeros,
        n_states=16,
        n_actions=4,
    )
    assert data_columns(environments.resolve("frozenlake"), data, 3) == {
        "coverage": 3 / 44,
        "chunk_coverage": pytest.approx((2 + 1 + 2) / (3 * 44)),
        "chunks_without_positive_reward": 2,
    }


def test_taxi_has_400_states_that_can_be_met():
    assert _reachable("taxi", "{}").sum() == 400
    assert _reachable("frozenlake", "{}").sum() == 11


def test_the_same_run_gives_the_same_row(tmp_path):
    one, two = small().run(), small().run()
    assert different(one, two) <= results.VARIES | set(results.PARTS)


def different(one: dict, two: dict) -> set[str]:
    return {name for name in one if one[name] != two[name]}


def test_data_from_a_file_is_the_file_s_content_not_its_name(tmp_path):
    for name in ("one", "two"):
        save(collect("frozenlake", 2_000, 0), tmp_path / f"{name}.parquet")
    one, two = (small(transitions=None, data=str(tmp_path / f"{name}.parquet")) for name in ("one", "two"))
    assert one.config_hash == two.config_hash
    row, collected = one.run(), small().run()
    assert row["transitions"] == 2_000
    assert row["q_sha256"] == collected["q_sha256"]
    assert replace(one, transitions=500).run()["transitions"] == 500
    save(collect("frozenlake", 2_000, 1), tmp_path / "one.parquet")
    with pytest.raises(SwiftRLError, match="is not the file it was"):
        replace(one, seed=1).run()


def test_hardware_that_is_not_there_is_missed():
    with pytest.raises(SwiftRLError, match="requires UPMEM hardware"):
        small(backend="pim", hardware=True).run()


def test_an_environment_without_exact_dynamics_has_estimates_only():
    row = small(environment="taxi", environment_options={"fickle_passenger": True}, tau=1, episodes=1).run()
    assert row["exact_return"] is row["optimum"] is row["max_error_optimal"] is None
    assert -2_000 < row["monte_carlo_mean"] < 20


# --- a sample of the DPUs ---------------------------------------------------------------------------------


def test_a_sample_of_the_dpus_gives_the_row_of_all_of_them():
    run = Run(transitions=2_000, cores=4, episodes=4, tau=2, backend="pim", monte_carlo_episodes=0)
    some = replace(run, backend_options={"simulated_dpus": 2}).run()
    everything = run.run()
    assert some["q_sha256"] == everything["q_sha256"]
    assert (some["simulated_dpus"], everything["simulated_dpus"]) == (2, 4)
    assert some["cores"] == 4
    assert some["evidence"] == "simulated"
    assert replace(run, backend="cpu").run()["simulated_dpus"] is None


def test_a_sample_is_no_larger_than_the_set():
    with pytest.raises(
        SwiftRLError, match="simulated_dpus is 5; expected a whole number of at least 1 and at most 4"
    ):
        Run(
            transitions=2_000,
            cores=4,
            episodes=4,
            tau=2,
            backend="pim",
            backend_options={"simulated_dpus": 5},
        )


def test_hardware_runs_all_dpus_whatever_the_sample(monkeypatch):
    run = Run(
        transitions=100, cores=4, episodes=1, tau=1, backend="pim", backend_options={"simulated_dpus": 2}
    )
    assert runs._options_here(run) == {"simulated_dpus": 2}
    monkeypatch.setattr(runs, "hardware_reason", lambda: None)
    assert runs._options_here(run) == {}


def test_tasklets_stand_in_the_row_and_change_no_bit():
    run = small(backend="pim", bootstrap="frozen", backend_options={"tasklets": 11})
    row, alone = run.run(), replace(run, backend_options={}).run()
    assert json.loads(row["machine_details"])["tasklets"] == 11
    assert row["q_sha256"] == alone["q_sha256"]
    assert row["pim_kernel"] < alone["pim_kernel"] / 4
    assert "frozen" in run.label
