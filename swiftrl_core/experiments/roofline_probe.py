"""The roofline as a probe: operations and bytes of an update counted, ceilings and speeds measured. Experiment 08.

An update of Q-learning does few operations for each byte it touches. They are counted here from the rule of
`dpu_src/td_update.h`; `roofline.c` measures the peak rates of memory and arithmetic on one core, in the same run as the
learners themselves. The ceilings of a DPU follow from the hardware profile; its speed is simulated.
"""

import ctypes
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from swiftrl_core.backend import Problem, open_backend
from swiftrl_core.data import Dataset, collect
from swiftrl_core.dpusim import MODEL_VERSION
from swiftrl_core.dpusim.timing import dma_cycles, resolve_hardware
from swiftrl_core.dpusim.validation.published import SATURATING_TASKLETS
from swiftrl_core.experiments import reference_fp64
from swiftrl_core.learner import Learner
from swiftrl_core.learner.chunks import split
from swiftrl_core.sweeps.probe import Probe
from swiftrl_core.sweeps.results import column
from swiftrl_core.util.toolchain import INT64, POINTER, load_library

SOURCE = Path(__file__).parent / "roofline.c"
RECORD_BYTES = 8
ENTRY_BYTES = 4
AUTHORS_RECORD_BYTES = 24
AUTHORS_ENTRY_BYTES = 8
"""In the authors' released code, which uses doubles (`reference_fp64.c`)."""
DMA_BLOCK_BYTES = 2048
HOST = "one core of this CPU"
DPU = "one DPU"
CACHES = {"L1": 16 << 10, "L2": 256 << 10}
"""Bytes to read repeatedly, few enough for the cache of that name."""
PEAKS = {"vectors": "peak_vector", "scalar": "peak_scalar"}
"""Name to function in roofline.c."""
LEARNERS = {
    "engine, cores in vectors": "FP32",
    "one update after the other": "FP32",
    "authors' shape, doubles": "FP64",
}
"""Name of a learner on this CPU to its number format."""
DPU_PEAKS = {f"{SATURATING_TASKLETS}+ tasklets": 1, "1 tasklet": SATURATING_TASKLETS}
"""Name to cycles from one instruction to the next."""
PASSES = 4
"""Passes of a learner over its data in a measurement."""
READ_BYTES = 128 << 20
"""Bytes read in a measurement of a cache."""
PEAK_STEPS = 200_000


@dataclass(frozen=True)
class Work:
    """Operations and bytes of an update, counted, on average over a data set.

    Attributes
    ----------
    operations : float
        Arithmetic on values: comparisons of the maximum, two products, two sums, a difference.
    bytes_touched : float
        Loads and stores: the record, the next state's row, the entry twice.
    bytes_streamed : float
        Of these, the record: a pass reads each once, while the table stays in the caches.
    """

    operations: float
    bytes_touched: float
    bytes_streamed: float


def count(dataset: Dataset, record_bytes: int = RECORD_BYTES, entry_bytes: int = ENTRY_BYTES) -> Work:
    """Count the operations and bytes of a Q-learning update from the rule, with the data's share of terminations.

    Every update takes a difference, a product and a sum. One that bootstraps also compares its way through the next
    state's row, A - 1 times, multiplies by gamma and adds the reward.
    """
    bootstraps = 1 - float(np.mean(dataset.terminated))
    operations = 3 + bootstraps * (dataset.n_actions - 1 + 2)
    touched = record_bytes + 2 * entry_bytes + bootstraps * dataset.n_actions * entry_bytes
    return Work(operations, touched, record_bytes)


