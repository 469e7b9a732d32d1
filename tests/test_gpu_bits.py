"""The GPU's kernels, run on the host, give the CPU engine's tables, every bit. No GPU needed."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from host_gpu import HostGpu

from swiftrl_core.backend import Problem
from swiftrl_core.backends.cpu import backend as cpu
from swiftrl_core.backends.gpu.backend import GpuBackend
from swiftrl_core.backends.gpu.kernels import LANES, Tables, placement, shared_bytes
from swiftrl_core.backends.gpu.shared_table import SharedTableBackend
from swiftrl_core.data import collect
from swiftrl_core.learner import Algorithm, Learner, NumberFormat, Sampling
from swiftrl_core.learner.chunks import Chunks, split
from swiftrl_core.training import aggregation
from swiftrl_core.training import loop as training
from swiftrl_core.training.loop import Schedule, train

VARIANTS = list(itertools.product(Algorithm, Sampling, NumberFormat))
OWN_TABLES = [Tables.IN_SHARED_MEMORY, Tables.IN_GLOBAL_MEMORY]
# One core; less than a tile; a tile and a bit with chunks of 79 or 80 rows; more tiles, chunks shorter than a stride.
SCHEDULES = [Schedule(1, 2, 1), Schedule(7, 3, 2, seed=5), Schedule(33, 3, 2), Schedule(900, 5, 2)]


@pytest.fixture(scope="module")
def frozenlake():
    return collect("frozenlake", 2_609, seed=3)


@pytest.fixture(scope="module")
def taxi():
    return collect("taxi", 2_609, seed=4)


@pytest.fixture
def on_host(monkeypatch):
    """Let `train(..., "gpu")` run the GPU backend on the host; return its options."""
    options = SimpleNamespace(tables=Tables.IN_SHARED_MEMORY, backwards=False, opened=[])

    def open_backend(name, problem, cores):
        if name == "cpu":
            return cpu.open_backend(problem, cores)
        device = HostGpu(shared_limit=1 << 20, backwards=options.backwards)
        options.opened.append(device)
        return GpuBackend(problem, cores, device, options.tables)

    monkeypatch.setattr(training, "open_backend", open_backend)
    return options


@pytest.mark.parametrize("tables", OWN_TABLES)
@pytest.mark.parametrize(("algorithm", "sampling", "number_format"), VARIANTS)
def test_gpu_equals_cpu(frozenlake, on_host, algorithm, sampling, number_format, tables):
    learner = Learner(algorithm, sampling, number_format, reward_range=frozenlake.reward_range)
    on_host.tables = tables
    for schedule in SCHEDULES:
        assert_same_bits(frozenlake, learner, schedule)


@pytest.mark.parametrize("tables", OWN_TABLES)
@pytest.mark.parametrize(("algorithm", "number_format"), list(itertools.product(Algorithm, NumberFormat)))
def test_gpu_equals_cpu_on_taxi(taxi, on_host, algorithm, number_format, tables):
    on_host.tables = tables
    assert_same_bits(
        taxi, Learner(algorithm, "RAN", number_format, reward_range=taxi.reward_range), Schedule(40, 4, 2)
    )


@pytest.mark.parametrize("tables", OWN_TABLES)
def test_order_of_threads_does_not_matter(frozenlake, on_host, tables):
    on_host.tables, on_host.backwards = tables, True
    for number_format in NumberFormat:
        learner = Learner("sarsa", "STR", number_format, reward_range=frozenlake.reward_range)
        assert_same_bits(frozenlake, learner, Schedule(70, 4, 2))


def test_values_decay_through_the_subnormals(frozenlake, on_host):
    """A GPU compiler may flush them to zero; the kernels must not, and the values must get there for that to show."""
    learner = Learner(alpha=1e-3, gamma=1e-38, reward_range=frozenlake.reward_range)
    table = assert_same_bits(frozenlake, learner, Schedule(3, 2, 1))
    assert np.any((table != 0) & (np.abs(table) < np.finfo(np.float32).tiny))


def assert_same_bits(data, learner, schedule):
    gpu, cpu_table = (train(data, learner, schedule, backend).q_raw for backend in ("gpu", "cpu"))
    assert np.any(gpu), "a table that never left zero proves nothing"
    np.testing.assert_array_equal(gpu.view(np.uint32), cpu_table.view(np.uint32), err_msg=str(schedule))
    return gpu


@pytest.mark.parametrize("tables", OWN_TABLES)
@pytest.mark.parametrize("number_format", NumberFormat)
def test_local_tables_equal_the_cpus_round_after_round(frozenlake, number_format, tables):
    learner = Learner("sarsa", "RAN", number_format, reward_range=frozenlake.reward_range)
    problem = Problem(learner, frozenlake.n_states, frozenlake.n_actions, seed=9)
    chunks = split(frozenlake, learner, 45)
    machines = [GpuBackend(problem, 45, HostGpu(), tables), cpu.open_backend(problem, 45)]
    table = np.zeros(problem.entries, learner.dtype)
    for machine in machines:
        machine.load(chunks)
    for episodes in (3, 1):
        rounds = [machine.run_round(table, episodes) for machine in machines]
        np.testing.assert_array_equal(rounds[0].tables.view(np.uint32), rounds[1].tables.view(np.uint32))
        table = aggregation.mean(rounds[0].tables)
    for machine in machines:
        machine.close()


def test_rounds_stay_on_the_gpu(frozenlake, on_host):
    """A round launches learning and averaging; no core's table comes back, and the mean does not go down again."""
    result = train(frozenlake, Learner(), Schedule(300, 6, 2), "gpu")
    (device,) = on_host.opened
    rounds = device.launches[-15:]
    assert rounds == ["train", "sum_segments", "guess_starts", "round_segments", "mean"] * 3
    assert result.breakdown.cpu_to_pim == 2.0, (
        "the clock of HostGpu ticks once a mark: chunks, and the first table"
    )
    assert result.breakdown.pim_kernel == 3.0
    assert result.breakdown.inter_pim_core == 4.0, (
        "averaging, and the mean to the host, after two of three rounds"
    )
    assert result.breakdown.pim_to_cpu == 2.0
    assert result.breakdown.host_averaging == 3.0


