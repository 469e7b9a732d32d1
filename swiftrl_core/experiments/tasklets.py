"""What tasklets buy, and what they cost: throughput of DPUs whose tasklets share a chunk, quality of what they learn.

Tasklets share a chunk where the bootstrap is frozen (`dpu_src/tasklet_learner.c`), which is another learner than the
paper's. So there are two questions, and an answer to one without the other is worth nothing. Throughput: kernel time of
whole launches of tau episodes at the chunks of 2,000 DPUs, simulated, against the paper's kernel on one tasklet; the
tables are held to the engine's as they are learned. Quality: error and return after as many updates, frozen against
current, for the paper's recipe and for those that need fewer updates (`experiments.SAFE`, `FAST`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pandas as pd

from swiftrl_core.backends.pim.tuning import KERNELS
from swiftrl_core.data import Dataset, collect
from swiftrl_core.dpusim.timing import resolve_hardware
from swiftrl_core.experiments import registry as experiments
from swiftrl_core.learner import Bootstrap, Learner
from swiftrl_core.sweeps.run import Run
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

CHUNK = MappingProxyType({"frozenlake": 500, "taxi": 2_500})
"""Transitions of one of 2,000 DPUs, of the paper's 1,000,000 and 5,000,000."""
FORMATS = ("INT32", "FP32")
TAU = 50
GOALS = MappingProxyType({"frozenlake": 8, "taxi": 4})
"""Times the throughput of the paper's kernel, in INT32."""
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "mean": {"tau": TAU, "aggregation": "mean"},
        "count": {"tau": TAU, "aggregation": "count"},
        "safe": experiments.SAFE,
        "fast": experiments.FAST,
        "tasklets": {name: value for name, value in experiments.TASKLETS.items() if name != "bootstrap"},
    }
)
"""The paper's way, count weights, the two recommended ways to learn in fewer updates, and the one for tasklets."""


@dataclass(frozen=True)
class Size:
    """How much to study.

    Attributes
    ----------
    dpus : int
        DPUs that learn.
    simulated : int
        Of them, how many the simulator runs; the slowest gives the time.
    tasklets : tuple of int
    seeds : int
        Data sets on which quality is asked for.
    rounds : mapping
        Recipe to the numbers of rounds after which quality is asked for.
    """

    dpus: int
    simulated: int
    tasklets: tuple[int, ...]
    seeds: int
    rounds: Mapping[str, tuple[int, ...]]


SIZES = MappingProxyType(
    {
        "smoke": Size(8, 2, (1, 11), 1, {"mean": (1,), "safe": (2,)}),
        "quick": Size(
            200,
            4,
            (1, 8, 11, 16),
            2,
            {
                "mean": (1, 2, 4),
                "count": (1, 2, 4),
                "safe": (1, 2, 4),
                "fast": (1, 2, 4),
                "tasklets": (1, 2, 4),
            },
        ),
        "paper": Size(
            2_000,
            8,
            (1, 2, 4, 8, 11, 12, 16, 24),
            3,
            {
                "mean": (1, 2, 4, 8),
                "count": (1, 2, 4),
                "safe": (1, 2, 4, 6, 10),
                "fast": (1, 2, 4, 6, 10),
                "tasklets": (1, 2, 3, 4, 6, 8, 10),
            },
        ),
    }
)


def throughput(profile: str) -> pd.DataFrame:
    """Simulate a launch of 50 episodes with every number of tasklets, from a table of zeros.

    Parameters
    ----------
    profile : str
        A name of `SIZES`.

    Returns
    -------
    DataFrame
        environment, number_format, bootstrap, kernel (`pim.tuning`), tasklets; cycles_per_update of the slowest DPU,
        launch aside; launch_ms of the whole launch, its latency included; updates_per_s of all DPUs together; speedup,
        throughput over that of the first row of the environment and number format, the paper's kernel; dpus,
        simulated_dpus, evidence, hardware_profile, model_version.

    Raises
    ------
    SwiftRLError
        If there is no such size, or a simulated DPU's table differs from the engine's.
    """
    size, rows = _size(profile), []
    for environment, chunk in CHUNK.items():
        data = collect(environment, chunk * size.dpus, seed=0)
        for number_format in FORMATS:
            own = [_launch(data, number_format, Bootstrap.CURRENT, kernel, 1, size) for kernel in KERNELS]
            own += [
                _launch(data, number_format, Bootstrap.FROZEN, kernel, tasklets, size)
                for kernel in KERNELS
                for tasklets in size.tasklets
            ]
            paper = own[0]["updates_per_s"]
            rows += [
                {"environment": environment} | row | {"speedup": row["updates_per_s"] / paper} for row in own
            ]
    return pd.DataFrame(rows)


