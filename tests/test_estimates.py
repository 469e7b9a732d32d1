"""The estimate of a sweep's time: what is run for it, how it is extrapolated, and how near it comes."""

import time

import pytest

from swiftrl_core.experiments.multi_agent_probe import Agents
from swiftrl_core.sweeps import estimate as module
from swiftrl_core.sweeps.estimate import estimate
from swiftrl_core.sweeps.grid import combine
from swiftrl_core.sweeps.plan import execute, make_plan
from swiftrl_core.sweeps.progress import work
from swiftrl_core.sweeps.run import Run
from swiftrl_core.sweeps.store import Store

SETTINGS = {
    "transitions": 20_000,
    "cores": 8,
    "episodes": 50,
    "tau": 50,
    "backend": "cpu",
    "monte_carlo_episodes": 0,
}
SIMULATED = SETTINGS | {"backend": "pim", "backend_options": {"simulated_dpus": 2}, "cores": 50}
LONG = 100_000
RATES = {"cpu": 1e-7, "cpu-local": 3e-7, "pim": 2e-6}
"""Seconds for a unit of work, by the clock of these tests."""


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "sweep")


@pytest.fixture
def clock(monkeypatch):
    """Return a list that fills with the jobs that an estimate runs; nothing is run, and time goes by `RATES`."""
    ran = []

    def timed(job):
        ran.append(job)
        seconds = RATES[job.group[1]] * work(job)
        return seconds, {"wall_seconds": seconds}

    monkeypatch.setattr(module, "_timed", timed)
    monkeypatch.setattr(Run, "run", lambda job: ran.append(job))
    monkeypatch.setattr(Agents, "run", lambda job: ran.append(job))
    return ran


def test_an_estimate_is_the_sum_of_all_runs_over_the_workers(store, clock):
    jobs = [
        *combine(SETTINGS | {"backend": ("cpu", "cpu-local"), "episodes": (50, LONG), "seed": (0, 1, 2)}),
        *combine(SIMULATED | {"environment": ("frozenlake", "taxi"), "cores": (25, 50)}),
        Agents(environment="frozenlake", transitions=500, agents=24, episodes=LONG, backend="cpu"),
    ]
    expected = sum(RATES[job.group[1]] * work(job) for job in jobs)
    for workers in (1, 3):
        found = estimate(make_plan(jobs, store), store, workers)
        assert found.seconds == pytest.approx(expected / workers)
        assert f" with {workers} worker{'s' * (workers > 1)}, extrapolated from 0 finished and " in str(found)
        assert 5 <= found.small <= 5 * module.PILOTS  # groups of environment, backend and kind


def test_an_estimate_extrapolates_updates_and_a_constant(store, monkeypatch):
    """A clock by hand: 50 ms a run and 1 us an update. 3 runs of 20,000 rows and 100 episodes take 6.15 s."""

    def timed(job):
        seconds = 0.05 + 1e-6 * job.transitions * job.episodes
        return seconds, {"wall_seconds": seconds}

    monkeypatch.setattr(module, "_timed", timed)
    monkeypatch.setattr(Run, "run", lambda job: None)
    jobs = combine(SETTINGS | {"episodes": 100, "tau": 1, "seed": (0, 1, 2)})
    assert estimate(make_plan(jobs, store), store).seconds == pytest.approx(6.15)
    assert estimate(make_plan(jobs, store), store, workers=3).seconds == pytest.approx(2.05)


def test_finished_rows_of_a_group_take_the_place_of_small_runs(store, clock, monkeypatch):
    jobs = combine(SETTINGS | {"backend": ("cpu", "cpu-local"), "seed": (0, 1, 2)})
    plan = make_plan(jobs, store)
    done = frozenset(job.config_hash for job in jobs[:2])
    monkeypatch.setattr(store, "row", lambda name: {"wall_seconds": 7.0})
    plan = module.Plan(plan.jobs, done, plan.failed, {})
    found = estimate(plan, store)
    assert found.seconds == pytest.approx(7.0 + 3 * 3e-7 * work(jobs[0]))
    assert (found.finished, found.small) == (2, 1)
    assert "extrapolated from 2 finished and 1 small runs" in str(found)


