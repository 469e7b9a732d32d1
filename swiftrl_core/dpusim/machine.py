"""One simulated DPU, and running many of them: the Python face of machine.c."""

import ctypes
import functools
import math
import os
import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from swiftrl_core.dpusim.compile import Chip
from swiftrl_core.dpusim.elf import MRAM_BASE, Program
from swiftrl_core.dpusim.findings import RECORD as FINDING_RECORD
from swiftrl_core.dpusim.findings import Finding, describe
from swiftrl_core.dpusim.lower import lower
from swiftrl_core.dpusim.rv32 import Op
from swiftrl_core.dpusim.timing import DmaTiming
from swiftrl_core.dpusim.translate import Translation, compile_translation
from swiftrl_core.util import toolchain
from swiftrl_core.util.errors import SwiftRLError

HERE = Path(__file__).parent
#: Modelled DPU instructions after which a run counts as hung.
INSTRUCTION_BUDGET = 10**12
MAX_TASKLETS = 24
#: What translating a program takes, in seconds for each of its instructions (0.6 to 0.9 s for 170, 6 s for
#: 1,850). It pays for a program that has run for as long.
TRANSLATION_S = 0.0033

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
    19: "a DMA of {value} bytes; the size must be a multiple of 8 from 8 to 2048",
    20: "a DMA with address {address:#x}; WRAM and MRAM addresses must be multiples of 8",
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
        Issue slots in which each tasklet stalled on its registers' banks, beside its instructions (costs.h).
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


#: `struct run_stats` of machine.h.
_STATS_RECORD = np.dtype(
    [(name, "<i8") for name in ("cycles", "phases", "lock_tries", "barrier_instructions")]
    + [
        (name, "<i8", MAX_TASKLETS)
        for name in (
            "instructions",
            "stalls",
            "dma_cycles",
            "dma_bytes_read",
            "dma_bytes_written",
            "dma_transfers",
        )
    ]
)


class _CProgram(ctypes.Structure):
    """`struct program` of machine.h."""

    _fields_ = [
        *(
            (name, ctypes.c_uint32)
            for name in ("size", "entry", "stacks_start", "stack_bytes", "nr_tasklets")
        ),
        *((name, ctypes.c_uint32) for name in ("wram_bytes", "mram_bytes", "print_bytes")),
        ("fast", ctypes.c_void_p),
        ("exact", ctypes.c_void_p),
        ("one", ctypes.c_void_p),
        ("fused", ctypes.c_void_p),
        ("translated", ctypes.c_void_p),
        ("routine", ctypes.c_void_p),
    ]


class _CDmaTiming(ctypes.Structure):
    """`struct dma_timing` of machine.h, its members in the order of `DmaTiming`."""

    _fields_ = [(field.name, ctypes.c_double) for field in fields(DmaTiming)]


class _CFault(ctypes.Structure):
    """`struct fault` of machine.h."""

    _fields_ = [
        ("code", ctypes.c_int32),
        ("tasklet", ctypes.c_int32),
        *((name, ctypes.c_uint32) for name in ("pc", "address", "value")),
    ]


