"""One set of DPUs, on UPMEM hardware or on the simulator, with one API: the only place that knows which.

On hardware the SDK's Python binding (`dpu`, SDK 2021.3 and later) does the work and a clock measures it; elsewhere
the simulator's `DpuSet` does, and its ledger of simulated seconds takes the clock's place. What the SDK's binding
leaves undefined or gets wrong is refused or made good here, before either of them: every buffer becomes a writable
one-dimensional byte array, padded to the unit of its memory (8 bytes in MRAM, 4 in WRAM); arguments of `DpuSet` go
by keyword (their order changed between releases), the binary as `str`, and an error is known by words in its text
(a `bytes` in some releases, a C string in others).
"""

import importlib
import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from swiftrl_core import dpusim
from swiftrl_core.util.errors import SwiftRLError

ON_HARDWARE = "backend=hw"
"""Profile that keeps the SDK from falling back on the vendor's own simulator, whose times mean nothing."""

MRAM_START = 0x08000000
"""Address in the ELF file from which on a symbol lies in MRAM (the SDK's `DpuSymbol.value()` gives it)."""

PLATFORMS = ("auto", "hardware", "simulator")


@dataclass(frozen=True)
class PimTimes:
    """Seconds a set has spent since it was opened.

    Attributes
    ----------
    to_dpu_s, from_dpu_s : float
        Copies to the DPUs and back.
    kernel_s : float
        Launches, from the call to the last DPU's end.
    launches : int
        How many launches.
    """

    to_dpu_s: float = 0.0
    from_dpu_s: float = 0.0
    kernel_s: float = 0.0
    launches: int = 0

    @property
    def total_s(self) -> float:
        """All seconds together."""
        return self.to_dpu_s + self.from_dpu_s + self.kernel_s


@dataclass
class Stopwatch:
    """Seconds between two points of a program, on the set's own clock.

    Attributes
    ----------
    seconds : float
        Of the finished block; 0 until it ends.
    """

    seconds: float = 0.0


