"""The learner kernel from the paper's to a fast one, a step at a time: what an update costs, and what it learns.

Every variant learns from the same chunks, by the same schedule: 2,000 DPUs would have chunks of these sizes, a few of
them are simulated. Costs are those of the last launch, from a table that has been learned (zeros would be cheap).
Quality is that of the averaged table after the same updates, against the same training in double precision.

Steps that leave every bit as it was are build switches (`pim.tuning`); each is built on top of those before it, and a
table that differs from the paper's kernel's stops the study. What was not adopted is measured as well: by sources of
its own in `dpu_src/study` where it changes bits, by a bound where more is not needed.
"""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from swiftrl_core.backend import Evidence, Problem
from swiftrl_core.backends.pim import kernels
from swiftrl_core.backends.pim.backend import PimBackend
from swiftrl_core.backends.pim.binding import open_dpu_set
from swiftrl_core.backends.pim.tuning import Step
from swiftrl_core.data import Dataset, collect
from swiftrl_core.data.evaluation import exact_return
from swiftrl_core.dpusim import MODEL_VERSION
from swiftrl_core.dpusim.timing import launch_seconds, resolve_hardware
from swiftrl_core.experiments import reference_fp64 as doubles
from swiftrl_core.learner import Bootstrap, Learner, NumberFormat, Sampling, random_states
from swiftrl_core.learner.chunks import Chunks, lengths, split
from swiftrl_core.learner.layout import KERNEL_DIRECTORY, constant
from swiftrl_core.training import aggregation
from swiftrl_core.util.errors import SwiftRLError

CHUNK = {"frozenlake": 500, "taxi": 2_500}
"""Transitions of one of 2,000 DPUs, of the paper's 1,000,000 and 5,000,000."""
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
"""What tables and figures call a step."""
COLUMNS = (
    *("environment", "number_format", "sampling", "step", "kind"),
    *("instructions", "cycles", "dma_cycles", "dma_bytes", "launch_ms", "saved", "speedup"),
    *("same_bits", "max_error", "exact_return", "dpus", "evidence", "hardware_profile", "model_version"),
)


class Kind(StrEnum):
    """What a variant is to `--kernel paper`; `PAPER` is that, and in INT32 also the same with unreduced fractions."""

    PAPER = "the paper's"
    STEP = "same bits"
    BOUND = "bound"
    OTHER_BITS = "other bits"
    OTHER_LEARNER = "other learner"


@dataclass(frozen=True)
class Size:
    """How much to study: which learners (environment, number format, sampling), and on how many simulated DPUs each."""

    cases: tuple[tuple[str, str, str], ...]
    dpus: int


_ALL = tuple(itertools.product(CHUNK, ("INT32", "FP32"), ("SEQ", "STR", "RAN")))
SIZES = {
    "smoke": Size(
        (("frozenlake", "INT32", "SEQ"), ("frozenlake", "INT32", "RAN"), ("frozenlake", "FP32", "SEQ")),
        dpus=2,
    ),
    "quick": Size(_ALL, dpus=4),
    "paper": Size(_ALL, dpus=64),
}


@dataclass(frozen=True)
class Variant:
    """A kernel to run: its name, what it is to the paper's, the problem it gets, and how it is built.

    Its source is the backend's own kernel where none is named.
    """

    name: str
    kind: Kind
    problem: Problem
    steps: tuple[Step, ...] = ()
    source: Path | None = None
    tasklets: int = 1
    scaled_index: bool = False

    def build(self) -> Path:
        """Return its program, from the cache where it was built before."""
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


def measure(profile: str) -> pd.DataFrame:
    """Run every variant of every case.

    Parameters
    ----------
    profile : str
        A name of `SIZES`.

    Returns
    -------
    DataFrame of `COLUMNS`, a row a variant, in the order of the steps; all times and counts are simulated
        instructions, cycles, dma_cycles, dma_bytes : of an update, on average, in the last launch.
        launch_ms : of 50 episodes, as long as the slowest of the simulated DPUs takes.
        saved : share of the cycles of the step before; of what is no step, of the last step's, and of a bound, of the
        cycles of the step that it is a bound for. NaN in the first row.
        speedup : cycles of `--kernel paper`, the last row of kind `Kind.PAPER`, over these.
        same_bits : whether the table is the paper's kernel's, bit for bit; None where nothing was run.
        max_error, exact_return : of the averaged table, values; the error to the same training in double precision.

    Raises
    ------
    SwiftRLError
        If there is no such size, or a step that must leave every bit as it was does not.
    """
    if profile not in SIZES:
        raise SwiftRLError(f"size is {profile!r}: choose one of {', '.join(SIZES)}")
    size = SIZES[profile]
    rows: list[dict] = []
    for environment, number_format, sampling in size.cases:
        rows += _case(environment, NumberFormat(number_format), Sampling(sampling), size.dpus)
    return pd.DataFrame(rows)[list(COLUMNS)]


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Return what each step saved at least and at most, in percent of the cycles, and what became of it.

    Returns
    -------
    DataFrame
        step, kind, cases, saved_least, saved_most, and in which case most, verdict.
    """
    found = []
    for (step, kind), own in table[table["saved"].notna()].groupby(["step", "kind"], sort=False):
        best = own.loc[own["saved"].idxmax()]
        found.append(
            {
                "step": step,
                "kind": kind,
                "cases": len(own),
                "saved_least": 100 * own["saved"].min(),
                "saved_most": 100 * own["saved"].max(),
                "most_in": f"{best['environment']} {best['number_format']} {best['sampling']}",
                "verdict": _VERDICTS.get(step, "in the tuned kernel"),
            }
        )
    return pd.DataFrame(found)


_VERDICTS = {
    "paper, lowest terms": "in both kernels: without it products overflow",
    "double buffering": "out: even free of charge it saves what holding the chunk does, or next to nothing",
    "scaled index": "out: all backends would draw otherwise",
    "scale 2^13": "a number format, INT32_POW2",
    "fused update": "out: holds gamma 19/20 only, and nothing moves within 5 units of its target",
    **{f"{count} tasklets": "a learner's choice: bootstrap frozen" for count in TASKLETS},
}


def variants(problem: Problem) -> Iterator[Variant]:
    """Yield what there is to run for a problem: the paper's kernel, then steps one by one, then what else was tried."""
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


