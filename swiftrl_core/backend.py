"""What a backend is: a machine that holds the chunks and makes rounds over them."""

import importlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from swiftrl_core.learner import BEYOND_THE_PAPER, Learner, random_states
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.util.errors import SwiftRLError


class Evidence(StrEnum):
    """Where a time comes from: a clock, the DPU simulator, or a formula."""

    MEASURED = "measured"
    SIMULATED = "simulated"
    MODELLED = "modelled"


@dataclass(frozen=True)
class Problem:
    """What a backend has to know before it sees data.

    Attributes
    ----------
    learner : Learner
    n_states, n_actions : int
        Shape of the table.
    seed : int
        Seeds every core's generator, together with the core's number.
    """

    learner: Learner
    n_states: int
    n_actions: int
    seed: int = 0

    @property
    def entries(self) -> int:
        """Entries of a table: n_states * n_actions."""
        return self.n_states * self.n_actions

    def arguments(self, chunks: Chunks) -> np.ndarray:
        """Return every core's `learner_args` of layout.h, shape (cores,), with no episodes yet."""
        return self.learner.arguments(chunks.lengths, random_states(self.seed, chunks.numbers))


@dataclass(frozen=True, eq=False)
class Round:
    """What one round gives back.

    Attributes
    ----------
    tables : array (cores, entries)
        Every core's local table, in the number format's raw units.
    down_s, kernel_s, up_s : float
        Seconds to send the table to all cores, to learn, and to fetch their tables.
    executed_updates : int or None
        Updates really made, over all cores; None where that is all of them. Fewer where the backend left out
        episodes that could not change a bit.
    """

    tables: np.ndarray
    down_s: float
    kernel_s: float
    up_s: float
    executed_updates: int | None = None


@dataclass(frozen=True, eq=False)
class AveragedRound:
    """What one round gives back once the tables are averaged.

    Attributes
    ----------
    table : array (entries,)
        What all cores' tables come to, in the number format's raw units: `aggregation.mean` for the paper's learners.
    down_s, kernel_s, up_s : float
        Seconds, as in `Round`.
    averaging_s : float
        Seconds to average.
    executed_updates : int or None
        As in `Round`.
    preparing_s : float
        Seconds of the host on what goes down beside the table.
    """

    table: np.ndarray
    down_s: float
    kernel_s: float
    up_s: float
    averaging_s: float
    executed_updates: int | None = None
    preparing_s: float = 0.0


class Backend(Protocol):
    """A machine that trains many cores. Made from a `Problem`; used as load, run_round ..., close.

    A backend that averages by itself, to the same bits as `aggregation.mean`, has one method more, and the round loop
    uses it for learners that synchronise as the paper does: `run_rounds(table, rounds) -> Iterator[AveragedRound]`,
    which starts from `table` and makes a round of rounds[i] episodes each time it is asked for the next, from the mean
    of the last.
    """

    name: str
    evidence: Evidence

    def load(self, chunks: Chunks) -> float:
        """Hand every core its chunk; return the seconds it took."""

    def run_round(self, table: np.ndarray, episodes: int, targets: np.ndarray | None = None) -> Round:
        """Start every core from `table` (entries,) and let it make `episodes` passes over its chunk.

        `targets` (entries,) goes down beside the table in update vr: Tbar of `dpu_src/td_update.h`.
        """

    def describe(self) -> dict:
        """Return what a manifest should say about the machine: names and versions."""

    def close(self) -> None:
        """Release the machine."""


BACKENDS = {
    "pim": "swiftrl_core.backends.pim.backend",
    "cpu": "swiftrl_core.backends.cpu.backend",
    "cpu-shared": "swiftrl_core.backends.cpu.shared",
    "cpu-local": "swiftrl_core.backends.cpu.local",
    "exact": "swiftrl_core.backends.exact",
    "gpu": "swiftrl_core.backends.gpu.backend",
    "gpu-shared": "swiftrl_core.backends.gpu.shared_table",
}
"""Name to module; each module has `available() -> reason or None` and `open_backend(problem, cores, **options)`."""

WITH_EVERY_CHOICE = ("pim", "cpu", "cpu-local", "gpu")
"""Backends whose cores have chunks and tables of their own, and learn by every choice of a `Learner`."""


def module(name: str):
    """Return a backend's module.

    Raises
    ------
    SwiftRLError
        If there is no such backend.
    """
    if name not in BACKENDS:
        raise SwiftRLError(f"backend is {name!r}: choose one of {', '.join(BACKENDS)}")
    return importlib.import_module(BACKENDS[name])


def check_learner(name: str, learner: Learner) -> None:
    """Raise `SwiftRLError` where a learner makes a choice that a backend does not have.

    The baselines do what the paper did; the exact solution has no cores, so it has nothing to choose.
    """
    if name in WITH_EVERY_CHOICE:
        return
    for choice, paper in BEYOND_THE_PAPER.items():
        given = getattr(learner, choice)
        if given != paper:
            raise SwiftRLError(
                f"{choice} {given} does not apply to backend {name}: use {paper}, or one of the backends "
                f"{', '.join(WITH_EVERY_CHOICE)}"
            )


def open_backend(name: str, problem: Problem, cores: int, **options) -> Backend:
    """Return a backend ready for `load`.

    Raises
    ------
    SwiftRLError
        If there is no such backend, it is not available here (with the reason), or it cannot hold the problem.
    """
    chosen = module(name)
    check_learner(name, problem.learner)
    reason = chosen.available()
    if reason:
        raise SwiftRLError(f"backend {name} is not available here: {reason}")
    return chosen.open_backend(problem, cores, **options)
