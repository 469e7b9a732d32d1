"""The experiments as data: a question, grids of runs in three sizes, a notebook, figures.

Sizes: `smoke` takes less than a minute and shows that everything works, `quick` takes minutes on a laptop, `paper`
has the paper's sizes. The package runs the grid (`swiftrl experiment run`); the notebook asks for the table and
draws it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import pyarrow as pa

from swiftrl_core.experiments import roofline_probe as roofline
from swiftrl_core.experiments.multi_agent_probe import Agents
from swiftrl_core.experiments.precision import Precision
from swiftrl_core.learner import NumberFormat
from swiftrl_core.sweeps.executors import Executor
from swiftrl_core.sweeps.grid import Grid, combine, unique
from swiftrl_core.sweeps.job import Job
from swiftrl_core.sweeps.plan import RESULTS, execute, make_plan, require_all
from swiftrl_core.sweeps.run import Run
from swiftrl_core.sweeps.store import Store
from swiftrl_core.util.errors import SwiftRLError

SIZES = ("smoke", "quick", "paper")
NOTEBOOKS_ALONE = ("01_quickstart", "09_simulator_validation", "11_kernel_study")
"""Notebooks that are no grids of runs, and make what they show themselves."""


@dataclass(frozen=True)
class Experiment:
    """A question, and the runs that answer it.

    Attributes
    ----------
    id : str
        Also the notebook's name, without its suffix.
    question : str
    grids : mapping
        Size to the grids whose runs, in order and each once, are the experiment.
    figures : tuple of str
        Names; `figures.fig_NAME` draws each from the table of the experiment's rows, `figures.table_NAME` returns the
        numbers it shows.
    where_available : bool
        Leave out runs whose backend is not on this machine, such as a GPU, where otherwise the experiment stops.
    of : type
        What the grids are grids of: cells, or a kind of measurement.
    part_of : str, optional
        The experiment that this one belongs to: it shares its notebook, and its folder.
    """

    id: str
    question: str
    grids: Mapping[str, tuple[Grid, ...]]
    figures: tuple[str, ...]
    where_available: bool = False
    of: type[Job] = Run
    part_of: str | None = None

    def __post_init__(self) -> None:
        if set(self.grids) != set(SIZES):
            raise SwiftRLError(f"experiment {self.id} needs grids for exactly the sizes {', '.join(SIZES)}")

    @property
    def notebook(self) -> str:
        """File name of the notebook."""
        return f"{self.part_of or self.id}.ipynb"

    @property
    def columns(self) -> pa.Schema:
        """The columns of the experiment's rows."""
        return self.of.columns


