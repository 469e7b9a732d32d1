"""The `gpu-shared` backend, a baseline: all lanes of the GPU learn in one table, whose entries they update atomically.

This is the shape of the paper's GPU code. What a lane reads depends on which lanes came first, so a run does not repeat
bit for bit, and there is nothing to average: a round is just a launch.
"""

import numpy as np

from swiftrl_core.backend import Problem
from swiftrl_core.backends.gpu.backend import GpuBackend
from swiftrl_core.backends.gpu.device import CudaDevice, Device, unavailable_reason
from swiftrl_core.backends.gpu.kernels import Tables


def available() -> str | None:
    """Return why this backend cannot be used here, or None."""
    return unavailable_reason()


def open_backend(problem: Problem, cores: int) -> "SharedTableBackend":
    """Return a backend for `cores` lanes that share a table on the current CUDA device."""
    return SharedTableBackend(problem, cores, CudaDevice())


class SharedTableBackend(GpuBackend):
    """Trains one table from all chunks at once on a GPU; not deterministic."""

    name = "gpu-shared"

    def __init__(self, problem: Problem, cores: int, device: Device) -> None:
        super().__init__(problem, cores, device, Tables.ONE_FOR_ALL)

    def describe(self) -> dict:
        """Return the GPU and its software, and that a run does not repeat."""
        return super().describe() | {"deterministic": False}

    def _table_sizes(self) -> dict[str, int]:
        return {"table": self._problem.entries * self._entry_bytes, "tables": 0}

    def _average(self) -> None:
        """Do nothing: the one table is its own mean."""

    def _local_tables(self) -> np.ndarray:
        """Return the one table, shape (1, entries)."""
        return self._download("table", rows=1)
