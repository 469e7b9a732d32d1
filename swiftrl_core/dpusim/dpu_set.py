"""`DpuSet` as in the UPMEM SDK's Python binding (2021.3 and later), over simulated DPUs.

Texts of errors start with the vendor's words. What the vendor leaves undefined (a set used after `free`, one
buffer read from many DPUs, an array whose `len` is not its bytes, a tuple for a list) is a `DpuError` that says
what to do. Fresh memory holds a pattern, not zeros.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from swiftrl_core.dpusim.allocation import Allocation, Ledger, balanced_ranks
from swiftrl_core.dpusim.compile import compile_kernel
from swiftrl_core.dpusim.elf import Program, load_program
from swiftrl_core.dpusim.findings import Finding, merge
from swiftrl_core.dpusim.machine import INSTRUCTION_BUDGET, Machine, run_machines
from swiftrl_core.dpusim.symbols import (
    DpuError,
    DpuProgram,
    DpuSymbol,
    DpuVariable,
    Memory,
    check_alignment,
    place_of,
)
from swiftrl_core.dpusim.timing import HardwareProfile, launch_seconds, resolve_profile, transfer_seconds
from swiftrl_core.util.errors import SwiftRLError

ALLOCATE_ALL = 0xFFFFFFFF
FAULTS_SHOWN = 15

_LOG = logging.getLogger(__name__)
_KNOWN_KEYS = frozenset(
    "backend nrThreadsPerRank nrJobsPerRank dispatchOnAllRanks rankPath regionMode chipId disableResetOnAlloc "
    "sgXferEnable swiftrl_hardware".split()
)
_OWN_FIELDS = frozenset(("_allocation", "_span", "_kind", "_dpus", "_ranks", "_log", "_async"))


class DpuSet:
    """A set of simulated DPUs: all that were allocated, one rank of them, or one DPU.

    Parameters
    ----------
    nr_dpus, nr_ranks : int, optional
        How many to allocate; neither: all of the server. Whole ranks are taken, see `balanced_ranks`.
    profile : str
        `key=value,...`; `swiftrl_hardware=<name>` names the hardware profile. `UPMEM_PROFILE` and its like are
        for the SDK and not read here.
    binary, c_source : str
        Program to load at once; see `load`.
    asm_source : None
        DPU assembly cannot be simulated.
    log : stream, or list of one stream per DPU
        Where `exec` and `log` write what kernels print.
    async_mode : bool
        Whether `copy`, `exec` and `call` only queue their work for `sync`.
    hardware : str or HardwareProfile, optional
        Server to simulate; wins over `profile`.
    threads : int, optional
        Host threads that run DPUs; default: one per core.
    mode : {"fast", "exact"}
        Tasklet by tasklet with the time from a replay, or exactly interleaved; see `machine.run_machines`.
    instruction_budget : int
        DPU instructions, of all tasklets, after which a launch counts as hung and its DPU faults.
    sanitize : bool
        Whether launches look for bugs; see `findings`. They are then exact, and slow.

    Raises
    ------
    DpuError
        If the counts are wrong or more than the server has, or loading fails.
    """

    def __init__(
        self,
        nr_dpus: int | None = None,
        nr_ranks: int | None = None,
        profile: str = "",
        binary: str | None = None,
        c_source: object = None,
        asm_source: object = None,
        log: object = None,
        async_mode: bool = False,
        *,
        hardware: str | HardwareProfile | None = None,
        threads: int | None = None,
        mode: str = "fast",
        instruction_budget: int = INSTRUCTION_BUDGET,
        sanitize: bool = False,
    ) -> None:
        server = _hardware(profile, hardware)
        if mode not in ("fast", "exact"):
            raise DpuError(f"mode is 'fast' or 'exact', not {mode!r}")
        if threads is not None and threads < 1:
            raise DpuError(f"threads is 1 or more, or None for one per core; not {threads}")
        if instruction_budget < 1:
            raise DpuError(f"instruction_budget is 1 or more, not {instruction_budget}")
        ranks = _choose(server, nr_dpus, nr_ranks)
        ids = [rank << 16 | place for rank, places in enumerate(ranks) for place in places]
        if isinstance(log, list) and len(log) != len(ids):
            raise DpuError("log list length does not match number of DPUs in DpuSet")
        self._become(
            Allocation(server, ids, threads, mode, instruction_budget, bool(sanitize)),
            range(len(ids)),
            "set",
            async_mode,
        )
        self._build(ranks)
        self._set_default_log(log)
        if (binary, c_source, asm_source) != (None, None, None):
            try:
                self.load(binary=binary, c_source=c_source, asm_source=asm_source)
            except BaseException:
                self.free()
                raise

    def _become(self, allocation: Allocation, span: range, kind: str, async_mode: bool) -> None:
        self._allocation = allocation
        self._span = span
        self._kind = kind
        self._async = bool(async_mode)
        self._log = None
        self._dpus = [self]
        self._ranks = [self]

    def _part(self, span: range, kind: str) -> "DpuSet":
        part = DpuSet.__new__(DpuSet)
        part._become(self._allocation, span, kind, self._async)
        return part

    def _build(self, ranks: Sequence[Sequence[int]]) -> None:
        """Make the sets of the ranks and the DPUs once, so that they can be keys of a dict."""
        start = 0
        self._ranks, self._dpus = [], []
        for places in ranks:
            rank = self._part(range(start, start + len(places)), "rank")
            rank._dpus = [self._part(range(index, index + 1), "dpu") for index in rank._span]
            for dpu in rank._dpus:
                dpu._ranks = [rank]
            self._ranks.append(rank)
            self._dpus.extend(rank._dpus)
            start += len(places)

    def _set_default_log(self, log: object) -> None:
        streams = log if isinstance(log, list) else [log] * len(self)
        for dpu, stream in zip(self._dpus, streams, strict=True):
            dpu._log = _writable(stream)

    # -- structure ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._span)

    def __iter__(self) -> Iterator["DpuSet"]:
        return iter(self._dpus)

    def __enter__(self) -> "DpuSet":
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def __repr__(self) -> str:
        state = "freed" if self._allocation.freed else self._allocation.profile.name
        return f"<simulated {self._kind} of {len(self)} DPUs, {state}>"

    def dpus(self) -> list["DpuSet"]:
        """Return the single DPUs, rank by rank and interface by interface."""
        return self._dpus

    def ranks(self) -> list["DpuSet"]:
        """Return the ranks; for one DPU, the rank it belongs to."""
        return self._ranks

    def free(self) -> None:
        """Give all DPUs back. Only the set that was allocated can be freed, and once.

        Raises
        ------
        DpuError
            On a rank or a DPU, or the second time.
        """
        self._allocation.require_alive()
        if self._kind != "set":
            raise DpuError(
                "invalid action for this dpu set: free the set that was allocated, not a part of it"
            )
        self._allocation.release()

    # -- programs and symbols ----------------------------------------------------------------------------------

    def load(
        self, binary: str | None = None, c_source: object = None, asm_source: object = None
    ) -> DpuProgram:
        """Load one program into every DPU of the set.

        Parameters
        ----------
        binary : str
            Path of an ELF file made by `compile_kernel`.
        c_source : str or object with `read`
            File name of a C source, or an open text; compiled with one tasklet, as in the SDK.

        Returns
        -------
        DpuProgram
            Its symbols, which also become attributes of the set.

        Raises
        ------
        DpuError
            If not exactly one source is given, the file cannot be opened or is no DPU program, or it needs more
            tasklets than the chip has.
        CompileError
            If the C source does not compile.
        """
        self._allocation.drain_alive()
        if (binary is not None) == (c_source is not None or asm_source is not None):
            raise DpuError("one and only one source or binary program must be defined")
        if asm_source is not None:
            raise DpuError("asm_source cannot be simulated: DPU assembly needs the vendor's tools; give C")
        if c_source is not None:
            binary = _compile(c_source, self._allocation.profile.chip)
        program = _open_program(binary)
        self._allocation.load(self._span, program, partial(Machine, sanitize=self._allocation.sanitize))
        return DpuProgram(program.symbols)

    def _program(self) -> Program:
        """Return the program all DPUs of the set run."""
        programs = self._allocation.programs[self._span.start : self._span.stop]
        first = programs[0]
        if any(program is not first for program in programs):
            raise DpuError("cannot access symbol on dpus with different programs")
        if first is None:
            raise DpuError("no program has been loaded in the dpu set")
        return first

    def _symbol(self, name: str) -> DpuSymbol:
        symbols = self._program().symbols
        if name not in symbols:
            raise DpuError(f"undefined symbol: the program has no host-visible variable {name!r}")
        return DpuSymbol(name, symbols[name])

    def __getattr__(self, name: str) -> DpuVariable:
        if name in _OWN_FIELDS:
            raise AttributeError(name)
        if not self._has_symbol(name):
            raise AttributeError(f"DpuSet has no attribute {name!r} and its program no symbol of that name")
        symbol = self._symbol(name)
        buffers = [bytearray(symbol.size()) for _ in self._span]
        self.copy(buffers, symbol, async_mode=False)
        return DpuVariable(buffers)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _OWN_FIELDS and self._has_symbol(name):
            self.copy(name, value)
        else:  # as in the SDK: a name that is no symbol becomes a Python attribute
            object.__setattr__(self, name, value)

    def _has_symbol(self, name: str) -> bool:
        programs = self._allocation.programs[self._span.start : self._span.stop]
        first = programs[0]
        return first is not None and all(p is first for p in programs) and name in first.symbols

    # -- copies ------------------------------------------------------------------------------------------------

    def copy(
        self,
        dst: object,
        src: object,
        size: int | None = None,
        offset: int = 0,
        async_mode: bool | None = None,
    ) -> None:
        """Move bytes between host buffers and one symbol.

        Parameters
        ----------
        dst, src : str or DpuSymbol on one side; a writable buffer, or a list of one per DPU, on the other
            One buffer to many DPUs is a broadcast; a list is one parallel transfer, None entries skip their DPU.
        size : int, optional
            Bytes to move per DPU, at most the buffer's length; default all of it.
        offset : int
            Byte offset in the symbol.
        async_mode : bool, optional
            Whether to queue the copy for `sync`; default as the set was made.

        Raises
        ------
        DpuError
            For a wrong symbol, place, size or buffer. Address and size must be multiples of 4 (WRAM) or 8 (MRAM).
        TypeError
            For a read-only buffer, as in the SDK.
        """
        self._allocation.require_alive()
        to_dpu, from_dpu = (isinstance(side, (str, DpuSymbol)) for side in (dst, src))
        if to_dpu == from_dpu:
            raise DpuError("can only execute Host <-> DPU transfers")
        symbol, host = (dst, src) if to_dpu else (src, dst)
        if isinstance(symbol, str):
            symbol = self._symbol(symbol)
        views, kind = self._host_views(host, to_dpu)
        moved = _moved_bytes(views, size)
        memory, address = place_of(symbol, offset, moved)
        if moved == 0:
            return
        work = partial(self._move, to_dpu, symbol, memory, address, views, moved, kind)
        if not (self._async if async_mode is None else async_mode):
            self._allocation.drain()
            work()
            return
        if memory is Memory.WRAM:
            check_alignment(memory, symbol, address, moved)
        way = "to_matrix" if not to_dpu else "to_rank" if kind == "broadcast" else "from_matrix"
        self._allocation.enqueue(f"copy_{memory.name.lower()}_{way}", work)

    def _host_views(self, host: object, to_dpu: bool) -> tuple[list[tuple[int, memoryview]], str]:
        """Return (DPU index, bytes of its buffer) for each DPU that takes part, and the kind of transfer."""
        if isinstance(host, list):
            if len(host) != len(self):
                raise DpuError("invalid number of host buffers for this DPU set")
            if len(self) == 1:
                return [(self._span.start, _single_view(host[0]))], "serial"
            pairs = zip(self._span, host, strict=True)
            views = [(index, _list_view(buffer)) for index, buffer in pairs if buffer is not None]
            if not views:
                raise DpuError("invalid memory symbol access: every host buffer of the list is None")
            return views, "parallel"
        view = _single_view(host)
        if len(self) == 1:
            return [(self._span.start, view)], "serial"
        if not to_dpu:
            raise DpuError(
                f"invalid action for this dpu set: {len(self)} DPUs cannot be read into one buffer; "
                "give a list of one buffer per DPU"
            )
        return [(index, view) for index in self._span], "broadcast"

    def _move(
        self,
        to_dpu: bool,
        symbol: DpuSymbol,
        memory: Memory,
        address: int,
        views: list[tuple[int, memoryview]],
        size: int,
        kind: str,
    ) -> None:
        check_alignment(memory, symbol, address, size)
        machines = self._allocation.machines
        if any(machines[index] is None for index, _ in views):
            raise DpuError("no program has been loaded in the dpu set")
        whole = views[0][1].nbytes == size
        views = [(machines[index], view if whole else view[:size]) for index, view in views]
        if to_dpu:
            write = Machine.write_mram if memory is Memory.MRAM else Machine.write_wram
            for machine, view in views:
                write(machine, address, view)
        elif memory is Memory.MRAM:
            for machine, view in views:
                machine.read_mram(address, size, into=view)
        else:
            for machine, view in views:
                view[:] = machine.read_wram(address, size)
        self._charge("to_dpu" if to_dpu else "from_dpu", len(views), size, kind)

    def _charge(self, direction: str, n_dpus: int, size: int, kind: str) -> None:
        ledger = self._allocation.ledger
        seconds = transfer_seconds(self._allocation.profile, direction, n_dpus, size, kind)
        if direction == "to_dpu":
            ledger.to_dpu_s += seconds
            ledger.to_dpu_bytes += n_dpus * size
        else:
            ledger.from_dpu_s += seconds
            ledger.from_dpu_bytes += n_dpus * size

    # -- launches ----------------------------------------------------------------------------------------------

    def exec(self, log: object = None, async_mode: bool | None = None) -> None:
        """Run the loaded program on every DPU of the set and wait for all of them.

        Parameters
        ----------
        log : stream, list of one per DPU, or dict of set to stream, optional
            Where to write what the kernels print; default the set's own `log`, None: nowhere.
        async_mode : bool, optional
            Whether to queue the launch for `sync`; `log` is then ignored. A set made with `async_mode=True` queues
            even with False here: the SDK does.

        Raises
        ------
        DpuError
            "dpu is in fault" after all DPUs stopped; stays until the set is freed. Memory can still be read.
        """
        self._allocation.require_alive()
        streams = self._streams(log, None)
        if self._async or async_mode:
            self._allocation.enqueue("launch_rank", self._launch)
            return
        self._allocation.drain()
        self._launch()
        self._write_logs(streams)

    def _launch(self) -> None:
        allocation = self._allocation
        machines = allocation.machines[self._span.start : self._span.stop]
        if any(machine is None for machine in machines):
            raise DpuError("no program has been loaded in the dpu set")
        self._refuse_faults("cannot run again", show=False)
        for machine in machines:
            machine.boot()
        stats = run_machines(machines, allocation.threads, allocation.mode, allocation.instruction_budget)
        allocation.last_run[self._span.start : self._span.stop] = stats
        ledger = allocation.ledger
        ledger.launches += 1
        ledger.kernel_s += launch_seconds(allocation.profile, max(run.cycles for run in stats))
        ledger.instructions += sum(int(run.instructions.sum()) for run in stats)
        self._refuse_faults("in this launch", show=True)

    def _refuse_faults(self, when: str, show: bool) -> None:
        faulty = self.faults()
        if not faulty:
            return
        if show:
            for line in list(faulty.values())[:FAULTS_SHOWN]:
                print(line, file=sys.stderr)
        more = f" and {len(faulty) - 1} more" if len(faulty) > 1 else ""
        raise DpuError(f"dpu is in fault: {next(iter(faulty.values()))}{more} ({when}; free the set)")

    def faults(self) -> dict[int, str]:
        """Return a line for each faulty DPU by its index in the set. Only the simulator knows them.

        A line reads `DPU <rank>.<interface>.<dpu> '<program>' is in fault: <what happened where>`.
        """
        allocation = self._allocation
        lines = {}
        for index in self._span:
            machine = allocation.machines[index]
            if machine is not None and machine.fault is not None:
                place = allocation.ids[index]
                name = f"DPU {place >> 16}.{place >> 8 & 0xFF}.{place & 0xFF}"
                program = allocation.programs[index].path.name
                lines[index - self._span.start] = f"{name} '{program}' is in fault: {machine.fault}"
        return lines

    @property
    def last_run(self) -> list:
        """`RunStats` of each DPU of the set in its last launch, None where it had none. Only the simulator."""
        return self._allocation.last_run[self._span.start : self._span.stop]

    @property
    def findings(self) -> list[Finding]:
        """Bugs in the kernel, seen in the launches since it was loaded. Only the simulator finds them.

        Reads of WRAM that nobody has written, data races between tasklets, and misaligned transfers, each once with
        the DPUs that had it. What is looked for, and what is missed:
        `sanitize.h`.

        Raises
        ------
        DpuError
            If the set was made without `sanitize=True`.
        """
        if not self._allocation.sanitize:
            raise DpuError("this set looks for no bugs; make it with sanitize=True")
        machines = enumerate(self._allocation.machines[self._span.start : self._span.stop])
        return merge(
            replace(finding, dpus=(index,))
            for index, machine in machines
            if machine is not None
            for finding in machine.findings
        )

    @property
    def simulated(self) -> Ledger:
        """The ledger of simulated seconds, shared by all sets of one allocation. Only the simulator has it."""
        return self._allocation.ledger

    def sync(self) -> None:
        """Do the queued work.

        Raises
        ------
        DpuError
            "asynchronous operation error (<job>): <reason> (0x..)"; the same again at every later use of the set.
        """
        self._allocation.drain_alive()

    def call(
        self,
        fn: Callable[["DpuSet", int, object], object],
        arg: object,
        async_mode: bool | None = None,
        is_blocking: bool = True,
        single_call: bool = False,
    ) -> None:
        """Call `fn(rank, index, arg)` for each rank, or once `fn(set, 0xFFFFFFFF, arg)` with `single_call`.

        Raises
        ------
        DpuError
            If a call is to be neither blocking nor asynchronous.
        """
        self._allocation.require_alive()
        queued = self._async if async_mode is None else async_mode
        if not queued and not is_blocking:
            raise DpuError("nonblocking and synchronous callback is invalid")
        targets = [(self, ALLOCATE_ALL)] if single_call else [(rank, n) for n, rank in enumerate(self._ranks)]
        for target, index in targets:
            work = partial(fn, target, index, arg)
            if queued:
                self._allocation.enqueue("callback", work)
            else:
                self._allocation.drain()
                work()

    # -- what kernels print ------------------------------------------------------------------------------------

    def log(self, stream: object = None) -> None:
        """Write what the kernels printed in the last launch, a header and the text for each DPU.

        Parameters
        ----------
        stream : stream, list of one per DPU, or dict of set to stream, optional
            Default: the set's own, else the standard output.

        Raises
        ------
        DpuError
            "logging context missing" if the program does not print at all; "logging buffer too small", after the
            text that is left, if a DPU printed more than its buffer of 1 MiB holds.
        """
        self._allocation.drain_alive()
        self._write_logs(self._streams(stream, sys.stdout))

    def _streams(self, log: object, default: object) -> list[tuple["DpuSet", object]]:
        """Return the stream of each DPU that has one."""
        if isinstance(log, dict):
            chosen = [(dpu, _writable(stream)) for part, stream in log.items() for dpu in part]
        elif isinstance(log, list):
            if len(log) != len(self):
                raise DpuError("cannot log, log list length does not match the number of DPUs in DpuSet")
            chosen = [(dpu, _writable(stream)) for dpu, stream in zip(self._dpus, log, strict=True)]
        else:
            chosen = [(dpu, _writable(log)) for dpu in self._dpus]
        filled = (
            (dpu, next((s for s in (stream, dpu._log, default) if s is not None), None))
            for dpu, stream in chosen
        )
        return [(dpu, stream) for dpu, stream in filled if stream is not None]

    def _write_logs(self, streams: list[tuple["DpuSet", object]]) -> None:
        for dpu, stream in streams:
            index = dpu._span.start
            machine = self._allocation.machines[index]
            if machine is None or not self._allocation.programs[index].prints:
                raise DpuError("logging context missing: the program does not print")
            stream.write(f"=== DPU#{self._allocation.ids[index]:#x} ===\n")
            stream.write(machine.log_text())
            if machine.log_lost:
                raise DpuError(
                    "logging buffer too small: the kernel printed more than 1 MiB; older text is lost"
                )


def _hardware(profile: str, hardware: str | HardwareProfile | None) -> HardwareProfile:
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
        raise DpuError(f"invalid profile: backend={keys['backend']!r}; here is only the simulator")
    try:
        return resolve_profile(keys.get("swiftrl_hardware") if hardware is None else hardware)
    except SwiftRLError as error:
        raise DpuError(f"invalid profile: {error}") from error


def _choose(server: HardwareProfile, nr_dpus: int | None, nr_ranks: int | None) -> list[list[int]]:
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


def _compile(source: object, chip: str) -> str:
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


def _open_program(binary: object) -> Program:
    if not isinstance(binary, str):
        raise TypeError(f"binary is the path of an ELF file as str, not {type(binary).__name__}")
    if not os.path.isfile(binary):
        raise DpuError(f"system error: there is no file {binary}")
    try:
        return load_program(binary)
    except SwiftRLError as error:
        raise DpuError(f"invalid ELF file: {error}") from error


def _writable(stream: object) -> object:
    if stream is not None and not hasattr(stream, "write"):
        raise DpuError("stream argument is not an object with a 'write' method")
    return stream


def _single_view(buffer: object) -> memoryview:
    """Return the bytes of a buffer given alone; the SDK takes its `len` for its size in bytes."""
    view = _view(buffer)
    if view.readonly:
        raise TypeError("underlying buffer is not writable")
    if len(buffer) != view.nbytes:
        raise DpuError(
            f"a buffer of {view.nbytes} bytes says len {len(buffer)}, which the SDK takes for its bytes; "
            "give memoryview(x).cast('B') or a one-dimensional uint8 array"
        )
    return view.cast("B")


def _list_view(buffer: object) -> memoryview:
    """Return the bytes of one buffer of a list."""
    view = _view(buffer)
    if view.readonly:
        raise DpuError(
            f"a list holds a read-only {type(buffer).__name__}; give a bytearray or a writable array"
        )
    return view.cast("B")


def _view(buffer: object) -> memoryview:
    if isinstance(buffer, tuple):
        raise DpuError("host buffers come in a list, not in a tuple")
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise TypeError("underlying buffer is not C contiguous")
    return view


def _moved_bytes(views: list[tuple[int, memoryview]], size: int | None) -> int:
    """Return the bytes each DPU moves; all buffers must have the same length."""
    length = views[0][1].nbytes
    if any(view.nbytes != length for _, view in views):
        raise DpuError(
            "invalid memory transfer: all host buffers of a list must have the same number of bytes"
        )
    if size is None:
        return length
    if size > length:
        raise DpuError("host buffer is too small")
    return size
