"""Sanitizer reports: the bugs that machine/sanitize.h found, with names, source lines and a sentence each."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from elftools.dwarf.dwarf_expr import DWARFExprOp, DWARFExprParser
from elftools.elf.elffile import ELFFile

from swiftrl_core.dpusim.program.elf import IRAM_BASE, MRAM_BASE, Program

#: `struct report` of sanitize.h.
RECORD = np.dtype(
    [
        *((name, "<i4") for name in ("kind", "tasklet", "other")),
        *((name, "<u4") for name in ("pc", "other_pc", "address", "size")),
        ("writes", "?"),
        ("other_wrote", "?"),
        ("reserved", "V2"),
        ("count", "<i8"),
    ],
    align=True,
)
UNINITIALISED, RACE, DMA_WRAM_ADDRESS, DMA_MRAM_ADDRESS, DMA_SIZE, DMA_MRAM_BASE = range(1, 7)
KINDS = {
    UNINITIALISED: "uninitialised read",
    RACE: "data race",
    **dict.fromkeys((DMA_WRAM_ADDRESS, DMA_MRAM_ADDRESS, DMA_SIZE), "misaligned DMA"),
    DMA_MRAM_BASE: "MRAM address without base",
}


@dataclass(frozen=True)
class SanitizerReport:
    """One bug.

    Attributes
    ----------
    kind : str
        One of the values of `KINDS`.
    dpus : tuple of int
        DPUs of the set on which it was seen.
    tasklets : tuple of int
        The tasklet at fault; of a race first the one that came earlier. An example: others may have done the same.
    address : int
        Of the data in the DPU's memory map, WRAM from 0, MRAM from 0x08000000.
    symbol : str
        What lies there: `table`, `table+8`, `stack of tasklet 3`, `heap`.
    lines : tuple of str
        `file:line` of the accesses in the kernel's source, in the order of `tasklets`.
    count : int
        How often it was seen.
    text : str
        All of it in a sentence.
    """

    kind: str
    dpus: tuple[int, ...]
    tasklets: tuple[int, ...]
    address: int
    symbol: str
    lines: tuple[str, ...]
    count: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def describe(records: np.ndarray, program: Program, dpu: int) -> list[SanitizerReport]:
    """Return the reports of one DPU, those of the same lines and variable as one."""
    return merge(_report(record, program, dpu) for record in records)


def merge(reports: Iterable[SanitizerReport]) -> list[SanitizerReport]:
    """Join reports of the same kind, lines (in any order) and variable, in the order of their first."""
    joined: dict[tuple, SanitizerReport] = {}
    for report in reports:
        key = report.kind, frozenset(report.lines), report.symbol.partition("+")[0].rstrip("0123456789 ")
        known = joined.get(key)
        if known is None:
            joined[key] = report
        else:
            dpus = tuple(sorted({*known.dpus, *report.dpus}))
            joined[key] = replace(known, dpus=dpus, count=known.count + report.count)
    return list(joined.values())


def _report(record: np.void, program: Program, dpu: int) -> SanitizerReport:
    address, size = int(record["address"]), int(record["size"])
    symbol = symbol_at(program, address)
    lines, tasklets = [_line(program, record["pc"])], [int(record["tasklet"])]
    kind = int(record["kind"])
    where = f"tasklet {tasklets[0]} at {lines[0]}"
    if kind == UNINITIALISED:
        text = f"{where} reads {size} bytes of {symbol} ({address:#x}) that were never written"
    elif kind == RACE:
        lines.insert(0, _line(program, record["other_pc"]))
        tasklets.insert(0, int(record["other"]))
        text = (
            f"{where} {'writes' if record['writes'] else 'reads'} {symbol} ({address:#x}), which tasklet "
            f"{tasklets[0]} {'writes' if record['other_wrote'] else 'reads'} at {lines[0]}; no lock, barrier, "
            "semaphore or handshake orders the two"
        )
    elif kind == DMA_SIZE:
        done = ((size // 8 - 1) & 255) * 8 + 8
        text = (
            f"{where} transfers {size} bytes, which is not a multiple of 8 from 8 to 2048; a DPU moves {done}"
        )
    elif kind == DMA_MRAM_BASE:
        text = f"{where} uses the MRAM address {address:#x}; a DPU takes it for {MRAM_BASE + address:#x}, add the base"
    else:
        memory = "WRAM" if kind == DMA_WRAM_ADDRESS else "MRAM"
        used = f"a DPU uses {address & ~7:#x}"
        text = f"{where} uses the {memory} address {address:#x}, which is not a multiple of 8; {used}"
    return SanitizerReport(
        KINDS[kind], (dpu,), tuple(tasklets), address, symbol, tuple(lines), int(record["count"]), text
    )


def _line(program: Program, index: int) -> str:
    address = IRAM_BASE + 4 * int(index)
    return program.source_line(address) or program.function_at(address)


def symbol_at(program: Program, address: int) -> str:
    """Return what lies at an address of WRAM or MRAM: a variable (`name` or `name+offset`), a stack, the heap."""
    inside = [variable for variable in _variables(program.path) if variable[0] <= address < variable[1]]
    if inside:
        start, _, name = max(inside)
        if address == program.heap_pointer:
            return "the heap's pointer"
        return name if address == start else f"{name}+{address - start}"
    if address >= MRAM_BASE:
        return "MRAM"
    if program.stacks_start <= address < program.heap_start:
        return f"stack of tasklet {(address - program.stacks_start) // program.stack_bytes}"
    return "heap" if address >= program.heap_start else f"{address:#x}"


@functools.lru_cache(maxsize=16)
def _variables(path: Path) -> list[tuple[int, int, str]]:
    """Return start, end and name of every variable of a program, static ones included.

    The compiler may merge several into one symbol; then the debug information has the start of each.
    """
    with open(path, "rb") as stream:
        elf = ELFFile(stream)
        objects = [
            (symbol["st_value"], symbol["st_value"] + symbol["st_size"], symbol.name)
            for symbol in elf.get_section_by_name(".symtab").iter_symbols()
            if symbol["st_info"]["type"] == "STT_OBJECT" and symbol["st_size"]
        ]
        within = [
            (start, end, name)
            for start, name in _declared(elf)
            for low, end, _ in objects
            if low <= start < end
        ]
    return objects + within


def _declared(elf: ELFFile) -> list[tuple[int, str]]:
    """Return address and name of the variables in the debug information whose place is fixed."""
    if not elf.has_dwarf_info():
        return []
    dwarf = elf.get_dwarf_info()
    found = []
    for unit in dwarf.iter_CUs():
        parser = DWARFExprParser(unit.structs)
        for entry in unit.iter_DIEs():
            attributes = entry.attributes
            place = attributes.get("DW_AT_location")
            if entry.tag != "DW_TAG_variable" or "DW_AT_name" not in attributes or place is None:
                continue
            if place.form != "DW_FORM_exprloc":
                continue
            address = _fixed_address(parser.parse_expr(place.value))
            if address is not None:
                found.append((address, attributes["DW_AT_name"].value.decode()))
    return found


def _fixed_address(expression: list[DWARFExprOp]) -> int | None:
    """Return the address that an expression `address` or `address + offset` gives, None for any other."""
    if not expression or expression[0].op_name != "DW_OP_addr":
        return None
    offsets = [op.args[0] for op in expression[1:] if op.op_name == "DW_OP_plus_uconst"]
    return expression[0].args[0] + sum(offsets) if len(offsets) == len(expression) - 1 else None
