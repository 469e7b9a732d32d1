"""Runtime routines: results are the vendor's, costs follow the measured table, step by step."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from swiftrl_core.dpusim.machine import Machine, library, run_counted
from swiftrl_core.dpusim.program.compile import compile_kernel
from swiftrl_core.dpusim.program.elf import load_program
from swiftrl_core.dpusim.program.rv32 import Routine

DIVIDED_BY_ZERO = 0xFFFFFFFF
WORD = st.integers(0, 2**32 - 1) | st.integers(0, 300) | st.integers(0, 31).map(lambda n: 1 << n)
LONG = st.integers(0, 2**64 - 1) | st.integers(0, 300) | st.integers(0, 63).map(lambda n: 1 << n)
SPECIAL = [
    0,
    0x80000000,
    1,
    0x807FFFFF,
    0x00800000,
    0x7F7FFFFF,
    0x7F800000,
    0xFF800000,
    0x3F800000,
    0xBF800000,
]
FLOAT = st.integers(0, 2**32 - 1) | st.sampled_from(SPECIAL)
DOUBLE = st.integers(0, 2**64 - 1) | st.sampled_from([word << 32 for word in SPECIAL])


def call(name: str, *words: int) -> tuple[int, int, int]:
    """Run a routine on argument registers; return a0, a1 and the cost."""
    registers, stalls = np.zeros(4, np.uint32), np.zeros(1, np.uint32)
    registers[: len(words)] = words
    cost = library().dpu_routine(Routine[name], registers.ctypes.data, stalls.ctypes.data)
    return int(registers[0]), int(registers[1]), cost


def slots(name: str, *values: float | int) -> int:
    """Return the issue slots of a routine: its cost, and its stalls."""
    kind = {"df3": np.float64, "sf3": np.float32, "di3": np.uint64}[name[-3:]]
    registers = np.zeros(4, np.uint32)
    words = np.array(values, kind).view(np.uint32)
    registers[: len(words)], stalls = words, np.zeros(1, np.uint32)
    cost = library().dpu_routine(Routine[name], registers.ctypes.data, stalls.ctypes.data)
    return cost + int(stalls[0])


def call64(name: str, *values: int) -> tuple[int, int]:
    """Run a routine on 64-bit arguments; return the 64-bit result and the cost."""
    low, high, cost = call(name, *(half for value in values for half in (value & 0xFFFFFFFF, value >> 32)))
    return high << 32 | low, cost


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def f32(word: int) -> np.float32:
    return np.uint32(word).view(np.float32)


def word_of(value) -> int:
    return int(np.float32(value).view(np.uint32))


def f64(word: int) -> np.float64:
    return np.uint64(word).view(np.float64)


def same_float(word: int, expected: int, nan: bool) -> bool:
    """Equal bits; NaN payloads are nobody's contract."""
    return math.isnan(f32(word)) if nan else word == expected


def multiply_steps(a: int, b: int) -> tuple[int, int]:
    """The vendor's multiply, literally: order the operands, then shift and add until the smaller is used up."""
    small, large = min(a, b), max(a, b)
    product, instructions = 0, 6
    while True:
        if small & 1:
            product = (product + large) & 0xFFFFFFFF
        small, large, instructions = small >> 1, large << 1 & 0xFFFFFFFF, instructions + 1
        if not small:
            return product, instructions


@given(WORD, WORD)
def test_multiply(a, b):
    product, instructions = multiply_steps(a, b)
    assert call("mulsi3", a, b) == (product, b, instructions)


@pytest.mark.parametrize(
    ("a", "b", "cost"), [(0, 0, 7), (255, 255, 14), (-1, -1, 38), (-5, 1023, 16), (2**31, 2**31, 38)]
)
def test_multiply_at_measured_operands(a, b, cost):
    assert call("mulsi3", a & 0xFFFFFFFF, b & 0xFFFFFFFF)[2] == cost


def divide_steps(a: int, b: int) -> tuple[int, int, int]:
    """Long division over the bits in which a is longer than b: quotient, remainder, instructions."""
    steps = a.bit_length() - b.bit_length()
    if steps < 0:
        return 0, a, 6
    quotient = 0
    for shift in range(steps, -1, -1):
        quotient <<= 1
        if a >= b << shift:
            a -= b << shift
            quotient |= 1
    return quotient, a, 9 + steps


