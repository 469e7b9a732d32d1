"""The round loop, the same for all backends.

A round is tau episodes on every core and one synchronisation: the host gathers the local tables, averages them and
hands the mean to every core. The last round's mean is the result. How tables are averaged, and what goes down beside
the mean, the learner chooses (`swiftrl_core.training.synchronisation`).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from swiftrl_core.backend import AveragedRound, Backend, Evidence, Problem, open_backend
from swiftrl_core.data import Dataset
from swiftrl_core.learner import Learner
from swiftrl_core.learner.chunks import Chunks, split
from swiftrl_core.training.sampled import open_sampled
from swiftrl_core.training.synchronisation import Synchronisation, bytes_of_a_round
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.settings import setting

MOST_ROUNDS = 10_000_000
"""A round takes milliseconds at least: more would not end within a day."""


@dataclass(frozen=True)
class Schedule:
    """How long to train, on how many cores.

    Parameters
    ----------
    cores : int
        PIM cores, each with a chunk and a table of its own; at least 1.
    episodes : int
        Passes over the data; at least 1. The authors' code makes 2,000.
    tau : int
        Episodes between synchronisations; at least 1. The last round is shorter where tau does not divide episodes.
    seed : int
        Seeds the cores' random generators; at least 0.
    """

    cores: int = setting(64, "PIM cores")
    episodes: int = setting(2000, "passes of each core over its chunk")
    tau: int = setting(50, "episodes between synchronisations")
    seed: int = setting(0, "seed of the cores' random generators")

    def __post_init__(self) -> None:
        for name in ("cores", "episodes", "tau"):
            whole_number(getattr(self, name), name, 1, 2**32 - 1)
        whole_number(self.seed, "seed", 0)
        rounds = -(-self.episodes // self.tau)
        if rounds > MOST_ROUNDS:
            raise SwiftRLError(
                f"{self.episodes:,} episodes with tau {self.tau:,} make {rounds:,} rounds, more than {MOST_ROUNDS:,}: "
                "use a larger tau"
            )

    @property
    def rounds(self) -> list[int]:
        """Episodes of each round."""
        whole, rest = divmod(self.episodes, self.tau)
        return [self.tau] * whole + [rest] * (rest > 0)


@dataclass(frozen=True)
class Breakdown:
    """Where the time went, in the paper's four parts, in seconds.

    Attributes
    ----------
    cpu_to_pim : float
        Chunks and the first table to the cores; what the host has to count of the data beforehand.
    pim_kernel : float
        Learning.
    inter_pim_core : float
        Synchronisation: tables to the host, averaging, the mean to all cores, between rounds.
    pim_to_cpu : float
        The last round's tables to the host, averaged into the result.
    host_averaging : float
        The share of the parts above that the host spent on averaging, in update vr on each round's targets, and on
        counting the data for aggregations other than mean and for vr, which is part of `cpu_to_pim`.
        Measured, here on a clock or by the backend.
    evidence : Evidence
        What the rest of the times are.
    """

    cpu_to_pim: float
    pim_kernel: float
    inter_pim_core: float
    pim_to_cpu: float
    host_averaging: float
    evidence: Evidence

    @property
    def total(self) -> float:
        """The sum of the four parts, seconds."""
        return self.cpu_to_pim + self.pim_kernel + self.inter_pim_core + self.pim_to_cpu


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A learned table and how it came about.

    Attributes
    ----------
    q_raw : float32 or int32 array (states, actions)
        The table in the number format's own bits.
    q_table : float32 array (states, actions)
        The table as values.
    updates : int
        Nominal updates: transitions times episodes.
    executed_updates : int
        Updates really made; fewer where the backend left out episodes that could not change a bit.
    rounds : int
        Synchronisations.
    round_bytes_down, round_bytes_up : int
        Bytes of tables that each round sends down to all cores together, and up from them, on a machine whose cores
        have memories of their own.
    breakdown : Breakdown
    machine : dict
        What the backend says about itself.
    """

    q_raw: np.ndarray
    q_table: np.ndarray
    updates: int
    executed_updates: int
    rounds: int
    round_bytes_down: int
    round_bytes_up: int
    breakdown: Breakdown
    machine: dict


