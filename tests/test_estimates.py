"""How long a sweep will take: what is timed for it, and how that is scaled."""

import shutil

import pytest

from swiftrl_core.backend import Problem
from swiftrl_core.backends.pim.kernels import compile_learner
from swiftrl_core.dpusim.machine import is_translated, translation_seconds
from swiftrl_core.dpusim.program.elf import load_program
from swiftrl_core.experiments.multi_agent_probe import Agents
from swiftrl_core.learner import Learner
from swiftrl_core.sweeps import estimate as estimates
from swiftrl_core.sweeps.grid import combine
from swiftrl_core.sweeps.run import Run

ROWS = 20_000
SETTINGS = {"transitions": ROWS, "episodes": 50, "tau": 50, "backend": "cpu", "monte_carlo_episodes": 0}
SIMULATED = SETTINGS | {"backend": "pim", "backend_options": {"simulated_dpus": 2}, "cores": 50}
LONG = 100_000


@pytest.fixture
def trained(monkeypatch):
    """Return a list that fills with the rows and the schedule of each small training."""
    found, real = [], estimates.train

    def train(dataset, learner, schedule, *arguments, **options):
        found.append((len(dataset), schedule))
        return real(dataset, learner, schedule, *arguments, **options)

    monkeypatch.setattr(estimates, "train", train)
    return found


@pytest.fixture
def translated(monkeypatch):
    """Return a list that fills with the programs that an estimate translates; none is, before."""
    found = []
    monkeypatch.setattr(estimates, "translate", found.append)
    monkeypatch.setattr(estimates, "is_translated", lambda program: program in found)
    return found


# --- the simulator ----------------------------------------------------------------------------------------


@pytest.fixture
def kernels(tmp_path):
    """Return two copies of a kernel, neither of them translated."""
    kernel = compile_learner(Problem(Learner(), 16, 4), for_hardware=False)
    return [shutil.copy(kernel, tmp_path / name) for name in ("a", "b")]


def test_a_long_simulation_counts_as_interpreted_then_translated(kernels):
    """A clock of 4 us an update, and 1 us once the first kernel is translated, stands for both."""
    first, second = map(load_program, kernels)
    pays = translation_seconds(first)
    simulations = estimates._Simulations()
    many, more = (round(share * pays / 4e-6) for share in (50, 100))
    simulations.add(kernels[1], ("lake",), many, lambda: 4e-6)
    simulations.add(kernels[0], ("lake",), more, lambda: 1e-6 if is_translated(first) else 4e-6)
    assert simulations.seconds() == pytest.approx((2 + 99 / 4 + 2 + 49 / 4) * pays, rel=1e-3)
    assert not is_translated(second)


def test_a_short_simulation_stays_interpreted(kernels):
    program = load_program(kernels[0])
    simulations = estimates._Simulations()
    for _ in range(2):  # of all runs together
        simulations.add(
            kernels[0], ("lake",), round(0.45 * translation_seconds(program) / 4e-6), lambda: 4e-6
        )
    assert simulations.seconds() == pytest.approx(0.9 * translation_seconds(program), rel=1e-3)
    assert not is_translated(program)


def test_of_kernels_that_gain_alike_one_is_translated(translated):
    grid = SIMULATED | {"number_format": ("FP32", "INT32"), "sampling": ("SEQ", "STR"), "cores": (50, 100)}
    estimates.estimate(combine(grid))
    assert translated == []
    estimates.estimate(combine(grid | {"episodes": LONG}))
    assert len(translated) == 2


def test_simulated_agents_count_as_translated_where_they_are(translated):
    agents = {"environment": "frozenlake", "agents": 24, "backend": "pim", "agents_per_dpu": 24}
    estimates.estimate([Agents(**agents, transitions=500, episodes=1)])
    assert translated == []
    estimates.estimate([Agents(**agents, transitions=10_000, episodes=LONG)])
    assert len(translated) == 1


# --- the engine -------------------------------------------------------------------------------------------


def test_neither_seeds_nor_episodes_nor_cores_make_an_estimate_longer(trained, monkeypatch):
    runs, real = [], Run.run
    monkeypatch.setattr(Run, "run", lambda cell, *given: runs.append(cell) or real(cell, *given))
    wide = {"cores": (1, 8, 100), "seed": tuple(range(10)), "episodes": LONG}
    estimates.estimate(combine(SETTINGS | wide))
    assert len(runs) <= 3  # compiling, a first and a second run, for all of a size
    kinds = 1 + 2 * 3  # beginning; updates and rounds for each number of cores
    assert len(trained) <= 2 * kinds
    most = 1.1 * estimates.PROBE_UPDATES
    assert max(rows * schedule.episodes for rows, schedule in trained) <= most


@pytest.mark.parametrize("cores", [1, 100, 1_000])
def test_a_probe_has_chunks_as_long_as_the_run_s(trained, monkeypatch, cores):
    """Random access to all of a data set's records takes many times that to a few."""
    monkeypatch.setattr(estimates, "available_threads", lambda: 1)
    estimates.estimate([Run(**SETTINGS, sampling="RAN", cores=cores)])
    rows, schedule = trained[-1]
    assert schedule.cores == min(cores, estimates.CORES_A_THREAD)
    assert rows // schedule.cores == ROWS // cores


@pytest.mark.slow  # compares times
def test_with_early_exit_a_probe_has_the_run_s_rounds(trained):
    """How much is left out depends on them; 20,000 rows are at rest after a few of a round's 50 passes."""
    given = SETTINGS | {"cores": 1, "episodes": 20_000}
    whole, _ = estimates.estimate([Run(**given)])
    early, _ = estimates.estimate([Run(**given, backend_options={"early_exit": True})])
    assert [schedule.rounds for _, schedule in trained if schedule.tau == 50][-1] == [
        50
    ] * estimates.EARLY_ROUNDS
    assert early < whole / 3


@pytest.mark.slow  # compares times
def test_an_estimate_grows_with_updates_rounds_and_data_sets():
    def seconds(**settings) -> float:
        return estimates.estimate(combine(SETTINGS | {"cores": 100} | settings))[0]

    assert 5 < seconds(episodes=20_000) / seconds(episodes=2_000) < 20
    assert seconds(episodes=2_000, tau=1) > 1.2 * seconds(episodes=2_000)
    assert 5 < seconds(seed=list(range(10))) / seconds() < 20


@pytest.mark.slow  # compares times
def test_the_exact_solution_takes_as_long_for_any_number_of_episodes():
    once, often = (
        estimates.estimate([Run(**SETTINGS | {"backend": "exact", "cores": 1, "episodes": episodes})])[0]
        for episodes in (50, LONG)
    )
    assert once / 5 < often < once * 5
