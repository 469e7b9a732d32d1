"""The closed form, the transfer model and the hardware profiles."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.dpusim import timing
from swiftrl_core.dpusim.machine import library
from swiftrl_core.errors import SwiftRLError

PRIM = timing.PROFILES["upmem-2556"]
SERVERS = st.sampled_from(sorted(timing.PROFILES)).map(timing.PROFILES.get)
COUNTS = st.integers(0, 10**9)
IDLE = st.just((0, 0))
BUSY = st.tuples(st.integers(1, 10**9), COUNTS)
PHASE = st.lists(IDLE | BUSY, min_size=1, max_size=24)


def cycles_of(phase):
    issued, waited = zip(*phase, strict=True)
    return timing.pipeline_cycles(issued, waited)


@given(PHASE)
def test_a_phase_lies_between_its_bounds(phase):
    issued = [work for work, _ in phase]
    waited = [dma for _, dma in phase]
    cycles = cycles_of(phase)
    assert cycles >= sum(issued)
    assert cycles >= sum(waited)
    assert cycles >= 11 * max(issued) * (1 - 1e-12)
    assert cycles <= (11 * sum(issued) + sum(waited)) * (1 + 1e-12)


@given(st.lists(BUSY, min_size=1, max_size=24), st.data())
def test_more_work_never_takes_less_time(phase, data):
    which = data.draw(st.integers(0, len(phase) - 1))
    more, longer = data.draw(COUNTS), data.draw(COUNTS)
    grown = list(phase)
    grown[which] = (phase[which][0] + more, phase[which][1] + longer)
    assert cycles_of(grown) >= cycles_of(phase) * (1 - 1e-12)


@given(PHASE, st.integers(0, 8))
def test_idle_tasklets_take_no_time(phase, idle):
    assert cycles_of([*phase, *[(0, 0)] * idle]) == pytest.approx(cycles_of(phase), rel=1e-12)


@given(PHASE)
def test_the_interpreter_has_the_same_closed_form(phase):
    issued, waited = np.array(phase, np.int64).T.copy()
    cycles = library().dpu_closed_form(issued.ctypes.data, waited.ctypes.data, len(phase))
    assert cycles == pytest.approx(timing.pipeline_cycles(issued, waited), rel=1e-12, abs=0.5)


@given(PHASE, st.randoms())
def test_the_order_of_the_tasklets_does_not_matter(phase, random):
    shuffled = list(phase)
    random.shuffle(shuffled)
    assert cycles_of(shuffled) == pytest.approx(cycles_of(phase), rel=1e-12)


@given(st.integers(1, 10**9), COUNTS)
def test_one_tasklet_takes_eleven_cycles_an_instruction_and_its_dma(issued, waited):
    assert timing.pipeline_cycles([issued], [waited]) == pytest.approx(11 * issued + waited)


@given(st.integers(1, 24), st.integers(1, 10**6))
def test_balanced_tasklets_fill_the_pipeline_from_eleven_on(tasklets, issued):
    cycles = timing.pipeline_cycles([issued] * tasklets, [0] * tasklets)
    assert cycles == pytest.approx(issued * max(11, tasklets))


def test_unbalanced_tasklets_by_hand():
    # 12 tasklets issue 10, one issues 30: 10 steps shared by 13, then 20 alone at 11 cycles each.
    assert timing.pipeline_cycles([10] * 12 + [30], [0] * 13) == 10 * 13 + 20 * 11


def test_many_phases_at_once_equal_one_by_one():
    rng = np.random.default_rng(1)
    issued, waited = rng.integers(0, 1000, (2, 5, 7, 16)) * (rng.random((5, 7, 16)) < 0.7)
    waited *= issued > 0
    together = timing.pipeline_cycles(issued, waited)
    assert together.shape == (5, 7)
    for place in np.ndindex(5, 7):
        assert together[place] == timing.pipeline_cycles(issued[place], waited[place])


@pytest.mark.parametrize(
    ("issued", "waited"), [([1, 2], [1]), ([], []), ([-1], [0]), ([0], [-1]), ([0], [8]), (1, 1)], ids=str
)
def test_impossible_phases_are_refused(issued, waited):
    with pytest.raises(SwiftRLError):
        timing.pipeline_cycles(issued, waited)


def test_mram_read_bandwidth_of_two_kilobytes():
    # PrIM measures 628 MB/s and its own formula gives 651.
    seconds = timing.dma_cycles(2048) / PRIM.clock_hz
    assert 2048 / seconds == pytest.approx(651e6, rel=0.001)
    assert timing.dma_cycles(8) == 81
    assert timing.dma_cycles(8, write=True) == 65


BIG = 32 << 20


@pytest.mark.parametrize(
    ("direction", "kind", "n_dpus", "published"),
    [
        ("to_dpu", "parallel", 64, 6.68),
        ("from_dpu", "parallel", 64, 4.74),
        ("to_dpu", "broadcast", 64, 16.88),
        ("to_dpu", "serial", 64, 0.33),
        ("from_dpu", "serial", 64, 0.12),
        ("to_dpu", "parallel", 1, 0.33),
        ("from_dpu", "parallel", 1, 0.12),
    ],
)
def test_large_transfers_reach_the_published_bandwidths(direction, kind, n_dpus, published):
    seconds = timing.transfer_seconds(PRIM, direction, n_dpus, BIG, kind)
    assert n_dpus * BIG / seconds / 1e9 == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize(
    ("n_dpus", "into", "out"), [(1, 0.58, 0.11), (4, 1.8, 0.4), (16, 3.06, 0.75), (64, 5.21, 1.69)]
)
def test_the_other_server_goes_through_its_measured_points(n_dpus, into, out):
    server = timing.PROFILES["upimulator-server"]
    for direction, rate in (("to_dpu", into), ("from_dpu", out)):
        seconds = timing.transfer_seconds(server, direction, n_dpus, BIG) - server.transfer_fixed_s
        assert n_dpus * BIG / seconds / 1e9 == pytest.approx(rate)


@pytest.mark.parametrize(
    ("n_dpus", "elements", "into_ms", "out_ms"),
    [
        (4, 1048576, 4.71, 11.45),
        (16, 2097152, 7.24, 11.00),
        (64, 1048576, 1.90, 2.92),
        (64, 2097152, 4.94, 6.33),
    ],
)
def test_vector_addition_transfers_as_measured(n_dpus, elements, into_ms, out_ms):
    """Rows of PrIM's VA on the other server: two int32 vectors in, one out. Rows scatter by a third."""
    server = timing.PROFILES["upimulator-server"]
    vector = 4 * elements // n_dpus
    into = 2 * timing.transfer_seconds(server, "to_dpu", n_dpus, vector)
    out = timing.transfer_seconds(server, "from_dpu", n_dpus, vector)
    assert into * 1e3 == pytest.approx(into_ms, rel=0.35)
    assert out * 1e3 == pytest.approx(out_ms, rel=0.35)


