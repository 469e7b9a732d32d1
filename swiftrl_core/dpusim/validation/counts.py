"""Instruction counts against the vendor's tools, where their counts are available, and against our own golden counts.

The calibration suite (35 kernels, 128 counts of real DPU code) is not part of this project; where its folder is, the
rows compiled at -O2 are run and judged. The project's own suite needs nothing: its golden counts are what this
simulator gave when they were written, so they show that something changed, not that it is right.
"""

import json
import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from swiftrl_core.dpusim.timing import MODEL_VERSION
from swiftrl_core.dpusim.validation.harness import run_kernel
from swiftrl_core.dpusim.validation.report import Bar, Section, mean_error, percent_error
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import atomic_path
from swiftrl_core.util.toolchain import available_threads

SUITE = Path(__file__).parent / "suite"
GOLDEN = Path(__file__).parent / "golden.json"
GOLDEN_COLUMNS = ("instructions", "cycles", "dma_bytes", "checksum")


@dataclass(frozen=True)
class Case:
    """One kernel of the suite as it is built."""

    kernel: str
    defines: dict[str, object] = field(default_factory=dict)
    tasklets: int = 1

    @property
    def name(self) -> str:
        """Kernel, definitions, tasklets: a line of text."""
        values = [name if value is None else f"{name}={value}" for name, value in self.defines.items()]
        return " ".join([self.kernel, *values, *([f"x{self.tasklets}"] if self.tasklets > 1 else [])])

    def run(self, mode: str = "fast") -> dict[str, int]:
        """Return the counts of one run, `GOLDEN_COLUMNS`."""
        source = SUITE / f"{self.kernel}.c"
        done = run_kernel(source, defines=self.defines, tasklets=self.tasklets, mode=mode)
        moved = done.stats.dma_bytes_read.sum() + done.stats.dma_bytes_written.sum()
        return {
            "instructions": done.instructions,
            "cycles": int(done.stats.cycles),
            "dma_bytes": int(moved),
            "checksum": done.value("checksum"),
        }


def _signed(operator: str) -> dict[str, object]:
    return {"TYPE": "int32_t", "OPERATOR": operator}


CASES = (
    Case("value_iteration", {"FIXED": 10000}),
    Case("value_iteration", {"FIXED": 8192}),
    Case("value_iteration"),
    Case("walk"),
    Case("multiply", {"TYPE": "uint32_t"}),
    Case("multiply", {"TYPE": "uint8_t"}),
    Case("multiply", {"TYPE": "int16_t"}),
    Case("multiply", {"TYPE": "uint32_t", "FACTOR": 10000}),
    Case("multiply", {"TYPE": "uint32_t", "FACTOR": 1664525}),
    Case("divide", _signed("/")),
    Case("divide", _signed("%")),
    Case("divide", {"TYPE": "uint32_t", "OPERATOR": "/"}),
    Case("reals", {"REAL": "float"}),
    Case("reals", {"REAL": "double"}),
    Case("select"),
    Case("wide"),
    Case("sort"),
    Case("bytes"),
    Case("stream"),
    *(Case("barriers", tasklets=t) for t in (2, 8, 16)),
    *(Case("mutexes", tasklets=t) for t in (4, 16)),
    Case("mutexes", {"POOL": 8}, 16),
    Case("pipeline", tasklets=6),
)
"""The project's own suite."""


