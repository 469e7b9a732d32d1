"""Run one kernel once on one simulated DPU, with inputs by symbol."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from swiftrl_core.dpusim.machine import Machine, RunStats, run_machines
from swiftrl_core.dpusim.program.compile import compile_kernel
from swiftrl_core.dpusim.program.elf import MRAM_BASE, MRAM_HEAP, load_program
from swiftrl_core.dpusim.timing import DmaTiming
from swiftrl_core.util.errors import SwiftRLError

KERNELS = Path(__file__).parent / "kernels"


@dataclass(frozen=True, eq=False)
class Finished:
    """A DPU after its run, and what the run took."""

    machine: Machine
    stats: RunStats

    @property
    def instructions(self) -> int:
        """DPU instructions of all tasklets."""
        return int(self.stats.instructions.sum())

    def value(self, name: str, dtype=np.uint32) -> int:
        """Return a scalar host variable."""
        return int(self.machine.symbol(name, dtype)[0])


def run_kernel(
    source: Path,
    *,
    defines: Mapping[str, object] | None = None,
    tasklets: int = 1,
    opt: str = "-O2",
    heap: np.ndarray | None = None,
    variables: Mapping[str, np.generic] | None = None,
    mode: str = "fast",
    dma: DmaTiming | None = None,
) -> Finished:
    """Compile a kernel, write its inputs, launch it once.

    Parameters
    ----------
    source : Path
        C file.
    defines, tasklets, opt
        As in `compile_kernel`.
    heap : array, optional
        Written to MRAM from `DPU_MRAM_HEAP_POINTER` on.
    variables : mapping of str to NumPy scalar, optional
        Host variables in WRAM.
    mode : {"fast", "exact"}
        How the tasklets run.
    dma : DmaTiming, optional
        As in `Machine`.

    Raises
    ------
    SwiftRLError
        If the kernel does not compile, lacks a variable, or ends in a fault.
    """
    program = load_program(compile_kernel(source, defines, nr_tasklets=tasklets, opt=opt))
    machine = Machine(program, dma=dma)
    if heap is not None:
        machine.write_mram(program.symbols[MRAM_HEAP][0] - MRAM_BASE, np.ascontiguousarray(heap))
    for name, value in (variables or {}).items():
        if name not in program.symbols:
            raise SwiftRLError(f"{source.name} has no host variable {name!r}")
        machine.write_wram(program.symbols[name][0], np.asarray(value).tobytes())
    machine.boot()
    (stats,) = run_machines([machine], threads=1, mode=mode)
    if machine.fault is not None:
        raise SwiftRLError(f"{source.name} faulted: {machine.fault}")
    return Finished(machine, stats)