KINDS = st.sampled_from([(way, kind) for way in ("to_dpu", "from_dpu") for kind in ("parallel", "serial")])


@given(SERVERS, KINDS | st.just(("to_dpu", "broadcast")), st.integers(1, 2559), st.integers(1, 64 << 20))
def test_transfers_grow_with_dpus_and_bytes(server, way, n_dpus, size):
    direction, kind = way
    seconds = timing.transfer_seconds(server, direction, n_dpus, size, kind)
    assert seconds >= server.transfer_fixed_s
    assert timing.transfer_seconds(server, direction, n_dpus + 1, size, kind) >= seconds * (1 - 1e-12)
    assert timing.transfer_seconds(server, direction, n_dpus, size + 8, kind) > seconds * (1 - 1e-12)


@given(SERVERS, st.integers(2, 2560), st.integers(1, 1 << 20))
def test_one_parallel_copy_beats_a_loop_and_a_broadcast_beats_both(server, n_dpus, size):
    parallel = timing.transfer_seconds(server, "to_dpu", n_dpus, size)
    assert parallel < timing.transfer_seconds(server, "to_dpu", n_dpus, size, "serial")
    assert timing.transfer_seconds(server, "to_dpu", n_dpus, size, "broadcast") <= parallel * (1 + 1e-12)


def test_ranks_add_latency_and_bandwidth():
    one, sixteen = (timing.transfer_seconds(PRIM, "to_dpu", 64 * ranks, BIG) for ranks in (1, 16))
    assert sixteen - 0.12e-3 - 15 * 0.05e-3 == pytest.approx((one - 0.12e-3) * 16 / 16**0.16)
    tiny = timing.transfer_seconds(PRIM, "from_dpu", 2560, 8)
    assert tiny == pytest.approx(0.12e-3 + 39 * 0.05e-3, rel=0.01)


def test_nothing_moved_costs_nothing():
    assert timing.transfer_seconds(PRIM, "to_dpu", 64, 0) == 0.0


@pytest.mark.parametrize(
    "arguments",
    [
        ("to_dpu", 0, 8),
        ("to_dpu", 1, -8),
        ("in", 1, 8),
        ("to_dpu", 1, 8, "ring"),
        ("from_dpu", 1, 8, "broadcast"),
    ],
    ids=str,
)
def test_impossible_transfers_are_refused(arguments):
    with pytest.raises(SwiftRLError):
        timing.transfer_seconds(PRIM, *arguments)


def test_a_launch_costs_its_latency_and_its_cycles():
    assert timing.launch_seconds(PRIM, 0) == 0.15e-3
    assert timing.launch_seconds(PRIM, 350e6) == pytest.approx(1.00015)
    with pytest.raises(SwiftRLError):
        timing.launch_seconds(PRIM, -1)


def test_profiles_are_named_sourced_and_sized():
    assert timing.resolve_profile(None) is PRIM
    assert PRIM.n_dpus == 2560
    assert {profile.chip for profile in timing.PROFILES.values()} == {"v1A", "v1B"}
    for name, profile in timing.PROFILES.items():
        assert profile.name == name
        assert profile.source
        assert timing.resolve_profile(name) is profile
        assert timing.resolve_profile(profile) is profile
    with pytest.raises(SwiftRLError, match="upmem-2556"):
        timing.resolve_profile("abacus")


@pytest.mark.parametrize(
    "change",
    [
        {"chip": "v2"},
        {"clock_hz": 0},
        {"ranks": 0},
        {"launch_s": -1},
        {"rank_exponent": 2},
        {"dpus_per_rank": 60},
    ],
    ids=str,
)
def test_impossible_profiles_are_refused(change):
    with pytest.raises(SwiftRLError, match="upmem-2556"):
        dataclasses.replace(PRIM, **change)


@pytest.mark.parametrize(
    "points",
    [(), ((2, 1.0),), ((1, 1.0), (1, 2.0)), ((1, 0.0),), ((1, 1.0), (2, 3.0)), ((1, 1.0), (2, 0.5))],
    ids=str,
)
def test_impossible_curves_are_refused(points):
    with pytest.raises(SwiftRLError):
        timing.BandwidthCurve(points)


def test_a_curve_is_straight_in_log_log():
    curve = timing.BandwidthCurve(((1, 1.0), (16, 4.0)))
    assert curve.bytes_per_second(4) == pytest.approx(2e9)
    assert curve.bytes_per_second(64) == pytest.approx(4e9)
    assert math.isclose(PRIM.to_dpu.bytes_per_second(8), 6.68e9 * (8 / 64) ** 0.72)
