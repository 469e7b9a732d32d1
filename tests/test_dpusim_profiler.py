"""Instructions by line: they add up to the run, and stand where the source says."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from swiftrl_core.dpusim import DpuSet, compile_kernel
from swiftrl_core.dpusim.machine import Machine, run_machines
from swiftrl_core.dpusim.profiler import COLUMNS, by_function, profile, profile_run, summary
from swiftrl_core.dpusim.program.elf import load_program
from swiftrl_core.dpusim.validation.counts import CASES, SUITE
from swiftrl_core.experiments import simulator as figures
from swiftrl_core.util.errors import SwiftRLError

NOTEBOOK = Path(__file__).resolve().parent.parent / "notebooks" / "09_simulator_validation.ipynb"

DIVIDES = """#include <attributes.h>
#include <stdint.h>
__host uint32_t n, divisor = 7, sum;
__attribute__((noinline)) static uint32_t share(uint32_t x) {
  return x / divisor + 1;
}
int main(void) {
  for (uint32_t i = 0; i < n; i++)
    sum += share(i + 4096);
  return 0;
}
"""


@pytest.fixture
def divides(tmp_path) -> Path:
    source = tmp_path / "divides.c"
    source.write_text(DIVIDES)
    return compile_kernel(source)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lines_add_up_to_the_run(case):
    binary = compile_kernel(SUITE / f"{case.kernel}.c", case.defines, case.tasklets)
    stats, lines = profile_run(binary)
    assert lines["instructions"].sum() == stats.instructions.sum()
    assert lines["share"].sum() == pytest.approx(1)
    assert by_function(lines)["instructions"].sum() == stats.instructions.sum()
    machine = Machine(load_program(binary))
    machine.boot()
    (exact,) = run_machines([machine], mode="exact")
    assert exact.instructions.tolist() == stats.instructions.tolist()
    assert exact.cycles == pytest.approx(stats.cycles, abs=1)


def test_a_division_stands_at_its_line(divides):
    with DpuSet(nr_dpus=2, binary=str(divides)) as dpus:
        dpus.copy("n", bytearray(np.uint32(100).tobytes()))
        lines = profile(dpus, dpu=1)
        assert dpus.dpus()[1].sum.uint32() == sum(i // 7 + 1 for i in range(4096, 4196))
        assert dpus.dpus()[0].sum.uint32() == 0
        assert dpus.simulated.launches == 0
    assert list(lines.columns) == COLUMNS
    top = lines.iloc[0]
    assert (top["function"], top["file"], top["line"], top["source"]) == (
        "share",
        "divides.c",
        5,
        "return x / divisor + 1;",
    )
    division = 9 + 13 - 3  # bits of the operands: what costs.h says of an unsigned division
    assert 100 * division < top["instructions"] < 100 * (division + 8)


def test_more_work_shows_at_its_line(divides):
    with DpuSet(nr_dpus=1, binary=str(divides)) as dpus:
        few, many = (counted(dpus, n) for n in (10, 20))
    assert many == 2 * few


def counted(dpus: DpuSet, n: int) -> int:
    dpus.copy("n", bytearray(np.uint32(n).tobytes()))
    lines = profile(dpus)
    return int(lines.loc[lines["function"] == "share", "instructions"].sum())


def test_waiting_counts_for_the_line_that_waits():
    alone, crowded = (
        profile(compile_kernel(SUITE / "mutexes.c", nr_tasklets=tasklets)) for tasklets in (1, 16)
    )
    tries = [lines.loc[lines["file"] == "mutex.h", "share"].max() for lines in (alone, crowded)]
    assert tries[1] > 5 * tries[0]


def test_a_fault_and_a_wrong_dpu_are_one_sentence(tmp_path, divides):
    source = tmp_path / "zero.c"
    source.write_text(DIVIDES.replace("divisor = 7", "divisor = 0").replace("uint32_t n", "uint32_t n = 1"))
    with pytest.raises(SwiftRLError, match="division by zero"):
        profile(compile_kernel(source))
    with DpuSet(nr_dpus=1) as dpus, pytest.raises(SwiftRLError, match="no program has been loaded"):
        profile(dpus)
    with (
        DpuSet(nr_dpus=1, binary=str(divides)) as dpus,
        pytest.raises(SwiftRLError, match="no DPU 1 in a set of 1"),
    ):
        profile(dpus, dpu=1)


def test_the_summary_is_the_run(divides):
    stats, _ = profile_run(divides)
    numbers = summary(stats, clock_hz=350e6)
    assert numbers["instructions"] == stats.instructions.sum()
    assert numbers["pipeline_utilisation"] == pytest.approx(1 / 11, rel=0.01)
    assert numbers["dma_bytes"] == 0
    assert numbers["kernel_ms"] == pytest.approx(stats.cycles / 350e3)


def test_the_bar_chart_holds_every_instruction():
    lines = profile(compile_kernel(SUITE / "sort.c"))
    figure = figures.fig_lines(lines, top=5)
    (axes,) = figure.axes
    assert len(axes.patches) == 6
    assert sum(bar.get_width() for bar in axes.patches) == lines["instructions"].sum()


def test_the_notebook_keeps_its_contract():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) <= 12
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    tagged = [cell for cell in code if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1
    assert tagged[0]["source"][0].startswith('size: str = "smoke"')


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    command = [sys.executable, "-m", "papermill", str(NOTEBOOK), str(tmp_path / "done.ipynb"), "-p", "output"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert all((tmp_path / name).stat().st_size > 0 for name in manifest["files"])
