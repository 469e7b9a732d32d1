"""Fixed point against FP64 and FP32: within the bound of fixed_point.h, without a dead zone, and a mean, no median."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from swiftrl_core.data import Dataset, collect, evaluation
from swiftrl_core.experiments.precision import error_bound
from swiftrl_core.learner import Learner
from swiftrl_core.training.agents import train_agents
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
    alpha=st.sampled_from([0.0005, 0.001, 0.01, 0.1, 0.3, 0.5, 1.0]),
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


SAFE = {"update": "vr", "aggregation": "count", "sampling": "REV", "alpha_schedule": "rescaled_linear"}


@cache
def frozenlake(rows: int, seed: int) -> Dataset:
    return collect("frozenlake", rows, seed)


@cache
def learned(number_format: str, rows: int, seed: int, schedule: Schedule, **choices) -> np.ndarray:
    data = frozenlake(rows, seed)
    learner = Learner(number_format=number_format, reward_range=data.reward_range, **choices)
    return train(data, learner, schedule, "cpu").q_table


def assert_learned_as_in_fp32(number_format, rows, seed, schedule, **choices):
    """Table within 0.01, return within 1 %."""
    table, single = (learned(each, rows, seed, schedule, **choices) for each in (number_format, "FP32"))
    np.testing.assert_allclose(table, single, atol=0.01)
    returns = [evaluation.exact_return("frozenlake", q) for q in (table, single)]
    assert returns[0] == pytest.approx(returns[1], rel=0.01)


@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize("cores", [1, 8, 64, 125])
def test_the_safe_recipe_learns_what_it_does_in_fp32(number_format, cores):
    """With never_stall in units of 1/10,000 it ended at a return of 0 to 0.69 on one core, and at 0.511 on 125."""
    schedule = Schedule(cores, episodes=20, tau=2)
    assert_learned_as_in_fp32(number_format, 1_000_000, 0, schedule, **SAFE)


@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize("alpha", [0.1, 0.01, 0.001, 0.0005])
def test_a_constant_alpha_learns_what_it_does_in_fp32(number_format, alpha):
    """In units of 1/10,000 the return was 0.25 for alpha 0.001 and 0.125 for 0.0005, against 0.73."""
    assert_learned_as_in_fp32(number_format, 200_000, 11, Schedule(1, episodes=200, tau=50), alpha=alpha)


@pytest.mark.parametrize(("number_format", "papers"), [("INT32", 10_000), ("INT32_POW2", 2**13)])
def test_the_unit_is_the_papers_from_its_alpha_on_and_finer_below(number_format, papers):
    def scale(**settings) -> int:
        return Learner(number_format=number_format, **settings).scale

    assert {scale(alpha=alpha) for alpha in (0.1, 0.3, 1.0)} == {papers}
    assert scale(alpha=1.0, update="vr") == papers
    for finer in ({"alpha": 0.0999}, {"alpha": 0.0005}, {"alpha_schedule": "rescaled_linear"}):
        times, rest = divmod(scale(**finer), papers)
        assert rest == 0
        assert times > 1
        assert times & (times - 1) == 0
    assert scale(alpha=0.01, reward_range=(0, 0)) == papers


@pytest.mark.parametrize(
    ("number_format", "settings"),
    [
        ("INT32", {"alpha": 0.001, "gamma": 0.9337}),
        ("INT32_POW2", {"alpha": 0.0001}),
        ("INT32_POW2", {"alpha": 0.0005, "gamma": 0.99}),
    ],
)
def test_an_alpha_that_no_unit_resolves_is_refused_with_the_smallest_that_one_does(number_format, settings):
    with pytest.raises(SwiftRLError, match="are lost: use FP32, or alpha from ") as error:
        Learner(number_format=number_format, **settings)
    smallest = float(re.search("alpha from ([0-9.]+) on", str(error.value))[1])
    assert smallest > settings["alpha"]
    Learner(number_format=number_format, **settings | {"alpha": smallest})


def test_a_decaying_alpha_that_no_unit_resolves_is_refused():
    with pytest.raises(
        SwiftRLError, match="steps are lost as alpha falls to 0.00023: use FP32, or a constant"
    ):
        Learner(number_format="INT32", gamma=0.9337, alpha_schedule="rescaled_linear")


@pytest.mark.parametrize("number_format", FORMATS)
def test_agents_of_a_population_share_the_unit_that_suits_them_all(number_format):
    data = random_data(3, 200, states=6, actions=3, scale=1.0)
    one = Learner(number_format=number_format, reward_range=data.reward_range)
    agents = [
        replace(one, alpha=alpha, gamma=gamma) for alpha, gamma in ((0.001, 0.5), (0.1, 0.95), (1.0, 0.9))
    ]
    together = train_agents(data, agents, episodes=20, backend="cpu")
    units = {learner.scale for learner in together.learners}
    assert len(units) == 1
    assert units.pop() > one.scale
    for agent, learner in enumerate(together.learners):
        alone = train_agents(data, [learner], episodes=20, backend="cpu")
        np.testing.assert_array_equal(together.tables[agent], alone.tables[0])
    np.testing.assert_allclose(
        together.values[1], train(data, agents[1], Schedule(1, 20, 20), "cpu").q_table, atol=0.05
    )