@functools.cache
def library(sanitize: bool = False) -> ctypes.CDLL:
    """Compile (once) and load machine.c; the debug run is a build of its own."""
    path = toolchain.compile_shared_library(
        [HERE / "machine.c", HERE / "log.c"],
        headers=sorted(HERE.glob("*.h")),
        flags=["-DSANITIZE"] if sanitize else [],
        product="dpusim_sanitize.so" if sanitize else "dpusim.so",
    )
    lib = ctypes.CDLL(str(path))
    pointer, size, offset = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    lib.dpu_program_prepare.argtypes, lib.dpu_program_prepare.restype = [pointer], None
    lib.dpu_program_translate.argtypes = [pointer, pointer, pointer]
    lib.dpu_program_translate.restype = None
    lib.dpu_new.argtypes, lib.dpu_new.restype = [pointer, pointer, _CDmaTiming], pointer
    lib.dpu_free.argtypes, lib.dpu_free.restype = [pointer], None
    lib.dpu_set_program.argtypes, lib.dpu_set_program.restype = [pointer, pointer], None
    lib.dpu_boot.argtypes, lib.dpu_boot.restype = [pointer], None
    lib.dpu_fault.argtypes, lib.dpu_fault.restype = [pointer], ctypes.POINTER(_CFault)
    lib.dpu_log.argtypes, lib.dpu_log.restype = [pointer, ctypes.POINTER(size)], pointer
    lib.dpu_log_lost.argtypes, lib.dpu_log_lost.restype = [pointer], ctypes.c_bool
    lib.dpu_host_bytes.argtypes, lib.dpu_host_bytes.restype = [pointer], size
    for copy in (lib.mram_copy_in, lib.mram_copy_out):
        copy.argtypes, copy.restype = [pointer, offset, pointer, size], ctypes.c_bool
    lib.dpu_run.argtypes = [pointer, ctypes.c_int64, ctypes.c_bool, ctypes.c_int64, pointer]
    lib.dpu_run.restype = None
    lib.dpu_run_counted.argtypes = [pointer, ctypes.c_int64, pointer, pointer]
    lib.dpu_run_counted.restype = None
    lib.dpu_replay.argtypes = [ctypes.c_int32, pointer, pointer, pointer]
    lib.dpu_replay.restype = ctypes.c_int64
    if sanitize:
        count = ctypes.POINTER(ctypes.c_int32)
        lib.dpu_findings.argtypes, lib.dpu_findings.restype = [pointer, count], pointer
        lib.dpu_host_wrote.argtypes, lib.dpu_host_wrote.restype = [pointer, offset, offset], None
        lib.dpu_clear_findings.argtypes, lib.dpu_clear_findings.restype = [pointer], None
    lib.dpu_routine.argtypes, lib.dpu_routine.restype = [ctypes.c_uint32, pointer, pointer], ctypes.c_uint32
    return lib


class _Prepared:
    """A program in the form that the C side runs; keeps its arrays alive."""

    def __init__(self, program: Program, sanitize: bool):
        fused, plain = lower(program)
        self._fused = fused
        self.fast, self.exact, self.one = fused.copy(), fused.copy(), plain.copy()
        self.record = _CProgram(
            size=len(self.fast),
            entry=program.entry,
            stacks_start=program.stacks_start,
            stack_bytes=program.stack_bytes,
            nr_tasklets=program.nr_tasklets,
            wram_bytes=program.chip.wram_bytes,
            mram_bytes=program.chip.mram_bytes,
            print_bytes=program.print_bytes,
            fast=self.fast.ctypes.data,
            exact=self.exact.ctypes.data,
            one=self.one.ctypes.data,
        )
        library(sanitize).dpu_program_prepare(ctypes.byref(self.record))
        self._seconds = 0.0
        self._translation: ctypes.CDLL | None = None
        self._lock = threading.Lock()

    @property
    def translation_s(self) -> float:
        """About what translating it takes, seconds."""
        return TRANSLATION_S * len(self._fused)

    @property
    def is_translated(self) -> bool:
        """Whether fast runs execute compiled code."""
        return self._translation is not None

    def translate(self) -> None:
        """Let fast runs from now on execute compiled code."""
        with self._lock:
            if self._translation is None:
                self._enter(Translation(self._fused))

    def _enter(self, translation: Translation) -> None:
        self._translation = ctypes.CDLL(str(compile_translation(translation)))
        self.fast_translated = self._fused.copy()
        self.fast_translated["code"][translation.entries] = Op.TRANSLATED
        library().dpu_program_translate(
            ctypes.byref(self.record), self.fast_translated.ctypes.data, self._translation.dpu_translated
        )

    def ran(self, seconds: float) -> None:
        """Translate a program that has been interpreted for as long as compiling it takes.

        While one thread does so, others go on; where it fails, all do.
        """
        self._seconds += seconds
        if self._seconds < self.translation_s or not self._lock.acquire(blocking=False):
            return
        try:
            if self._translation is None:
                self._enter(Translation(self._fused))
        except SwiftRLError as error:
            self._seconds = -math.inf
            warnings.warn(f"the program stays interpreted, which is slower: {error}", RuntimeWarning, 2)
        finally:
            self._lock.release()


