"""Read a linked DPU program: its segments, its code, and the symbols that the host may use."""

import functools
import hashlib
import io
from dataclasses import dataclass, field
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from swiftrl_core.dpusim.program.compile import CHIPS, INCLUDE, Chip
from swiftrl_core.util.errors import SwiftRLError

WRAM_BASE, MRAM_BASE, IRAM_BASE, ATOMIC_BASE = 0x0, 0x08000000, 0x80000000, 0xF0000000
#: The name by which the host finds the first free byte of MRAM.
MRAM_HEAP = "__sys_used_mram_end"
NO_ADDRESS = 0xFFFFFFFF
PRINT_BUFFER = "__dpusim_print_buffer"


@dataclass(frozen=True)
class Segment:
    """Bytes that load writes: the address in the DPU's map, and the content."""

    address: int
    data: bytes


@dataclass(frozen=True, eq=False)
class Program:
    """A DPU program.

    Attributes
    ----------
    path : Path
        The ELF file.
    digest : bytes
        SHA-256 of its content. Programs are equal if path and digest are.
    text : bytes
        Content of IRAM, from address 0x80000000.
    segments : tuple of Segment
        Initialised WRAM and MRAM, zero-initialised WRAM included.
    symbols : dict of str to (int, int)
        Address and size in bytes of every name the host may use: host variables, MRAM variables, functions.
    functions : dict of str to (int, int)
        Address and size of every function, static ones included.
    entry, stacks_start, heap_start : int
        Where tasklets begin, and where the stacks and the heap lie in WRAM.
    nr_tasklets, stack_bytes : int
        As compiled.
    heap_pointer, heap_lock : int
        Address of the variable that points to the free part of the heap, and number of the lock that guards it; numbers
        that fit nothing in a program without a heap.
    chip : Chip
        The chip version it was linked for.
    """

    path: Path
    digest: bytes
    text: bytes
    segments: tuple[Segment, ...]
    symbols: dict[str, tuple[int, int]]
    functions: dict[str, tuple[int, int]] = field(repr=False)
    entry: int
    stacks_start: int
    heap_start: int
    nr_tasklets: int
    stack_bytes: int
    heap_pointer: int
    heap_lock: int
    chip: Chip

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return (self.path, self.digest) == (other.path, other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def prints(self) -> bool:
        """Whether printf is linked in; without it there is no log to read."""
        return "__dpusim_print" in self.functions

    @property
    def print_bytes(self) -> int:
        """Size of the buffer for what printf prints; 0 if it is not linked in."""
        return self.symbols.get(PRINT_BUFFER, (0, 0))[1]

    def function_at(self, address: int) -> str:
        """Return the name of the function that holds an IRAM address, or the address in hexadecimal."""
        for name, (start, size) in self.functions.items():
            if start <= address < start + size:
                return name
        return f"{address:#x}"

    def source_line(self, address: int) -> str | None:
        """Return `file:line` of an IRAM address from the debug information, or None.

        Code that a header of the runtime has put in line counts for the line of the kernel that uses it.
        """
        best = None
        for start, place in _line_table(self.path):
            if start > address:
                break
            best = place
        if best is None or not _of_the_runtime(best):
            return best
        callers = (place for low, high, place in _call_sites(self.path) if low <= address < high)
        return next((place for place in callers if not _of_the_runtime(place)), best)


@functools.lru_cache(maxsize=16)
def _line_table(path: Path) -> list[tuple[int, str]]:
    """Return the start addresses of source lines, sorted."""
    rows = []
    with open(path, "rb") as stream:
        elf = ELFFile(stream)
        if not elf.has_dwarf_info():
            return []
        dwarf = elf.get_dwarf_info()
        for unit in dwarf.iter_CUs():
            lines = dwarf.line_program_for_CU(unit)
            if lines is None:
                continue
            files = lines["file_entry"]
            for entry in lines.get_entries():
                state = entry.state
                if state is not None and not state.end_sequence and state.line:
                    rows.append(
                        (state.address, f"{Path(files[state.file - 1].name.decode()).name}:{state.line}")
                    )
    return sorted(rows)


def _of_the_runtime(place: str) -> bool:
    return (INCLUDE / place.rpartition(":")[0]).exists()


@functools.lru_cache(maxsize=16)
def _call_sites(path: Path) -> list[tuple[int, int, str]]:
    """Return first and end address of code put in line, and the line that calls it; inner code first."""
    sites = []
    with open(path, "rb") as stream:
        dwarf = ELFFile(stream).get_dwarf_info()
        for unit in dwarf.iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            for entry in unit.iter_DIEs():
                if entry.tag != "DW_TAG_inlined_subroutine" or "DW_AT_call_line" not in entry.attributes:
                    continue
                file = program["file_entry"][entry.attributes["DW_AT_call_file"].value - 1].name.decode()
                place = f"{Path(file).name}:{entry.attributes['DW_AT_call_line'].value}"
                sites += [(low, high, place) for low, high in _ranges(dwarf, unit, entry)]
    return sorted(sites, key=lambda site: site[1] - site[0])


def _ranges(dwarf: DWARFInfo, unit: CompileUnit, entry: DIE) -> list[tuple[int, int]]:
    """Return the address ranges of an entry of the debug information (DWARF 4)."""
    attributes = entry.attributes
    if "DW_AT_ranges" in attributes:
        base = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        base = base.value if base else 0
        found = dwarf.range_lists().get_range_list_at_offset(attributes["DW_AT_ranges"].value, unit)
        return [
            (base + item.begin_offset, base + item.end_offset)
            for item in found
            if hasattr(item, "begin_offset")
        ]
    if "DW_AT_low_pc" not in attributes or "DW_AT_high_pc" not in attributes:
        return []
    low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
    return [(low, high.value if high.form == "DW_FORM_addr" else low + high.value)]


def load_program(path: str | Path) -> Program:
    """Read an ELF file made by `compile_kernel`.

    Raises
    ------
    SwiftRLError
        If the file is absent, or not a program for the simulator.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        return _read(path, hashlib.sha256(content).digest(), ELFFile(io.BytesIO(content)))
    except OSError as error:
        raise SwiftRLError(
            f"cannot read the DPU program {path}: {error.strerror}; compile it first"
        ) from error
    except (ELFError, KeyError) as error:
        raise SwiftRLError(
            f"{path} is not a program for the DPU simulator ({error}); make it with compile_kernel"
        ) from error


def _read(path: Path, digest: bytes, elf: ELFFile) -> Program:
    if elf.get_machine_arch() != "RISC-V" or elf.elfclass != 32:
        raise ELFError(f"built for {elf.get_machine_arch()}")
    table = {}
    functions, visible = {}, {}
    for symbol in elf.get_section_by_name(".symtab").iter_symbols():
        address, kind, place = symbol["st_value"], symbol["st_info"]["type"], symbol["st_shndx"]
        if place == "SHN_UNDEF" or not symbol.name or symbol.name.startswith((".L", "$")):
            continue
        table[symbol.name] = address
        if kind == "STT_FUNC":
            functions[symbol.name] = (address, symbol["st_size"])
        if kind in ("STT_FUNC", "STT_OBJECT") and _host_sees(
            elf.get_section(place).name if place != "SHN_ABS" else ""
        ):
            visible[symbol.name] = (address, symbol["st_size"])
    chip = next(c for c in CHIPS.values() if c.wram_bytes == table["__dpu_wram_bytes"])
    visible[MRAM_HEAP] = (table[MRAM_HEAP], MRAM_BASE + chip.mram_bytes - table[MRAM_HEAP])
    return Program(
        path=path,
        digest=digest,
        text=elf.get_section_by_name(".text").data(),
        segments=tuple(_segments(elf)),
        symbols=visible,
        functions=functions,
        entry=elf["e_entry"],
        stacks_start=table["__stacks_start"],
        heap_start=table["__heap_start"],
        nr_tasklets=table["__dpu_nr_tasklets"],
        stack_bytes=table["__dpu_stack_bytes"],
        heap_pointer=table.get("__dpusim_heap_next", NO_ADDRESS),
        heap_lock=table.get("__lock_bit___heap_lock", NO_ADDRESS) & 0xFF,
        chip=chip,
    )


def _host_sees(section: str) -> bool:
    """Apply the SDK loader's rule: all but the sections `.data*`, with the exception of `.data.__sys_host`.

    Absolute symbols (no section) and lock bits are not variables, so they are left out too.
    """
    hidden = section.startswith((".data", ".atomic")) or not section
    return section == ".data.__sys_host" or not hidden


def _segments(elf: ELFFile) -> list[Segment]:
    """Return what load writes: all data of WRAM, zeros included, and MRAM variables with an initial value."""
    found = []
    for section in elf.iter_sections():
        if not section["sh_flags"] & SH_FLAGS.SHF_ALLOC or not section["sh_size"] or section.name == ".text":
            continue
        zeros = section["sh_type"] == "SHT_NOBITS"
        if not zeros or section.name.startswith(".data"):
            data = bytes(section["sh_size"]) if zeros else section.data()
            found.append(Segment(section["sh_addr"], data))
    return found
