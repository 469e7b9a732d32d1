"""Agents that learn each for itself, as a backend gets them and gives them back."""

from dataclasses import dataclass

import numpy as np

from swiftrl_core.backend import Evidence, Problem


@dataclass(frozen=True, eq=False)
class Population:
    """Independent agents, packed for a backend; `swiftrl_core.training.agents` makes them.

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

    def select(self, chosen: np.ndarray) -> "Population":
        """Return some of the agents, on the same records."""
        return Population(self.problem, self.records, self.starts[chosen], self.args[chosen])


@dataclass(frozen=True, eq=False)
class Trained:
    """What a backend gives back.

    Attributes
    ----------
    tables : array (agents, entries)
        Every agent's table, in the number format's raw units.
    down_s, kernel_s, up_s : float
        Seconds to hand out data and arguments, to learn, and to fetch the tables.
    evidence : Evidence
        What the times are.
    machine : dict
        What the backend says about itself.
    """

    tables: np.ndarray
    down_s: float
    kernel_s: float
    up_s: float
    evidence: Evidence
    machine: dict
