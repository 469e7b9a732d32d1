"""The simulator's instruction counts against real DPU code, counted on the vendor's functional simulator.

The measurements lie beside a checkout and are not part of it. `python -m pytest -s tests/test_dpusim_calibration.py`
prints the table.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from swiftrl_core.dpusim.machine import Machine, run_machines
from swiftrl_core.dpusim.program.compile import compile_kernel
from swiftrl_core.dpusim.program.elf import load_program

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "calibration"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the measurements of real DPU code are not in {FOLDER}"
)


@dataclass(frozen=True)
class Row:
    """One kernel of the calibration suite, run in one mode."""

    name: str
    opt: str
    mode: str
    learning: bool
    measured: int
    counted: int
    right: bool

    @property
    def error(self) -> float:
        return self.counted / self.measured - 1

    def __str__(self) -> str:
        return f"{self.name:44} {self.opt} {self.mode:6}{self.measured:9} {self.counted:9} {100 * self.error:+7.2f} %"


def run(entry: dict, elf: Path, mode: str) -> Row:
    machine = Machine(load_program(elf))
    run_machines([machine], mode=mode)
    assert machine.fault is None, f"{entry['kernel']}: {machine.fault}"
    return Row(
        name=" ".join([entry["kernel"], *entry["defines"]]),
        opt=entry["opt"],
        mode=mode,
        learning=entry["learning_loop"],
        measured=entry["instructions"],
        counted=int(machine.symbol("instructions", np.uint64)[0]),
        right=int(machine.symbol("checksum", np.uint32)[0]) == entry["checksum"],
    )


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    entries = json.loads((FOLDER / "counts.json").read_text())["rows"]

    def build(entry: dict) -> Path:
        defines = dict(define.split("=") for define in entry["defines"])
        source, tasklets = FOLDER / entry["file"], entry["nr_tasklets"]
        return compile_kernel(source, defines, nr_tasklets=tasklets, opt=entry["opt"])

    with ThreadPoolExecutor(2) as pool:
        elves = list(pool.map(build, entries))
    done = []
    for entry, elf in zip(entries, elves, strict=True):
        modes = ("fast", "exact") if entry["nr_tasklets"] > 1 else ("fast",)
        done += [run(entry, elf, mode) for mode in modes]
    print("\nkernel, level, mode, DPU instructions measured and counted, error", *done, sep="\n")
    return done


def errors(rows: list[Row], learning: bool, opt: str = "-O2", mode: str = "fast") -> np.ndarray:
    chosen = [row.error for row in rows if (row.learning, row.opt, row.mode) == (learning, opt, mode)]
    found = 100 * np.array(chosen)
    print(f"{'learning' if learning else 'other'} {opt} {mode}: {len(found)} rows, mean |error| "
          f"{np.abs(found).mean():.2f} %, bias {found.mean():+.2f} %, worst {np.abs(found).max():.2f} %")  # fmt: skip
    return found


def test_every_kernel_computes_what_a_dpu_computes(rows):
    assert [row.name for row in rows if not row.right] == []


def test_learning_loops_take_the_instructions_of_a_dpu(rows):
    found = errors(rows, learning=True)
    assert len(found) >= 20
    assert np.abs(found).mean() <= 2.5
    assert np.abs(found).max() <= 8


def test_other_kernels_take_about_the_instructions_of_a_dpu(rows):
    found = errors(rows, learning=False)
    assert len(found) >= 40
    assert np.abs(found).mean() <= 5


@pytest.mark.parametrize(("opt", "mean"), [("-O3", 2.5), ("-Os", 5.0)])
def test_learning_loops_at_other_levels(rows, opt, mean):
    assert np.abs(errors(rows, learning=True, opt=opt)).mean() <= mean


def test_the_two_runs_count_alike(rows):
    counted = {(row.name, row.mode): row.counted for row in rows}
    for (name, mode), exact in counted.items():
        if mode == "exact":
            assert counted[name, "fast"] == pytest.approx(exact, rel=0.03), name
