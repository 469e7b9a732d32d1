"""Sizes, schedules, recipes and grids that several experiments use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from swiftrl_core.sweeps.grid import Grid

PAPER_CORES = (125, 250, 500, 1000, 2000)
PAPER_SCHEDULE = MappingProxyType({"episodes": 2000, "tau": 50})
"""Passes over the data, in all and between synchronisations, in the authors' code."""
PAPER_SEEDS = tuple(range(10))
QUICK_SEEDS = tuple(range(3))
SMOKE_SEEDS = (0, 1)
SMOKE_ROWS = MappingProxyType({"frozenlake": 4_000, "taxi": 8_000})
QUICK_ROWS = MappingProxyType({"frozenlake": 200_000, "taxi": 500_000})
PAPER_ROWS = MappingProxyType({"frozenlake": 1_000_000, "taxi": 5_000_000})
"""Transitions of each environment; the last are the paper's."""
TIMED_ROWS = MappingProxyType({"frozenlake": 1_000_000, "taxi": 1_000_000})
TIMED_SCHEDULE = MappingProxyType({"episodes": 100, "tau": 50})
"""For `quick` experiments about time: two of the paper's rounds on FrozenLake, and on a fifth of its Taxi data."""
PAPER_CHUNK = MappingProxyType({"frozenlake": 500, "taxi": 2_500})
"""Transitions of one of 2,000 DPUs, of the paper's 1,000,000 and 5,000,000."""

RECORD_BYTES = 8
"""Bytes of a transition, which is sent to a core once."""

FORMATS = ("FP32", "INT32")
"""Number formats of the paper."""
LEARNER = ("algorithm", "sampling", "number_format")
"""Columns that distinguish the paper's twelve learners."""
LEARNERS = MappingProxyType(
    {"algorithm": ("q_learning", "sarsa"), "sampling": ("SEQ", "STR", "RAN"), "number_format": FORMATS}
)
"""The paper's twelve learners."""
EARLY_EXIT = MappingProxyType({"early_exit": True})
"""Skip episodes that cannot change a bit; the rows report nominal and executed updates."""
SAMPLED = MappingProxyType({"simulated_dpus": 8})
"""DPUs to simulate; the engine trains all of them, and both must agree in every bit."""

VR_COUNT = MappingProxyType({"update": "vr", "aggregation": "count", "sampling": "REV", "tau": 2})
SAFE = MappingProxyType({**VR_COUNT, "alpha_schedule": "rescaled_linear"})
"""The recommended recipe: it has no alpha to choose, and has converged on every number of cores so far."""
FAST = MappingProxyType({**VR_COUNT, "alpha": 1.0})
"""Cheaper on a DPU, which need not divide, and as few or fewer updates on many cores; diverges on a single core."""
TASKLETS = MappingProxyType(
    {"update": "vr", "aggregation": "count", "bootstrap": "frozen", "tau": 5, "alpha": 1.0}
)
"""`FAST` for tasklets that share a chunk: it bootstraps from the start of a pass, so values need passes to spread."""


def by_environment(transitions: Mapping[str, int], **grid: Any) -> tuple[Grid, ...]:
    """Return a grid for each environment, with its own number of transitions."""
    return tuple({"environment": name, "transitions": rows} | grid for name, rows in transitions.items())


def solved(transitions: Mapping[str, int], **grid: Any) -> tuple[Grid, ...]:
    """Return grids of the exact solution of the same data, counted and solved on the host."""
    return by_environment(transitions, cores=1, backend="exact", **grid)
