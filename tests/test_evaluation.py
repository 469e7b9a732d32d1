"""Evaluation: the known optima, the exact return against played episodes, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.data import evaluation
from swiftrl_core.data.environments import Environment, resolve
from swiftrl_core.data.evaluation import (
    IMPOSED_STEP_LIMIT,
    exact_return,
    greedy_policy,
    monte_carlo_return,
    optimal_return,
    policy_return,
    value_iteration,
)
from swiftrl_core.experiments.quickstart import policy_on_map
from swiftrl_core.util.errors import SwiftRLError


def uniform_policy(environment: str | Environment) -> np.ndarray:
    """Return the policy that logged the data, every action equally likely, as (S, A) float64."""
    environment = resolve(environment)
    return np.full((environment.n_states, environment.n_actions), 1 / environment.n_actions)


def played(environment: Environment, action_of, episodes: int, seed: int) -> np.ndarray:
    """Returns of episodes stepped in Gymnasium, at most the evaluation's step limit each."""
    env = environment.make()
    returns = []
    for episode in range(episodes):
        state, _ = env.reset(seed=seed if episode == 0 else None)
        total = 0.0
        for _ in range(environment.step_limit or IMPOSED_STEP_LIMIT):
            state, reward, terminated, truncated, _ = env.step(action_of(state))
            total += reward
            if terminated or truncated:
                break
        returns.append(total)
    return np.array(returns)


# What independent reference implementations found, quoted to the digits they printed.
@pytest.mark.parametrize(
    ("name", "value", "greedy", "greedy_99", "best", "uniform"),
    [
        ("frozenlake", 0.18047, 0.72977, 0.74016, 0.74419, 0.01394),
        ("frozenlake8x8", 0.04825, 0.73858, 0.86296, 0.91322, 0.00190),
        ("taxi", 1.72993, 7.93, 7.93, 7.93, -771.09),
        ("cliffwalking", -9.73316, -13, -13, -13, -2079.1),
    ],
)
def test_known_optima_and_behaviour(name, value, greedy, greedy_99, best, uniform):
    environment = resolve(name)
    q = value_iteration(environment, 0.95)
    assert environment.start @ q.max(axis=1) == pytest.approx(value, abs=5.1e-6)
    assert exact_return(environment, q) == pytest.approx(greedy, abs=5.1e-6)
    assert exact_return(environment, value_iteration(environment, 0.99)) == pytest.approx(
        greedy_99, abs=5.1e-6
    )
    assert optimal_return(environment) == pytest.approx(best, abs=5.1e-6)
    digits = 5.1e-6 if abs(uniform) < 1 else 5.1e-3 if abs(uniform) < 1000 else 5.1e-2
    assert policy_return(environment, uniform_policy(environment)) == pytest.approx(uniform, abs=digits)


@pytest.mark.parametrize("name", ["frozenlake", "taxi", "cliffwalking"])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.95, 0.999])
def test_value_iteration_solves_the_bellman_equation(name, gamma):
    environment = resolve(name)
    q = value_iteration(environment, gamma)
    best = np.where(environment.terminated, 0, q.max(axis=1)[environment.next_state])
    target = np.sum(environment.probability * (environment.reward + gamma * best), axis=2)
    scale = max(map(abs, environment.reward_range))
    assert np.abs(q - target).max() <= 1e-10 * scale
    assert q.dtype == np.float64


def test_smallest_action_gaps_are_the_known_ones():
    for name, gap in [
        ("frozenlake", 0.0066),
        ("frozenlake8x8", 0.0005),
        ("taxi", 0.836),
        ("cliffwalking", 0.513),
    ]:
        environment = resolve(name)
        q = np.sort(value_iteration(environment, 0.95)[~environment.terminal], axis=1)
        gaps = q[:, -1:] - q[:, :-1]
        assert gaps[gaps > 1e-9].min() == pytest.approx(gap, rel=0.1)


@pytest.mark.parametrize(("name", "episodes"), [("frozenlake", 2000), ("taxi", 400)])
def test_exact_return_agrees_with_the_real_environment(name, episodes):
    environment = resolve(name)
    greedy = value_iteration(environment, 0.95).argmax(axis=1)
    returns = played(environment, lambda state: int(greedy[state]), episodes, seed=1)
    z = (returns.mean() - exact_return(environment, value_iteration(environment, 0.95))) / (
        returns.std(ddof=1) / math.sqrt(episodes)
    )
    assert abs(z) < 4


