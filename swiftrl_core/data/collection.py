"""Collect transitions: log a uniform random policy in an environment."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Any

import numpy as np

from swiftrl_core.data.environments import Environment, resolve
from swiftrl_core.data.transitions import COLUMNS, Dataset
from swiftrl_core.util.checks import whole_number

MAXIMUM_ROWS = 2**31 - 1  # episode numbers are int32
_BLOCK = 1 << 16  # random numbers drawn at a time; part of what a seed means


def collect(environment: str | Environment, transitions: int, seed: int) -> Dataset:
    """Log a uniform random policy, as if the Gymnasium environment had been stepped and reset in a loop.

    The sampler walks through ``P`` one transition after the other, with random numbers drawn in blocks. It is the same
    Markov chain as that of the real environment. Running many episodes in parallel and stopping when there are enough
    rows would favour short episodes; a single walk, cut after the last row, cannot. So the last episode is usually
    unfinished, and then carries neither flag. A smaller data set is a prefix of a larger one of the same seed.

    Where ``P`` does not describe `step` (`Environment.inexact`), the real environment is stepped: about 15 us a
    transition instead of 0.2 us.

    Parameters
    ----------
    environment : str or Environment
        See `swiftrl_core.data.environments.resolve`.
    transitions : int
        Number of rows.
    seed : int
        Decides every row; not negative.

    Returns
    -------
    Dataset
        Episodes are consecutive rows, numbered from 0.

    Raises
    ------
    SwiftRLError
        If the environment, the number of rows or the seed is not valid.

    Examples
    --------
    >>> from swiftrl_core import collect
    >>> lake = collect("frozenlake", 500, seed=1)
    >>> len(lake), lake.n_states, lake.n_actions
    (500, 16, 4)
    >>> lake.state[:6]
    array([0, 0, 1, 2, 2, 2], dtype=int32)
    """
    environment = resolve(environment)
    transitions = whole_number(transitions, "the number of transitions", 1, MAXIMUM_ROWS)
    seed = whole_number(seed, "the seed", 0)
    columns = (_step if environment.inexact else _walk)(environment, transitions, seed)
    return Dataset.logged_in(environment, columns, policy="uniform random", seed=seed, source="collected")


def _walk(environment: Environment, transitions: int, seed: int) -> dict[str, np.ndarray]:
    """Sample a chain of transitions from ``P``; return the columns."""
    outcome, lengths = _chain(environment, transitions, *_streams(environment, seed))
    pair = outcome // environment.probability.shape[2]
    terminated = environment.terminated.ravel()[outcome]
    last = np.cumsum(lengths) - 1  # row in which each episode stops
    truncated = np.zeros(transitions, bool)
    truncated[last] = (lengths == environment.step_limit) & ~terminated[last]
    return {
        "state": (pair // environment.n_actions).astype(np.int32),
        "action": (pair % environment.n_actions).astype(np.int32),
        "reward": environment.reward.ravel()[outcome].astype(np.float32),
        "next_state": environment.next_state.ravel()[outcome],
        "terminated": terminated,
        "truncated": truncated,
        "episode": np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
    }


def _streams(environment: Environment, seed: int) -> tuple[Iterator[int], Iterator[float], Iterator[int]]:
    """Return endless draws of actions, of uniform numbers for the outcomes, and of start states.

    Each has a generator of its own, so that no row depends on how many rows are wanted.
    """
    actions, uniforms, starts = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(3))
    return (
        _endless(lambda: actions.integers(environment.n_actions, size=_BLOCK)),
        _endless(lambda: uniforms.random(_BLOCK)),
        _endless(lambda: environment.sample_starts(starts.random(_BLOCK))),
    )


def _endless(block: Callable[[], np.ndarray]) -> Iterator[Any]:
    """Chain the blocks a function draws, one Python number at a time, for ever."""
    return chain.from_iterable(iter(lambda: block().tolist(), None))


def _chain(
    environment: Environment,
    transitions: int,
    actions: Iterator[int],
    uniforms: Iterator[float],
    starts: Iterator[int],
) -> tuple[np.ndarray, np.ndarray]:
    """Walk through ``P`` with resets; return flat outcome indices (n,) and episode lengths (episodes,).

    Lists and `bisect` rather than arrays: one step depends on the one before, and NumPy costs 20 times as
    much as a list when it handles one number.
    """
    outcomes, n_actions = environment.probability.shape[2], environment.n_actions
    thresholds = environment.thresholds.tolist()
    next_pair = (environment.next_state.ravel() * n_actions).tolist()  # pair of (next state, action 0)
    ends = environment.terminated.ravel().tolist()
    draws = zip(actions, uniforms, strict=False)
    limit = environment.step_limit or transitions
    chosen, lengths = array("q"), array("q")
    while (before := len(chosen)) < transitions:
        pair = next(starts) * n_actions
        for action, uniform in islice(draws, min(limit, transitions - before)):
            pair += action
            outcome = pair * outcomes + bisect_right(thresholds[pair], uniform)
            chosen.append(outcome)
            if ends[outcome]:
                break
            pair = next_pair[outcome]
        lengths.append(len(chosen) - before)
    return np.frombuffer(chosen, np.int64), np.frombuffer(lengths, np.int64)


def _step(environment: Environment, transitions: int, seed: int) -> dict[str, np.ndarray]:
    """Step the real environment instead; return the same columns."""
    # Gymnasium makes the environment's generator of the seed as NumPy does. Actions from default_rng(seed) would be
    # the same stream as the outcomes; on Taxi, reward shares then vary a fifth as much between seeds as they should.
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
    rows, episode = [], 0
    with closing(environment.make()) as env:
        state, _ = env.reset(seed=seed)
        for action in rng.integers(environment.n_actions, size=transitions).tolist():
            following, reward, terminated, truncated, _ = env.step(action)
            rows.append((state, action, reward, following, terminated, truncated and not terminated, episode))
            state = following
            if terminated or truncated:
                episode += 1
                state, _ = env.reset()
    columns = zip(*rows, strict=True)
    return {name: np.array(column, COLUMNS[name]) for name, column in zip(COLUMNS, columns, strict=True)}
