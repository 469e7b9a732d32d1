"""The debug run finds bugs, with the lines they are on, and nothing in kernels without any."""

from pathlib import Path

import numpy as np
import pytest

from swiftrl_core.backend import Problem
from swiftrl_core.backends.pim.kernels import compile_agents, compile_learner
from swiftrl_core.data import collect
from swiftrl_core.dpusim import DpuError, DpuSet, compile_kernel
from swiftrl_core.dpusim.machine import Machine, run_machines
from swiftrl_core.dpusim.program.elf import load_program
from swiftrl_core.learner import Learner, random_states
from swiftrl_core.learner.chunks import split
from swiftrl_core.util.errors import SwiftRLError

BUGGY = Path(__file__).with_name("buggy.c")
SOURCE = BUGGY.read_text().splitlines()


def line_of(text: str, after: str = "") -> str:
    """Return `file:line` of the first line that holds a text, behind one that holds another."""
    start = next(i for i, line in enumerate(SOURCE) if after in line)
    return f"buggy.c:{next(i for i, line in enumerate(SOURCE[start:], start + 1) if text in line)}"


@pytest.fixture(scope="module")
def binary() -> str:
    return str(compile_kernel(BUGGY, nr_tasklets=3))


def reports_of(binary: str, bug: int) -> list:
    with DpuSet(nr_dpus=1, binary=binary, sanitize=True) as dpus:
        dpus.copy("bug", bytearray(np.uint32(bug).tobytes()))
        dpus.copy("far", bytearray(4096))
        dpus.exec()
        return dpus.sanitizer_reports


def test_a_kernel_without_bugs_has_no_sanitizer_reports(binary):
    assert reports_of(binary, 0) == []


@pytest.mark.parametrize(
    ("bug", "kind", "symbol", "lines", "sentence"),
    [
        (1, "uninitialised read", "heap", [line_of("mem_alloc(64))[3]")], "reads 4 bytes of heap"),
        (2, "uninitialised read", "stack of tasklet", [line_of("/* reads */")], "that were never written"),
        (3, "uninitialised read", "heap", [line_of("mem_alloc(32)")], "reads 8 bytes of heap"),
        (4, "data race", "counter", [line_of("/* unprotected */")] * 2, "no lock, barrier"),
        (
            5,
            "data race",
            "shared",
            [line_of("/* writes */"), line_of("/* reads */", "/* writes */")],
            "writes shared",
        ),
        (6, "data race", "counter", [line_of("counter * 3")] * 2, "counter"),
        (7, "data race", "buffer", [line_of("buffer[0], 64")] * 2, "writes buffer"),
        (8, "misaligned DMA", "far+4", [line_of("far + 4")], "a DPU uses 0x80"),
        (9, "misaligned DMA", "buffer+4", [line_of("buffer[0] + 4")], "uses the WRAM address"),
        (10, "misaligned DMA", "far", [line_of("12 + counter")], "transfers 12 bytes"),
        (12, "MRAM address without base", "", [line_of("0x03ffffff")], "a DPU takes it for 0x800"),
        (11, "data race", "buffer", [line_of("NR_TASKLETS][0] = id"), line_of("buffer[id][0];")], "buffer"),
    ],
)
def test_each_kind_of_bug_is_found(binary, bug, kind, symbol, lines, sentence):
    found = reports_of(binary, bug)
    assert {report.kind for report in found} == {kind}, found
    first = found[0]
    assert first.symbol.startswith(symbol)
    assert set(first.lines) == set(lines)
    assert len(first.lines) == len(first.tasklets) == len(lines)
    assert sentence in first.text
    assert str(first).startswith(f"{kind}: tasklet ")
    assert all(line in first.text for line in lines)
    if bug != 10:
        assert len(found) == 1, found


@pytest.mark.parametrize(
    ("bug", "symbol", "texts"),
    [(13, "far", ("/* both */", "/* halves */")), (15, "far", ("/* a scalar */",))],
)
def test_races_in_a_word_of_mram_are_found(binary, bug, symbol, texts):
    found = reports_of(binary, bug)
    assert {report.kind for report in found} == {"data race"}, found
    assert {report.symbol.partition("+")[0] for report in found} == {symbol}
    lines = {line_of(text) for text in texts}
    assert {line for report in found for line in report.lines} == lines
    assert {report.tasklets for report in found} <= {(0, 1), (1, 0)}


