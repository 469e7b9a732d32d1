"""The CPU baselines: threads on one table, a table per thread, and the model that is counted and solved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import engine as bench
from swiftrl_core.backends.exact import empirical_fixed_point
from swiftrl_core.data import Dataset, collect
from swiftrl_core.learner import Learner
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

FORMATS = ("FP32", "INT32", "INT32_POW2")


def dataset_of(rng, rows, states, actions, rewards):
    return Dataset(
        state=rng.integers(0, states, rows, dtype=np.int32),
        action=rng.integers(0, actions, rows, dtype=np.int32),
        reward=rng.choice(np.array(rewards, np.float32), rows),
        next_state=rng.integers(0, states, rows, dtype=np.int32),
        terminated=rng.random(rows) < 0.2,
        truncated=np.zeros(rows, bool),
        episode=np.zeros(rows, np.int32),
        n_states=states,
        n_actions=actions,
    )


@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize(
    ("algorithm", "sampling"), [("q_learning", "SEQ"), ("sarsa", "STR"), ("sarsa", "RAN")]
)
def test_one_thread_on_a_shared_table_is_a_core_of_the_engine(algorithm, sampling, number_format):
    data = collect("taxi", 3000, 1)
    learner = Learner(algorithm, sampling, number_format, reward_range=data.reward_range)
    shared = train(data, learner, Schedule(1, 7, 3), "cpu-shared")
    engine = train(data, learner, Schedule(1, 7, 3), "cpu")
    np.testing.assert_array_equal(shared.q_raw.view(np.uint32), engine.q_raw.view(np.uint32))
    assert shared.machine["deterministic"]


def test_threads_on_a_shared_table_learn():
    """Taxi is deterministic, so every order of the updates leads to the same fixed point."""
    data = collect("taxi", 100_000, 2)
    learner = Learner(alpha=0.5, reward_range=data.reward_range)
    result = train(data, learner, Schedule(3, 60, 30), "cpu-shared")
    np.testing.assert_allclose(result.q_table, empirical_fixed_point(data, 0.95), atol=0.05)
    assert result.machine["threads"] == 3
    assert not result.machine["deterministic"]
    assert result.breakdown.pim_kernel > 0


@pytest.mark.parametrize("cores", [1, 3, 6])
def test_local_tables_are_those_of_the_engine(cores):
    data = collect("frozenlake", 2000, 3)
    learner = Learner("sarsa", reward_range=data.reward_range)
    local, engine = (train(data, learner, Schedule(cores, 9, 4), name) for name in ("cpu-local", "cpu"))
    np.testing.assert_array_equal(local.q_raw, engine.q_raw)
    assert local.machine["threads"] == cores


def bellman(data, gamma, q):
    """Apply the definition of the fixed point once, row by row."""
    future = np.where(data.terminated, 0, q.max(axis=1)[data.next_state])
    pair = data.state * data.n_actions + data.action
    visits = np.bincount(pair, minlength=q.size)
    total = np.bincount(pair, data.reward + gamma * future, q.size)
    return np.divide(total, visits, where=visits > 0, out=np.zeros(q.size)).reshape(q.shape)


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 300),
    states=st.integers(1, 12),
    actions=st.integers(1, 5),
    gamma=st.sampled_from([0.0, 0.5, 0.95, 0.999]),
    rewards=st.sampled_from([(-1.0, 0.0), (-10.0, -1.0, 20.0), (0.25,)]),
)
def test_the_model_is_the_fixed_point_of_the_rows(seed, rows, states, actions, gamma, rewards):
    data = dataset_of(np.random.default_rng(seed), rows, states, actions, rewards)
    q = empirical_fixed_point(data, gamma)
    np.testing.assert_allclose(q, bellman(data, gamma, q), rtol=0, atol=3e-9)
    seen = np.zeros(q.shape, bool)
    seen[data.state, data.action] = True
    assert np.all(q[~seen] == 0)


@pytest.mark.parametrize("number_format", FORMATS)
def test_the_model_backend_looks_at_every_transition_once(number_format):
    data = collect("frozenlake", 20_000, 4)
    learner = Learner(number_format=number_format, reward_range=data.reward_range)
    result = train(data, learner, Schedule(50, 100, 10), "exact")
    assert (result.updates, result.executed_updates) == (2_000_000, 20_000)
    np.testing.assert_allclose(
        result.q_table, empirical_fixed_point(data, 0.95), atol=0.51 / learner.scale + 1e-7
    )


def test_the_model_needs_a_discount_below_one():
    data = collect("frozenlake", 100, 5)
    with pytest.raises(SwiftRLError, match="gamma is 1"):
        empirical_fixed_point(data, 1.0)
    with pytest.raises(SwiftRLError, match="tolerance is 0"):
        empirical_fixed_point(data, 0.9, tolerance=0)


def test_results_tell_nominal_from_executed_updates():
    data = collect("frozenlake", 4000, 6)
    learner = Learner(reward_range=data.reward_range)
    plain = train(data, learner, Schedule(40, 600, 300), "cpu")
    early = train(data, learner, Schedule(40, 600, 300), "cpu", early_exit=True)
    np.testing.assert_array_equal(plain.q_raw.view(np.uint32), early.q_raw.view(np.uint32))
    assert plain.updates == early.updates == plain.executed_updates == 4000 * 600
    assert 0 < early.executed_updates < early.updates


@pytest.mark.slow
def test_the_benchmark_measures_every_contender(capsys):
    measured = bench.rows((bench.Case("frozenlake", 4000, 2),), repetitions=1, cores=64)
    names = {row["name"] for row in measured}
    assert {"engine", "cpu-local", "cpu-shared", "NumPy over cores", "exact: count and solve"} <= names
    for row in measured:
        assert row["ns_per_update"] > 0
        assert row["env"] == "frozenlake"
    engine = [row for row in measured if row["name"] == "engine" and row["threads"] == 1]
    assert len(engine) == len(bench.VARIANTS)
    assert engine[0]["ratio_to_engine"] == 1
    assert len(bench.table(measured).splitlines()) == len(measured) + 1
