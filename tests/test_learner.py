"""What a learner accepts, and what fixed point promises about it."""

import ctypes
from dataclasses import fields
from enum import StrEnum
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from swiftrl_core.learner import BEYOND_THE_PAPER, CHOICES, Learner, random_states
from swiftrl_core.learner.fixed_point import INT32_MAX
from swiftrl_core.learner.layout import KERNEL_DIRECTORY
from swiftrl_core.util import toolchain
from swiftrl_core.util.errors import SwiftRLError

TAXI_REWARDS = (-10.0, 20.0)


@pytest.mark.parametrize(
    ("wrong", "needle"),
    [
        ({"algorithm": "dqn"}, "algorithm is 'dqn': choose one of q_learning, sarsa"),
        ({"sampling": "seq"}, "sampling is 'seq'"),
        ({"number_format": "FP16"}, "number_format is 'FP16'"),
        ({"alpha": 0.0}, "alpha is 0.0: give a number above 0 up to 1"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"epsilon": -0.1}, "epsilon is -0.1"),
        ({"reward_range": (1.0, 0.0)}, "reward_range is (1.0, 0.0)"),
        ({"reward_range": (0.0, float("inf"))}, "two finite numbers"),
        ({"number_format": "INT32", "gamma": 1.0}, "gamma is 1, which INT32 cannot bound"),
        (
            {"number_format": "INT32", "alpha": 0.0937, "reward_range": TAXI_REWARDS},
            "a product could pass 32 bits",
        ),
        ({"alpha": 1e-60}, "alpha is 1e-60, which is 0 in FP32"),
        (
            {"number_format": "INT32", "alpha": 6e-5},
            "INT32 would use 0.0001 for alpha 6e-05, more than 5% off",
        ),
        ({"number_format": "INT32", "reward_range": (-1e-5, 1e-5)}, "rewards up to 1e-05 vanish in INT32"),
        ({"number_format": "INT32", "alpha": 1e-6}, "cannot represent alpha 1e-06"),
        ({"number_format": "INT32_POW2", "reward_range": (-1e5, 1e5)}, "a product could pass 32 bits"),
        ({"number_format": "INT32_POW2", "gamma": 0.99999}, "cannot represent alpha 0.1 with gamma 0.99999"),
    ],
)
def test_a_learner_that_cannot_be_is_refused_with_a_sentence(wrong, needle):
    with pytest.raises(SwiftRLError) as error:
        Learner(**wrong)
    assert needle in str(error.value)
    assert "\n" not in str(error.value)


def test_a_chunk_that_a_kernel_cannot_count_is_refused():
    with pytest.raises(SwiftRLError, match=r"4,294,967,296 transitions; a kernel counts to 4,294,967,295"):
        Learner().arguments(np.array([5, 2**32]), np.zeros(2, np.uint32))


def test_the_papers_setting_on_taxi_uses_the_simplest_fractions():
    used = Learner(number_format="INT32", reward_range=TAXI_REWARDS).coefficients
    assert (used.alpha, used.alpha_scale, used.gamma, used.gamma_scale) == (1, 10, 19, 20)


@given(
    number_format=st.sampled_from(["INT32", "INT32_POW2"]),
    alpha=st.floats(0.001, 1),
    gamma=st.floats(0, 0.999),
    low=st.floats(-500, 0),
    high=st.floats(0, 500),
)
@example(number_format="INT32", alpha=0.1, gamma=0.95, low=-10.0, high=20.0)
@example(number_format="INT32_POW2", alpha=0.1, gamma=0.95, low=-100.0, high=0.0)
def test_an_accepted_learner_stays_in_32_bits_at_the_ends_of_its_range(
    number_format, alpha, gamma, low, high
):
    try:
        learner = Learner(number_format=number_format, alpha=alpha, gamma=gamma, reward_range=(low, high))
    except SwiftRLError:
        assume(False)
    used = learner.coefficients
    rewards = [int(r) for r in learner.to_raw(np.array([low, high]))]
    gamma_used, alpha_used = used.gamma_used, used.alpha_used
    for bound, reward, half in (
        (used.low, rewards[0], Fraction(-1, 2)),
        (used.high, rewards[1], Fraction(1, 2)),
    ):
        assert used.low <= reward + gamma_used * bound + half <= used.high  # a target stays in the range
        gamma_half = used.gamma_scale // 2 if number_format == "INT32" else 2 ** (used.gamma_scale - 1)
        assert used.gamma * abs(bound) + gamma_half <= INT32_MAX
    alpha_half = used.alpha_scale // 2 if number_format == "INT32" else 2 ** (used.alpha_scale - 1)
    assert used.alpha * (used.high - used.low) + alpha_half <= INT32_MAX
    assert 0 < alpha_used <= 1
    assert 0 <= gamma_used < 1


