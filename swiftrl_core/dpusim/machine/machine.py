"""One simulated DPU: its memories, its program, its fault."""

import ctypes
from dataclasses import astuple, dataclass

import numpy as np

from swiftrl_core.dpusim.machine.interface import CDmaTiming, library
from swiftrl_core.dpusim.machine.prepared import prepare
from swiftrl_core.dpusim.program.compile import Chip
from swiftrl_core.dpusim.program.elf import MRAM_BASE, Program
from swiftrl_core.dpusim.sanitizer import RECORD as REPORT_RECORD
from swiftrl_core.dpusim.sanitizer import SanitizerReport, describe
from swiftrl_core.dpusim.timing import DmaTiming
from swiftrl_core.util.errors import SwiftRLError

#: Sentences for the codes of machine.h; `{address}` and `{value}` as the machine recorded them.
_FAULTS = {
    1: "the heap is full",
    2: "division by zero",
    3: "an assertion failed",
    4: "the kernel halted",
    5: "the print buffer overflowed",
    16: "the simulating machine is out of memory",
    17: "access of {value} bytes at {address:#x}, which is neither in WRAM nor in MRAM",
    18: "access of {value} bytes at {address:#x}, which is not a multiple of {value}",
    21: "a DMA of {value} bytes at WRAM address {address:#x} leaves WRAM",
    22: "a DMA of {value} bytes at MRAM address {address:#x} leaves MRAM",
    23: "illegal instruction {value:#010x}",
    24: "a jump to {address:#x}, outside the program",
    25: "a call through a NULL function pointer",
    26: "the instruction budget is used up; does the kernel loop for ever?",
    27: "deadlock: every tasklet that has not ended waits",
    28: "a barrier at {address:#x} that BARRIER_INIT did not make",
    29: "its stack of {value} bytes is full (frames may be larger than a DPU's); compile with a larger stack_size",
}


@dataclass(frozen=True)
class Fault:
    """Why a DPU stopped.

    Attributes
    ----------
    code : int
        The DPU runtime's own number (1 heap full, 2 division by zero, 3 assert, 4 halt, 5 print buffer), or one of
        the simulator's from 16 on.
    tasklet : int
        The tasklet at fault; of a deadlock, the first that waits.
    pc : int
        IRAM address of the instruction.
    text : str
        What happened, in words.
    function : str
        Name of the function that holds the instruction.
    line : str or None
        `file:line` of the source, where debug information has it.
    """

    code: int
    tasklet: int
    pc: int
    text: str
    function: str
    line: str | None

    def __str__(self) -> str:
        place = f"{self.function} ({self.line})" if self.line else self.function
        return f"tasklet {self.tasklet} in {place} at {self.pc:#x}: {self.text}"


