"""The kernels' random numbers: uniform, and free of the generator's poor low bits."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftrl_core.learner import Learner, random_states
from swiftrl_core.learner.layout import KERNEL_DIRECTORY
from swiftrl_core.util import toolchain

PROBE = """
#include "lcg.h"
void draw(uint32_t *state, uint32_t n, uint32_t *out, uint32_t draws) {
  for (uint32_t i = 0; i < draws; i++) out[i] = lcg_below(state, n);
}
uint32_t chances(uint32_t *state, uint32_t threshold, uint32_t draws) {
  uint32_t hits = 0;
  for (uint32_t i = 0; i < draws; i++) hits += lcg_chance(state, threshold);
  return hits;
}
"""


@pytest.fixture(scope="module")
def lcg(tmp_path_factory):
    source = tmp_path_factory.mktemp("probe") / "lcg_probe.c"
    source.write_text(PROBE)
    return ctypes.CDLL(
        str(
            toolchain.compile_shared_library(
                [source], headers=[KERNEL_DIRECTORY / "lcg.h"], include_directories=[KERNEL_DIRECTORY]
            )
        )
    )


def draw(lcg, start: int, n: int, draws: int) -> tuple[np.ndarray, int]:
    state, out = ctypes.c_uint32(start), np.empty(draws, np.uint32)
    lcg.draw(ctypes.byref(state), n, out.ctypes.data_as(ctypes.c_void_p), draws)
    return out, state.value


def literal(start: int, n: int, draws: int) -> list[int]:
    numbers, x = [], start
    for _ in range(draws):
        x = (1664525 * x + 1013904223) % 2**32
        numbers.append((x ^ x >> 16) % n)
    return numbers


@given(start=st.integers(0, 2**32 - 1), n=st.integers(1, 2**23))
@settings(max_examples=50)
def test_draws_are_the_generators_and_the_state_goes_on(lcg, start, n):
    numbers, state = draw(lcg, start, n, 20)
    assert numbers.tolist() == literal(start, n, 20)
    assert draw(lcg, state, n, 5)[0].tolist() == literal(start, n, 25)[20:]


@pytest.mark.parametrize("n", [4, 6, 500, 512, 1000])
def test_indices_are_uniform(lcg, n):
    draws = 1000 * n
    counts = np.bincount(draw(lcg, int(random_states(3, np.arange(1))[0]), n, draws)[0], minlength=n)
    chi_square = float(((counts - 1000.0) ** 2 / 1000).sum())
    spread = np.sqrt(2 * (n - 1))
    assert abs(chi_square - (n - 1)) < 5 * spread  # chi-square has mean n - 1 and variance 2 (n - 1)


@pytest.mark.parametrize("n", [4, 500, 512])
def test_successive_indices_do_not_walk_in_a_fixed_cycle(lcg, n):
    numbers = draw(lcg, int(random_states(4, np.arange(1))[0]), n, 64_000)[0].astype(int)
    pairs = np.bincount(numbers[:-1] % 4 * 4 + numbers[1:] % 4, minlength=16)
    assert pairs.min() > 0.9 * len(numbers) / 16  # the plain low bits would show 4 of these 16 pairs


def test_chance_is_strictly_below_its_threshold(lcg):
    """The state after this one is 0, whose draw is 0: epsilon 0 must not explore even then."""
    before = (0 - 1013904223) * pow(1664525, -1, 2**32) % 2**32
    for threshold, hits in ((0, 0), (1, 1)):
        assert lcg.chances(ctypes.byref(ctypes.c_uint32(before)), threshold, 1) == hits


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
def test_chance_keeps_epsilon(lcg, epsilon):
    state, draws = ctypes.c_uint32(int(random_states(5, np.arange(1))[0])), 200_000
    args = Learner("sarsa", epsilon=epsilon).arguments(np.ones(1, int), np.zeros(1, np.uint32))
    hits = lcg.chances(ctypes.byref(state), int(args["explore_below"][0]), draws)
    assert abs(hits - epsilon * draws) <= 5 * np.sqrt(draws * epsilon * (1 - epsilon))