@given(WORD, WORD)
def test_unsigned_division(a, b):
    assume(b)
    quotient, rest, instructions = divide_steps(a, b)
    assert call("udivsi3", a, b)[::2] == (quotient, instructions)
    assert call("umodsi3", a, b)[::2] == (rest, instructions + 6)


@given(WORD, WORD)
def test_signed_division(a, b):
    assume(b)
    x, y = signed(a), signed(b)
    quotient, rest, instructions = divide_steps(abs(x), abs(y))
    instructions += 7 + (10 if x < 0 else 9 if y < 0 else 0)
    quotient, rest = quotient * (-1 if (x < 0) != (y < 0) else 1), rest * (-1 if x < 0 else 1)
    assert call("divsi3", a, b)[::2] == (quotient & 0xFFFFFFFF, instructions)
    assert call("modsi3", a, b)[::2] == (rest & 0xFFFFFFFF, instructions + 6)


@given(LONG, LONG)
def test_64_bit_integers(a, b):
    assert call64("muldi3", a, b) == (a * b % 2**64, 123)
    assume(b)
    quotient, cost = call64("udivdi3", a, b)
    assert quotient == a // b
    bits = a.bit_length() - b.bit_length() + 1
    assert cost == 20 if bits < 1 else 21 * bits + 30 <= cost <= 25 * bits + 30
    assert call64("umoddi3", a, b)[0] == a % b
    x, y = signed(a, 64), signed(b, 64)
    toward_zero = abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)
    assert call64("divdi3", a, b)[0] == toward_zero % 2**64
    assert call64("moddi3", a, b)[0] == (x - toward_zero * y) % 2**64


@pytest.mark.parametrize(
    "name", ["divsi3", "udivsi3", "modsi3", "umodsi3", "divdi3", "udivdi3", "moddi3", "umoddi3"]
)
def test_division_by_zero_is_told(name):
    assert call(name, 7, 0, 0, 0)[2] == DIVIDED_BY_ZERO


@given(LONG, st.integers(0, 63))
def test_64_bit_shifts(a, amount):
    assert call64("ashldi3", a, amount)[0] == a << amount & 2**64 - 1
    assert call64("lshrdi3", a, amount)[0] == a >> amount
    assert call64("ashrdi3", a, amount)[0] == (signed(a, 64) >> amount) % 2**64


@given(FLOAT, FLOAT)
def test_float_arithmetic_is_ieee(a, b):
    with np.errstate(all="ignore"):
        for name, result in (
            ("addsf3", f32(a) + f32(b)),
            ("subsf3", f32(a) - f32(b)),
            ("mulsf3", f32(a) * f32(b)),
        ):
            assert same_float(call(name, a, b)[0], word_of(result), np.isnan(result))


@given(FLOAT, FLOAT)
def test_a_float_division_flushes_subnormal_results(a, b):
    with np.errstate(all="ignore"):
        quotient = f32(a) / f32(b)
    expected = word_of(quotient)
    if expected & 0x7F800000 == 0:
        expected &= 0x80000000
    assert same_float(call("divsf3", a, b)[0], expected, np.isnan(quotient))


def test_the_smallest_normal_quotient_survives():
    assert call("divsf3", 0x00800000, 0x3F800000)[0] == 0x00800000
    assert call("divsf3", 0x80800000, 0x40000000)[0] == 0x80000000


@given(FLOAT, FLOAT)
def test_the_cost_of_a_float_addition(a, b):
    zero_a, zero_b = a & 0x7FFFFFFF == 0, b & 0x7FFFFFFF == 0
    apart = abs((a >> 23 & 255) - (b >> 23 & 255))
    if zero_a:
        cost = 17 if zero_b else 16
    elif zero_b:
        cost = 20
    elif a == b ^ 0x80000000:
        cost = 38
    else:
        cost = 60 if apart == 0 else 65 if apart <= 3 else 61 if apart <= 23 else 57
    assert call("addsf3", a, b)[2] == cost
    assert call("subsf3", a, b ^ 0x80000000)[2] == cost + 6