class PimSet:
    """DPUs with a program in them; made by `open_dpu_set`.

    Attributes
    ----------
    evidence : str
        `measured` on hardware, `simulated` on the simulator.
    """

    def __init__(
        self, dpu_set: Any, program: Any, clock: "_WallClock | _SimulatedClock", error: type[Exception]
    ) -> None:
        self._set = dpu_set
        self._program = program
        self._clock = clock
        self._error = error
        self._open = True

    def __len__(self) -> int:
        return len(self._set)

    def __enter__(self) -> "PimSet":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def evidence(self) -> str:
        """How the seconds of this set are known: `measured` or `simulated`."""
        return self._clock.evidence

    def scatter(self, symbol: str, arrays: Sequence[Any] | np.ndarray, offset: int = 0) -> None:
        """Copy one array to each DPU, all in one parallel transfer.

        Shorter arrays, and sizes that are no multiple of the memory's unit, are filled up with zero bytes, which
        overwrite what stands behind the data on the DPU.

        Parameters
        ----------
        symbol : str
            Name of a host-visible variable; `__sys_used_mram_end` is the MRAM heap.
        arrays : sequence of N arrays, or array of shape (N, ...)
            What each DPU gets, in the order of the DPUs; any dtype.
        offset : int
            Byte offset in the symbol.

        Raises
        ------
        SwiftRLError
            If there is not one array per DPU, or the data do not fit the symbol.
        """
        place = self._place(symbol)
        if isinstance(arrays, (bytes, bytearray, str)) or len(arrays) != len(self):
            raise SwiftRLError(
                f"scatter to {symbol!r} got {len(arrays)} arrays for {len(self)} DPUs; give one array per DPU"
            )
        rows = _padded_rows(symbol, arrays, place.unit)
        place.require_room(rows[0].nbytes, offset)
        self._copy("to_dpu_s", symbol, symbol, rows, offset)

    def broadcast(self, symbol: str, array: Any, offset: int = 0) -> None:
        """Copy the same array to every DPU. Padding and errors as in `scatter`."""
        place = self._place(symbol)
        data = bytearray(_bytes_of(symbol, array).tobytes())
        data.extend(bytes(-len(data) % place.unit))
        place.require_room(len(data), offset)
        self._copy("to_dpu_s", symbol, symbol, data, offset)

    def gather(self, symbol: str, nbytes: int, offset: int = 0) -> np.ndarray:
        """Copy bytes back from every DPU, all in one parallel transfer.

        Parameters
        ----------
        symbol : str
            Name of a host-visible variable.
        nbytes : int
            Bytes per DPU.
        offset : int
            Byte offset in the symbol.

        Returns
        -------
        (N, nbytes) array of uint8
            A row per DPU, contiguous, so that `.view(dtype)` works.

        Raises
        ------
        SwiftRLError
            If the bytes lie outside the symbol.
        """
        place = self._place(symbol)
        if nbytes < 0:
            raise SwiftRLError(f"gather from {symbol!r} asks for {nbytes} bytes; ask for 0 or more")
        buffer = np.zeros((len(self), nbytes + -nbytes % place.unit), np.uint8)
        place.require_room(buffer.shape[1], offset)
        self._copy("from_dpu_s", symbol, list(buffer), symbol, offset)
        return np.ascontiguousarray(buffer[:, :nbytes])

    def launch(self) -> None:
        """Run the program on all DPUs and wait for them.

        Raises
        ------
        SwiftRLError
            If a DPU faults; the simulator's text says which and why.
        """
        self._require_open()
        with self._clock.timed("kernel_s"), _told("the launch failed", self._error):
            self._set.exec()

    def log(self) -> str:
        """Return what the kernels printed in the last launch, a header line and the text for each DPU.

        Raises
        ------
        SwiftRLError
            If the program does not print.
        """
        self._require_open()
        stream = io.StringIO()
        with _told("the log cannot be read", self._error):
            self._set.log(stream)
        return stream.getvalue()

    def times(self) -> PimTimes:
        """Return the seconds spent so far: only those inside the binding's calls."""
        return self._clock.times()

    @contextmanager
    def stopwatch(self) -> Iterator[Stopwatch]:
        """Time the calls of a `with` block on this set's clock, measured or simulated."""
        watch = Stopwatch()
        before = self.times().total_s
        yield watch
        watch.seconds = self.times().total_s - before

    @property
    def last_run(self) -> list | None:
        """The simulator's `RunStats` of each DPU in the last launch; None on hardware, which counts nothing."""
        return self._clock.last_run()

    def describe(self) -> dict[str, Any]:
        """Return what ran the DPUs, for a manifest: evidence, hardware profile and model version, DPUs, ranks."""
        return {
            "evidence": self.evidence,
            "dpus": len(self),
            "ranks": len(self._set.ranks()),
            **self._clock.describe(),
        }

    def close(self) -> None:
        """Give the DPUs back; a second time does nothing."""
        if self._open:
            self._open = False
            self._set.free()

    def _require_open(self) -> None:
        if not self._open:
            raise SwiftRLError("this set of DPUs is closed; open a new one with open_dpu_set")

    def _place(self, symbol: str) -> "_Place":
        self._require_open()
        found = self._program.get_symbol(symbol)
        if found is None:
            raise SwiftRLError(
                f"the kernel has no variable {symbol!r} that the host can see; declare it __host or __mram"
            )
        return _Place(symbol, found.value(), found.size())

    def _copy(self, kind: str, symbol: str, dst: Any, src: Any, offset: int) -> None:
        with self._clock.timed(kind), _told(f"the copy of {symbol!r} failed", self._error):
            self._set.copy(dst, src, offset=offset)


