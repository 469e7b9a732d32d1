"""The tuned kernel: every step of `pim.tuning` leaves each bit as the paper's kernel does, whatever it learns from."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from swiftrl_core.backend import Problem, open_backend
from swiftrl_core.backends.pim import kernels, tuning
from swiftrl_core.backends.pim.backend import PimBackend
from swiftrl_core.backends.pim.binding import open_dpu_set
from swiftrl_core.backends.pim.tuning import Step
from swiftrl_core.data import Dataset, collect
from swiftrl_core.learner import Algorithm, Learner, NumberFormat, Sampling
from swiftrl_core.learner.chunks import split
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

ROWS = 2_003  # a prime, and more than one block of 256
SCHEDULE = Schedule(3, 6, 2, seed=5)
GRID = list(itertools.product(Algorithm, (Sampling.SEQ, Sampling.STR, Sampling.RAN), NumberFormat))


@pytest.fixture(scope="module")
def data():
    return {name: collect(name, ROWS, seed=11) for name in ("frozenlake", "taxi", "cliffwalking")}


def scaled(dataset: Dataset, factor: float) -> Dataset:
    return replace(dataset, reward=dataset.reward * np.float32(factor), metadata={})


def assert_same_bits(dataset, learner, schedule=SCHEDULE, **options):
    tuned = train(dataset, learner, schedule, "pim", kernel="tuned", **options).q_raw
    expected = train(dataset, learner, schedule, "cpu").q_raw
    assert np.any(expected), "a table that never left zero proves nothing"
    np.testing.assert_array_equal(tuned.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("environment", [pytest.param("frozenlake", marks=pytest.mark.slow), "taxi"])
@pytest.mark.parametrize(("algorithm", "sampling", "number_format"), GRID)
def test_tuned_equals_the_engine(data, environment, algorithm, sampling, number_format):
    dataset = data[environment]
    assert_same_bits(dataset, Learner(algorithm, sampling, number_format, reward_range=dataset.reward_range))


def steps_one_by_one(learner: Learner) -> list[tuple[Step, ...]]:
    """Each step of a learner's tuned kernel alone, with what it needs, and all of them heaped up."""
    steps = kernels.steps_of(Problem(learner, 16, 4), "tuned")
    alone = [tuple(dict.fromkeys((Step.KNOWN_COEFFICIENTS, step))) for step in steps]
    return alone + [steps[:count] for count in range(2, len(steps) + 1)]


@pytest.mark.parametrize("number_format", NumberFormat)
@pytest.mark.parametrize("sampling", [pytest.param(Sampling.STR, marks=pytest.mark.slow), Sampling.RAN])
def test_each_step_leaves_every_bit(data, sampling, number_format):
    dataset = scaled(data["frozenlake"], -3.7)  # negative values: 0 is the best that an unseen pair offers
    learner = Learner(sampling=sampling, number_format=number_format, reward_range=dataset.reward_range)
    problem, chunks = Problem(learner, 16, 4), split(dataset, learner, 2)

    def tables(steps):
        machine = open_dpu_set(2, kernels.compile_steps(problem, steps), platform="simulator")
        backend = PimBackend(problem, machine)
        backend.load(chunks)
        table = backend.run_round(np.zeros(64, learner.dtype), 3).tables[0]
        found = backend.run_round(table, 2).tables
        backend.close()
        return found.view(np.uint32)

    expected = tables(())
    for steps in steps_one_by_one(learner):
        np.testing.assert_array_equal(tables(steps), expected, err_msg=str(steps))


@pytest.mark.parametrize("number_format", [NumberFormat.FP32, NumberFormat.INT32])
@pytest.mark.parametrize("sampling", [Sampling.SEQ, Sampling.STR, Sampling.RAN])
def test_chunks_of_one_and_beyond_wram(sampling, number_format):
    """From a chunk of one transition to one that no block holds, and so is fetched in pieces, as it always was."""
    learner = Learner(sampling=sampling, number_format=number_format)
    held = tuning.switches(Problem(learner, 16, 4), [Step.HELD_CHUNK], kernels._room(Problem(learner, 16, 4)))
    longest = collect("frozenlake", held["BLOCK_RECORDS"] + 259, seed=2)
    assert_same_bits(longest, learner, Schedule(1, 2, 2))
    for rows in (1, 3, 255, 257):
        few = collect("frozenlake", 3 * rows, seed=rows)
        one = replace(few, reward=few.reward + np.float32(0.25), metadata={})
        assert_same_bits(one, replace(learner, reward_range=(0.0, 1.25)), Schedule(3, 4, 2))


