"""The simulator held to published numbers, as `swiftrl validate` does it."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from swiftrl_core.cli import main
from swiftrl_core.dpusim import validation
from swiftrl_core.dpusim.program.elf import MRAM_BASE, MRAM_HEAP
from swiftrl_core.dpusim.timing import STATED, Uncertainty, dma_cycles
from swiftrl_core.dpusim.validation import counts, hardware, loops, published, throughput
from swiftrl_core.dpusim.validation.harness import KERNELS, run_kernel
from swiftrl_core.dpusim.validation.report import Bar, Section, mean_error, percent_error
from swiftrl_core.util.errors import SwiftRLError

ROOT = Path(__file__).resolve().parent.parent


def misses(section: Section) -> list[str]:
    return [str(bar) for bar in section.bars if not bar.holds]


@pytest.mark.parametrize("name", ["arithmetic", "saturation", "bandwidth", "transfers", "loops", "suite"])
def test_every_bar_holds(name):
    (section,), absent = validation.validate([name])
    assert section.bars
    assert not misses(section)
    assert absent == {}


def test_all_sixteen_pairs_are_compared():
    (section,), _ = validation.validate(["arithmetic"])
    assert len(section.table) == 16
    assert set(section.table["type"]) == {"INT32", "INT64", "FLOAT", "DOUBLE"}
    recomputed = 100 * (section.table["predicted_mops"] / section.table["published_mops"] - 1)
    assert section.table["error_percent"].to_numpy() == pytest.approx(recomputed.to_numpy())


def test_the_operand_width_moves_the_divisions_only():
    """The argument in throughput.py: one bit of the first operand is one bit of a quotient."""
    narrow, wide = (throughput.throughput_mops("int32_t", "/", operand_bits=bits) for bits in (30, 31))
    cycles = 350 / wide - 350 / narrow
    assert cycles == pytest.approx(1, abs=0.1)
    narrow, wide = (throughput.throughput_mops("int32_t", "*", operand_bits=bits) for bits in (30, 31))
    assert narrow == pytest.approx(wide, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "operator"), [("int32_t", "+"), ("int32_t", "*"), ("float", "+"), ("double", "/")]
)
def test_the_exact_run_measures_the_same_throughput(kind, operator):
    fast, exact = (throughput.throughput_mops(kind, operator, mode=mode) for mode in ("fast", "exact"))
    assert exact == pytest.approx(fast, rel=0.01)


# ---- the whole kernels compute what they say ----


def heap_after(done, offset: int, count: int, dtype) -> np.ndarray:
    start = done.machine.program.symbols[MRAM_HEAP][0] - MRAM_BASE + offset
    return np.frombuffer(done.machine.read_mram(start, count * np.dtype(dtype).itemsize), dtype)


@pytest.mark.parametrize("elements", [4096, 5000])
def test_vector_add_adds(elements):
    heap, _ = hardware.WHOLE_KERNELS["VA"].inputs(elements)
    done = hardware.WHOLE_KERNELS["VA"].run(elements)
    assert np.array_equal(
        heap_after(done, 4 * elements, elements, np.int32), heap[:elements] + heap[elements:]
    )


@pytest.mark.parametrize("elements", [4096, 5000])
def test_reduction_sums(elements):
    heap, _ = hardware.WHOLE_KERNELS["RED"].inputs(elements)
    assert hardware.WHOLE_KERNELS["RED"].run(elements).value("sum", np.int64) == heap.sum()


def test_histogram_counts():
    heap, _ = hardware.WHOLE_KERNELS["HST-S"].inputs(10_000)
    done = hardware.WHOLE_KERNELS["HST-S"].run(10_000)
    assert np.array_equal(
        heap_after(done, heap.nbytes, 256, np.uint32), np.bincount(heap >> 4, minlength=256)
    )


@pytest.mark.parametrize("columns", [64, 65, 300])
def test_gemv_multiplies(columns):
    """Also rows that begin in the middle of 8 bytes, and rows longer than a block."""
    rows, block = 64, 256
    gap = columns % 2 * 4  # the vector's last word, where its length is odd
    heap = np.random.default_rng(1).integers(0, 50, rows * columns + 2 * block + columns).astype(np.uint32)
    matrix = heap[: rows * columns].reshape(rows, columns)
    vector = heap[rows * columns + block :][:columns]
    variables = {"rows": np.uint32(rows), "columns": np.uint32(columns)}
    done = run_kernel(KERNELS / "gemv.c", tasklets=16, heap=heap, variables=variables)
    result = heap_after(done, 4 * (rows * columns + block + columns + block) + gap, rows, np.uint32)
    assert np.array_equal(result, matrix @ vector)


# ---- the loops of the second server ----


@pytest.mark.parametrize("name", ["ADD", "SUM", "COUNT"])
def test_loops_compute(name):
    tasklets, blocks, block = 4, 3, 32
    elements = tasklets * blocks * block
    heap = np.random.default_rng(2).integers(256, 4096, 2 * elements).astype(np.uint32)
    done = run_kernel(
        KERNELS / "loops.c",
        defines={
            "T": "uint32_t",
            **{f"LOOP_{other}": int(other == name) for other in ("ADD", "SUM", "COUNT")},
        },
        tasklets=tasklets,
        heap=heap,
        variables={"blocks": np.uint32(blocks), "block": np.uint32(block), "bins": np.uint32(256)},
    )
    a, b = heap.reshape(2, tasklets, -1)
    if name == "ADD":
        assert np.array_equal(heap_after(done, heap.nbytes, elements, np.uint32), (a + b).ravel())
    elif name == "SUM":
        assert np.array_equal(
            heap_after(done, heap.nbytes, 2 * tasklets, np.uint32)[::2], (a + b).sum(1, dtype=np.uint32)
        )
    else:
        counted = heap_after(done, heap.nbytes, 256 * tasklets, np.uint32).reshape(tasklets, 256)
        assert all(np.array_equal(np.bincount(a[t] >> 4, minlength=256), counted[t]) for t in range(tasklets))


def test_the_second_servers_dma_comes_from_its_transfers():
    dma = loops.second_server_dma()
    for way, measured in published.TRANSFER_CYCLES.items():
        for size, cycles in measured.items():
            assert dma_cycles(size, way == "write", dma) == pytest.approx(cycles, rel=0.01)


def test_both_runs_agree_on_a_loop_that_waits_for_the_engine():
    (waiting,) = (
        loop for loop in published.LOOPS if (loop.name, loop.tasklets, loop.transfer_bytes) == ("ADD", 16, 32)
    )
    fast, exact = (loops.loop_cycles(waiting, loops.second_server_dma(), mode) for mode in ("fast", "exact"))
    assert fast == pytest.approx(exact, rel=0.02)
    assert fast > 1.5 * loops.loop_cycles(dataclasses.replace(waiting, block=128), loops.second_server_dma())


# ---- the project's own suite ----


def test_both_runs_agree_on_the_suite():
    for case in counts.CASES:
        fast, exact = case.run("fast"), case.run("exact")
        assert fast["checksum"] == exact["checksum"], case.name
        assert fast["dma_bytes"] == exact["dma_bytes"], case.name
        assert fast["cycles"] == pytest.approx(exact["cycles"], rel=0.02), case.name


def test_a_changed_count_is_named(tmp_path):
    golden = counts.read_golden()
    golden["rows"]["walk"]["instructions"] += 1
    del golden["rows"]["select"]
    path = tmp_path / "golden.json"
    path.write_text(json.dumps(golden))
    (bar,) = counts.own_suite(path).bars
    assert not bar.holds
    assert bar.detail == "walk, select"


def test_no_golden_counts_is_one_sentence(tmp_path):
    with pytest.raises(SwiftRLError, match="make it with `swiftrl validate --write-golden`"):
        counts.own_suite(tmp_path / "golden.json")


# ---- measurements that are not part of the project ----


def invented_rows(path: Path, factor: float = 1.0) -> Path:
    """Write hardware rows that are what the simulator says, times a factor."""
    rows, latency = [], 1e3 * hardware.PROFILE.launch_s
    for name, kernel in hardware.WHOLE_KERNELS.items():
        for dpus in (4, 16):
            for units in (1024, 2048) if name == "GEMV" else (2**17, 2**18):
                cycles = kernel.run(units).stats.cycles
                time = factor * (latency + cycles / 350e3)
                rows.append((name, dpus, units * dpus, time))
    rows += [("SEL", 16, units * 16, latency + units * 1e-4) for units in (1000, 2000, 3000)]
    names = ["benchmark", "num_dpus", "data_prep_param", "hw_kernel"]
    content = [dict(zip(names, row, strict=True)) | {"sim_kernel": 1.0} for row in rows]
    path.write_text(json.dumps({"rows": content}))
    return path


def test_whole_kernels_that_are_right_pass_and_others_fail(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(hardware, "STATED", {kind: Uncertainty("x", 0.99, 1.01, "y") for kind in STATED})
    path = invented_rows(tmp_path / "rows.json")
    section = hardware.whole_kernels(path)
    assert not misses(section)
    assert section.table["mean_error_percent"].max() < 0.1

    invented_rows(path, factor=1.5)
    assert main(["validate", "--only", "kernels", "--hardware-rows", str(path), "--json"]) == 1
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report["holds"] is False
    assert report["sections"]["kernels"]["bars"][0]["value"] == pytest.approx(100 / 3, abs=1)
    assert "mean over the kernels' judged rows" in printed.err


def test_rows_that_judge_set_nothing(tmp_path):
    """Change the judged kernels' rows: the fitted latency stays."""
    columns = ["benchmark", "num_dpus", "data_prep_param", "hw_kernel", "sim_kernel"]
    cases = [
        (name, 16, 16 * units, 0.2 + units * 1e-4, 1.0)
        for name in ("SEL", "VA")
        for units in (1000, 2000, 3000)
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"rows": [dict(zip(columns, case, strict=True)) for case in cases]}))
    rows = hardware.read_rows(path)
    before = hardware.launch_latency_ms(rows)
    rows.loc[rows["benchmark"].isin(hardware.WHOLE_KERNELS), "hardware_ms"] *= 3
    assert hardware.launch_latency_ms(rows) == before == pytest.approx(0.2)


