"""Memory, launches and clock of the GPU: the only module that uses CuPy."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from swiftrl_core.backend import Problem
from swiftrl_core.backends.gpu import kernels
from swiftrl_core.backends.gpu.kernels import Tables
from swiftrl_core.util.errors import SwiftRLError


class Device(Protocol):
    """The operations that `GpuBackend` needs of a machine; in tests the host performs them.

    A buffer is an opaque handle to device memory. All work is done in the order of the calls.
    """

    shared_limit: int
    """Bytes of shared memory that a block may have."""

    def build(self, problem: Problem, tables: Tables) -> None:
        """Make the kernels for a problem ready to launch."""

    def empty(self, nbytes: int):
        """Return a buffer of unknown content."""

    def upload(self, array: np.ndarray, buffer) -> None:
        """Copy a host array to the front of a buffer."""

    def download(self, buffer, array: np.ndarray) -> None:
        """Fill a host array from the front of a buffer; on return all work so far is done."""

    def launch(
        self, kernel: str, blocks: int, threads: int, arguments: Sequence, shared_bytes: int = 0
    ) -> None:
        """Start a kernel. Arguments are buffers and integers; an integer is the kernel's `uint32_t`."""

    def mark(self):
        """Return a point in time, that at which all work so far will be done."""

    def seconds(self, start, stop) -> float:
        """Return the seconds between two marks, waiting for the second."""

    def describe(self) -> dict:
        """Return the machine's name and versions, for a manifest."""

    def release(self) -> None:
        """Release the memory of all buffers that nobody holds any more."""


def unavailable_reason() -> str | None:
    """Return why no CUDA GPU can be used here, or None."""
    try:
        import cupy
    except ModuleNotFoundError:
        return "cupy is not installed: pip install 'swiftrl[gpu]'"
    except ImportError as error:
        return f"cupy is installed but does not load ({str(error).strip().splitlines()[0]})"
    try:
        devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no CUDA device or driver ({error})"
    return kernels.nvrtc_reason() if devices else "no CUDA device"


class CudaDevice:
    """The current CUDA device, through CuPy. Copies and launches go to the default stream; marks are CUDA events."""

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._runtime = cupy.cuda.runtime
        self._device = cupy.cuda.Device()
        limit = self._runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin
        self.shared_limit = self._runtime.deviceGetAttribute(limit, self._device.id)
        self._target = f"sm_{self._device.compute_capability}"
        self._functions = {}

    def build(self, problem: Problem, tables: Tables) -> None:
        """See `Device.build`."""
        self._module = self._cupy.RawModule(path=str(kernels.cubin(problem, tables, self._target)))
        self._functions = {}

    def empty(self, nbytes: int):
        """See `Device.empty`; a GPU without room for it is a `SwiftRLError`."""
        try:
            return self._cupy.empty(max(nbytes, 1), np.uint8)
        except self._cupy.cuda.memory.OutOfMemoryError:
            free, total = self._runtime.memGetInfo()
            raise SwiftRLError(
                f"the GPU has no room for {nbytes:,} bytes ({free:,} of {total:,} are free): use fewer cores"
            ) from None

    def upload(self, array: np.ndarray, buffer) -> None:
        """See `Device.upload`."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        buffer[: flat.size].set(flat)

    def download(self, buffer, array: np.ndarray) -> None:
        """See `Device.download`."""
        flat = array.reshape(-1).view(np.uint8)
        buffer[: flat.size].get(out=flat)

    def launch(
        self, kernel: str, blocks: int, threads: int, arguments: Sequence, shared_bytes: int = 0
    ) -> None:
        """See `Device.launch`."""
        if kernel not in self._functions:
            self._functions[kernel] = self._module.get_function(kernel)
            if shared_bytes:  # more than 48 KB has to be asked for
                self._functions[kernel].max_dynamic_shared_size_bytes = shared_bytes
        values = tuple(np.uint32(value) if isinstance(value, int) else value for value in arguments)
        self._functions[kernel]((blocks,), (threads,), values, shared_mem=shared_bytes)

    def mark(self):
        """See `Device.mark`."""
        event = self._cupy.cuda.Event()
        event.record()
        return event

    def seconds(self, start, stop) -> float:
        """See `Device.seconds`; CUDA events tick in about half a microsecond."""
        stop.synchronize()
        return self._cupy.cuda.get_elapsed_time(start, stop) / 1000

    def copy_bandwidth(self, nbytes: int = 1 << 30) -> float:
        """Return the bytes a second that a copy within the GPU's memory reads and writes: the best of 5."""
        source, target = self.empty(nbytes), self.empty(nbytes)
        kind = self._runtime.memcpyDeviceToDevice
        stream = self._cupy.cuda.get_current_stream()
        seconds = []
        for _ in range(6):  # the first warms up
            start = self.mark()
            self._runtime.memcpyAsync(target.data.ptr, source.data.ptr, nbytes, kind, stream.ptr)
            seconds.append(self.seconds(start, self.mark()))
        return 2 * nbytes / min(seconds[1:])

    def describe(self) -> dict:
        """See `Device.describe`."""
        properties = self._runtime.getDeviceProperties(self._device.id)
        return {
            "device": properties["name"].decode(),
            "architecture": self._target,
            "multiprocessors": properties["multiProcessorCount"],
            "memory_bytes": properties["totalGlobalMem"],
            "cuda_driver": self._runtime.driverGetVersion(),
            "cuda_runtime": self._runtime.runtimeGetVersion(),
            "cupy": self._cupy.__version__,
        }

    def release(self) -> None:
        """See `Device.release`."""
        self._cupy.get_default_memory_pool().free_all_blocks()