def _case(environment: str, number_format: NumberFormat, sampling: Sampling, dpus: int) -> list[dict]:
    """Return the rows of one learner."""
    dataset = collect(environment, CHUNK[environment] * dpus, seed=0)
    learner = Learner(sampling=sampling, number_format=number_format, reward_range=dataset.reward_range)
    problem = Problem(learner, dataset.n_states, dataset.n_actions)
    tried = list(variants(problem))
    with ThreadPoolExecutor() as pool:
        programs = list(pool.map(Variant.build, tried))
    exact = cache(lambda scaled: reference(dataset, learner, dpus, scaled_index=scaled))
    rows: list[dict] = []
    papers_table = None
    for variant, program in zip(tried, programs, strict=True):
        cost, table = _run(variant, program, dataset, dpus)
        papers_table = table if papers_table is None else papers_table
        same = table.dtype == papers_table.dtype and np.array_equal(
            table.view(np.uint32), papers_table.view(np.uint32)
        )
        if variant.kind in (Kind.PAPER, Kind.STEP) and not same:
            raise SwiftRLError(
                f"{environment} {number_format} {sampling}: {variant.name!r} leaves another table than the paper's "
                "kernel; it must leave the same bits, or be no step"
            )
        before = next((row for row in reversed(rows) if row["kind"] in (Kind.PAPER, Kind.STEP)), None)
        values = variant.problem.learner.to_values(table).reshape(dataset.n_states, dataset.n_actions)
        rows.append(
            {"step": variant.name, "kind": variant.kind, **cost}
            | {"saved": 1 - cost["cycles"] / before["cycles"] if before else np.nan, "same_bits": same}
            | {"max_error": float(np.abs(values - exact(variant.scaled_index)).max())}
            | {"exact_return": exact_return(environment, values), "evidence": Evidence.SIMULATED.value}
        )
        if variant.name == NAMES[Step.KEPT_MAXIMA]:
            rows.append(_hidden_transfers(rows[-1]))
    about = {
        "environment": environment,
        "number_format": number_format.value,
        "sampling": sampling.value,
        "dpus": dpus,
        "hardware_profile": resolve_hardware(None).name,
        "model_version": MODEL_VERSION,
    }
    baseline = [row for row in rows if row["kind"] == Kind.PAPER][-1]
    return [row | about | {"speedup": baseline["cycles"] / row["cycles"]} for row in rows]


def _run(variant: Variant, program: Path, dataset: Dataset, dpus: int) -> tuple[dict, np.ndarray]:
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


def _hidden_transfers(before: dict) -> dict:
    """Return a bound for double buffering: the kernel before, with all its transfers hidden behind its instructions.

    A transfer stops the tasklet that asks for it, so it takes a second tasklet to fetch ahead. Nothing is charged for
    that one here, nor for what the two would have to tell each other.
    """
    cycles = before["cycles"] - before["dma_cycles"]
    share = cycles / before["cycles"]
    profile = resolve_hardware(None)
    kernel_ms = before["launch_ms"] - 1e3 * profile.launch_s
    return before | {
        "step": "double buffering",
        "kind": Kind.BOUND,
        "cycles": cycles,
        "launch_ms": 1e3 * profile.launch_s + kernel_ms * share,
        "saved": 1 - share,
        "same_bits": None,
        "max_error": np.nan,
        "exact_return": np.nan,
        "evidence": Evidence.MODELLED.value,
    }


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
    parts = np.split(doubles.records(dataset), np.cumsum(lengths(len(dataset), cores))[:-1])
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
                doubles.learn(table, part[episode], learner.alpha, learner.gamma)
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
