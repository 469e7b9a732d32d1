"""`DpuSet` as in the UPMEM SDK's Python binding (2021.3 and later), over simulated DPUs.

Error texts start with the vendor's words. Uses that the vendor leaves undefined (a set after `free`, one buffer read
from many DPUs, an array whose `len` is not its size in bytes, a tuple in the place of a list) raise a `DpuError` that
names the remedy. Fresh memory holds a pattern, not zeros.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from swiftrl_core.dpusim.host import launches
from swiftrl_core.dpusim.host.allocation import Allocation, Ledger
from swiftrl_core.dpusim.host.arguments import (
    ALLOCATE_ALL,
    choose_hardware,
    choose_ranks,
    compile_source,
    open_program,
)
from swiftrl_core.dpusim.host.logs import choose_streams, writable, write_log
from swiftrl_core.dpusim.host.transfers import plan_transfer
from swiftrl_core.dpusim.machine import INSTRUCTION_BUDGET, Machine
from swiftrl_core.dpusim.program.elf import Program
from swiftrl_core.dpusim.program.symbols import DpuError, DpuProgram, DpuSymbol, DpuVariable, Memory
from swiftrl_core.dpusim.sanitizer import SanitizerReport
from swiftrl_core.dpusim.timing import HardwareProfile

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
        Tasklets in turns with the time from a replay, or exactly interleaved; see `machine.run_machines`. Races that
        no lock, barrier or transfer decides may come out differently on hardware.
    instruction_budget : int
        DPU instructions, of all tasklets, after which a launch counts as hung and its DPU faults.
    sanitize : bool
        Whether launches look for bugs (see `sanitizer_reports`). Such launches are exact, and about 20 times slower.

    Raises
    ------
    DpuError
        If the counts are wrong or more than the server has, or loading fails.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from swiftrl_core import DpuSet, compile_kernel
    >>> _ = Path("twice.c").write_text('''
    ... #include <defs.h>
    ... __host int number;
    ... int main(void) { number *= 2; return 0; }
    ... ''')
    >>> with DpuSet(nr_dpus=2, binary=str(compile_kernel("twice.c"))) as dpus:
    ...     dpus.copy("number", [bytearray(row) for row in np.array([[3], [4]], np.int32)])
    ...     dpus.exec()
    ...     print(dpus.number.int32())
    [6, 8]
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
        server = choose_hardware(profile, hardware)
        if mode not in ("fast", "exact"):
            raise DpuError(f"mode is 'fast' or 'exact', not {mode!r}")
        if threads is not None and threads < 1:
            raise DpuError(f"threads is 1 or more, or None for one per core; not {threads}")
        if instruction_budget < 1:
            raise DpuError(f"instruction_budget is 1 or more, not {instruction_budget}")
        ranks = choose_ranks(server, nr_dpus, nr_ranks)
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
            dpu._log = writable(stream)

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
        state = "freed" if self._allocation.freed else self._allocation.hardware.name
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
            binary = compile_source(c_source, self._allocation.hardware.chip)
        program = open_program(binary)
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
        transfer = plan_transfer(to_dpu, symbol, host, self._span, size, offset)
        if transfer.size == 0:
            return
        work = partial(transfer.execute, self._allocation)
        if not (self._async if async_mode is None else async_mode):
            self._allocation.drain()
            work()
            return
        if transfer.memory is Memory.WRAM:
            transfer.require_aligned()
        self._allocation.enqueue(transfer.job, work)

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
        streams = choose_streams(self, log, None)
        work = partial(launches.launch, self._allocation, self._span)
        if self._async or async_mode:
            self._allocation.enqueue("launch_rank", work)
            return
        self._allocation.drain()
        work()
        self._write_logs(streams)

    def faults(self) -> dict[int, str]:
        """Return a line for each faulty DPU by its index in the set. On hardware there is no such method.

        A line reads `DPU <rank>.<interface>.<dpu> '<program>' is in fault: <what happened where>`.
        """
        return launches.faults(self._allocation, self._span)

    @property
    def last_run(self) -> list:
        """`RunStats` of each DPU of the set in its last launch, None where it had none. Only the simulator."""
        return self._allocation.last_run[self._span.start : self._span.stop]

    @property
    def sanitizer_reports(self) -> list[SanitizerReport]:
        """Bugs in the kernel that the launches since its load have shown. On hardware there is no such property.

        Reads of unwritten WRAM, data races between tasklets, and misaligned transfers, one report per bug with the
        DPUs that had it. `machine/sanitize.h` documents the checks and their limits.

        Raises
        ------
        DpuError
            If the set was made without `sanitize=True`.
        """
        if not self._allocation.sanitize:
            raise DpuError("this set does not look for bugs; make it with sanitize=True")
        return launches.sanitizer_reports(self._allocation, self._span)

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
        self._write_logs(choose_streams(self, stream, sys.stdout))

    def _write_logs(self, streams: list[tuple["DpuSet", object]]) -> None:
        for dpu, stream in streams:
            write_log(self._allocation, dpu._span.start, stream)
