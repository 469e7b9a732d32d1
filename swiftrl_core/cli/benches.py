"""The benchmarks of a clone, which the installed package does not have."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from swiftrl_core.util.errors import SwiftRLError

NAMES = ("simulator", "engine", "agents", "paper-scale", "sweeps")
"""Run by `swiftrl bench`."""
ON_REQUEST = ("gpu", "fewer-updates")
"""Run by `--only`: they need a GPU, or take hours."""
ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> ModuleType:
    """Return the module of a benchmark, which has `rows()` and `table(rows)`.

    Raises
    ------
    SwiftRLError
        If the package is not in a clone of its repository.
    """
    if not (ROOT / "benchmarks" / "engine.py").is_file():
        raise SwiftRLError(
            "the benchmarks are not part of the installed package: run `swiftrl bench` from a clone"
        )
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module(f"benchmarks.{name.replace('-', '_')}")