def find(experiment: "str | Experiment") -> Experiment:
    """Return the experiment of an id, or of the start of one that fits no other, such as `04`; parts by their whole id.

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
    """Return a clause for who asked for the runs of a notebook that has none, or nothing."""
    alone = [notebook for notebook in NOTEBOOKS_ALONE if name and notebook.startswith(name)]
    if len(alone) != 1:
        return ""
    return f"{alone[0]} is a notebook only, run it with `swiftrl experiment notebook {alone[0][:2]}`, or "


def with_parts(experiment: str | Experiment) -> list[Experiment]:
    """Return an experiment and those that are parts of it."""
    experiment = find(experiment)
    return [experiment, *(entry for entry in EXPERIMENTS.values() if entry.part_of == experiment.id)]


def expand(experiment: str | Experiment, size: str) -> list[Job]:
    """Return an experiment's runs in a size, in the order of its grids, each once.

    Raises
    ------
    SwiftRLError
        If there is no such experiment or size, or a run is not valid.
    """
    experiment = find(experiment)
    if size not in SIZES:
        raise SwiftRLError(f"size is {size!r}: choose one of {', '.join(SIZES)}")
    return unique(cell for grid in experiment.grids[size] for cell in combine(grid, experiment.of))


def run_experiment(
    experiment: str | Experiment,
    size: str = "smoke",
    directory: str | os.PathLike | None = None,
    engine: Executor | None = None,
) -> pd.DataFrame:
    """Return the rows of an experiment, a row a cell in the order of its grids; run what is not there yet.

    Parameters
    ----------
    experiment : str or Experiment
    size : str
        `smoke`, `quick` or `paper`.
    directory : path, optional
        By default `results/ID/PROFILE`.
    engine : Engine, optional

    Raises
    ------
    SwiftRLError
        As `run` does, and if a cell fails.
    """
    experiment = find(experiment)
    store = Store(directory or default_directory(experiment, size), experiment.columns)
    cells = expand(experiment, size)
    plan = make_plan(cells, store, retry_failed=True, where_available=experiment.where_available)
    for reason in plan.left_out.values():
        print(f"left out: {reason}")
    require_all(execute(plan, store, engine), store)
    return store.table(cell.config_hash for cell in plan.cells)


def default_directory(experiment: Experiment, size: str, root: str | os.PathLike | None = None) -> Path:
    """Return where an experiment's rows go: `ROOT/ID/PROFILE`, by default in `results`; a part's in a folder below."""
    if experiment.part_of is None:
        return Path(root or RESULTS) / experiment.id / size
    return Path(root or RESULTS) / experiment.part_of / size / experiment.id


def draw(experiment: str | Experiment, table: pd.DataFrame, directory: str | os.PathLike) -> list[Path]:
    """Draw all figures of an experiment from its rows, each with the numbers it shows; return the files written.

    Raises
    ------
    SwiftRLError
        If the folder cannot be written.
    """
    from swiftrl_core.experiments import figures

    written = []
    for name in find(experiment).figures:
        figure, shown = (getattr(figures, f"{what}_{name}")(table) for what in ("fig", "table"))
        written += figures.save(figure, shown, directory, name)
    return written


PAPER_CORES = (125, 250, 500, 1000, 2000)
PAPER_SCHEDULE = {"episodes": 2000, "tau": 50}
"""Passes over the data, and between synchronisations, of the authors' code."""
PAPER_THREADS = 16
"""Threads of the paper's CPU baselines."""
PAPER_SEEDS = tuple(range(10))
QUICK_SEEDS = tuple(range(3))
SMOKE_SEEDS = (0, 1)
SMOKE_ROWS = MappingProxyType({"frozenlake": 4_000, "taxi": 8_000})
QUICK_ROWS = MappingProxyType({"frozenlake": 200_000, "taxi": 500_000})
PAPER_ROWS = MappingProxyType({"frozenlake": 1_000_000, "taxi": 5_000_000})
"""Transitions of each environment; the paper's in the last."""
TIMED_ROWS = MappingProxyType({"frozenlake": 1_000_000, "taxi": 1_000_000})
TIMED_SCHEDULE = MappingProxyType({"episodes": 100, "tau": 50})
"""Of `quick` where times are asked for: two rounds of the paper's on FrozenLake, and as many on a fifth of its Taxi."""

FORMATS = ("FP32", "INT32")
LEARNERS = {"algorithm": ("q_learning", "sarsa"), "sampling": ("SEQ", "STR", "RAN"), "number_format": FORMATS}
"""The paper's twelve learners."""
EARLY_EXIT = {"early_exit": True}
"""Leaves out episodes that cannot change a bit; the rows tell nominal from executed updates."""
SAMPLED = {"simulated_dpus": 8}
"""DPUs that the simulator runs of each set; the engine trains all, and both must agree in every bit."""


def _each(transitions: Mapping[str, int], **grid: Any) -> tuple[Grid, ...]:
    """Return a grid for each environment, with its own number of transitions."""
    return tuple({"environment": name, "transitions": rows} | grid for name, rows in transitions.items())


def _twelve(transitions: Mapping[str, int], **grid: Any) -> tuple[Grid, ...]:
    """Return grids of the twelve learners in the CPU engine, with early exit where it is exact."""
    parts = (
        {"algorithm": "q_learning", "sampling": ("SEQ", "STR"), "backend_options": EARLY_EXIT},
        {"algorithm": "q_learning", "sampling": "RAN"},
        {"algorithm": "sarsa", "sampling": ("SEQ", "STR", "RAN")},
    )
    return tuple(
        entry
        for part in parts
        for entry in _each(transitions, **part, number_format=FORMATS, backend="cpu", **grid)
    )


