"""Symbols of a DPU program as the SDK's Python binding shows them."""

from collections.abc import Iterable, Mapping
from enum import Enum

from swiftrl_core.util.errors import SwiftRLError

MRAM_START = 0x08000000
IRAM_START = 0x80000000


class DpuError(SwiftRLError):
    """What the binding raises; the text starts with the vendor's own words, so test `needle in str(error)`."""


class Memory(Enum):
    """A DPU memory the host can reach; the value is the unit of its transfers in bytes."""

    WRAM = 4
    MRAM = 8

    @property
    def refusal(self) -> str:
        """The vendor's text for a transfer that is misaligned or out of range."""
        return f"invalid {self.name.lower()} access"


class DpuSymbol:
    """A named piece of DPU memory.

    Parameters
    ----------
    name : str
        Name of the symbol.
    value : (int, int)
        Address as in the ELF file (WRAM from 0, MRAM from 0x08000000) and size in bytes.
    """

    __slots__ = ("_address", "_size", "name")

    def __init__(self, name: str, value: tuple[int, int]) -> None:
        self.name = name
        self._address, self._size = value

    def value(self) -> int:
        """Return the address."""
        return self._address

    def size(self) -> int:
        """Return the size in bytes."""
        return self._size

    def __repr__(self) -> str:
        return f"DpuSymbol({self.name!r}, ({self._address:#x}, {self._size}))"


class DpuProgram:
    """The symbols of a loaded program.

    Parameters
    ----------
    symbols : mapping of str to (int, int)
        Address and size of every symbol the host may see.
    """

    def __init__(self, symbols: Mapping[str, tuple[int, int]]) -> None:
        self.symbols = {name: DpuSymbol(name, tuple(place)) for name, place in symbols.items()}

    def get_symbol(self, symbol_name: str) -> DpuSymbol | None:
        """Return a symbol by name, None if the program has none of that name."""
        return self.symbols.get(symbol_name)

    def fetch_all_symbols(self) -> Iterable[DpuSymbol]:
        """Return all symbols."""
        return self.symbols.values()


class DpuVariable:
    """The bytes of one symbol, read from every DPU of a set when the attribute was read.

    Each typed method gives a list over the DPUs of typed memoryviews; a view of one element becomes the number,
    and a set of one DPU gives its single entry without the list.
    """

    def __init__(self, buffers: list[bytearray]) -> None:
        self._buffers = buffers

    def data(self) -> list[memoryview] | memoryview:
        """Return the bytes."""
        return self._collapse([memoryview(buffer) for buffer in self._buffers])

    def int8(self) -> object:
        """Return signed 8-bit integers."""
        return self._typed("b")

    def uint8(self) -> object:
        """Return unsigned 8-bit integers."""
        return self._typed("B")

    def int16(self) -> object:
        """Return signed 16-bit integers."""
        return self._typed("h")

    def uint16(self) -> object:
        """Return unsigned 16-bit integers."""
        return self._typed("H")

    def int32(self) -> object:
        """Return signed 32-bit integers."""
        return self._typed("i")

    def uint32(self) -> object:
        """Return unsigned 32-bit integers."""
        return self._typed("I")

    def int64(self) -> object:
        """Return signed 64-bit integers."""
        return self._typed("q")

    def uint64(self) -> object:
        """Return unsigned 64-bit integers."""
        return self._typed("Q")

    def float(self) -> object:
        """Return 32-bit floats."""
        return self._typed("f")

    def double(self) -> object:
        """Return 64-bit floats."""
        return self._typed("d")

    def _typed(self, code: str) -> object:
        views = [memoryview(buffer).cast(code) for buffer in self._buffers]
        return self._collapse([view[0] if len(view) == 1 else view for view in views])

    @staticmethod
    def _collapse(values: list) -> object:
        return values[0] if len(values) == 1 else values


def place_of(symbol: DpuSymbol, offset: int, size: int) -> tuple[Memory, int]:
    """Return the memory and the address in it of `size` bytes at `offset` of a symbol.

    Raises
    ------
    DpuError
        If the bytes lie outside the symbol, or the symbol is not in WRAM or MRAM.
    """
    if offset < 0 or size < 0 or offset + size > symbol.size():
        raise DpuError(
            f"invalid memory symbol access: {size} bytes at offset {offset} of {symbol.name!r}, "
            f"which has {symbol.size()} bytes"
        )
    address = symbol.value() + offset
    if address < MRAM_START:
        return Memory.WRAM, address
    if address < IRAM_START:
        return Memory.MRAM, address - MRAM_START
    raise DpuError(f"invalid iram access: {symbol.name!r} is code, the simulator moves only WRAM and MRAM")


def check_alignment(memory: Memory, symbol: DpuSymbol, address: int, size: int) -> None:
    """Refuse a transfer whose address or size is no multiple of 4 (WRAM) or 8 (MRAM) bytes.

    Raises
    ------
    DpuError
        With the vendor's text of that memory.
    """
    if address % memory.value or size % memory.value:
        raise DpuError(
            f"{memory.refusal}: {size} bytes at {memory.name} address {address:#x} ({symbol.name!r}); "
            f"both must be multiples of {memory.value}"
        )
