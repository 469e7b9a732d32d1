"""Independent agents: a population of learners that never share what they learn.

The paper's multi-agent version: a learner on every PIM core, each with a table of its own, learning from the same data
or from a share of its own, and no aggregation. Agents may differ in alpha, gamma and epsilon, and each draws its random
numbers from its own generator; they agree in algorithm, sampling and number format, which are built into the kernel.
All backends give the same tables, every bit.
"""

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np

from swiftrl_core.backend import Evidence, Problem
from swiftrl_core.data import Dataset
from swiftrl_core.learner import Learner, random_states
from swiftrl_core.learner.chunks import split
from swiftrl_core.training import aggregation
from swiftrl_core.training.loop import Breakdown
from swiftrl_core.training.population import Population, Trained
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError

BACKENDS = {
    "pim": "swiftrl_core.backends.pim.agents",
    "cpu": "swiftrl_core.backends.cpu.agents",
    "gpu": "swiftrl_core.backends.gpu.agents",
}
"""Name to module; each has `available() -> reason or None` and `train(population, **options) -> Trained`."""

KERNEL_SWITCHES = ("ALGORITHM", "SAMPLING", "NUMBER_FORMAT")
"""The choices that `multi_agent.c` has; any other it takes as the paper does, whose number is 0."""

ALIKE = ("algorithm", "sampling", "number_format", "reward_range")
"""What all agents of a population have in common."""