@pytest.mark.parametrize(
    ("alpha", "gamma"),
    [
        *((0.2, 0.8), (1 / 3, 0.9), (1.0, 0.0)),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in ((0.1, 0.95), (0.5, 0.75), (0.001, 0.999), (0.016, 0.36))
        ),
    ],
)
@pytest.mark.parametrize("number_format", NumberFormat)
def test_other_coefficients(data, number_format, alpha, gamma):
    dataset = data["cliffwalking"]
    learner = partial(Learner, number_format=number_format, alpha=alpha, gamma=gamma)
    try:
        made = learner(reward_range=dataset.reward_range)
    except SwiftRLError:
        pytest.skip("this number format cannot hold these")
    assert_same_bits(dataset, made)


def test_divisors_without_room_are_divided_by(data):
    """Odd divisors leave room for dividends up to 2^29: beyond that, C's own division, and the same bits."""
    for factor, fits in ((2_600.0, True), (2_700.0, False)):
        dataset = scaled(data["frozenlake"], factor)
        learner = Learner(number_format="INT32", alpha=0.2, gamma=0.8, reward_range=dataset.reward_range)
        assert (Step.CONSTANT_DIVISION in kernels.steps_of(Problem(learner, 16, 4), "tuned")) == fits
        assert_same_bits(dataset, learner)


def test_values_at_the_end_of_what_int32_holds(data):
    dataset = scaled(data["frozenlake"], 565.0)
    learner = Learner(number_format="INT32", reward_range=dataset.reward_range)
    with pytest.raises(SwiftRLError, match="32 bits"):
        Learner(number_format="INT32", reward_range=(0.0, 566.0))
    assert Step.CONSTANT_DIVISION in kernels.steps_of(Problem(learner, 16, 4), "tuned")
    assert_same_bits(dataset, learner, Schedule(3, 40, 20))


@pytest.mark.parametrize("number_format", NumberFormat)
@pytest.mark.parametrize(
    "choice", [{"update": "vr"}, {"alpha_schedule": "rescaled_linear"}, {"sampling": "REV"}]
)
def test_choices_beyond_the_paper(data, choice, number_format):
    dataset = data["taxi"]
    learner = Learner(number_format=number_format, reward_range=dataset.reward_range, **choice)
    assert_same_bits(dataset, learner)


@pytest.mark.parametrize("number_format", NumberFormat)
@pytest.mark.parametrize("tasklets", [1, 11])
def test_tasklets_take_the_steps_that_are_theirs(data, tasklets, number_format):
    dataset = data["taxi"]
    learner = Learner(number_format=number_format, reward_range=dataset.reward_range, bootstrap="frozen")
    assert_same_bits(dataset, learner, tasklets=tasklets)


def test_which_steps_a_learner_gets():
    def steps(n_states=16, n_actions=4, **choices):
        return set(kernels.steps_of(Problem(Learner(**choices), n_states, n_actions), "tuned"))

    in_fp32 = {Step.KNOWN_COEFFICIENTS, Step.CONSTANT_PRODUCTS, Step.INTEGER_COMPARISON}
    in_integers = {Step.KNOWN_COEFFICIENTS, Step.HELD_CHUNK}
    assert steps() == in_fp32 | {Step.KEPT_MAXIMA}
    assert steps(sampling="RAN") == in_fp32 | {Step.KEPT_MAXIMA, Step.HELD_CHUNK, Step.FACTORED_LCG}
    assert steps(algorithm="sarsa") == in_fp32 | {Step.FACTORED_LCG}
    assert steps(update="vr") == in_fp32
    assert steps(number_format="INT32") == in_integers | {Step.KEPT_MAXIMA, Step.CONSTANT_DIVISION}
    assert steps(number_format="INT32_POW2") == in_integers | {Step.KEPT_MAXIMA}
    assert steps(bootstrap="frozen") == in_fp32
    assert steps(n_states=3_600, sampling="RAN") == in_fp32 | {
        Step.FACTORED_LCG
    }  # no room beside such a table


def test_the_largest_table_still_fits():
    entries = kernels.largest_table_bytes() // 4
    problem = Problem(Learner(), entries // 4, 4)
    assert kernels.compile_learner(problem, kernel="tuned", for_hardware=False).is_file()


def test_the_papers_kernel_is_the_default():
    problem = Problem(Learner(), 16, 4)
    plain = kernels.compile_learner(problem, for_hardware=False)
    assert plain == kernels.compile_learner(problem, kernel="paper", for_hardware=False)
    assert plain != kernels.compile_learner(problem, kernel="tuned", for_hardware=False)


def test_an_unknown_kernel_is_refused():
    with pytest.raises(SwiftRLError, match="kernel is 'fast': choose one of paper, tuned"):
        open_backend("pim", Problem(Learner(), 16, 4), 1, kernel="fast")
