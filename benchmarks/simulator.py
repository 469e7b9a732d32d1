"""The simulator's rate on the learner kernels, and the memory of idle DPUs: `swiftrl bench`.

Rates are measured, in wall-clock time and in the processor time of all threads, which other work on the machine
disturbs less; the instructions are those of the simulated DPU. One tasklet runs `learner.c`, more run an agent each of
`multi_agent.c`. Programs are translated first, as the simulator does with any that runs for long.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from swiftrl_core.backend import Problem
from swiftrl_core.backends.pim.backend import open_backend
from swiftrl_core.backends.pim.kernels import compile_agents, compile_learner
from swiftrl_core.data import Dataset, collect
from swiftrl_core.dpusim.machine import Machine, run_machines, translate
from swiftrl_core.dpusim.program.elf import MRAM_BASE, MRAM_HEAP, load_program
from swiftrl_core.learner import Learner, random_states
from swiftrl_core.learner.chunks import split

DPUS = 16
TRANSITIONS = 8_000
PAPER_DPUS = 2_560


@dataclass(frozen=True)
class Case:
    """A kernel to time, and the number of episodes in a measurement."""

    environment: str
    number_format: str
    mode: str
    episodes: int
    tasklets: int = 1
    threads: int = 1


CASES = (
    *(
        Case(environment, number_format, mode, episodes)
        for environment in ("frozenlake", "taxi")
        for number_format in ("INT32", "FP32")
        for mode, episodes in (("fast", 400), ("exact", 100))
    ),
    Case("frozenlake", "INT32", "fast", 400, threads=2),
    *(
        Case("frozenlake", "INT32", mode, episodes, tasklets)
        for tasklets in (8, 16)
        for mode, episodes in (("fast", 400), ("exact", 40))
    ),
)


def rows(cases: tuple[Case, ...] = CASES, repetitions: int = 5, idle_dpus: int = PAPER_DPUS) -> list[dict]:
    """Time SEQ Q-learning on simulated DPUs, from a table that has already been learned (zeros would be cheap).

    Parameters
    ----------
    cases : tuple of Case
    repetitions : int
        Measurements of each case; a row holds their median.
    idle_dpus : int
        DPUs of the last row, which hold a learner and a chunk each and have run an episode.

    Returns
    -------
    list of dict
        name, env, number_format, mode, dpus, tasklets, threads, ns_per_update, cpu_ns_per_update, updates_per_s,
        instructions_per_s; of the last row instead of the speeds bytes_per_dpu, beyond the chunk and the table, and
        resident_bytes, by which this process grew.
    """
    return [*(_row(case, repetitions) for case in cases), _memory_row(idle_dpus)]


def table(measured: list[dict]) -> str:
    """Return rows as text in columns."""
    head = f"{'':10} {'':12} {'':10} {'':6} {'tasklets':>8} {'threads':>8}"
    lines = [f"{head} {'M updates/s':>12} {'of processor time':>18} {'M DPU instructions/s':>21}"]
    for row in measured:
        start = f"{row['name']:10} {row['env']:12} {row['number_format']:10}"
        if "bytes_per_dpu" in row:
            lines.append(
                f"{start} {row['dpus']:,} idle DPUs: {row['bytes_per_dpu']:,} bytes each in addition to their data, "
                f"{row['resident_bytes'] / 1e6:.0f} MB in all"
            )
            continue
        lines.append(
            f"{start} {row['mode']:6} {row['tasklets']:8} {row['threads']:8} {row['updates_per_s'] / 1e6:12.2f} "
            f"{1e3 / row['cpu_ns_per_update']:18.2f} {row['instructions_per_s'] / 1e6:21.0f}"
        )
    return "\n".join(lines)


def _row(case: Case, repetitions: int) -> dict:
    data = collect(case.environment, TRANSITIONS, seed=0)
    learner = Learner(number_format=case.number_format, reward_range=data.reward_range)
    problem = Problem(learner, data.n_states, data.n_actions)
    time_runs = _time_learners if case.tasklets == 1 else _time_agents
    dpus, (seconds, processor), instructions = time_runs(case, data, problem, repetitions)
    updates = TRANSITIONS * case.episodes
    return {
        "name": "simulator",
        "env": case.environment,
        "number_format": case.number_format,
        "mode": case.mode,
        "dpus": dpus,
        "tasklets": case.tasklets,
        "threads": case.threads,
        "ns_per_update": round(seconds / updates * 1e9, 3),
        "cpu_ns_per_update": round(processor / updates * 1e9, 3),
        "updates_per_s": round(updates / seconds),
        "instructions_per_s": round(instructions / seconds),
    }


def _time_learners(
    case: Case, data: Dataset, problem: Problem, repetitions: int
) -> tuple[int, tuple[float, float], int]:
    """Return DPUs, seconds (by the clock, of processor time) and DPU instructions of a launch of `learner.c`."""
    translate(load_program(compile_learner(problem, for_hardware=False)))
    machine = open_backend(problem, DPUS, threads=case.threads, mode=case.mode)
    try:
        machine.load(split(data, problem.learner, DPUS))
        learned = machine.run_round(np.zeros(problem.entries, problem.learner.dtype), 20).tables[0]
        seconds = _median_seconds(lambda: machine.run_round(learned, case.episodes), repetitions)
        return DPUS, seconds, machine.instructions
    finally:
        machine.close()


def _time_agents(
    case: Case, data: Dataset, problem: Problem, repetitions: int
) -> tuple[int, tuple[float, float], int]:
    """Return the same of `multi_agent.c` on one DPU; its tables start at zero, so episodes are many."""
    program = load_program(compile_agents(problem, case.tasklets, for_hardware=False))
    translate(program)
    shares = split(data, problem.learner, case.tasklets)
    args = problem.learner.arguments(shares.lengths, random_states(0, shares.numbers))
    args["episodes"] = case.episodes
    machine = Machine(program)
    machine.write_mram(program.symbols[MRAM_HEAP][0] - MRAM_BASE, shares.records)
    machine.write_wram(program.symbols["args"][0], args)
    machine.write_wram(program.symbols["first"][0], shares.starts[:-1].astype(np.uint32))
    stats = []

    def launch() -> None:
        machine.boot()
        stats[:] = run_machines([machine], threads=1, mode=case.mode)

    seconds = _median_seconds(launch, repetitions)
    return 1, seconds, int(stats[0].instructions.sum())


def _median_seconds(work: Callable[[], object], repetitions: int) -> tuple[float, float]:
    clock, processor = [], []
    for _ in range(repetitions):
        start, started = time.perf_counter(), time.process_time()
        work()
        clock.append(time.perf_counter() - start)
        processor.append(time.process_time() - started)
    return median(clock), median(processor)


def _memory_row(dpus: int) -> dict:
    """Measure the memory of idle DPUs with 390 FrozenLake transitions each, as if 2,560 shared the paper's data."""
    data = collect("frozenlake", TRANSITIONS, seed=0)
    learner = Learner(number_format="INT32", reward_range=data.reward_range)
    problem = Problem(learner, data.n_states, data.n_actions)
    program = load_program(compile_learner(problem, for_hardware=False))
    chunk = split(data, learner, 20).chunk(0)
    args = learner.arguments(np.array([len(chunk)]), random_states(0, np.array([0])))
    args["episodes"] = 1
    before = _resident_bytes()
    machines = [Machine(program) for _ in range(dpus)]
    empty = machines[0].host_bytes
    for machine in machines:
        machine.write_mram(program.symbols[MRAM_HEAP][0] - MRAM_BASE, chunk)
        machine.write_wram(program.symbols["args"][0], args)
        machine.boot()
    run_machines(machines)
    return {
        "name": "memory",
        "env": "frozenlake",
        "number_format": "INT32",
        "dpus": dpus,
        "bytes_per_dpu": empty,
        "resident_bytes": _resident_bytes() - before,
    }


def _resident_bytes() -> int:
    """Return this process's resident memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/status") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return 0
    return int(line.split()[1]) * 1024
