"""Compile the kernels of `dpu_src` for a DPU: the vendor's compiler for hardware, our own for the simulator."""

import shutil
import subprocess
from pathlib import Path

from swiftrl_core import toolchain
from swiftrl_core.backends import Problem
from swiftrl_core.dpusim import compile_kernel
from swiftrl_core.errors import SwiftRLError
from swiftrl_core.layout import KERNEL_DIRECTORY, constant

LEARNER = KERNEL_DIRECTORY / "learner.c"
VENDOR_COMPILER = "dpu-upmem-dpurte-clang"

WRAM_BYTES = 63488
"""WRAM of the smaller chip, v1B; v1A has 65,536 bytes (UPMEM SDK documentation 2025.1)."""
STACK_BYTES = 1024
"""A tasklet's stack, the SDK's default."""
RESERVED_WRAM_BYTES = 512
"""For the arguments and the runtime's own variables; the linker has the last word."""


def compile_learner(problem: Problem, *, for_hardware: bool) -> Path:
    """Return the ELF of `learner.c` for a problem, from the cache where it was built before.

    Parameters
    ----------
    problem : Problem
        Its learner chooses the variant, its counts of states and actions size the table.
    for_hardware : bool
        Build with the UPMEM SDK's compiler rather than for the simulator.

    Raises
    ------
    SwiftRLError
        If the Q-table does not fit a DPU's WRAM, or the compiler fails.
    """
    _check_table_fits(problem)
    defines = problem.learner.switches | {"N_STATES": problem.n_states, "N_ACTIONS": problem.n_actions}
    if for_hardware:
        return _compile_with_sdk(LEARNER, defines)
    return compile_kernel(LEARNER, defines=defines, nr_tasklets=1, include_dirs=[KERNEL_DIRECTORY])


def largest_table_bytes() -> int:
    """Return how many bytes of Q-table fit beside the stack, the DMA block and the runtime's variables."""
    return WRAM_BYTES - STACK_BYTES - constant("DMA_BLOCK_BYTES") - RESERVED_WRAM_BYTES


def _check_table_fits(problem: Problem) -> None:
    needed, room = 4 * problem.entries, largest_table_bytes()
    if needed > room:
        raise SwiftRLError(
            f"a Q-table of {problem.n_states:,} states x {problem.n_actions} actions takes {needed:,} bytes, but a "
            f"DPU's WRAM has room for {room:,}: use a smaller environment, or --backend cpu"
        )


def _compile_with_sdk(source: Path, defines: dict[str, int]) -> Path:
    compiler = shutil.which(VENDOR_COMPILER)
    if compiler is None:
        raise SwiftRLError(
            f"{VENDOR_COMPILER} is not on the PATH, though the UPMEM SDK's Python package is there: "
            "source the SDK's upmem_env.sh first"
        )
    switches = [f"-D{name}={value}" for name, value in sorted((defines | {"NR_TASKLETS": 1}).items())]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    inputs = [source, *sorted(KERNEL_DIRECTORY.glob("*.h"))]
    return toolchain.build(
        [compiler, "-O2", *switches, str(source)], inputs, f"{source.stem}.dpu", version=version
    )
