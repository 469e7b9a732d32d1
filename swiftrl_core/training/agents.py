"""Independent agents: a population of learners that do not synchronise.

The paper's multi-agent version: a learner on every PIM core, each with a table of its own, learning from the same data
or from a share of its own, and no aggregation. Agents may differ in alpha, gamma and epsilon, and each draws its random
numbers from its own generator; they agree in algorithm, sampling and number format, which are built into the kernel.
All backends give the same tables, every bit.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from swiftrl_core.backend import Population, Problem, usable
from swiftrl_core.data import Dataset
from swiftrl_core.learner import Learner, random_states
from swiftrl_core.learner.chunks import split
from swiftrl_core.training import aggregation
from swiftrl_core.training.loop import Breakdown
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError

KERNEL_SWITCHES = ("ALGORITHM", "SAMPLING", "NUMBER_FORMAT")
"""The switches that `multi_agent.c` knows; any other must have the paper's choice, whose number is 0."""

ALIKE = ("algorithm", "sampling", "number_format", "reward_range")
"""The fields that all learners of a population have in common."""


@dataclass(frozen=True, eq=False)
class MultiAgentResult:
    """Every agent's table, and the account of their training.

    Attributes
    ----------
    tables : float32 or int32 array (agents, states, actions)
        In the number format's own bits.
    learners : tuple of Learner
        Agent a's learner, `learners[a]`.
    updates : int
        Updates made, over all agents and episodes.
    breakdown : Breakdown
        Times in the paper's parts, with their evidence. There is no synchronisation: that part is 0.
    machine : dict
        Names and versions of the machine, from the backend.
    settings : dict
        The run's episodes, seed, backend and shared_data.
    """

    tables: np.ndarray
    learners: tuple[Learner, ...]
    updates: int
    breakdown: Breakdown
    machine: dict
    settings: dict

    @property
    def values(self) -> np.ndarray:
        """All tables as values, float32 (agents, states, actions)."""
        return self.learners[0].to_values(self.tables)

    @property
    def mean(self) -> np.ndarray:
        """The plain mean of all tables, in the number format's own bits, (states, actions)."""
        return aggregation.mean(self.tables.reshape(len(self.tables), -1)).reshape(self.tables.shape[1:])

    @property
    def ns_per_agent_update(self) -> float:
        """Nanoseconds of learning an update of one agent took, over all agents."""
        return 1e9 * self.breakdown.pim_kernel / self.updates


def train_agents(
    dataset: Dataset,
    learners: Learner | Sequence[Learner],
    agents: int | None = None,
    episodes: int = 100,
    seed: int = 0,
    backend: str = "pim",
    *,
    shared_data: bool = True,
    agents_per_dpu: int = 1,
    simulated_dpus: int | str = "all",
    **options,
) -> MultiAgentResult:
    """Train independent agents, each from a table of zeros.

    Parameters
    ----------
    dataset : Dataset
    learners : Learner or sequence of Learner
        One for all agents, or one for each.
    agents : int, optional
        How many, at least 1; by default as many as there are learners. The authors' code has 1,000.
    episodes : int
        Passes of each agent over its data, at least 1.
    seed : int
        Seeds the agents' generators together with their numbers, at least 0.
    backend : str
        `pim` (hardware where there is some, else the simulator), `cpu` or `gpu`.
    shared_data : bool
        Whether every agent learns from all the data, or each from a contiguous chunk of its own.
    agents_per_dpu : int
        For `pim`: agents on each DPU, one a tasklet, as far as their tables fit its WRAM.
    simulated_dpus : "all" or int
        For `pim` on the simulator: simulate all DPUs, or only so many, while the engine trains all agents and every
        simulated table has to equal the engine's (`swiftrl_core.backends.pim.sampled`).
    **options
        Passed to the backend, such as `threads` for `cpu`.

    Returns
    -------
    MultiAgentResult

    Raises
    ------
    SwiftRLError
        If data, learners and backend do not fit together, or a kernel faults.

    Examples
    --------
    >>> from swiftrl_core import Learner, collect, train_agents
    >>> lake = collect("frozenlake", 500, seed=1)
    >>> learners = [Learner(alpha=0.1), Learner(alpha=0.2), Learner(alpha=0.3)]
    >>> result = train_agents(lake, learners, episodes=20, backend="cpu")
    >>> result.tables.shape, result.updates
    ((3, 16, 4), 30000)
    """
    chosen = _one_each(learners, agents)
    population = populate(dataset, chosen, episodes, seed, shared_data=shared_data)
    per_dpu = whole_number(agents_per_dpu, "agents_per_dpu", 1)
    if backend == "pim":
        options |= {"agents_per_dpu": per_dpu, "simulated_dpus": simulated_dpus}
    elif per_dpu != 1 or simulated_dpus != "all":
        raise SwiftRLError(
            f"agents_per_dpu and simulated_dpus do not apply to backend {backend}: leave them out, or use pim"
        )
    trained = usable(backend, agents=True).train(population, **options)
    shape = (population.agents, dataset.n_states, dataset.n_actions)
    return MultiAgentResult(
        tables=trained.tables.reshape(shape),
        learners=chosen,
        updates=int(
            population.args["transitions"].astype(np.int64) @ population.args["episodes"].astype(np.int64)
        ),
        breakdown=Breakdown(trained.down_s, trained.kernel_s, 0.0, trained.up_s, 0.0, trained.evidence),
        machine=trained.machine,
        settings={
            "episodes": int(episodes),
            "seed": int(seed),
            "backend": backend,
            "shared_data": shared_data,
        },
    )


