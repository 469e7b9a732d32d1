"""The interface of a backend, a machine that trains on the chunks, and the one registry of all backends."""

import importlib
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType, ModuleType
from typing import Protocol, runtime_checkable

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
    """What is to be learned: all that a backend needs to know before it sees data.

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

    @property
    def switches(self) -> dict[str, int]:
        """The build switches of a kernel that trains it: the learner's, and the shape of the table."""
        return self.learner.switches | {"N_STATES": self.n_states, "N_ACTIONS": self.n_actions}

    def arguments(self, chunks: Chunks) -> np.ndarray:
        """Return every core's `learner_args` of layout.h, shape (cores,), with no episodes yet."""
        return self.learner.arguments(chunks.lengths, random_states(self.seed, chunks.numbers))


@dataclass(frozen=True, eq=False)
class Population:
    """Independent agents to be trained; `swiftrl_core.training.agents` makes them.

    Attributes
    ----------
    problem : Problem
        What all agents have in common: algorithm, sampling, number format, the shape of their tables. Its learner's
        alpha, gamma and epsilon are those of agent 0.
    records : structured array (n,)
        `struct transition` of layout.h.
    starts : int64 array (agents,)
        Agent a learns from records[starts[a]:starts[a] + args[a]["transitions"]].
    args : structured array (agents,)
        `struct learner_args` of layout.h: every agent's own, with the episodes to make.
    """

    problem: Problem
    records: np.ndarray
    starts: np.ndarray
    args: np.ndarray

    @property
    def agents(self) -> int:
        """Number of agents."""
        return len(self.args)

    @property
    def shares_data(self) -> bool:
        """Whether every agent learns from all records."""
        return bool(np.all(self.args["transitions"] == len(self.records)))


@dataclass(frozen=True, eq=False)
class Round:
    """The result of a round: every core's local table, and the times.

    Attributes
    ----------
    tables : array (cores, entries)
        In the number format's raw units; (1, entries), their mean, where the backend averaged them.
    down_s, kernel_s, up_s : float
        Seconds to broadcast the table to all cores, to learn, and to gather their tables.
    executed_updates : int or None
        Updates really made, over all cores; None where that is all of them. Fewer where the backend left out
        episodes that could not change a bit.
    averaging_s : float
        Seconds of the backend to average the tables, where it did.
    """

    tables: np.ndarray
    down_s: float
    kernel_s: float
    up_s: float
    executed_updates: int | None = None
    averaging_s: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedAgents(Round):
    """The result of training a population: `tables` has a row for each agent.

    Attributes
    ----------
    evidence : Evidence
        Where the times come from.
    machine : dict
        Names and versions of the machine.
    """

    evidence: Evidence
    machine: dict


class Backend(Protocol):
    """A machine that trains many cores. Made from a `Problem`; its calls are load, run_round ..., close."""

    name: str
    evidence: Evidence

    def load(self, chunks: Chunks) -> float:
        """Give every core its chunk; return the seconds it took."""

    def run_round(self, table: np.ndarray, episodes: int, targets: np.ndarray | None = None) -> Round:
        """Start every core from `table` (entries,) and make `episodes` passes over its chunk.

        `targets` (entries,) is broadcast with the table in update vr: Tbar of `dpu_src/td_update.h`.
        """

    def describe(self) -> dict:
        """Return names and versions of the machine, for a manifest."""

    def close(self) -> None:
        """Release the machine."""


@runtime_checkable
class AveragingBackend(Backend, Protocol):
    """A backend that can also average, so that no core's table has to leave it.

    The round loop uses it for learners that synchronise as the paper does.
    """

    def run_averaged_round(self, table: np.ndarray, episodes: int) -> Round:
        """Make a round as `run_round` does, and average its tables to the bits of `aggregation.mean`.

        A table that is a view of what the last averaged round returned is on the machine already.
        """