def test_a_missing_barrier_behind_mem_reset_is_found(binary):
    found = reports_of(binary, 14)
    assert {report.kind for report in found} == {"data race"}, found
    assert {report.symbol for report in found} == {"the heap's pointer"}
    assert {line for report in found for line in report.lines} == {
        line_of("/* late */"),
        line_of("/* early */"),
    }


def test_reports_of_many_dpus_are_told_once(binary):
    with DpuSet(nr_dpus=3, binary=binary, sanitize=True) as dpus:
        dpus.copy("bug", [bytearray(np.uint32(bug).tobytes()) for bug in (4, 0, 4)])
        for _ in range(2):
            dpus.exec()
        (report,) = dpus.sanitizer_reports
        assert report.dpus == (0, 2)
        assert report.count > 2
        assert dpus.dpus()[1].sanitizer_reports == []
        dpus.load(binary)
        assert dpus.sanitizer_reports == []


def test_what_the_host_wrote_is_written(tmp_path):
    source = tmp_path / "reads.c"
    source.write_text(
        "#include <attributes.h>\n#include <stdint.h>\n__host uint32_t at, out;\n"
        "int main(void) { out = *(volatile uint32_t *)at; return 0; }\n"
    )
    machine = Machine(load_program(compile_kernel(source)), sanitize=True)
    machine.write_wram(machine.program.symbols["at"][0], np.uint32(60_000))
    for written in (False, True):
        if written:
            machine.load(machine.program)
            machine.write_wram(machine.program.symbols["at"][0], np.uint32(60_000))
            machine.write_wram(60_000, b"1234")
        machine.boot()
        run_machines([machine])
        assert [report.symbol for report in machine.sanitizer_reports] == ([] if written else ["heap"])


@pytest.mark.parametrize("agents", [None, 4])
@pytest.mark.parametrize("sampling", ["SEQ", "RAN"])
def test_the_learners_have_no_sanitizer_reports(agents, sampling):
    data = collect("frozenlake", 200, seed=3)
    learner = Learner(sampling=sampling, number_format="INT32")
    problem = Problem(learner, data.n_states, data.n_actions)
    shares = split(data, learner, agents or 1)
    args = learner.arguments(shares.lengths, random_states(0, shares.numbers))
    args["episodes"] = 2
    binary = (
        compile_learner(problem, for_hardware=False)
        if agents is None
        else compile_agents(problem, agents, for_hardware=False)
    )
    with DpuSet(nr_dpus=1, binary=str(binary), sanitize=True) as dpus:
        dpus.copy("__sys_used_mram_end", bytearray(shares.records.tobytes()))
        dpus.copy("args", bytearray(args.tobytes()))
        if agents is not None:
            dpus.copy("first", bytearray(shares.starts[:-1].astype(np.uint32).tobytes()))
        dpus.exec()
        assert dpus.last_run[0].instructions.sum() > 10_000
        assert dpus.sanitizer_reports == []


def test_the_debug_run_takes_the_time_of_the_exact_run(binary):
    stats = []
    for sanitize in (False, True):
        machine = Machine(load_program(binary), sanitize=sanitize)
        machine.boot()
        stats += run_machines([machine], mode="exact")
    assert stats[0].cycles == stats[1].cycles
    assert (stats[0].instructions == stats[1].instructions).all()


def test_without_the_debug_mode_there_are_no_sanitizer_reports_to_ask_for(binary):
    with DpuSet(nr_dpus=1, binary=binary) as dpus, pytest.raises(DpuError, match="sanitize=True"):
        _ = dpus.sanitizer_reports
    plain, debugged = (Machine(load_program(binary), sanitize=sanitize) for sanitize in (False, True))
    with pytest.raises(SwiftRLError, match="sanitize=True"):
        _ = plain.sanitizer_reports
    with pytest.raises(SwiftRLError, match="launch them separately"):
        run_machines([plain, debugged])