def test_backends_that_are_not_here_are_named_and_left_out(store, clock):
    absent = combine(SIMULATED | {"hardware": True})
    here = combine(SETTINGS)
    found = estimate(make_plan([*absent, *here], store), store)
    assert found.untimed == ("pim",)
    assert str(found).endswith(", without pim, which cannot run here")
    assert found.seconds == pytest.approx(estimate(make_plan(here, store), store).seconds)


def test_neither_seeds_nor_episodes_nor_cores_make_an_estimate_longer(store, clock):
    estimate(make_plan(combine(SETTINGS), store), store)
    few = len(clock)
    wide = {"cores": (1, 8, 100), "seed": tuple(range(100)), "episodes": LONG}
    estimate(make_plan(combine(SETTINGS | wide), store), store)
    assert len(clock) - few <= 3 + module.PILOTS * 2 * 5
    assert len({job.seed for job in clock}) == 1  # so that they share a data set
    longest = max(RATES[job.group[1]] * work(job) for job in clock)
    assert longest < 8 * module.CLEAR_S


def test_a_small_run_is_the_run_with_fewer_episodes():
    job = Run(**SETTINGS, sampling="RAN")
    assert job.small(1) == Run(**SETTINGS | {"episodes": 1, "tau": 1}, sampling="RAN")
    assert job.small(64) == job
    assert Run(**SETTINGS | {"episodes": LONG}).small(64).tau == 50


def took(jobs, folder) -> float:
    store = Store(folder)
    start = time.perf_counter()
    execute(make_plan(jobs, store), store, reporters=[])
    return time.perf_counter() - start


@pytest.mark.slow  # compares times
@pytest.mark.parametrize(
    "settings",
    [
        {"episodes": (50, 500), "algorithm": ("q_learning", "sarsa")},
        {"episodes": 2_000, "tau": 1, "cores": (8, 100), "seed": (0, 1)},
        {"backend": "exact", "cores": 1, "seed": tuple(range(8))},
        SIMULATED | {"number_format": ("FP32", "INT32"), "episodes": (50, 1_000)},
    ],
    ids=["engine", "rounds", "exact", "simulator"],
)
def test_an_estimate_of_a_small_sweep_is_within_a_factor_of_two(tmp_path, settings):
    jobs = combine(SETTINGS | settings)
    store = Store(tmp_path / "none")
    guess = estimate(make_plan(jobs, store), store).seconds
    actual = min(took(jobs, tmp_path / "first"), took(jobs, tmp_path / "second"))
    assert actual / 2 < guess < actual * 2


@pytest.mark.slow  # compares times
def test_an_estimate_grows_with_updates_rounds_and_data_sets(store):
    def seconds(**settings) -> float:
        return estimate(make_plan(combine(SETTINGS | {"cores": 100} | settings), store), store).seconds

    assert 5 < seconds(episodes=20_000) / seconds(episodes=2_000) < 20
    assert seconds(episodes=2_000, tau=1) > 1.2 * seconds(episodes=2_000)
    assert 5 < seconds(seed=list(range(10))) / seconds() < 20


@pytest.mark.slow  # compares times
def test_with_early_exit_an_estimate_counts_what_is_left_out(store):
    given = SETTINGS | {"cores": 1, "episodes": 20_000}
    whole, early = (
        estimate(make_plan([Run(**given, backend_options=options)], store), store).seconds
        for options in ({}, {"early_exit": True})
    )
    assert early < whole / 3


@pytest.mark.slow  # compares times
def test_the_exact_solution_takes_as_long_for_any_number_of_episodes(store):
    once, often = (
        estimate(make_plan(combine(SETTINGS | {"backend": "exact", "cores": 1} | more), store), store).seconds
        for more in ({"episodes": 50}, {"episodes": LONG})
    )
    assert once / 5 < often < once * 5