def open_dpu_set(
    nr_dpus: int,
    binary: str | Path,
    log: Any = None,
    *,
    platform: str = "auto",
    hardware: "str | dpusim.HardwareProfile | None" = None,
    threads: int | None = None,
    mode: str = "fast",
) -> PimSet:
    """Allocate DPUs and load a program into them.

    Parameters
    ----------
    nr_dpus : int
        How many.
    binary : path
        The program: made by the SDK's compiler for hardware, by `dpusim.compile_kernel` for the simulator.
    log : stream, optional
        Where launches write what kernels print.
    platform : {"auto", "hardware", "simulator"}
        `auto`: hardware where there is any, even if it has too few DPUs, which is an error; else the simulator.
    hardware, threads, mode
        For the simulator: the server to simulate, host threads, and how tasklets interleave (`dpusim.DpuSet`).

    Raises
    ------
    SwiftRLError
        If there are not that many DPUs (the text says how many there are), or the program cannot be loaded.
    """
    if isinstance(nr_dpus, bool) or not hasattr(nr_dpus, "__index__") or nr_dpus < 1:
        raise SwiftRLError(f"nr_dpus is {nr_dpus!r}; give the number of DPUs, 1 or more")
    if platform not in PLATFORMS:
        raise SwiftRLError(f"platform is {platform!r}; choose one of {', '.join(PLATFORMS)}")
    dpu_set, new_clock, error = _allocate(int(nr_dpus), log, platform, hardware, threads, mode)
    try:
        with _told(f"{binary} cannot be loaded", error):
            program = dpu_set.load(binary=str(binary))
    except BaseException:
        dpu_set.free()
        raise
    return PimSet(dpu_set, program, new_clock(dpu_set), error)


def hardware_reason() -> str | None:
    """Return why no UPMEM hardware can be used here, or None if it can. Allocates one DPU to find out."""
    sdk, reason = _find_sdk()
    if sdk is None:
        return reason
    try:
        sdk.DpuSet(nr_dpus=1, profile=ON_HARDWARE).free()
    except sdk.DpuError as error:
        return _nothing_free(error)
    return None


def _allocate(
    nr_dpus: int, log: Any, platform: str, hardware: Any, threads: int | None, mode: str
) -> tuple[Any, Callable[[Any], "_WallClock | _SimulatedClock"], type[Exception]]:
    """Return an allocated set, the class of its clock and the class of its errors."""
    sdk, reason = (None, "") if platform == "simulator" else _find_sdk()
    if sdk is not None:
        try:
            allocated = sdk.DpuSet(nr_dpus=nr_dpus, profile=ON_HARDWARE, log=log)
        except sdk.DpuError as error:
            there = _free_dpus(sdk)
            if there:
                raise SwiftRLError(
                    f"asked for {nr_dpus} DPUs, this machine has {there} free ({_text(error)}); "
                    "ask for fewer, or choose platform='simulator'"
                ) from error
            reason = _nothing_free(error)
        else:
            if hardware is not None:
                allocated.free()
                raise SwiftRLError(
                    f"hardware={hardware!r} is a server to simulate, but this machine has DPUs of its own; "
                    "leave it out, or choose platform='simulator'"
                )
            return allocated, _WallClock, sdk.DpuError
    if platform == "hardware":
        raise SwiftRLError(f"there is no UPMEM hardware to use: {reason}")
    with _told(f"{nr_dpus} DPUs cannot be simulated", dpusim.DpuError):
        simulated = dpusim.DpuSet(nr_dpus=nr_dpus, log=log, hardware=hardware, threads=threads, mode=mode)
    return simulated, _SimulatedClock, dpusim.DpuError


def _nothing_free(error: Exception) -> str:
    return f"the UPMEM SDK is installed, but no DPU can be allocated ({_text(error)})"


def _free_dpus(sdk: ModuleType) -> int:
    """Return how many DPUs could be allocated, by allocating them all for a moment."""
    try:
        everything = sdk.DpuSet(nr_dpus=sdk.ALLOCATE_ALL, profile=ON_HARDWARE)
    except sdk.DpuError:  # the SDK's way to say that there is none
        return 0
    there = len(everything)
    everything.free()
    return there


def _find_sdk() -> tuple[ModuleType | None, str]:
    """Return the SDK's Python package, or None and the reason why it cannot be used."""
    overriding = [entry for entry in os.environ.get("UPMEM_PROFILE", "").split(",") if "backend=" in entry]
    if overriding and overriding[-1].strip() != ON_HARDWARE:
        return None, f"UPMEM_PROFILE says {overriding[-1].strip()}, which is not hardware"
    try:
        sdk = importlib.import_module("dpu")
    except ModuleNotFoundError as error:
        if error.name != "dpu":
            return None, f"the UPMEM SDK's Python package cannot be imported ({error})"
        return None, "the UPMEM SDK's Python package `dpu` is not installed"
    except (ImportError, OSError) as error:  # its ctypes layer does not find libdpu.so
        return None, f"the UPMEM SDK's Python package cannot be imported ({error}); source upmem_env.sh"
    missing = [name for name in ("DpuSet", "DpuError", "ALLOCATE_ALL") if not hasattr(sdk, name)]
    if missing:
        return None, f"the installed package `dpu` is not UPMEM's: it has no {', '.join(missing)}"
    return sdk, ""


