"""Independent agents on a GPU: the `gpu` backend's kernel with one lane, and its own arguments, for each agent."""

from dataclasses import dataclass, field

import numpy as np

from swiftrl_core.backend import Population, Problem, TrainedAgents
from swiftrl_core.backends.gpu.backend import available, open_backend
from swiftrl_core.learner.chunks import Chunks

__all__ = ["available", "train"]


@dataclass(frozen=True, eq=False)
class _OwnArguments(Problem):
    """A problem whose cores learn each with an alpha and a gamma of its own."""

    args: np.ndarray = field(kw_only=True)

    def arguments(self, chunks: Chunks) -> np.ndarray:
        return self.args.copy()


def train(population: Population) -> TrainedAgents:
    """Train all agents from tables of zeros; times are measured, by events on the GPU.

    The kernel lays the records of 32 lanes out side by side. So a shared stream is repeated for every agent, which
    takes agents x transitions x 8 bytes on the host and twice that on the GPU: 80 MB for 1,000 agents and 10,000
    transitions.
    """
    problem, agents = population.problem, population.agents
    own = _OwnArguments(
        problem.learner, problem.n_states, problem.n_actions, problem.seed, args=population.args
    )
    machine = open_backend(own, agents)
    try:
        load_s = machine.load(_chunks(population))
        zeros = np.zeros(problem.entries, problem.learner.dtype)
        done = machine.run_round(zeros, int(population.args["episodes"][0]))
        described, evidence = machine.describe(), machine.evidence
    finally:
        machine.close()
    down_s = load_s + done.down_s
    return TrainedAgents(done.tables, down_s, done.kernel_s, done.up_s, evidence=evidence, machine=described)


def _chunks(population: Population) -> Chunks:
    """Return every agent's records one after the other."""
    lengths = population.args["transitions"].astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    if population.shares_data:
        records = np.tile(population.records, population.agents)
    else:
        parts = zip(population.starts, lengths, strict=True)
        records = np.concatenate([population.records[start : start + length] for start, length in parts])
    return Chunks(records, starts, np.arange(population.agents))
