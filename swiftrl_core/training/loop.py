"""The round loop, the same for all backends.

A round is tau episodes on every core and one synchronisation: the host gathers the local tables, averages them and
broadcasts the mean. The last round's mean is the result. A learner may choose another aggregation, or targets to be
broadcast with the table (`swiftrl_core.training.synchronisation`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from swiftrl_core.backend import AveragingBackend, Backend, Evidence, Problem, Round, open_backend, usable
from swiftrl_core.data import Dataset
from swiftrl_core.learner import Learner
from swiftrl_core.learner.chunks import Chunks, split
from swiftrl_core.training.synchronisation import Synchronisation, bytes_of_a_round
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.settings import setting

MOST_ROUNDS = 10_000_000
"""A round takes milliseconds at least: more would not end within a day."""


@dataclass(frozen=True)
class Schedule:
    """Number of cores, episodes and synchronisations.

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

    Raises
    ------
    SwiftRLError
        If a number is out of range, or there would be more than `MOST_ROUNDS` rounds.

    Examples
    --------
    >>> from swiftrl_core import Schedule
    >>> Schedule(cores=4, episodes=120, tau=50).rounds
    [50, 50, 20]
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
    """The time of a run in the paper's four parts, in seconds.

    Attributes
    ----------
    cpu_to_pim : float
        Chunks and the first table to the cores; before that, the host's counting of the data where it needs any.
    pim_kernel : float
        Learning.
    inter_pim_core : float
        Synchronisation between rounds: tables to the host, averaging, the mean to all cores.
    pim_to_cpu : float
        The last round's tables to the host, averaged into the result.
    host_averaging : float
        The share of the parts above that the host spent on averaging; in update vr also on each round's targets; and,
        as part of `cpu_to_pim`, on counting the data for vr and for aggregations other than mean. Measured, on this
        host's clock or by the backend.
    evidence : Evidence
        Where the other times come from.
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
    """A learned table and the account of its training.

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
        Names and versions of the machine, from the backend.
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
        simulated table has to equal the engine's (`swiftrl_core.backends.pim.sampled`).
    on_round : callable, optional
        Called after each round with the number of episodes it made and the averaged table (states, actions) as
        float32 values.
    **options
        Passed to the backend.

    Returns
    -------
    TrainingResult
        The Q-table, its times in seconds, and what they were obtained on.

    Raises
    ------
    SwiftRLError
        If data, learner, schedule and backend do not fit together, or a kernel faults.

    Examples
    --------
    The simulated DPUs learn the same table as the CPU, every bit:

    >>> import numpy as np
    >>> from swiftrl_core import Learner, Schedule, collect, train
    >>> lake = collect("frozenlake", 500, seed=1)
    >>> schedule = Schedule(cores=4, episodes=20, tau=10)
    >>> result = train(lake, Learner(), schedule, "pim")
    >>> result.q_table.shape, result.updates, result.rounds
    ((16, 4), 10000, 2)
    >>> np.array_equal(result.q_raw, train(lake, Learner(), schedule, "cpu").q_raw)
    True
    """
    chunks = split(dataset, learner, schedule.cores)
    problem = Problem(learner, dataset.n_states, dataset.n_actions, schedule.seed)
    if simulated_dpus == "all":
        machine = open_backend(backend, problem, schedule.cores, **options)
    elif backend != "pim":
        raise SwiftRLError(f"simulated_dpus does not apply to backend {backend}: leave it out, or use pim")
    else:
        machine = usable(backend).open_sampled(problem, schedule.cores, simulated_dpus, **options)
    shape = (dataset.n_states, dataset.n_actions)

    def report(episodes: int, table: np.ndarray) -> None:
        if on_round:
            on_round(episodes, learner.to_values(table).reshape(shape))

    try:
        table, tally = _run_rounds(machine, problem, chunks, schedule.rounds, report)
        breakdown, described = tally.breakdown(machine.evidence), machine.describe()
    finally:
        machine.close()
    _require_finite(table, learner, dataset)
    bytes_down, bytes_up = bytes_of_a_round(problem, schedule.cores)
    return TrainingResult(
        q_raw=table.reshape(shape),
        q_table=learner.to_values(table).reshape(shape),
        updates=len(dataset) * schedule.episodes,
        executed_updates=tally.executed_updates,
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


def _run_rounds(
    machine: Backend,
    problem: Problem,
    chunks: Chunks,
    rounds: list[int],
    report: Callable[[int, np.ndarray], None],
) -> tuple[np.ndarray, "_Tally"]:
    """Load the chunks, make the rounds; return the last table (entries,), and the account of times and updates."""
    host = Synchronisation(problem)
    tally = _Tally(len(chunks.records), counting_s=host.load(chunks), loading_s=machine.load(chunks))
    table = np.zeros(problem.entries, problem.learner.dtype)
    averages = problem.learner.synchronises_as_the_paper and isinstance(machine, AveragingBackend)
    for episodes in rounds:
        if averages:
            done = machine.run_averaged_round(table, episodes)
            (table,) = done.tables
            tally.add(done, episodes, done.averaging_s)
        else:
            targets, preparing_s = host.targets(table)
            done = machine.run_round(table, episodes, targets)  # broadcast, learn, gather
            table, averaging_s = host.combine(done.tables, table)  # aggregate
            tally.add(done, episodes, averaging_s, preparing_s)
        report(episodes, table)
    return table, tally


class _Tally:
    """Adds up the updates of rounds, and their times as the paper does: each round's two ends count apart.

    Parameters
    ----------
    transitions : int
        Updates of an episode, over all cores.
    counting_s, loading_s : float
        Seconds before the first round, of the host on the data and of sending the chunks.
    """

    def __init__(self, transitions: int, counting_s: float, loading_s: float) -> None:
        self.executed_updates = 0
        self._transitions = transitions
        self._cpu_to_pim = loading_s + counting_s
        self._kernel = self._between = 0.0
        self._up: float | None = None  # of the last round, which may be followed by another
        self._host = counting_s

    def add(self, done: Round, episodes: int, averaging_s: float, preparing_s: float = 0.0) -> None:
        """Add a round: its own times, those of averaging its tables and, before it, of preparing its targets."""
        nominal = self._transitions * episodes
        self.executed_updates += nominal if done.executed_updates is None else done.executed_updates
        down = preparing_s + done.down_s
        if self._up is None:
            self._cpu_to_pim += down
        else:
            self._between += self._up + down
        self._kernel += done.kernel_s
        self._up = done.up_s + averaging_s
        self._host += preparing_s + averaging_s

    def breakdown(self, evidence: Evidence) -> Breakdown:
        """Return the times of all rounds so far, at least one."""
        return Breakdown(self._cpu_to_pim, self._kernel, self._between, self._up, self._host, evidence)
