"""Whole kernels of our own against milliseconds measured on an UPMEM server.

The measurements are the hardware rows published with uPIMulator (Hyun et al., HPCA 2024): PrIM's kernels on 1 to 64
DPUs with 16 tasklets. Ours are written in their manner (same types, block sizes, division of work), not copied.

Nothing is tuned on the rows that judge:

* launch latency: the median intercept of straight lines through the rows of five kernels that are not judged
  (`LAUNCH_KERNELS`), each line at one number of DPUs; no simulation enters. It is `launch_s` of the profile;
* stated interval: from the rows of the judged kernels with 4 DPUs;
* judged: the rows with 1, 16 and 64 DPUs that take at least 2 ms, ten launches. In shorter ones the launch, known to a
  factor of 2, decides; they are shown.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from swiftrl_core.dpusim.timing import HARDWARE_PROFILES, STATED, launch_seconds
from swiftrl_core.dpusim.validation.harness import KERNELS, Finished, run_kernel
from swiftrl_core.dpusim.validation.report import Bar, Section, mean_error, percent_error
from swiftrl_core.util.errors import SwiftRLError

PROFILE = HARDWARE_PROFILES["upimulator-server"]
TASKLETS = 16
CALIBRATING_DPUS = 4
JUDGED_FROM_MS = 2.0
LAUNCH_KERNELS = ("HST-L", "SCAN-RSS", "SCAN-SSA", "SEL", "UNI")


@dataclass(frozen=True)
class WholeKernel:
    """A kernel and its input for one DPU.

    Attributes
    ----------
    source : str
        File in `kernels/`.
    kind : str
        Key of the stated uncertainty.
    inputs : callable
        Units of work to (MRAM content, host variables).
    """

    source: str
    kind: str
    inputs: Callable[[int], tuple[np.ndarray, dict[str, np.generic]]]

    def run(self, units: int, mode: str = "fast") -> Finished:
        """Run on `units` rows, pixels or elements."""
        heap, variables = self.inputs(units)
        return run_kernel(KERNELS / self.source, tasklets=TASKLETS, heap=heap, variables=variables, mode=mode)


def _random(high: int, count: int, dtype: type) -> np.ndarray:
    return np.random.default_rng(0).integers(0, high, count).astype(dtype)


def _gemv(rows: int) -> tuple[np.ndarray, dict[str, np.generic]]:
    columns, block = 64, 256  # rows of 64; values below 50, as in PrIM
    content = _random(50, rows * columns + 2 * block + columns, np.uint32)
    return content, {"rows": np.uint32(rows), "columns": np.uint32(columns)}


def _histogram(pixels: int) -> tuple[np.ndarray, dict[str, np.generic]]:
    return _random(4096, pixels, np.uint32), {"pixels": np.uint32(pixels), "bins": np.uint32(256)}


def _vector_add(elements: int) -> tuple[np.ndarray, dict[str, np.generic]]:
    return _random(2**20, 2 * elements, np.int32), {"elements": np.uint32(elements)}


def _reduction(elements: int) -> tuple[np.ndarray, dict[str, np.generic]]:
    return _random(2**40, elements, np.int64), {"elements": np.uint32(elements)}


WHOLE_KERNELS: Mapping[str, WholeKernel] = MappingProxyType(
    {
        "GEMV": WholeKernel("gemv.c", "compute", _gemv),
        "HST-S": WholeKernel("histogram.c", "compute", _histogram),
        "VA": WholeKernel("vector_add.c", "streaming", _vector_add),
        "RED": WholeKernel("reduction.c", "streaming", _reduction),
    }
)
"""By the benchmark's name in the rows."""


