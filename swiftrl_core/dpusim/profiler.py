"""The profiler: a kernel's instructions by function and by line of source, from its debug information.

The run is the exact one, and every instruction it issues is charged to one place: those of a runtime routine (a
division, say) to the line that calls it, or to the routine where the call is the last thing a function does; tries at a
taken lock and the instructions of a barrier to the line that waits. So the counts of all lines add up to the
instructions of the run.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from elftools.elf.elffile import ELFFile

from swiftrl_core.dpusim.dpu_set import DpuSet
from swiftrl_core.dpusim.machine import Machine, RunStats, run_counted
from swiftrl_core.dpusim.program.elf import IRAM_BASE, Program, load_program
from swiftrl_core.dpusim.program.lower import lower
from swiftrl_core.dpusim.program.rv32 import IMMEDIATE_ALU, LOADS, REGISTER_ALU, STORES, Op
from swiftrl_core.util.errors import SwiftRLError

COLUMNS = ["function", "file", "line", "source", "instructions", "share"]
_STRAIGHT = np.array(sorted({Op.LUI, Op.NOP} | IMMEDIATE_ALU | REGISTER_ALU | LOADS | STORES), np.uint64)


def profile(target: str | Path | DpuSet, dpu: int = 0) -> pd.DataFrame:
    """Launch one DPU and count its instructions by line of source.

    Parameters
    ----------
    target : path or DpuSet
        An ELF file, run on a fresh DPU; or a set with a loaded program and its inputs in place, whose memory
        afterwards is as after `exec`. The set's ledger does not change.
    dpu : int
        Which DPU of the set.

    Returns
    -------
    DataFrame
        Columns function (as linked: inlined code counts for the function it went into), file (name), line (0 where
        there is no debug information), source (the line's text, empty where the file cannot be read),
        instructions, share (of all). Most expensive line first; lines that issued nothing are left out.

    Raises
    ------
    SwiftRLError
        If the kernel ends in a fault, or there is no such DPU, or no program on it.
    """
    return profile_run(target, dpu)[1]


def profile_run(target: str | Path | DpuSet, dpu: int = 0) -> tuple[RunStats, pd.DataFrame]:
    """Do what `profile` does, and also return what the launch took as a whole."""
    machine = _machine_of(target, dpu) if isinstance(target, DpuSet) else Machine(load_program(target))
    machine.boot()
    stats, counts = run_counted(machine)
    if machine.fault is not None:
        raise SwiftRLError(f"{machine.program.path.name} faulted: {machine.fault}")
    return stats, _by_line(machine.program, _charge_free_instructions(machine.program, counts))


def by_function(lines: pd.DataFrame) -> pd.DataFrame:
    """Add up the lines of each function: columns function, instructions, share; most expensive first."""
    sums = lines.groupby("function", as_index=False, sort=False)[["instructions", "share"]].sum()
    return sums.sort_values("instructions", ascending=False, ignore_index=True)


def summary(stats: RunStats, clock_hz: float = 350e6) -> dict[str, float]:
    """Return what one launch took, in the numbers one looks at first.

    Returns
    -------
    dict
        instructions (all tasklets), cycles, kernel_ms (without launch latency), dma_bytes, and two utilisations:
        pipeline (instructions a cycle, at most 1) and dma (share of the cycles in which the DMA engine is busy).
    """
    instructions = int(stats.instructions.sum())
    return {
        "instructions": instructions,
        "cycles": stats.cycles,
        "kernel_ms": stats.cycles / clock_hz * 1e3,
        "dma_bytes": int(stats.dma_bytes_read.sum() + stats.dma_bytes_written.sum()),
        "pipeline_utilisation": instructions / stats.cycles,
        "dma_utilisation": float(stats.dma_cycles.sum() / stats.cycles),
    }


def _machine_of(dpu_set: DpuSet, dpu: int) -> Machine:
    if not 0 <= dpu < len(dpu_set):
        raise SwiftRLError(
            f"there is no DPU {dpu} in a set of {len(dpu_set)}; choose 0 to {len(dpu_set) - 1}"
        )
    dpu_set._allocation.drain_alive()
    machine = dpu_set._allocation.machines[dpu_set._span[dpu]]
    if machine is None:
        raise SwiftRLError("no program has been loaded in the dpu set; load one before profiling it")
    return machine


def _charge_free_instructions(program: Program, counts: np.ndarray) -> np.ndarray:
    """Move the count of an instruction that costs nothing to the next one that costs something."""
    _, ops = lower(program)
    free = (ops["cost"][:-1] == 0) & np.isin(ops["code"][:-1], _STRAIGHT)
    counts = counts.copy()
    for i in np.flatnonzero(free[:-1]):  # in order, so that counts pass through a run of them
        counts[i + 1] += counts[i]
        counts[i] = 0
    return counts


def _by_line(program: Program, counts: np.ndarray) -> pd.DataFrame:
    places = source_places(program.path)
    rows = []
    for i in np.flatnonzero(counts):
        path, line = places.get(IRAM_BASE + 4 * int(i), (None, 0))
        rows.append((program.function_at(IRAM_BASE + 4 * int(i)), path, line, int(counts[i])))
    table = pd.DataFrame(rows, columns=["function", "path", "line", "instructions"])
    table = table.groupby(["function", "path", "line"], as_index=False, dropna=False)["instructions"].sum()
    known = [path if isinstance(path, Path) else None for path in table["path"]]
    sources = {path: _lines_of(path) for path in {*known} - {None}}
    table["file"] = [path.name if path else "" for path in known]
    table["source"] = [
        _text(sources.get(path, ()), line) for path, line in zip(known, table["line"], strict=True)
    ]
    table["share"] = table["instructions"] / table["instructions"].sum()
    return table.sort_values(["instructions", "line"], ascending=[False, True], ignore_index=True)[COLUMNS]


def source_places(path: Path) -> dict[int, tuple[Path, int]]:
    """Return file and line of every instruction that the debug information covers, by IRAM address."""
    places: dict[int, tuple[Path, int]] = {}
    with open(path, "rb") as stream:
        elf = ELFFile(stream)
        dwarf = elf.get_dwarf_info() if elf.has_dwarf_info() else None
        for unit in dwarf.iter_CUs() if dwarf else ():
            program = dwarf.line_program_for_CU(unit)
            if program is not None:
                _read_lines(program, Path(unit.get_top_DIE().get_full_path()).parent, places)
    return places


def _read_lines(program, folder: Path, places: dict[int, tuple[Path, int]]) -> None:
    """Add one compilation unit's line table (DWARF 4: files and folders count from 1, folder 0 is the unit's).

    The compiler marks code that belongs to no line with 0; it goes to the next line, at the end to the last one.
    """
    folders = [folder, *(Path(name.decode()) for name in program["include_directory"])]
    files = [folders[entry.dir_index] / entry.name.decode() for entry in program["file_entry"]]
    before, place, pending = None, None, []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if before is not None:
            pending += range(before.address, state.address, 4)
            if before.line:
                place = files[before.file - 1], before.line
            if place is not None and (before.line or state.end_sequence):
                places.update(dict.fromkeys(pending, place))
                pending = []
        before = None if state.end_sequence else state
        if state.end_sequence:
            place, pending = None, []


def _lines_of(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(errors="replace").splitlines())
    except OSError:
        return ()


def _text(lines: tuple[str, ...], line: int) -> str:
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""
