"""The GPU backend on a machine without a GPU: it says why, imports nothing it lacks, and drives CuPy as CuPy asks."""

import operator
import re
import subprocess
import sys
from ctypes import c_uint32, c_void_p
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from host_gpu import HostGpu, build_for_host

from benchmarks import gpu as bench
from swiftrl_core import backend as backends
from swiftrl_core.backend import Problem
from swiftrl_core.backends.gpu import device, kernels
from swiftrl_core.backends.gpu.backend import GpuBackend
from swiftrl_core.backends.gpu.device import CudaDevice
from swiftrl_core.backends.gpu.kernels import Tables
from swiftrl_core.cli import main
from swiftrl_core.data import collect
from swiftrl_core.learner import Learner
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

PACKAGE = Path(device.__file__).parents[2]


def test_every_module_imports_without_cupy_and_cuda_bindings():
    names = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in PACKAGE.rglob("gpu/*.py")
    ]
    code = f"""
import importlib, sys
sys.modules["cupy"] = sys.modules["cuda"] = None  # as if they were not installed
for name in {["swiftrl_core", "swiftrl_core.training.loop", *names]}:
    importlib.import_module(name.removesuffix(".__init__"))
for backend in ("gpu", "gpu-shared"):
    print(importlib.import_module("swiftrl_core.backend").module(backend).available())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["cupy is not installed: pip install 'swiftrl[gpu]'"] * 2


def test_opening_without_a_gpu_tells_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    for name in ("gpu", "gpu-shared"):
        with pytest.raises(
            SwiftRLError, match=f"backend {name} is not available here: cupy is not installed"
        ):
            backends.open_backend(name, Problem(Learner(), 16, 4), 8)


def test_reasons_name_what_is_missing(monkeypatch):
    cupy = FakeCupy(devices=1).install(monkeypatch)
    monkeypatch.setattr(kernels, "nvrtc_reason", lambda: "no NVRTC")
    assert device.unavailable_reason() == "no NVRTC"
    monkeypatch.setattr(kernels, "nvrtc_reason", lambda: None)
    assert device.unavailable_reason() is None
    cupy.devices = 0
    assert device.unavailable_reason() == "no CUDA device"
    cupy.devices = None
    assert device.unavailable_reason() == "no CUDA device or driver (cudaErrorInsufficientDriver)"


def test_nvrtc_reason_tells_package_from_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert kernels.nvrtc_reason() == "cuda-bindings is not installed: pip install 'swiftrl[gpu]'"
    bindings = ModuleType("cuda.bindings")

    def missing():
        raise RuntimeError("no libnvrtc.so")

    bindings.nvrtc = SimpleNamespace(nvrtcVersion=missing)
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    assert kernels.nvrtc_reason().startswith("cuda-bindings finds no NVRTC: ")


def test_benchmark_prints_a_reason_and_never_a_number(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert main(["bench", "--only", "gpu"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "swiftrl: no GPU to measure: cupy is not installed: pip install 'swiftrl[gpu]'\n"


@pytest.mark.parametrize("states", [16, 500])
def test_cupy_is_driven_as_it_asks(monkeypatch, states):
    """The real device class above a CuPy made of NumPy and the kernels on the host."""
    cupy = FakeCupy(devices=1).install(monkeypatch)
    problem = {16: ("frozenlake", 4), 500: ("taxi", 6)}[states]
    data = collect(problem[0], 1_003, seed=0)
    learner = Learner(reward_range=data.reward_range)
    cupy.build = (Problem(learner, states, problem[1]), "shared memory" if states == 16 else "global memory")
    monkeypatch.setattr(kernels, "nvrtc_reason", lambda: None)
    monkeypatch.setattr(kernels, "cubin", lambda problem, tables, target: Path(f"{tables}.{target}.cubin"))
    gpu, cpu = (train(data, learner, Schedule(40, 4, 2), backend) for backend in ("gpu", "cpu"))
    np.testing.assert_array_equal(gpu.q_raw.view(np.uint32), cpu.q_raw.view(np.uint32))
    assert cupy.loaded == [f"{cupy.build[1]}.sm_90.cubin"]
    assert cupy.raised == ([("train", 8192)] if states == 16 else []), (
        "shared memory is asked for where it is used"
    )
    assert gpu.machine["device"] == "A fake"
    assert gpu.machine["tables"] == cupy.build[1]
    assert gpu.breakdown.pim_kernel == pytest.approx(2e-3), (
        "a tick of the fake's events, one millisecond, a round"
    )


def test_a_full_gpu_is_one_sentence(monkeypatch):
    cupy = FakeCupy(devices=1).install(monkeypatch)
    monkeypatch.setattr(kernels, "cubin", lambda *_: Path("x.cubin"))
    machine = CudaDevice()
    cupy.free = 1000
    with pytest.raises(
        SwiftRLError, match=r"no room for 2,000 bytes \(1,000 of 5,000 are free\): use fewer cores"
    ):
        machine.empty(2000)
    GpuBackend(Problem(Learner(), 16, 4), 8, machine, Tables.IN_SHARED_MEMORY).close()
    assert cupy.freed


def test_a_case_of_the_benchmark_counts_bytes_and_updates():
    data = collect("frozenlake", 500, seed=0)
    row = bench.measure(data, Learner(), 4, TickingMachine())
    updates = 500 * bench.EPISODES
    assert row["updates_per_s"] == updates / 2.0
    assert row["updates_per_s_averaged"] == updates / 2.5
    assert row["bytes_per_s"] == updates / 2.0 * (8 + 16 + 8)


def test_benchmark_goes_through_every_case(monkeypatch):
    monkeypatch.setattr(bench, "TRANSITIONS", {"frozenlake": 500})
    monkeypatch.setattr(bench, "CORES", (3, 40))

    def open_on_host(name, problem, cores, **options):
        if name == "cpu":
            return backends.open_backend(name, problem, cores, **options)
        return GpuBackend(problem, cores, HostGpu(), Tables.IN_SHARED_MEMORY)

    monkeypatch.setattr(bench, "open_backend", open_on_host)
    rows = list(bench.cases(("gpu",)))
    assert [(row["format"], row["cores"]) for row in rows] == [
        (f, n) for f in ("FP32", "INT32") for n in (3, 40)
    ]
    assert all(row["times_cpu"] > 0 for row in rows)
    assert {row["evidence"] for row in rows} == {"measured"}


def test_benchmark_table_says_what_was_measured():
    row = {"backend": "gpu", "environment": "taxi", "format": "INT32", "cores": 200_000, "times_cpu": 21.53}
    row |= {"updates_per_s": 5e10, "updates_per_s_averaged": 4e10, "bytes_per_s": 2e12}
    text = bench.table([row | {"device": {"device": "A card"}, "copy_bytes_per_s": 4e12}])
    assert "- device: A card" in text
    assert "| gpu | taxi | INT32 | 200,000 | 50.00 | 40.00 | 21.5 | 2,000 | 50% |" in text
    assert re.search("measured, by CUDA events", text)


class TickingMachine:
    """Averages by itself; every round but the first, which warms up, takes 2 s and half a second."""

    def load(self, chunks):
        return 1.0

    def __init__(self):
        self._kernel_s = 100.0

    def run_averaged_round(self, table, episodes):
        kernel_s, self._kernel_s = self._kernel_s, 2.0
        return backends.Round(table[np.newaxis], 0.0, kernel_s, 0.0, averaging_s=0.5)

    def close(self):
        pass


class FakeCupy:
    """As much of CuPy as CudaDevice uses, and as strict: buffers of bytes, typed scalars, keywords by name."""

    def __init__(self, devices):
        self.devices, self.free, self.freed, self.build = devices, 1 << 40, False, None
        self.loaded, self.raised, self.time = [], [], 0

    def install(self, monkeypatch):
        module = ModuleType("cupy")
        module.__version__ = "0"
        module.empty, module.RawModule = self._empty, self._raw_module
        module.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=self._free)
        self._error = type("CUDARuntimeError", (RuntimeError,), {})
        self._full = type("OutOfMemoryError", (MemoryError,), {})
        module.cuda = SimpleNamespace(
            Device=lambda: SimpleNamespace(id=0, compute_capability="90"),
            Event=lambda: FakeEvent(self),
            get_elapsed_time=lambda start, stop: float(stop.time - start.time),
            memory=SimpleNamespace(OutOfMemoryError=self._full),
            runtime=SimpleNamespace(
                CUDARuntimeError=self._error,
                getDeviceCount=self._device_count,
                cudaDevAttrMaxSharedMemoryPerBlockOptin=97,
                deviceGetAttribute=lambda attribute, number: {(97, 0): 227 * 1024}[attribute, number],
                getDeviceProperties=lambda number: {
                    "name": b"A fake",
                    "multiProcessorCount": 1,
                    "totalGlobalMem": 5000,
                },
                driverGetVersion=lambda: 13000,
                runtimeGetVersion=lambda: 13000,
                memGetInfo=lambda: (self.free, 5000),
            ),
        )
        monkeypatch.setitem(sys.modules, "cupy", module)
        return self

    def _device_count(self):
        if self.devices is None:
            raise self._error("cudaErrorInsufficientDriver")
        return self.devices

    def _empty(self, size, dtype):
        assert dtype == np.uint8
        if size > self.free:
            raise self._full
        return FakeArray(np.full(size, 0xC3, np.uint8))

    def _free(self):
        self.freed = True

    def _raw_module(self, *, path):
        self.loaded.append(path)
        return SimpleNamespace(get_function=lambda name: FakeKernel(self, name))


class FakeEvent:
    def __init__(self, cupy):
        self._cupy, self.time = cupy, None

    def record(self):
        self._cupy.time += 1
        self.time = self._cupy.time

    def synchronize(self):
        assert self.time is not None


class FakeArray:
    def __init__(self, data):
        self.host = data

    def __getitem__(self, part):
        return FakeArray(self.host[part])

    def set(self, array):
        assert array.dtype == self.host.dtype
        assert array.shape == self.host.shape
        self.host[:] = array

    def get(self, *, out):
        assert out.dtype == self.host.dtype
        assert out.shape == self.host.shape
        assert out.flags.c_contiguous
        out[:] = self.host


class FakeKernel:
    def __init__(self, cupy, name):
        object.__setattr__(self, "_cupy", cupy)
        object.__setattr__(self, "_name", name)

    def __setattr__(self, name, value):
        assert name == "max_dynamic_shared_size_bytes"
        self._cupy.raised.append((self._name, value))

    def __call__(self, grid, block, args, *, shared_mem=0):
        assert shared_mem in {0, *(value for name, value in self._cupy.raised if name == self._name)}
        library = build_for_host(self._cupy.build[0], Tables(self._cupy.build[1]))
        assert all(isinstance(value, np.uint32 | FakeArray) for value in args), (
            "a bare int would be 64 bits wide"
        )
        values = [
            c_void_p(v.host.ctypes.data) if isinstance(v, FakeArray) else c_uint32(int(v)) for v in args
        ]
        getattr(library, f"launch_{self._name}")(c_uint32(grid[0]), c_uint32(block[0]), *values)


def test_cupy_has_what_the_device_asks_for():
    """Against the real CuPy, which imports without a GPU; the fake above must not be its only judge."""
    cupy = pytest.importorskip("cupy", exc_type=ImportError)
    wanted = "empty RawModule get_default_memory_pool cuda.Device cuda.Event cuda.get_elapsed_time"
    wanted += " cuda.get_current_stream cuda.memory.OutOfMemoryError cuda.Device.compute_capability"
    wanted += " cuda.Event.record cuda.Event.synchronize RawModule.get_function ndarray.set ndarray.get"
    wanted += " RawKernel.max_dynamic_shared_size_bytes"
    runtime = "CUDARuntimeError getDeviceCount cudaDevAttrMaxSharedMemoryPerBlockOptin deviceGetAttribute"
    runtime += (
        " getDeviceProperties driverGetVersion runtimeGetVersion memGetInfo memcpyAsync memcpyDeviceToDevice"
    )
    for name in [*wanted.split(), *(f"cuda.runtime.{name}" for name in runtime.split())]:
        operator.attrgetter(name)(cupy)
