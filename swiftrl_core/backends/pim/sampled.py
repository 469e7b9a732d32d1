"""PIM at paper scale: the engine trains every core, the simulator runs the real kernel on a few of them.

Simulating 2,000 DPUs for 2,000 episodes, instruction by instruction, takes hours; the engine on the CPU takes seconds
and gives the same bits. So the engine trains all cores, and each round some of them are trained by the kernel in the
simulator as well, from the same table. Their tables must be equal, or the run stops: this ties the simulated time to
the computation it stands for. Kernel time is that of the slowest simulated DPU; transfers are those of all DPUs. No
backend imports another: the engine is opened by its name.
"""

import math
from collections.abc import Callable

import numpy as np

from swiftrl_core.backend import Backend, Evidence, Problem, Round, open_backend
from swiftrl_core.backends.pim.platforms import runs_on_hardware
from swiftrl_core.dpusim.timing import HardwareProfile, resolve_hardware, transfer_seconds
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError


def open_sampled(
    problem: Problem, cores: int, simulated: int, *, hardware: str | None = None, **options
) -> "SampledPim":
    """Return a backend that trains `cores` cores on the engine and simulates `simulated` of them.

    Parameters
    ----------
    problem : Problem
    cores : int
    simulated : int
        From 1 to `cores`.
    hardware : str, optional
        Profile of the simulated server, which must have `cores` DPUs.
    **options
        Passed to the `pim` backend.

    Raises
    ------
    SwiftRLError
        If `simulated` is out of range, the server has fewer than `cores` DPUs, or `pim` would run on hardware, where
        every DPU runs anyway.
    """
    simulated = sample_size(simulated, cores)
    server = server_with(cores, hardware)
    dpus = open_backend("pim", problem, simulated, hardware=hardware, **options)
    return SampledPim(problem, cores, open_backend("cpu", problem, cores), dpus, simulated, server)


