"""The GPU's mean, run on the host, is `aggregation.mean`, every bit, whatever the values. No GPU needed."""

import numpy as np
import pytest
from host_gpu import HostGpu
from hypothesis import example, given
from hypothesis import strategies as st

from swiftrl_core.backend import Problem
from swiftrl_core.backends.gpu.kernels import LANES, SEGMENT_CORES, Tables
from swiftrl_core.learner import Learner
from swiftrl_core.training import aggregation

ENTRIES = 3
OWN_TABLES = [Tables.IN_SHARED_MEMORY, Tables.IN_GLOBAL_MEMORY]


class Mean:
    """The kernels of mean.cu over given tables; `poison` spoils a segment's values before the last kernel."""

    def __init__(self, number_format, placement):
        problem = Problem(Learner(number_format=number_format), ENTRIES, 1)
        self._dtype, self._placement = problem.learner.dtype, placement
        self._gpu = HostGpu()
        self._gpu.build(problem, placement)

    def __call__(self, tables, poison=None):
        cores, segments = len(tables), -(-len(tables) // SEGMENT_CORES)
        device, sizes = self._gpu, (cores, segments)
        held, mean = device.empty(4 * ENTRIES * (cores + LANES)), device.empty(4 * ENTRIES)
        sums, rises, falls, odds = (device.empty(8 * ENTRIES * segments) for _ in range(4))
        device.upload(self._lay_out(tables), held)
        device.launch("sum_segments", segments, ENTRIES, [held, sums, *sizes])
        if self._dtype == np.float32:
            device.launch("guess_starts", 1, ENTRIES, [sums, segments])
            device.launch("round_segments", segments, ENTRIES, [held, sums, rises, falls, odds, *sizes])
            if poison is not None:
                spoiled = tables.copy()
                spoiled[poison * SEGMENT_CORES : (poison + 1) * SEGMENT_CORES] = np.nan
                device.upload(self._lay_out(spoiled), held)
            device.launch("mean", 1, ENTRIES, [held, sums, rises, falls, odds, mean, *sizes])
        else:
            device.launch("mean", 1, ENTRIES, [sums, mean, *sizes])
        result = np.empty(ENTRIES, self._dtype)
        device.download(mean, result)
        device.release()
        return result

    def _lay_out(self, tables):
        if self._placement == Tables.IN_GLOBAL_MEMORY:
            return tables
        whole = np.full(
            (-(-len(tables) // LANES) * LANES, ENTRIES), np.nan if self._dtype == np.float32 else -1
        )
        whole = whole.astype(self._dtype)
        whole[: len(tables)] = tables
        return whole.reshape(-1, LANES, ENTRIES).transpose(0, 2, 1)


@pytest.fixture(scope="module")
def fp32_means():
    return [Mean("FP32", placement) for placement in OWN_TABLES]


@pytest.fixture(scope="module")
def int32_means():
    return [Mean("INT32", placement) for placement in OWN_TABLES]


@given(
    seed=st.integers(0, 2**32 - 1),
    cores=st.integers(1, 5 * SEGMENT_CORES),
    bits=st.integers(1, 24),
    smallest=st.integers(-149, 30),
    spread=st.sampled_from([0, 1, 8, 30, 60]),
    negative=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    zero=st.sampled_from([0.0, 0.5, 0.999]),
)
@example(seed=0, cores=1280, bits=1, smallest=-24, spread=60, negative=0.0, zero=0.0)
@example(seed=1, cores=1280, bits=2, smallest=-20, spread=60, negative=0.5, zero=0.0)
@example(seed=2, cores=1280, bits=24, smallest=-70, spread=60, negative=1.0, zero=0.0)
@example(seed=3, cores=1280, bits=24, smallest=-70, spread=60, negative=0.01, zero=0.0)
def test_fp32_mean_keeps_the_order_of_additions(
    fp32_means, seed, cores, bits, smallest, spread, negative, zero
):
    """Odd integers times powers of two: few bits make ties, a spread makes additions round, signs make sums cancel."""
    rng = np.random.default_rng(seed)
    shape = (cores, ENTRIES)
    values = (rng.integers(0, 2**bits, shape) | 1) * np.exp2(smallest + rng.integers(0, spread + 1, shape))
    values = np.where(rng.random(shape) < negative, -values, values) * (rng.random(shape) >= zero)
    assert_same_mean(fp32_means, with_low_bits_in_sight(values.astype(np.float32)))


def test_a_tie_goes_where_the_sum_so_far_sends_it(fp32_means):
    """From 2^53 on the grid is 2: an added 1 is a tie, which the sum's last bit decides, and a 3 sets that bit."""
    tables = np.ones((3 * SEGMENT_CORES, ENTRIES), np.float32)
    tables[1::7, 1], tables[1::5, 2] = 3.0, -3.0
    tables[0], tables[-1] = 2.0**53, -(2.0**53)
    assert_same_mean(fp32_means, tables)
    lost = tables.astype(np.int64).sum(axis=0) - running_sum(tables)
    assert np.all(lost != 0), "sums that round nothing away prove nothing"


def test_a_large_value_keeps_the_parity(fp32_means):
    """1 + 3 / 2^52 is odd on its grid; adding 0.875 leaves it so, and a tie of 2^-53 then rounds up."""
    tables = np.zeros((2 * SEGMENT_CORES, ENTRIES), np.float32)
    tables[:2, 0] = 1, 3 * 2.0**-52
    tables[SEGMENT_CORES : SEGMENT_CORES + 2, 0] = 0.875, 2.0**-53
    assert running_sum(tables)[0] == 1.875 + 4 * 2.0**-52
    assert_same_mean(fp32_means, with_low_bits_in_sight(tables))


def test_the_grid_is_finer_just_below_a_power_of_two(fp32_means):
    tables = np.zeros((2 * SEGMENT_CORES, ENTRIES), np.float32)
    tables[0] = 1, -1, 2
    tables[SEGMENT_CORES] = -0.3 * 2.0**-52, 0.3 * 2.0**-52, -0.3 * 2.0**-51
    assert running_sum(tables)[0] == 1 - 2.0**-53
    assert_same_mean(fp32_means, with_low_bits_in_sight(tables))


def test_infinities_and_nan_pass_through(fp32_means):
    tables = np.ones((600, ENTRIES), np.float32)
    tables[300, 0], tables[400, 1], tables[2, 2], tables[599, 2] = np.inf, np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = aggregation.mean(tables)
    for mean in fp32_means:
        np.testing.assert_array_equal(mean(tables), expected)


def test_most_segments_take_one_step(fp32_means):
    """A segment whose values can be spoiled without a trace was not walked core by core."""
    rng = np.random.default_rng(0)
    segments = 24
    tables = rng.random((segments * SEGMENT_CORES, ENTRIES), np.float32) * np.float32([1, -20, 1e-3])
    tables[:, 0] *= np.exp2(-rng.integers(0, 60, len(tables))).astype(np.float32)  # no sum of these is exact
    assert_same_mean(fp32_means, with_low_bits_in_sight(tables))
    for mean in fp32_means:
        walked = np.array([np.isnan(mean(tables, poison=segment)) for segment in range(segments)])
        assert np.all(walked[0]), "the sum starts at zero, which is in nobody's binade"
        assert np.all(walked.sum(axis=0) <= 7), "one at the start, and one for each doubling"


@given(
    seed=st.integers(0, 2**32 - 1),
    cores=st.integers(1, 3 * SEGMENT_CORES),
    limit=st.sampled_from([1, 2, 1000, 2**31 - 1]),
)
def test_int32_mean_rounds_ties_away_from_zero(int32_means, seed, cores, limit):
    tables = np.random.default_rng(seed).integers(-limit, limit, (cores, ENTRIES), np.int32, endpoint=True)
    assert_same_mean(int32_means, tables)


def running_sum(tables):
    return np.cumsum(tables, axis=0, dtype=np.float64)[-1]


def with_low_bits_in_sight(tables):
    """Append two cores that take the sum's leading 48 bits away: float32 would round the rest out of sight."""
    for _ in range(2):
        tables = np.vstack([tables, -running_sum(tables).astype(np.float32)])
    return tables


def assert_same_mean(means, tables):
    expected = aggregation.mean(tables)
    for mean in means:
        np.testing.assert_array_equal(mean(tables).view(np.uint32), expected.view(np.uint32))
