"""What only a GPU can show. Run by `python -m pytest -m gpu`."""

import itertools

import numpy as np
import pytest

from benchmarks import gpu as bench
from swiftrl_core import backend as backends
from swiftrl_core.backend import Problem, open_backend
from swiftrl_core.backends.gpu.backend import GpuBackend
from swiftrl_core.data import collect, environments, evaluation
from swiftrl_core.learner import Algorithm, Learner, NumberFormat, Sampling
from swiftrl_core.learner.chunks import split
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

VARIANTS = list(itertools.product(Algorithm, Sampling, NumberFormat))
SCHEDULES = [Schedule(1, 3, 3), Schedule(33, 3, 2), Schedule(2_000, 5, 2, seed=5)]


@pytest.fixture(autouse=True)
def _gpu():
    """Skip where there is no GPU, in the backend's own words."""
    reason = backends.module("gpu").available()
    if reason:
        pytest.skip(reason)


pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", params=["frozenlake", "frozenlake8x8", "cliffwalking", "taxi"])
def data(request):
    return collect(request.param, 20_011, seed=11)


@pytest.mark.parametrize(("algorithm", "sampling", "number_format"), VARIANTS)
def test_gpu_equals_cpu(data, algorithm, sampling, number_format):
    learner = Learner(algorithm, sampling, number_format, reward_range=data.reward_range)
    for schedule in SCHEDULES:
        gpu, cpu = (train(data, learner, schedule, backend) for backend in ("gpu", "cpu"))
        np.testing.assert_array_equal(
            gpu.q_raw.view(np.uint32), cpu.q_raw.view(np.uint32), err_msg=str(schedule)
        )


def test_local_tables_equal_the_cpus(data):
    learner = Learner("sarsa", "RAN", reward_range=data.reward_range)
    problem = Problem(learner, data.n_states, data.n_actions, seed=1)
    tables = []
    for name in ("gpu", "cpu"):
        machine = open_backend(name, problem, 1_000)
        machine.load(split(data, learner, 1_000))
        tables.append(machine.run_round(np.zeros(problem.entries, learner.dtype), 3).tables.copy())
        machine.close()
    np.testing.assert_array_equal(tables[0].view(np.uint32), tables[1].view(np.uint32))


def test_values_decay_through_the_subnormals():
    data = collect("frozenlake", 2_609, seed=3)
    learner = Learner(alpha=1e-3, gamma=1e-38, reward_range=data.reward_range)
    gpu, cpu = (train(data, learner, Schedule(3, 2, 1), backend).q_raw for backend in ("gpu", "cpu"))
    assert np.any((gpu != 0) & (np.abs(gpu) < np.finfo(np.float32).tiny))
    np.testing.assert_array_equal(gpu.view(np.uint32), cpu.view(np.uint32))


def test_mean_of_many_cores_keeps_its_order():
    """Enough cores for the parallel sum to take most segments in one step."""
    data = collect("frozenlake", 200_000, seed=2)
    gpu, cpu = (train(data, Learner(), Schedule(20_000, 40, 20), backend).q_raw for backend in ("gpu", "cpu"))
    np.testing.assert_array_equal(gpu.view(np.uint32), cpu.view(np.uint32))


def test_times_are_measured_and_grow_with_the_work():
    data = collect("frozenlake", 1_000_000, seed=0)
    short, long = (train(data, Learner(), Schedule(2_000, n, n), "gpu") for n in (50, 200))
    assert short.breakdown.evidence == "measured"
    assert 3.0 < long.breakdown.pim_kernel / short.breakdown.pim_kernel < 5.0
    rate = long.updates / long.breakdown.pim_kernel
    assert 1e8 < rate < 1e13, "between one slow core and more than any card's memory can feed"
    assert long.breakdown.cpu_to_pim > 8e6 / 100e9, "8 MB cannot have come faster than 100 GB/s"
    assert long.machine["device"]


def test_a_case_of_the_benchmark_runs():
    data = collect("taxi", 100_000, seed=0)
    learner = Learner(reward_range=data.reward_range)
    machine = open_backend("gpu", Problem(learner, data.n_states, data.n_actions), 2_000)
    row = bench.measure(data, learner, 2_000, machine, rounds=2)
    assert row["updates_per_s"] >= row["updates_per_s_averaged"] > 0


@pytest.mark.parametrize("number_format", NumberFormat)
def test_one_table_for_all_learns(number_format):
    environment = environments.resolve("frozenlake")
    data = collect(environment, 1_000_000, seed=0)
    learner = Learner(alpha=0.01, number_format=number_format, reward_range=data.reward_range)
    result = train(data, learner, Schedule(2_000, 100, 50), "gpu-shared")
    assert result.machine["deterministic"] is False
    assert evaluation.exact_return(environment, result.q_table) > 0.6


def test_too_large_for_the_gpu_is_one_sentence():
    data = collect("taxi", 1_000, seed=0)
    learner = Learner(reward_range=data.reward_range)
    machine: GpuBackend = open_backend("gpu", Problem(learner, 30_000, 2), 2**31)
    with pytest.raises(SwiftRLError, match="no room for"):
        machine.load(split(data, learner, 1_000))
    machine.close()