@dataclass(frozen=True, kw_only=True)
class Speed(
    Probe,
    kind_of_run="Speed",
    found=pa.schema(
        [
            column("value", pa.float64()),
            column("unit", pa.string()),
            # of a learner's update
            column("ns_per_update", pa.float64(), nullable=True),
            column("operations", pa.float64(), nullable=True),
            column("bytes_touched", pa.float64(), nullable=True),
            column("bytes_streamed", pa.float64(), nullable=True),
            column("evidence", pa.string()),
            column("hardware_profile", pa.string(), nullable=True),
            column("model_version", pa.string(), nullable=True),
            column("source", pa.string()),
        ]
    ),
):
    """A ceiling of a machine, or the speed of a learner on it.

    Attributes
    ----------
    machine : str
        `HOST` or `DPU`.
    kind : str
        bandwidth (bytes/s), peak (operations/s) or learner (operations/s).
    name : str
        A cache's, or memory; a key of `PEAKS`, `DPU_PEAKS` or `LEARNERS`.
    environment, number_format : str
        Of a learner.
    transitions : int
        Of a learner's data.
    cores : int
        Virtual cores of the engine.
    passes : int
        Over its data, of the simulated DPU.
    bytes_read : int
        Of a bandwidth of this CPU: how much is read, again and again.
    repetitions : int
        Measurements on this CPU, of a few milliseconds, so that some of them are undisturbed; the best counts.
    """

    machine: str
    kind: str
    name: str
    environment: str | None = None
    number_format: str | None = None
    transitions: int | None = None
    cores: int | None = None
    passes: int | None = None
    bytes_read: int | None = None
    repetitions: int | None = None

    @property
    def updates(self) -> int:
        """Weight in an estimate; a repetition of reading, or of computing at the peak, counts as one update."""
        return (self.transitions or 1) * (self.passes or 1) * (self.repetitions or 1)

    def small(self, times: int) -> Self:
        """Return the same with fewer repetitions, or on a DPU with fewer passes."""
        few = {name: min(times, own) for name in ("passes", "repetitions") if (own := getattr(self, name))}
        return replace(self, **few)

    def measure(self) -> dict:
        """Measure, simulate or compute it."""
        return dict.fromkeys(_OPTIONAL) | _SPEEDS[self.machine, self.kind](self)


# --- this CPU ---------------------------------------------------------------------------------------------