def own_suite(golden: Path = GOLDEN) -> Section:
    """Compare the project's suite with its golden counts; every number must be the same."""
    expected = read_golden(golden)
    results = _in_parallel(Case.run, CASES)
    rows = []
    for case, result in zip(CASES, results, strict=True):
        before = expected["rows"].get(case.name, {})
        changed = [name for name in GOLDEN_COLUMNS if result[name] != before.get(name)]
        rows.append(
            {
                "kernel": case.name,
                "instructions": result["instructions"],
                "golden": before.get("instructions", math.nan),
                "cycles": result["cycles"],
                "dma_bytes": result["dma_bytes"],
                "changed": ", ".join(changed),
            }
        )
    table = pd.DataFrame(rows)
    changed = table.loc[table["changed"] != "", "kernel"]
    return Section(
        "suite",
        f"The project's own suite against golden counts (model version {expected['model_version']})",
        table,
        (Bar("kernels whose counts changed", len(changed), 0, "kernels", ", ".join(changed)),),
        ("If intended, raise MODEL_VERSION in timing/version.py, then `swiftrl validate --write-golden`.",),
    )


def read_golden(path: Path = GOLDEN) -> dict:
    """Return the golden counts: model_version, and rows by the name of the case.

    Raises
    ------
    SwiftRLError
        If the file is absent or broken.
    """
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SwiftRLError(
            f"cannot read {path.name} ({error}); make it with `swiftrl validate --write-golden`"
        ) from error


def write_golden(path: Path = GOLDEN) -> None:
    """Write what the suite takes now as the golden counts."""
    results = _in_parallel(Case.run, CASES)
    rows = {case.name: result for case, result in zip(CASES, results, strict=True)}
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps({"model_version": MODEL_VERSION, "rows": rows}, indent=1) + "\n")


def calibration(folder: Path, opt: str = "-O2") -> Section:
    """Compare with the vendor's counts, and demand the checksums.

    Parameters
    ----------
    folder : Path
        Holds counts.json and kernels/.
    opt : str
        Rows to run: -O2 (the judged ones), -O3 or -Os.
    """
    try:
        counts = json.loads((folder / "counts.json").read_text())["rows"]
    except (OSError, ValueError, KeyError) as error:
        raise SwiftRLError(
            f"{folder} holds no calibration suite ({error}); name a folder with counts.json"
        ) from error
    rows = [row for row in counts if row["opt"] == opt]
    results = _in_parallel(lambda row: _calibration_row(folder, row), rows)
    table = pd.DataFrame(results)
    return Section(
        "calibration", f"Real DPU instruction counts, {opt} ({len(table)} rows)", table, _bars(table)
    )


def _calibration_row(folder: Path, row: dict) -> dict[str, object]:
    defines = dict(define.split("=", 1) if "=" in define else (define, None) for define in row["defines"])
    defines.pop("NR_TASKLETS", None)
    done = run_kernel(folder / row["file"], defines=defines, tasklets=row["nr_tasklets"], opt=row["opt"])
    predicted = done.value("instructions", np.uint64)
    return {
        "kernel": " ".join([row["kernel"], *row["defines"]]),
        "learning_loop": row["learning_loop"],
        "predicted": predicted,
        "published": row["instructions"],
        "error_percent": percent_error(predicted, row["instructions"]),
        "checksum_holds": done.value("checksum") == row["checksum"],
    }


def _bars(table: pd.DataFrame) -> tuple[Bar, ...]:
    learning, others = table[table["learning_loop"]], table[~table["learning_loop"]]
    return (
        Bar("mean over learning loops", mean_error(learning["error_percent"]), 2.5),
        Bar("worst learning loop", learning["error_percent"].abs().max(), 8.0, detail=_worst(learning)),
        Bar(
            "mean over the others",
            mean_error(others["error_percent"]),
            5.0,
            detail=f"worst: {_worst(others)}",
        ),
        Bar("wrong checksums", float((~table["checksum_holds"]).sum()), 0, "rows"),
    )


def _worst(table: pd.DataFrame) -> str:
    if table.empty:
        return "none"
    row = table.loc[table["error_percent"].abs().idxmax()]
    return f"{row['kernel']} {row['error_percent']:+.1f} %"


def _in_parallel(work, items: Iterable) -> list:
    """Map in threads: most of the time goes to the compiler's processes."""
    with ThreadPoolExecutor(available_threads()) as pool:
        return list(pool.map(work, items))
