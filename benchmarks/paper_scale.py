"""Wall-clock time of PIM at the paper's scale, 2,000 DPUs for 2,000 episodes, eight of them simulated: `swiftrl bench`.

`seconds` is measured on this machine; `kernel_s` is the kernel time of 2,000 DPUs, simulated.
"""

import time

from swiftrl_core.data import collect
from swiftrl_core.learner import Learner
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.toolchain import available_threads

CASES = (("frozenlake", 1_000_000), ("taxi", 5_000_000))
SCHEDULE = Schedule(cores=2000, episodes=2000, tau=50)
SIMULATED_DPUS = 8


def rows(
    cases: tuple[tuple[str, int], ...] = CASES,
    schedule: Schedule = SCHEDULE,
    simulated_dpus: int = SIMULATED_DPUS,
) -> list[dict]:
    """Time one SEQ Q-learning run of each case in INT32 and in FP32.

    Parameters
    ----------
    cases : tuple of (str, int)
        Environment and transitions.
    schedule : Schedule
    simulated_dpus : int

    Returns
    -------
    list of dict
        name, env, number_format, cores, simulated_dpus, threads, updates, seconds (measured, from loading to the last
        table), ns_per_update, kernel_s (simulated).
    """
    return [
        _row(environment, collect(environment, transitions, seed=0), number_format, schedule, simulated_dpus)
        for environment, transitions in cases
        for number_format in ("INT32", "FP32")
    ]


def table(measured: list[dict]) -> str:
    """Return rows as text in columns."""
    lines = [
        f"{'':24} {'cores':>6} {'simulated':>9} {'M updates':>10} {'s, measured':>12} {'kernel s, simulated':>20}"
    ]
    lines += [
        f"{row['env']:12} {row['number_format']:11} {row['cores']:6} {row['simulated_dpus']:9} "
        f"{row['updates'] / 1e6:10.0f} {row['seconds']:12.2f} {row['kernel_s']:20.2f}"
        for row in measured
    ]
    return "\n".join(lines)


def _row(environment: str, dataset, number_format: str, schedule: Schedule, simulated_dpus: int) -> dict:
    learner = Learner(number_format=number_format, reward_range=dataset.reward_range)
    start = time.perf_counter()
    result = train(dataset, learner, schedule, "pim", simulated_dpus=simulated_dpus)
    seconds = time.perf_counter() - start
    return {
        "name": "pim at paper scale",
        "env": environment,
        "number_format": number_format,
        "cores": schedule.cores,
        "simulated_dpus": simulated_dpus,
        "threads": available_threads(),
        "updates": result.updates,
        "seconds": round(seconds, 3),
        "ns_per_update": round(seconds / result.updates * 1e9, 4),
        "kernel_s": round(result.breakdown.pim_kernel, 4),
    }
