"""Compile a DPU kernel for the simulator: C to an ELF file for RV32I+Zba in the memory map of a DPU.

The instruction set stands in for the DPU's own: without multiply, divide and floating point, like a DPU, so the same
runtime routines are called in the same places. `proxy.py` turns its instructions into DPU instructions; the flags
below are the ones its rules were measured with.

Differences a kernel can see: `long` has 32 bits (64 on a DPU), so kernels use the types of `stdint.h`.
"""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swiftrl_core.util import toolchain
from swiftrl_core.util.errors import CompileError

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
RUNTIME = (HERE / "runtime.c", HERE / "runtime.S")
LINKER_SCRIPT = HERE / "link.ld"

#: `short_forward_branch_opt` gives selects the DPU's shape (compare, one skipped instruction). Loop strength
#: reduction stays off because the DPU compiler hardly does any, the vectorisers because a DPU has no vectors.
#: zig would define NDEBUG with optimisation; a DPU's assertions stay on.
CODE_FLAGS = (
    "-target riscv32-freestanding-none -mcpu=generic_rv32+zba+short_forward_branch_opt -ffreestanding -fno-builtin "
    "-fno-sanitize=all -fomit-frame-pointer -mllvm -disable-lsr -fno-vectorize -fno-slp-vectorize "
    "-ffp-contract=off -fsigned-char -UNDEBUG -ffunction-sections -fdata-sections -g -gdwarf-4"
).split()
DEFAULT_STACK_BYTES = 1024
LINK_FLAGS = ("-nostdlib", "-Wl,--gc-sections", "-Wl,-z,max-page-size=8")


@dataclass(frozen=True)
class Chip:
    """Sizes of one version of the DPU chip (vendor documentation 2025.1).

    Attributes
    ----------
    name : str
        As the compiler of the SDK calls it: `v1A` (2019 on, the common one) or `v1B` (2024 on).
    iram_instructions, wram_bytes, mram_bytes : int
        Sizes of the three memories.
    tasklets : int
        Hardware threads.
    """

    name: str
    iram_instructions: int
    wram_bytes: int
    tasklets: int
    mram_bytes: int = 64 << 20


CHIPS = {"v1A": Chip("v1A", 4096, 65536, 24), "v1B": Chip("v1B", 3968, 63488, 16)}


def chip_named(name: str) -> Chip:
    """Return the sizes of a chip version; raise CompileError for an unknown name."""
    if name not in CHIPS:
        raise CompileError(f"there is no DPU chip {name!r}; choose one of {', '.join(CHIPS)}")
    return CHIPS[name]


def compile_kernel(
    source: str | Path | Sequence[str | Path],
    defines: Mapping[str, object] | None = None,
    nr_tasklets: int = 1,
    stack_size: int | None = None,
    include_dirs: Iterable[str | Path] = (),
    opt: str = "-O2",
    chip: str = "v1A",
    flags: Iterable[str] = (),
) -> Path:
    """Compile and link one DPU kernel.

    Parameters
    ----------
    source : path or sequence of path
        The C file or files. They find the headers of their own folders by `#include "..."`; the program is named after
        the first.
    defines : mapping, optional
        Macros: name to value; None defines the bare name. As with the SDK's compiler, `NR_TASKLETS` and
        `STACK_SIZE_DEFAULT` set what they name.
    nr_tasklets : int
        Tasklets to start, 1 to the chip's number of threads.
    stack_size : int, optional
        Bytes of stack per tasklet, a multiple of 8; defines `STACK_SIZE_DEFAULT`. Without it a stack has 1,024 bytes
        and the macro is not defined.
    include_dirs : iterable of path
        More folders to search for headers.
    opt : str
        Optimisation level, `-O2`, `-O3` or `-Os`.
    chip : str
        `v1A` or `v1B`.
    flags : iterable of str
        More flags for the compiler, such as `-fshort-enums`.

    Returns
    -------
    Path
        The ELF file, in the compiler's cache.

    Raises
    ------
    CompileError
        If the source is missing or does not compile, if a memory overflows (the text names it), or an argument is
        out of range.

    Examples
    --------
    >>> from pathlib import Path
    >>> from swiftrl_core import compile_kernel
    >>> _ = Path("twice.c").write_text('''
    ... #include <defs.h>
    ... __host int number;
    ... int main(void) { number *= FACTOR; return 0; }
    ... ''')
    >>> compile_kernel("twice.c", {"FACTOR": 2}).is_file()
    True
    """
    sources = [Path(source)] if isinstance(source, str | Path) else [Path(name) for name in source]
    sizes = chip_named(chip)
    values = {"NR_TASKLETS": nr_tasklets, **(defines or {})}
    if stack_size is not None:
        values.setdefault("STACK_SIZE_DEFAULT", stack_size)
    tasklets, stack = (
        _number(values, "NR_TASKLETS"),
        _number(values, "STACK_SIZE_DEFAULT", DEFAULT_STACK_BYTES),
    )
    _check(sources, tasklets, stack, sizes)
    values["__builtin_nop()"] = '__asm__ volatile("nop")'  # the DPU's compiler has it
    values |= {"DPU": 1, "__dpu__": 1, f"__dpu_{chip}__": 1, **_sizes(tasklets, stack, sizes)}
    folders = dict.fromkeys((*(path.parent for path in sources), *map(Path, include_dirs), INCLUDE))
    flags = [
        opt,
        *CODE_FLAGS,
        *flags,
        *(f"-D{name}" if value is None else f"-D{name}={value}" for name, value in values.items()),
    ]
    flags += [f"-I{folder}" for folder in folders]
    link = [*LINK_FLAGS, "-Xlinker", "-T", "-Xlinker", str(LINKER_SCRIPT)]
    read = dict.fromkeys(name for path in sources for name in _dependencies(path, flags))
    inputs = [*read, *RUNTIME, LINKER_SCRIPT, *sorted(INCLUDE.glob("*.h"))]
    try:
        return toolchain.compile_c(
            [*flags, *link, *map(str, sources), *map(str, RUNTIME)], inputs, f"{sources[0].stem}.elf"
        )
    except CompileError as error:
        raise CompileError(_explain(sources[0], str(error), sizes)) from None


