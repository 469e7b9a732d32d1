"""The rate of updates of the CPU engine, of its baselines, and of a loop that only stores: `swiftrl bench`.

All contenders are measured in one process, interleaved: a repetition times each once, and a row holds medians over the
repetitions, of times and of ratios. So a machine that is slow for a while is slow for all. Each row reports wall-clock
time and the processor time of all threads, which other work on the machine disturbs less.
"""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from swiftrl_core.backend import Backend, Problem, open_backend
from swiftrl_core.backends.cpu import backend as cpu
from swiftrl_core.data import Dataset, collect
from swiftrl_core.experiments import reference_fp64
from swiftrl_core.learner import Learner
from swiftrl_core.learner.chunks import split
from swiftrl_core.util import toolchain

CORES = 2000
ALPHA, GAMMA = 0.1, 0.95


@dataclass(frozen=True)
class Case:
    """A data set of the paper, and the number of episodes in a measurement of the engine."""

    environment: str
    transitions: int
    episodes: int


CASES = (Case("frozenlake", 1_000_000, 200), Case("taxi", 5_000_000, 40))
VARIANTS = (
    ("q_learning", "SEQ", "FP32"),
    ("q_learning", "SEQ", "INT32"),
    ("q_learning", "SEQ", "INT32_POW2"),
    ("q_learning", "STR", "FP32"),
    ("q_learning", "STR", "INT32"),
    ("q_learning", "RAN", "FP32"),
    ("q_learning", "RAN", "INT32"),
    ("sarsa", "SEQ", "FP32"),
    ("sarsa", "SEQ", "INT32"),
    ("sarsa", "RAN", "FP32"),
    ("sarsa", "RAN", "INT32"),
)
THREADED = VARIANTS[:2]
"""Variants that are timed on all threads too, right after one thread."""


@dataclass(frozen=True)
class Contender:
    """Something to time: the columns of its row, the updates of one call, and the call, which returns seconds."""

    name: str
    environment: str
    number_format: str
    algorithm: str
    sampling: str
    cores: int
    threads: int
    updates: int
    run: Callable[[], float]


def rows(cases: tuple[Case, ...] = CASES, repetitions: int = 7, cores: int = CORES) -> list[dict]:
    """Measure all contenders.

    Parameters
    ----------
    cases : tuple of Case
    repetitions : int
        Measurements of each, interleaved; a row holds their median.
    cores : int
        Virtual PIM cores of the engine.

    Returns
    -------
    list of dict
        `name`, `env`, `number_format`, `algorithm`, `sampling`, `cores`, `threads`, `ns_per_update` by the clock,
        `cpu_ns_per_update` of all threads together, and `ratio_to_engine`: how many times the engine's processor
        time on one thread, in the same repetition, environment and number format (FP32 for doubles), for SEQ
        Q-learning; with more than one thread, by the clock.
    """
    found = []
    for case in cases:
        with ExitStack() as stack:
            stage = _Stage(case, collect(case.environment, case.transitions, seed=0), cores, stack)
            contenders = list(_contenders(stage))
            for contender in contenders:
                contender.run()  # warm up: compile, load, touch every page
            timed = [[_time(contender) for contender in contenders] for _ in range(repetitions)]
        found += _compared(contenders, np.array(timed))
    return found


def machine() -> dict:
    """Return what the numbers depend on: processor, its vector units, compiler, load by other work."""
    text = toolchain.cpu_features()
    model = next((line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line), "")
    flags = next(
        (line.split(":", 1)[1].split() for line in text.splitlines() if line.startswith("flags")), []
    )
    return {
        "cpu": model or platform.processor() or platform.machine(),
        "vectors": "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "portable",
        "threads": toolchain.available_threads(),
        "compiler": f"zig {toolchain.compiler_version()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load_average": round(os.getloadavg()[0], 2),
    }


