"""Arguments of `DpuSet` and `load`: which server, how many DPUs, which program."""

import logging
import os
import tempfile
from pathlib import Path

from swiftrl_core.dpusim.host.allocation import balanced_ranks
from swiftrl_core.dpusim.program.compile import compile_kernel
from swiftrl_core.dpusim.program.elf import Program, load_program
from swiftrl_core.dpusim.program.symbols import DpuError
from swiftrl_core.dpusim.timing import HardwareProfile, resolve_hardware
from swiftrl_core.util.errors import SwiftRLError

ALLOCATE_ALL = 0xFFFFFFFF

_LOG = logging.getLogger(__name__)
_KNOWN_KEYS = frozenset(
    "backend nrThreadsPerRank nrJobsPerRank dispatchOnAllRanks rankPath regionMode chipId disableResetOnAlloc "
    "sgXferEnable swiftrl_hardware".split()
)


def choose_hardware(profile: str, hardware: str | HardwareProfile | None) -> HardwareProfile:
    """Return the server that the constructor's arguments name."""
    keys: dict[str, str] = {}
    for entry in filter(None, profile.split(",")):
        key, found, value = entry.partition("=")
        if not found:
            raise DpuError(f"invalid profile: {entry!r} is not key=value")
        keys[key.strip()] = value.strip()
    for key in keys.keys() - _KNOWN_KEYS:
        _LOG.warning("profile key %r is unknown and ignored", key)
    if keys.get("backend", "simulator") != "simulator":
        raise DpuError(f"invalid profile: backend={keys['backend']!r}; only the simulator is available here")
    try:
        return resolve_hardware(keys.get("swiftrl_hardware") if hardware is None else hardware)
    except SwiftRLError as error:
        raise DpuError(f"invalid profile: {error}") from error


def choose_ranks(server: HardwareProfile, nr_dpus: int | None, nr_ranks: int | None) -> list[list[int]]:
    """Return the enabled DPUs of each rank to allocate."""
    if nr_dpus is not None and nr_ranks is not None:
        raise DpuError("cannot specify nr_dpus and nr_ranks")
    unit, asked, there = (
        ("DPUs", nr_dpus, server.n_dpus) if nr_ranks is None else ("ranks", nr_ranks, server.ranks)
    )
    if asked is None:
        asked = ALLOCATE_ALL
    if isinstance(asked, bool) or not hasattr(asked, "__index__"):
        raise TypeError(f"the number of {unit} is an int, not {asked!r}")
    count = asked.__index__() & 0xFFFFFFFF
    if count == ALLOCATE_ALL:
        count = there
    if not 1 <= count <= there:
        raise DpuError(f"dpu allocation error: asked for {asked} {unit}, {server.name} has {there}")
    n_dpus = count if nr_ranks is None else count * server.dpus_per_rank
    return balanced_ranks(n_dpus, server.dpus_per_rank)


def compile_source(source: object, chip: str) -> str:
    """Compile a C file, or what an open text holds, with one tasklet."""
    if isinstance(source, str):
        return str(compile_kernel(source, chip=chip))
    if not hasattr(source, "read"):
        raise DpuError(
            "c_source is the name of a file as str, or an object with 'read'; a list is not possible"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.c"
        path.write_text(source.read())
        return str(compile_kernel(path, chip=chip))


def open_program(binary: object) -> Program:
    """Load the program of an ELF file, with the errors of the SDK's binding."""
    if not isinstance(binary, str):
        raise TypeError(f"binary is the path of an ELF file as str, not {type(binary).__name__}")
    if not os.path.isfile(binary):
        raise DpuError(f"system error: there is no file {binary}")
    try:
        return load_program(binary)
    except SwiftRLError as error:
        raise DpuError(f"invalid ELF file: {error}") from error