def train(
    dataset: Dataset,
    learner: Learner,
    schedule: Schedule,
    backend: str = "pim",
    *,
    simulated_dpus: int | str = "all",
    on_round: Callable[[int, np.ndarray], None] | None = None,
    **options,
) -> TrainingResult:
    """Learn a Q-table from a data set.

    Parameters
    ----------
    dataset : Dataset
    learner : Learner
    schedule : Schedule
    backend : str
        `pim` (hardware where there is some, else the simulator), `cpu`, `gpu` or `gpu-shared` (a baseline).
    simulated_dpus : "all" or int
        For `pim` on the simulator: simulate all DPUs, or only so many, while the engine trains all and every
        simulated table has to equal the engine's (`swiftrl_core.training.sampled`).
    on_round : callable, optional
        Called after each round with the number of episodes it made and the averaged table (states, actions) as
        float32 values.
    **options
        Passed to the backend.

    Raises
    ------
    SwiftRLError
        If data, learner, schedule and backend do not fit together, or a kernel faults.
    """
    chunks = split(dataset, learner, schedule.cores)
    problem = Problem(learner, dataset.n_states, dataset.n_actions, schedule.seed)
    machine = _open(backend, problem, schedule.cores, simulated_dpus, options)
    shape = (dataset.n_states, dataset.n_actions)

    def report(episodes: int, table: np.ndarray) -> None:
        if on_round:
            on_round(episodes, learner.to_values(table).reshape(shape))

    try:
        table, breakdown, left_out = _run_rounds(machine, problem, chunks, schedule.rounds, report)
        described = machine.describe()
    finally:
        machine.close()
    _require_finite(table, learner, dataset)
    bytes_down, bytes_up = bytes_of_a_round(problem, schedule.cores)
    return TrainingResult(
        q_raw=table.reshape(shape),
        q_table=learner.to_values(table).reshape(shape),
        updates=len(dataset) * schedule.episodes,
        executed_updates=len(dataset) * schedule.episodes - left_out,
        rounds=len(schedule.rounds),
        round_bytes_down=bytes_down,
        round_bytes_up=bytes_up,
        breakdown=breakdown,
        machine=described,
    )


def _require_finite(table: np.ndarray, learner: Learner, dataset: Dataset) -> None:
    wrong = np.count_nonzero(~np.isfinite(table))
    if wrong:
        low, high = dataset.reward_range
        raise SwiftRLError(
            f"{wrong} of {table.size} entries of the Q-table are not finite: rewards from {low:g} to {high:g} at gamma "
            f"{learner.gamma:g} leave single precision; scale the rewards down"
        )


def _open(backend: str, problem: Problem, cores: int, simulated_dpus: int | str, options: dict) -> Backend:
    if simulated_dpus == "all":
        return open_backend(backend, problem, cores, **options)
    if backend != "pim":
        raise SwiftRLError(f"simulated_dpus does not apply to backend {backend}: leave it out, or use pim")
    return open_sampled(problem, cores, simulated_dpus, **options)


def _run_rounds(
    machine: Backend,
    problem: Problem,
    chunks: Chunks,
    rounds: list[int],
    report: Callable[[int, np.ndarray], None],
) -> tuple[np.ndarray, Breakdown, int]:
    """Return the final table (entries,), the times, and how many updates were left out.

    A round's ends count as the paper counts them.
    """
    table = np.zeros(problem.entries, problem.learner.dtype)
    host = Synchronisation(problem)
    averaging = host.load(chunks)
    cpu_to_pim = machine.load(chunks) + averaging
    kernel = synchronisation = pim_to_cpu = 0.0
    left_out = 0
    run_rounds = partial(_synchronise_here, machine, host)
    if problem.learner.synchronises_as_the_paper:
        run_rounds = getattr(machine, "run_rounds", run_rounds)
    for number, done in enumerate(run_rounds(table, rounds)):
        table = done.table
        down_s, up_s = done.preparing_s + done.down_s, done.up_s + done.averaging_s
        first, last = number == 0, number == len(rounds) - 1
        cpu_to_pim += down_s if first else 0.0
        pim_to_cpu += up_s if last else 0.0
        synchronisation += (0.0 if first else down_s) + (0.0 if last else up_s)
        kernel += done.kernel_s
        averaging += done.preparing_s + done.averaging_s
        if done.executed_updates is not None:
            left_out += len(chunks.records) * rounds[number] - done.executed_updates
        report(rounds[number], table)
    breakdown = Breakdown(cpu_to_pim, kernel, synchronisation, pim_to_cpu, averaging, machine.evidence)
    return table, breakdown, left_out


def _synchronise_here(
    machine: Backend, host: Synchronisation, table: np.ndarray, rounds: list[int]
) -> Iterator[AveragedRound]:
    """Make rounds on a backend that leaves it to the host what stands between them."""
    for episodes in rounds:
        start = time.perf_counter()
        targets = host.targets(table)
        preparing_s = 0.0 if targets is None else time.perf_counter() - start
        done = machine.run_round(table, episodes, targets)
        start = time.perf_counter()
        table = host.combine(done.tables, table)
        averaging_s = time.perf_counter() - start
        yield AveragedRound(
            table, done.down_s, done.kernel_s, done.up_s, averaging_s, done.executed_updates, preparing_s
        )
