"""A population of independent agents as a probe: its quality, agreement and time. Belongs to experiment 07."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from swiftrl_core import backend as backends
from swiftrl_core.data import collect, environments, evaluation
from swiftrl_core.data.environments import Environment
from swiftrl_core.learner import Learner
from swiftrl_core.sweeps.probe import Probe
from swiftrl_core.sweeps.results import column
from swiftrl_core.training import agents as multi_agent
from swiftrl_core.training.agents import MultiAgentResult
from swiftrl_core.util.errors import SwiftRLError

ALPHAS = 0.01, 1.0
GAMMAS = 0.5, 0.995
"""Ends of the grid of agents that differ."""
SMALL_TRANSITIONS = 500
"""Size of a run that is timed for an estimate."""


def _a_value_an_agent(name: str) -> pa.Field:
    return column(name, pa.list_(pa.float64()), nullable=True)


@dataclass(frozen=True, kw_only=True)
class Agents(
    Probe,
    kind_of_run="Agents",
    found=pa.schema(
        [
            column("rewarded", pa.int64()),  # transitions with a positive reward
            column("updates", pa.int64()),
            column("tables_sha256", pa.string()),  # of all raw tables' bytes
            # of agents that differ: each one's own, and what the population comes to
            _a_value_an_agent("alpha"),
            _a_value_an_agent("gamma"),
            _a_value_an_agent("exact_return"),
            _a_value_an_agent("agreement"),  # share of states decided as most agents do
            column("optimum", pa.float64(), nullable=True),
            column(
                "majority_return", pa.float64(), nullable=True
            ),  # exact, of the majority's choice in each state
            column("mean_return", pa.float64(), nullable=True),  # exact, of the mean of all tables
            # the time, in seconds, and what it is
            column("cpu_to_pim", pa.float64()),
            column("pim_kernel", pa.float64()),
            column("pim_to_cpu", pa.float64()),
            column("evidence", pa.string()),
            column("dpus", pa.int64(), nullable=True),
            column("hardware_profile", pa.string(), nullable=True),
            column("model_version", pa.string(), nullable=True),
            column("machine", pa.string()),
            column("machine_details", pa.string()),  # JSON
        ]
    ),
):
    """A population that learns from the same data, every agent for itself.

    Attributes
    ----------
    environment, transitions, seed
        Of the data set; the seed also of the agents' generators.
    agents : int
    side : int, optional
        Agents differ: `side` alphas from `ALPHAS` (geometric) by as many gammas from `GAMMAS` (geometric in 1 - gamma),
        so that there are side ** 2 of them. Without it all are alike.
    number_format : str
    episodes : int
        Passes of each agent over the data.
    backend : str
        pim, cpu or gpu.
    agents_per_dpu, simulated_dpus : int, optional
        For pim, see `multi_agent.train_agents`.
    """

    environment: str
    transitions: int
    agents: int
    side: int | None = None
    number_format: str = "FP32"
    episodes: int
    backend: str
    agents_per_dpu: int | None = None
    simulated_dpus: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.side is not None and self.side**2 != self.agents:
            raise SwiftRLError(f"agents is {self.agents}: a grid of side {self.side} has {self.side**2}")

    @property
    def device(self) -> str | None:
        """What the backend runs on, if not on the host's own processor."""
        return backends.registered(self.backend, agents=True).device

    @property
    def updates(self) -> int:
        """Updates of those agents whose time counts: on the simulator, of the agents that it runs."""
        run = (self.simulated_dpus or self.agents) * (self.agents_per_dpu or 1)
        return min(run, self.agents) * self.transitions * self.episodes

    def small(self, times: int) -> Self:
        """Return the same agents on few data, for a few passes."""
        transitions = min(self.transitions, times * SMALL_TRANSITIONS)
        return replace(self, transitions=transitions, episodes=min(self.episodes, times))

    def missing(self) -> str | None:
        """Return why the backend cannot be used here, or None."""
        return backends.missing(self.backend, agents=True)

    def measure(self) -> dict[str, Any]:
        """Train all agents; evaluate them where they differ."""
        world = environments.resolve(self.environment)
        dataset = collect(world, self.transitions, self.seed)
        options = {"agents_per_dpu": self.agents_per_dpu, "simulated_dpus": self.simulated_dpus}
        given = {name: value for name, value in options.items() if value is not None}
        result = multi_agent.train_agents(
            dataset, self._learners(world), self.agents, self.episodes, self.seed, self.backend, **given
        )
        learned = {
            "rewarded": int((dataset.reward > 0).sum()),
            "updates": result.updates,
            "tables_sha256": hashlib.sha256(np.ascontiguousarray(result.tables)).hexdigest(),
        }
        return learned | _quality(world, result, self.side) | _times(result)

    def _learners(self, world: Environment) -> Learner | tuple[Learner, ...]:
        learner = Learner(number_format=self.number_format, reward_range=world.reward_range)
        if self.side is None:
            return learner
        alphas = np.geomspace(*ALPHAS, self.side).round(3)
        gammas = (1 - np.geomspace(1 - GAMMAS[0], 1 - GAMMAS[1], self.side)).round(4)
        return spread(learner, *(axis.ravel() for axis in np.meshgrid(alphas, gammas)))