def quality_cells(profile: str) -> list[Run]:
    """Return the runs that compare frozen with current after as many updates, a run a point; to sweep, or to `run`."""
    size = _size(profile)
    return [
        Run(
            environment,
            transitions=chunk * size.dpus,
            cores=size.dpus,
            seed=seed,
            episodes=rounds * recipe["tau"],
            bootstrap=bootstrap,
            number_format=number_format,
            backend="cpu",
            monte_carlo_episodes=0,
            **recipe,
        )
        for environment, chunk in CHUNK.items()
        for seed in range(size.seeds)  # a data set is made once for all runs on it
        for name, recipe in RECIPES.items()
        for rounds in size.rounds.get(name, ())
        for number_format in FORMATS
        for bootstrap in Bootstrap
    ]


def quality(rows: pd.DataFrame) -> pd.DataFrame:
    """Return frozen beside current, over the data sets.

    Parameters
    ----------
    rows : DataFrame
        Rows of `results.COLUMNS`, those of `quality_cells`.

    Returns
    -------
    DataFrame
        environment, number_format, recipe, updates_m (millions), data_sets; for each bootstrap the mean and the largest
        max_error_empirical and the mean and the least exact_return: max_error_current, ..., least_return_frozen.
    """
    recipe = [_recipe_of(row) for row in rows.itertuples()]
    rows = rows.assign(recipe=recipe, updates_m=rows["nominal_updates"] / 1e6)
    by = ["environment", "number_format", "recipe", "updates_m"]
    told = rows.groupby([*by, "bootstrap"], sort=False).agg(
        data_sets=("seed", "nunique"),
        max_error=("max_error_empirical", "mean"),
        largest_error=("max_error_empirical", "max"),
        exact_return=("exact_return", "mean"),
        least_return=("exact_return", "min"),
    )
    each = [told.xs(bootstrap, level="bootstrap").add_suffix(f"_{bootstrap}") for bootstrap in Bootstrap]
    beside = pd.concat(each, axis=1)
    data_sets = beside.pop(f"data_sets_{Bootstrap.FROZEN}")
    del beside[f"data_sets_{Bootstrap.CURRENT}"]
    beside.insert(0, "data_sets", data_sets)
    return beside.reset_index()


def _size(profile: str) -> Size:
    if profile not in SIZES:
        raise SwiftRLError(f"size is {profile!r}: choose one of {', '.join(SIZES)}")
    return SIZES[profile]


def _launch(
    data: Dataset, number_format: str, bootstrap: Bootstrap, kernel: str, tasklets: int, size: Size
) -> dict[str, Any]:
    """Return the row of one kernel, its speed-up aside."""
    learner = Learner(number_format=number_format, reward_range=data.reward_range, bootstrap=bootstrap)
    schedule = Schedule(size.dpus, TAU, TAU)
    options = {"kernel": kernel, "tasklets": tasklets}
    result = train(data, learner, schedule, "pim", simulated_dpus=size.simulated, **options)
    seconds, machine = result.breakdown.pim_kernel, result.machine
    hardware = resolve_hardware(machine["hardware"])
    of_a_dpu = -(-len(data) // size.dpus) * TAU
    return {
        "number_format": number_format,
        "bootstrap": bootstrap.value,
        "kernel": kernel,
        "tasklets": tasklets,
        "cycles_per_update": (seconds - hardware.launch_s) * hardware.clock_hz / of_a_dpu,
        "launch_ms": 1e3 * seconds,
        "updates_per_s": len(data) * TAU / seconds,
        "dpus": size.dpus,
        "simulated_dpus": size.simulated,
        "evidence": result.breakdown.evidence.value,
        "hardware_profile": machine["hardware"],
        "model_version": machine["model_version"],
    }


def _recipe_of(row: Any) -> str:
    """Return the name of a row's recipe."""
    if row.update == "td":
        return row.aggregation
    if pd.isna(row.alpha):
        return "safe"
    return "tasklets" if row.tau == experiments.TASKLETS["tau"] else "fast"
