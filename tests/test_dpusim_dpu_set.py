"""The simulator's DpuSet keeps the contract of the SDK's Python binding."""

import array
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.dpusim import ALLOCATE_ALL, HARDWARE_PROFILES, DpuError, DpuSet, DpuSymbol, compile_kernel
from swiftrl_core.dpusim.host.allocation import balanced_ranks
from swiftrl_core.dpusim.timing import dma_cycles, launch_seconds, transfer_seconds
from swiftrl_core.util.errors import CompileError

PROBE = Path(__file__).with_name("probe.c")
PRIM = HARDWARE_PROFILES["upmem-2556"]


@pytest.fixture(scope="module")
def probe() -> str:
    return str(compile_kernel(PROBE))


@pytest.fixture(scope="module")
def talking_probe() -> str:
    return str(compile_kernel(PROBE, {"PRINTS": None}))


@pytest.fixture
def trio(probe):
    with DpuSet(nr_dpus=3, binary=probe) as dpus:
        yield dpus


def filled(n: int, size: int) -> list[bytearray]:
    return [bytearray([index + 1] * size) for index in range(n)]


# -- allocation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_dpus", "ranks"),
    [
        (1, [1]),
        (64, [64]),
        (65, [33, 32]),
        (100, [52, 48]),
        (127, [64, 63]),
        (128, [64, 64]),
        (129, [48, 41, 40]),
    ],
)
def test_dpus_are_balanced_over_ranks_as_seen_on_the_vendors_library(n_dpus, ranks):
    with DpuSet(nr_dpus=n_dpus) as dpus:
        assert [len(rank) for rank in dpus.ranks()] == ranks


