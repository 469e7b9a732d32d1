"""Programs in the form that the C side runs: interpreted at first, compiled once they have run for long enough."""

import ctypes
import functools
import math
import threading
import warnings

from swiftrl_core.dpusim.machine.interface import CProgram, library
from swiftrl_core.dpusim.program.elf import IRAM_BASE, Program
from swiftrl_core.dpusim.program.lower import lower
from swiftrl_core.dpusim.program.rv32 import Op
from swiftrl_core.dpusim.program.translate import Translation, compile_translation
from swiftrl_core.util.errors import SwiftRLError

#: Seconds that translating takes per instruction of the program (0.6 to 0.9 s for 170 instructions, 6 s for 1,850).
#: A program is translated once it has run for as long as its translation takes.
TRANSLATION_S = 0.0033


class PreparedProgram:
    """A program in the form that the C side runs; keeps its arrays alive."""

    def __init__(self, program: Program, sanitize: bool):
        fused, plain = lower(program)
        self._fused = fused
        self.fast, self.exact, self.one = fused.copy(), fused.copy(), plain.copy()
        self.record = CProgram(
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
            **_heap_of(program),
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


def _heap_of(program: Program) -> dict[str, int]:
    """Return what the sanitizer must know of the heap; numbers that fit nothing where the program uses none."""
    start, size = program.functions.get("mem_reset", (IRAM_BASE, 0))
    begin = (start - IRAM_BASE) // 4
    return {
        "heap_pointer": program.heap_pointer,
        "heap_lock": program.heap_lock,
        "reset_begin": begin,
        "reset_end": begin + size // 4,
    }


@functools.lru_cache(maxsize=64)
def prepare(program: Program, sanitize: bool) -> PreparedProgram:
    """Return a program in the form that the C side runs, made once per process."""
    return PreparedProgram(program, sanitize)


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
    prepare(program, False).translate()


def is_translated(program: Program) -> bool:
    """Return whether fast runs of a program execute compiled code by now."""
    return prepare(program, False).is_translated


def translation_seconds(program: Program) -> float:
    """Return the seconds after which `run_machines` translates a program: about what that takes."""
    return prepare(program, False).translation_s
