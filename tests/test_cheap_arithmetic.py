"""Arithmetic without the routines of a DPU (constant_division.h, soft_float.h, lcg.h), held to the plain one."""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.learner.layout import KERNEL_DIRECTORY
from swiftrl_core.util import toolchain

DECIMAL = [2**twos * 5**fives for twos in range(5) for fives in range(5)]
CONSTANTS = [
    "0.1f",
    "0.95f",
    "0.99f",
    "0.999f",
    "0.3f",
    "0x1.fffffep-1f",
    "0x1p-1f",
    "1.0f",
    "1e-3f",
    "0x1.8p-20f",
    "0x1.ap+0f",
]
"""Alphas and gammas; that below 1, one so small that few products are normal numbers, and one above 1 among them."""
PROBE = """
#define CONSTANT_PRODUCTS 1
#define INTEGER_COMPARISON 1
#define FACTORED_LCG 1
#include "constant_division.h"
#include "soft_float.h"
#include "lcg.h"

/* The first n up to `limit` whose fifth is wrong; one beyond it where none is. */
uint32_t first_wrong_fifth(uint32_t limit) {
  for (uint32_t block = 0; block <= limit; block += 4096) {
    uint32_t wrong = 0;
    for (uint32_t n = block; n < block + 4096; n++) wrong |= n <= limit && fifth(n) != n / 5;
    if (wrong)
      for (uint32_t n = block;; n++)
        if (fifth(n) != n / 5) return n;
  }
  return limit + 1;
}
int decimal(int32_t divisor) { return is_decimal(divisor); }
void divide(const int32_t *x, int32_t *out, uint32_t count, int32_t divisor) {
  for (uint32_t i = 0; i < count; i++) out[i] = divide_round_by_constant(x[i], divisor);
}
int exceeds(float a, float b) { return EXCEEDS(a, b); }
uint32_t next(uint32_t state) { return lcg_next(&state); }
"""
PRODUCTS = "".join(
    f"void times_{number}(const float *x, float *out, uint32_t count) {{\n"
    f"  for (uint32_t i = 0; i < count; i++) out[i] = PRODUCT({constant}, x[i]);\n}}\n"
    for number, constant in enumerate(CONSTANTS)
)


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    source = tmp_path_factory.mktemp("probe") / "cheap_probe.c"
    source.write_text(PROBE + PRODUCTS)
    found = ctypes.CDLL(
        str(
            toolchain.compile_shared_library(
                [source], headers=sorted(KERNEL_DIRECTORY.glob("*.h")), include_directories=[KERNEL_DIRECTORY]
            )
        )
    )
    found.first_wrong_fifth.restype = found.next.restype = ctypes.c_uint32
    found.exceeds.argtypes = [ctypes.c_float, ctypes.c_float]
    return found


def test_every_fifth_is_right(probe):
    """The proof of `fifth`, by exhaustion: a billion divisions."""
    assert probe.first_wrong_fifth(2**30) == 2**30 + 1


def test_the_proof_would_notice(probe):
    """Twice 2^30 is beyond what `fifth` promises: 3n no longer fits a word."""
    assert 2**30 < probe.first_wrong_fifth(2**31) < 2**31


def divide(probe, x: np.ndarray, divisor: int) -> np.ndarray:
    x, out = np.ascontiguousarray(x, np.int32), np.empty(len(x), np.int32)
    probe.divide(x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), len(x), divisor)
    return out


def nearest(x: np.ndarray, divisor: int) -> np.ndarray:
    """x / divisor to the nearest integer, ties away from zero."""
    magnitude = (2 * np.abs(x.astype(np.int64)) + divisor) // (2 * divisor)
    return np.where(x < 0, -magnitude, magnitude).astype(np.int32)


@pytest.mark.parametrize("divisor", DECIMAL)
def test_division_rounds_to_nearest_up_to_the_end_of_its_range(probe, divisor):
    twos = (divisor & -divisor).bit_length() - 1
    most = min(2 ** (29 + twos), 2**31 - 1) - divisor // 2
    ends = np.concatenate([np.arange(most - 3 * divisor, most + 1), np.arange(-3 * divisor, 3 * divisor + 1)])
    anywhere = np.random.default_rng(divisor).integers(-most, most, 200_000, endpoint=True)
    for x in (ends, -ends, anywhere):
        np.testing.assert_array_equal(divide(probe, x, divisor), nearest(x, divisor))


@given(divisor=st.integers(1, 10_000))
def test_what_is_decimal(probe, divisor):
    rest = divisor
    while rest % 2 == 0:
        rest //= 2
    assert bool(probe.decimal(divisor)) == (rest in (1, 5, 25, 125, 625))


@pytest.mark.parametrize("number", range(len(CONSTANTS)), ids=CONSTANTS)
def test_products_are_ieees(probe, number):
    """Every exponent, mantissas at random and at their ends, both signs, zeros, subnormals, infinities."""
    random = np.random.default_rng(number)
    mantissas = np.concatenate([random.integers(0, 2**23, 2_000), [0, 1, 2**22, 2**23 - 1]]).astype(np.uint32)
    exponents = np.arange(256, dtype=np.uint32)[:, np.newaxis] << np.uint32(23)
    x = (exponents | mantissas).ravel()
    x = np.concatenate([x, x | np.uint32(0x80000000)]).view(np.float32)
    x = np.ascontiguousarray(x[~np.isnan(x)])
    out = np.empty_like(x)
    getattr(probe, f"times_{number}")(
        x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), len(x)
    )
    text = CONSTANTS[number].rstrip("f")
    constant = np.float32(float.fromhex(text) if "x" in text else float(text))
    with np.errstate(over="ignore"):
        expected = x * constant
    np.testing.assert_array_equal(out.view(np.uint32), expected.view(np.uint32))


numbers = st.floats(width=32, allow_nan=False)


@given(a=numbers, b=numbers | st.sampled_from([0.0, -0.0]))
def test_comparing_as_integers_is_comparing(probe, a, b):
    assert bool(probe.exceeds(a, b)) == (a > b)
    assert not probe.exceeds(a, a)


@pytest.mark.parametrize(("a", "b"), [(0.0, -0.0), (-0.0, 0.0), (-1.0, -2.0), (1e-45, -1e-45)])
def test_comparing_where_bits_mislead(probe, a, b):
    assert bool(probe.exceeds(a, b)) == (a > b)


@given(state=st.integers(0, 2**32 - 1))
def test_the_generator_by_factors(probe, state):
    assert probe.next(ctypes.c_uint32(state)) == (1664525 * state + 1013904223) % 2**32
