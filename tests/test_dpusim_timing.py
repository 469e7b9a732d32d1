"""The replay of tasklets, the transfer model and the hardware profiles."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.dpusim import timing
from swiftrl_core.dpusim.machine import library
from swiftrl_core.util.errors import SwiftRLError

PRIM = timing.HARDWARE_PROFILES["upmem-2556"]
SERVERS = st.sampled_from(sorted(timing.HARDWARE_PROFILES)).map(timing.HARDWARE_PROFILES.get)

# -- the replay of tasklets ---------------------------------------------------------------------------------------

EVENT = np.dtype([("at", "<i8"), ("kind", "<i4"), ("what", "<u4")])  # `struct event` of replay.h
TRANSFER, TAKE, FREE = 0, 1, 2

#: A tasklet as pieces: so many instructions, then a transfer of so many cycles.
PIECES = st.lists(st.tuples(st.integers(1, 300), st.integers(65, 1101)), max_size=8)
TASKLETS = st.lists(st.tuples(PIECES, st.integers(1, 500)), min_size=1, max_size=24)


def replay(tasklets) -> int:
    """Return the cycles of tasklets given as (events, instructions behind the last event)."""
    totals, lengths, events = [], [], []
    for own, rest in tasklets:
        at = 0
        for issued, kind, what in own:
            at += issued
            events.append((at, kind, what))
        lengths.append(len(own))
        totals.append(at + rest)
    arrays = np.array(totals, np.int64), np.array(lengths, np.int32), np.array(events or [(0, 0, 0)], EVENT)
    return library().dpu_replay(len(tasklets), *(array.ctypes.data for array in arrays))


def streaming(tasklets) -> int:
    return replay([([(issued, TRANSFER, wait) for issued, wait in own], rest) for own, rest in tasklets])


@given(TASKLETS)
def test_a_run_lies_between_its_bounds(tasklets):
    issued = [sum(i for i, _ in own) + rest for own, rest in tasklets]
    waited = [sum(d for _, d in own) for own, _ in tasklets]
    cycles = streaming(tasklets)
    assert (
        cycles
        >= max(sum(issued), sum(waited), *(11 * i + d for i, d in zip(issued, waited, strict=True))) - 1
    )
    assert cycles <= 11 * sum(issued) + sum(waited) + 24


@given(PIECES, st.integers(1, 500))
def test_one_tasklet_takes_eleven_cycles_an_instruction_and_its_dma(own, rest):
    issued, waited = sum(i for i, _ in own) + rest, sum(d for _, d in own)
    assert streaming([(own, rest)]) == 11 * issued + waited


@given(st.integers(1, 24), st.integers(1, 10**6))
def test_balanced_tasklets_fill_the_pipeline_from_eleven_on(tasklets, issued):
    cycles = replay([([], issued)] * tasklets)
    assert cycles == pytest.approx(issued * max(11, tasklets), abs=24)


def test_unbalanced_tasklets_by_hand():
    # 12 tasklets issue 1,000, one issues 3,000: 1,000 slots shared by 13, then 2,000 alone at 11 cycles each.
    assert replay([([], 1000)] * 12 + [([], 3000)]) == pytest.approx(1000 * 13 + 2000 * 11, abs=24)


def test_the_engine_serves_one_transfer_after_the_other():
    # Three tasklets ask at about the same time; each then has 10 instructions left.
    assert streaming([([(10, 1000)], 10)] * 3) == pytest.approx(110 + 3000 + 110, abs=12)


def test_a_taken_lock_costs_a_try_a_slot():
    # Two tasklets want the lock at once; the second waits while the first has it for 100 instructions.
    locked = ([(10, TAKE, 5), (100, FREE, 5)], 1)
    assert replay([locked, locked]) == pytest.approx(11 * (10 + 100 + 100 + 1), abs=24)


def test_who_is_done_or_waits_leaves_the_pipeline_to_the_others():
    # 22 tasklets share it at 22 cycles a slot; while 11 wait for the engine, a slot of the others lasts 11.
    busy, waiting = ([], 1000), ([(1, TRANSFER, 10**6)], 1)
    assert replay([busy] * 11 + [waiting] * 11) == pytest.approx(11 * 10**6, rel=1e-3)


def test_mram_read_bandwidth_of_two_kilobytes():
    # PrIM measures 628 MB/s and its own formula gives 651.
    seconds = timing.dma_cycles(2048) / PRIM.clock_hz
    assert 2048 / seconds == pytest.approx(651e6, rel=0.001)
    assert timing.dma_cycles(8) == 81
    assert timing.dma_cycles(8, write=True) == 65
    assert timing.dma_cycles(8, dma=timing.DmaTiming(10, 20, 2)) == 26


@pytest.mark.parametrize("numbers", [(-1, 61, 0.5), (77, math.inf, 0.5), (77, 61, math.nan)], ids=str)
def test_impossible_dma_timings_are_refused(numbers):
    with pytest.raises(SwiftRLError, match="cycles or more"):
        timing.DmaTiming(*numbers)


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
    server = timing.HARDWARE_PROFILES["upimulator-server"]
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
    server = timing.HARDWARE_PROFILES["upimulator-server"]
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
    assert timing.resolve_hardware(None) is PRIM
    assert PRIM.n_dpus == 2560
    assert {profile.chip for profile in timing.HARDWARE_PROFILES.values()} == {"v1A", "v1B"}
    for name, profile in timing.HARDWARE_PROFILES.items():
        assert profile.name == name
        assert profile.source
        assert timing.resolve_hardware(name) is profile
        assert timing.resolve_hardware(profile) is profile
    with pytest.raises(SwiftRLError, match="upmem-2556"):
        timing.resolve_hardware("abacus")


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
