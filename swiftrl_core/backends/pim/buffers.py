"""Buffers as the SDK's binding takes them: writable bytes, padded to the unit of the memory they go to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from swiftrl_core.util.errors import SwiftRLError

MRAM_START = 0x08000000
"""Address in the ELF file from which on a symbol lies in MRAM (the SDK's `DpuSymbol.value()` gives it)."""


@dataclass(frozen=True)
class Place:
    """Where a symbol lies."""

    name: str
    address: int
    size: int

    @property
    def unit(self) -> int:
        """Bytes of which sizes and addresses must be multiples: 8 in MRAM, 4 in WRAM."""
        return 8 if self.address >= MRAM_START else 4

    def require_room(self, nbytes: int, offset: int) -> None:
        """Refuse a transfer that is misaligned or leaves the symbol."""
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


def padded_rows(symbol: str, arrays: Sequence[Any] | np.ndarray, unit: int) -> list[np.ndarray]:
    """Return writable byte arrays of one length: the arrays themselves where they can be used as they are."""
    if isinstance(arrays, np.ndarray):
        rows = list(bytes_of(symbol, arrays).reshape(len(arrays), arrays.nbytes // len(arrays)))
    else:
        rows = [bytes_of(symbol, array) for array in arrays]
    longest = max(row.nbytes for row in rows)
    length = longest + -longest % unit
    if all(row.nbytes == length and row.flags.writeable for row in rows):
        return rows
    padded = np.zeros((len(rows), length), np.uint8)
    for target, row in zip(padded, rows, strict=True):
        target[: row.nbytes] = row
    return list(padded)


def bytes_of(symbol: str, array: Any) -> np.ndarray:
    """Return the bytes of an array, one-dimensional and contiguous; no copy where none is needed."""
    if isinstance(array, (bytes, bytearray, memoryview)):
        return np.frombuffer(array, np.uint8)
    data = np.ascontiguousarray(array)
    if data.dtype.hasobject or data.dtype.kind in "OUSmM":
        raise SwiftRLError(f"{symbol!r} got values of type {data.dtype}; give numbers of a fixed width")
    return data.reshape(-1).view(np.uint8)


def memoryviews(rows: Sequence[np.ndarray]) -> list[memoryview]:
    """Return a view of each array, the form in which the SDK's C code can take a list of buffers.

    It asks for the bytes of each without holding the interpreter's lock. An array allocates memory to answer, which
    ends the process from Python 3.12 on; a memoryview does not.
    """
    return [memoryview(row) for row in rows]
