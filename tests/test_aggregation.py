"""The mean of tables: its order, its rounding, its exactness."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from swiftrl_core.training.aggregation import mean

SHAPES = st.tuples(st.integers(1, 40), st.integers(1, 12))
FLOATS = st.floats(-1e6, 1e6, width=32)


@given(npst.arrays(np.int32, SHAPES, elements=st.integers(-(2**31), 2**31 - 1)))
def test_integer_mean_rounds_to_nearest_with_ties_away_from_zero(tables):
    got = mean(tables)
    assert got.dtype == np.int32
    for column, value in zip(tables.T.tolist(), got.tolist(), strict=True):
        exact = Fraction(sum(column), len(column))
        away = int(abs(exact) + Fraction(1, 2))
        assert value == (away if exact >= 0 else -away)


@given(npst.arrays(np.float32, SHAPES, elements=FLOATS))
def test_float_mean_sums_in_float64_in_core_order_and_rounds_once(tables):
    expected = []
    for column in tables.T:
        total = 0.0
        for value in column:
            total += float(value)
        expected.append(np.float32(total / len(column)))
    np.testing.assert_array_equal(
        mean(tables).view(np.uint32), np.array(expected, np.float32).view(np.uint32)
    )


@given(npst.arrays(np.float32, st.integers(1, 12), elements=FLOATS), st.integers(1, 50))
def test_the_mean_of_equal_tables_is_that_table(table, cores):
    np.testing.assert_array_equal(mean(np.tile(table, (cores, 1))), table)