def _frequencies(transitions: Mapping[str, int], **grid: Any) -> tuple[Grid, ...]:
    """Return grids of both algorithms in the CPU engine."""
    return (
        *_each(transitions, algorithm="q_learning", backend="cpu", backend_options=EARLY_EXIT, **grid),
        *_each(transitions, algorithm="sarsa", backend="cpu", **grid),
    )


def _machines(transitions: Mapping[str, int], cores: int, threads: int, **grid: Any) -> tuple[Grid, ...]:
    """Return grids of all backends: virtual cores on the first four, threads of the host on the baselines."""
    return (
        *_each(transitions, cores=cores, backend=("cpu", "gpu", "gpu-shared"), **grid),
        *_each(transitions, cores=cores, backend="pim", backend_options=SAMPLED, **grid),
        *_each(transitions, cores=threads, backend=("cpu-shared", "cpu-local"), **grid),
        *_solved(transitions, **grid),
    )


def _scaling(transitions: Mapping[str, int], **grid: Any) -> tuple[Grid, ...]:
    """Return grids of the paper's learners on DPUs, and the exact solution that any speed-up is held against.

    What the grid says of a learner narrows the twelve down.
    """
    common = {name: grid[name] for name in ("episodes", "tau", "seed")}
    pim = _each(transitions, **LEARNERS | {"backend": "pim"} | grid)
    return *pim, *_solved(transitions, **common)


def _solved(transitions: Mapping[str, int], **grid: Any) -> tuple[Grid, ...]:
    """Return grids of the data's own fixed point, counted and solved on the host."""
    return _each(transitions, cores=1, backend="exact", **grid)


_DATASETS = Experiment(
    id="02_datasets",
    question="What does a core's chunk of random experience still hold as cores grow?",
    grids={
        "smoke": _each(SMOKE_ROWS, cores=(1, 8, 64), episodes=5, tau=5, seed=SMOKE_SEEDS, backend="cpu"),
        "quick": _each(
            QUICK_ROWS, cores=(1, 8, 64, 500, 2000), episodes=50, tau=50, seed=QUICK_SEEDS, backend="cpu"
        ),
        "paper": _each(
            PAPER_ROWS, cores=(1, *PAPER_CORES), episodes=50, tau=50, seed=PAPER_SEEDS, backend="cpu"
        ),
    },
    figures=("coverage", "chunk_rewards"),
)

_QUALITY = Experiment(
    id="03_learning_quality",
    question="How good are the twelve learners' tables, and what do cores and fixed point cost in quality?",
    grids={
        "smoke": _twelve(SMOKE_ROWS, cores=(1, 8), episodes=20, tau=10, seed=SMOKE_SEEDS),
        "quick": _twelve(QUICK_ROWS, cores=(1, 16, 125, 1000), episodes=100, tau=10, seed=QUICK_SEEDS),
        "paper": _twelve(PAPER_ROWS, cores=(1, 125, 500, 2000), **PAPER_SCHEDULE, seed=PAPER_SEEDS),
    },
    figures=("learning_quality", "table_error", "number_formats"),
)


def _formats(transitions: Mapping[str, int], **grid: Any) -> tuple[Grid, ...]:
    """Return grids of all number formats."""
    return _each(transitions, number_format=tuple(map(str, NumberFormat)), **grid)


_PRECISION = Experiment(
    id="precision",
    question="How far does each number format end from the same training in double precision?",
    grids={
        "smoke": _formats(SMOKE_ROWS, cores=(1, 8), episodes=20, tau=10, seed=0),
        "quick": _formats(QUICK_ROWS, cores=(1, 125), episodes=100, tau=10, seed=0),
        "paper": _formats(PAPER_ROWS, cores=(1, 2000), **PAPER_SCHEDULE, seed=PAPER_SEEDS),
    },
    figures=("precision",),
    of=Precision,
    part_of="03_learning_quality",
)

