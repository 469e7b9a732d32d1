"""The simulator against numbers measured by others: `swiftrl validate`, `make validate`.

Sections: arithmetic, saturation, bandwidth and transfers against PrIM; loops against a second server; suite against the
project's own golden counts; calibration and kernels where their measurements are found next to the project.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from swiftrl_core.dpusim.validation import counts, hardware, loops, throughput, transfers
from swiftrl_core.dpusim.validation.report import Bar, Section
from swiftrl_core.util.errors import SwiftRLError

__all__ = ["SECTIONS", "Bar", "Section", "measurements_folder", "validate"]

SECTIONS = ("arithmetic", "saturation", "bandwidth", "transfers", "loops", "suite", "calibration", "kernels")
CALIBRATION = "calibration"
HARDWARE_ROWS = "data/prim_hardware_rows.json"


def measurements_folder() -> Path:
    """Return the folder next to a clone of the project for measurements that are not part of it."""
    return Path(__file__).resolve().parents[4] / "shared"


def validate(
    only: Iterable[str] | None = None,
    calibration: str | Path | None = None,
    hardware_rows: str | Path | None = None,
    on_section: Callable[[Section], None] | None = None,
) -> tuple[list[Section], dict[str, str]]:
    """Run the comparisons.

    Parameters
    ----------
    only : iterable of str, optional
        Sections to run; default all.
    calibration : path, optional
        Folder of the calibration suite; default `calibration` in the measurements' folder, where it is present.
    hardware_rows : path, optional
        File of the hardware rows; default likewise.
    on_section : callable, optional
        Called with each section as it is done.

    Returns
    -------
    list of Section
        Those that ran, in the order of `SECTIONS`.
    dict of str to str
        Those left out because their measurements are absent, and why.

    Raises
    ------
    SwiftRLError
        If a section is unknown, or a path that was named holds no measurements.
    """
    chosen = SECTIONS if only is None else tuple(only)
    for name in chosen:
        if name not in SECTIONS:
            raise SwiftRLError(f"no section is called {name!r}; choose from {', '.join(SECTIONS)}")
    work, absent = _plan(calibration, hardware_rows)
    sections = []
    for name in SECTIONS:
        if name in chosen and name in work:
            sections.append(work[name]())
            if on_section is not None:
                on_section(sections[-1])
    return sections, {name: reason for name, reason in absent.items() if name in chosen}


def _plan(
    calibration: str | Path | None, hardware_rows: str | Path | None
) -> tuple[dict[str, Callable[[], Section]], dict[str, str]]:
    work: dict[str, Callable[[], Section]] = {
        "arithmetic": throughput.arithmetic,
        "saturation": throughput.saturation,
        "bandwidth": throughput.bandwidth,
        "transfers": transfers.transfers,
        "loops": loops.loops,
        "suite": counts.own_suite,
    }
    absent = {}
    suite = Path(calibration or measurements_folder() / CALIBRATION)
    rows = Path(hardware_rows or measurements_folder() / HARDWARE_ROWS)
    if calibration is not None or suite.is_dir():
        work["calibration"] = lambda: counts.calibration(suite)
    else:
        absent["calibration"] = (
            "the counts of the vendor's tools are not here; name their folder with --calibration"
        )
    if hardware_rows is not None or rows.is_file():
        work["kernels"] = lambda: hardware.whole_kernels(rows)
    else:
        absent["kernels"] = "the hardware rows are not here; name their file with --hardware-rows"
    return work, absent
