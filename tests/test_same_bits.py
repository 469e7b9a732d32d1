"""The project's spine: the kernel on the simulated DPUs and the engine on the CPU give the same tables, every bit."""

import itertools

import numpy as np
import pytest

from swiftrl_core.data import collect, environments, read_text
from swiftrl_core.learner import Algorithm, Learner, NumberFormat, Sampling
from swiftrl_core.training.loop import Schedule, train

VARIANTS = list(itertools.product(Algorithm, Sampling, NumberFormat))
SCHEDULES = [
    Schedule(1, 3, 3),
    Schedule(2, 3, 1),
    Schedule(7, 3, 2, seed=5),
    Schedule(64, 2, 2),
    Schedule(64, 3, 1),
]
AUTHORS = {
    "authors-frozenlake": ("frozenlake", "FrozenLake_trajectories_10k.txt"),
    "authors-taxi": ("taxi", "Taxi_trajectories_10k.txt"),
    "authors-cliffwalking": ("cliffwalking", "Cliffwalking_trajectories_10k.txt"),
}


@pytest.fixture(scope="module")
def data(request, shared_data):
    if request.param in AUTHORS:
        environment, file = AUTHORS[request.param]
        return read_text(shared_data / file, environments.resolve(environment))
    return collect(request.param, 5_003, seed=11)  # a prime: no number of cores divides it


@pytest.mark.parametrize("data", ["frozenlake", "taxi"], indirect=True)
@pytest.mark.parametrize(("algorithm", "sampling", "number_format"), VARIANTS)
def test_pim_equals_cpu_on_generated_data(data, algorithm, sampling, number_format):
    assert_same_bits(data, Learner(algorithm, sampling, number_format, reward_range=data.reward_range))


@pytest.mark.parametrize("data", list(AUTHORS), indirect=True)
@pytest.mark.parametrize(("algorithm", "sampling", "number_format"), VARIANTS)
def test_pim_equals_cpu_on_the_authors_data(data, algorithm, sampling, number_format):
    assert_same_bits(data, Learner(algorithm, sampling, number_format, reward_range=data.reward_range))


def assert_same_bits(data, learner):
    for schedule in SCHEDULES:
        pim, cpu = (train(data, learner, schedule, backend).q_raw for backend in ("pim", "cpu"))
        assert np.any(pim), "a table that never left zero proves nothing"
        np.testing.assert_array_equal(pim.view(np.uint32), cpu.view(np.uint32), err_msg=str(schedule))