def _quality(world: Environment, result: MultiAgentResult, side: int | None) -> dict[str, Any]:
    names = ("alpha", "gamma", "exact_return", "agreement", "optimum", "majority_return", "mean_return")
    if side is None:
        return dict.fromkeys(names)
    values, learners = result.values, result.learners
    most = np.eye(world.n_actions)[majority(values)]
    found = (
        [learner.alpha for learner in learners],
        [learner.gamma for learner in learners],
        [evaluation.exact_return(world, table) for table in values],
        agreement(values, ~world.terminal).tolist(),
        evaluation.optimal_return(world),
        evaluation.exact_return(world, most),
        evaluation.exact_return(world, learners[0].to_values(result.mean)),
    )
    return dict(zip(names, found, strict=True))


def _times(result: MultiAgentResult) -> dict[str, Any]:
    machine, times = result.machine, result.breakdown
    version = machine.get("model_version")
    return {
        "cpu_to_pim": times.cpu_to_pim,
        "pim_kernel": times.pim_kernel,
        "pim_to_cpu": times.pim_to_cpu,
        "evidence": str(times.evidence),
        "dpus": machine.get("dpus"),
        "hardware_profile": machine.get("hardware"),
        "model_version": None if version is None else str(version),
        "machine": machine["name"],
        "machine_details": json.dumps(machine, sort_keys=True),
    }


def majority(values: np.ndarray) -> np.ndarray:
    """Return the greedy action (ties: lowest) that most agents have in each state, ties: lowest again.

    Parameters
    ----------
    values : array (agents, states, actions)

    Returns
    -------
    int array (states,)
    """
    votes = (values.argmax(axis=2)[:, :, None] == np.arange(values.shape[2])).sum(axis=0)
    return votes.argmax(axis=1)


def agreement(values: np.ndarray, states: np.ndarray | None = None) -> np.ndarray:
    """Return the share of states in which each agent decides as the majority of its population.

    Parameters
    ----------
    values : array (agents, states, actions)
    states : bool array (states,), optional
        Which states count, such as those that are not terminal; by default all.

    Returns
    -------
    float64 array (agents,)
        From 0 to 1: how often the agent's greedy action is that of `majority`.
    """
    counted = values if states is None else values[:, states]
    return np.mean(counted.argmax(axis=2) == majority(counted), axis=1)


def spread(
    learner: Learner,
    alpha: float | Iterable[float] | None = None,
    gamma: float | Iterable[float] | None = None,
) -> tuple[Learner, ...]:
    """Return one learner for each alpha and gamma: two sequences of one length, or a sequence and a number.

    Parameters
    ----------
    learner : Learner
        Has all other values.
    alpha, gamma : float or sequence of float, optional
        By default the learner's own.

    Raises
    ------
    SwiftRLError
        If the lengths differ, neither is a sequence, or a value is out of range.
    """
    values = [learner.alpha if alpha is None else alpha, learner.gamma if gamma is None else gamma]
    try:
        alphas, gammas = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values))
    except ValueError:
        sizes = " and ".join(str(np.size(value)) for value in values)
        raise SwiftRLError(
            f"alpha and gamma have {sizes} values: give as many of each, or one number for all agents"
        ) from None
    if alphas.ndim != 1 or not len(alphas):
        raise SwiftRLError(
            "neither alpha nor gamma is a list of values: give at least one of them as a list of numbers"
        )
    return tuple(
        replace(learner, alpha=float(a), gamma=float(g)) for a, g in zip(alphas, gammas, strict=True)
    )
