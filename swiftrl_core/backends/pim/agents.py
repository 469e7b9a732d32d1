"""Independent agents on DPUs: `dpu_src/multi_agent.c`, one agent on each tasklet."""

import math
from dataclasses import dataclass, replace

import numpy as np

from swiftrl_core.backend import Evidence, Population, TrainedAgents, usable
from swiftrl_core.backends.pim.backend import MRAM_BYTES, TRANSITIONS, available
from swiftrl_core.backends.pim.binding import open_dpu_set
from swiftrl_core.backends.pim.kernels import compile_agents
from swiftrl_core.backends.pim.platforms import runs_on_hardware
from swiftrl_core.backends.pim.sampled import require_equal, sample_size, server_with
from swiftrl_core.dpusim.timing import HardwareProfile, transfer_seconds
from swiftrl_core.util.errors import SwiftRLError

__all__ = ["available", "train"]


def train(
    population: Population, *, agents_per_dpu: int = 1, simulated_dpus: int | str = "all"
) -> TrainedAgents:
    """Train all agents from tables of zeros; times are measured on hardware and simulated on the simulator.

    Parameters
    ----------
    population : Population
    agents_per_dpu : int
        Agents on each DPU, one a tasklet; the last DPU may have fewer.
    simulated_dpus : "all" or int
        Run all DPUs, or simulate so many of them, while the engine trains all agents; see `sampled`.

    Raises
    ------
    SwiftRLError
        If so many tables do not fit a DPU's WRAM, the data do not fit its MRAM, there are not enough DPUs, or a
        DPU faults; if so many DPUs cannot be simulated, or a simulated table differs from the engine's.
    """
    if simulated_dpus != "all":
        return _train_sampled(population, agents_per_dpu, simulated_dpus)
    problem = population.problem
    binary = compile_agents(problem, agents_per_dpu, for_hardware=runs_on_hardware())
    cargo = _pack(population, agents_per_dpu)
    with open_dpu_set(cargo.dpus, binary) as dpus:
        with dpus.stopwatch() as down:
            if len(cargo.records) == 1:
                dpus.broadcast(TRANSITIONS, cargo.records[0])
            else:
                dpus.scatter(TRANSITIONS, cargo.records)
            dpus.scatter("args", cargo.args)
            dpus.scatter("first", cargo.first)
        with dpus.stopwatch() as kernel:
            dpus.launch()
        with dpus.stopwatch() as up:
            gathered = dpus.gather("q_tables", cargo.tables_bytes)
        described, evidence = dpus.describe(), Evidence(dpus.evidence)
    tables = gathered.view(problem.learner.dtype).reshape(cargo.dpus * agents_per_dpu, -1)
    on_hardware = evidence == Evidence.MEASURED
    name = "UPMEM hardware" if on_hardware else f"DPU simulator, hardware profile {described['hardware']}"
    return TrainedAgents(
        np.ascontiguousarray(tables[: population.agents, : problem.entries]),
        down.seconds,
        kernel.seconds,
        up.seconds,
        evidence=evidence,
        machine={"name": name, **described, "agents_per_dpu": agents_per_dpu},
    )


def _train_sampled(population: Population, agents_per_dpu: int, simulated: int) -> TrainedAgents:
    """Train all agents on the engine, and those of some DPUs in the simulator as well.

    DPUs are chosen evenly over all, the first included, since it has the longest chunks.
    """
    dpus = -(-population.agents // agents_per_dpu)
    chosen = np.unique(np.linspace(0, dpus - 1, sample_size(simulated, dpus)).round().astype(int))
    server = server_with(dpus)
    agents = (chosen[:, None] * agents_per_dpu + np.arange(agents_per_dpu)).ravel()
    agents = agents[agents < population.agents]
    trained = usable("cpu", agents=True).train(population)
    sample = replace(population, starts=population.starts[agents], args=population.args[agents])
    few = train(sample, agents_per_dpu=agents_per_dpu)
    require_equal(few.tables, trained.tables[agents], population.problem, lambda row: f"agent {agents[row]}")
    down_s, up_s = _transfer_times(population, agents_per_dpu, server)
    ranks = math.ceil(dpus / server.dpus_per_rank)
    machine = few.machine | {"dpus": dpus, "ranks": ranks, "simulated_dpus": len(chosen)}
    return TrainedAgents(
        trained.tables, down_s, few.kernel_s, up_s, evidence=Evidence.SIMULATED, machine=machine
    )


def _transfer_times(
    population: Population, agents_per_dpu: int, server: HardwareProfile
) -> tuple[float, float]:
    """Return the simulated seconds of `train`'s transfers to the DPUs and back, without moving anything."""
    cargo = _pack(population, agents_per_dpu)
    longest = max(records.nbytes for records in cargo.records)
    down = transfer_seconds(
        server, "to_dpu", cargo.dpus, longest, "broadcast" if len(cargo.records) == 1 else "parallel"
    )
    for array in (cargo.args, cargo.first):
        down += transfer_seconds(server, "to_dpu", cargo.dpus, array[0].nbytes)
    return down, transfer_seconds(server, "from_dpu", cargo.dpus, cargo.tables_bytes)


@dataclass(frozen=True, eq=False)
class _Cargo:
    """What goes to the DPUs: arrays of `multi_agent.c`, a row a DPU; records is one array where all get the same."""

    records: list[np.ndarray]
    args: np.ndarray
    first: np.ndarray
    tables_bytes: int

    @property
    def dpus(self) -> int:
        return len(self.args)


def _pack(population: Population, agents_per_dpu: int) -> _Cargo:
    """Deal the agents out to DPUs; what is left of the last DPU's tasklets gets no transitions and no episodes."""
    dpus = -(-population.agents // agents_per_dpu)
    args = np.zeros(dpus * agents_per_dpu, population.args.dtype)
    args[: population.agents] = population.args
    first = np.zeros(len(args), np.uint32)
    if population.shares_data:
        records = [population.records]
    else:
        ends = population.starts + population.args["transitions"]
        edges = np.arange(0, population.agents, agents_per_dpu)
        low, high = np.minimum.reduceat(population.starts, edges), np.maximum.reduceat(ends, edges)
        records = [population.records[a:b] for a, b in zip(low, high, strict=True)]
        first[: population.agents] = population.starts - np.repeat(low, agents_per_dpu)[: population.agents]
    table_bytes = -(-population.problem.entries * population.problem.learner.dtype.itemsize // 8) * 8
    cargo = _Cargo(
        records,
        args.reshape(dpus, agents_per_dpu),
        first.reshape(dpus, agents_per_dpu),
        agents_per_dpu * table_bytes,
    )
    longest = max(part.nbytes for part in records)
    if longest + cargo.tables_bytes > MRAM_BYTES:
        raise SwiftRLError(
            f"{longest:,} bytes of transitions and the tables do not fit a DPU's MRAM of {MRAM_BYTES:,} bytes: use "
            "fewer transitions, or agents that do not share them"
        )
    return cargo