@given(st.integers(1, 2560))
def test_an_allocation_has_the_dpus_asked_for_in_ascending_order(n_dpus):
    ranks = balanced_ranks(n_dpus)
    assert sum(map(len, ranks)) == n_dpus
    assert len(ranks) == -(-n_dpus // 64)
    assert max(map(len, ranks)) - min(map(len, ranks)) <= 8
    for rank in ranks:
        assert rank == sorted(set(rank))


def test_structure_is_made_of_the_same_objects_each_time():
    with DpuSet(nr_dpus=70) as dpus:
        assert len(dpus) == len(list(dpus)) == 70
        assert [dpu for rank in dpus.ranks() for dpu in rank] == dpus.dpus()
        rank, dpu = dpus.ranks()[1], dpus.dpus()[-1]
        assert rank.ranks() == [rank]
        assert (dpu.ranks(), dpu.dpus(), len(dpu)) == ([rank], [dpu], 1)
        assert {dpu: 1}[dpus.dpus()[-1]] == 1


@pytest.mark.parametrize("asked", [{}, {"nr_dpus": ALLOCATE_ALL}, {"nr_dpus": -1}, {"nr_ranks": 40}], ids=str)
def test_all_dpus_of_the_default_server(asked):
    with DpuSet(**asked) as dpus:
        assert (len(dpus), len(dpus.ranks())) == (2560, 40)


@pytest.mark.parametrize(
    "asked", [{"nr_dpus": 2561}, {"nr_dpus": 0}, {"nr_ranks": 41}, {"nr_ranks": 0}], ids=str
)
def test_impossible_counts_say_what_was_asked_and_what_there_is(asked):
    (count,) = asked.values()
    with pytest.raises(DpuError, match=rf"^dpu allocation error: asked for {count} .* has (2560|40)$"):
        DpuSet(**asked)


def test_counts_of_both_kinds_or_of_no_int_are_refused():
    with pytest.raises(DpuError, match=r"^cannot specify nr_dpus and nr_ranks$"):
        DpuSet(nr_dpus=1, nr_ranks=1)
    for wrong in ("2", 1.0, True):
        with pytest.raises(TypeError):
            DpuSet(nr_dpus=wrong)


def test_the_profile_names_the_server(caplog):
    with DpuSet(nr_dpus=1, profile="backend=simulator,swiftrl_hardware=upimulator-server,colour=red") as dpus:
        assert dpus.simulated.hardware == "upimulator-server"
    assert "colour" in caplog.text
    with DpuSet(nr_dpus=1, profile="swiftrl_hardware=upmem-v1b", hardware="upmem-2556") as dpus:
        assert dpus.simulated.hardware == "upmem-2556"


@pytest.mark.parametrize("profile", ["backend=hw", "backend=abacus", "backend", "swiftrl_hardware=abacus"])
def test_an_unknown_profile_is_refused(profile):
    with pytest.raises(DpuError, match=r"^invalid profile"):
        DpuSet(nr_dpus=1, profile=profile)


def test_use_after_free_and_freeing_a_part_are_refused(probe):
    dpus = DpuSet(nr_dpus=2, binary=probe)
    for part in (dpus.ranks()[0], dpus.dpus()[0]):
        with pytest.raises(DpuError, match=r"^invalid action for this dpu set"):
            part.free()
    dpus.free()
    assert len(dpus) == 2
    uses = [
        dpus.free,
        dpus.exec,
        dpus.sync,
        dpus.log,
        lambda: dpus.load(binary=probe),
        lambda: dpus.copy("words", bytearray(4)),
        lambda: dpus.dpus()[0].exec(),
        lambda: dpus.call(print, None),
        lambda: dpus.factor,
    ]
    for use in uses:
        with pytest.raises(DpuError, match="freed"):
            use()


# -- programs and symbols ----------------------------------------------------------------------------------------


def test_load_tells_the_symbols(probe):
    with DpuSet(nr_dpus=2) as dpus:
        program = dpus.load(binary=probe)
    factor = program.get_symbol("factor")
    assert (factor.name, factor.size(), factor.value() % 8) == ("factor", 4, 0)
    assert program.get_symbol("block").value() >= 0x08000000
    assert program.get_symbol("nothing") is None
    assert {"launches", "sum"} <= {symbol.name for symbol in program.fetch_all_symbols()}
    assert set(program.symbols) >= {"main", "__sys_used_mram_end"}
    assert "buffer" not in program.symbols


def test_load_wants_one_source_of_the_right_kind(probe, tmp_path):
    with DpuSet(nr_dpus=1) as dpus:
        for wrong in ({}, {"binary": probe, "c_source": str(PROBE)}):
            with pytest.raises(
                DpuError, match=r"^one and only one source or binary program must be defined$"
            ):
                dpus.load(**wrong)
        for wrong in (Path(probe), b"\x7fELF", bytearray(4)):
            with pytest.raises(TypeError):
                dpus.load(binary=wrong)
        with pytest.raises(DpuError, match=r"^system error"):
            dpus.load(binary=str(tmp_path / "absent"))
        (tmp_path / "text").write_text("no program")
        with pytest.raises(DpuError, match=r"^invalid ELF file"):
            dpus.load(binary=str(tmp_path / "text"))
        with pytest.raises(DpuError, match="assembly"):
            dpus.load(asm_source="k.S")
        with pytest.raises(DpuError, match="c_source"):
            dpus.load(c_source=["k.c"])


def test_a_failing_load_in_the_constructor_frees_the_set(tmp_path, monkeypatch):
    freed = []
    monkeypatch.setattr(DpuSet, "free", lambda self: freed.append(self))
    with pytest.raises(DpuError, match="system error"):
        DpuSet(nr_dpus=1, binary=str(tmp_path / "absent"))
    assert len(freed) == 1


def test_a_program_for_another_chip_is_refused():
    many = str(compile_kernel(PROBE, nr_tasklets=24))
    few = str(compile_kernel(PROBE, nr_tasklets=8))
    with DpuSet(nr_dpus=1, hardware="upmem-v1b") as dpus:
        with pytest.raises(DpuError, match=r"^dpu program uses more tasklets than the hardware has threads"):
            dpus.load(binary=many)
        with pytest.raises(DpuError, match=r"^internal error.*chip='v1B'"):
            dpus.load(binary=few)
        dpus.load(binary=str(compile_kernel(PROBE, chip="v1B")))
        assert dpus.launches.uint32() == 0


def test_c_sources_are_compiled(tmp_path):
    with DpuSet(nr_dpus=1, c_source=str(PROBE)) as dpus:
        assert dpus.launches.uint32() == 0
        dpus.load(
            c_source=io.StringIO(
                '__attribute__((used, section(".data.__sys_host"))) int x = 7; int main() {}'
            )
        )
        assert dpus.x.int32() == 7
        with pytest.raises(CompileError):
            dpus.load(c_source=io.StringIO("int main( {}"))


def test_the_program_learns_the_clock(probe):
    for server in ("upmem-2556", "upmem-v1b"):
        binary = str(compile_kernel(PROBE, chip=HARDWARE_PROFILES[server].chip))
        with DpuSet(nr_dpus=2, binary=binary, hardware=server) as dpus:
            assert dpus.CLOCKS_PER_SEC.uint32() == [HARDWARE_PROFILES[server].clock_hz] * 2


def test_symbols_are_attributes(trio):
    trio.factor = [bytearray(value.to_bytes(4, "little", signed=True)) for value in (5, -6, 7)]
    assert trio.factor.int32() == [5, -6, 7]
    assert trio.factor.uint8()[1].tolist() == [250, 255, 255, 255]
    assert [dpu.factor.int32() for dpu in trio] == [5, -6, 7]
    trio.factor = bytearray(4)
    assert trio.factor.uint32() == [0, 0, 0]
    assert trio.dpus()[0].block.int32().nbytes == 256
    assert len(trio.sum.int64()) == 3
    assert bytes(trio.dpus()[2].sum.data()) == bytes(8)
    trio.comment = "no symbol"
    assert trio.comment == "no symbol"
    with pytest.raises(AttributeError, match="nothing"):
        _ = trio.nothing
    with pytest.raises(TypeError):
        trio.factor = 5


def test_different_programs_share_no_names(trio, talking_probe):
    first = trio.dpus()[0]
    symbol = first.load(binary=talking_probe).get_symbol("factor")
    with pytest.raises(DpuError, match=r"^cannot access symbol on dpus with different programs$"):
        trio.copy("factor", bytearray(4))
    with pytest.raises(AttributeError):
        _ = trio.factor
    trio.copy(symbol, bytearray(4))
    assert first.factor.uint32() == 0


def test_a_second_load_writes_initialised_data_and_keeps_the_rest(trio, probe):
    trio.copy("block", filled(3, 256))
    trio.copy("factor", bytearray(b"\1\0\0\0"))
    trio.exec()
    assert trio.launches.uint32() == [1, 1, 1]
    trio.load(binary=probe)
    assert trio.launches.uint32() == [0, 0, 0]
    assert [bytes(dpu.block.data())[0] for dpu in trio] == [1, 2, 3]


def test_nothing_loaded_is_said():
    with DpuSet(nr_dpus=2) as dpus:
        symbol = DpuSymbol("hand-made", (0, 64))
        for use in (dpus.exec, lambda: dpus.copy("a", bytearray(4)), lambda: dpus.copy(symbol, bytearray(4))):
            with pytest.raises(DpuError, match=r"^no program has been loaded in the dpu set$"):
                use()


# -- copies ------------------------------------------------------------------------------------------------------


@given(st.data())
def test_what_is_written_is_read(probe, data):
    name, unit, room = data.draw(st.sampled_from([("block", 8, 256), ("bytes", 4, 12), ("sum", 4, 8)]))
    offset = unit * data.draw(st.integers(0, room // unit - 1))
    size = unit * data.draw(st.integers(1, (room - offset) // unit))
    blocks = [data.draw(st.binary(min_size=size, max_size=size)) for _ in range(3)]
    with DpuSet(nr_dpus=3, binary=probe) as dpus:
        before = (
            [bytearray(room) for _ in range(3)]
            if unit == 8
            else [bytearray(room - room % unit) for _ in range(3)]
        )
        dpus.copy(before, name)
        dpus.copy(name, [bytearray(block) for block in blocks], offset=offset)
        back = [bytearray(len(before[0])) for _ in range(3)]
        dpus.copy(back, name)
        for old, block, new in zip(before, blocks, back, strict=True):
            old[offset : offset + size] = block
            assert new == old


def test_broadcast_and_single_copies(trio, probe):
    symbol = trio.load(binary=probe).get_symbol("bytes")
    trio.copy("bytes", bytearray(range(12)))
    one = bytearray(12)
    trio.dpus()[1].copy(one, "bytes")
    assert one == bytearray(range(12))
    trio.dpus()[1].copy("bytes", [bytearray(12)])
    back = [bytearray(12) for _ in range(3)]
    trio.copy(back, symbol)
    assert [sum(part) for part in back] == [66, 0, 66]


def test_size_moves_a_prefix_and_none_skips_a_dpu(trio):
    trio.copy("bytes", bytearray(12))
    trio.copy("bytes", [bytearray(b"\1" * 12), None, bytearray(b"\2" * 12)], size=4, offset=4)
    assert [bytes(dpu.bytes.data()) for dpu in trio] == [
        bytes(4) + b"\1" * 4 + bytes(4),
        bytes(12),
        bytes(4) + b"\2" * 4 + bytes(4),
    ]
    trio.copy("bytes", bytearray(b"\3" * 12), size=0)
    assert bytes(trio.dpus()[1].bytes.data()) == bytes(12)


@pytest.mark.parametrize(
    ("symbol", "size", "offset", "text"),
    [
        ("bytes", 3, 0, "invalid wram access"),
        ("bytes", 4, 1, "invalid wram access"),
        ("block", 12, 0, "invalid mram access"),
        ("block", 8, 4, "invalid mram access"),
        ("bytes", 16, 0, "invalid memory symbol access"),
        ("bytes", 4, 12, "invalid memory symbol access"),
        ("bytes", 4, -4, "invalid memory symbol access"),
        ("block", 264, 0, "invalid memory symbol access"),
        ("nothing", 4, 0, "undefined symbol"),
        ("buffer", 4, 0, "undefined symbol"),
        ("main", 8, 0, "invalid iram access"),
    ],
)
def test_sizes_places_and_names_are_checked(trio, symbol, size, offset, text):
    for host in (bytearray(size), filled(3, size)):
        with pytest.raises(DpuError, match=f"^{text}"):
            trio.copy(symbol, host, offset=offset)
    with pytest.raises(DpuError, match=f"^{text}"):
        trio.copy(filled(3, size), symbol, offset=offset)


def test_host_sides_are_checked(trio):
    one = trio.dpus()[0]
    with pytest.raises(DpuError, match=r"^can only execute Host <-> DPU transfers$"):
        trio.copy("factor", "factor")
    with pytest.raises(DpuError, match=r"^can only execute Host <-> DPU transfers$"):
        trio.copy(bytearray(4), bytearray(4))
    with pytest.raises(DpuError, match=r"^invalid number of host buffers for this DPU set$"):
        trio.copy("factor", filled(2, 4))
    with pytest.raises(DpuError, match=r"^invalid memory transfer"):
        trio.copy("bytes", [bytearray(4), bytearray(4), bytearray(8)], size=4)
    with pytest.raises(DpuError, match=r"^host buffer is too small$"):
        trio.copy("bytes", bytearray(4), size=8)
    with pytest.raises(DpuError, match=r"^invalid memory symbol access"):
        trio.copy("factor", [None, None, None])
    with pytest.raises(TypeError):
        one.copy("factor", [None])
    with pytest.raises(TypeError, match=r"^underlying buffer is not writable$"):
        trio.copy("factor", bytes(4))
    with pytest.raises(TypeError, match="contiguous"):
        trio.copy("bytes", np.zeros(24, np.uint8)[::2])


def test_what_the_vendor_leaves_undefined_is_said(trio):
    with pytest.raises(DpuError, match="one buffer per DPU"):
        trio.copy(bytearray(4), "factor")
    with pytest.raises(DpuError, match="tuple"):
        trio.copy("factor", tuple(filled(3, 4)))
    with pytest.raises(DpuError, match="read-only"):
        trio.copy("factor", [bytes(4)] * 3)
    for trap in (array.array("I", [1]), np.zeros(1, np.int32), np.zeros((4, 4), np.uint8)):
        with pytest.raises(DpuError, match="len"):
            trio.copy("factor", trap)
    rows = np.arange(3, dtype=np.int32).reshape(3, 1)
    trio.copy("factor", list(rows))  # in a list the SDK counts bytes
    assert trio.factor.int32() == [0, 1, 2]


# -- launches ----------------------------------------------------------------------------------------------------


def test_a_kernel_computes_and_its_memory_stays(trio):
    blocks = np.arange(3 * 64, dtype=np.int32).reshape(3, 64)
    trio.copy("block", [row.copy().view(np.uint8) for row in blocks])
    trio.factor = bytearray((-3).to_bytes(4, "little", signed=True))
    trio.exec()
    trio.dpus()[1].exec()
    assert trio.launches.uint32() == [1, 2, 1]
    expected = blocks * np.array([[-3], [9], [-3]])
    assert trio.sum.int64() == expected.sum(axis=1).tolist()
    back = np.zeros((3, 256), np.uint8)
    trio.copy(list(back), "block")
    assert np.array_equal(back.view(np.int32), expected)


def test_a_fault_is_told_after_all_have_finished_and_stays(trio, probe, capsys):
    trio.copy("block", filled(3, 256))
    trio.stop_here = [bytearray(4), bytearray(b"\1\0\0\0"), bytearray(4)]
    with pytest.raises(DpuError, match=r"^dpu is in fault: DPU 0\.1\.0 .* is in fault: .*halt"):
        trio.exec()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"DPU 0.1.0 '{Path(probe).name}' is in fault")
    assert list(trio.faults()) == [1]
    assert trio.launches.uint32() == [1, 1, 1]
    trio.load(binary=probe)
    with pytest.raises(DpuError, match=r"^dpu is in fault"):
        trio.exec()
    trio.dpus()[0].exec()
    assert trio.launches.uint32() == [1, 0, 0]


def test_at_most_fifteen_faults_are_shown(probe, capsys):
    with DpuSet(nr_dpus=17, binary=probe) as dpus:
        dpus.stop_here = bytearray(b"\1\0\0\0")
        with pytest.raises(DpuError, match="and 16 more"):
            dpus.exec()
    assert len(capsys.readouterr().err.splitlines()) == 15


def test_last_run_counts(trio):
    assert trio.last_run == [None] * 3
    trio.copy("block", filled(3, 256))
    trio.exec()
    for run in trio.last_run:
        assert int(run.instructions.sum()) > 64
        assert run.dma_cycles.sum() == dma_cycles(256) + dma_cycles(256, write=True)
        assert run.cycles == 11 * run.instructions.sum() + run.dma_cycles.sum()
    assert trio.dpus()[2].last_run == trio.last_run[2:]


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_both_modes_give_the_same_memory(probe, mode):
    with DpuSet(nr_dpus=2, binary=probe, mode=mode, threads=1) as dpus:
        dpus.copy("block", filled(2, 256))
        dpus.factor = bytearray(b"\2\0\0\0")
        dpus.exec()
        assert dpus.sum.int64() == [64 * 2 * 0x01010101, 64 * 2 * 0x02020202]


@pytest.mark.parametrize(
    ("wrong", "says"), [({"mode": "slow"}, "exact"), ({"threads": 0}, "threads is 1 or more")]
)
def test_unknown_ways_to_run_are_refused(wrong, says):
    with pytest.raises(DpuError, match=says):
        DpuSet(nr_dpus=1, **wrong)


# -- logs --------------------------------------------------------------------------------------------------------


def test_logs_have_a_header_for_each_dpu(talking_probe, capsys):
    with DpuSet(nr_dpus=3, binary=talking_probe) as dpus:
        dpus.exec()
        assert capsys.readouterr().out == ""
        dpus.log()
        text = "".join(f"=== DPU#{name} ===\nlaunch 1\n" for name in ("0x0", "0x100", "0x200"))
        assert capsys.readouterr().out == text
        own, other = io.StringIO(), io.StringIO()
        dpus.exec(log=[own, None, other])
        assert own.getvalue() == "=== DPU#0x0 ===\nlaunch 2\n"
        assert other.getvalue() == "=== DPU#0x200 ===\nlaunch 2\n"
        dpus.log({dpus.dpus()[1]: own})
        assert own.getvalue().endswith("=== DPU#0x100 ===\nlaunch 2\n")


def test_the_default_log_comes_from_the_constructor(talking_probe):
    stream = io.StringIO()
    with DpuSet(nr_dpus=2, binary=talking_probe, log=stream) as dpus:
        dpus.exec()
        assert stream.getvalue().count("launch 1") == 2
        dpus.exec(log=[io.StringIO(), None])
        assert stream.getvalue().count("launch 2") == 1
    with DpuSet(nr_dpus=2, binary=talking_probe, log=[stream, None]) as dpus:
        dpus.exec()
        assert stream.getvalue().count("launch 1") == 3


def test_wrong_logs_are_refused(trio):
    with pytest.raises(DpuError, match=r"^log list length does not match number of DPUs in DpuSet$"):
        DpuSet(nr_dpus=2, log=[None])
    with pytest.raises(
        DpuError, match=r"^cannot log, log list length does not match the number of DPUs in DpuSet$"
    ):
        trio.exec(log=[None])
    with pytest.raises(DpuError, match=r"^stream argument is not an object with a 'write' method$"):
        trio.log(3)
    with pytest.raises(DpuError, match=r"^logging context missing"):
        trio.log(io.StringIO())


# -- asynchronous ------------------------------------------------------------------------------------------------


def test_queued_work_is_done_in_order_at_sync(probe):
    with DpuSet(nr_dpus=2, binary=probe, async_mode=True) as dpus:
        back = [bytearray(4), bytearray(4)]
        dpus.copy("block", filled(2, 256))
        dpus.exec()
        dpus.exec(async_mode=False)  # the SDK queues this too
        dpus.copy(back, "launches")
        assert back == [bytearray(4)] * 2
        assert dpus.simulated.launches == 0
        dpus.sync()
        assert dpus.simulated.launches == 2
        assert back == [bytearray(b"\2\0\0\0")] * 2
        dpus.exec()
        dpus.copy(back, "launches", async_mode=False)  # waits for what was queued
        assert back == [bytearray(b"\3\0\0\0")] * 2


def test_asynchronous_errors_come_at_sync_and_stay(probe):
    with DpuSet(nr_dpus=2, binary=probe) as dpus:
        with pytest.raises(DpuError, match=r"^invalid wram access"):
            dpus.copy("bytes", bytearray(3), async_mode=True)
        with pytest.raises(DpuError, match=r"^undefined symbol"):
            dpus.copy("nothing", bytearray(4), async_mode=True)
        dpus.copy("block", bytearray(12), async_mode=True)
        for use in (dpus.sync, dpus.sync, dpus.exec, lambda: dpus.copy("factor", bytearray(4))):
            with pytest.raises(DpuError) as caught:
                use()
            assert str(caught.value).startswith(
                "asynchronous operation error (copy_mram_to_rank): invalid mram access (0xb000a)"
            )


@pytest.mark.parametrize(
    ("transfer", "job"),
    [
        (
            lambda dpus, part: dpus.copy("block", [part, part], async_mode=True),
            "copy_mram_from_matrix): .* (0x8000a)",
        ),
        (
            lambda dpus, part: dpus.copy([part, part], "block", async_mode=True),
            "copy_mram_to_matrix): .* (0x5000a)",
        ),
    ],
)
def test_asynchronous_errors_name_the_vendors_job_and_number(probe, transfer, job):
    with DpuSet(nr_dpus=2, binary=probe) as dpus:
        transfer(dpus, bytearray(12))
        with pytest.raises(DpuError, match=job.replace("(", r"\(").replace(")", r"\)")):
            dpus.sync()


def test_an_asynchronous_fault_names_the_launch(probe):
    with DpuSet(nr_dpus=2, binary=probe) as dpus:
        dpus.stop_here = bytearray(b"\1\0\0\0")
        dpus.exec(async_mode=True)
        with pytest.raises(
            DpuError, match=r"^asynchronous operation error \(launch_rank\): dpu is in fault \(0x15\): "
        ):
            dpus.sync()


def test_calls_per_rank_and_for_the_set():
    with DpuSet(nr_dpus=70) as dpus:
        seen = []
        dpus.call(lambda part, index, arg: seen.append((len(part), index, arg)), "x")
        dpus.call(lambda part, index, arg: seen.append((part is dpus, index, arg)), "y", single_call=True)
        dpus.call(lambda *_: seen.append("late"), None, async_mode=True, single_call=True)
        sizes = [len(rank) for rank in dpus.ranks()]
        assert seen == [(sizes[0], 0, "x"), (sizes[1], 1, "x"), (True, 0xFFFFFFFF, "y")]
        dpus.sync()
        assert seen[-1] == "late"
        with pytest.raises(DpuError, match=r"^nonblocking and synchronous callback is invalid$"):
            dpus.call(print, None, is_blocking=False)


# -- seconds -----------------------------------------------------------------------------------------------------


def test_the_ledger_keeps_simulated_seconds_by_kind(trio):
    start = trio.simulated.snapshot()
    trio.copy("block", [bytearray(bits.to_bytes(4, "little") * 64) for bits in (1, 0xFFFF, 0xFF)])
    assert trio.simulated.to_dpu_s - start.to_dpu_s == transfer_seconds(PRIM, "to_dpu", 3, 256)
    trio.copy("factor", bytearray(b"\xff\xff\xff\0"))
    broadcast = transfer_seconds(PRIM, "to_dpu", 3, 4, "broadcast")
    assert trio.simulated.to_dpu_s == pytest.approx(transfer_seconds(PRIM, "to_dpu", 3, 256) + broadcast)
    trio.exec()
    fastest, slowest = (pick(run.cycles for run in trio.last_run) for pick in (min, max))
    assert fastest < slowest  # multiplying by more bits takes longer
    assert trio.simulated.kernel_s == launch_seconds(PRIM, slowest)
    assert trio.simulated.launches == 1
    assert trio.simulated.instructions == sum(int(run.instructions.sum()) for run in trio.last_run)
    trio.dpus()[0].copy(bytearray(8), "sum")
    assert trio.simulated.from_dpu_s == transfer_seconds(PRIM, "from_dpu", 1, 8, "serial")
    assert (trio.simulated.to_dpu_bytes, trio.simulated.from_dpu_bytes) == (3 * 256 + 3 * 4, 8)
    assert trio.ranks()[0].simulated is trio.simulated
