"""The kernels of the kernel study, how each is run on simulated DPUs, and the same training in double precision.

Steps that leave every bit as it was are build switches (`backends.pim.tuning`); each is built on those before it.
Steps that change bits have sources of their own in `dpu_src/study`.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from swiftrl_core.backend import Problem
from swiftrl_core.backends.pim import kernels
from swiftrl_core.backends.pim.backend import PimBackend
from swiftrl_core.backends.pim.binding import open_dpu_set
from swiftrl_core.backends.pim.tuning import Step
from swiftrl_core.data import Dataset
from swiftrl_core.dpusim.timing import launch_seconds, resolve_hardware
from swiftrl_core.experiments import reference_fp64
from swiftrl_core.learner import Bootstrap, Learner, NumberFormat, Sampling, random_states
from swiftrl_core.learner.chunks import Chunks, lengths, split
from swiftrl_core.learner.layout import KERNEL_DIRECTORY, constant
from swiftrl_core.training import aggregation

TAU = 50
ROUNDS = 2
TASKLETS = (11, 16)
"""As many as fill the pipeline, and as many as the smaller chip has."""
STUDY = KERNEL_DIRECTORY / "study"
NAMES = {
    Step.KNOWN_COEFFICIENTS: "alpha, gamma known",
    Step.CONSTANT_DIVISION: "division by shifts",
    Step.CONSTANT_PRODUCTS: "products by shifts",
    Step.INTEGER_COMPARISON: "integer comparison",
    Step.KEPT_MAXIMA: "maxima kept",
    Step.HELD_CHUNK: "chunk held in WRAM",
    Step.FACTORED_LCG: "LCG by factors",
}
"""Name of each step in tables and figures."""


class Kind(StrEnum):
    """Relation of a variant to `--kernel paper`; `PAPER` is that kernel, in INT32 also with unreduced fractions."""

    PAPER = "the paper's"
    STEP = "same bits"
    BOUND = "bound"
    OTHER_BITS = "other bits"
    OTHER_LEARNER = "other learner"


@dataclass(frozen=True)
class Variant:
    """A kernel to run: its name, its relation to the paper's kernel, its problem, and how it is built.

    Without a source it is the kernel of the backend.
    """

    name: str
    kind: Kind
    problem: Problem
    steps: tuple[Step, ...] = ()
    source: Path | None = None
    tasklets: int = 1
    scaled_index: bool = False

    def build(self) -> Path:
        """Return the program, from the cache if it was built before."""
        if self.tasklets > 1:
            return kernels.compile_learner(self.problem, self.tasklets, kernel="tuned", for_hardware=False)
        return kernels.compile_steps(self.problem, self.steps, self.source)


@dataclass(frozen=True)
class Unreduced(Problem):
    """An INT32 problem with the paper's coefficients, alpha * 10,000 and gamma * 10,000, each divided by 10,000 again.

    The authors' INT32 kernel has not been released; this is ours with their scale. It makes the same numbers as with
    fractions in lowest terms, as long as products fit 32 bits (`fixed_point.h`).
    """

    def arguments(self, chunks: Chunks) -> np.ndarray:
        """Return every core's `learner_args`; see `Problem.arguments`."""
        args = super().arguments(chunks)
        for name in ("alpha", "gamma"):
            factor = constant("INT32_SCALE") // args[f"{name}_scale"]
            args[name] *= factor
            args[f"{name}_scale"] *= factor
        return args


def variants(problem: Problem) -> Iterator[Variant]:
    """Yield the kernels to run for a problem: the paper's, then the steps one by one, then those that change bits."""
    learner = problem.learner
    if learner.number_format == NumberFormat.INT32:
        yield Variant("paper, unreduced", Kind.PAPER, Unreduced(**vars(problem)))
        yield Variant("paper, lowest terms", Kind.PAPER, problem)
    else:
        yield Variant("paper", Kind.PAPER, problem)
    tuned = kernels.steps_of(problem, "tuned")
    for count, step in enumerate(tuned, 1):
        yield Variant(NAMES[step], Kind.STEP, problem, tuned[:count])
    if learner.sampling == Sampling.RAN:
        source = STUDY / "scaled_index.c"
        yield Variant("scaled index", Kind.OTHER_BITS, problem, tuned, source, scaled_index=True)
    if learner.number_format == NumberFormat.INT32:
        binary = replace(problem, learner=replace(learner, number_format=NumberFormat.INT32_POW2))
        steps = kernels.steps_of(binary, "tuned")
        yield Variant("scale 2^13", Kind.OTHER_BITS, binary, steps)
        yield Variant("fused update", Kind.OTHER_BITS, binary, steps, STUDY / "fused_update.c")
    if learner.sampling == Sampling.SEQ:
        frozen = replace(problem, learner=replace(learner, bootstrap=Bootstrap.FROZEN))
        for tasklets in TASKLETS:
            yield Variant(f"{tasklets} tasklets", Kind.OTHER_LEARNER, frozen, tasklets=tasklets)