@dataclass(frozen=True, eq=False)
class MultiAgentResult:
    """Every agent's table, and how they came about.

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
        What the backend says about itself.
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
    """Let independent agents learn, each from a table of zeros.

    Parameters
    ----------
    dataset : Dataset
    learners : Learner or sequence of Learner
        One for all agents, or one for each; `spread` makes learners that differ in alpha and gamma.
    agents : int, optional
        How many, at least 1; by default as many as there are learners. The authors' code has 1,000.
    episodes : int
        Passes of each agent over its data, at least 1.
    seed : int
        Seeds the agents' generators together with their numbers, at least 0.
    backend : str
        `pim` (hardware where there is some, else the simulator), `cpu` or `gpu`.
    shared_data : bool
        Every agent learns from all the data, or from a contiguous chunk of its own.
    agents_per_dpu : int
        For `pim`: agents on each DPU, one a tasklet, as far as their tables fit its WRAM.
    simulated_dpus : "all" or int
        For `pim` on the simulator: simulate all DPUs, or only so many, while the CPU trains all agents and every
        simulated table has to equal the CPU's.
    **options
        Passed to the backend, such as `threads` for `cpu`.

    Returns
    -------
    MultiAgentResult

    Raises
    ------
    SwiftRLError
        If data, learners and backend do not fit together, or a kernel faults.
    """
    chosen = _one_each(learners, agents)
    population = populate(dataset, chosen, episodes, seed, shared_data=shared_data)
    per_dpu = whole_number(agents_per_dpu, "agents_per_dpu", 1)
    if backend == "pim":
        trained = _train_on_pim(population, per_dpu, simulated_dpus, options)
    elif per_dpu != 1 or simulated_dpus != "all":
        raise SwiftRLError(
            f"agents_per_dpu and simulated_dpus do not apply to backend {backend}: leave them out, or use pim"
        )
    else:
        trained = _usable(backend).train(population, **options)
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


def spread(
    learner: Learner,
    alpha: float | Iterable[float] | None = None,
    gamma: float | Iterable[float] | None = None,
) -> tuple[Learner, ...]:
    """Return one learner for each alpha and gamma: two arrays of one length, or a number beside an array.

    Raises
    ------
    SwiftRLError
        If the lengths differ, there is no array among them, or a value is out of range.
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
            "alpha and gamma give no list of agents: give at least one of them as a list of numbers"
        )
    return tuple(
        replace(learner, alpha=float(a), gamma=float(g)) for a, g in zip(alphas, gammas, strict=True)
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
    """Return how far each agent decides as its population does.

    Parameters
    ----------
    values : array (agents, states, actions)
    states : bool array (states,), optional
        Which states count, such as those that are not terminal; by default all.

    Returns
    -------
    float64 array (agents,)
        Share of states in which the agent's greedy action is the `majority`'s.
    """
    counted = values if states is None else values[:, states]
    return np.mean(counted.argmax(axis=2) == majority(counted), axis=1)


def _one_each(learners: Learner | Sequence[Learner], agents: int | None) -> tuple[Learner, ...]:
    if isinstance(learners, Learner):
        if agents is None:
            raise SwiftRLError(
                "one learner was given and no number of agents: say agents=1000, or pass a learner for each"
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
    for name in ALIKE:
        for number, learner in enumerate(chosen):
            if getattr(learner, name) != getattr(chosen[0], name):
                raise SwiftRLError(
                    f"agent {number} has {name} {getattr(learner, name)} and agent 0 {getattr(chosen[0], name)}: "
                    f"agents of a population agree in {', '.join(ALIKE)}"
                )
    return chosen


def module(backend: str) -> ModuleType:
    """Return a backend's module, whether it can be used here or not.

    Raises
    ------
    SwiftRLError
        If there is no such backend.
    """
    if backend not in BACKENDS:
        raise SwiftRLError(f"backend is {backend!r}: choose one of {', '.join(BACKENDS)}")
    return importlib.import_module(BACKENDS[backend])


def _usable(backend: str) -> ModuleType:
    chosen = module(backend)
    reason = chosen.available()
    if reason:
        raise SwiftRLError(f"backend {backend} is not available here: {reason}")
    return chosen


def _train_on_pim(population: Population, per_dpu: int, simulated: int | str, options: dict) -> Trained:
    pim = _usable("pim")
    dpus = -(-population.agents // per_dpu)
    if simulated == "all":
        return pim.train(population, agents_per_dpu=per_dpu, **options)
    if isinstance(simulated, str):
        raise SwiftRLError(f"simulated_dpus is {simulated!r}: give 'all', or a whole number from 1 to {dpus}")
    simulated = whole_number(simulated, "simulated_dpus", 1, dpus)
    if pim.runs_on_hardware():
        raise SwiftRLError(
            f"simulated_dpus is {simulated}, but this machine has UPMEM hardware, where all DPUs run: leave it out"
        )
    return _train_sampled(population, per_dpu, dpus, simulated, options)


def _train_sampled(population: Population, per_dpu: int, dpus: int, simulated: int, options: dict) -> Trained:
    """Train all agents on the CPU and some DPUs' agents on the simulator too; their tables have to be equal.

    DPUs are taken evenly spread over all, the first included, since it has the longest chunks. Kernel time is that of
    the slowest simulated one, transfers are those of all.
    """
    pim = _usable("pim")
    chosen = np.unique(np.linspace(0, dpus - 1, simulated).round().astype(int))
    agents = (chosen[:, None] * per_dpu + np.arange(per_dpu)).ravel()
    agents = agents[agents < population.agents]
    trained = _usable("cpu").train(population)
    few = pim.train(population.select(agents), agents_per_dpu=per_dpu, **options)
    unequal = np.argwhere(few.tables.view(np.uint32) != trained.tables[agents].view(np.uint32))
    if len(unequal):
        row, entry = unequal[0]
        state, action = divmod(int(entry), population.problem.n_actions)
        raise SwiftRLError(
            f"agent {agents[row]} differs between the simulated DPU and the CPU at state {state}, action {action}: the "
            f"kernel has {few.tables[row, entry]!r}, the CPU {trained.tables[agents[row], entry]!r}; they no longer "
            "follow the same rule, so the simulated time would stand for another computation"
        )
    down_s, up_s = pim.transfer_times(population, per_dpu, few.machine["hardware"])
    machine = few.machine | {"dpus": dpus, "simulated_dpus": len(chosen)}
    return Trained(trained.tables, down_s, few.kernel_s, up_s, Evidence.SIMULATED, machine)
