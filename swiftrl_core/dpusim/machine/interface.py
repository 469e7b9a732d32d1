"""The C side of the simulator, compiled on first use and loaded with ctypes."""

import ctypes
import functools
from dataclasses import fields
from pathlib import Path

import numpy as np

from swiftrl_core.dpusim.timing import DmaTiming
from swiftrl_core.util import toolchain

SOURCES = Path(__file__).parent
MAX_TASKLETS = 24

#: `struct run_stats` of machine.h.
STATS_RECORD = np.dtype(
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


class CProgram(ctypes.Structure):
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
        *((name, ctypes.c_uint32) for name in ("heap_pointer", "heap_lock", "reset_begin", "reset_end")),
    ]


class CDmaTiming(ctypes.Structure):
    """`struct dma_timing` of machine.h, its members in the order of `DmaTiming`."""

    _fields_ = [(field.name, ctypes.c_double) for field in fields(DmaTiming)]


class CFault(ctypes.Structure):
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
        [SOURCES / "machine.c", SOURCES / "log.c"],
        headers=sorted(SOURCES.glob("*.h")),
        flags=["-DSANITIZE"] if sanitize else [],
        product="dpusim_sanitize.so" if sanitize else "dpusim.so",
    )
    lib = ctypes.CDLL(str(path))
    pointer, size, offset = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    lib.dpu_program_prepare.argtypes, lib.dpu_program_prepare.restype = [pointer], None
    lib.dpu_program_translate.argtypes = [pointer, pointer, pointer]
    lib.dpu_program_translate.restype = None
    lib.dpu_new.argtypes, lib.dpu_new.restype = [pointer, pointer, CDmaTiming], pointer
    lib.dpu_free.argtypes, lib.dpu_free.restype = [pointer], None
    lib.dpu_set_program.argtypes, lib.dpu_set_program.restype = [pointer, pointer], None
    lib.dpu_boot.argtypes, lib.dpu_boot.restype = [pointer], None
    lib.dpu_fault.argtypes, lib.dpu_fault.restype = [pointer], ctypes.POINTER(CFault)
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
        lib.dpu_reports.argtypes, lib.dpu_reports.restype = [pointer, count], pointer
        lib.dpu_host_wrote.argtypes, lib.dpu_host_wrote.restype = [pointer, offset, offset], None
        lib.dpu_clear_reports.argtypes, lib.dpu_clear_reports.restype = [pointer], None
    lib.dpu_routine.argtypes, lib.dpu_routine.restype = [ctypes.c_uint32, pointer, pointer], ctypes.c_uint32
    return lib
