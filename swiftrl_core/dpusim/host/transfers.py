"""Copies between buffers of the host and one symbol of many DPUs."""

from dataclasses import dataclass

from swiftrl_core.dpusim.host.allocation import Allocation
from swiftrl_core.dpusim.machine import Machine
from swiftrl_core.dpusim.program.symbols import DpuError, DpuSymbol, Memory, check_alignment, place_of
from swiftrl_core.dpusim.timing import transfer_seconds
from swiftrl_core.dpusim.timing.seconds import Kind


@dataclass(frozen=True)
class Transfer:
    """One copy, checked but not yet done.

    Attributes
    ----------
    to_dpu : bool
        The direction.
    symbol : DpuSymbol
        What is written or read.
    memory : Memory
        Where the symbol lies.
    address, size : int
        Place in that memory, and bytes per DPU.
    views : list of (int, memoryview)
        Index of each DPU that takes part, and the bytes of its buffer.
    kind : {"parallel", "broadcast", "serial"}
        How the hardware would do it.
    """

    to_dpu: bool
    symbol: DpuSymbol
    memory: Memory
    address: int
    size: int
    views: list[tuple[int, memoryview]]
    kind: Kind

    @property
    def job(self) -> str:
        """The vendor's name of the queued job."""
        way = "to_matrix" if not self.to_dpu else "to_rank" if self.kind == "broadcast" else "from_matrix"
        return f"copy_{self.memory.name.lower()}_{way}"

    def require_aligned(self) -> None:
        """Refuse a place or a size that the hardware cannot transfer."""
        check_alignment(self.memory, self.symbol, self.address, self.size)

    def execute(self, allocation: Allocation) -> None:
        """Move the bytes and charge the simulated seconds to the allocation's ledger."""
        self.require_aligned()
        machines = allocation.machines
        if any(machines[index] is None for index, _ in self.views):
            raise DpuError("no program has been loaded in the dpu set")
        whole = self.views[0][1].nbytes == self.size
        pairs = [(machines[index], view if whole else view[: self.size]) for index, view in self.views]
        if self.to_dpu:
            write = Machine.write_mram if self.memory is Memory.MRAM else Machine.write_wram
            for machine, view in pairs:
                write(machine, self.address, view)
        elif self.memory is Memory.MRAM:
            for machine, view in pairs:
                machine.read_mram(self.address, self.size, into=view)
        else:
            for machine, view in pairs:
                view[:] = machine.read_wram(self.address, self.size)
        self._charge(allocation)

    def _charge(self, allocation: Allocation) -> None:
        ledger, n_dpus = allocation.ledger, len(self.views)
        direction = "to_dpu" if self.to_dpu else "from_dpu"
        seconds = transfer_seconds(allocation.hardware, direction, n_dpus, self.size, self.kind)
        if self.to_dpu:
            ledger.to_dpu_s += seconds
            ledger.to_dpu_bytes += n_dpus * self.size
        else:
            ledger.from_dpu_s += seconds
            ledger.from_dpu_bytes += n_dpus * self.size


def plan_transfer(
    to_dpu: bool, symbol: DpuSymbol, host: object, span: range, size: int | None, offset: int
) -> Transfer:
    """Check a copy between the host's buffers and a symbol of the DPUs `span`.

    Parameters
    ----------
    to_dpu : bool
        The direction.
    symbol : DpuSymbol
        What to write or read.
    host : buffer, or list of one buffer or None per DPU
        Where the bytes come from or go to.
    span : range
        Indices of the DPUs in their allocation.
    size : int or None
        Bytes per DPU; None: the whole buffer.
    offset : int
        Byte offset in the symbol.

    Raises
    ------
    DpuError
        If buffers, size or offset do not fit.
    TypeError
        For a buffer that is read-only or not contiguous.
    """
    views, kind = _host_views(host, span, to_dpu)
    moved = _moved_bytes(views, size)
    memory, address = place_of(symbol, offset, moved)
    return Transfer(to_dpu, symbol, memory, address, moved, views, kind)


def _host_views(host: object, span: range, to_dpu: bool) -> tuple[list[tuple[int, memoryview]], Kind]:
    """Return (DPU index, bytes of its buffer) for each DPU that takes part, and the kind of transfer."""
    if isinstance(host, list):
        if len(host) != len(span):
            raise DpuError("invalid number of host buffers for this DPU set")
        if len(span) == 1:
            return [(span.start, _single_view(host[0]))], "serial"
        pairs = zip(span, host, strict=True)
        views = [(index, _list_view(buffer)) for index, buffer in pairs if buffer is not None]
        if not views:
            raise DpuError("invalid memory symbol access: every host buffer of the list is None")
        return views, "parallel"
    view = _single_view(host)
    if len(span) == 1:
        return [(span.start, view)], "serial"
    if not to_dpu:
        raise DpuError(
            f"invalid action for this dpu set: {len(span)} DPUs cannot be read into one buffer; "
            "give a list of one buffer per DPU"
        )
    return [(index, view) for index in span], "broadcast"


def _single_view(buffer: object) -> memoryview:
    """Return the bytes of a buffer given alone; the SDK takes its `len` for its size in bytes."""
    view = _view(buffer)
    if view.readonly:
        raise TypeError("underlying buffer is not writable")
    if len(buffer) != view.nbytes:
        raise DpuError(
            f"a buffer of {view.nbytes} bytes has len {len(buffer)}, which the SDK would take for its size in bytes; "
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
