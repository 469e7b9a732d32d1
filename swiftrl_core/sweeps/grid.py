"""Grids: all combinations of the values of some settings."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from swiftrl_core.sweeps.job import Job
from swiftrl_core.sweeps.run import Run
from swiftrl_core.util.errors import SwiftRLError

Grid = Mapping[str, Any]
"""Settings of a run; a tuple or list is an axis with that many values, anything else is the same for all runs."""


def combine(grid: Grid, of: type[Job] = Run) -> list[Job]:
    """Return the runs of all combinations of a grid's values; the last axis changes fastest.

    Combinations that come to the same run, such as several epsilon in Q-learning, give it once.

    Raises
    ------
    SwiftRLError
        If a setting is unknown, an axis has no values, or a combination is not valid.
    """
    known = [entry.name for entry in fields(of)]
    axes = {}
    for name, value in grid.items():
        if name not in known:
            raise SwiftRLError(f"{name} is not a setting of a {of.__name__}: choose from {', '.join(known)}")
        axes[name] = value if isinstance(value, tuple | list) else (value,)
        if not axes[name]:
            raise SwiftRLError(f"{name} has no values, so the grid is empty: give at least one")
    return unique(of(**dict(zip(axes, values, strict=True))) for values in itertools.product(*axes.values()))


def unique(runs: Iterable[Job]) -> list[Job]:
    """Return the runs in their order, each once."""
    return list({run.config_hash: run for run in runs}.values())
