"""The roofline of the update: operations and bytes counted, ceilings and speeds measured on one core of this machine.

An update of Q-learning does few operations for each byte it touches. How few is counted here from the rule of
`dpu_src/td_update.h`; how fast memory and arithmetic can be at best is measured by `roofline.c` in the same run as the
learners themselves. Beside it stands one DPU: its ceilings follow from the hardware profile, its speed is simulated.
"""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from swiftrl_core import toolchain
from swiftrl_core.backends import Problem, open_backend
from swiftrl_core.chunks import split
from swiftrl_core.cpu import doubles
from swiftrl_core.datasets import Dataset, collect
from swiftrl_core.dpusim.timing import HardwareProfile, dma_cycles, resolve_profile
from swiftrl_core.dpusim.validation.published import SATURATING_TASKLETS
from swiftrl_core.learner import Learner

SOURCE = Path(__file__).parent / "roofline.c"
RECORD_BYTES = 8
ENTRY_BYTES = 4
AUTHORS_RECORD_BYTES = 24
AUTHORS_ENTRY_BYTES = 8
"""Of the shape of the authors' released code: doubles (`cpu/rivals.c`)."""
DMA_BLOCK_BYTES = 2048
HOST = "one core of this CPU"
DPU = "one DPU"
COLUMNS = (
    *("machine", "kind", "name", "environment", "number_format", "value", "unit"),
    *("ns_per_update", "operations", "bytes_touched", "bytes_streamed", "evidence", "source"),
)