def _number(values: Mapping[str, object], name: str, default: int | None = None) -> int:
    """Return the decimal number that a macro stands for."""
    try:
        return int(values.get(name, default))
    except (TypeError, ValueError):
        raise CompileError(f"{name}={values[name]} is not a decimal number; define one") from None


def _check(sources: Sequence[Path], nr_tasklets: int, stack_size: int, chip: Chip) -> None:
    if not sources:
        raise CompileError("there is no kernel source; give the path of at least one C file")
    for source in sources:
        if not source.is_file():
            raise CompileError(f"the kernel source {source} does not exist; give the path of a C file")
    if not 1 <= nr_tasklets <= chip.tasklets:
        raise CompileError(
            f"nr_tasklets={nr_tasklets} does not fit a {chip.name} DPU; choose 1 to {chip.tasklets} tasklets"
        )
    if stack_size < 0 or stack_size % 8:
        raise CompileError(f"stack_size={stack_size} is not a multiple of 8; choose one, such as 1024")


def _sizes(nr_tasklets: int, stack_size: int, chip: Chip) -> dict[str, int]:
    """Return the macros from which runtime.S makes the linker script's symbols."""
    return {
        "DPUSIM_STACK_BYTES": (stack_size + 15) // 16 * 16,  # RISC-V keeps sp at multiples of 16
        "DPUSIM_IRAM_BYTES": chip.iram_instructions * 4,
        "DPUSIM_WRAM_BYTES": chip.wram_bytes,
    }


def _dependencies(source: Path, flags: list[str]) -> list[Path]:
    """Return the source and every header it reads, found by the compiler's own preprocessor."""
    command = [sys.executable, "-m", "ziglang", "cc", *flags, "-E", str(source)]
    done = toolchain.run_compiler(command)
    if done.returncode != 0:
        raise CompileError(f"{source.name} does not compile: {done.stderr.strip()}")
    # The markers of lines name files in full; make's rules (-MM) change some letters of them.
    names = dict.fromkeys(re.findall(r'^# \d+ "((?:[^"\\]|\\.)+)"', done.stdout, re.MULTILINE))
    paths = (os.fsdecode(name.encode().decode("unicode_escape").encode("latin-1")) for name in names)
    return [Path(path) for path in paths if os.path.isfile(path)]


#: What the linker script asserts, and the sentence for the user.
_OVERFLOWS = {
    "IRAM overflow": "its code does not fit IRAM ({chip.iram_instructions} instructions); make the kernel smaller",
    "WRAM overflow": "globals and stacks do not fit WRAM ({chip.wram_bytes} bytes); shrink them or move data to MRAM",
    "MRAM overflow": "its variables do not fit MRAM ({chip.mram_bytes} bytes); shrink them",
    "lock overflow": "it has more than 56 mutexes; share some in a mutex pool",
}


def _explain(source: Path, text: str, chip: Chip) -> str:
    """Turn a linker's message into one sentence; leave a compiler's message as it is."""
    for mark, sentence in _OVERFLOWS.items():
        if mark in text:
            return f"{source.name} does not link: {sentence.format(chip=chip)}"
    if re.search(r"unrecognized instruction mnemonic|invalid operand for instruction", text):
        return f"{source.name} does not compile: it has DPU assembly, which cannot be simulated; write that part in C"
    missing = sorted(set(re.findall(r"undefined symbol: (\S+)", text)))
    if missing:
        names = ", ".join(missing)
        return f"{source.name} does not link: {names} is not defined, neither in the kernel nor in the DPU runtime"
    return text