def run(variant: Variant, program: Path, dataset: Dataset, dpus: int) -> tuple[dict, np.ndarray]:
    """Train on simulated DPUs; return the costs of the last launch and the averaged table (entries,), raw."""
    chunks = split(dataset, variant.problem.learner, dpus)
    machine = open_dpu_set(dpus, program, platform="simulator")
    backend = PimBackend(variant.problem, machine, variant.tasklets)
    table = np.zeros(variant.problem.entries, variant.problem.learner.dtype)
    try:
        backend.load(chunks)
        for _ in range(ROUNDS):
            table = aggregation.mean(backend.run_round(table, TAU).tables)
        runs = machine.last_run
    finally:
        backend.close()
    updates = len(dataset) * TAU
    cost = {
        "instructions": sum(int(run.instructions.sum()) for run in runs) / updates,
        "cycles": sum(run.cycles for run in runs) / updates,
        "dma_cycles": sum(float(run.dma_cycles.sum()) for run in runs) / updates,
        "dma_bytes": sum(int(run.dma_bytes_read.sum() + run.dma_bytes_written.sum()) for run in runs)
        / updates,
        "launch_ms": 1e3 * launch_seconds(resolve_hardware(None), max(run.cycles for run in runs)),
    }
    return cost, table


def reference(dataset: Dataset, learner: Learner, cores: int, *, scaled_index: bool = False) -> np.ndarray:
    """Return the table of the same training in double precision, float64 (states, actions).

    Parameters
    ----------
    dataset : Dataset
    learner : Learner
        Its sampling orders the transitions.
    cores : int
    scaled_index : bool
        RAN draws as `dpu_src/study/scaled_index.c` does, not as `lcg_below`.
    """
    parts = np.split(reference_fp64.records(dataset), np.cumsum(lengths(len(dataset), cores))[:-1])
    states = random_states(0, np.arange(cores))
    orders = [
        list(_orders(learner.sampling, len(part), state, scaled_index))
        for part, state in zip(parts, states, strict=True)
    ]
    q = np.zeros((dataset.n_states, dataset.n_actions))
    for number in range(ROUNDS):
        tables = np.repeat(q[np.newaxis], cores, axis=0)
        for table, part, order in zip(tables, parts, orders, strict=True):
            for episode in order[number * TAU : (number + 1) * TAU]:
                reference_fp64.learn(table, part[episode], learner.alpha, learner.gamma)
        q = tables.mean(axis=0)
    return q


def _orders(sampling: Sampling, rows: int, state: np.uint32, scaled_index: bool) -> Iterator[np.ndarray]:
    """Yield the rows of each episode, in the order in which a core of this generator's state learns from them."""
    if sampling != Sampling.RAN:
        stride = constant("STR_STRIDE") if sampling == Sampling.STR else 1
        order = np.concatenate([np.arange(offset, rows, stride) for offset in range(stride)])
        yield from itertools.repeat(order, TAU * ROUNDS)
        return
    draws = _lcg(state, rows * TAU * ROUNDS)
    below: Callable[[np.ndarray], np.ndarray] = (
        (lambda x: x.astype(np.uint64) * np.uint64(rows) >> np.uint64(32))
        if scaled_index
        else (lambda x: (x ^ x >> np.uint32(16)) % np.uint32(rows))
    )
    yield from below(draws).reshape(-1, rows).astype(np.int64)


def _lcg(state: np.uint32, count: int) -> np.ndarray:
    """Return the next numbers of `lcg.h`'s generator, uint32 (count,): x_n = a^n x_0 + c (1 + a + ... + a^(n-1))."""
    powers = np.multiply.accumulate(np.full(count, 1664525, np.uint32), dtype=np.uint32)
    sums = np.cumsum(np.concatenate([np.ones(1, np.uint32), powers[:-1]]), dtype=np.uint32)
    return powers * np.uint32(state) + sums * np.uint32(1013904223)
