"""One set of DPUs, on UPMEM hardware or on the simulator, with one API.

On hardware the SDK's Python binding (`dpu`, SDK 2021.3 and later) does the work and a clock measures it; elsewhere
the simulator's `DpuSet` does, and its ledger of simulated seconds takes the clock's place. What the SDK's binding
leaves undefined or gets wrong is refused or made good here, before either of them: every buffer becomes a writable
one-dimensional byte array, padded to the unit of its memory (8 bytes in MRAM, 4 in WRAM); arguments of `DpuSet` go
by keyword (their order changed between releases), the binary as `str`, and an error is known by words in its text
(a `bytes` in some releases, a C string in others).
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from swiftrl_core import dpusim
from swiftrl_core.backends.pim.buffers import Place, bytes_of, memoryviews, padded_rows
from swiftrl_core.backends.pim.clocks import Clock, PimTimes, Stopwatch
from swiftrl_core.backends.pim.platforms import (
    PLATFORMS,
    allocate,
    explained,
    hardware_reason,
    simulation_notice,
)
from swiftrl_core.util.errors import SwiftRLError

__all__ = ["PimSet", "PimTimes", "hardware_reason", "open_dpu_set", "simulation_notice"]


class PimSet:
    """DPUs with a program in them; made by `open_dpu_set`.

    Attributes
    ----------
    evidence : str
        `measured` on hardware, `simulated` on the simulator.
    """

    def __init__(self, dpu_set: Any, program: Any, clock: Clock, error: type[Exception]) -> None:
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
        rows = padded_rows(symbol, arrays, place.unit)
        place.require_room(rows[0].nbytes, offset)
        self._copy("to_dpu_s", symbol, symbol, rows, offset)

    def broadcast(self, symbol: str, array: Any, offset: int = 0) -> None:
        """Copy the same array to every DPU. Padding and errors as in `scatter`."""
        place = self._place(symbol)
        data = bytearray(bytes_of(symbol, array).tobytes())
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
        with self._clock.timed("kernel_s"), explained("the launch failed", self._error):
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
        with explained("the log cannot be read", self._error):
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

    def _place(self, symbol: str) -> Place:
        self._require_open()
        found = self._program.get_symbol(symbol)
        if found is None:
            raise SwiftRLError(
                f"the kernel has no variable {symbol!r} that the host can see; declare it __host or __mram"
            )
        return Place(symbol, found.value(), found.size())

    def _copy(self, kind: str, symbol: str, dst: Any, src: Any, offset: int) -> None:
        dst, src = (memoryviews(side) if isinstance(side, list) else side for side in (dst, src))
        with self._clock.timed(kind), explained(f"the copy of {symbol!r} failed", self._error):
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
    dpu_set, new_clock, error = allocate(int(nr_dpus), log, platform, hardware, threads, mode)
    try:
        with explained(f"{binary} cannot be loaded", error):
            program = dpu_set.load(binary=str(binary))
    except BaseException:
        dpu_set.free()
        raise
    return PimSet(dpu_set, program, new_clock(dpu_set), error)