def test_a_zero_operand_leaves_early():
    one, zero = 0x3F800000, 0x80000000
    assert [call("mulsf3", *pair)[2] for pair in ((one, one), (zero, one), (one, zero))] == [166, 28, 32]
    assert [call("divsf3", *pair)[2] for pair in ((one, one), (zero, one))] == [983, 33]
    assert [call("gtsf2", *pair)[2] for pair in ((one, zero), (zero, 0))] == [12, 10]


@given(FLOAT, FLOAT)
def test_float_comparisons(a, b):
    x, y = f32(a), f32(b)
    truth = {
        "eqsf2": x == y,
        "nesf2": x == y,
        "ltsf2": x < y,
        "lesf2": x <= y,
        "gtsf2": x > y,
        "gesf2": x >= y,
    }
    tests = {
        "eqsf2": "== 0",
        "nesf2": "== 0",
        "ltsf2": "< 0",
        "lesf2": "<= 0",
        "gtsf2": "> 0",
        "gesf2": ">= 0",
    }
    for name, expected in truth.items():
        answer = signed(call(name, a, b)[0])
        outcomes = {
            "== 0": answer == 0,
            "< 0": answer < 0,
            "<= 0": answer <= 0,
            "> 0": answer > 0,
            ">= 0": answer >= 0,
        }
        assert outcomes[tests[name]] == expected, name
    assert call("unordsf2", a, b)[0] == (math.isnan(x) or math.isnan(y))


@given(DOUBLE, DOUBLE)
def test_double_arithmetic_is_ieee(a, b):
    with np.errstate(all="ignore"):
        results = {
            "adddf3": f64(a) + f64(b),
            "subdf3": f64(a) - f64(b),
            "muldf3": f64(a) * f64(b),
            "divdf3": f64(a) / f64(b),
        }
    for name, result in results.items():
        got, expected = call64(name, a, b)[0], int(result.view(np.uint64))
        if name == "divdf3" and expected >> 52 & 2047 == 0:
            expected &= 1 << 63
        assert np.isnan(f64(got)) if np.isnan(result) else got == expected


@given(WORD)
def test_integers_become_floats_rounded_to_nearest(a):
    x = signed(a)
    assert call("floatsisf", a)[0] == word_of(np.int32(x))
    assert call("floatunsisf", a)[0] == word_of(np.uint32(a))
    bits = abs(x).bit_length()
    assert call("floatsisf", a)[2] == (3 if x == 0 else 16 if bits <= 24 else 24)
    assert call64("floatsidf", a)[0] == int(np.float64(x).view(np.uint64))


@given(FLOAT)
def test_floats_become_integers_as_on_a_dpu(a):
    x = float(f32(a))
    if math.isnan(x) or x >= 2**32:
        expected = 2**31 - 1
    elif x <= -(2**32):
        expected = 2**31
    else:
        expected = int(x) & 0xFFFFFFFF  # truncated; beyond the range of an int the low 32 bits
    assert call("fixsfsi", a)[0] == expected
    unsigned = 0 if x < 0 else 2**32 - 1 if math.isnan(x) or x >= 2**32 else int(x)
    assert call("fixunssfsi", a)[0] == unsigned


@given(FLOAT)
def test_widening_and_narrowing(a):
    assume(not math.isnan(f32(a)))
    wide, cost = call64("extendsfdf2", a)
    assert cost == 18
    assert f64(wide) == f32(a)
    assert call("truncdfsf2", wide & 0xFFFFFFFF, wide >> 32)[0::2] == (a, 22)


ONE, MINUS_ONE, HALF, LARGE = 0x3F800000, 0xBF800000, 0x3F000000, 0x4B800001
D_ZERO, D_ONE, D_TWO, D_MINUS_ONE = (0, 0), (0, 0x3FF00000), (0, 0x40000000), (0, 0xBFF00000)


