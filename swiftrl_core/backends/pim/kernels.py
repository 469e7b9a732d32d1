"""Compile the kernels of `dpu_src` for a DPU: the vendor's compiler for hardware, our own for the simulator."""

import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from swiftrl_core.backend import Problem
from swiftrl_core.backends.pim import tuning
from swiftrl_core.dpusim import compile_kernel
from swiftrl_core.learner import Learner, Update
from swiftrl_core.learner.layout import KERNEL_DIRECTORY, constant
from swiftrl_core.util import toolchain
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError

LEARNER = KERNEL_DIRECTORY / "learner.c"
TASKLET_LEARNER = KERNEL_DIRECTORY / "tasklet_learner.c"
MULTI_AGENT = KERNEL_DIRECTORY / "multi_agent.c"
VENDOR_COMPILER = "dpu-upmem-dpurte-clang"

WRAM_BYTES = 63488
"""WRAM of the smaller chip, v1B; v1A has 65,536 bytes (UPMEM SDK documentation 2025.1)."""
STACK_BYTES = 1024
"""A tasklet's stack, the SDK's default."""
RESERVED_WRAM_BYTES = 512
"""For the arguments and the runtime's own variables; the linker has the last word."""
TASKLET_BYTES = 64
"""What each further tasklet adds: its arguments or its share, and the runtime's cache for it."""
LEAST_BLOCK_BYTES = 64
"""Of a tasklet's transitions in `tasklet_learner.c`: eight words, about the instructions that a DMA transfer takes."""
MOST_TASKLETS = 24
"""Hardware threads of a v1A chip; v1B has 16, and the SDK refuses a program that asks for more."""


def compile_learner(
    problem: Problem, tasklets: int = 1, *, kernel: str = "paper", for_hardware: bool, chip: str = "v1A"
) -> Path:
    """Return the ELF of a problem's learner kernel, from the cache where it was built before.

    That is `learner.c`, or with a frozen bootstrap `tasklet_learner.c`.

    Parameters
    ----------
    problem : Problem
        Its learner chooses the variant, its counts of states and actions size the table.
    tasklets : int
        That learn on each DPU: 1, or with a frozen bootstrap up to 24.
    kernel : {"paper", "tuned"}
        As in the paper, or with every step of `tuning` that saves this learner something: the same bits.
    for_hardware : bool
        Build with the UPMEM SDK's compiler rather than for the simulator.
    chip : {"v1A", "v1B"}
        Of the simulated server.

    Raises
    ------
    SwiftRLError
        If there is no such kernel, there are not that many tasklets or the learner cannot use them, the Q-table does
        not fit a DPU's WRAM next to what they need, or the compiler fails.
    """
    check_tasklets(problem.learner, tasklets)
    _check_table_fits(problem)
    if not problem.learner.frozen_bootstrap:
        return compile_steps(problem, steps_of(problem, kernel), for_hardware=for_hardware, chip=chip)
    macros = tuning.switches(problem, steps_of(problem, kernel), _room(problem))
    macros["BLOCK_BYTES"] = _block_bytes(problem, tasklets)
    return _compile(TASKLET_LEARNER, problem, tasklets, macros, for_hardware=for_hardware, chip=chip)


def steps_of(problem: Problem, kernel: str) -> tuple[tuning.Step, ...]:
    """Return the steps of `tuning` that make a kernel, `paper` or `tuned`, of a problem."""
    return tuning.steps(problem, kernel, _room(problem))


def compile_steps(
    problem: Problem,
    steps: Collection[tuning.Step],
    source: Path | None = None,
    *,
    for_hardware: bool = False,
    chip: str = "v1A",
) -> Path:
    """Return the ELF of `learner.c`, or of a source that includes it, with some steps of `tuning` built in."""
    macros = tuning.switches(problem, steps, _room(problem))
    return _compile(source or LEARNER, problem, 1, macros, for_hardware=for_hardware, chip=chip)


def check_tasklets(learner: Learner, tasklets: int) -> None:
    """Raise `SwiftRLError` where there are not that many tasklets, or the learner cannot use them."""
    whole_number(tasklets, "tasklets", 1, MOST_TASKLETS)
    if tasklets != 1 and not learner.frozen_bootstrap:
        raise SwiftRLError(
            f"tasklets is {tasklets}: with bootstrap current each update depends on the one before, so only 1 tasklet "
            "of a DPU can learn; use --tasklets 1, or --bootstrap frozen"
        )


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
    """Return how many bytes of Q-table fit next to the stack, the DMA block and the runtime's variables."""
    return WRAM_BYTES - STACK_BYTES - constant("DMA_BLOCK_BYTES") - RESERVED_WRAM_BYTES


def _check_table_fits(problem: Problem) -> None:
    needed, room = 4 * problem.entries + _auxiliary_bytes(problem), largest_table_bytes()
    if needed > room:
        auxiliary = ", with the learner's other arrays," if _auxiliary_bytes(problem) else ""
        table = f"{problem.n_states:,} states x {problem.n_actions} actions"
        raise SwiftRLError(
            f"a Q-table of {table}{auxiliary} takes {needed:,} bytes, but a DPU's WRAM has room for {room:,}: use a "
            "smaller environment, or --backend cpu"
        )


def _room(problem: Problem) -> int:
    """Return the bytes of WRAM that the table and the learner's other arrays leave."""
    return (
        largest_table_bytes() + constant("DMA_BLOCK_BYTES") - 4 * problem.entries - _auxiliary_bytes(problem)
    )


def _auxiliary_bytes(problem: Problem) -> int:
    """Return the bytes of the learner's other arrays: what `struct aux` of td_update.h points to."""
    of_vr = 4 * (problem.entries + problem.n_states) if problem.learner.update == Update.VR else 0
    of_decay = 2 * problem.entries if problem.learner.decaying_alpha else 0
    return of_vr + of_decay + (4 * (problem.n_states + 1) if problem.learner.frozen_bootstrap else 0)


def _block_bytes(problem: Problem, tasklets: int) -> int:
    """Return how much of WRAM each tasklet has for its transitions: all that is left, up to a DMA transfer."""
    room = WRAM_BYTES - RESERVED_WRAM_BYTES - 4 * problem.entries - _auxiliary_bytes(problem)
    each = STACK_BYTES + TASKLET_BYTES
    block = min(room // tasklets - each, constant("DMA_BLOCK_BYTES")) // 8 * 8
    if block < LEAST_BLOCK_BYTES:
        most = room // (each + LEAST_BLOCK_BYTES)
        raise SwiftRLError(
            f"tasklets is {tasklets}: next to a Q-table of {problem.n_states:,} states x {problem.n_actions} actions "
            f"and the learner's other arrays, a DPU's WRAM has room for {most}; use --tasklets {most} or fewer"
        )
    return block


def _compile(
    source: Path,
    problem: Problem,
    tasklets: int,
    sizes: dict[str, object] | None = None,
    *,
    for_hardware: bool,
    chip: str = "v1A",
) -> Path:
    defines = problem.switches | (sizes or {})
    if for_hardware:
        return _compile_with_sdk(source, defines | {"NR_TASKLETS": tasklets})
    return compile_kernel(
        source, defines=defines, nr_tasklets=tasklets, include_dirs=[KERNEL_DIRECTORY], chip=chip
    )


def _compile_with_sdk(source: Path, defines: dict[str, object]) -> Path:
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
