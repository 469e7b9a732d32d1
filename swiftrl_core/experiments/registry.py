"""The registry of experiments: one module each, collected here and nowhere else."""

import os
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from swiftrl_core.experiments import (
    aggregation,
    backends,
    datasets,
    kernel_study,
    learning_quality,
    multi_agent,
    precision,
    quickstart,
    roofline,
    simulator,
    strong_scaling,
    synchronisation,
    tasklets,
    time_to_optimum,
)
from swiftrl_core.experiments.experiment import SIZES, Experiment
from swiftrl_core.sweeps.executors import Executor
from swiftrl_core.sweeps.job import Job
from swiftrl_core.util.errors import SwiftRLError

__all__ = [
    "EXPERIMENTS",
    "SIZES",
    "Experiment",
    "default_directory",
    "draw",
    "expand",
    "find",
    "run_experiment",
    "with_parts",
]

_MODULES = (
    *(quickstart, datasets, learning_quality, precision, strong_scaling, backends, synchronisation),
    *(multi_agent, roofline, simulator, aggregation, kernel_study, tasklets, time_to_optimum),
)
_ALL = tuple(module.EXPERIMENT for module in _MODULES)
EXPERIMENTS = MappingProxyType({experiment.id: experiment for experiment in _ALL if experiment.sizes})
"""Experiments with runs, by id."""
NOTEBOOKS_ALONE = MappingProxyType({experiment.id: experiment for experiment in _ALL if not experiment.sizes})
"""Experiments without runs, by id: their notebooks make the tables that they draw."""


def find(experiment: str | Experiment) -> Experiment:
    """Return the experiment of an id, or of a prefix that fits no other, such as `04`; parts only by their whole id.

    Raises
    ------
    SwiftRLError
        If none or several fit.
    """
    if isinstance(experiment, Experiment):
        return experiment
    whole = {name: found for name, found in EXPERIMENTS.items() if found.part_of is None}
    fitting = [found for name, found in whole.items() if name.startswith(experiment)]
    exact = EXPERIMENTS.get(experiment)
    if exact is None and len(fitting) != 1:
        raise SwiftRLError(
            f"experiment {experiment!r}: {_advice(experiment)}choose one of {', '.join(EXPERIMENTS)}"
        )
    return exact or fitting[0]


def _advice(name: str) -> str:
    """Return a clause on a notebook that has no runs, or nothing."""
    alone = [notebook for notebook in NOTEBOOKS_ALONE if name and notebook.startswith(name)]
    if len(alone) != 1:
        return ""
    return f"{alone[0]} is a notebook only, run it with `swiftrl experiment notebook {alone[0][:2]}`, or "


def with_parts(experiment: str | Experiment) -> list[Experiment]:
    """Return an experiment and its parts."""
    experiment = find(experiment)
    return [experiment, *(entry for entry in EXPERIMENTS.values() if entry.part_of == experiment.id)]


def expand(experiment: str | Experiment, size: str) -> list[Job]:
    """Return an experiment's runs of a size; see `Experiment.expand`."""
    return find(experiment).expand(size)


def run_experiment(
    experiment: str | Experiment,
    size: str = "smoke",
    directory: str | os.PathLike | None = None,
    executor: Executor | None = None,
) -> pd.DataFrame:
    """Return an experiment's rows of a size; see `Experiment.run`."""
    return find(experiment).run(size, directory, executor)


def draw(experiment: str | Experiment, rows: pd.DataFrame, directory: str | os.PathLike) -> list[Path]:
    """Draw an experiment's figures; see `Experiment.draw`."""
    return find(experiment).draw(rows, directory)


def default_directory(experiment: str | Experiment, size: str, root: str | os.PathLike | None = None) -> Path:
    """Return the folder of an experiment's rows; see `Experiment.folder`."""
    return find(experiment).folder(size, root)
