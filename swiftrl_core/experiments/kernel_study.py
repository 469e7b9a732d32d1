"""Experiment 11: the learner kernel from the paper's to a faster one, a step at a time.

Every variant (`kernel_variants`) learns from the same chunks, by the same schedule: the chunks have the size that 2,000
DPUs would have, and a few of them are simulated. Costs are those of the last launch, from a learned table (zeros would
be cheap). Quality is that of the averaged table after the same updates, against the same training in double precision.

A step that leaves a table other than the paper's kernel stops the study. Variants that were not adopted are measured
as well, or bounded where a bound is enough.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from swiftrl_core.backend import Evidence, Problem
from swiftrl_core.backends.pim.tuning import Step
from swiftrl_core.data import collect
from swiftrl_core.data.evaluation import exact_return
from swiftrl_core.dpusim import MODEL_VERSION
from swiftrl_core.dpusim.timing import resolve_hardware
from swiftrl_core.experiments.experiment import Experiment, Plot, Summary, check_size
from swiftrl_core.experiments.grids import PAPER_CHUNK
from swiftrl_core.experiments.kernel_variants import NAMES, TASKLETS, Kind, Variant, reference, run, variants
from swiftrl_core.learner import Learner, NumberFormat, Sampling
from swiftrl_core.plotting.style import PAGE_INCHES, colour, named, new_figure, note, style
from swiftrl_core.sweeps.manifest import provenance
from swiftrl_core.util.errors import SwiftRLError

COLUMNS = (
    *("environment", "number_format", "sampling", "step", "kind"),
    *("instructions", "cycles", "dma_cycles", "dma_bytes", "launch_ms", "saved", "speedup"),
    *("same_bits", "max_error", "exact_return", "dpus", "evidence", "hardware_profile", "model_version"),
)
LOOKS = {
    Kind.PAPER: {"color": "#444444"},
    Kind.STEP: {"color": colour(0)},
    Kind.BOUND: {"fc": "white", "ec": colour(0), "ls": "--"},
    Kind.OTHER_BITS: {"color": colour(1)},
    Kind.OTHER_LEARNER: {"color": colour(2)},
}
"""Bars by kind of variant."""
LABELS = {
    Kind.PAPER: "the paper's kernel",
    Kind.STEP: "step, built on those above: the same bits",
    Kind.BOUND: "bound, modelled",
    Kind.OTHER_BITS: "alternative to the last step: other bits",
    Kind.OTHER_LEARNER: "tasklets, frozen bootstrap",
}
SAVED = "#dddddd"
BAR_INCHES = 0.155


@dataclass(frozen=True)
class Size:
    """Learners to study (environment, number format, sampling), and the number of simulated DPUs for each."""

    cases: tuple[tuple[str, str, str], ...]
    dpus: int


_ALL = tuple(itertools.product(PAPER_CHUNK, ("INT32", "FP32"), ("SEQ", "STR", "RAN")))
SIZES = {
    "smoke": Size(
        (("frozenlake", "INT32", "SEQ"), ("frozenlake", "INT32", "RAN"), ("frozenlake", "FP32", "SEQ")),
        dpus=2,
    ),
    "quick": Size(_ALL, dpus=4),
    "paper": Size(_ALL, dpus=64),
}


def measure(size: str) -> pd.DataFrame:
    """Run every variant of every case.

    Parameters
    ----------
    size : str
        A key of `SIZES`.

    Returns
    -------
    DataFrame of `COLUMNS`, a row a variant, in the order of the steps; all times and counts are simulated
        instructions, cycles, dma_cycles, dma_bytes : of an update, on average, in the last launch.
        launch_ms : of 50 episodes, on the slowest of the simulated DPUs.
        saved : share of the cycles of the step before; for a variant that is no step, of the last step's cycles, and
        for a bound, of the cycles of the step that it bounds. NaN in the first row.
        speedup : cycles of `--kernel paper`, the last row of kind `Kind.PAPER`, over these.
        same_bits : whether the table is the paper's kernel's, bit for bit; None where nothing was run.
        max_error, exact_return : of the averaged table, values; the error to the same training in double precision.

    Raises
    ------
    SwiftRLError
        If there is no such size, or a step that must leave every bit as it was does not.
    """
    check_size(size, SIZES)
    rows: list[dict] = []
    for environment, number_format, sampling in SIZES[size].cases:
        rows += _case(environment, NumberFormat(number_format), Sampling(sampling), SIZES[size].dpus)
    return pd.DataFrame(rows)[list(COLUMNS)]


def _case(environment: str, number_format: NumberFormat, sampling: Sampling, dpus: int) -> list[dict]:
    """Return the rows of one learner."""
    dataset = collect(environment, PAPER_CHUNK[environment] * dpus, seed=0)
    learner = Learner(sampling=sampling, number_format=number_format, reward_range=dataset.reward_range)
    problem = Problem(learner, dataset.n_states, dataset.n_actions)
    tried = list(variants(problem))
    with ThreadPoolExecutor() as pool:
        programs = list(pool.map(Variant.build, tried))
    exact = cache(lambda scaled: reference(dataset, learner, dpus, scaled_index=scaled))
    rows: list[dict] = []
    papers_table = None
    for variant, program in zip(tried, programs, strict=True):
        cost, table = run(variant, program, dataset, dpus)
        papers_table = table if papers_table is None else papers_table
        same = table.dtype == papers_table.dtype and np.array_equal(
            table.view(np.uint32), papers_table.view(np.uint32)
        )
        if variant.kind in (Kind.PAPER, Kind.STEP) and not same:
            raise SwiftRLError(
                f"{environment} {number_format} {sampling}: {variant.name!r} leaves a table other than the paper's "
                "kernel; a step must preserve every bit"
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


def _hidden_transfers(before: dict) -> dict:
    """Return a bound for double buffering: the kernel before, with all its transfers hidden behind its instructions.

    A transfer stops the tasklet that issues it, so prefetching takes a second tasklet. The bound charges nothing for
    it, nor for the synchronisation of the two.
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


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Return the least and the most that each step saved, in percent of the cycles, and whether it was adopted.

    Returns
    -------
    DataFrame
        step, kind, cases, saved_least, saved_most, most_in (the case of saved_most), verdict.
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
    "double buffering": "left out: even at no cost it saves as much as holding the chunk does, or next to nothing",
    "scaled index": "left out: every backend would have to draw other transitions",
    "scale 2^13": "a number format, INT32_POW2",
    "fused update": "left out: supports only gamma 19/20, and stops within 5 units of the target",
    **{f"{count} tasklets": "a learner's choice: bootstrap frozen" for count in TASKLETS},
}


