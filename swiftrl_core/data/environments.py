"""Tabular environments as arrays: all that sampling and exact evaluation need of a Gymnasium environment.

Gymnasium's toy-text environments publish their dynamics as ``P[s][a] = [(probability, next state, reward,
terminated), ...]``. Reading that table once, into padded arrays, lets the rest of the package collect a
million transitions in a fraction of a second and compute returns exactly instead of estimating them.
"""

import difflib
import functools
import json
import re
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.spaces import Discrete

from swiftrl_core.util.errors import SwiftRLError

# Short name -> ids to try, newest first: Gymnasium 1.2 made CliffWalking-v0 v1, and 1.3 made Taxi-v3 v4.
SHORT_NAMES = MappingProxyType(
    {
        "frozenlake": ("FrozenLake-v1",),
        "frozenlake8x8": ("FrozenLake8x8-v1",),
        "taxi": ("Taxi-v4", "Taxi-v3"),
        "cliffwalking": ("CliffWalking-v1", "CliffWalking-v0"),
    }
)
PROBABILITY_TOLERANCE = 1e-9  # how far the probabilities of one (state, action) may sum from 1
START_PROBES = 1000  # resets tried when an environment does not publish its start distribution
# Wrappers `gymnasium.make` adds by itself; none of them changes an observation, a reward or the dynamics.
_TRANSPARENT = (wrappers.TimeLimit, wrappers.OrderEnforcing, wrappers.PassiveEnvChecker)


