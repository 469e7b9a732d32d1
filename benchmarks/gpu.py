"""The GPU's rate of updates, next to the CPU's and to its memory's: `swiftrl bench --only gpu`.

A case is an environment, a number format and a number of cores. Its rate is that of the median round of 50 episodes,
after one that warms up. Bytes are those that the updates load and store, wherever they are served from (device memory,
L2, L1 or shared memory): a record of 8, the next state's row, and an entry read and written. Compared with the rate of
a plain copy within the card's memory, they show how much of the traffic the caches and the shared memory serve. All
times are measured, by CUDA events; the CPU's by its clock.
"""

from collections.abc import Iterator
from statistics import median

import numpy as np

from swiftrl_core.backend import Backend, Evidence, Problem, open_backend
from swiftrl_core.backends.gpu.device import CudaDevice, unavailable_reason
from swiftrl_core.data import Dataset, collect
from swiftrl_core.learner import Learner
from swiftrl_core.learner.chunks import split
from swiftrl_core.util.errors import SwiftRLError

TRANSITIONS = {"frozenlake": 1_000_000, "taxi": 5_000_000}
"""The paper's data sets."""

CORES = (2_000, 20_000, 200_000)
FORMATS = ("FP32", "INT32")
BACKENDS = ("gpu", "gpu-shared")
EPISODES = 50
CPU_EPISODES = 5
CPU_THREADS = 2


def measure(dataset: Dataset, learner: Learner, cores: int, machine: Backend, rounds: int = 5) -> dict:
    """Time rounds of 50 episodes on a backend that averages by itself, and close it.

    Returns
    -------
    dict
        `kernel_s` and `averaging_s`, medians over the rounds; `updates_per_s`, by the kernel's time, and
        `updates_per_s_averaged`, by both together; `bytes_per_s`, as the module says.
    """
    table = np.zeros(dataset.n_states * dataset.n_actions, learner.dtype)
    try:
        machine.load(split(dataset, learner, cores))
        done = []
        for _ in range(rounds + 1):
            done.append(machine.run_averaged_round(table, EPISODES))
            (table,) = done[-1].tables
        del done[0]  # it warms up
    finally:
        machine.close()
    kernel_s = median(each.kernel_s for each in done)
    averaging_s = median(each.averaging_s for each in done)
    updates = len(dataset) * EPISODES
    return {
        "kernel_s": kernel_s,
        "averaging_s": averaging_s,
        "updates_per_s": updates / kernel_s,
        "updates_per_s_averaged": updates / (kernel_s + averaging_s),
        "bytes_per_s": updates / kernel_s * (8 + 4 * (dataset.n_actions + 2)),
    }


def cpu_rate(dataset: Dataset, learner: Learner, cores: int) -> float:
    """Return the updates a second of the `cpu` backend on two threads, the second of two rounds."""
    problem = Problem(learner, dataset.n_states, dataset.n_actions)
    machine = open_backend("cpu", problem, cores, threads=CPU_THREADS)
    try:
        machine.load(split(dataset, learner, cores))
        table = np.zeros(problem.entries, learner.dtype)
        seconds = [machine.run_round(table, CPU_EPISODES).kernel_s for _ in range(2)]
    finally:
        machine.close()
    return len(dataset) * CPU_EPISODES / seconds[1]


def cases(backends: tuple[str, ...] = BACKENDS) -> Iterator[dict]:
    """Measure every case on the given backends; yield a row each."""
    for environment, transitions in TRANSITIONS.items():
        dataset = collect(environment, transitions, seed=0)
        for number_format in FORMATS:
            learner = Learner(number_format=number_format, reward_range=dataset.reward_range)
            problem = Problem(learner, dataset.n_states, dataset.n_actions)
            for cores in CORES:
                reference = cpu_rate(dataset, learner, cores)
                for backend in backends:
                    measured = measure(dataset, learner, cores, open_backend(backend, problem, cores))
                    yield {
                        "backend": backend,
                        "environment": environment,
                        "format": number_format,
                        "cores": cores,
                        **measured,
                        "times_cpu": measured["updates_per_s"] / reference,
                        "evidence": str(Evidence.MEASURED),
                    }


def rows(backends: tuple[str, ...] = BACKENDS) -> list[dict]:
    """Measure the GPU of this machine.

    Returns
    -------
    list of dict
        `backend`, `environment`, `format`, `cores`, what `measure` returns, `times_cpu` (updates a second over those of
        the CPU on two threads), `copy_bytes_per_s`, `evidence`, and `device`, what the card says about itself.

    Raises
    ------
    SwiftRLError
        If there is no GPU to measure.
    """
    if reason := unavailable_reason():
        raise SwiftRLError(f"no GPU to measure: {reason}")
    device = CudaDevice()
    card = {"copy_bytes_per_s": device.copy_bandwidth(), "device": device.describe()}
    return [row | card for row in cases(backends)]


def table(measured: list[dict]) -> str:
    """Return the rows as a Markdown table, below the card they were measured on."""
    copy = measured[0]["copy_bytes_per_s"]
    heads = (
        "backend",
        "environment",
        "format",
        "cores",
        "G updates/s",
        "with averaging",
        f"x CPU ({CPU_THREADS} threads)",
        "GB/s",
        "of a copy's",
    )
    lines = [
        *(f"- {name}: {value}" for name, value in measured[0]["device"].items()),
        f"- a copy within its memory reads and writes {copy / 1e9:,.0f} GB/s",
        "",
        "| " + " | ".join(heads) + " |",
        "| " + " | ".join("---" for _ in heads) + " |",
    ]
    for row in measured:
        values = (
            row["backend"],
            row["environment"],
            row["format"],
            f"{row['cores']:,}",
            f"{row['updates_per_s'] / 1e9:.2f}",
            f"{row['updates_per_s_averaged'] / 1e9:.2f}",
            f"{row['times_cpu']:.1f}",
            f"{row['bytes_per_s'] / 1e9:,.0f}",
            f"{row['bytes_per_s'] / copy:.0%}",
        )
        lines.append("| " + " | ".join(values) + " |")
    return "\n".join([*lines, "", "All times are measured, by CUDA events; the CPU's by its clock."])
