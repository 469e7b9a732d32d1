"""How fast the simulator runs the learner kernel on this machine, on one host thread.

`updates_per_s` and `instructions_per_s` are measured; the instructions are the modelled ones of a DPU.
"""

import time
from dataclasses import dataclass
from statistics import median

import numpy as np

from swiftrl_core.backends import Problem
from swiftrl_core.chunks import split
from swiftrl_core.datasets import collect
from swiftrl_core.learner import Learner
from swiftrl_core.pim.backend import open_backend

DPUS = 16
TRANSITIONS = 8_000


@dataclass(frozen=True)
class Case:
    """A kernel to time, and how many episodes a measurement makes."""

    environment: str
    number_format: str
    mode: str
    episodes: int


CASES = tuple(
    Case(environment, number_format, mode, episodes)
    for environment in ("frozenlake", "taxi")
    for number_format in ("INT32", "FP32")
    for mode, episodes in (("fast", 400), ("exact", 100))
)


def rows(cases: tuple[Case, ...] = CASES, repetitions: int = 5) -> list[dict]:
    """Time SEQ Q-learning on simulated DPUs, from a table that has already been learned (zeros would be cheap).

    Parameters
    ----------
    cases : tuple of Case
    repetitions : int
        Measurements of each case; a row holds their median.

    Returns
    -------
    list of dict
        name, env, number_format, mode, dpus, threads, ns_per_update, updates_per_s, instructions_per_s.
    """
    return [_row(case, repetitions) for case in cases]


def table(measured: list[dict]) -> str:
    """Return rows as text in columns."""
    lines = [f"{'':10} {'':12} {'':10} {'':6} {'M updates/s':>12} {'M DPU instructions/s':>21}"]
    lines += [
        f"{row['name']:10} {row['env']:12} {row['number_format']:10} {row['mode']:6} "
        f"{row['updates_per_s'] / 1e6:12.2f} {row['instructions_per_s'] / 1e6:21.0f}"
        for row in measured
    ]
    return "\n".join(lines)


def _row(case: Case, repetitions: int) -> dict:
    data = collect(case.environment, TRANSITIONS, seed=0)
    learner = Learner(number_format=case.number_format, reward_range=data.reward_range)
    problem = Problem(learner, data.n_states, data.n_actions)
    machine = open_backend(problem, DPUS, threads=1, mode=case.mode)
    try:
        machine.load(split(data, learner, DPUS))
        table = machine.run_round(np.zeros(problem.entries, learner.dtype), 20).tables[0]
        seconds = []
        for _ in range(repetitions):
            start = time.perf_counter()
            machine.run_round(table, case.episodes)
            seconds.append(time.perf_counter() - start)
        instructions = machine.instructions
    finally:
        machine.close()
    updates, spent = TRANSITIONS * case.episodes, median(seconds)
    return {
        "name": "simulator",
        "env": case.environment,
        "number_format": case.number_format,
        "mode": case.mode,
        "dpus": DPUS,
        "threads": 1,
        "ns_per_update": round(spent / updates * 1e9, 3),
        "updates_per_s": round(updates / spent),
        "instructions_per_s": round(instructions / spent),
    }
