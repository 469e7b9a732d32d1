"""The `pim` backend: a learner kernel of `dpu_src` on every DPU of a set, on hardware or on the simulator."""

import time

import numpy as np

from swiftrl_core.backend import Evidence, Problem, Round
from swiftrl_core.backends.pim.binding import PimSet, open_dpu_set
from swiftrl_core.backends.pim.dealing import compile_dealing, deal
from swiftrl_core.backends.pim.kernels import compile_learner
from swiftrl_core.backends.pim.platforms import runs_on_hardware
from swiftrl_core.backends.pim.sampled import open_sampled
from swiftrl_core.dpusim.timing import resolve_hardware
from swiftrl_core.learner import Update
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.util.errors import SwiftRLError

__all__ = ["MRAM_BYTES", "TRANSITIONS", "PimBackend", "available", "open_backend", "open_sampled"]

MRAM_BYTES = 64 * 2**20
TRANSITIONS = "__sys_used_mram_end"
"""The SDK's name for the start of the MRAM heap, `DPU_MRAM_HEAP_POINTER` in the kernel."""


def available() -> str | None:
    """Return why this backend cannot be used here, or None: it always can, the simulator comes with the package."""
    return None


def open_backend(
    problem: Problem,
    cores: int,
    *,
    tasklets: int = 1,
    kernel: str = "paper",
    hardware: str | None = None,
    threads: int | None = None,
    mode: str = "fast",
) -> "PimBackend":
    """Return a backend on `cores` DPUs.

    Parameters
    ----------
    problem : Problem
    cores : int
        DPUs to allocate.
    tasklets : int
        Tasklets that learn on each DPU: 1, the paper's way; with a frozen bootstrap from 1 to 24. They change the
        time, never a bit.
    kernel : {"paper", "tuned"}
        The paper's kernel, or the fast one that leaves the same bits (`tuning`).
    hardware : str, optional
        For the simulator: the profile of the server to simulate (`dpusim.HARDWARE_PROFILES`).
    threads : int, optional
        For the simulator: host threads that run DPUs, by default one a core.
    mode : {"fast", "exact"}
        For the simulator: how tasklets share the pipeline (`dpusim.DpuSet`).

    Raises
    ------
    SwiftRLError
        If there is no such kernel, the learner cannot use so many tasklets, the table does not fit, or there are not
        enough DPUs.
    """
    for_hardware = runs_on_hardware()
    chip = resolve_hardware(None if for_hardware else hardware).chip
    binary = compile_learner(problem, tasklets, kernel=kernel, for_hardware=for_hardware, chip=chip)
    dpus = open_dpu_set(cores, binary, hardware=hardware, threads=threads, mode=mode)
    return PimBackend(problem, dpus, tasklets, kernel)


class PimBackend:
    """Trains a problem on a set of DPUs; times are measured on hardware and simulated on the simulator."""

    name = "pim"

    def __init__(self, problem: Problem, dpus: PimSet, tasklets: int = 1, kernel: str = "paper") -> None:
        self._problem = problem
        self._dpus = dpus
        self._tasklets = tasklets
        if problem.learner.frozen_bootstrap:
            compile_dealing()
        self._kernel = kernel
        self._table_bytes = 4 * problem.entries
        self._tables_down = 2 if problem.learner.update == Update.VR else 1

    @property
    def instructions(self) -> int | None:
        """DPU instructions of the last launch, all DPUs together; None on hardware, which counts nothing."""
        runs = self._dpus.last_run
        return None if runs is None else sum(int(run.instructions.sum()) for run in runs)

    @property
    def evidence(self) -> Evidence:
        """Measured on hardware, simulated on the simulator."""
        return Evidence(self._dpus.evidence)

    def load(self, chunks: Chunks) -> float:
        """Copy every chunk and the arguments to its DPU; return the seconds. See `Backend.load`."""
        transfers, seconds = self.pack(chunks)
        return seconds + self.send(transfers)

    def pack(self, chunks: Chunks) -> tuple[dict[str, list[np.ndarray]], float]:
        """Return what each core's DPU is sent, by symbol, and the seconds the host takes to deal chunks to tasklets.

        Raises
        ------
        SwiftRLError
            If a chunk does not fit a DPU's MRAM.
        """
        transfers = {TRANSITIONS: [chunks.chunk(core) for core in range(chunks.cores)]}
        seconds = 0.0
        if self._problem.learner.frozen_bootstrap:
            start = time.perf_counter()
            partition = deal(self._problem, chunks, self._tasklets)
            seconds = time.perf_counter() - start
            transfers[TRANSITIONS] = [partition.core(core) for core in range(chunks.cores)]
            transfers["shares"] = list(partition.shares)
        longest = max(chunk.nbytes for chunk in transfers[TRANSITIONS])
        if longest + self._tables_down * self._table_bytes > MRAM_BYTES:
            raise SwiftRLError(
                f"a chunk of {longest:,} bytes and a table do not fit a DPU's MRAM of {MRAM_BYTES:,} bytes: "
                "use more DPUs"
            )
        return transfers | {"args": list(self._problem.arguments(chunks))}, seconds

    def send(self, transfers: dict[str, list[np.ndarray]]) -> float:
        """Send an array to each DPU, symbol by symbol; return the seconds."""
        with self._dpus.stopwatch() as watch:
            for symbol, arrays in transfers.items():
                self._dpus.scatter(symbol, arrays)
        return watch.seconds

    def run_round(self, table: np.ndarray, episodes: int, targets: np.ndarray | None = None) -> Round:
        """Send the table (in update vr two) to all DPUs, launch them, fetch their tables. See `Backend.run_round`."""
        dtype = self._problem.learner.dtype
        field = np.array([episodes], np.uint32)
        offset = self._problem.learner.arguments(np.ones(1), np.zeros(1)).dtype.fields["episodes"][1]
        with self._dpus.stopwatch() as down:
            self._dpus.broadcast("args", field, offset=offset)
            self._dpus.broadcast("q_table", table)
            if targets is not None:
                self._dpus.broadcast("target_table", targets)
        with self._dpus.stopwatch() as kernel:
            self._dpus.launch()
        with self._dpus.stopwatch() as up:
            tables = self._dpus.gather("q_table", self._table_bytes)
        return Round(tables.view(dtype), down.seconds, kernel.seconds, up.seconds)

    def describe(self) -> dict:
        """Return the hardware or the simulator's profile and model version, tasklets and kernel, for the manifest."""
        described = self._dpus.describe()
        on_hardware = self.evidence == Evidence.MEASURED
        name = "UPMEM hardware" if on_hardware else f"DPU simulator, hardware profile {described['hardware']}"
        return {"name": name, **described, "tasklets": self._tasklets, "kernel": self._kernel}

    def close(self) -> None:
        """Give the DPUs back."""
        self._dpus.close()