def test_what_is_absent_is_left_out_and_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(validation, "measurements_folder", lambda: tmp_path)
    sections, absent = validation.validate(["transfers", "calibration", "kernels"])
    assert [section.name for section in sections] == ["transfers"]
    assert set(absent) == {"calibration", "kernels"}
    assert main(["validate", "--only", "transfers", "kernels"]) == 0
    assert "left out: kernels" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--only", "calibration", "--calibration", "nowhere"], "holds no calibration suite"),
        (["--only", "kernels", "--hardware-rows", "nowhere.json"], "does not hold hardware rows"),
    ],
)
def test_measurements_that_are_named_must_be_there(options, sentence, capsys):
    assert main(["validate", *options]) == 1
    assert sentence in capsys.readouterr().err


def test_an_unknown_section_is_refused():
    with pytest.raises(SwiftRLError, match="no section is called 'weather'"):
        validation.validate(["weather"])


def test_a_kernel_of_the_harness_must_have_its_variables():
    with pytest.raises(SwiftRLError, match="no host variable 'absent'"):
        run_kernel(KERNELS / "vector_add.c", variables={"absent": np.uint32(1)})


# ---- the report ----


def test_bars_and_errors():
    assert Bar("a", 1.0, 1.0).holds
    assert not Bar("a", 1.1, 1.0).holds
    assert not Bar("a", float("nan"), 1.0).holds
    assert percent_error(9, 10) == pytest.approx(-10)
    assert mean_error([-1, 3]) == 2
    assert np.isnan(mean_error([]))
    section = Section("s", "t", pd.DataFrame({"x": [1.0, np.nan]}), (Bar("a", float("nan"), 1.0),))
    assert json.loads(json.dumps(section.to_json(), allow_nan=False))["rows"] == [{"x": 1.0}, {"x": None}]


@pytest.mark.parametrize("kind", list(STATED))
def test_stated_intervals_hold_their_simulation_or_say_which_way_it_errs(kind):
    stated = STATED[kind]
    assert 0 < stated.low < stated.high
    assert stated.covers(stated.low)
    assert stated.covers(stated.high)
    assert not stated.covers(stated.high + 0.01)
    assert stated.source


# ---- slow: needs measurements ----


@pytest.mark.slow
@pytest.mark.parametrize("name", ["calibration", "kernels"])
def test_bars_against_measurements(name):
    sections, absent = validation.validate([name])
    if absent:
        pytest.skip(absent[name])
    assert not misses(sections[0])