FIXED_POINT_PROBE = """
#include "fixed_point.h"
int32_t divide(int32_t x, int32_t d) { return divide_round(x, d); }
int32_t shift(int32_t x, int32_t bits) { return shift_round(x, bits); }
int32_t stall(int32_t step, int32_t difference) { return never_stall(step, difference); }
"""


@pytest.fixture(scope="module")
def fixed_point_c(tmp_path_factory):
    source = tmp_path_factory.mktemp("probe") / "fixed_point_probe.c"
    source.write_text(FIXED_POINT_PROBE)
    library = toolchain.compile_shared_library(
        [source], headers=[KERNEL_DIRECTORY / "fixed_point.h"], include_directories=[KERNEL_DIRECTORY]
    )
    return ctypes.CDLL(str(library))


@given(x=st.integers(-(2**31) + 5001, 2**31 - 5001), divisor=st.integers(1, 10_000))
@example(x=-5, divisor=10)
@example(x=5, divisor=10)
def test_division_rounds_to_nearest_with_ties_away_from_zero(fixed_point_c, x, divisor):
    magnitude = int(Fraction(abs(x), divisor) + Fraction(1, 2))
    assert fixed_point_c.divide(x, divisor) == (magnitude if x >= 0 else -magnitude)


@given(x=st.integers(-(2**30), 2**30), bits=st.integers(1, 13))
@example(x=-4096, bits=13)
def test_shifting_rounds_to_nearest_with_ties_up(fixed_point_c, x, bits):
    assert fixed_point_c.shift(x, bits) == (2 * x + 2**bits) // 2 ** (bits + 1)


@given(difference=st.integers(-(2**31) + 1, 2**31 - 1), step=st.integers(-100, 100))
def test_a_step_is_nothing_only_on_the_target(fixed_point_c, difference, step):
    sign = (difference > 0) - (difference < 0)
    assert fixed_point_c.stall(0, difference) == sign
    assert fixed_point_c.stall(step, difference) == (step or sign)


@given(seed=st.integers(0, 2**70), cores=st.integers(1, 3000))
@settings(max_examples=30)
def test_cores_start_apart_and_do_not_depend_on_how_many_there_are(seed, cores):
    states = random_states(seed, np.arange(cores))
    assert len(np.unique(states)) == cores
    np.testing.assert_array_equal(random_states(seed, np.arange(cores + 7))[:cores], states)
    assert random_states(seed, np.array([cores - 1])) == states[-1]


def test_seeds_give_other_states():
    assert not np.intersect1d(random_states(0, np.arange(100)), random_states(1, np.arange(100))).size
    with pytest.raises(SwiftRLError, match="seed is -1"):
        random_states(-1, np.arange(3))


def test_every_setting_but_the_data_s_carries_its_help():
    without = [entry.name for entry in fields(Learner) if not entry.metadata.get("help")]
    assert without == ["reward_range", "units"]
    assert list(CHOICES) == [entry.name for entry in fields(Learner) if isinstance(entry.default, StrEnum)]
    assert all(getattr(Learner(), name) == paper for name, paper in BEYOND_THE_PAPER.items())


def test_settings_without_effect_name_the_choice_that_makes_them_so():
    assert Learner().without_effect == {"epsilon": "algorithm"}
    assert Learner("sarsa", alpha_schedule="rescaled_linear").without_effect == {"alpha": "alpha_schedule"}