_STRONG_SCALING = Experiment(
    id="04_strong_scaling",
    question="How much faster do more DPUs learn the same data, and where does the time go?",
    grids={
        "smoke": _scaling(SMOKE_ROWS, sampling="SEQ", cores=(2, 4, 8), episodes=4, tau=2, seed=0),
        "quick": _scaling(TIMED_ROWS, cores=PAPER_CORES, **TIMED_SCHEDULE, seed=0, backend_options=SAMPLED),
        "paper": _scaling(
            PAPER_ROWS, cores=PAPER_CORES, **PAPER_SCHEDULE, seed=PAPER_SEEDS, backend_options=SAMPLED
        ),
    },
    figures=("strong_scaling", "scaling_breakdown"),
)

_BACKENDS = Experiment(
    id="05_backends",
    question="What learns the same table fastest: DPUs, a CPU or a GPU, and how do we know each time?",
    grids={
        "smoke": _machines(SMOKE_ROWS, cores=8, threads=2, episodes=4, tau=2, seed=0),
        "quick": _machines(
            TIMED_ROWS,
            cores=2000,
            threads=4,
            number_format=FORMATS,
            **TIMED_SCHEDULE,
            seed=QUICK_SEEDS,
        ),
        "paper": _machines(
            PAPER_ROWS,
            cores=2000,
            threads=PAPER_THREADS,
            number_format=FORMATS,
            **PAPER_SCHEDULE,
            seed=PAPER_SEEDS,
        ),
    },
    figures=("backends",),
    where_available=True,
)

_SYNCHRONISATION = Experiment(
    id="06_synchronisation",
    question="How often must cores talk: what does tau buy in quality, and what does it cost in communication?",
    grids={
        "smoke": _frequencies(SMOKE_ROWS, cores=8, episodes=20, tau=(1, 5, 20), seed=SMOKE_SEEDS),
        "quick": _frequencies(
            QUICK_ROWS, cores=125, episodes=500, tau=(1, 2, 5, 10, 20, 50, 100, 250, 500), seed=QUICK_SEEDS
        ),
        "paper": _frequencies(
            PAPER_ROWS, cores=2000, episodes=2000, tau=(1, 2, 5, 10, 20, 50, 100, 200, 500), seed=PAPER_SEEDS
        ),
    },
    figures=("synchronisation",),
)


AUTHORS_AGENTS = {"environment": "frozenlake", "transitions": 10_000, "agents": 1_000}
"""Of the authors' multi-agent code: a thousand agents on the same data."""
AGENTS_PER_DPU = (1, 2, 4, 8, 11, 16, 24)
"""A tasklet each; 24 tables of FrozenLake are what WRAM holds."""


def _populations(side: int, episodes: int, packed: Mapping[str, Any], **grid: Any) -> tuple[Grid, ...]:
    """Return grids of agents that differ, of agents packed on DPUs, one of which is simulated, and of the same here."""
    alike = AUTHORS_AGENTS | grid
    differ = alike | {"agents": side**2, "side": side, "episodes": episodes, "backend": "cpu"}
    packing = {"backend": "pim", "agents_per_dpu": AGENTS_PER_DPU, "simulated_dpus": 1} | packed
    formats = tuple(map(str, NumberFormat))
    return (
        differ,
        alike | {"number_format": formats} | packing,
        alike | {"episodes": episodes, "backend": ("cpu", "gpu")},
    )


_MULTI_AGENT = Experiment(
    id="07_multi_agent",
    question="Do agents that learn alone come to the same decisions, and how many fit a DPU?",
    grids={
        "smoke": _populations(
            8,
            20,
            {"transitions": 500, "agents": 96, "episodes": 1, "agents_per_dpu": (1, 11, 24)},
            seed=SMOKE_SEEDS,
        ),
        "quick": _populations(16, 100, {"transitions": 2_000, "episodes": 1}, seed=QUICK_SEEDS),
        "paper": _populations(32, 100, {"episodes": 10}, seed=PAPER_SEEDS),
    },
    figures=("population", "agents_per_dpu"),
    where_available=True,
    of=Agents,
)