def _host_bandwidth(speed: Speed) -> dict:
    words = np.ones(speed.bytes_read // 8, np.uint64)
    passes = max(1, READ_BYTES // speed.bytes_read)
    read = partial(_library().read_stream, words.ctypes.data, len(words), passes)
    rate = passes * speed.bytes_read / _least(read, speed.repetitions)
    return _rate(rate, "bytes/s", "measured", f"roofline.c: reads {speed.bytes_read:,} bytes")


def _host_peak(speed: Speed) -> dict:
    function, sink = getattr(_library(), PEAKS[speed.name]), ctypes.c_float()
    work = partial(function, PEAK_STEPS, 0.999, 0.001, ctypes.byref(sink))
    rate = work() / _least(work, speed.repetitions)
    return _rate(rate, "operations/s", "measured", "roofline.c: FP32 products and sums, not fused")


def _host_learner(speed: Speed) -> dict:
    dataset = collect(speed.environment, speed.transitions, seed=0)
    if LEARNERS[speed.name] == "FP64":
        work = count(dataset, AUTHORS_RECORD_BYTES, AUTHORS_ENTRY_BYTES)
        return _learner(_doubles(dataset, speed.repetitions), work, "measured")
    backend = ("cpu", {"threads": 1}) if speed.cores > 1 else ("cpu-local", {})
    return _learner(_update_seconds(dataset, speed, *backend), count(dataset), "measured")


def _update_seconds(dataset: Dataset, speed: Speed, backend: str, options: dict) -> float:
    """Return the processor seconds of an update: the additional time of more passes, so that set-up does not count."""
    learner = Learner(reward_range=dataset.reward_range)
    problem = Problem(learner, dataset.n_states, dataset.n_actions)
    zeros = np.zeros(problem.entries, learner.dtype)
    opened = open_backend(backend, problem, speed.cores, **options)
    try:
        opened.load(split(dataset, learner, speed.cores))
        few, many = (
            _least(lambda passes=passes: opened.run_round(zeros, passes), speed.repetitions)
            for passes in (PASSES, 3 * PASSES)
        )
    finally:
        opened.close()
    return (many - few) / (len(dataset) * 2 * PASSES)


def _doubles(dataset: Dataset, repetitions: int) -> float:
    """Return the processor seconds of an update in double precision."""
    records, q = reference_fp64.records(dataset), np.zeros((dataset.n_states, dataset.n_actions))
    return _least(lambda: reference_fp64.learn(q, records, 0.1, 0.95), repetitions) / len(dataset)


# --- a DPU: its ceilings follow from the hardware profile and the DMA's formula ---------------------------


def _dpu_bandwidth(speed: Speed) -> dict:
    server = resolve_hardware(None)
    if speed.name == "WRAM":
        rate, source = ENTRY_BYTES * server.clock_hz, f"hardware profile {server.name}: a 4-byte load a cycle"
    else:
        rate = DMA_BLOCK_BYTES * server.clock_hz / dma_cycles(DMA_BLOCK_BYTES)
        source = f"PrIM's fit: DMA of {DMA_BLOCK_BYTES:,} bytes"
    return _rate(rate, "bytes/s", "modelled", source) | {"hardware_profile": server.name}


def _dpu_peak(speed: Speed) -> dict:
    server, cycles = resolve_hardware(None), DPU_PEAKS[speed.name]
    often = "1 instruction a cycle" if cycles == 1 else f"one in {cycles} cycles"
    found = _rate(
        server.clock_hz / cycles, "operations/s", "modelled", f"hardware profile {server.name}: {often}"
    )
    return found | {"hardware_profile": server.name}


def _dpu_learner(speed: Speed) -> dict:
    server, dataset = resolve_hardware(None), collect(speed.environment, speed.transitions, seed=0)
    learner = Learner(number_format=speed.number_format, reward_range=dataset.reward_range)
    problem = Problem(learner, dataset.n_states, dataset.n_actions)
    opened = open_backend("pim", problem, 1, hardware=server.name)
    try:
        opened.load(split(dataset, learner, 1))
        table = opened.run_round(np.zeros(problem.entries, learner.dtype), 1).tables[0]  # zeros are cheap
        kernel = opened.run_round(table, speed.passes).kernel_s
        evidence = str(opened.evidence)
    finally:
        opened.close()
    simulated = (
        {"hardware_profile": server.name, "model_version": MODEL_VERSION} if evidence == "simulated" else {}
    )
    launch = server.launch_s if simulated else 0.0
    seconds = (kernel - launch) / (len(dataset) * speed.passes)
    return _learner(seconds, count(dataset), evidence) | simulated


# --- rows -------------------------------------------------------------------------------------------------

_SPEEDS = {
    (HOST, "bandwidth"): _host_bandwidth,
    (HOST, "peak"): _host_peak,
    (HOST, "learner"): _host_learner,
    (DPU, "bandwidth"): _dpu_bandwidth,
    (DPU, "peak"): _dpu_peak,
    (DPU, "learner"): _dpu_learner,
}
_OPTIONAL = (
    *("ns_per_update", "operations", "bytes_touched", "bytes_streamed"),
    *("hardware_profile", "model_version"),
)


def _rate(value: float, unit: str, evidence: str, source: str) -> dict:
    return {"value": float(value), "unit": unit, "evidence": evidence, "source": source}


def _learner(seconds: float, work: Work, evidence: str) -> dict:
    """Return the columns of a learner with this time per update, in seconds."""
    source = "Q-learning SEQ; operations and bytes counted from td_update.h"
    return (
        _rate(work.operations / seconds, "operations/s", evidence, source)
        | {"ns_per_update": seconds * 1e9}
        | asdict(work)
    )


def _least(work: Callable[[], object], repetitions: int) -> float:
    """Return the least processor seconds of several runs, all threads together.

    A ceiling is the best that the machine can do, and a shared machine is at its best only now and then. Processor time
    leaves out the time of other processes.
    """
    work()
    return min(_processor_seconds(work) for _ in range(repetitions))


def _processor_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _library() -> ctypes.CDLL:
    real = ctypes.c_float
    peak = (INT64, [INT64, real, real, ctypes.POINTER(real)])
    read = (ctypes.c_uint64, [POINTER, INT64, INT64])
    return load_library([SOURCE], {"read_stream": read, "peak_vector": peak, "peak_scalar": peak})
