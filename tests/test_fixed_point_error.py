"""Fixed point against FP64: never farther off than fixed_point.h derives, and without a dead zone."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from swiftrl_core.data import Dataset, collect
from swiftrl_core.experiments.precision import error_bound
from swiftrl_core.learner import Learner
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

FORMATS = ["INT32", "INT32_POW2"]


def random_data(seed: int, rows: int, states: int, actions: int, scale: float) -> Dataset:
    rng = np.random.default_rng(seed)
    ends = rng.random(rows) < 0.1
    return Dataset(
        state=rng.integers(0, states, rows).astype(np.int32),
        action=rng.integers(0, actions, rows).astype(np.int32),
        reward=(rng.normal(size=rows) * scale).astype(np.float32),
        next_state=rng.integers(0, states, rows).astype(np.int32),
        terminated=ends,
        truncated=~ends & (rng.random(rows) < 0.1),
        episode=np.zeros(rows, np.int32),
        n_states=states,
        n_actions=actions,
    )


def exact_q_learning(data: Dataset, alpha: float, gamma: float, schedule: Schedule) -> np.ndarray:
    """Q-learning over sequential passes in float64, averaged every tau episodes: the text-book loop."""
    edges = np.linspace(0, len(data), schedule.cores + 1).astype(int)
    mean = np.zeros((data.n_states, data.n_actions))
    for episodes in schedule.rounds:
        tables = [mean.copy() for _ in range(schedule.cores)]
        for q, first, last in zip(tables, edges[:-1], edges[1:], strict=True):
            for _ in range(episodes):
                for i in range(first, last):
                    bootstrap = 0.0 if data.terminated[i] else gamma * q[data.next_state[i]].max()
                    entry = (data.state[i], data.action[i])
                    q[entry] += alpha * (float(data.reward[i]) + bootstrap - q[entry])
        mean = np.mean(tables, axis=0)
    return mean


def test_the_bound_by_hand():
    """alpha 1/2, gamma 1/2, scale 10,000: (1 + 1 / 0.5) / 0.5 = 6 units, and half a unit for each averaging."""
    used = Learner(number_format="INT32", alpha=0.5, gamma=0.5).coefficients
    assert error_bound(used, 0.5, 0.5) == pytest.approx(6e-4)
    assert error_bound(used, 0.5, 0.5, averagings=8) == pytest.approx(10e-4)
    # Rewards up to 1 and gamma 1/2 allow entries from -1 to 20,001 units. Exact coefficients 0.01 away from those used
    # add 0.01 * 20,001 to a target and 0.01 * 20,002 to a step: (1 + 200.01 + (1 + 200.02) / 0.49) / 0.51 units.
    assert error_bound(used, 0.49, 0.49) == pytest.approx((201.01 + 201.02 / 0.49) / 0.51 / 1e4)


@given(
    seed=st.integers(0, 2**32),
    number_format=st.sampled_from(FORMATS),
    alpha=st.sampled_from([0.01, 0.1, 0.3, 0.5, 1.0]),
    gamma=st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99]),
    scale=st.sampled_from([0.01, 1.0, 10.0]),
    cores=st.sampled_from([1, 4]),
)
@settings(max_examples=60)
def test_the_error_stays_within_the_derived_bound(seed, number_format, alpha, gamma, scale, cores):
    data = random_data(seed, rows=80, states=6, actions=3, scale=scale)
    try:
        learner = Learner("q_learning", "SEQ", number_format, alpha, gamma, reward_range=data.reward_range)
    except SwiftRLError:
        assume(False)  # its products would not fit 32 bits: refused, so there is nothing to compare
    schedule = Schedule(cores, episodes=12, tau=4)
    exact = exact_q_learning(data, alpha, gamma, schedule)
    learned = train(data, learner, schedule, "cpu").q_table
    bound = error_bound(learner.coefficients, alpha, gamma, averagings=len(schedule.rounds))
    assert np.abs(learned - exact).max() <= bound + 1e-6 * (1 + np.abs(exact).max())


@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_values_that_grow_from_zero_reach_their_targets(number_format, alpha):
    """A corridor of 10 steps to a reward of 1. With a dead zone each value would stop short of its target.

    Plain rounding to nearest leaves 5 units (alpha 0.1) or 50 (alpha 0.01) at every step, adding up along the way.
    """
    length = 10
    index = np.arange(length, dtype=np.int32)
    ends = index == length - 1
    corridor = Dataset(
        state=index,
        action=np.zeros(length, np.int32),
        reward=ends.astype(np.float32),
        next_state=np.minimum(index + 1, length - 1),
        terminated=ends,
        truncated=np.zeros(length, bool),
        episode=np.zeros(length, np.int32),
        n_states=length,
        n_actions=1,
    )
    learner = Learner(number_format=number_format, alpha=alpha, gamma=0.95)
    learned = train(corridor, learner, Schedule(1, 20_000, 20_000), "cpu").q_table.ravel()
    used = float(learner.coefficients.gamma_used)
    exact = used ** np.arange(length - 1, -1, -1)
    units = np.abs(learned - exact) * learner.scale
    assert units.max() <= 0.5 / (1 - used) + 0.01  # half a unit of rounding a step, and nothing else
    assert units.max() <= 5


@pytest.mark.parametrize(("number_format", "largest_bias"), [("INT32", 1e-4), ("INT32_POW2", 3e-4)])
def test_rounding_does_not_bias_frozenlake(number_format, largest_bias):
    """125 cores, the mean difference to FP32 over all entries; truncating division was seen to give +2.4e-4."""
    data = collect("frozenlake", 100_000, seed=3)
    schedule = Schedule(125, 100, 10)
    tables = {
        name: train(data, Learner(number_format=name), schedule, "cpu").q_table
        for name in ("FP32", number_format)
    }
    bias = float((tables[number_format] - tables["FP32"]).mean())
    print(f"{number_format}: mean difference to FP32 {bias:+.1e}")
    assert abs(bias) < largest_bias