def _roofline(
    transitions: int, cores: int, repetitions: int, memory: int, dpu_transitions: int, passes: int
) -> tuple[Grid, ...]:
    """Return grids of the ceilings and learners of one core of this CPU, then of one DPU.

    `memory` is how many bytes to read from memory, more than the caches hold.
    """
    environments = ("frozenlake", "taxi")
    host = {"machine": roofline.HOST, "repetitions": repetitions}
    learns = host | {"kind": "learner", "environment": environments, "transitions": transitions}
    dpu = {"machine": roofline.DPU}
    return (
        *(
            host | {"kind": "bandwidth", "name": name, "bytes_read": size}
            for name, size in {**roofline.CACHES, "memory": memory}.items()
        ),
        host | {"kind": "peak", "name": tuple(roofline.PEAKS)},
        dpu | {"kind": "bandwidth", "name": ("WRAM", "MRAM")},
        dpu | {"kind": "peak", "name": tuple(roofline.DPU_PEAKS)},
        *(
            learns
            | {"name": name, "number_format": number_format, "cores": cores if "vectors" in name else 1}
            for name, number_format in roofline.LEARNERS.items()
        ),
        dpu
        | {"kind": "learner", "name": "kernel, 1 tasklet", "environment": environments}
        | {"number_format": ("INT32", "FP32"), "transitions": dpu_transitions, "passes": passes},
    )


_ROOFLINE = Experiment(
    id="08_roofline",
    question="What holds an update back, on this CPU and on a DPU?",
    grids={
        "smoke": _roofline(50_000, 128, 5, 64 << 20, 1_000, 2),
        "quick": _roofline(1_000_000, 2000, 25, 256 << 20, 4_000, 10),
        "paper": _roofline(1_000_000, 2000, 50, 256 << 20, 8_000, 50),
    },
    figures=("roofline",),
    of=roofline.Speed,
)


VR_COUNT = {"update": "vr", "aggregation": "count", "sampling": "REV", "tau": 2}
SAFE = MappingProxyType(VR_COUNT | {"alpha_schedule": "rescaled_linear"})
"""What the README recommends: there is no alpha to choose, and it has converged for any number of cores so far."""
FAST = MappingProxyType(VR_COUNT | {"alpha": 1.0})
"""Cheaper on a DPU, which need not divide, and as quick or quicker on many cores. Does not converge on a single one."""
RECIPES = (
    {"tau": 50, "aggregation": ("mean", "count")},
    {"tau": 1, "aggregation": ("mean", "count")},
    SAFE,
    FAST,
)
"""The paper's way and count weights, seldom and often; then the two recommended ones."""


def _recipes(
    transitions: Mapping[str, int], passes: Mapping[int, tuple[int, ...]], **grid: Any
) -> tuple[Grid, ...]:
    """Return grids of all recipes after fewer and more passes, by their tau, and of the exact solution.

    Every point of a curve is a run of its own: it is what one gets who stops there.
    """
    # The seed changes slowest, so that a data set is made once for all runs on it.
    grids = [
        {"seed": grid["seed"], **recipe, "episodes": passes[recipe["tau"]], **grid} for recipe in RECIPES
    ]
    common = {"backend": "cpu", "monte_carlo_episodes": 0}
    curves = tuple(entry for each in grids for entry in _each(transitions, **each, **common))
    return *curves, *_solved(transitions, seed=grid["seed"], episodes=1, tau=1, monte_carlo_episodes=0)


_AGGREGATION = Experiment(
    id="10_aggregation",
    question="How many updates, rounds and bytes does learning apart need, if cores are combined by what they saw?",
    grids={
        "smoke": _recipes(
            SMOKE_ROWS | {"frozenlake8x8": 4_000},
            {50: (50,), 1: (1, 10), 2: (2, 10)},
            cores=(8, 64),
            seed=SMOKE_SEEDS,
        ),
        "quick": _recipes(
            QUICK_ROWS | {"frozenlake8x8": 200_000},
            {50: (50, 100, 200, 500), 1: (1, 2, 4, 8, 20, 40), 2: (2, 4, 8, 12, 20, 40)},
            cores=(125, 1000),
            seed=QUICK_SEEDS,
        ),
        "paper": _recipes(
            PAPER_ROWS | {"frozenlake8x8": 1_000_000},
            {50: (50, 100, 200, 500, 1000), 1: (1, 2, 4, 8, 20, 40), 2: (2, 4, 8, 12, 20, 40)},
            cores=PAPER_CORES,
            seed=PAPER_SEEDS,
        ),
    },
    figures=("fewer_updates", "what_it_costs", "recipes_by_cores"),
)

