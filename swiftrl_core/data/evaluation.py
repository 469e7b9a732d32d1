"""Quality of a Q-table: the exact return of its greedy policy, and the paper's Monte Carlo estimate.

One FrozenLake return has a standard deviation of 0.44, so the mean of 1,000 episodes has a standard error of 0.014: too
large to compare learners that differ by 0.01. The environments publish their dynamics, so the exact expectation takes
only a few hundred small sums; the estimate is reported as well because the paper uses one.
"""

import math
from contextlib import closing
from typing import Literal

import numpy as np

from swiftrl_core.data.environments import Environment, resolve
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError

IMPOSED_STEP_LIMIT = 200
"""Step limit of evaluations in an environment that has none, such as CliffWalking-v1; 200 is Taxi's. Without a limit, a
policy that never reaches the goal would have no finite return."""
VALUE_TOLERANCE = 1e-10
"""Largest error of `value_iteration`, relative to the largest absolute reward."""

Ties = Literal["lowest", "mean"]


def value_iteration(environment: str | Environment, gamma: float) -> np.ndarray:
    """Return the optimal action values Q* of the discounted problem without a step limit.

    Iterates Q <- R + gamma * P max Q, which shrinks the error by gamma each time (Puterman, Markov Decision
    Processes, 1994, theorem 6.3.1): a change of at most tolerance * (1 - gamma) / gamma leaves an error of at
    most the tolerance, and so does the number of iterations computed from the largest possible value.

    Parameters
    ----------
    environment : str or Environment
    gamma : float
        Discount factor, 0 <= gamma < 1.

    Returns
    -------
    (S, A) float64
        Within `VALUE_TOLERANCE` times the largest absolute reward of Q*.

    Raises
    ------
    SwiftRLError
        If gamma is out of range or ``P`` is not exact.
    """
    environment, reward, continues = _exact(environment)
    if not (isinstance(gamma, (int, float, np.number)) and 0 <= gamma < 1):
        raise SwiftRLError(f"gamma is {gamma!r}; value iteration needs a number of at least 0 and below 1")
    gamma = float(gamma)
    continues = gamma * continues
    if gamma == 0:
        return reward
    scale = max(abs(bound) for bound in environment.reward_range)
    if scale == 0:
        return np.zeros_like(reward)
    stop = VALUE_TOLERANCE * scale * (1 - gamma) / gamma
    # |Q* - 0| <= scale / (1 - gamma), and every iteration multiplies the error by gamma.
    iterations = math.ceil(math.log(VALUE_TOLERANCE * (1 - gamma)) / math.log(gamma))
    q = reward
    for _ in range(iterations):
        improved = reward + np.sum(continues * q.max(axis=1)[environment.next_state], axis=2)
        change = np.abs(improved - q).max()
        q = improved
        if change <= stop:
            break
    return q


def greedy_policy(q: np.ndarray, ties: Ties = "lowest") -> np.ndarray:
    """Return the greedy policy of a Q-table as action probabilities.

    Parameters
    ----------
    q : (S, A) numbers
        Compared as they are: fixed-point tables need no conversion.
    ties : "lowest" or "mean"
        Among equal best actions take the lowest, as the kernels do, or each with the same probability.

    Returns
    -------
    (S, A) float64
        Each row sums to 1.

    Raises
    ------
    SwiftRLError
        If the table is not two-dimensional and numeric, holds a NaN, or `ties` is neither word.
    """
    q = np.asarray(q)
    if q.ndim != 2 or 0 in q.shape or q.dtype.kind not in "iuf":
        raise SwiftRLError(
            f"a Q-table is an array (states, actions) of real numbers, not {q.dtype} {q.shape}"
        )
    undefined = np.isnan(q)
    if undefined.any():
        state, action = np.argwhere(undefined)[0]
        raise SwiftRLError(
            f"the Q-table holds NaN at state {state}, action {action}, so it has no greedy action; "
            f"the learner diverged or never wrote the value"
        )
    if ties == "lowest":
        policy = np.zeros(q.shape)
        policy[np.arange(len(q)), q.argmax(axis=1)] = 1.0
        return policy
    if ties == "mean":
        best = q == q.max(axis=1, keepdims=True)
        return best / best.sum(axis=1, keepdims=True)
    raise SwiftRLError(f"ties is {ties!r}; expected 'lowest' or 'mean'")


def exact_return(
    environment: str | Environment, q: np.ndarray, ties: Ties = "lowest", step_limit: int | None = None
) -> float:
    """Return the expected undiscounted return of the greedy policy of a Q-table, exactly.

    Parameters
    ----------
    environment : str or Environment
    q : (S, A) numbers
    ties : "lowest" or "mean"
        See `greedy_policy`.
    step_limit : int, optional
        Steps after which an episode stops; by default the environment's, else `IMPOSED_STEP_LIMIT`.

    Returns
    -------
    float
        Sum of rewards per episode, the average over start states, actions and outcomes.

    Raises
    ------
    SwiftRLError
        If the table does not fit the environment or holds a NaN, or ``P`` is not exact.

    Examples
    --------
    A table of zeros always takes the lowest action, left, and never reaches the goal:

    >>> import numpy as np
    >>> from swiftrl_core import exact_return
    >>> exact_return("frozenlake", np.zeros((16, 4)))
    0.0
    >>> round(exact_return("frozenlake", np.zeros((16, 4)), ties="mean"), 4)
    0.0139
    """
    environment = resolve(environment)
    return policy_return(environment, _fitting_policy(environment, q, ties), step_limit)


