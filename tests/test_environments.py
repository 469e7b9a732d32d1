"""Environments: the arrays say what Gymnasium's own table and resets say, and what is no table is refused."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from swiftrl_core.data.environments import SHORT_NAMES, Environment, base_id, resolve
from swiftrl_core.util.errors import SwiftRLError


@pytest.fixture
def register():
    """Register environments for one test only."""
    ids = []

    def add(env_id: str, entry_point, **kwargs) -> str:
        gymnasium.register(env_id, entry_point=entry_point, **kwargs)
        ids.append(env_id)
        return env_id

    yield add
    for env_id in ids:
        del gymnasium.registry[env_id]


class Corridor(gymnasium.Env):
    """Two cells and a goal; each test spoils one thing."""

    def __init__(self, table=None, start=None, first=0, observation=None):
        self.observation_space = observation or Discrete(3)
        self.action_space = Discrete(2)
        self.P = table or {
            s: {a: [(1.0, min(s + a, 2), s + a - 0.5, s + a >= 2)] for a in (0, 1)} for s in (0, 1, 2)
        }
        if start is not None:
            self.initial_state_distrib = start
        self.first = first

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return (self.first if self.first is not None else int(self.np_random.integers(2))), {}


def expected(environment: Environment) -> dict:
    """Gymnasium's own table as {(s, a, s', r, terminated): probability}."""
    total: dict = {}
    for s, row in environment.make().unwrapped.P.items():
        for a, outcomes in row.items():
            for p, following, reward, ends in outcomes:
                key = (int(s), a, int(following), float(reward), bool(ends))
                total[key] = total.get(key, 0.0) + p
    return {key: p for key, p in total.items() if p}


@pytest.mark.parametrize("name", [*SHORT_NAMES, "CliffWalkingSlippery-v1"])
def test_arrays_hold_gymnasiums_table(name):
    environment = resolve(name)
    found = {}
    for s, a, k in np.argwhere(environment.probability > 0):
        key = tuple(
            table[s, a, k].item()
            for table in (environment.next_state, environment.reward, environment.terminated)
        )
        assert (s, a, *key) not in found, "an outcome is listed twice"
        found[s, a, *key] = environment.probability[s, a, k]
    assert found == pytest.approx(expected(environment), abs=1e-15)
    np.testing.assert_allclose(environment.probability.sum(axis=2), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "states", "actions", "limit", "rewards", "terminal"),
    [
        ("frozenlake", 16, 4, 100, (0, 1), [5, 7, 11, 12, 15]),
        ("frozenlake8x8", 64, 4, 200, (0, 1), [19, 29, 35, 41, 42, 46, 49, 52, 54, 59, 63]),
        ("taxi", 500, 6, 200, (-10, 20), [0, 85, 410, 475]),
        ("cliffwalking", 48, 4, None, (-100, -1), [47]),
    ],
)
def test_known_environments(name, states, actions, limit, rewards, terminal):
    environment = resolve(name)
    assert (environment.n_states, environment.n_actions, environment.step_limit) == (states, actions, limit)
    assert environment.reward_range == rewards
    assert np.flatnonzero(environment.terminal).tolist() == terminal
    assert environment.name == name
    assert environment.inexact is None
    assert environment.gymnasium_version == gymnasium.__version__


def test_starts_are_the_environments():
    assert np.flatnonzero(resolve("frozenlake").start).tolist() == [0]
    assert np.flatnonzero(resolve("cliffwalking").start).tolist() == [36]
    taxi = resolve("taxi")
    env = taxi.make()
    seen = {env.reset(seed=seed)[0] for seed in range(1500)}
    assert np.count_nonzero(taxi.start) == 300
    assert seen <= set(np.flatnonzero(taxi.start).tolist())
    np.testing.assert_allclose(taxi.start[taxi.start > 0], 1 / 300, rtol=1e-12)


def test_a_name_in_any_case_an_id_and_an_environment_resolve_alike():
    taxi = resolve("Taxi")
    assert taxi.env_id in SHORT_NAMES["taxi"]
    assert resolve(taxi.env_id).name == "taxi"
    assert resolve(taxi) is taxi
    assert base_id(taxi.env_id) == "Taxi"
    assert base_id("module:My-v2-Env-v10") == "module:My-v2-Env"


def test_arguments_reach_the_environment_and_are_recorded_as_json():
    environment = resolve("frozenlake", is_slippery=False, reward_schedule=(10, -5, -1), max_episode_steps=7)
    assert environment.kwargs == {
        "is_slippery": False,
        "reward_schedule": [10, -5, -1],
        "max_episode_steps": 7,
    }
    assert environment.reward_range == (-5, 10)
    assert environment.probability.shape[2] == 1
    assert environment.step_limit == environment.make().spec.max_episode_steps == 7


def test_arrays_cannot_be_changed_and_travel_between_processes():
    environment = resolve("taxi")
    with pytest.raises(ValueError, match="read-only"):
        environment.reward[0, 0, 0] = 1
    copy = pickle.loads(pickle.dumps(environment))
    np.testing.assert_array_equal(copy.next_state, environment.next_state)


def test_outcomes_are_drawn_with_their_probability_and_never_from_the_padding():
    environment = resolve("frozenlake")
    draws = 200_000
    rng = np.random.default_rng(0)
    for state, action in [(0, 0), (6, 2), (14, 1), (15, 3)]:
        outcome = environment.sample_outcomes(
            np.full(draws, state), np.full(draws, action), rng.random(draws)
        )
        seen = (
            np.bincount(outcome - (state * 4 + action) * environment.probability.shape[2], minlength=3)
            / draws
        )
        np.testing.assert_allclose(seen, environment.probability[state, action], rtol=0, atol=0.005)
    last = np.full(environment.n_states * 4, np.nextafter(1, 0))
    pairs = np.arange(environment.n_states * 4)
    outcome = environment.sample_outcomes(pairs // 4, pairs % 4, last)
    assert (environment.probability.ravel()[outcome] > 0).all()
    assert environment.start[environment.sample_starts(last)].min() > 0


@pytest.mark.parametrize(
    ("name", "kwargs", "parts"),
    [
        ("frozenlak", {}, ["'frozenlak'", "did you mean frozenlake", "cliffwalking"]),
        ("Taxi-v9", {}, ["'Taxi-v9'", "taxi"]),
        ("zzz", {}, ["frozenlake, frozenlake8x8, taxi, cliffwalking"]),
        ("CartPole-v1", {}, ["observation space", "Discrete"]),
        ("Blackjack-v1", {}, ["observation space", "Tuple"]),
        ("frozenlake", {"map_name": "9x9"}, ["FrozenLake-v1", "9x9"]),
        ("frozenlake", {"slip": 1}, ["unexpected keyword argument 'slip'"]),
        ("frozenlake", {"map_name": None}, ["differs each time it is made", "desc"]),
        ("taxi", {"render_mode": object()}, ["JSON"]),
        ("no.such.module:Env-v0", {}, ["no.such.module:Env-v0"]),
        (3, {}, ["not int"]),
    ],
)
def test_what_is_no_known_table_is_refused_in_one_sentence(name, kwargs, parts):
    with pytest.raises(SwiftRLError) as caught:
        resolve(name, **kwargs)
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_arguments_on_top_of_an_environment_are_refused():
    with pytest.raises(SwiftRLError, match="already resolved"):
        resolve(resolve("taxi"), is_rainy=True)


def test_fickle_taxi_is_known_to_be_inexact_and_rainy_taxi_exact():
    assert "fickle" in resolve("taxi", fickle_passenger=True).inexact
    assert resolve("taxi", is_rainy=True).inexact is None


def test_a_wrapper_makes_a_table_inexact(register):
    class Doubled(gymnasium.RewardWrapper):
        def reward(self, reward):
            return 2 * reward

    wrapped = resolve(register("Wrapped-v0", lambda: Doubled(Corridor(start=[1, 0, 0]))))
    assert "Doubled" in wrapped.inexact


def test_an_environment_of_ones_own(register):
    own = resolve(register("Corridor-v0", lambda: Corridor(start=[0.5, 0.5, 0]), max_episode_steps=9))
    assert (own.name, own.n_states, own.n_actions, own.step_limit) == ("Corridor-v0", 3, 2, 9)
    assert own.start.tolist() == [0.5, 0.5, 0]
    assert own.terminal.tolist() == [False, False, True]
    assert own.reward_range == (-0.5, 2.5)


def test_a_start_distribution_is_derived_only_from_a_fixed_start(register):
    fixed = resolve(register("Fixed-v0", lambda: Corridor(first=1)))
    assert fixed.start.tolist() == [0, 1, 0]
    with pytest.raises(SwiftRLError, match="starts in 2 different states"):
        resolve(register("Random-v0", lambda: Corridor(first=None)))


def spoiled(outcomes) -> dict:
    table = Corridor().P
    table[1][0] = outcomes
    return table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": spoiled([(0.5, 0, 0.0, False)])}, "state 1, action 0 sum to 0.5"),
        ({"table": spoiled([(float("nan"), 0, 0.0, False)])}, "sum to nan"),
        ({"table": spoiled([(1.5, 0, 0.0, False), (-0.5, 1, 0.0, False)])}, "negative"),
        ({"table": spoiled([(1.0, 3, 0.0, False)])}, "from state 1 by action 0 to state 3, outside 0..2"),
        ({"table": spoiled([(1.0, 0, float("inf"), False)])}, "not a finite number"),
        ({"table": spoiled([(1.0, 0, 0.0)])}, "state 1, action 0"),
        ({"table": spoiled([])}, "no possible outcome at state 1, action 0"),
        ({"table": {0: Corridor().P[0]}}, "at state 1, action 0: KeyError"),
        ({"start": [0.5, 0, 0]}, "start distribution sums to 0.5"),
        ({"start": [1.0, 0]}, r"initial_state_distrib has shape \(2,\)"),
        ({"observation": Discrete(3, start=1)}, "starts at 0"),
        ({"observation": Box(0, 1)}, "Discrete"),
    ],
)
def test_a_wrong_table_is_refused_naming_the_place(register, arguments, message):
    arguments = {"start": [1.0, 0, 0], **arguments}
    with pytest.raises(SwiftRLError, match=message):
        resolve(register("Spoiled-v0", lambda: Corridor(**arguments)))