def test_uniform_return_agrees_with_the_real_environment():
    environment = resolve("taxi")
    rng = np.random.default_rng(
        3
    )  # another seed than the environment's, else actions and starts are one stream
    returns = played(environment, lambda _: int(rng.integers(6)), 150, seed=2)
    z = (returns.mean() - policy_return(environment, uniform_policy(environment))) / (
        returns.std() / math.sqrt(150)
    )
    assert abs(z) < 4


@pytest.mark.parametrize("name", ["frozenlake", "frozenlake8x8", "taxi"])
def test_monte_carlo_agrees_with_the_exact_return_and_with_the_real_environment(name):
    environment = resolve(name)
    q = value_iteration(environment, 0.95)
    mean, error = monte_carlo_return(environment, q, episodes=20_000, seed=3)
    assert abs(mean - exact_return(environment, q)) < 4 * error
    greedy = q.argmax(axis=1)
    real = played(environment, lambda state: int(greedy[state]), 300, seed=3)
    assert error * math.sqrt(20_000) == pytest.approx(real.std(ddof=1), rel=0.15), "spread of one return"
    assert abs(mean - real.mean()) < 4 * math.hypot(error, real.std(ddof=1) / math.sqrt(300))


def test_monte_carlo_repeats_for_a_seed_and_the_paper_s_default_is_a_thousand_episodes():
    q = value_iteration("frozenlake", 0.95)
    assert monte_carlo_return("frozenlake", q) == monte_carlo_return("frozenlake", q, episodes=1000, seed=0)
    assert monte_carlo_return("frozenlake", q, seed=1) != monte_carlo_return("frozenlake", q, seed=2)
    mean, error = monte_carlo_return("cliffwalking", value_iteration("cliffwalking", 0.95))
    assert (mean, error) == (-13, 0)


def test_the_standard_error_is_that_of_a_mean(monkeypatch):
    """Returns 0, 1, 1, 4: mean 1.5; squares about it 2.25 + 0.25 + 0.25 + 6.25 = 9; 9 / (4 - 1) / 4 = 0.75."""
    monkeypatch.setattr(evaluation, "_play", lambda *_: np.array([0.0, 1.0, 1.0, 4.0]))
    mean, error = monte_carlo_return("frozenlake", np.zeros((16, 4)), episodes=4)
    assert mean == 1.5
    assert error == pytest.approx(math.sqrt(0.75), rel=1e-15)


def test_a_policy_s_rows_sum_to_one_but_for_the_rounding():
    policy = uniform_policy("frozenlake").copy()
    expected = policy_return("frozenlake", policy)
    policy[3, 0] += 5e-10
    assert policy_return("frozenlake", policy) == pytest.approx(expected, abs=1e-8)
    policy[3, 0] += 1e-9
    with pytest.raises(SwiftRLError, match="sum to 1"):
        policy_return("frozenlake", policy)


def test_step_limits_are_the_environments_or_imposed_or_given():
    still = np.zeros((48, 4))  # action 0 goes up and stays at the wall: -1 a step for ever
    assert exact_return("cliffwalking", still) == -IMPOSED_STEP_LIMIT == -200
    assert exact_return("cliffwalking", still, step_limit=7) == -7
    assert monte_carlo_return("cliffwalking", still, episodes=2) == (-200, 0)
    q = value_iteration("frozenlake", 0.95)
    assert exact_return("frozenlake", q, step_limit=5) == 0, "the goal is 6 steps away"
    assert 0 < exact_return("frozenlake", q, step_limit=6) < exact_return("frozenlake", q)
    short = resolve("frozenlake", max_episode_steps=6)
    assert exact_return(short, q) == exact_return("frozenlake", q, step_limit=6)


def test_ties_are_broken_by_the_lowest_action_or_averaged():
    q = np.array([[1, 2, 2], [0, 0, 0], [-np.inf, -5, -5.0]])
    np.testing.assert_array_equal(greedy_policy(q), [[0, 1, 0], [1, 0, 0], [0, 1, 0]])
    np.testing.assert_allclose(greedy_policy(q, "mean"), [[0, 0.5, 0.5], [1 / 3] * 3, [0, 0.5, 0.5]])
    environment = resolve("taxi")
    flat = np.zeros((500, 6), np.int32)
    assert exact_return(environment, flat, ties="mean") == pytest.approx(
        policy_return(environment, uniform_policy(environment)), rel=1e-12
    )
    assert exact_return(environment, flat) == -200, "action 0 drives into the wall"