@style()
def fig_kernel_study(table: pd.DataFrame) -> Figure:
    """Draw the cycles of an update after each step, and in grey the cycles that the step saved.

    A row for each number format and sampling, a column for each environment. STR is left out: it differs from SEQ only
    in its transfers.

    Parameters
    ----------
    table : DataFrame
        As `measure` returns it.
    """
    table = table[table["sampling"] != "STR"]
    learners = table[["number_format", "sampling"]].drop_duplicates().to_records(index=False).tolist()
    environments = list(dict.fromkeys(table["environment"]))
    cases = {key: own for key, own in table.groupby(["number_format", "sampling", "environment"], sort=False)}
    bars = [max(len(own) for key, own in cases.items() if key[:2] == learner) for learner in learners]
    figure = new_figure(PAGE_INCHES, 0.9 + BAR_INCHES * (sum(bars) + 3.2 * len(bars)))
    panels = figure.subplots(
        len(learners), len(environments), squeeze=False, sharex="row", height_ratios=bars
    )
    for line, learner in zip(panels, learners, strict=True):
        for axes, environment in zip(line, environments, strict=True):
            own = cases.get((*learner, environment))
            if own is None:
                axes.set_axis_off()
                continue
            _waterfall(axes, own)
            axes.set_title(f"{named(environment)}, {learner[0]}, {learner[1]}", loc="left")
    for axes in panels[-1]:
        axes.set_xlabel("cycles / update")
    kinds = [kind for kind in LOOKS if kind in set(table["kind"])]
    handles = [Patch(**LOOKS[kind], label=LABELS[kind]) for kind in kinds]
    handles.append(Patch(color=SAVED, label="saved"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
    note(figure, _sentences(table))
    return figure


def _waterfall(axes: Axes, own: pd.DataFrame) -> None:
    """Draw a learner's variants from top to bottom."""
    before, widest = None, own["cycles"].max()
    for place, row in enumerate(own.itertuples()):
        axes.barh(place, row.cycles, height=0.72, **LOOKS[row.kind])
        end = row.cycles
        if before is not None and before > row.cycles:
            axes.barh(place, before - row.cycles, left=row.cycles, height=0.72, color=SAVED)
            end = before
        text = f"{row.instructions:,.0f} instr., {row.speedup:.{2 - (row.speedup >= 10)}f}x"
        axes.text(end + widest * 0.01, place, text, va="center", size=6)
        if row.kind in (Kind.PAPER, Kind.STEP):
            before = row.cycles
    axes.set_yticks(range(len(own)), own["step"])
    axes.tick_params(axis="y", length=0)
    axes.set(ylim=(len(own) - 0.4, -0.6), xlim=(0, widest * 1.32))


def _sentences(table: pd.DataFrame) -> list[str]:
    first = table.iloc[0]
    return [
        f"Simulated, except the bound: {first['hardware_profile']}, model version {first['model_version']}, "
        f"{first['dpus']} DPUs with the chunks of 2,000 DPUs, the second launch of 50 episodes. Instructions are "
        "those of all tasklets together.",
        "Speed-ups are over --kernel paper with one tasklet, which in INT32 is 'paper, lowest terms'.",
    ]


def summary_kernel_study(table: pd.DataFrame) -> Summary:
    """Return the total effect of the steps for each learner, and the speed-up of tasklets."""
    sentences = []
    for case, own in table.groupby(["environment", "number_format", "sampling"], sort=False):
        paper, tuned = (own[own["kind"] == kind].iloc[-1] for kind in (Kind.PAPER, Kind.STEP))
        sentence = (
            f"{named(case[0])}, {case[1]}, {case[2]}: an update takes {paper['instructions']:.0f} instructions with "
            f"--kernel paper and {tuned['instructions']:.0f} with --kernel tuned, a speed-up of {tuned['speedup']:.2f} "
            f"for the same table, which differs from double precision by at most {tuned['max_error']:.1g}; 50 episodes "
            f"take {tuned['launch_ms']:.3g} ms instead of {paper['launch_ms']:.3g} (simulated)."
        )
        tasklets = own[own["kind"] == Kind.OTHER_LEARNER]
        if len(tasklets):
            best = tasklets.loc[tasklets["speedup"].idxmax()]
            sentence += (
                f" With a frozen bootstrap, which is another learner, {best['step']} give {best['speedup']:.1f} times "
                "the update rate."
            )
        sentences.append(sentence)
    return Summary(sentences)


def manifest(table: pd.DataFrame, size: str) -> dict[str, Any]:
    """Return the origin of a study of a size."""
    return provenance() | {
        "size": size,
        "evidence": sorted(set(table["evidence"])),
        "hardware_profile": table["hardware_profile"].iloc[0],
        "model_version": table["model_version"].iloc[0],
    }


EXPERIMENT = Experiment(
    id="11_kernel_study",
    question="How many instructions does an update need on a DPU, if not one bit of what it learns may change?",
    figures=(Plot("kernel_study", fig_kernel_study, summary=summary_kernel_study),),
)
