"""How fast the GPU learns: `python -m benchmarks.gpu` prints the table of benchmarks/gpu.md.

A case is an environment, a number format and a number of cores. Its rate is that of the median round of 50 episodes,
after one that warms up. Bytes are those that the updates load and store, wherever they are served from (device memory,
L2, L1 or shared memory): a record of 8, the next state's row, and an entry read and written. Set beside what a plain
copy moves through the card's memory, they say how much of the traffic the caches and the shared memory take.
"""

import argparse
import sys
from collections.abc import Callable
from statistics import median

import numpy as np
import pandas as pd

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
        done = list(machine.run_rounds(table, [EPISODES] * (rounds + 1)))[1:]
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


def cases(backends: tuple[str, ...], report: Callable[[dict], None]) -> pd.DataFrame:
    """Measure every case on the given backends, a row each; `report` gets each row as it comes."""
    rows = []
    for environment, transitions in TRANSITIONS.items():
        dataset = collect(environment, transitions, seed=0)
        for number_format in FORMATS:
            learner = Learner(number_format=number_format, reward_range=dataset.reward_range)
            problem = Problem(learner, dataset.n_states, dataset.n_actions)
            for cores in CORES:
                reference = cpu_rate(dataset, learner, cores)
                for backend in backends:
                    case = {
                        "backend": backend,
                        "environment": environment,
                        "format": number_format,
                        "cores": cores,
                    }
                    case |= measure(dataset, learner, cores, open_backend(backend, problem, cores))
                    case["times_cpu"] = case["updates_per_s"] / reference
                    rows.append(case | {"evidence": str(Evidence.MEASURED)})
                    report(case)
    return pd.DataFrame(rows)


def to_markdown(frame: pd.DataFrame, machine: dict, copy_bytes_per_s: float) -> str:
    """Return the rows as a table, with the machine they were measured on above it."""
    lines = [f"- {name}: {value}" for name, value in machine.items()]
    lines += [f"- a copy within its memory reads and writes {copy_bytes_per_s / 1e9:,.0f} GB/s", ""]
    heads = [
        "backend",
        "environment",
        "format",
        "cores",
        "G updates/s",
        "with averaging",
        "x CPU (2 threads)",
        "GB/s",
    ]
    heads += ["of a copy's"]
    lines += ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    for row in frame.itertuples():
        cells = [row.backend, row.environment, row.format, f"{row.cores:,}"]
        cells += [
            f"{row.updates_per_s / 1e9:.2f}",
            f"{row.updates_per_s_averaged / 1e9:.2f}",
            f"{row.times_cpu:.1f}",
        ]
        cells += [f"{row.bytes_per_s / 1e9:,.0f}", f"{row.bytes_per_s / copy_bytes_per_s:.0%}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "All times are measured, by CUDA events; the CPU's by its clock."])


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--shared", action="store_true", help="measure the baseline gpu-shared too")
    chosen = parser.parse_args(arguments)
    reason = unavailable_reason()
    if reason:
        print(f"swiftrl: no GPU to measure: {reason}", file=sys.stderr)
        return 1
    try:
        device = CudaDevice()
        copy = device.copy_bandwidth()
        frame = cases(
            ("gpu", "gpu-shared") if chosen.shared else ("gpu",), lambda row: print(row, file=sys.stderr)
        )
        print(to_markdown(frame, device.describe(), copy))
    except SwiftRLError as error:
        print(f"swiftrl: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
