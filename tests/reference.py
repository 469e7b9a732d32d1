"""The learner once more, in plain Python, an operation at a time: the oracle of every other implementation.

It shares nothing with the C sources but the meaning of a record and of `learner_args` (dpu_src/layout.h). Integers are
Python's, so an overflow would show as a difference; floats are float32 scalars, rounded once an operation.
"""

from fractions import Fraction
from math import floor

import numpy as np

from swiftrl_core.learner import Algorithm, Learner, NumberFormat, Sampling

WORD = 2**32


class Generator:
    """The linear congruential generator of a core."""

    def __init__(self, state: int) -> None:
        self.state = int(state)

    def next(self) -> int:
        self.state = (self.state * 1664525 + 1013904223) % WORD
        return self.state

    def below(self, n: int) -> int:
        x = self.next()
        return (x ^ (x // 2**16)) % n

    def chance(self, threshold: int) -> bool:
        return self.next() // 2 < threshold


def nearest_away(x: Fraction) -> int:
    """Round to the nearest integer, ties away from zero."""
    return floor(x + Fraction(1, 2)) if x >= 0 else -floor(-x + Fraction(1, 2))


def nearest_up(x: Fraction) -> int:
    """Round to the nearest integer, ties up."""
    return floor(x + Fraction(1, 2))


def target(learner: Learner, args: np.void, reward, next_value):
    """r + gamma * B in the learner's number format."""
    if learner.number_format == NumberFormat.FP32:
        discounted = np.float32(args["gamma"]) * np.float32(next_value)
        return np.float32(reward) + discounted
    gamma, scale, b = int(args["gamma"]), int(args["gamma_scale"]), int(next_value)
    if learner.number_format == NumberFormat.INT32:
        return int(reward) + nearest_away(Fraction(gamma * b, scale))
    return int(reward) + b - nearest_up(Fraction(gamma * b, 2**scale))


def learned(learner: Learner, args: np.void, q, towards):
    """Q + alpha * (target - Q) in the learner's number format."""
    if learner.number_format == NumberFormat.FP32:
        difference = np.float32(towards) - np.float32(q)
        step = np.float32(args["alpha"]) * difference
        return np.float32(q) + step
    difference = int(towards) - int(q)
    alpha, scale = int(args["alpha"]), int(args["alpha_scale"])
    if learner.number_format == NumberFormat.INT32:
        step = nearest_away(Fraction(alpha * difference, scale))
    else:
        step = nearest_up(Fraction(alpha * difference, 2**scale))
    if step == 0 and difference != 0:
        step = 1 if difference > 0 else -1
    return int(q) + step


def update(
    learner: Learner, n_actions: int, args: np.void, q: list, record: np.void, random: Generator
) -> None:
    """Learn from one record."""
    step = int(record["step"])
    pair, next_state, terminated = step % 2**16, step // 2**16 % 2**15, step // 2**31
    towards = record["reward"]
    if not terminated:
        row = q[next_state * n_actions : (next_state + 1) * n_actions]
        if learner.algorithm == Algorithm.SARSA and random.chance(int(args["explore_below"])):
            next_value = row[random.below(n_actions)]
        else:
            next_value = max(row)
        towards = target(learner, args, record["reward"], next_value)
    q[pair] = learned(learner, args, q[pair], towards)


def order(learner: Learner, length: int, random: Generator):
    """Yield the positions of one episode."""
    if learner.sampling == Sampling.SEQ:
        yield from range(length)
    elif learner.sampling == Sampling.STR:
        for offset in range(4):
            yield from range(offset, length, 4)
    else:
        for _ in range(length):
            yield random.below(length)


def train_core(
    learner: Learner, n_actions: int, args: np.void, table: np.ndarray, records: np.ndarray, episodes: int
) -> tuple[np.ndarray, int, int]:
    """Train one core.

    Parameters
    ----------
    args : one element of `Learner.arguments`
    table : (entries,) where the core starts from
    records : the core's chunk, `struct transition`

    Returns
    -------
    (table (entries,), where its generator stops, passes up to the first that changed no bit)
    """
    q, random, passes = list(table), Generator(args["random_state"]), None
    for episode in range(episodes):
        before = np.array(q, learner.dtype).tobytes()
        for position in order(learner, len(records), random):
            update(learner, n_actions, args, q, records[position], random)
        if passes is None and np.array(q, learner.dtype).tobytes() == before:
            passes = episode + 1
    return np.array(q, learner.dtype), random.state, passes or episodes