TASKLETS = MappingProxyType(
    {"update": "vr", "aggregation": "count", "bootstrap": "frozen", "tau": 5, "alpha": 1.0}
)
"""For a DPU's tasklets to share: `FAST`, bootstrapping from the start of a pass; so values need passes to travel."""
ON_DPUS = (
    ({"tau": 50}, {}),
    (FAST, {"kernel": "tuned"}),
    (TASKLETS, {"kernel": "tuned", "tasklets": 11}),
)
"""The paper's recipe on its kernel; fewer updates on a faster kernel; a kernel that fills the DPU."""


def _to_the_optimum(
    transitions: Mapping[str, int],
    cores: int,
    fewer: int,
    passes: Mapping[int, Mapping[str, tuple[int, ...]]],
    **grid: Any,
) -> tuple[Grid, ...]:
    """Return grids of recipes on DPUs and on the engine, cut off after fewer and more passes, by their tau.

    On `fewer` cores, with longer chunks, each makes one round: how the kernel's time grows with the chunk.
    """
    common = {"number_format": "INT32", "monte_carlo_episodes": 0, **grid}
    found: list[Grid] = []
    for recipe, options in ON_DPUS:
        for name, rows in transitions.items():
            learner = {"environment": name, "transitions": rows, **recipe, **common}
            on_dpus = {**learner, "backend": "pim", "backend_options": SAMPLED | options}
            cuts = passes[recipe["tau"]][name]
            found.append({**on_dpus, "cores": cores, "episodes": cuts})
            found.append({**on_dpus, "cores": fewer, "episodes": recipe["tau"]})
            found.append({**learner, "backend": "cpu", "cores": cores, "episodes": cuts})
    return *found, *_solved(transitions, seed=grid["seed"], episodes=1, tau=1, monte_carlo_episodes=0)


_CUTS = MappingProxyType(
    {
        50: {"frozenlake": (50, 100, 150, 200), "taxi": (250, 300, 350, 400, 450, 500, 600)},
        2: {"frozenlake": (2, 4, 6, 8, 10, 12), "taxi": (2, 4, 6, 8)},
        5: {"frozenlake": (5, 10, 15, 20, 25, 30), "taxi": (10, 15, 20, 25, 30)},
    }
)
_SMOKE_CUTS = MappingProxyType(
    {tau: dict.fromkeys(SMOKE_ROWS, (tau, 2 * tau, 4 * tau)) for tau in (50, 2, 5)}
)

_OPTIMUM = Experiment(
    id="12_time_to_optimum",
    question="How long until the optimum, on DPUs, on a CPU and by solving the model, and when do DPUs win?",
    grids={
        "smoke": _to_the_optimum(SMOKE_ROWS, 16, 8, _SMOKE_CUTS, seed=0),
        "quick": _to_the_optimum(PAPER_ROWS, 2000, 250, _CUTS, seed=QUICK_SEEDS),
        "paper": _to_the_optimum(PAPER_ROWS, 2000, 250, _CUTS, seed=PAPER_SEEDS),
    },
    figures=("time_to_optimum", "data_size"),
)

EXPERIMENTS = MappingProxyType(
    {
        entry.id: entry
        for entry in (
            *(_DATASETS, _QUALITY, _PRECISION, _STRONG_SCALING, _BACKENDS, _SYNCHRONISATION),
            *(_MULTI_AGENT, _ROOFLINE, _AGGREGATION, _OPTIMUM),
        )
    }
)
"""All experiments by id."""