def table(measured: list[dict]) -> str:
    """Return rows as text in columns."""
    lines = [f"{'':66}{'cores':>7}{'threads':>9}{'ns/update':>11}{'cpu ns':>8}{'x engine':>10}"]
    lines += [
        f"{row['name']:32}{row['env']:12}{row['number_format']:11}"
        f"{row['algorithm'].removesuffix('_learning'):6}{row['sampling']:5}{row['cores']:7}{row['threads']:9}"
        f"{row['ns_per_update']:11.3f}{row['cpu_ns_per_update']:8.3f}{row['ratio_to_engine']:10.2f}"
        for row in measured
    ]
    return "\n".join(lines)


def _time(contender: Contender) -> tuple[float, float]:
    """Return the seconds of an update, by the clock of the call and of processor time."""
    before = time.process_time()
    seconds = contender.run()
    return seconds / contender.updates, (time.process_time() - before) / contender.updates


def _compared(contenders: list[Contender], timed: np.ndarray) -> list[dict]:
    """Return rows from seconds per update, wall-clock and processor time: shape (repetitions, contenders, 2)."""
    engine = {
        c.number_format: timed[:, i]
        for i, c in enumerate(contenders)
        if (c.name, c.algorithm, c.sampling, c.threads) == ("engine", "q_learning", "SEQ", 1)
    }
    found = []
    for i, c in enumerate(contenders):
        wall, processor = 1e9 * np.median(timed[:, i], axis=0)
        ratios = np.median(timed[:, i] / engine.get(c.number_format, engine["FP32"]), axis=0)
        found.append(
            {
                "name": c.name,
                "env": c.environment,
                "number_format": c.number_format,
                "algorithm": c.algorithm,
                "sampling": c.sampling,
                "cores": c.cores,
                "threads": c.threads,
                "ns_per_update": round(wall, 4),
                "cpu_ns_per_update": round(processor, 4),
                "ratio_to_engine": round(ratios[1 if c.threads == 1 else 0], 3),
            }
        )
    return found


@dataclass(frozen=True, eq=False)
class _Stage:
    """The data and settings that the contenders of a case share; `stack` closes their backends."""

    case: Case
    dataset: Dataset
    cores: int
    stack: ExitStack

    def learner(
        self, algorithm: str = "q_learning", sampling: str = "SEQ", number_format: str = "FP32"
    ) -> Learner:
        return Learner(
            algorithm, sampling, number_format, ALPHA, GAMMA, reward_range=self.dataset.reward_range
        )

    def problem(self, learner: Learner) -> Problem:
        return Problem(learner, self.dataset.n_states, self.dataset.n_actions)

    def open(self, backend: str, learner: Learner, cores: int, **options) -> Backend:
        return open_backend(backend, self.problem(learner), cores, **options)

    def rounds(
        self, name: str, opened: Backend, learner: Learner, cores: int, threads: int, episodes: int
    ) -> Contender:
        """Return rounds of a backend from a table of zeros, timed by the backend's own clock."""
        self.stack.callback(opened.close)
        opened.load(split(self.dataset, learner, cores))
        zeros = np.zeros(self.problem(learner).entries, learner.dtype)
        return Contender(
            name,
            self.case.environment,
            str(learner.number_format),
            str(learner.algorithm),
            str(learner.sampling),
            cores,
            threads,
            len(self.dataset) * episodes,
            lambda: opened.run_round(zeros, episodes).kernel_s,
        )

    def baseline(
        self, name: str, learn: Callable, updates: int, cores: int = 1, number_format: str = "FP32"
    ) -> Contender:
        """Return Q-learning without a backend, timed from outside."""

        def run() -> float:
            start = time.perf_counter()
            learn()
            return time.perf_counter() - start

        return Contender(
            name, self.case.environment, number_format, "q_learning", "SEQ", cores, 1, updates, run
        )


