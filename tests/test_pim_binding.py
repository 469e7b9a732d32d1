"""One set of DPUs above the SDK's binding and the simulator's: what works on one works on the other."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.backends.pim import binding, clocks
from swiftrl_core.backends.pim.binding import hardware_reason, open_dpu_set, simulation_notice
from swiftrl_core.data import Dataset
from swiftrl_core.dpusim import MODEL_VERSION, compile_kernel
from swiftrl_core.learner import Learner
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

TESTS = Path(__file__).parent
PROBE = TESTS / "probe.c"
HEAP = "__sys_used_mram_end"


def forget_sdk() -> None:
    """Drop the stand-in for good: monkeypatch would put it back when the test ends, for all tests that follow."""
    for name in [name for name in sys.modules if name.split(".")[0] == "dpu"]:
        del sys.modules[name]


@pytest.fixture
def sdk(monkeypatch):
    """The stand-in for the vendor's SDK, with its compiler, as if this were a UPMEM server; yields its recorder."""
    forget_sdk()
    monkeypatch.delenv("UPMEM_PROFILE", raising=False)
    monkeypatch.syspath_prepend(TESTS / "fake_sdk")
    folders = [str(TESTS / "fake_sdk" / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    monkeypatch.setenv("PYTHONPATH", str(TESTS.parent))
    from dpu import recorder

    yield recorder
    assert recorder.open_sets == []
    forget_sdk()


@pytest.fixture
def no_sdk(monkeypatch):
    forget_sdk()
    monkeypatch.setitem(sys.modules, "dpu", None)  # as if nothing of that name were installed


@pytest.fixture(params=["simulator", "hardware"])
def platform(request):
    """Both places where kernels run; the same code must do the same on each."""
    request.getfixturevalue("no_sdk" if request.param == "simulator" else "sdk")
    return request.param


@pytest.fixture(scope="module")
def probe() -> Path:
    return compile_kernel(PROBE)


@pytest.fixture(scope="module")
def talking_probe() -> Path:
    return compile_kernel(PROBE, {"PRINTS": None})


@pytest.fixture
def trio(platform, probe):
    with open_dpu_set(3, probe) as dpus:
        yield dpus


# -- data --------------------------------------------------------------------------------------------------------


def test_scattered_arrays_come_back(trio):
    blocks = np.arange(3 * 64, dtype=np.int32).reshape(3, 64)
    trio.scatter("block", blocks)
    assert np.array_equal(trio.gather("block", 256).view(np.int32), blocks)
    assert np.array_equal(trio.gather("block", 16, offset=8).view(np.int32), blocks[:, 2:6])


def test_a_kernel_runs_the_same_on_both(trio):
    blocks = np.arange(3 * 64, dtype=np.int32).reshape(3, 64)
    trio.scatter("block", list(blocks))
    trio.broadcast("factor", np.array([-2], np.int32))
    trio.launch()
    assert trio.gather("sum", 8).view(np.int64).ravel().tolist() == (-2 * blocks).sum(axis=1).tolist()
    assert np.array_equal(trio.gather("block", 256).view(np.int32), -2 * blocks)
    trio.launch()
    assert trio.gather("launches", 4).view(np.uint32).ravel().tolist() == [2, 2, 2]


def test_uneven_arrays_are_filled_up_with_zeros(trio):
    trio.broadcast(HEAP, np.full(32, 0xEE, np.uint8))
    trio.scatter(HEAP, [np.arange(1, 1 + size, dtype=np.uint8) for size in (3, 9, 0)])
    back = trio.gather(HEAP, 24)
    assert back[:, 16:].tolist() == [[0xEE] * 8] * 3  # 9 bytes are padded to 16 and no further
    assert back[0].tolist()[:16] == [1, 2, 3] + [0] * 13
    assert back[1].tolist()[:16] == [*range(1, 10)] + [0] * 7
    assert back[2].tolist()[:16] == [0] * 16


def test_wram_is_padded_to_four_bytes_and_no_further(trio):
    trio.broadcast("bytes", bytes([9] * 12))
    trio.scatter("bytes", [b"\1", b"\2", b"\3"], offset=4)
    assert trio.gather("bytes", 9).tolist() == [[9] * 4 + [index, 0, 0, 0, 9] for index in (1, 2, 3)]


@pytest.mark.parametrize(
    "array",
    [
        b"\1\2\3\4",
        bytearray(b"\1\2\3\4"),
        memoryview(b"\1\2\3\4"),
        np.array([0x04030201], np.int32),
        np.array([[1, 2], [3, 4]], np.uint8),
        np.array([1, 0, 2, 0, 3, 0, 4, 0], np.uint8)[::2],
        np.array([(0x0201, 0x0403)], [("low", "<u2"), ("high", "<u2")])[0],
        np.int32(0x04030201),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_array_moves_its_bytes(trio, array):
    trio.broadcast("bytes", array)
    assert trio.gather("bytes", 4).tolist() == [[1, 2, 3, 4]] * 3
    trio.broadcast("bytes", bytes(12))
    trio.scatter("bytes", [array] * 3)
    assert trio.gather("bytes", 4).tolist() == [[1, 2, 3, 4]] * 3


def test_read_only_and_shared_arrays_stay_as_they_are(trio):
    block = np.arange(64, dtype=np.int32)
    block.setflags(write=False)
    trio.scatter("block", [block] * 3)
    trio.broadcast("factor", np.int32(3))
    trio.launch()
    assert block.tolist() == list(range(64))
    assert np.array_equal(trio.gather("block", 256).view(np.int32), [3 * block] * 3)


def test_one_dpu_is_no_special_case(platform, probe):
    with open_dpu_set(1, str(probe)) as dpus:
        dpus.scatter("block", np.ones((1, 64), np.int32))
        dpus.broadcast("factor", np.array([5], np.int32))
        dpus.launch()
        assert dpus.gather("sum", 8).view(np.int64).tolist() == [[320]]


@given(st.data())
def test_any_bytes_at_any_place_come_back(shared_set, data):
    symbol, unit, room = data.draw(st.sampled_from([("block", 8, 256), ("bytes", 4, 12), (HEAP, 8, 128)]))
    offset = unit * data.draw(st.integers(0, room // unit - 1))
    size = data.draw(st.integers(0, room - offset))
    rows = [np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), np.uint8) for _ in range(2)]
    shared_set.scatter(symbol, rows, offset=offset)
    assert np.array_equal(shared_set.gather(symbol, size, offset=offset), np.array(rows).reshape(2, size))


@pytest.fixture(scope="module")
def shared_set(probe):
    with open_dpu_set(2, probe, platform="simulator") as dpus:
        yield dpus


# -- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda dpus: dpus.scatter("block", np.zeros((2, 8), np.uint8)), "2 arrays for 3 DPUs"),
        (lambda dpus: dpus.scatter("block", bytes(3)), "3 arrays for 3 DPUs"),
        (lambda dpus: dpus.scatter("block", np.zeros((3, 65), np.int32)), "264 bytes .* do not fit 'block'"),
        (
            lambda dpus: dpus.scatter("tail", np.zeros((3, 12), np.uint8)),
            "padded to 8.* 'tail', which has 12 bytes",
        ),
        (lambda dpus: dpus.broadcast("factor", np.zeros(2, np.int32)), "8 bytes .* do not fit 'factor'"),
        (lambda dpus: dpus.broadcast("bytes", b"1234", offset=2), "offset 2 must lead to a multiple of 4"),
        (lambda dpus: dpus.broadcast("block", b"1234", offset=4), "offset 4 must lead to a multiple of 8"),
        (lambda dpus: dpus.broadcast("bytes", b"1234", offset=-4), "offset -4"),
        (lambda dpus: dpus.gather("bytes", 8, offset=8), "do not fit 'bytes'"),
        (lambda dpus: dpus.gather("bytes", -1), "-1 bytes"),
        (lambda dpus: dpus.gather("buffer", 4), "no variable 'buffer' that the host can see"),
        (lambda dpus: dpus.broadcast("factor", ["a"]), "numbers of a fixed width"),
        (lambda dpus: dpus.broadcast("factor", [None]), "numbers of a fixed width"),
        (lambda dpus: dpus.log(), "the log cannot be read: logging context missing"),
    ],
)
def test_mistakes_are_told_before_anything_moves(trio, use, says):
    before = trio.times()
    with pytest.raises(SwiftRLError, match=says):
        use(trio)
    assert trio.times() == before


def test_a_fault_is_a_sentence(trio, capfd):
    trio.scatter("stop_here", np.array([[0], [1], [0]], np.uint32))
    with pytest.raises(SwiftRLError, match="the launch failed: dpu is in fault"):
        trio.launch()
    assert "DPU 0." in capfd.readouterr().err


def test_the_simulator_says_where_and_why_a_dpu_faulted(no_sdk, probe):
    with open_dpu_set(3, probe) as dpus:
        dpus.scatter("stop_here", np.array([[0], [1], [0]], np.uint32))
        with pytest.raises(SwiftRLError, match=r"DPU 0\.1\.0 .*halt"):
            dpus.launch()


def test_a_closed_set_is_told(platform, probe):
    dpus = open_dpu_set(1, probe)
    dpus.close()
    dpus.close()
    for use in (
        dpus.launch,
        dpus.log,
        lambda: dpus.gather("sum", 8),
        lambda: dpus.broadcast("sum", bytes(8)),
    ):
        with pytest.raises(SwiftRLError, match="closed"):
            use()


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3"])
def test_the_number_of_dpus_is_checked(platform, probe, count):
    with pytest.raises(SwiftRLError, match="nr_dpus"):
        open_dpu_set(count, probe)


def test_programs_that_cannot_be_loaded_free_the_set(platform, tmp_path):
    with pytest.raises(SwiftRLError, match="cannot be loaded: system error"):
        open_dpu_set(1, tmp_path / "absent")
    (tmp_path / "text").write_text("no program")
    with pytest.raises(SwiftRLError, match="cannot be loaded: invalid ELF file"):
        open_dpu_set(1, tmp_path / "text")


def test_too_many_dpus_says_how_many_there_are(platform, probe):
    there = {"simulator": "2560", "hardware": "70"}[platform]
    with pytest.raises(SwiftRLError, match=f"5000 .*{there}"):
        open_dpu_set(5000, probe)


# -- which platform ----------------------------------------------------------------------------------------------


def test_hardware_is_taken_where_it_is(sdk, probe):
    assert hardware_reason() is None
    with open_dpu_set(70, probe) as dpus:
        assert (dpus.evidence, len(dpus), dpus.last_run) == ("measured", 70, None)
        assert dpus.describe() == {"evidence": "measured", "dpus": 70, "ranks": 2, "hardware": "UPMEM"}
    made = [details for name, *rest in sdk.calls for details in rest if name == "DpuSet"]
    assert all(details["profile"] == "backend=hw" for details in made)  # never the vendor's simulator


def test_the_simulator_is_taken_elsewhere(no_sdk, probe):
    assert hardware_reason() == "the UPMEM SDK's Python package `dpu` is not installed"
    with open_dpu_set(70, probe, hardware="upimulator-server") as dpus:
        assert (dpus.evidence, len(dpus)) == ("simulated", 70)
        assert dpus.describe() == {
            "evidence": "simulated",
            "dpus": 70,
            "ranks": 2,
            "hardware": "upimulator-server",
            "model_version": MODEL_VERSION,
        }
    with pytest.raises(SwiftRLError, match=r"there is no UPMEM hardware to use: .*not installed"):
        open_dpu_set(1, probe, platform="hardware")


def test_the_platform_can_be_chosen(sdk, probe):
    with open_dpu_set(1, probe, platform="simulator") as dpus:
        assert dpus.evidence == "simulated"
    assert sdk.calls == []
    with open_dpu_set(1, probe, platform="hardware") as dpus:
        assert dpus.evidence == "measured"
    with pytest.raises(SwiftRLError, match="auto, hardware, simulator"):
        open_dpu_set(1, probe, platform="abacus")


def test_a_server_to_simulate_is_not_taken_for_the_one_that_is_there(sdk, probe):
    with pytest.raises(SwiftRLError, match="choose platform='simulator'"):
        open_dpu_set(1, probe, hardware="upimulator-server")


def test_a_whole_server_learns_each_its_own(no_sdk, probe):
    with open_dpu_set(2560, probe) as dpus:
        assert dpus.describe()["ranks"] == 40
        dpus.scatter("block", np.repeat(np.arange(2560, dtype=np.int32)[:, None], 64, axis=1))
        dpus.broadcast("factor", np.int32(1))
        dpus.launch()
        assert np.array_equal(dpus.gather("sum", 8).view(np.int64).ravel(), 64 * np.arange(2560))


def test_an_sdk_without_dpus_is_no_hardware(sdk, probe):
    sdk.available = 0
    assert "no DPU can be allocated (dpu allocation error)" in hardware_reason()
    with open_dpu_set(2, probe) as dpus:
        assert dpus.evidence == "simulated"


def test_an_sdk_turned_to_its_simulator_is_no_hardware(sdk, monkeypatch):
    monkeypatch.setenv("UPMEM_PROFILE", "nrJobsPerRank=4,backend=simulator")
    assert hardware_reason() == "UPMEM_PROFILE sets backend=simulator, which is not hardware"
    monkeypatch.setenv("UPMEM_PROFILE", "backend=hw,nrJobsPerRank=4")
    assert hardware_reason() is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("value = 1", "is not UPMEM's: it has no DpuSet, DpuError, ALLOCATE_ALL"),
        ("raise OSError('libdpu.so.0.0: cannot open')", r"libdpu\.so\.0\.0"),
        ("import a_module_that_is_not_there", "cannot be imported"),
    ],
)
def test_other_packages_and_broken_ones_are_told_apart(monkeypatch, tmp_path, text, says):
    forget_sdk()
    monkeypatch.delenv("UPMEM_PROFILE", raising=False)
    (tmp_path / "dpu.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert re.search(says, hardware_reason())
    with pytest.raises(SwiftRLError, match=says):
        open_dpu_set(1, "k", platform="hardware")
    forget_sdk()


def test_a_library_that_does_not_load_is_named_with_what_it_lacks(monkeypatch, tmp_path):
    """The SDK's Python package says only that its library cannot be loaded."""
    forget_sdk()
    monkeypatch.delenv("UPMEM_PROFILE", raising=False)
    home = tmp_path / "upmem" / "lib"
    home.mkdir(parents=True)
    (tmp_path / "empty.c").write_text("int nothing(void) { return 0; }")
    shared = [sys.executable, "-m", "ziglang", "cc", "-shared", str(tmp_path / "empty.c")]
    lacking = tmp_path / "libpython3.10.so.1.0"
    subprocess.run([*shared, "-o", str(lacking), f"-Wl,-soname,{lacking.name}"], check=True)
    needs = ["-Wl,--no-as-needed", str(lacking)]
    subprocess.run([*shared, "-o", str(home / "libdpu.so"), *needs], check=True)
    lacking.unlink()
    (tmp_path / "dpu.py").write_text("raise ImportError('Could not load libdpu.so')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("UPMEM_HOME", str(home.parent))
    assert f"{home / 'libdpu.so'} needs libpython3.10.so.1.0, which is not found" in hardware_reason()
    (home / "libdpu.so").write_text("no library at all")
    assert re.search("libdpu.so: .*; source upmem_env.sh", hardware_reason())
    forget_sdk()


def test_a_simulation_is_announced_with_its_reason(sdk):
    assert simulation_notice(None) is None
    sdk.available = 0
    assert simulation_notice("upimulator-server") == (
        "PIM is simulated (hardware profile upimulator-server): "
        "the UPMEM SDK is installed, but no DPU can be allocated (dpu allocation error)"
    )
    assert "(hardware profile upmem-2556)" in simulation_notice(None)


# -- seconds and logs --------------------------------------------------------------------------------------------


def test_seconds_are_booked_by_kind(trio):
    zero = trio.times()
    assert (zero.total_s, zero.launches) == (0.0, 0)
    with trio.stopwatch() as down:
        trio.scatter("block", np.ones((3, 64), np.int32))
        trio.broadcast("factor", np.int32(1))
    with trio.stopwatch() as kernel:
        trio.launch()
    with trio.stopwatch() as up:
        trio.gather("sum", 8)
    times = trio.times()
    assert min(down.seconds, kernel.seconds, up.seconds) > 0
    assert times.to_dpu_s == pytest.approx(down.seconds)
    assert times.kernel_s == pytest.approx(kernel.seconds)
    assert times.from_dpu_s == pytest.approx(up.seconds)
    assert times.launches == 1


def test_measured_seconds_are_those_of_the_sdks_calls(sdk, probe, monkeypatch):
    ticks = iter(range(100))
    with open_dpu_set(2, probe) as dpus:
        monkeypatch.setattr(clocks.time, "perf_counter", lambda: float(next(ticks)))
        dpus.launch()
        dpus.gather("sum", 8)
        dpus.gather("sum", 8)
    assert dpus.times() == binding.PimTimes(to_dpu_s=0.0, from_dpu_s=2.0, kernel_s=1.0, launches=1)


def test_simulated_seconds_do_not_depend_on_this_machine(no_sdk, probe):
    seconds = []
    for threads in (1, 2):
        with open_dpu_set(5, probe, threads=threads) as dpus:
            dpus.scatter("block", np.ones((5, 64), np.int32))
            dpus.launch()
            dpus.gather("sum", 8)
            assert len(dpus.last_run) == 5
            seconds.append(dpus.times())
    assert seconds[0] == seconds[1]


def test_logs_are_text(platform, talking_probe):
    stream = io.StringIO()
    with open_dpu_set(2, talking_probe, log=stream) as dpus:
        dpus.launch()
        text = "=== DPU#0x0 ===\nlaunch 1\n=== DPU#{} ===\nlaunch 1\n"
        second = {"simulator": "0x100", "hardware": "0x1"}[platform]
        assert dpus.log() == stream.getvalue() == text.format(second)


# -- the whole path ----------------------------------------------------------------------------------------------


def small_data() -> Dataset:
    rng = np.random.default_rng(5)
    rows = 300
    ends = rng.random(rows) < 0.1
    return Dataset(
        state=rng.integers(0, 16, rows).astype(np.int32),
        action=rng.integers(0, 4, rows).astype(np.int32),
        reward=rng.random(rows).astype(np.float32),
        next_state=rng.integers(0, 16, rows).astype(np.int32),
        terminated=ends,
        truncated=np.zeros(rows, bool),
        episode=np.cumsum(ends).astype(np.int32),
        n_states=16,
        n_actions=4,
    )


def test_training_on_hardware_needs_no_change(sdk, monkeypatch):
    """The backend compiles with the SDK's compiler, runs on its binding, and learns what the simulator learns."""
    learner, schedule = Learner(), Schedule(episodes=4, cores=5, tau=2, seed=1)
    measured = train(small_data(), learner, schedule, "pim")
    assert measured.breakdown.evidence == "measured"
    assert {"load", "exec", "copy"} <= {call[0] for call in sdk.calls}
    sdk.available = 0
    simulated = train(small_data(), learner, schedule, "pim")
    assert simulated.breakdown.evidence == "simulated"
    np.testing.assert_array_equal(measured.q_raw, simulated.q_raw)
