"""`DpuSet` of the stand-in: the contract of SDK 2023.2, with error texts as bytes, and nothing more than is used.

What the SDK leaves undefined, where it may crash the process, ends the test with `UndefinedBehaviour`.
"""

import ctypes
import sys
from pathlib import Path

from dpu import recorder
from swiftrl_core.dpusim.machine import Machine, run_machines
from swiftrl_core.dpusim.program.compile import chip_named
from swiftrl_core.dpusim.program.elf import load_program

ALLOCATE_ALL = 0xFFFFFFFF
MRAM, IRAM = 0x08000000, 0x80000000


class DpuError(Exception):
    """The SDK's error; up to 2023.2 its text is bytes, so that `str(error)` reads `b'...'`."""

    def __init__(self, text):
        super().__init__(text.encode())


class UndefinedBehaviour(AssertionError):
    """The real library would crash or do something else each time."""


class DpuSymbol:
    def __init__(self, name, value):
        self.name = name
        self._value = value

    def value(self):
        return self._value[0]

    def size(self):
        return self._value[1]


class DpuProgram:
    def __init__(self, symbols):
        self.symbols = {name: DpuSymbol(name, place) for name, place in symbols.items()}

    def get_symbol(self, symbol_name):
        return self.symbols.get(symbol_name)


class DpuSet:
    def __init__(
        self, *positional, nr_dpus=None, nr_ranks=None, profile="", binary=None, log=None, async_mode=False
    ):
        if positional:
            raise UndefinedBehaviour(
                "positional arguments of DpuSet mean different things in different releases"
            )
        if nr_ranks is not None or async_mode:
            raise NotImplementedError("the stand-in knows neither nr_ranks nor async_mode")
        recorder.calls.append(("DpuSet", {"nr_dpus": nr_dpus, "profile": profile, "binary": binary}))
        if profile not in ("", "backend=hw"):
            raise DpuError("invalid profile")
        free = recorder.available - sum(map(len, recorder.open_sets))
        count = ctypes.c_uint32(ALLOCATE_ALL if nr_dpus is None else nr_dpus).value
        if count == ALLOCATE_ALL:
            count = free
        if not 1 <= count <= free:
            raise DpuError("dpu allocation error")
        self._count, self._log, self._freed = count, log, False
        self._machines = self._program = self._name = None
        recorder.open_sets.append(self)
        if binary is not None:
            self.load(binary=binary)

    def __len__(self):
        return self._count

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.free()

    def ranks(self):
        return [f"rank {index}" for index in range(-(-self._count // 64))]

    def free(self):
        self._use("free")
        self._freed = True
        recorder.open_sets.remove(self)

    def load(self, binary=None):
        self._use("load", binary)
        if not isinstance(binary, str):
            raise TypeError("underlying buffer is not writable")
        if not Path(binary).is_file():
            raise DpuError("system error")
        if Path(binary).read_bytes()[:4] != b"\x7fELF":
            raise DpuError("invalid ELF file")
        program = load_program(binary)
        if self._machines is None:
            self._machines = [Machine(program, chip_named("v1A")) for _ in range(self._count)]
        else:
            for machine in self._machines:
                machine.load(program)
        self._program, self._name, self._prints = (
            DpuProgram(program.symbols),
            Path(binary).name,
            program.prints,
        )
        return self._program

    def copy(self, dst, src, size=None, offset=0):
        to_dpu, from_dpu = (isinstance(side, str | DpuSymbol) for side in (dst, src))
        if to_dpu == from_dpu:
            raise DpuError("can only execute Host <-> DPU transfers")
        symbol, host = (dst, src) if to_dpu else (src, dst)
        self._use(
            "copy", "to_dpu" if to_dpu else "from_dpu", getattr(symbol, "name", symbol), type(host).__name__
        )
        if isinstance(symbol, str):
            symbol = self._symbol(symbol)
        buffers = self._buffers(host, to_dpu)
        sizes = {len(buffer) for buffer in buffers if buffer is not None}
        if len(sizes) > 1:
            raise DpuError("invalid memory transfer")
        if not sizes:
            raise DpuError("invalid memory symbol access")
        length = sizes.pop()
        if size is not None and size > length:
            raise DpuError("host buffer is too small")
        self._transfer(to_dpu, symbol, offset, length if size is None else size, buffers)

    def _buffers(self, host, to_dpu):
        if isinstance(host, tuple):
            raise TypeError("a tuple is no host buffer")
        if not isinstance(host, list):
            if len(self) > 1 and not to_dpu:
                raise UndefinedBehaviour("every DPU writes the same host buffer; who is last?")
            return [_raw(host, len(host))] * len(self)
        if len(host) != len(self):
            raise DpuError("invalid number of host buffers for this DPU set")
        if len(self) == 1:
            return [_raw(host[0], len(host[0]))]
        for buffer in host:
            if not isinstance(buffer, bytearray | memoryview | None):
                raise UndefinedBehaviour(
                    f"a {type(buffer).__name__} in a list: the C code asks for its bytes without the interpreter's "
                    "lock, and from Python 3.12 on the process ends if it allocates to answer"
                )
        return [None if buffer is None else _raw(buffer, memoryview(buffer).nbytes) for buffer in host]

    def _transfer(self, to_dpu, symbol, offset, size, buffers):
        if offset < 0 or offset + size > symbol.size():
            raise DpuError("invalid memory symbol access")
        address = symbol.value() + offset
        memory, unit = ("mram", 8) if MRAM <= address < IRAM else ("wram", 4)
        if address >= IRAM:
            raise DpuError("invalid iram access")
        if address % unit or size % unit:
            raise DpuError(f"invalid {memory} access")
        start = address - MRAM if memory == "mram" else address
        for machine, buffer in zip(self._machines, buffers, strict=True):
            if buffer is None:
                continue
            view = memoryview(buffer).cast("B")[:size]
            if to_dpu:
                getattr(machine, f"write_{memory}")(start, bytes(view))
            else:
                view[:] = getattr(machine, f"read_{memory}")(start, size)

    def exec(self, log=None):
        self._use("exec")
        if self._machines is None:
            raise UndefinedBehaviour("nothing was loaded: the DPUs run whatever is in their memory")
        if not any(machine.fault for machine in self._machines):
            for machine in self._machines:
                machine.boot()
            run_machines(self._machines, threads=None)
        faulty = [index for index, machine in enumerate(self._machines) if machine.fault]
        for index in faulty[:15]:
            print(
                f"DPU {index // 64}.{index % 64 // 8}.{index % 8} '{self._name}' is in fault", file=sys.stderr
            )
        if faulty:
            raise DpuError("dpu is in fault")
        stream = self._log if log is None else log
        if stream is not None:
            self.log(stream)

    def log(self, stream=None):
        self._use("log")
        if not self._prints:
            raise DpuError("logging context missing")
        stream = sys.stdout if stream is None else stream
        for index, machine in enumerate(self._machines):
            stream.write(f"=== DPU#{index // 64 << 16 | index % 64 // 8 << 8 | index % 8:#x} ===\n")
            stream.write(machine.log_text())

    def _symbol(self, name):
        if self._program is None:
            raise DpuError("no program has been loaded in the dpu set")
        found = self._program.get_symbol(name)
        if found is None:
            raise DpuError("undefined symbol")
        return found

    def _use(self, *call):
        if self._freed:
            raise UndefinedBehaviour(f"{call[0]} on a freed set")
        recorder.calls.append(call)


def _raw(buffer, size):
    """Return a buffer as the SDK takes it: ctypes memory, which must be writable and at least `size` long."""
    return (ctypes.c_ubyte * size).from_buffer(buffer)
