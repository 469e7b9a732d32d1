"""Launches: run many DPUs on the threads of this machine, and return the statistics of each."""

import ctypes
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from swiftrl_core.dpusim.machine.interface import STATS_RECORD, library
from swiftrl_core.dpusim.machine.machine import Machine
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.toolchain import available_threads

#: Modelled DPU instructions after which a run counts as hung.
INSTRUCTION_BUDGET = 10**12


@dataclass(frozen=True, eq=False)
class RunStats:
    """What one launch of one DPU took. Instructions are modelled DPU instructions, cycles are the DPU's.

    Attributes
    ----------
    cycles : int
        From the replay of what tasklets have in common (fast) or from the interleaving itself (exact).
    instructions : int64 array (tasklets,)
        Issued by each tasklet, waiting at locks and barriers included.
    stalls : int64 array (tasklets,)
        Issue slots in which each tasklet stalled on its registers' banks, in addition to its instructions (costs.h).
    dma_cycles, dma_bytes_read, dma_bytes_written, dma_transfers : int64 arrays (tasklets,)
        MRAM traffic of each tasklet.
    phases : int
        Stretches between barriers (fast run only, 0 otherwise).
    lock_tries, barrier_instructions : int
        Failed tries at locks, and all that barriers took; part of `instructions`.
    """

    cycles: int
    instructions: np.ndarray
    stalls: np.ndarray
    dma_cycles: np.ndarray
    dma_bytes_read: np.ndarray
    dma_bytes_written: np.ndarray
    dma_transfers: np.ndarray
    phases: int
    lock_tries: int
    barrier_instructions: int


def run_machines(
    machines: Sequence[Machine],
    threads: int | None = None,
    mode: str = "fast",
    instruction_budget: int = INSTRUCTION_BUDGET,
) -> list[RunStats]:
    """Run booted DPUs until all their tasklets have ended, or a fault; look at `Machine.fault` afterwards.

    Parameters
    ----------
    machines : sequence of Machine
        Each at most once.
    threads : int, optional
        Threads of this computer; by default as many as this process may use.
    mode : {"fast", "exact"}
        "fast" runs the tasklets in turns, from one transfer, lock or barrier to the next, in the order of time that a
        replay of these events finds; "exact" interleaves them instruction by instruction. Both leave the same memory
        unless the program's result depends on the order of its tasklets between two such events; their cycles agree
        within 2 %. DPUs with `sanitize` run exactly.
    instruction_budget : int
        Modelled instructions (of all tasklets) after which a DPU faults.

    Returns
    -------
    list of RunStats
        In the order of `machines`.
    """
    if mode not in ("fast", "exact"):
        raise SwiftRLError(f"mode={mode!r} is unknown to the DPU simulator; choose fast or exact")
    if len({machine.sanitize for machine in machines}) > 1:
        raise SwiftRLError("DPUs with and without sanitize cannot run together; launch them separately")
    sanitize = any(machine.sanitize for machine in machines)
    threads = min(threads or available_threads(), len(machines)) or 1
    stats = np.zeros(len(machines), STATS_RECORD)
    batch = max(1, len(machines) // (threads * 4))  # several batches a thread, for DPUs take unequal times

    def run_batch(first: int) -> None:
        handles = [machine._handle for machine in machines[first : first + batch]]
        array = (ctypes.c_void_p * len(handles))(*handles)
        address = stats[first:].ctypes.data
        exact = sanitize or mode == "exact"
        begin = time.thread_time()
        library(sanitize).dpu_run(array, len(handles), exact, instruction_budget, address)
        seconds = (time.thread_time() - begin) / len(handles)
        if not exact:
            for machine in machines[first : first + batch]:
                machine.prepared.ran(seconds)

    starts = range(0, len(machines), batch)
    if threads == 1 or len(starts) == 1:
        for first in starts:
            run_batch(first)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run_batch, starts))
    return [
        _run_stats(row, machine.program.nr_tasklets) for row, machine in zip(stats, machines, strict=True)
    ]


def run_counted(
    machine: Machine, instruction_budget: int = INSTRUCTION_BUDGET
) -> tuple[RunStats, np.ndarray]:
    """Run one booted DPU exactly, and count where its instructions go.

    Parameters
    ----------
    machine : Machine
        Look at its `fault` afterwards.
    instruction_budget : int
        As in `run_machines`.

    Returns
    -------
    RunStats
        As `run_machines` in mode "exact" returns it.
    int64 array (instructions of the program,)
        DPU instructions issued for each RISC-V instruction in IRAM; their sum is that of `instructions`. One that
        costs nothing carries the cost of the next that does. A routine and its return count for the call, failed
        tries and a barrier's instructions for whoever waits.
    """
    stats = np.zeros(1, STATS_RECORD)
    counts = np.zeros(len(machine.program.text) // 4 + 1, np.int64)
    machine._library.dpu_run_counted(
        machine._handle, instruction_budget, stats.ctypes.data, counts.ctypes.data
    )
    return _run_stats(stats[0], machine.program.nr_tasklets), counts[:-1]


def _run_stats(row: np.void, tasklets: int) -> RunStats:
    values = {}
    for name in STATS_RECORD.names:
        values[name] = row[name][:tasklets].copy() if row[name].ndim else int(row[name])
    return RunStats(**values)
