"""The `gpu` backend: every lane of a CUDA kernel is a virtual PIM core, averaged on the GPU between rounds."""

import itertools

import numpy as np

from swiftrl_core.backend import Evidence, Problem, Round
from swiftrl_core.backends.gpu.device import CudaDevice, Device, unavailable_reason
from swiftrl_core.backends.gpu.kernels import LANES, SEGMENT_CORES, Tables, placement, shared_bytes
from swiftrl_core.learner import NumberFormat, Update
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.training.synchronisation import state_values

THREADS = 128
"""Threads of a block, in kernels whose threads have nothing to do with lanes."""

VISITS_BYTES = 2
"""Of an entry of `struct aux`'s visits in td_update.h."""

ROUNDED = ("rises", "falls", "odds")
"""What mean.cu keeps of each segment in FP32, besides its sum."""


def available() -> str | None:
    """Return why this backend cannot be used here, or None."""
    return unavailable_reason()


def open_backend(problem: Problem, cores: int) -> "GpuBackend":
    """Return a backend for `cores` virtual PIM cores on the current CUDA device."""
    device = CudaDevice()
    return GpuBackend(problem, cores, device, placement(problem, device.shared_limit))


class GpuBackend:
    """Trains all cores of a problem on a GPU; times are measured, by events on the GPU itself.

    Kernels are compiled, and each is launched once, before anything is timed. Data goes to the GPU once. In averaged
    rounds the tables stay there, and so does the mean that the next round starts from.
    """

    name = "gpu"
    evidence = Evidence.MEASURED

    def __init__(self, problem: Problem, cores: int, device: Device, tables: Tables) -> None:
        self._problem, self._cores, self._device, self._tables = problem, cores, device, tables
        self._entry_bytes = problem.learner.dtype.itemsize
        self._shared_bytes = shared_bytes(problem) if tables == Tables.IN_SHARED_MEMORY else 0
        self._buffers = {}
        self._mean: np.ndarray | None = None  # of the last round, while the buffer `table` holds it
        device.build(problem, tables)

    def load(self, chunks: Chunks) -> float:
        """Send all chunks to the GPU and lay them out for its lanes; return the seconds it took."""
        self._mean = None
        args = self._problem.arguments(chunks)
        tile_starts, words = _tile_starts(chunks.lengths)
        host = {"rows": chunks.records, "starts": chunks.starts, "tile_starts": tile_starts, "args": args}
        sizes = {name: array.nbytes for name, array in host.items()}
        sizes |= self._table_sizes() | self._sizes_beside() | {"records": 8 * words}
        self._buffers = {name: self._device.empty(size) for name, size in sizes.items()}
        self._lay_out_records(cores=0)
        start = self._device.mark()
        for name, array in host.items():
            self._device.upload(array, self._buffers[name])
        self._lay_out_records(self._cores)
        seconds = self._device.seconds(start, self._device.mark())
        del self._buffers["rows"], self._buffers["starts"]
        self._warm_up()
        return seconds

    def run_round(self, table: np.ndarray, episodes: int, targets: np.ndarray | None = None) -> Round:
        """Train every core from `table` for `episodes` passes and fetch all their tables; see `Backend.run_round`."""
        self._make_room_for_local_tables()
        self._mean = None
        marks = [self._device.mark()]
        self._device.upload(table, self._buffers["table"])
        if targets is not None:
            self._device.upload(targets, self._buffers["targets"])
            self._device.upload(state_values(table, self._problem.n_actions), self._buffers["values"])
        marks.append(self._device.mark())
        self._learn(episodes)
        marks.append(self._device.mark())
        tables = self._local_tables()
        marks.append(self._device.mark())
        return Round(tables, *self._between(marks))

    def run_averaged_round(self, table: np.ndarray, episodes: int) -> Round:
        """Make a round that is averaged on the GPU; only the mean comes back. See `AveragingBackend`."""
        down_s = 0.0
        if self._mean is None or table.base is not self._mean:
            start = self._device.mark()
            self._device.upload(table, self._buffers["table"])
            down_s = self._device.seconds(start, self._device.mark())
        marks = [self._device.mark()]
        self._learn(episodes)
        marks.append(self._device.mark())
        self._average()
        marks.append(self._device.mark())
        self._mean = self._download("table", rows=1)
        marks.append(self._device.mark())
        kernel_s, averaging_s, up_s = self._between(marks)
        return Round(self._mean, down_s, kernel_s, up_s, averaging_s=averaging_s)

    def describe(self) -> dict:
        """Return the GPU, its software and where the tables are, for the manifest."""
        return self._device.describe() | {"tables": str(self._tables)}

    def close(self) -> None:
        """Free the GPU's memory."""
        self._buffers.clear()
        self._device.release()

    @property
    def _segments(self) -> int:
        return -(-self._cores // SEGMENT_CORES)

    def _table_sizes(self) -> dict[str, int]:
        """Return the bytes of each buffer that does not come from the host; tables come in whole tiles."""
        entries = self._problem.entries
        tables = -(-self._cores // LANES) * LANES * entries * self._entry_bytes
        sizes = {"table": entries * self._entry_bytes, "tables": tables, "sums": 8 * self._segments * entries}
        if self._problem.learner.number_format == NumberFormat.FP32:
            sizes |= dict.fromkeys(ROUNDED, sizes["sums"])
        return sizes

    def _sizes_beside(self) -> dict[str, int]:
        """Return the bytes of the auxiliary tables: `struct aux` of td_update.h."""
        learner, entries, states = self._problem.learner, self._problem.entries, self._problem.n_states
        vr = learner.update == Update.VR
        visits = -(-self._cores // LANES) * LANES * entries * VISITS_BYTES
        apart = learner.frozen_bootstrap and self._tables == Tables.IN_GLOBAL_MEMORY
        return {
            "targets": vr * entries * self._entry_bytes,
            "values": vr * states * self._entry_bytes,
            "visits": learner.decaying_alpha * visits,
            "frozen": apart * self._cores * states * self._entry_bytes,
        }

    def _warm_up(self) -> None:
        """Launch every kernel of a round; no episodes, so that the cores' generators stay where they are."""
        start = np.zeros(self._problem.entries, self._problem.learner.dtype)
        self._device.upload(start, self._buffers["table"])
        self._learn(0)
        self._average()
        self._launch("gather_tables", 0, THREADS, ["tables", "table", 0])

    def _lay_out_records(self, cores: int) -> None:
        self._launch("lay_out_records", cores, LANES, ["rows", "starts", "tile_starts", "records", cores])

    def _learn(self, episodes: int) -> None:
        if self._tables == Tables.IN_GLOBAL_MEMORY:
            items = self._cores * self._problem.entries
            self._launch("start_tables", items, THREADS, ["table", "tables", self._cores])
        arguments = ["table", "tables", "records", "tile_starts", "args", self._cores, episodes]
        arguments += ["targets", "values", "visits", "frozen"]
        self._launch("train", self._cores, LANES, arguments, self._shared_bytes)

    def _average(self) -> None:
        """Leave the mean of all tables in the buffer `table`."""
        sizes, entries = [self._cores, self._segments], self._problem.entries
        items = self._segments * entries
        self._launch("sum_segments", items, THREADS, ["tables", "sums", *sizes])
        if self._problem.learner.number_format == NumberFormat.FP32:
            self._launch("guess_starts", entries, THREADS, ["sums", self._segments])
            self._launch("round_segments", items, THREADS, ["tables", "sums", *ROUNDED, *sizes])
            self._launch("mean", entries, LANES, ["tables", "sums", *ROUNDED, "table", *sizes])
        else:
            self._launch("mean", entries, LANES, ["sums", "table", *sizes])

    def _make_room_for_local_tables(self) -> None:
        if self._tables == Tables.IN_SHARED_MEMORY and "gathered" not in self._buffers:
            self._buffers["gathered"] = self._device.empty(
                self._cores * self._problem.entries * self._entry_bytes
            )

    def _local_tables(self) -> np.ndarray:
        """Return every core's table, core by core, the order that tables in global memory have already."""
        if self._tables == Tables.IN_GLOBAL_MEMORY:
            return self._download("tables", self._cores)
        items = self._cores * self._problem.entries
        self._launch("gather_tables", items, THREADS, ["tables", "gathered", self._cores])
        return self._download("gathered", self._cores)

    def _download(self, buffer: str, rows: int) -> np.ndarray:
        tables = np.empty((rows, self._problem.entries), self._problem.learner.dtype)
        self._device.download(self._buffers[buffer], tables)
        return tables

    def _launch(self, kernel: str, items: int, threads: int, arguments: list, shared: int = 0) -> None:
        """Start a kernel with a thread an item; a string among the arguments is the name of a buffer."""
        values = [self._buffers[value] if isinstance(value, str) else value for value in arguments]
        self._device.launch(kernel, max(1, -(-items // threads)), threads, values, shared)

    def _between(self, marks: list) -> list[float]:
        return [self._device.seconds(start, stop) for start, stop in itertools.pairwise(marks)]


def _tile_starts(lengths: np.ndarray) -> tuple[np.ndarray, int]:
    """Return where each tile of records starts, uint64 (tiles,), and the records of all tiles together.

    A tile has as many rows as its longest chunk, and a place in each row for every lane.
    """
    padded = np.zeros(-(-len(lengths) // LANES) * LANES, np.uint64)
    padded[: len(lengths)] = lengths
    ends = np.cumsum(padded.reshape(-1, LANES).max(axis=1) * np.uint64(LANES), dtype=np.uint64)
    starts = np.concatenate([np.zeros(1, np.uint64), ends[:-1]])
    return starts, int(ends[-1])
