"""The steps from the paper's kernel to a fast one, which are switches of `dpu_src/tuning.h`.

Every step leaves each bit of a table as it was. `swiftrl_core.experiments.kernel_study` measures what a step saves.
"""

from collections.abc import Collection
from enum import StrEnum

import numpy as np

from swiftrl_core.backend import Problem
from swiftrl_core.learner import Algorithm, NumberFormat, Sampling, Update
from swiftrl_core.learner.fixed_point import INT32_MAX
from swiftrl_core.learner.layout import constant
from swiftrl_core.util.errors import SwiftRLError

KERNELS = ("paper", "tuned")
"""The kernel of the paper's figures, and the one with all steps that save this learner something."""
TRANSITION_BYTES = 8


class Step(StrEnum):
    """A change to the kernel, by the name of its switch in `tuning.h`."""

    KNOWN_COEFFICIENTS = "KNOWN_COEFFICIENTS"
    CONSTANT_DIVISION = "CONSTANT_DIVISION"
    CONSTANT_PRODUCTS = "CONSTANT_PRODUCTS"
    INTEGER_COMPARISON = "INTEGER_COMPARISON"
    KEPT_MAXIMA = "KEPT_MAXIMA"
    HELD_CHUNK = "HELD_CHUNK"
    FACTORED_LCG = "FACTORED_LCG"


def steps(problem: Problem, kernel: str, room: int) -> tuple[Step, ...]:
    """Return the steps of a kernel for a problem, in the order of the study.

    Parameters
    ----------
    problem : Problem
    kernel : {"paper", "tuned"}
    room : int
        Bytes of WRAM that the table and the learner's other arrays leave to transitions and kept maxima.

    Raises
    ------
    SwiftRLError
        If there is no such kernel.
    """
    if kernel not in KERNELS:
        raise SwiftRLError(f"kernel is {kernel!r}: choose one of {', '.join(KERNELS)}")
    if kernel == "paper":
        return ()
    fitting = [step for step in Step if _applies(step, problem)]
    if _left(problem, fitting, room) < constant("DMA_BLOCK_BYTES"):
        fitting = [step for step in fitting if step not in (Step.KEPT_MAXIMA, Step.HELD_CHUNK)]
    return tuple(fitting)


def switches(problem: Problem, chosen: Collection[Step], room: int) -> dict[str, object]:
    """Return the macros that build some steps into a kernel; parameters as for `steps`."""
    macros: dict[str, object] = {step.value: 1 for step in chosen}
    if macros.pop(Step.KNOWN_COEFFICIENTS, None):
        macros |= _coefficients(problem)
    if Step.HELD_CHUNK in chosen:
        block = constant("DMA_BLOCK_BYTES")
        macros["BLOCK_RECORDS"] = _left(problem, chosen, room) // block * block // TRANSITION_BYTES
    return macros


def _applies(step: Step, problem: Problem) -> bool:
    """Whether a step can be built into the kernel of a learner, and touches anything that it does."""
    learner = problem.learner
    match step:
        case Step.CONSTANT_DIVISION:
            return learner.number_format == NumberFormat.INT32 and _sums_fit(problem)
        case Step.CONSTANT_PRODUCTS | Step.INTEGER_COMPARISON:
            return learner.number_format == NumberFormat.FP32
        case Step.KEPT_MAXIMA:
            paper = learner.update == Update.TD and not (learner.decaying_alpha or learner.frozen_bootstrap)
            return paper and learner.algorithm == Algorithm.Q_LEARNING
        case Step.HELD_CHUNK:
            if learner.frozen_bootstrap:  # its kernel holds the chunk anyway
                return False
            # Beside floating point, the few large transfers of a chunk in order take no time worth a more complex loop.
            return learner.sampling == Sampling.RAN or learner.number_format != NumberFormat.FP32
        case Step.FACTORED_LCG:
            return learner.sampling == Sampling.RAN or learner.algorithm == Algorithm.SARSA
    return True


def _sums_fit(problem: Problem) -> bool:
    """Whether every dividend is one that `divide_round_by_constant` has room for; odd divisors have least.

    In update vr the host only promises that products fit 32 bits.
    """
    found = problem.learner.coefficients
    promised = INT32_MAX if problem.learner.update == Update.VR else None
    divisions = [(found.gamma * max(found.high, -found.low), found.gamma_scale)]
    if not problem.learner.decaying_alpha:  # whose divisors are not known
        divisions.append((found.alpha * (found.high - found.low), found.alpha_scale))
    for largest, divisor in divisions:
        twos = (divisor & -divisor).bit_length() - 1
        if twos < 2 and (promised or largest + divisor // 2) > 2 ** (29 + twos):
            return False
    return True


def _coefficients(problem: Problem) -> dict[str, object]:
    """Return alpha, gamma and their scales as C constants, to the last bit."""
    args = problem.learner.arguments(np.ones(1), np.zeros(1))[0]
    return {
        f"KNOWN_{name.upper()}": f"{float(args[name]).hex()}f"
        if problem.learner.number_format == NumberFormat.FP32
        else int(args[name])
        for name in ("alpha", "alpha_scale", "gamma", "gamma_scale")
    }


def _left(problem: Problem, chosen: Collection[Step], room: int) -> int:
    """Return the bytes of WRAM that kept maxima, and a state for each pair, leave to transitions."""
    if Step.KEPT_MAXIMA not in chosen:
        return room
    shift_divides = problem.n_actions & (problem.n_actions - 1) == 0
    return room - 4 * problem.n_states - (0 if shift_divides else 2 * problem.entries)