class SampledPim:
    """All cores on the engine, `simulated` of them on the simulator as well; a `Backend` made of two others.

    Parameters
    ----------
    problem : Problem
    cores : int
        PIM cores that learn.
    engine : Backend
        Trains all of them.
    dpus : PimBackend
        Simulated DPUs, fewer than or as many as there are cores.
    simulated : int
        How many DPUs `dpus` has.
    server : HardwareProfile
        Has `cores` DPUs.
    """

    name = "pim"
    evidence = Evidence.SIMULATED

    def __init__(
        self,
        problem: Problem,
        cores: int,
        engine: Backend,
        dpus: Backend,
        simulated: int,
        server: HardwareProfile,
    ) -> None:
        self._problem = problem
        self._cores = cores
        self._engine = engine
        self._dpus = dpus
        self._simulated = simulated
        self._server = server
        self._table_bytes = -(-4 * problem.entries // 8) * 8
        self._rounds = 0

    def load(self, chunks: Chunks) -> float:
        """Choose which DPUs to simulate and load both backends; return the seconds of sending all chunks."""
        self._chosen = busiest(chunks, self._simulated)
        self._engine.load(chunks)
        transfers, seconds = self._dpus.pack(chunks)
        self._dpus.send({name: [arrays[core] for core in self._chosen] for name, arrays in transfers.items()})
        longest = [max(array.nbytes for array in arrays) for arrays in transfers.values()]
        return seconds + sum(self._transfer("to_dpu", nbytes) for nbytes in longest)

    def run_round(self, table: np.ndarray, episodes: int, targets: np.ndarray | None = None) -> Round:
        """Train all cores, check the simulated ones against them. See `Backend.run_round`.

        Raises
        ------
        SwiftRLError
            If a simulated DPU's table differs from the engine's, naming the DPU, the round and the entry.
        """
        trained = self._engine.run_round(table, episodes, targets)
        simulated = self._dpus.run_round(table, episodes, targets)
        self._rounds += 1
        require_equal(
            simulated.tables,
            trained.tables[self._chosen],
            self._problem,
            lambda row: f"DPU {self._chosen[row]}",
            f"round {self._rounds}, ",
        )
        tables_down = 1 if targets is None else 2
        down = self._transfer("to_dpu", 4, "broadcast")
        down += tables_down * self._transfer("to_dpu", self._table_bytes, "broadcast")
        return Round(trained.tables, down, simulated.kernel_s, self._transfer("from_dpu", self._table_bytes))

    def describe(self) -> dict:
        """Return the simulator's description, how many of the DPUs were simulated, and how they were chosen."""
        return self._dpus.describe() | {
            "dpus": self._cores,
            "ranks": math.ceil(self._cores / self._server.dpus_per_rank),
            "simulated_dpus": self._simulated,
            "chosen_by": "longest chunk, then most transitions that bootstrap",
        }

    def close(self) -> None:
        """Release both."""
        self._engine.close()
        self._dpus.close()

    def _transfer(self, direction: str, nbytes: int, kind: str = "parallel") -> float:
        return transfer_seconds(self._server, direction, self._cores, nbytes, kind)


def server_with(dpus: int, hardware: str | None = None) -> HardwareProfile:
    """Return the profile of a server to simulate; raise `SwiftRLError` if it has fewer DPUs."""
    server = resolve_hardware(hardware)
    if dpus > server.n_dpus:
        raise SwiftRLError(f"asked for {dpus} DPUs, {server.name} has {server.n_dpus}: use at most so many")
    return server


def busiest(chunks: Chunks, count: int) -> np.ndarray:
    """Return the cores that should have the most work: the longest chunks, among them those that bootstrap most.

    A transition that terminates skips the scan of the next state's row and the multiplication by gamma, so a DPU with
    few of them is slow.

    The kernel time of a sample has a bias: it is never longer than that of all DPUs, and mostly shorter, since the
    slowest may not be among the chosen. Most of it arises in the first round, while tables still hold zeros, so it is
    largest in runs of few rounds. Simulated on 100 DPUs with 500 transitions each and seeds 0, 1 and 41, the kernel
    time of the sample is shorter by (%):

    ===========  ==================  ============  ============  ============  ============
    environment  episodes (rounds)   k = 8, INT32  k = 8, FP32   k = 1, INT32  k = 1, FP32
    ===========  ==================  ============  ============  ============  ============
    FrozenLake   4 (1)               0.8 to 6.8    0.0 to 14.4   6.6 to 13.2   18.9 to 62.8
    FrozenLake   20 (1)              0.8 to 3.0    0.0 to 2.0    3.7 to 21.1   3.0 to 64.6
    FrozenLake   20 (5)              0.2 to 1.8    0.0 to 2.7    1.5 to 3.1    3.6 to 11.9
    Taxi         4 (1)               1.2 to 4.1    1.9 to 5.9    1.2 to 7.4    1.9 to 11.3
    Taxi         20 (1)              2.3 to 4.3    2.2 to 5.8    2.3 to 9.0    2.2 to 11.5
    Taxi         20 (5)              0.3 to 1.1    0.4 to 1.2    0.3 to 1.8    0.6 to 2.3
    ===========  ==================  ============  ============  ============  ============

    Parameters
    ----------
    chunks : Chunks
    count : int
        How many to choose, from 1 to all.

    Returns
    -------
    int array (count,), ascending
    """
    terminal = np.add.reduceat(chunks.records["step"] >> 31, chunks.starts[:-1], dtype=np.int64)
    order = np.lexsort((terminal, -chunks.lengths))
    return np.sort(order[:count])


def sample_size(simulated: int | str, dpus: int) -> int:
    """Return how many of the DPUs to simulate, checked.

    Raises
    ------
    SwiftRLError
        If it is not a whole number from 1 to `dpus`, or this machine has UPMEM hardware.
    """
    if isinstance(simulated, str):
        raise SwiftRLError(f"simulated_dpus is {simulated!r}: give 'all', or a whole number from 1 to {dpus}")
    simulated = whole_number(simulated, "simulated_dpus", 1, dpus)
    if runs_on_hardware():
        raise SwiftRLError(
            f"simulated_dpus is {simulated}, but this machine has UPMEM hardware, where all DPUs run: leave it out"
        )
    return simulated


def require_equal(
    simulated: np.ndarray, trained: np.ndarray, problem: Problem, name: Callable[[int], str], when: str = ""
) -> None:
    """Raise `SwiftRLError` if a simulated table differs from the engine's in a bit.

    Parameters
    ----------
    simulated, trained : arrays (tables, entries)
    problem : Problem
    name : callable
        From a row to the DPU or agent whose table it is.
    when : str
        The round, where there is more than one.
    """
    # Where a table has left single precision, as the run will report, kernels need not order its NaNs alike.
    finite = np.isfinite(simulated).all(axis=1) | np.isfinite(trained).all(axis=1)
    unequal = np.argwhere((simulated.view(np.uint32) != trained.view(np.uint32)) & finite[:, np.newaxis])
    if len(unequal):
        row, entry = unequal[0]
        state, action = divmod(int(entry), problem.n_actions)
        raise SwiftRLError(
            f"{name(row)} differs from the engine in {when}state {state}, action {action}: the kernel has "
            f"{simulated[row, entry]!r}, the engine {trained[row, entry]!r}; kernel and engine no longer follow the "
            "same rule, so the simulated time would stand for another computation"
        )