class Machine:
    """One DPU.

    Parameters
    ----------
    program : Program
        Loaded at once.
    chip : Chip, optional
        Must be the chip version the program was linked for; default just that.
    dma : DmaTiming, optional
        Latency of its transfers; default PrIM's.
    sanitize : bool
        Whether runs look for bugs (see `sanitizer_reports`). Such runs are exact, and about 20 times slower.

    Notes
    -----
    Fresh WRAM and MRAM hold the byte 0xA5, not zeros. A launch is `boot`, then `run_machines`. Between launches all
    memory keeps its content, as on a DPU; `load` writes initialised data only.
    """

    def __init__(
        self,
        program: Program,
        chip: Chip | None = None,
        dma: DmaTiming | None = None,
        *,
        sanitize: bool = False,
    ):
        if chip is not None and chip != program.chip:
            raise SwiftRLError(
                f"{program.path.name} is linked for chip {program.chip.name}, not {chip.name}; compile it again"
            )
        self.sanitize = sanitize
        self._library = library(sanitize)
        self.prepared = prepare(program, sanitize)
        self._wram = np.empty(program.chip.wram_bytes, np.uint8)
        latency = CDmaTiming(*astuple(dma or DmaTiming()))
        self._handle = self._library.dpu_new(
            ctypes.byref(self.prepared.record), self._wram.ctypes.data, latency
        )
        if not self._handle:
            raise SwiftRLError("this computer has no memory left for another simulated DPU; allocate fewer")
        #: The whole WRAM, writable.
        self.wram = memoryview(self._wram)
        self.load(program)

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            self._library.dpu_free(handle)

    def load(self, program: Program) -> None:
        """Load a program: IRAM and all initialised data; other memory keeps its content."""
        if program.chip.wram_bytes != len(self.wram):
            raise SwiftRLError(f"{program.path.name} is linked for chip {program.chip.name}, unlike this DPU")
        self.program = program
        self.prepared = prepare(program, self.sanitize)
        self._library.dpu_set_program(self._handle, ctypes.byref(self.prepared.record))
        if self.sanitize:
            self._library.dpu_clear_reports(self._handle)
        for segment in program.segments:
            if segment.address >= MRAM_BASE:
                self.write_mram(segment.address - MRAM_BASE, segment.data)
            else:
                self.write_wram(segment.address, segment.data)
        self.boot()

    def boot(self) -> None:
        """Put every tasklet at the start of the program and clear locks and log; memory keeps its content."""
        self._library.dpu_boot(self._handle)

    def read_wram(self, address: int, size: int) -> bytes:
        """Return `size` bytes of WRAM."""
        self._check("WRAM", address, size, len(self.wram))
        return bytes(self.wram[address : address + size])

    def write_wram(self, address: int, data) -> None:
        """Write bytes to WRAM."""
        data = memoryview(data).cast("B")
        self._check("WRAM", address, len(data), len(self.wram))
        self.wram[address : address + len(data)] = data
        if self.sanitize:
            self._library.dpu_host_wrote(self._handle, address, len(data))

    def read_mram(self, address: int, size: int, into=None) -> bytes | None:
        """Read MRAM.

        Parameters
        ----------
        address : int
            Byte offset from the start of MRAM.
        size : int
            Bytes to read.
        into : writable buffer, optional
            Filled instead of returning new bytes; C-contiguous, at least `size` bytes.
        """
        self._check("MRAM", address, size, self.program.chip.mram_bytes)
        target = np.empty(size, np.uint8) if into is None else _bytes_of(into)
        if len(target) < size or not target.flags.writeable:
            raise SwiftRLError(f"a buffer of {len(target)} bytes cannot take {size} bytes of MRAM")
        self._library.mram_copy_out(self._handle, address, target.ctypes.data, size)
        return target.tobytes() if into is None else None

    def write_mram(self, address: int, data) -> None:
        """Write bytes to MRAM, `address` counting from its start."""
        source = _bytes_of(data)
        self._check("MRAM", address, len(source), self.program.chip.mram_bytes)
        if not self._library.mram_copy_in(self._handle, address, source.ctypes.data, len(source)):
            raise SwiftRLError(
                "this computer has no memory left for the simulated MRAM; use fewer DPUs or less data"
            )

    @staticmethod
    def _check(memory: str, address: int, size: int, limit: int) -> None:
        if address < 0 or size < 0 or address + size > limit:
            raise SwiftRLError(f"{size} bytes at {address:#x} do not lie in {memory} ({limit} bytes)")

    @property
    def fault(self) -> Fault | None:
        """Why the last run ended, None when it ended well. A DPU in fault does not run again."""
        raw = self._library.dpu_fault(self._handle).contents
        if not raw.code:
            return None
        text = _FAULTS.get(raw.code, f"fault {raw.code}").format(address=raw.address, value=raw.value)
        name, line = self.program.function_at(raw.pc), self.program.source_line(raw.pc)
        return Fault(raw.code, raw.tasklet, raw.pc, text, name, line)

    @property
    def sanitizer_reports(self) -> list[SanitizerReport]:
        """Bugs found in the launches since the program was loaded; sanitize.h documents the checks.

        Bytes that the host writes through `wram` rather than `write_wram` count as unwritten.

        Raises
        ------
        SwiftRLError
            If the machine was made without `sanitize=True`.
        """
        if not self.sanitize:
            raise SwiftRLError("this DPU does not look for bugs; make it with sanitize=True")
        count = ctypes.c_int32()
        address = self._library.dpu_reports(self._handle, ctypes.byref(count))
        raw = ctypes.string_at(address, count.value * REPORT_RECORD.itemsize)
        return describe(np.frombuffer(raw, REPORT_RECORD), self.program, 0)

    def log_text(self) -> str:
        """Return what the kernel has printed since the last boot."""
        size = ctypes.c_size_t()
        text = self._library.dpu_log(self._handle, ctypes.byref(size))
        return ctypes.string_at(text, size.value).decode(errors="replace") if size.value else ""

    @property
    def log_lost(self) -> bool:
        """Whether the kernel has printed more than the print buffer holds, so that older text is gone."""
        return self._library.dpu_log_lost(self._handle)

    @property
    def host_bytes(self) -> int:
        """Bytes of this computer's memory that the DPU occupies now."""
        return self._library.dpu_host_bytes(self._handle)

    def symbol(self, name: str, dtype=np.uint8) -> np.ndarray:
        """Return a copy of a host-visible variable, in WRAM or MRAM, as a flat array."""
        if name not in self.program.symbols:
            raise SwiftRLError(f"the program has no host-visible symbol {name!r}")
        address, size = self.program.symbols[name]
        if address >= MRAM_BASE:
            return np.frombuffer(self.read_mram(address - MRAM_BASE, size), dtype)
        return np.frombuffer(self.read_wram(address, size), dtype)


def _bytes_of(buffer) -> np.ndarray:
    """View a contiguous buffer as bytes without copying it."""
    return np.frombuffer(memoryview(buffer).cast("B"), np.uint8)