def read_rows(path: Path) -> pd.DataFrame:
    """Read the hardware rows: benchmark, dpus, units (of one DPU), hardware_ms, upimulator_ms.

    Raises
    ------
    SwiftRLError
        If the file cannot be read or lacks a column.
    """
    try:
        rows = pd.DataFrame(json.loads(path.read_text())["rows"])
        return pd.DataFrame(
            {
                "benchmark": rows["benchmark"],
                "dpus": rows["num_dpus"],
                "units": rows["data_prep_param"] // rows["num_dpus"],
                "hardware_ms": rows["hw_kernel"].astype(float),
                "upimulator_ms": rows["sim_kernel"].astype(float),
            }
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SwiftRLError(
            f"{path} does not hold hardware rows ({error}); name prim_hardware_rows.json"
        ) from error


def launch_latency_ms(rows: pd.DataFrame) -> float:
    """Return the launch latency that the rows of `LAUNCH_KERNELS` imply, in milliseconds.

    A line hardware_ms = latency + slope * units through the rows of one kernel at one number of DPUs, relative errors
    squared least; the median of the latencies.
    """
    latencies = []
    for (benchmark, _), group in rows.groupby(["benchmark", "dpus"]):
        if benchmark in LAUNCH_KERNELS and len(group) >= 3:
            latencies.append(_line(group)[0])
    if not latencies:
        raise SwiftRLError(
            f"no rows to fit the launch latency to; it takes 3 sizes of one of {LAUNCH_KERNELS}"
        )
    return float(np.median(latencies))


def _line(group: pd.DataFrame) -> np.ndarray:
    """Return intercept (ms) and slope (ms a unit) of the best line in relative terms."""
    time = group["hardware_ms"].to_numpy()
    terms = np.stack([np.ones(len(group)), group["units"].to_numpy()], axis=1) / time[:, None]
    return np.linalg.lstsq(terms, np.ones(len(group)), rcond=None)[0]


def predict(rows: pd.DataFrame) -> pd.DataFrame:
    """Add simulated_ms, error_percent, upimulator_error_percent, kind and role to the rows of the whole kernels."""
    rows = rows[rows["benchmark"].isin(WHOLE_KERNELS)].copy()
    cycles = {
        (name, units): WHOLE_KERNELS[name].run(units).stats.cycles
        for name, units in sorted(set(zip(rows["benchmark"], rows["units"], strict=True)))
    }
    rows["simulated_ms"] = [
        1e3 * launch_seconds(PROFILE, cycles[name, units])
        for name, units in zip(rows["benchmark"], rows["units"], strict=True)
    ]
    rows["error_percent"] = percent_error(rows["simulated_ms"], rows["hardware_ms"])
    rows["upimulator_error_percent"] = percent_error(rows["upimulator_ms"], rows["hardware_ms"])
    rows["kind"] = [WHOLE_KERNELS[name].kind for name in rows["benchmark"]]
    calibrating, long = rows["dpus"] == CALIBRATING_DPUS, rows["hardware_ms"] >= JUDGED_FROM_MS
    rows["role"] = np.select([calibrating, long], ["interval", "judged"], "short")
    return rows.sort_values(["benchmark", "dpus", "units"], ignore_index=True)


def whole_kernels(path: Path) -> Section:
    """Compare the whole kernels with the hardware rows of a file, one line a kernel."""
    rows = read_rows(path)
    predicted = predict(rows)
    judged = predicted[predicted["role"] == "judged"]
    table = pd.DataFrame([_summary(name, predicted, rows) for name in WHOLE_KERNELS])
    latency = launch_latency_ms(rows)
    outside = [
        row for row in judged.itertuples() if not STATED[row.kind].covers(row.hardware_ms / row.simulated_ms)
    ]
    return Section(
        "kernels",
        f"Whole kernels, {TASKLETS} tasklets, against an UPMEM server (profile {PROFILE.name})",
        table,
        (
            Bar(
                "mean over the kernels' judged rows",
                table["mean_error_percent"].mean(),
                15.0,
                detail=_per_kernel(table),
            ),
            Bar(
                "judged rows outside the stated interval",
                100 * len(outside) / max(1, len(judged)),
                5.0,
                detail=f"{len(outside)} of {len(judged)}",
            ),
            Bar(
                "launch latency of the profile against the rows of other kernels",
                abs(percent_error(1e3 * PROFILE.launch_s, latency)),
                15.0,
                detail=f"{latency:.2f} ms fitted",
            ),
        ),
        (
            f"Judged: rows with 1, 16 and 64 DPUs from {JUDGED_FROM_MS:g} ms on. The stated interval comes from rows "
            f"with {CALIBRATING_DPUS} DPUs, the launch latency from {', '.join(LAUNCH_KERNELS)}.",
            *(f"Stated for kernels that {STATED[kind]}" for kind in ("compute", "streaming")),
            "slope: cycles per unit of work, from lines through the rows, which leave the launch latency out.",
        ),
    )


def _per_kernel(table: pd.DataFrame) -> str:
    return ", ".join(f"{row.kernel} {row.mean_error_percent:.1f}" for row in table.itertuples())


def _summary(name: str, predicted: pd.DataFrame, rows: pd.DataFrame) -> dict[str, object]:
    mine = predicted[predicted["benchmark"] == name]
    judged = mine[mine["role"] == "judged"]
    long = rows[(rows["benchmark"] == name) & (rows["dpus"] == 16)]
    simulated = mine[mine["dpus"] == 16].assign(hardware_ms=mine["simulated_ms"])
    cycles_per_ms = PROFILE.clock_hz / 1e3
    slope, hardware_slope = (_line(group)[1] * cycles_per_ms for group in (simulated, long))
    return {
        "kernel": name,
        "kind": mine["kind"].iloc[0],
        "rows_judged": len(judged),
        "mean_error_percent": mean_error(judged["error_percent"]),
        "bias_percent": judged["error_percent"].mean(),
        "worst_percent": max(judged["error_percent"], key=abs, default=np.nan),
        "all_rows_percent": mean_error(mine["error_percent"]),
        "slope": slope,
        "hardware_slope": hardware_slope,
        "slope_error_percent": percent_error(slope, hardware_slope),
        "upimulator_percent": mean_error(judged["upimulator_error_percent"]),
    }