class _WallClock:
    """Measures calls of the SDK with the system's clock."""

    evidence = "measured"

    def __init__(self, _: Any) -> None:
        self._spent = asdict(PimTimes())

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._spent[kind] += time.perf_counter() - start
        self._spent["launches"] += kind == "kernel_s"

    def times(self) -> PimTimes:
        return PimTimes(**self._spent)

    def last_run(self) -> None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"hardware": "UPMEM"}


class _SimulatedClock:
    """Reads the simulator's ledger."""

    evidence = "simulated"

    def __init__(self, dpu_set: dpusim.DpuSet) -> None:
        self._set = dpu_set

    @contextmanager
    def timed(self, _: str) -> Iterator[None]:
        yield  # the simulator does its own accounts

    def times(self) -> PimTimes:
        ledger = self._set.simulated
        return PimTimes(ledger.to_dpu_s, ledger.from_dpu_s, ledger.kernel_s, ledger.launches)

    def last_run(self) -> list | None:
        runs = self._set.last_run
        return None if runs[0] is None else runs

    def describe(self) -> dict[str, Any]:
        return {"hardware": self._set.simulated.hardware, "model_version": dpusim.MODEL_VERSION}


@dataclass(frozen=True)
class _Place:
    """Where a symbol lies."""

    name: str
    address: int
    size: int

    @property
    def unit(self) -> int:
        """Bytes of which sizes and addresses must be multiples: 8 in MRAM, 4 in WRAM."""
        return 8 if self.address >= MRAM_START else 4

    def require_room(self, nbytes: int, offset: int) -> None:
        if offset < 0 or (self.address + offset) % self.unit:
            raise SwiftRLError(
                f"{self.name!r} starts at address {self.address:#x}: offset {offset} must lead to a multiple of "
                f"{self.unit} bytes"
            )
        if offset + nbytes > self.size:
            raise SwiftRLError(
                f"{nbytes} bytes (padded to {self.unit}) at offset {offset} do not fit {self.name!r}, which has "
                f"{self.size} bytes; make it larger in the kernel"
            )


def _padded_rows(symbol: str, arrays: Sequence[Any] | np.ndarray, unit: int) -> list[np.ndarray]:
    """Return writable byte arrays of one length: the arrays themselves where they can be used as they are."""
    if isinstance(arrays, np.ndarray):
        rows = list(_bytes_of(symbol, arrays).reshape(len(arrays), arrays.nbytes // len(arrays)))
    else:
        rows = [_bytes_of(symbol, array) for array in arrays]
    longest = max(row.nbytes for row in rows)
    length = longest + -longest % unit
    if all(row.nbytes == length and row.flags.writeable for row in rows):
        return rows
    padded = np.zeros((len(rows), length), np.uint8)
    for target, row in zip(padded, rows, strict=True):
        target[: row.nbytes] = row
    return list(padded)


def _bytes_of(symbol: str, array: Any) -> np.ndarray:
    """Return the bytes of an array, one-dimensional and contiguous; no copy where none is needed."""
    if isinstance(array, (bytes, bytearray, memoryview)):
        return np.frombuffer(array, np.uint8)
    data = np.ascontiguousarray(array)
    if data.dtype.hasobject or data.dtype.kind in "OUSmM":
        raise SwiftRLError(f"{symbol!r} got values of type {data.dtype}; give numbers of a fixed width")
    return data.reshape(-1).view(np.uint8)


def _text(error: Exception) -> str:
    """Return an SDK error's text; releases up to 2023.2 hold bytes."""
    if error.args and isinstance(error.args[0], bytes):
        return error.args[0].decode(errors="replace")
    return str(error)


@contextmanager
def _told(what: str, error_type: type[Exception]) -> Iterator[None]:
    """Turn an error of the SDK or the simulator into a sentence that says what was being done."""
    try:
        yield
    except error_type as error:
        raise SwiftRLError(f"{what}: {_text(error)}") from error