def policy_return(environment: str | Environment, policy: np.ndarray, step_limit: int | None = None) -> float:
    """Return the expected undiscounted return of any stationary policy within the step limit.

    The distribution over the states of unfinished episodes is carried forward step by step; the return is
    the sum over steps of its expected reward.

    Parameters
    ----------
    environment : str or Environment
    policy : (S, A) float64
        Action probabilities.
    step_limit : int, optional
        As in `exact_return`.

    Raises
    ------
    SwiftRLError
        If the policy does not fit the environment or is no distribution, or ``P`` is not exact.
    """
    environment, reward, continues = _exact(environment)
    policy = np.asarray(policy, np.float64)
    check_shape(environment, policy, "policy")
    if not (policy.min() >= 0 and np.allclose(policy.sum(axis=1), 1, rtol=0, atol=1e-9)):
        raise SwiftRLError("a policy holds action probabilities: each row must be non-negative and sum to 1")
    reward = np.sum(policy * reward, axis=1)
    flow = policy[:, :, None] * continues
    source, *rest = np.nonzero(flow)
    target, weight = environment.next_state[source, *rest], flow[source, *rest]
    alive, total = environment.start, 0.0
    for _ in range(_limit(environment, step_limit)):
        total += float(alive @ reward)
        alive = np.bincount(target, weights=alive[source] * weight, minlength=environment.n_states)
    return total


def optimal_return(environment: str | Environment, step_limit: int | None = None) -> float:
    """Return the best expected undiscounted return within the step limit that any policy can reach.

    Backward induction: the best policy may count its steps. An upper bound of every `exact_return`.

    Raises
    ------
    SwiftRLError
        If ``P`` is not exact or the step limit is not a positive whole number.
    """
    environment, reward, continues = _exact(environment)
    value = np.zeros(environment.n_states)
    for _ in range(_limit(environment, step_limit)):
        value = (reward + np.sum(continues * value[environment.next_state], axis=2)).max(axis=1)
    return float(environment.start @ value)


def monte_carlo_return(
    environment: str | Environment, q: np.ndarray, episodes: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Estimate the return of the greedy policy (ties: lowest action) from played episodes, the paper's way.

    Episodes run side by side through ``P``, each until it is over; where ``P`` is not exact, one after the
    other in the real environment.

    Parameters
    ----------
    environment : str or Environment
    q : (S, A) numbers
    episodes : int
        At least 2.
    seed : int
        Decides every episode.

    Returns
    -------
    mean, std_error : float
        Mean undiscounted return within the step limit, and its standard error.

    Raises
    ------
    SwiftRLError
        If the table does not fit the environment or holds a NaN, or a number is out of range.
    """
    environment = resolve(environment)
    greedy = _fitting_policy(environment, q, "lowest").argmax(axis=1)
    episodes = whole_number(episodes, "the number of episodes", 2)
    seed = whole_number(seed, "the seed", 0)
    play = _play_real if environment.inexact else _play
    returns = play(environment, greedy, episodes, seed)
    return float(returns.mean()), float(returns.std(ddof=1) / math.sqrt(episodes))


def _play(environment: Environment, greedy: np.ndarray, episodes: int, seed: int) -> np.ndarray:
    """Return the return of each episode sampled from ``P``, (episodes,) float64."""
    rng = np.random.default_rng(seed)
    returns = np.zeros(episodes)
    running = np.arange(episodes)
    state = environment.sample_starts(rng.random(episodes))
    for _ in range(_limit(environment, None)):
        outcome = environment.sample_outcomes(state, greedy[state], rng.random(len(running)))
        returns[running] += environment.reward.ravel()[outcome]
        going = ~environment.terminated.ravel()[outcome]
        running, state = running[going], environment.next_state.ravel()[outcome[going]]
        if not len(running):
            break
    return returns


def _play_real(environment: Environment, greedy: np.ndarray, episodes: int, seed: int) -> np.ndarray:
    """Return the return of each episode stepped in Gymnasium, (episodes,) float64."""
    returns = np.zeros(episodes)
    with closing(environment.make()) as env:
        for episode in range(episodes):
            state, _ = env.reset(seed=seed if episode == 0 else None)
            for _ in range(_limit(environment, None)):
                state, reward, terminated, truncated, _ = env.step(int(greedy[state]))
                returns[episode] += reward
                if terminated or truncated:
                    break
    return returns


def _exact(environment: str | Environment) -> tuple[Environment, np.ndarray, np.ndarray]:
    """Return an environment whose ``P`` is exact, its expected rewards (S, A), the chances of going on (S, A, K)."""
    environment = resolve(environment)
    if environment.inexact:
        raise SwiftRLError(
            f"{environment.env_id} with {environment.kwargs} has no exact evaluation: {environment.inexact}; use "
            "monte_carlo_return"
        )
    reward = np.sum(environment.probability * environment.reward, axis=2)
    return environment, reward, np.where(environment.terminated, 0.0, environment.probability)


def _limit(environment: Environment, step_limit: int | None) -> int:
    if step_limit is None:
        return environment.step_limit or IMPOSED_STEP_LIMIT
    return whole_number(step_limit, "the step limit", 1)


def _fitting_policy(environment: Environment, q: np.ndarray, ties: Ties) -> np.ndarray:
    policy = greedy_policy(q, ties)
    check_shape(environment, policy, "Q-table")
    return policy


def check_shape(environment: Environment, table: np.ndarray, what: str) -> None:
    """Raise `SwiftRLError` unless a table, called `what`, has the environment's shape (states, actions)."""
    expected = (environment.n_states, environment.n_actions)
    if table.shape != expected:
        raise SwiftRLError(f"the {what} has shape {table.shape}, but {environment.env_id} needs {expected}")