@dataclass(frozen=True)
class Work:
    """What an update costs, as counted, on average over a data set.

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


@dataclass(frozen=True)
class Size:
    """How much to measure.

    Attributes
    ----------
    transitions, cores : int
        Of the data set; virtual cores of the engine.
    repetitions : int
        Measurements of each speed, of a few milliseconds, so that some of them are undisturbed; the best counts.
    memory : int
        Bytes to read from memory, more than the caches hold.
    dpu_transitions, dpu_passes : int
        What the simulated DPU learns from, and how often.
    """

    transitions: int
    cores: int
    repetitions: int
    memory: int
    dpu_transitions: int
    dpu_passes: int


SIZES = {
    "smoke": Size(50_000, 128, 5, 64 << 20, 1_000, 2),
    "quick": Size(1_000_000, 2000, 25, 256 << 20, 4_000, 10),
    "paper": Size(1_000_000, 2000, 50, 256 << 20, 8_000, 50),
}
"""By profile."""
PASSES = 4
"""Of a learner over its data in a measurement."""
READ_BYTES = 128 << 20
"""Of a measurement of a cache."""
PEAK_STEPS = 200_000


def measure(profile: str = "smoke", hardware: str | None = None) -> pd.DataFrame:
    """Measure ceilings and speeds on one core of this machine, and simulate those of one DPU.

    Parameters
    ----------
    profile : str
        A name of `SIZES`.
    hardware : str, optional
        Hardware profile of the simulator.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`. `kind` is bandwidth (value in bytes/s), peak (operations/s), or learner (operations/s, with
        ns_per_update and the counted operations, bytes_touched and bytes_streamed of an update).
    """
    size, server = SIZES[profile], resolve_profile(hardware)
    rows = _host_ceilings(size) + _dpu_ceilings(server)
    for environment in ("frozenlake", "taxi"):
        dataset = collect(environment, size.transitions, seed=0)
        rows += _host_learners(dataset, environment, size)
        rows += _dpu_learners(dataset.rows(0, size.dpu_transitions), environment, size, server)
    return pd.DataFrame(rows, columns=COLUMNS)


# --- this CPU ---------------------------------------------------------------------------------------------


def _host_ceilings(size: Size) -> list[dict]:
    library, sink = _library(), ctypes.c_float()
    found = []
    for name, nbytes in {"L1": 16 << 10, "L2": 256 << 10, "memory": size.memory}.items():
        words, passes = np.ones(nbytes // 8, np.uint64), max(1, READ_BYTES // nbytes)
        read = partial(library.read_stream, words.ctypes.data, len(words), passes)
        rate = passes * nbytes / _least(read, size.repetitions)
        found.append(_ceiling(HOST, "bandwidth", name, rate, f"roofline.c: reads {nbytes:,} bytes"))
    for name, function in {"vectors": library.peak_vector, "scalar": library.peak_scalar}.items():
        work = partial(function, PEAK_STEPS, 0.999, 0.001, ctypes.byref(sink))
        rate = work() / _least(work, size.repetitions)
        found.append(_ceiling(HOST, "peak", name, rate, "roofline.c: FP32 products and sums, not fused"))
    return found


def _host_learners(dataset: Dataset, environment: str, size: Size) -> list[dict]:
    learner = Learner(reward_range=dataset.reward_range)
    work = count(dataset)
    engine = _update_seconds(dataset, learner, "cpu", size.cores, size, threads=1)
    plain = _update_seconds(dataset, learner, "cpu-local", 1, size)
    wide = count(dataset, AUTHORS_RECORD_BYTES, AUTHORS_ENTRY_BYTES)
    return [
        _learner(HOST, "engine, cores in vectors", environment, "FP32", engine, work, "measured"),
        _learner(HOST, "one update after the other", environment, "FP32", plain, work, "measured"),
        _learner(
            HOST, "authors' shape, doubles", environment, "FP64", _doubles(dataset, size), wide, "measured"
        ),
    ]


def _update_seconds(
    dataset: Dataset, learner: Learner, backend: str, cores: int, size: Size, **options
) -> float:
    """Return the processor seconds an update takes: what more passes cost more, so that setting up does not count."""
    problem = Problem(learner, dataset.n_states, dataset.n_actions)
    zeros = np.zeros(problem.entries, learner.dtype)
    opened = open_backend(backend, problem, cores, **options)
    try:
        opened.load(split(dataset, learner, cores))
        few, many = (
            _least(lambda passes=passes: opened.run_round(zeros, passes), size.repetitions)
            for passes in (PASSES, 3 * PASSES)
        )
    finally:
        opened.close()
    return (many - few) / (len(dataset) * 2 * PASSES)


def _doubles(dataset: Dataset, size: Size) -> float:
    """Return the processor seconds an update takes in double precision."""
    records, q = doubles.records(dataset), np.zeros((dataset.n_states, dataset.n_actions))
    return _least(lambda: doubles.learn(q, records, 0.1, 0.95), size.repetitions) / len(dataset)


# --- a DPU ------------------------------------------------------------------------------------------------


def _dpu_ceilings(server: HardwareProfile) -> list[dict]:
    """Return what the hardware profile and the DMA's formula say."""
    clock = server.clock_hz
    mram = DMA_BLOCK_BYTES * clock / dma_cycles(DMA_BLOCK_BYTES)
    profile = f"hardware profile {server.name}"
    return [
        _ceiling(
            DPU, "bandwidth", "WRAM", ENTRY_BYTES * clock, f"{profile}: a 4-byte load a cycle", "modelled"
        ),
        _ceiling(DPU, "bandwidth", "MRAM", mram, f"PrIM's fit: DMA of {DMA_BLOCK_BYTES:,} bytes", "modelled"),
        _ceiling(
            DPU,
            "peak",
            f"{SATURATING_TASKLETS}+ tasklets",
            clock,
            f"{profile}: 1 instruction a cycle",
            "modelled",
        ),
        _ceiling(
            DPU, "peak", "1 tasklet", clock / SATURATING_TASKLETS, f"{profile}: one in 11 cycles", "modelled"
        ),
    ]


def _dpu_learners(dataset: Dataset, environment: str, size: Size, server: HardwareProfile) -> list[dict]:
    rows = []
    for number_format in ("INT32", "FP32"):
        learner = Learner(number_format=number_format, reward_range=dataset.reward_range)
        problem = Problem(learner, dataset.n_states, dataset.n_actions)
        opened = open_backend("pim", problem, 1, hardware=server.name)
        try:
            opened.load(split(dataset, learner, 1))
            table = opened.run_round(np.zeros(problem.entries, learner.dtype), 1).tables[0]  # zeros are cheap
            kernel = opened.run_round(table, size.dpu_passes).kernel_s
            evidence = str(opened.evidence)
        finally:
            opened.close()
        launch = server.launch_s if evidence == "simulated" else 0.0
        seconds = (kernel - launch) / (len(dataset) * size.dpu_passes)
        name = "kernel, 1 tasklet"
        rows.append(_learner(DPU, name, environment, number_format, seconds, count(dataset), evidence))
    return rows


# --- rows -------------------------------------------------------------------------------------------------


def _ceiling(
    machine: str, kind: str, name: str, value: float, source: str, evidence: str = "measured"
) -> dict:
    unit = "bytes/s" if kind == "bandwidth" else "operations/s"
    return {
        "machine": machine,
        "kind": kind,
        "name": name,
        "value": value,
        "unit": unit,
        "evidence": evidence,
        "source": source,
    }


def _learner(
    machine: str, name: str, environment: str, number_format: str, seconds: float, work: Work, evidence: str
) -> dict:
    return {
        "machine": machine,
        "kind": "learner",
        "name": name,
        "environment": environment,
        "number_format": number_format,
        "value": work.operations / seconds,
        "unit": "operations/s",
        "ns_per_update": seconds * 1e9,
        "operations": work.operations,
        "bytes_touched": work.bytes_touched,
        "bytes_streamed": work.bytes_streamed,
        "evidence": evidence,
        "source": "Q-learning SEQ; operations and bytes counted from td_update.h",
    }


def _least(work: Callable[[], object], repetitions: int) -> float:
    """Return the least processor seconds of several runs, all threads together.

    A ceiling is what the machine can do at best, and a machine that others use, too, is at its best now and then only.
    Processor time leaves out when it was theirs.
    """
    work()
    return min(_processor_seconds(work) for _ in range(repetitions))


def _processor_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(toolchain.compile_shared_library([SOURCE])))
    pointer, number, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
    library.read_stream.argtypes = [pointer, number, number]
    library.read_stream.restype = ctypes.c_uint64
    for function in (library.peak_vector, library.peak_scalar):
        function.argtypes, function.restype = [number, real, real, ctypes.POINTER(real)], number
    return library
