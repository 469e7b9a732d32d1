"""The learner once more, in plain Python, an operation at a time: the oracle of every other implementation.

It shares nothing with the C sources but the meaning of a record and of `learner_args` (dpu_src/layout.h). Integers are
Python's, so an overflow would show as a difference; floats are float32 scalars, rounded once an operation.
"""

from collections import Counter
from fractions import Fraction
from math import floor

import numpy as np

from swiftrl_core.learner import Algorithm, Bootstrap, Learner, NumberFormat, Sampling, Update

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


def rate(learner: Learner, args: np.void, n: int):
    """alpha of a pair's n-th update in a round, and in fixed point what it is divided or shifted by."""
    if not learner.decaying_alpha:
        return args["alpha"], int(args["alpha_scale"])
    gamma, scale = args["gamma"], int(args["gamma_scale"])
    n = min(n, 65535)
    if learner.number_format == NumberFormat.FP32:
        lag = (np.float32(1) - np.float32(gamma)) * np.float32(n)
        return np.float32(1) / (np.float32(1) + lag), 1
    if learner.number_format == NumberFormat.INT32:
        return scale, scale + (scale - int(gamma)) * n
    slowness, bits = 2**scale + int(gamma) * n, int(args["alpha_scale"])
    halvings = 0
    while slowness >= 2 ** (scale + halvings + 1):
        halvings += 1
    return nearest_away(Fraction(2 ** (scale + bits), slowness // 2**halvings)), bits + halvings


def learned(learner: Learner, args: np.void, q, towards, n: int):
    """Q + alpha * (target - Q) in the learner's number format."""
    alpha, scale = rate(learner, args, n)
    if learner.number_format == NumberFormat.FP32:
        difference = np.float32(towards) - np.float32(q)
        step = np.float32(alpha) * difference
        return np.float32(q) + step
    difference, alpha = int(towards) - int(q), int(alpha)
    if learner.number_format == NumberFormat.INT32:
        step = nearest_away(Fraction(alpha * difference, scale))
    else:
        step = nearest_up(Fraction(alpha * difference, 2**scale))
    if step == 0 and difference != 0:
        step = 1 if difference > 0 else -1
    return int(q) + step


def update(
    learner: Learner,
    n_actions: int,
    args: np.void,
    q: list,
    record: np.void,
    random: Generator,
    start: list,
    found: list,
    targets: list,
    visits: Counter,
) -> None:
    """Learn from one record.

    `start` is the round's table, `targets` its Tbar, `found` the table as the pass found it, `visits` counts updates of
    pairs.
    """
    step = int(record["step"])
    pair, next_state, terminated = step % 2**16, step // 2**16 % 2**15, step // 2**31
    towards = record["reward"] if learner.update == Update.TD else targets[pair]
    if not terminated:
        next_row = slice(next_state * n_actions, (next_state + 1) * n_actions)
        row = (found if learner.bootstrap == Bootstrap.FROZEN else q)[next_row]
        if learner.algorithm == Algorithm.SARSA and random.chance(int(args["explore_below"])):
            next_value = row[random.below(n_actions)]
        else:
            next_value = max(row)
        if learner.update == Update.VR:
            next_value = next_value - max(start[next_row])
        towards = target(learner, args, towards, next_value)
    visits[pair] += 1
    q[pair] = learned(learner, args, q[pair], towards, visits[pair])


def order(learner: Learner, length: int, random: Generator):
    """Yield the positions of one episode. Chunks that are meant for REV have been turned round already."""
    if learner.sampling in (Sampling.SEQ, Sampling.REV):
        yield from range(length)
    elif learner.sampling == Sampling.STR:
        for offset in range(4):
            yield from range(offset, length, 4)
    else:
        for _ in range(length):
            yield random.below(length)


def train_core(
    learner: Learner,
    n_actions: int,
    args: np.void,
    table: np.ndarray,
    records: np.ndarray,
    episodes: int,
    targets: np.ndarray | None = None,
) -> tuple[np.ndarray, int, int]:
    """Train one core.

    Parameters
    ----------
    args : one element of `Learner.arguments`
    table : (entries,) where the core starts from
    records : the core's chunk, `struct transition`
    targets : (entries,) Tbar, in update vr

    Returns
    -------
    (table (entries,), where its generator stops, passes up to the first that changed no bit)
    """
    q, random, passes = list(table), Generator(args["random_state"]), None
    if learner.number_format != NumberFormat.FP32:
        q = [int(value) for value in table]
        targets = None if targets is None else [int(value) for value in targets]
    start, visits = list(q), Counter()
    for episode in range(episodes):
        found, before = list(q), np.array(q, learner.dtype).tobytes()
        for position in order(learner, len(records), random):
            update(learner, n_actions, args, q, records[position], random, start, found, targets, visits)
        if passes is None and np.array(q, learner.dtype).tobytes() == before:
            passes = episode + 1
    return np.array(q, learner.dtype), random.state, passes or episodes


def bellman_targets(learner: Learner, n_actions: int, table: np.ndarray, records: np.ndarray) -> np.ndarray:
    """Tbar of all the records, pair by pair: rewards in their order, then next states in ascending order."""
    targets = np.zeros(len(table), learner.dtype)
    for pair in range(len(table)):
        own = [(int(step), float(reward)) for step, reward in records.tolist() if step % 2**16 == pair]
        if not own:
            continue
        rewards = ahead = 0.0
        for _, reward in own:
            rewards += reward
        states = Counter(step // 2**16 % 2**15 for step, _ in own if step < 2**31)
        for state in sorted(states):
            ahead += float(states[state]) * float(max(table[state * n_actions : (state + 1) * n_actions]))
        mean = (rewards + learner.gamma * ahead) / len(own)
        targets[pair] = mean if learner.number_format == NumberFormat.FP32 else round(mean)
    return targets


def combined(learner: Learner, tables: np.ndarray, old: np.ndarray, chunks: list[np.ndarray]) -> np.ndarray:
    """The next round's table: each entry over the cores, in their order."""
    result = old.copy()
    for pair in range(len(old)):
        counts = [sum(step % 2**16 == pair for step in chunk["step"].tolist()) for chunk in chunks]
        weights = {
            "mean": [1] * len(chunks),
            "visited": [int(count > 0) for count in counts],
            "count": counts,
        }[learner.aggregation]
        if not any(weights):
            continue
        if learner.number_format == NumberFormat.FP32:
            total = 0.0
            for weight, table in zip(weights, tables, strict=True):
                total += weight * float(table[pair])
            result[pair] = np.float32(total / sum(weights))
        else:
            total = sum(weight * int(table[pair]) for weight, table in zip(weights, tables, strict=True))
            result[pair] = nearest_away(Fraction(total, sum(weights)))
    return result