@functools.lru_cache(maxsize=64)
def _prepared(program: Program, sanitize: bool) -> _Prepared:
    return _Prepared(program, sanitize)


def translate(program: Program) -> None:
    """Compile a program for fast runs at once; `run_machines` does so when it has run for as long as that takes.

    Results stay the same in every bit and count. A learner then runs two to four times faster; a kernel that does
    little but lock or transfer gains nothing.

    Parameters
    ----------
    program : Program

    Raises
    ------
    CompileError
        If this machine's compiler fails.
    """
    _prepared(program, False).translate()


def is_translated(program: Program) -> bool:
    """Return whether fast runs of a program execute compiled code by now."""
    return _prepared(program, False).is_translated


def translation_seconds(program: Program) -> float:
    """Return the seconds after which `run_machines` translates a program: about what that takes."""
    return _prepared(program, False).translation_s


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
        Whether runs look for bugs (see `findings`); they are then exact, and some twenty times slower.

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
        self._prepared = _prepared(program, sanitize)
        self._wram = np.empty(program.chip.wram_bytes, np.uint8)
        latency = _CDmaTiming(*astuple(dma or DmaTiming()))
        self._handle = self._library.dpu_new(
            ctypes.byref(self._prepared.record), self._wram.ctypes.data, latency
        )
        if not self._handle:
            raise SwiftRLError("there is no memory left for another simulated DPU; allocate fewer")
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
        self._prepared = _prepared(program, self.sanitize)
        self._library.dpu_set_program(self._handle, ctypes.byref(self._prepared.record))
        if self.sanitize:
            self._library.dpu_clear_findings(self._handle)
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
            raise SwiftRLError("there is no memory left for the simulated MRAM; use fewer DPUs or less data")

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
    def findings(self) -> list[Finding]:
        """Bugs found in the launches since the program was loaded; sanitize.h says what is looked for.

        What the host writes through `wram` rather than `write_wram` is taken for not written.

        Raises
        ------
        SwiftRLError
            If the machine was made without `sanitize=True`.
        """
        if not self.sanitize:
            raise SwiftRLError("this DPU runs without the debug mode; make it with sanitize=True")
        count = ctypes.c_int32()
        address = self._library.dpu_findings(self._handle, ctypes.byref(count))
        raw = ctypes.string_at(address, count.value * FINDING_RECORD.itemsize)
        return describe(np.frombuffer(raw, FINDING_RECORD), self.program, 0)

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
        Threads of this computer; default one per CPU core.
    mode : {"fast", "exact"}
        Of DPUs without the debug mode (with it they run exactly):
        tasklet by tasklet, the time from a replay of their transfers, locks and barriers; or interleaved instruction
        by instruction. Of programs whose result does not depend on the order of their tasklets, both leave the same
        memory behind, and their cycles agree within 2 %.
    instruction_budget : int
        Modelled instructions (of all tasklets) after which a DPU faults.

    Returns
    -------
    list of RunStats
        In the order of `machines`.
    """
    if mode not in ("fast", "exact"):
        raise SwiftRLError(f"there is no mode {mode!r} of the DPU simulator; choose fast or exact")
    if len({machine.sanitize for machine in machines}) > 1:
        raise SwiftRLError("DPUs with and without the debug mode do not run together; launch them separately")
    sanitize = any(machine.sanitize for machine in machines)
    threads = min(threads or os.cpu_count() or 1, len(machines)) or 1
    stats = np.zeros(len(machines), _STATS_RECORD)
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
                machine._prepared.ran(seconds)

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
    stats = np.zeros(1, _STATS_RECORD)
    counts = np.zeros(len(machine.program.text) // 4 + 1, np.int64)
    machine._library.dpu_run_counted(
        machine._handle, instruction_budget, stats.ctypes.data, counts.ctypes.data
    )
    return _run_stats(stats[0], machine.program.nr_tasklets), counts[:-1]


def _run_stats(row: np.void, tasklets: int) -> RunStats:
    values = {}
    for name in _STATS_RECORD.names:
        values[name] = row[name][:tasklets].copy() if row[name].ndim else int(row[name])
    return RunStats(**values)