def populate(
    dataset: Dataset,
    learners: Sequence[Learner],
    episodes: int = 1,
    seed: int = 0,
    *,
    shared_data: bool = True,
) -> Population:
    """Return the agents of some learners, packed for a backend; parameters and errors as for `train_agents`."""
    chosen = _one_each(learners, None)
    episodes, seed = whole_number(episodes, "episodes", 1, 2**32 - 1), whole_number(seed, "seed", 0)
    if not shared_data and len(chosen) > len(dataset):
        raise SwiftRLError(
            f"{len(chosen)} agents for {len(dataset):,} transitions: use fewer agents, or let them share the data"
        )
    chunks = split(dataset, chosen[0], 1 if shared_data else len(chosen))
    starts, lengths = (np.resize(each, len(chosen)) for each in (chunks.starts[:-1], chunks.lengths))
    states = random_states(seed, np.arange(len(chosen)))
    args = np.concatenate(
        [learner.arguments(lengths[a : a + 1], states[a : a + 1]) for a, learner in enumerate(chosen)]
    )
    args["episodes"] = episodes
    problem = Problem(chosen[0], dataset.n_states, dataset.n_actions, seed)
    return Population(problem, chunks.records, starts, args)


def _one_each(learners: Learner | Sequence[Learner], agents: int | None) -> tuple[Learner, ...]:
    if isinstance(learners, Learner):
        if agents is None:
            raise SwiftRLError(
                "one learner was given and no number of agents: give agents=1000, or pass a learner for each"
            )
        return (learners,) * whole_number(agents, "agents", 1)
    chosen = tuple(learners)
    if not chosen:
        raise SwiftRLError("there are no learners: give at least one")
    if agents is not None and whole_number(agents, "agents", 1) != len(chosen):
        raise SwiftRLError(
            f"agents is {agents}, but there are {len(chosen)} learners: give one for each agent"
        )
    for number, learner in enumerate(chosen):
        if not isinstance(learner, Learner):
            raise SwiftRLError(f"agent {number} has {learner!r} for a learner: give a Learner")
        beyond = [name for name, value in learner.switches.items() if value and name not in KERNEL_SWITCHES]
        if beyond:
            raise SwiftRLError(
                f"agent {number} has a learner with {' and '.join(beyond).lower()} beyond the paper, which independent "
                "agents do not have: use the paper's update and a constant alpha"
            )
    for name, (number, learner) in itertools.product(ALIKE, enumerate(chosen)):
        if getattr(learner, name) != getattr(chosen[0], name):
            raise SwiftRLError(
                f"agent {number} has {name} {getattr(learner, name)} and agent 0 {getattr(chosen[0], name)}: "
                f"agents of a population agree in {', '.join(ALIKE)}"
            )
    return _in_one_unit(chosen)


def _in_one_unit(chosen: tuple[Learner, ...]) -> tuple[Learner, ...]:
    """Return the learners in one unit, since they learn from the same records: the finest that suits them all."""
    smallest, scale = (pick(learner.scale for learner in chosen) for pick in (min, max))
    if smallest == scale:
        return chosen
    while True:
        try:
            return tuple(replace(learner, units=scale) for learner in chosen)
        except SwiftRLError:
            if scale == smallest:
                raise
            scale //= 2