@given(st.integers(0, 2**32 - 1), st.sampled_from(["frozenlake", "taxi"]), st.integers(1, 60))
def test_no_policy_beats_the_optimum_and_forward_equals_backward(seed, name, limit):
    environment = resolve(name)
    q = (
        np.random.default_rng(seed)
        .normal(size=(environment.n_states, environment.n_actions))
        .astype(np.float32)
    )
    found = exact_return(environment, q, step_limit=limit)
    # The same number by backward induction, which shares no line with the forward propagation.
    greedy, rows = q.argmax(axis=1), np.arange(environment.n_states)
    probability, follows = environment.probability[rows, greedy], environment.next_state[rows, greedy]
    reward, ends = environment.reward[rows, greedy], environment.terminated[rows, greedy]
    value = np.zeros(environment.n_states)
    for _ in range(limit):
        value = np.sum(probability * (reward + np.where(ends, 0, value[follows])), axis=1)
    assert found == pytest.approx(environment.start @ value, abs=1e-9)
    assert found <= optimal_return(environment, limit) + 1e-9


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (np.zeros((4, 16)), r"shape \(4, 16\), but FrozenLake-v1 needs \(16, 4\)"),
        (np.zeros(64), r"\(64,\)"),
        (np.zeros((16, 4), complex), "real numbers"),
        (np.zeros((16, 4), object), "real numbers"),
        (np.where(np.arange(64).reshape(16, 4) == 30, np.nan, 0), "NaN at state 7, action 2"),
    ],
)
def test_a_wrong_q_table_is_refused(q, message):
    for evaluate in (exact_return, monte_carlo_return):
        with pytest.raises(SwiftRLError, match=message):
            evaluate("frozenlake", q)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q: exact_return("frozenlake", q, ties="first"), "ties is 'first'"),
        (lambda q: exact_return("frozenlake", q, step_limit=0), "the step limit is 0"),
        (lambda q: exact_return("frozenlake", q, step_limit=2.5), "the step limit is 2.5"),
        (lambda q: exact_return("frozenlake", q, step_limit=True), "the step limit is True"),
        (lambda q: monte_carlo_return("frozenlake", q, episodes=1), "episodes is 1; expected .* at least 2"),
        (lambda q: monte_carlo_return("frozenlake", q, seed=-1), "the seed is -1"),
        (lambda _: value_iteration("frozenlake", 1.0), "gamma is 1.0"),
        (lambda _: value_iteration("frozenlake", float("nan")), "gamma is nan"),
        (lambda _: value_iteration("frozenlake", "0.9"), "gamma is '0.9'"),
        (lambda q: policy_return("frozenlake", q), "sum to 1"),
        (lambda q: policy_return("frozenlake", q[:3]), r"shape \(3, 4\)"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(SwiftRLError, match=message):
        call(np.zeros((16, 4)))


def test_fickle_taxi_is_played_but_never_computed():
    fickle = resolve("taxi", fickle_passenger=True)
    q = value_iteration("taxi", 0.95)
    for refuse in (
        lambda: exact_return(fickle, q),
        lambda: value_iteration(fickle, 0.9),
        lambda: optimal_return(fickle),
    ):
        with pytest.raises(SwiftRLError, match="no exact evaluation: its fickle passenger"):
            refuse()
    greedy = q.argmax(axis=1)
    real = played(fickle, lambda state: int(greedy[state]), 60, seed=1)
    assert monte_carlo_return(fickle, q, episodes=60, seed=1)[0] == real.mean()


def test_rainy_taxi_is_exact():
    rainy = resolve("taxi", is_rainy=True)
    q = value_iteration(rainy, 0.95)
    greedy = q.argmax(axis=1)
    returns = played(rainy, lambda state: int(greedy[state]), 500, seed=5)
    assert abs(returns.mean() - exact_return(rainy, q)) < 4 * returns.std() / math.sqrt(500)


def test_the_policy_lies_on_the_map():
    tiles = policy_on_map("frozenlake", value_iteration("frozenlake", 0.95))
    assert "".join(tiles["tile"]) == "SFFFFHFHFFFHHFFG"
    assert tiles.loc[14, ["row", "column", "action"]].tolist() == [3, 2, 1]
    assert tiles["value"].idxmax() == 14
    with pytest.raises(SwiftRLError, match="has no map"):
        policy_on_map("taxi", np.zeros((500, 6)))
