"""Compile the kernels of `dpu_src` for a DPU: the vendor's compiler for hardware, our own for the simulator."""

import shutil
import subprocess
from pathlib import Path

from swiftrl_core import toolchain
from swiftrl_core.backends import Problem
from swiftrl_core.dpusim import compile_kernel
from swiftrl_core.errors import SwiftRLError
from swiftrl_core.layout import KERNEL_DIRECTORY, constant
from swiftrl_core.learner import Update

LEARNER = KERNEL_DIRECTORY / "learner.c"
MULTI_AGENT = KERNEL_DIRECTORY / "multi_agent.c"
VENDOR_COMPILER = "dpu-upmem-dpurte-clang"

WRAM_BYTES = 63488
"""WRAM of the smaller chip, v1B; v1A has 65,536 bytes (UPMEM SDK documentation 2025.1)."""
STACK_BYTES = 1024
"""A tasklet's stack, the SDK's default."""
RESERVED_WRAM_BYTES = 512
"""For the arguments and the runtime's own variables; the linker has the last word."""
TASKLET_BYTES = 64
"""What each further tasklet of `multi_agent.c` adds: its arguments, and the runtime's cache for it."""
MOST_TASKLETS = 24
"""Hardware threads of a v1A chip; v1B has 16, and the SDK refuses a program that asks for more."""


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
    return _compile(LEARNER, problem, 1, for_hardware=for_hardware)


def compile_agents(problem: Problem, agents: int, *, for_hardware: bool) -> Path:
    """Return the ELF of `multi_agent.c` for a problem, from the cache where it was built before.

    Parameters
    ----------
    problem : Problem
        As for `compile_learner`.
    agents : int
        Tasklets of a DPU, each with an agent of its own; from 1 to `most_agents(problem)`.
    for_hardware : bool
        As for `compile_learner`.

    Raises
    ------
    SwiftRLError
        If so many tables do not fit a DPU's WRAM, there are not that many tasklets, or the compiler fails.
    """
    _check_table_fits(problem)
    most = most_agents(problem)
    if not 1 <= agents <= most:
        raise SwiftRLError(
            f"agents_per_dpu is {agents}: a DPU has {MOST_TASKLETS} tasklets and room in WRAM for {most} agents with "
            f"Q-tables of {4 * problem.entries:,} bytes; use from 1 to {most}"
        )
    return _compile(MULTI_AGENT, problem, agents, for_hardware=for_hardware)


def most_agents(problem: Problem) -> int:
    """Return how many agents' tables and stacks fit a DPU's WRAM, at most one a tasklet."""
    room = WRAM_BYTES - constant("DMA_BLOCK_BYTES") - RESERVED_WRAM_BYTES + TASKLET_BYTES
    table = -(-4 * problem.entries // 8) * 8
    return min(MOST_TASKLETS, room // (table + STACK_BYTES + TASKLET_BYTES))


def largest_table_bytes() -> int:
    """Return how many bytes of Q-table fit beside the stack, the DMA block and the runtime's variables."""
    return WRAM_BYTES - STACK_BYTES - constant("DMA_BLOCK_BYTES") - RESERVED_WRAM_BYTES


def _check_table_fits(problem: Problem) -> None:
    needed, room = 4 * problem.entries + _bytes_beside(problem), largest_table_bytes()
    if needed > room:
        beside = ", with what the learner keeps beside it," if _bytes_beside(problem) else ""
        table = f"{problem.n_states:,} states x {problem.n_actions} actions"
        raise SwiftRLError(
            f"a Q-table of {table}{beside} takes {needed:,} bytes, but a DPU's WRAM has room for {room:,}: use a "
            "smaller environment, or --backend cpu"
        )


def _bytes_beside(problem: Problem) -> int:
    """Return the WRAM that `struct beside` of learn.h points to."""
    of_vr = 4 * (problem.entries + problem.n_states) if problem.learner.update == Update.VR else 0
    return of_vr + (2 * problem.entries if problem.learner.decays else 0)


def _compile(source: Path, problem: Problem, tasklets: int, *, for_hardware: bool) -> Path:
    defines = problem.learner.switches | {"N_STATES": problem.n_states, "N_ACTIONS": problem.n_actions}
    if for_hardware:
        return _compile_with_sdk(source, defines | {"NR_TASKLETS": tasklets})
    return compile_kernel(source, defines=defines, nr_tasklets=tasklets, include_dirs=[KERNEL_DIRECTORY])


def _compile_with_sdk(source: Path, defines: dict[str, int]) -> Path:
    compiler = shutil.which(VENDOR_COMPILER)
    if compiler is None:
        raise SwiftRLError(
            f"{VENDOR_COMPILER} is not on the PATH, though the UPMEM SDK's Python package is there: "
            "source the SDK's upmem_env.sh first"
        )
    switches = [f"-D{name}={value}" for name, value in sorted(defines.items())]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    inputs = [source, *sorted(KERNEL_DIRECTORY.glob("*.h"))]
    return toolchain.build(
        [compiler, "-O2", *switches, str(source)], inputs, f"{source.stem}.dpu", version=version
    )