def test_tables_go_where_they_fit(frozenlake, taxi):
    small, large = (Problem(Learner(), data.n_states, data.n_actions) for data in (frozenlake, taxi))
    assert shared_bytes(small) == LANES * 16 * 4 * 4
    assert placement(small, 48 * 1024) == Tables.IN_SHARED_MEMORY
    assert placement(small, shared_bytes(small) - 1) == Tables.IN_GLOBAL_MEMORY
    assert placement(large, 227 * 1024) == Tables.IN_GLOBAL_MEMORY


@pytest.mark.parametrize("number_format", NumberFormat)
def test_one_table_for_all_learns_like_one_core_when_lanes_take_turns(frozenlake, number_format):
    """The host runs lane after lane: the table passes through the chunks one by one, all passes over each."""
    learner = Learner("q_learning", "STR", number_format, reward_range=frozenlake.reward_range)
    problem = Problem(learner, frozenlake.n_states, frozenlake.n_actions)
    backend = SharedTableBackend(problem, 35, HostGpu())
    chunks = split(frozenlake, learner, 35)
    backend.load(chunks)
    expected = np.zeros(problem.entries, learner.dtype)
    for core in range(35):
        expected = one_core(problem, chunks.chunk(core), expected, episodes=3)
    (table,) = backend.run_round(np.zeros(problem.entries, learner.dtype), 3).tables
    np.testing.assert_array_equal(table.view(np.uint32), expected.view(np.uint32))
    (averaged,) = backend.run_averaged_round(np.zeros(problem.entries, learner.dtype), 3).tables
    np.testing.assert_array_equal(averaged.view(np.uint32), expected.view(np.uint32))
    assert backend.describe()["deterministic"] is False


def one_core(problem, records, table, episodes):
    backend = cpu.open_backend(problem, 1, threads=1)
    backend.load(Chunks(records, np.array([0, len(records)]), np.arange(1)))
    done = backend.run_round(table, episodes).tables[0].copy()
    backend.close()
    return done