@pytest.mark.parametrize(
    ("name", "words", "cost"),
    [
        *(("floatunsisf", (x,), cost) for x, cost in ((0, 3), (2**24 - 1, 11), (2**24, 19))),
        *(("fixsfsi", (x,), cost) for x, cost in ((HALF, 11), (ONE, 27), (LARGE, 27), (MINUS_ONE, 34))),
        *(("fixunssfsi", (x,), cost) for x, cost in ((HALF, 7), (ONE, 15))),
        *(("floatsidf", (x,), cost) for x, cost in ((0, 3), (7, 26), (2**32 - 7, 26))),
        *(("floatunsidf", (x,), cost) for x, cost in ((0, 3), (7, 16))),
        ("fixdfsi", D_ONE, 18),
        ("fixunsdfsi", D_ONE, 19),
        *((name, (7, 0), 60) for name in ("floatdisf", "floatundisf", "floatdidf", "floatundidf")),
        *((name, (ONE, 0), 60) for name in ("fixsfdi", "fixunssfdi", "fixdfdi", "fixunsdfdi")),
        *((name, (7, 0, 3), 10) for name in ("ashldi3", "lshrdi3", "ashrdi3")),
        ("muldi3", (7, 0, 3, 0), 123),
        ("unordsf2", (ONE, ONE), 7),
        ("ltdf2", (*D_ONE, *D_TWO), 25),
        *(("adddf3", (*D_ONE, *x), cost) for x, cost in ((D_TWO, 99), (D_ZERO, 30), (D_MINUS_ONE, 57))),
        *(("subdf3", (*D_ONE, *x), cost) for x, cost in ((D_TWO, 107), (D_ZERO, 38), (D_ONE, 65))),
        *(("muldf3", (*D_ONE, *x), cost) for x, cost in ((D_TWO, 620), (D_ZERO, 47))),
        *(("divdf3", (*x, *D_TWO), cost) for x, cost in ((D_ONE, 2043), (D_ZERO, 66))),
        *(("divsf3", (x, ONE), cost) for x, cost in ((ONE, 983), (0, 33))),
    ],
)
def test_costs_are_those_of_the_table(name, words, cost):
    """Doubles, conversions and shifts, as measured or estimated in the table of costs.h."""
    assert call(name, *words)[2] == cost


@pytest.mark.parametrize(
    ("name", "operands", "cycles", "around"),
    [
        ("divsf3", (3.0, 7.0), 11306.6, 3),
        ("divdf3", (3.0, 7.0), 23526.9, 4),
        ("mulsf3", (3.1, 7.3), 1939.8, 4),
        ("muldf3", (3.1, 7.3), 7195.7, 7),
        ("muldi3", (2**40, 12345), 1421.8, 1),
    ],
)
def test_routines_take_the_slots_measured_on_hardware(name, operands, cycles, around):
    """Cycles of one tasklet, 11 a slot (tud-ccc/cnm-cost-model, UPMEM/LUT/output); `around`: the call, its moves."""
    assert slots(name, *operands) + around == pytest.approx(cycles / 11, rel=0.005, abs=1)


def test_shortcuts_do_not_stall():
    assert slots("mulsf3", 0.0, 2.0) == 28
    assert slots("addsf3", 2.0, -2.0) == 38
    assert slots("subdf3", 2.0, 2.0) == 57 + 8
    assert slots("udivdi3", 3, 2**40) == 20
    assert slots("udivdi3", 2**40 - 1, 1) == 30 + 64 * 40 // 3 + 40


BLOCKS = """
#include <defs.h>
#include <stdint.h>
#include <string.h>
__host uint32_t copies, shift, n;
uint32_t from[1024], to[1024];
int main(void) {
  if (copies)
    memcpy((uint8_t *)to + shift, from, n);
  else
    memset((uint8_t *)to + shift, 1, n);
  return 0;
}
"""


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    source = tmp_path_factory.mktemp("blocks") / "kernel.c"
    source.write_text(BLOCKS)
    return load_program(compile_kernel(source, nr_tasklets=1))


@pytest.mark.parametrize(
    ("copies", "shift", "n", "cost"),
    [
        (1, 0, 64, 24 + 80),
        (1, 0, 1024, 24 + 1280),
        (1, 1, 64, 45 + 80),
        (0, 0, 64, 20 + 48),
        (0, 0, 1024, 20 + 768),
        (0, 1, 64, 28 + 48),
    ],
)
def test_blocks_cost_what_the_table_says(blocks, copies, shift, n, cost):
    machine = Machine(blocks)
    for name, value in {"copies": copies, "shift": shift, "n": n}.items():
        machine.write_wram(blocks.symbols[name][0], np.uint32(value))
    _, counts = run_counted(machine)
    assert machine.fault is None
    assert counts.max() == 1 + cost  # the call, and the routine
