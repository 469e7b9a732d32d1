"""What a run leaves behind: two tables and a manifest that says how they came about.

The manifest is written last and names the tables' checksums: a run without one was not finished.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path

import numpy as np

import swiftrl_core
from swiftrl_core.datasets import Dataset
from swiftrl_core.errors import SwiftRLError
from swiftrl_core.files import atomic_path, sha256_file
from swiftrl_core.learner import Learner
from swiftrl_core.training import Schedule, TrainingResult

SCHEMA_VERSION = 1
TABLES = ("q_table.npy", "q_table_raw.npy")
MANIFEST = "manifest.json"


def prepare_directory(directory: str | os.PathLike) -> Path:
    """Make a run's folder, before anything expensive starts, and check that it can be written.

    Raises
    ------
    SwiftRLError
        If the folder cannot be made or written to, or is a file.
    """
    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise SwiftRLError(f"{directory} is a file: name a folder for the results")
    probe = directory / ".writable"
    with atomic_path(probe):
        pass
    probe.unlink()
    return directory


def write_run(
    directory: str | os.PathLike,
    dataset: Dataset,
    learner: Learner,
    schedule: Schedule,
    backend: str,
    result: TrainingResult,
) -> dict:
    """Write `q_table.npy` (float32 values), `q_table_raw.npy` (the format's own bits) and `manifest.json`.

    Both tables have shape (states, actions). Returns the manifest.

    Raises
    ------
    SwiftRLError
        If the folder cannot be written.
    """
    directory = prepare_directory(directory)
    (directory / MANIFEST).unlink(missing_ok=True)
    for name, table in zip(TABLES, (result.q_table, result.q_raw), strict=True):
        with atomic_path(directory / name) as temporary:
            np.save(temporary, table)
    manifest = describe_run(dataset, learner, schedule, backend, result)
    manifest["files"] = {name: sha256_file(directory / name) for name in TABLES}
    with atomic_path(directory / MANIFEST) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def describe_run(
    dataset: Dataset, learner: Learner, schedule: Schedule, backend: str, result: TrainingResult
) -> dict:
    """Return what a manifest says of a run, but for the files."""
    return {
        "schema_version": SCHEMA_VERSION,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "dataset": {"transitions": len(dataset), "sha256": dataset.sha256, **dataset.metadata},
        "learner": asdict(learner),
        "schedule": asdict(schedule),
        "backend": backend,
        "evidence": str(result.breakdown.evidence),
        "seconds": {part: value for part, value in asdict(result.breakdown).items() if part != "evidence"}
        | {"total": result.breakdown.total},
        "host_averaging_evidence": "measured",
        "updates": result.updates,
        "rounds": result.rounds,
        "machine": result.machine,
        "host": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "python": platform.python_version(),
        },
        "versions": _versions(),
        "git_commit": _git_commit(),
    }


def _versions() -> dict[str, str]:
    packages = ("numpy", "gymnasium", "ziglang")
    return {"swiftrl": swiftrl_core.__version__} | {
        name: importlib.metadata.version(name) for name in packages
    }


def _git_commit() -> str | None:
    """Return the commit of the source tree, or None where the package was installed from elsewhere."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None
