"""Manifests of a single training and of a population of agents, written after the tables.

A manifest holds settings, times, origin and the checksums of the tables; without it, nothing was finished.
"""

import functools
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import swiftrl_core
from swiftrl_core.data import Dataset
from swiftrl_core.learner import Learner
from swiftrl_core.sweeps.results import ROW_SCHEMA_VERSION, now
from swiftrl_core.training.agents import ALIKE, MultiAgentResult
from swiftrl_core.training.loop import Schedule, TrainingResult
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import atomic_path, sha256_file

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
    if not os.fspath(directory):
        raise SwiftRLError("the name of the results folder is empty; give it one")
    directory = Path(directory)
    try:
        if directory.exists() and not directory.is_dir():
            raise SwiftRLError(f"{directory} is a file: name a folder for the results")
        for name in (*TABLES, MANIFEST):
            if (directory / name).is_dir():
                raise SwiftRLError(f"{directory / name} is a folder: name another folder for the results")
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError as error:
        raise SwiftRLError(
            f"cannot write to {directory}: {error.strerror or error}; choose a folder you may write to"
        ) from error


def write_run(
    directory: str | os.PathLike,
    dataset: Dataset,
    learner: Learner,
    schedule: Schedule,
    backend: str,
    result: TrainingResult,
) -> dict:
    """Write `q_table.npy` (float32 values), `q_table_raw.npy` (the format's own bits) and `manifest.json`.

    Both tables have shape (n_states, n_actions).

    Parameters
    ----------
    directory : path
        Made if it does not exist.
    dataset : Dataset
    learner : Learner
    schedule : Schedule
    backend : str
        A name of `backend.BACKENDS`.
    result : TrainingResult

    Returns
    -------
    dict
        The manifest. Its checksums are those of the bytes that this run wrote, so if two runs write to one folder at
        once, a table of the other one does not match.

    Raises
    ------
    SwiftRLError
        If the folder cannot be written.
    """
    directory = prepare_directory(directory)
    manifest = describe_run(dataset, learner, schedule, backend, result)
    (directory / MANIFEST).unlink(missing_ok=True)
    manifest["files"] = {}
    for name, table in zip(TABLES, (result.q_table, result.q_raw), strict=True):
        content = io.BytesIO()
        np.save(content, table)
        manifest["files"][name] = hashlib.sha256(content.getvalue()).hexdigest()
        with atomic_path(directory / name) as temporary:
            temporary.write_bytes(content.getvalue())
    with atomic_path(directory / MANIFEST) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def write_agents(result: MultiAgentResult, dataset: Dataset, directory: str | os.PathLike) -> list[Path]:
    """Write `tables.npy` (the format's own bits) and `manifest.json`.

    Parameters
    ----------
    result : MultiAgentResult
        Its tables have shape (agents, n_states, n_actions).
    dataset : Dataset
    directory : path
        Made if it does not exist.

    Returns
    -------
    list of Path
        The two files.

    Raises
    ------
    SwiftRLError
        If the folder cannot be written.
    """
    directory = prepare_directory(directory)
    tables, manifest = directory / "tables.npy", directory / MANIFEST
    manifest.unlink(missing_ok=True)
    with atomic_path(tables) as temporary:
        np.save(temporary, result.tables)
    seconds = {part: value for part, value in asdict(result.breakdown).items() if part != "evidence"}
    own = {name: [getattr(each, name) for each in result.learners] for name in ("alpha", "gamma", "epsilon")}
    text = {
        **provenance(),
        "dataset": {"transitions": len(dataset), "sha256": dataset.sha256, **dataset.metadata},
        "learners": {name: getattr(result.learners[0], name) for name in ALIKE}
        | own
        | {"units": result.learners[0].scale},
        **result.settings,
        "agents": len(result.tables),
        "updates": result.updates,
        "evidence": str(result.breakdown.evidence),
        "seconds": seconds,
        "machine": result.machine,
        "files": {tables.name: sha256_file(tables)},
    }
    with atomic_path(manifest) as temporary:
        temporary.write_text(json.dumps(text, indent=2) + "\n")
    return [tables, manifest]


def describe_run(
    dataset: Dataset, learner: Learner, schedule: Schedule, backend: str, result: TrainingResult
) -> dict:
    """Return the manifest of a run without the checksums of its files; arguments as for `write_run`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "created": now(),
        "dataset": {"transitions": len(dataset), "sha256": dataset.sha256, **dataset.metadata},
        "learner": asdict(learner) | learner.used() | {"units": learner.scale},
        "schedule": asdict(schedule),
        "backend": backend,
        "evidence": str(result.breakdown.evidence),
        "seconds": {part: value for part, value in asdict(result.breakdown).items() if part != "evidence"}
        | {"total": result.breakdown.total},
        "host_averaging_evidence": "measured",
        "updates": result.updates,
        "rounds": result.rounds,
        "round_bytes_down": result.round_bytes_down,
        "round_bytes_up": result.round_bytes_up,
        "machine": result.machine,
        "host": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "python": platform.python_version(),
        },
        "versions": _versions(),
        "git_commit": _git_commit(),
    }


def provenance() -> dict[str, Any]:
    """Return the columns of a row about its origin: time, host, commit and versions."""
    return {
        "schema_version": ROW_SCHEMA_VERSION,
        "created": now(),
        "host": f"{platform.system()} {platform.machine()}, {_processor()}",
        "git_commit": _git_commit(),
        "versions": json.dumps(_versions()),
    }


@functools.cache
def _processor() -> str:
    """Return the name of the processor, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown processor"
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "unknown processor")


@functools.cache
def _versions() -> dict[str, str]:
    packages = ("numpy", "gymnasium", "ziglang")
    return {"swiftrl": swiftrl_core.__version__} | {
        name: importlib.metadata.version(name) for name in packages
    }


@functools.cache
def _git_commit() -> str | None:
    """Return the commit of the source tree, or None if the package is not in one."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None