@dataclass(frozen=True)
class Registered:
    """A backend's entry in the registry.

    Attributes
    ----------
    module : str
        Has `available() -> reason or None` and `open_backend(problem, cores, **options) -> Backend`.
    device : str or None
        The device it runs on: `gpu`, `pim`, or None for the host's own processor.
    own_tables : bool
        Its cores have chunks and tables of their own, and learn by every choice of a `Learner`.
    own_memories : bool
        Its cores are PIM cores, real or virtual, each with a memory of its own: the bytes of a round are counted.
    agents : str or None
        Trains independent agents: has `available()` and `train(population, **options) -> TrainedAgents`.
    """

    module: str
    device: str | None = None
    own_tables: bool = False
    own_memories: bool = False
    agents: str | None = None


def _pim_cores(folder: str, device: str | None = None) -> Registered:
    package = f"swiftrl_core.backends.{folder}"
    return Registered(f"{package}.backend", device, True, True, f"{package}.agents")


BACKENDS = MappingProxyType(
    {
        "pim": _pim_cores("pim", "pim"),
        "cpu": _pim_cores("cpu"),
        "cpu-shared": Registered("swiftrl_core.backends.cpu.shared"),
        "cpu-local": Registered("swiftrl_core.backends.cpu.local", own_tables=True),
        "exact": Registered("swiftrl_core.backends.exact"),
        "gpu": _pim_cores("gpu", "gpu"),
        "gpu-shared": Registered("swiftrl_core.backends.gpu.shared_table", "gpu"),
    }
)
"""All backends. A new one is a module and a line here."""


def registered(name: str, *, agents: bool = False) -> Registered:
    """Return a backend's entry; `agents` asks for one that trains independent agents.

    Raises
    ------
    SwiftRLError
        If there is no such backend.
    """
    names = [known for known, entry in BACKENDS.items() if entry.agents or not agents]
    if name not in names:
        raise SwiftRLError(f"backend is {name!r}: choose one of {', '.join(names)}")
    return BACKENDS[name]


def module(name: str, *, agents: bool = False) -> ModuleType:
    """Return a backend's module, whether it can be used here or not; parameters and errors as for `registered`."""
    entry = registered(name, agents=agents)
    return importlib.import_module(entry.agents if agents else entry.module)


def missing(name: str, *, agents: bool = False) -> str | None:
    """Return why a backend cannot be used here, as a sentence, or None; parameters and errors as for `registered`."""
    reason = module(name, agents=agents).available()
    return reason and f"backend {name} is not available here: {reason}"


def usable(name: str, *, agents: bool = False) -> ModuleType:
    """Return a module as `module` does, or raise `SwiftRLError` with the reason why it cannot be used here."""
    if reason := missing(name, agents=agents):
        raise SwiftRLError(reason)
    return module(name, agents=agents)


def check_learner(name: str, learner: Learner) -> None:
    """Raise `SwiftRLError` where a learner makes a choice that a backend does not have.

    The baselines do what the paper did; the exact solution has no cores, so it has nothing to choose.
    """
    if registered(name).own_tables:
        return
    for choice, paper in BEYOND_THE_PAPER.items():
        given = getattr(learner, choice)
        if given != paper:
            others = ", ".join(other for other, entry in BACKENDS.items() if entry.own_tables)
            raise SwiftRLError(
                f"{choice} {given} does not apply to backend {name}: use {paper}, or one of the backends {others}"
            )


def open_backend(name: str, problem: Problem, cores: int, **options) -> Backend:
    """Return a backend ready for `load`.

    Parameters
    ----------
    name : str
        A name of `BACKENDS`.
    problem : Problem
    cores : int
        Number of cores, each with a chunk.
    **options
        Those of the backend's own `open_backend`.

    Raises
    ------
    SwiftRLError
        If there is no such backend, it is not available here (with the reason), it does not have the learner's choices,
        or it cannot hold the problem.
    """
    check_learner(name, problem.learner)
    return usable(name).open_backend(problem, cores, **options)