@dataclass(frozen=True, eq=False)
class Environment:
    """A finite environment: its identity, and its dynamics as arrays.

    S, A and K are the numbers of states, of actions and of outcomes a (state, action) has at most. Shorter
    outcome lists are padded with probability 0. All arrays are read-only.

    Attributes
    ----------
    name : str
        Short name such as ``"taxi"``, or the Gymnasium id where there is none.
    env_id : str
        The Gymnasium id that was resolved, such as ``"Taxi-v4"``.
    kwargs : dict
        Arguments given to `gymnasium.make`; JSON values only, which are stored with every data set.
    gymnasium_version : str
        Version the table was read from.
    n_states, n_actions : int
        S and A.
    step_limit : int or None
        Steps after which the environment truncates an episode; None where it never does.
    probability : (S, A, K) float64
        Probability of each outcome; outcomes that Gymnasium lists twice are summed.
    next_state : (S, A, K) int32
    reward : (S, A, K) float64
    terminated : (S, A, K) bool
        The flag of ``P``. It, not the next state, marks the end of an episode: Taxi's final states are ordinary
        states in ``P``.
    start : (S,) float64
        Distribution of the first state.
    terminal : (S,) bool
        States that an episode can end in by termination and never passes through.
    reward_range : (float, float)
        Lowest and highest reward of any outcome.
    inexact : str or None
        Why ``P`` does not describe what `step` does, as a clause; None where it does.

    Raises
    ------
    SwiftRLError
        If shapes, probabilities or next states contradict each other.
    """

    name: str
    env_id: str
    kwargs: dict[str, Any]
    gymnasium_version: str
    n_states: int
    n_actions: int
    step_limit: int | None
    probability: np.ndarray
    next_state: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    start: np.ndarray
    terminal: np.ndarray
    reward_range: tuple[float, float]
    inexact: str | None = None

    def __post_init__(self) -> None:
        _check_shapes(self)
        _check_dynamics(self)
        for field in ("probability", "next_state", "reward", "terminated", "start", "terminal"):
            view = getattr(self, field).view()
            view.setflags(write=False)
            object.__setattr__(self, field, view)

    def make(self) -> gymnasium.Env:
        """Return a fresh Gymnasium environment with the recorded id and arguments."""
        return gymnasium.make(self.env_id, **self.kwargs)

    @functools.cached_property
    def thresholds(self) -> np.ndarray:
        """(S * A, K) float64: the outcome of a uniform draw u in [0, 1) is the first threshold above u.

        The last possible outcome's threshold is 1 exactly, so that rounding can never select the padding.
        """
        flat = self.probability.reshape(-1, self.probability.shape[2])
        cumulative = np.cumsum(flat, axis=1)
        last = flat.shape[1] - 1 - np.argmax(flat[:, ::-1] > 0, axis=1)
        cumulative[np.arange(flat.shape[1]) >= last[:, None]] = 1.0
        return cumulative

    @functools.cached_property
    def start_thresholds(self) -> np.ndarray:
        """(S,) float64: the same for the first state of an episode."""
        cumulative = np.cumsum(self.start)
        cumulative[np.flatnonzero(self.start)[-1] :] = 1.0
        return cumulative

    def sample_starts(self, uniform: np.ndarray) -> np.ndarray:
        """Turn uniform draws in [0, 1), shape (n,), into first states, (n,) int64."""
        return np.searchsorted(self.start_thresholds, uniform, side="right")

    def sample_outcomes(self, state: np.ndarray, action: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Draw one outcome for each of n (state, action) pairs.

        Parameters
        ----------
        state, action : (n,) integers
        uniform : (n,) float64
            Draws in [0, 1), one per pair.

        Returns
        -------
        (n,) int64
            Indices into the flattened ``next_state``, ``reward`` and ``terminated``.
        """
        pair = np.asarray(state, np.int64) * self.n_actions + action
        outcomes = self.probability.shape[2]
        if outcomes == 1:
            return pair
        return pair * outcomes + np.sum(uniform[:, None] >= self.thresholds[pair], axis=1)


def resolve(name: "str | Environment", **kwargs: Any) -> Environment:
    """Return the environment of a name.

    Parameters
    ----------
    name : str or Environment
        ``"frozenlake"`` (4x4, slippery), ``"frozenlake8x8"``, ``"taxi"``, ``"cliffwalking"`` in any case,
        or the id of a registered Gymnasium environment with discrete spaces and a ``P`` table. An
        `Environment` is returned as it is.
    **kwargs
        Passed to `gymnasium.make`; JSON values only, such as ``is_slippery=False``.

    Raises
    ------
    SwiftRLError
        If the name is unknown, the arguments do not fit, or the environment is not a finite table.
    """
    if isinstance(name, Environment):
        if kwargs:
            raise SwiftRLError(
                f"{name.env_id} is already resolved, so {sorted(kwargs)} cannot be applied; give its name instead"
            )
        return name
    if not isinstance(name, str):
        raise SwiftRLError(f"an environment is a name or an Environment, not {type(name).__name__}")
    env_id = _registered_id(name)
    kwargs = _plain(env_id, kwargs)
    with closing(_make(env_id, kwargs)) as first, closing(_make(env_id, kwargs)) as second:
        environment = _read(env_id, kwargs, first)
        table, again = first.unwrapped.P, second.unwrapped.P
        if table is not again and table != again:
            raise SwiftRLError(
                f"{env_id} with {kwargs} differs each time it is made; fix its layout, as "
                f"with desc=[...] for FrozenLake"
            )
        return environment


def base_id(env_id: str) -> str:
    """Return a Gymnasium id without its version: ``"Taxi-v4"`` becomes ``"Taxi"``."""
    return re.sub(r"-v\d+$", "", env_id)


def _registered_id(name: str) -> str:
    """Map a short name, in any case, to an id registered here; leave an id as it is."""
    candidates = SHORT_NAMES.get(name.lower(), (name,))
    for env_id in candidates:
        if ":" in env_id or env_id in gymnasium.registry:  # "module:Name-v0" registers itself when made
            return env_id
    tabular = [key for key, spec in gymnasium.registry.items() if "toy_text" in str(spec.entry_point)]
    known = {short.lower(): short for short in [*SHORT_NAMES, *tabular]}
    close = [known[key] for key in difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6)]
    hint = f"did you mean {' or '.join(close)}, or " if close else ""
    raise SwiftRLError(
        f"environment {name!r} is unknown to gymnasium {gymnasium.__version__}; {hint}use one of "
        f"{', '.join(SHORT_NAMES)} or a registered id"
    )


def _plain(env_id: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as JSON gives them back, so that stored data names the same environment."""
    try:
        return json.loads(json.dumps(kwargs, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise SwiftRLError(
            f"the arguments of {env_id} must be plain JSON values, for they are stored with the data: {error}"
        ) from error


def _make(env_id: str, kwargs: dict[str, Any]) -> gymnasium.Env:
    try:
        return gymnasium.make(env_id, **kwargs)
    except Exception as error:  # an environment's constructor may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise SwiftRLError(f"gymnasium cannot make {env_id} with arguments {kwargs}: {reason}") from error


def _read(env_id: str, kwargs: dict[str, Any], env: gymnasium.Env) -> Environment:
    """Read identity and dynamics from a made environment."""
    n_states = size_of(env_id, "observation", env.observation_space)
    n_actions = size_of(env_id, "action", env.action_space)
    table = getattr(env.unwrapped, "P", None)
    if table is None:
        raise SwiftRLError(
            f"{env_id} has no transition table P, which sampling and exact evaluation read; choose one of "
            f"{', '.join(SHORT_NAMES)}"
        )
    probability, next_state, reward, terminated = _arrays(env_id, table, n_states, n_actions)
    start = _start_distribution(env_id, env, n_states)
    possible = reward[probability > 0]
    return Environment(
        name=next((short for short, ids in SHORT_NAMES.items() if env_id in ids), env_id),
        env_id=env_id,
        kwargs=kwargs,
        gymnasium_version=gymnasium.__version__,
        n_states=n_states,
        n_actions=n_actions,
        step_limit=env.spec.max_episode_steps,
        probability=probability,
        next_state=next_state,
        reward=reward,
        terminated=terminated,
        start=start,
        terminal=_terminal_states(probability, next_state, terminated, start),
        reward_range=(float(possible.min()), float(possible.max())),
        inexact=_inexact(env),
    )


def size_of(env_id: str, kind: str, space: gymnasium.Space) -> int:
    """Return n of a space Discrete(n) that starts at 0, or raise `SwiftRLError`."""
    if not isinstance(space, Discrete) or space.start != 0:
        raise SwiftRLError(
            f"{env_id} has the {kind} space {space}, but a Q-table needs Discrete(n) that starts at 0"
        )
    return int(space.n)


def _arrays(env_id: str, table: Any, n_states: int, n_actions: int) -> tuple[np.ndarray, ...]:
    """Turn ``P`` into padded arrays; equal outcomes are summed, impossible ones dropped."""
    outcomes = [[_outcomes(env_id, table, n_states, s, a) for a in range(n_actions)] for s in range(n_states)]
    width = max(len(merged) for row in outcomes for merged in row)
    shape = (n_states, n_actions, width)
    probability, reward = np.zeros(shape), np.zeros(shape)
    next_state, terminated = np.zeros(shape, np.int32), np.zeros(shape, bool)
    for s, row in enumerate(outcomes):
        for a, merged in enumerate(row):
            for k, ((state, value, ends), chance) in enumerate(merged.items()):
                probability[s, a, k], reward[s, a, k] = chance, value
                next_state[s, a, k], terminated[s, a, k] = state, ends
    return probability, next_state, reward, terminated


def _outcomes(
    env_id: str, table: Any, n_states: int, state: int, action: int
) -> dict[tuple[int, float, bool], float]:
    """Return {(next state, reward, terminated): probability} of one pair, in the order of ``P``."""
    merged: dict[tuple[int, float, bool], float] = {}
    try:
        for chance, following, reward, terminated in table[state][action]:
            key = (int(following), float(reward), bool(terminated))
            if not 0 <= key[0] < n_states:
                raise SwiftRLError(
                    f"P of {env_id} leads from state {state} by action {action} to state {following}, outside "
                    f"0..{n_states - 1}, the observation space"
                )
            if chance != 0:
                merged[key] = merged.get(key, 0.0) + float(chance)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise SwiftRLError(
            f"P of {env_id} has no list of (probability, next state, reward, terminated) at state {state}, "
            f"action {action}: {type(error).__name__} {error}"
        ) from error
    if not merged:
        raise SwiftRLError(f"P of {env_id} lists no possible outcome at state {state}, action {action}")
    return merged


def _start_distribution(env_id: str, env: gymnasium.Env, n_states: int) -> np.ndarray:
    """Return the published start distribution, else a fixed start state if every probe agrees on one.

    A start state of probability p escapes `START_PROBES` resets with probability (1 - p) ** 1000: below
    1e-4 for p of 1 %.
    """
    published = getattr(env.unwrapped, "initial_state_distrib", None)
    if published is not None:
        start = np.array(published, np.float64)
        if start.shape != (n_states,):
            raise SwiftRLError(
                f"{env_id}: initial_state_distrib has shape {start.shape}, expected ({n_states},)"
            )
        return start
    seen = {int(env.unwrapped.reset(seed=seed)[0]) for seed in range(START_PROBES)}
    if len(seen) > 1:
        raise SwiftRLError(
            f"{env_id} publishes no initial_state_distrib and starts in {len(seen)} different states, so its "
            f"start distribution is unknown; add the attribute to the environment"
        )
    start = np.zeros(n_states)
    start[seen.pop()] = 1.0
    return start


def _terminal_states(
    probability: np.ndarray, next_state: np.ndarray, terminated: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Return the mask of states that some outcome ends in and that no episode passes through."""
    possible = probability > 0
    live = start > 0
    newly = live
    while newly.any():
        reached = np.zeros_like(live)
        reached[next_state[newly][possible[newly] & ~terminated[newly]]] = True
        newly = reached & ~live
        live = live | newly
    final = np.zeros_like(live)
    final[next_state[possible & terminated]] = True
    return final & ~live


def _inexact(env: gymnasium.Env) -> str | None:
    """Return why ``P`` does not describe `step`, as far as that can be known.

    Gymnasium's rainy Taxi is in ``P`` and so exact; its fickle passenger is drawn inside `step`.
    """
    if getattr(env.unwrapped, "fickle_passenger", False):
        return "its fickle passenger changes the destination outside P"
    while isinstance(env, gymnasium.Wrapper):
        if type(env) not in _TRANSPARENT:
            return f"its wrapper {type(env).__name__} may change the dynamics in P"
        env = env.env
    return None


def _check_shapes(environment: Environment) -> None:
    states, actions = environment.n_states, environment.n_actions
    shape = environment.probability.shape
    if len(shape) != 3 or shape[:2] != (states, actions) or shape[2] < 1:
        raise SwiftRLError(
            f"{environment.env_id}: probability has shape {shape}, expected ({states}, {actions}, outcomes)"
        )
    wanted = {
        "probability": (shape, np.float64),
        "next_state": (shape, np.int32),
        "reward": (shape, np.float64),
        "terminated": (shape, np.bool_),
        "start": ((states,), np.float64),
        "terminal": ((states,), np.bool_),
    }
    for field, (expected, dtype) in wanted.items():
        array = getattr(environment, field)
        if array.shape != expected or array.dtype != dtype:
            raise SwiftRLError(
                f"{environment.env_id}: {field} is {array.dtype} {array.shape}, expected {dtype.__name__} {expected}"
            )


def _check_dynamics(environment: Environment) -> None:
    sums = environment.probability.sum(axis=2)
    wrong = np.argwhere(~(np.abs(sums - 1) <= PROBABILITY_TOLERANCE))
    if len(wrong):
        state, action = wrong[0]
        raise SwiftRLError(
            f"{environment.env_id}: probabilities at state {state}, action {action} sum to "
            f"{sums[state, action]:g}, expected 1"
        )
    start = environment.start
    if not np.abs(start.sum() - 1) <= PROBABILITY_TOLERANCE:
        raise SwiftRLError(
            f"{environment.env_id}: the start distribution sums to {start.sum():g}, expected 1"
        )
    if environment.probability.min() < 0 or start.min() < 0:
        raise SwiftRLError(f"{environment.env_id}: a probability is negative, expected 0 to 1")
    if environment.next_state.min() < 0 or environment.next_state.max() >= environment.n_states:
        raise SwiftRLError(
            f"{environment.env_id}: a next state lies outside 0..{environment.n_states - 1}, the observation space"
        )
    if not np.abs(environment.reward).max() <= np.finfo(np.float32).max:
        raise SwiftRLError(f"{environment.env_id}: a reward is not a finite number in single precision")