def _contenders(stage: _Stage) -> Iterator[Contender]:
    threads = toolchain.available_threads()
    for variant in VARIANTS:
        learner = stage.learner(*variant)
        for count in sorted({1, threads}) if variant in THREADED else [1]:
            opened = stage.open("cpu", learner, stage.cores, threads=count)
            yield stage.rounds("engine", opened, learner, stage.cores, count, stage.case.episodes)
        if variant in THREADED and machine()["vectors"] == "AVX-512":
            opened = cpu.CpuBackend(
                stage.problem(learner), stage.cores, 1, by_lanes=True, flags=["-mcpu=x86_64_v3"]
            )
            yield stage.rounds("engine without AVX-512", opened, learner, stage.cores, 1, stage.case.episodes)
    learner = stage.learner()
    for count in range(1, threads + 1):
        for name in ("cpu-local", "cpu-shared"):
            yield stage.rounds(name, stage.open(name, learner, count), learner, count, count, episodes=4)
    yield _numpy(stage)
    yield from _numba(stage)
    yield _doubles(stage)
    yield _exact(stage)
    yield _floor(stage)


def _numpy(stage: _Stage) -> Contender:
    """Return NumPy vectorised over the cores: the k-th update of all of them is one expression."""
    dataset, cores = stage.dataset, stage.cores
    length = len(dataset) // cores
    pair = dataset.state * dataset.n_actions + dataset.action
    steps = [
        np.ascontiguousarray(column[: length * cores].reshape(cores, length).T)
        for column in (pair, dataset.next_state, dataset.reward, ~dataset.terminated)
    ]
    core, alpha, gamma = np.arange(cores), np.float32(ALPHA), np.float32(GAMMA)

    def learn() -> None:
        q = np.zeros((cores, dataset.n_states, dataset.n_actions), np.float32)
        flat = q.reshape(cores, -1)
        for entry, next_state, reward, bootstraps in zip(*steps, strict=True):
            target = reward + gamma * (q[core, next_state].max(axis=1) * bootstraps)
            old = flat[core, entry]
            flat[core, entry] = old + alpha * (target - old)

    return stage.baseline("NumPy over cores", learn, length * cores, cores)


def _numba(stage: _Stage) -> Iterator[Contender]:
    """Yield a flat table in a loop that numba compiles; nothing where numba is not installed."""
    try:
        from numba import njit
    except ImportError:
        print("numba is not installed: no row for it", file=sys.stderr)
        return

    @njit
    def loop(q, pair, next_row, reward, terminated, actions, alpha, gamma):
        for i in range(len(pair)):
            best = np.float32(0)
            if not terminated[i]:
                best = q[next_row[i]]
                for a in range(next_row[i] + 1, next_row[i] + actions):
                    best = max(best, q[a])
            entry = pair[i]
            q[entry] += alpha * (reward[i] + gamma * best - q[entry])

    dataset, actions = stage.dataset, stage.dataset.n_actions
    pair, next_row = dataset.state * actions + dataset.action, dataset.next_state * actions

    def learn() -> None:
        q = np.zeros(dataset.n_states * actions, np.float32)
        alpha, gamma = np.float32(ALPHA), np.float32(GAMMA)
        loop(q, pair, next_row, dataset.reward, dataset.terminated, actions, alpha, gamma)

    yield stage.baseline("numba, one flat table", learn, len(dataset))


def _doubles(stage: _Stage) -> Contender:
    """Return a loop like the authors' released code: one table of doubles, records of 24 bytes, -O2."""
    records = reference_fp64.records(stage.dataset)
    shape = stage.dataset.n_states, stage.dataset.n_actions

    def learn() -> None:
        reference_fp64.learn(np.zeros(shape), records, ALPHA, GAMMA)

    return stage.baseline("C, 24-byte double records, -O2", learn, len(records), number_format="FP64")


def _exact(stage: _Stage) -> Contender:
    """Return the exact solution; an update is one counted transition."""
    learner = stage.learner()
    chunks = split(stage.dataset, learner, 1)
    zeros = np.zeros(stage.problem(learner).entries, learner.dtype)

    def learn() -> None:
        opened = stage.open("exact", learner, 1)
        opened.load(chunks)
        opened.run_round(zeros, 1)

    return stage.baseline("exact: count and solve", learn, len(stage.dataset))


def _floor(stage: _Stage) -> Contender:
    """Return one store an update."""
    lines, stores = np.zeros(16 * 17, np.uint32), 50_000_000
    function = reference_fp64.library().store_only
    return stage.baseline("floor: one store per update", lambda: function(lines.ctypes.data, stores), stores)
