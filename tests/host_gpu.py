"""A host in the place of a GPU: the same kernels, compiled as C, launched as loops."""

import ctypes
from pathlib import Path

import numpy as np

from swiftrl_core.backends.gpu import kernels
from swiftrl_core.learner.layout import KERNEL_DIRECTORY
from swiftrl_core.util import toolchain

FOLDER = Path(__file__).parent
GUARD = 64
PATTERN = 0xC3


def build_for_host(problem, tables, *, backwards=False) -> ctypes.CDLL:
    """Compile learner.cu and mean.cu for this machine."""
    flags = [
        *kernels.switches(problem, tables),
        "-Wextra",
        "-Werror",
        *(["-DBACKWARDS"] if backwards else []),
    ]
    library = toolchain.compile_shared_library(
        [FOLDER / "cuda_on_host.c"],
        headers=[FOLDER / "cuda_on_host.h", *kernels.headers()],
        include_directories=[FOLDER, KERNEL_DIRECTORY, kernels.FOLDER],
        flags=flags,
    )
    return ctypes.CDLL(str(library))


class HostGpu:
    """Implements `swiftrl_core.backends.gpu.device.Device`. Buffers start with a pattern and stand between guards."""

    def __init__(self, *, shared_limit=48 * 1024, backwards=False):
        self.shared_limit = shared_limit
        self._backwards = backwards
        self._buffers = []
        self._time = 0
        self.launches = []

    def build(self, problem, tables):
        self._library = build_for_host(problem, tables, backwards=self._backwards)

    def empty(self, nbytes):
        self._buffers.append(np.full(nbytes + 2 * GUARD, PATTERN, np.uint8))
        return self._buffers[-1][GUARD : GUARD + nbytes]

    def upload(self, array, buffer):
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        buffer[: raw.size] = raw

    def download(self, buffer, array):
        raw = array.reshape(-1).view(np.uint8)
        raw[:] = buffer[: raw.size]

    def launch(self, kernel, blocks, threads, arguments, shared_bytes=0):
        assert shared_bytes <= self.shared_limit
        self.launches.append(kernel)
        values = [
            ctypes.c_uint32(value) if isinstance(value, int) else ctypes.c_void_p(value.ctypes.data)
            for value in arguments
        ]
        getattr(self._library, f"launch_{kernel}")(ctypes.c_uint32(blocks), ctypes.c_uint32(threads), *values)
        for buffer in self._buffers:
            ends = np.concatenate([buffer[:GUARD], buffer[-GUARD:]])
            assert np.all(ends == PATTERN), f"{kernel} wrote outside a buffer"

    def mark(self):
        self._time += 1
        return self._time

    def seconds(self, start, stop):
        return float(stop - start)

    def describe(self):
        return {"device": "host"}

    def release(self):
        self._buffers.clear()
