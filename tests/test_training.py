"""The round loop: what each core sees, how often, and where the time is booked."""

import itertools
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.backend import Problem, Round, open_backend
from swiftrl_core.data import Dataset, collect
from swiftrl_core.learner import Learner
from swiftrl_core.learner.chunks import split
from swiftrl_core.training import aggregation, synchronisation
from swiftrl_core.training import loop as training
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

BACKENDS = ["cpu", "pim"]


def one_reward_per_state(rows: int) -> Dataset:
    """State i is visited by transition i alone, earns 1 and ends: with alpha 1/2, Q(i) = 1 - 2^-visits."""
    index = np.arange(rows, dtype=np.int32)
    ends = np.ones(rows, bool)
    return Dataset(
        state=index,
        action=np.zeros(rows, np.int32),
        reward=np.ones(rows, np.float32),
        next_state=index,
        terminated=ends,
        truncated=~ends,
        episode=index,
        n_states=rows,
        n_actions=1,
    )


def visits(q: np.ndarray) -> np.ndarray:
    return np.rint(-np.log2(1 - q.ravel().astype(np.float64))).astype(int)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sampling", ["SEQ", "STR"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 255, 256, 257, 1021])
def test_a_pass_meets_every_transition_once(backend, sampling, rows):
    learner = Learner(sampling=sampling, alpha=0.5)
    learned = train(one_reward_per_state(rows), learner, Schedule(1, 2, 1), backend)
    assert visits(learned.q_table).tolist() == [2] * rows


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_sampling_draws_with_replacement_and_goes_on_where_it_stopped(backend):
    rows = 1000
    data, learner = one_reward_per_state(rows), Learner(sampling="RAN", alpha=0.5)
    once = train(data, learner, Schedule(1, 1, 1, seed=3), backend)
    counts = visits(once.q_table)
    assert counts.sum() == rows
    assert abs(np.count_nonzero(counts) / rows - (1 - np.exp(-1))) < 0.05
    many = train(data, learner, Schedule(1, 8, 1, seed=3), backend)  # 8 launches of one pass
    assert np.count_nonzero(many.q_table) > 0.99 * rows  # the same 63 % for ever if each launch started anew
    at_once = train(data, learner, Schedule(1, 8, 8, seed=3), backend)
    np.testing.assert_array_equal(many.q_raw, at_once.q_raw)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cores_draw_differently(backend):
    """Two cores with equal chunks and one generator each would learn equal tables."""
    data = collect("frozenlake", 400, seed=2)
    twice = Dataset(
        **{name: np.concatenate([column, column]) for name, column in data.columns.items()},
        n_states=16,
        n_actions=4,
    )
    learner = Learner(sampling="RAN")
    machine = open_backend(backend, Problem(learner, 16, 4, seed=9), 2)
    machine.load(split(twice, learner, 2))
    tables = machine.run_round(np.zeros(64, np.float32), 3).tables.copy()
    machine.close()
    assert not np.array_equal(tables[0], tables[1])


@given(rows=st.integers(1, 500), cores=st.integers(1, 500))
def test_chunks_are_contiguous_lose_nothing_and_the_first_are_longer(rows, cores):
    data, learner = one_reward_per_state(rows), Learner()
    if cores > rows:
        with pytest.raises(SwiftRLError, match=f"{cores} cores for {rows} transitions"):
            split(data, learner, cores)
        return
    chunks = split(data, learner, cores)
    joined = np.concatenate([chunks.chunk(core) for core in range(cores)])
    np.testing.assert_array_equal(joined, chunks.records)
    longer = rows % cores
    assert chunks.lengths.tolist() == [rows // cores + 1] * longer + [rows // cores] * (cores - longer)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_is_its_rounds_one_after_another(backend):
    """`train` against the same steps written out: broadcast, learn, average."""
    data = collect("taxi", 3_001, seed=4)
    learner = Learner("sarsa", "RAN", "INT32", reward_range=data.reward_range)
    schedule = Schedule(cores=5, episodes=7, tau=3, seed=8)
    machine = open_backend(backend, Problem(learner, 500, 6, seed=8), 5)
    machine.load(split(data, learner, 5))
    table = np.zeros(3000, np.int32)
    for episodes in (3, 3, 1):
        table = aggregation.mean(machine.run_round(table, episodes).tables)
    machine.close()
    result = train(data, learner, schedule, backend)
    assert schedule.rounds == [3, 3, 1]
    assert (result.rounds, result.updates) == (3, 7 * 3_001)
    np.testing.assert_array_equal(result.q_raw.ravel(), table)
    np.testing.assert_allclose(result.q_table, result.q_raw / 1e4, rtol=1e-6)


def test_the_four_parts_add_up_and_carry_their_evidence():
    data, learner = collect("frozenlake", 2_000, seed=1), Learner()
    simulated = train(data, learner, Schedule(8, 6, 2), "pim").breakdown
    measured = train(data, learner, Schedule(8, 6, 2), "cpu").breakdown
    assert (simulated.evidence, measured.evidence) == ("simulated", "measured")
    for parts in (simulated, measured):
        four = (parts.cpu_to_pim, parts.pim_kernel, parts.inter_pim_core, parts.pim_to_cpu)
        assert parts.total == pytest.approx(sum(four))
        assert 0 < parts.host_averaging <= parts.inter_pim_core + parts.pim_to_cpu
        assert parts.pim_kernel > 0
    assert min(four for four in asdict(simulated).values() if isinstance(four, float)) > 0


def times_of(number):
    """Table down, kernel, tables up, averaging, preparing: the times of a round, powers of two of its own."""
    return (2.0 ** (5 * number + part) for part in range(1, 6))


class Ledger:
    """A backend whose every time is a power of two of its own, so that a sum shows what was booked into it."""

    name = "ledger"
    evidence = "measured"

    def __init__(self):
        self.made = 0

    def load(self, chunks):
        return 1.0

    def run_round(self, table, episodes, targets):
        down, kernel, up, _, _ = times_of(self.made)
        self.made += 1
        return Round(table[np.newaxis], down, kernel, up, executed_updates=10 * self.made)

    def describe(self):
        return {"name": "ledger"}

    def close(self):
        pass


class AveragingLedger(Ledger):
    """The same for a backend that averages by itself, so that there is nothing to prepare."""

    def run_averaged_round(self, table, episodes):
        *_, averaging, _ = times_of(self.made)
        done = self.run_round(table, episodes, None)
        return replace(done, averaging_s=averaging)


class Host:
    """Synchronises at the times of the rounds."""

    def __init__(self, problem):
        self.made = 0

    def load(self, chunks):
        return 0.5  # of counting the data

    def targets(self, table):
        *_, preparing = times_of(self.made)
        return None, preparing

    def combine(self, tables, old):
        *_, averaging, _ = times_of(self.made)
        self.made += 1
        return tables[0], averaging


@pytest.mark.parametrize("ledger", [Ledger, AveragingLedger])
def test_every_time_is_booked_once_and_where_the_paper_books_it(monkeypatch, ledger):
    """Three rounds; those of round i are 2^(5 i + 1 .. 5): table down, kernel, tables up, averaging, preparing."""
    monkeypatch.setattr(training, "open_backend", lambda *_, **__: ledger())
    monkeypatch.setattr(training, "Synchronisation", Host)
    result = train(one_reward_per_state(100), Learner(), Schedule(1, 5, 2), "cpu")
    down, kernel, up, averaging, preparing = (
        [2.0 ** (5 * i + part) for i in range(3)] for part in range(1, 6)
    )
    if ledger is AveragingLedger:
        preparing = [0, 0, 0]
    parts = result.breakdown
    assert parts.cpu_to_pim == 1 + 0.5 + down[0] + preparing[0]
    assert parts.pim_kernel == sum(kernel)
    assert parts.inter_pim_core == sum(down[1:] + preparing[1:] + up[:2] + averaging[:2])
    assert parts.pim_to_cpu == up[2] + averaging[2]
    assert parts.host_averaging == 0.5 + sum(averaging + preparing)
    assert result.executed_updates == 10 + 20 + 30


@pytest.mark.parametrize(
    ("choices", "counted"),
    [({}, 0), ({"aggregation": "count"}, 1), ({"update": "vr", "aggregation": "visited"}, 1)],
)
def test_the_host_counts_on_its_clock_what_the_learner_needs(monkeypatch, choices, counted):
    ticks = itertools.count()
    monkeypatch.setattr(synchronisation, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    data, learner = one_reward_per_state(20), Learner(**choices)
    host = synchronisation.Synchronisation(Problem(learner, 20, 1))
    assert host.load(split(data, learner, 4)) == counted


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_sarsa_explores_as_often_as_epsilon(backend, epsilon):
    """All states lead to the last, where action 0 is worth 1 and action 1 nothing: epsilon / 2 of the draws take it.

    With alpha and gamma 1, the entry of a state becomes the value of the action that its one transition drew.
    """
    states, cores, last = 1000, 4, 1000
    states_of_all = np.tile(np.arange(states, dtype=np.int32), cores)
    rows = len(states_of_all)
    going = replace(
        one_reward_per_state(rows),
        state=states_of_all,
        reward=np.zeros(rows, np.float32),
        next_state=np.full(rows, last, np.int32),
        terminated=np.zeros(rows, bool),
        truncated=np.ones(rows, bool),
        n_states=states + 1,
        n_actions=2,
    )
    learner = Learner("sarsa", alpha=1.0, gamma=1.0, epsilon=epsilon)
    machine = open_backend(backend, Problem(learner, states + 1, 2, seed=7), cores)
    machine.load(split(going, learner, cores))
    table = np.zeros((states + 1, 2), np.float32)
    table[last, 0] = 1
    tables = machine.run_round(table.ravel(), 1).tables.reshape(cores, states + 1, 2).copy()
    machine.close()
    explored = rows - np.count_nonzero(tables[:, :states, 0])
    expected = rows * epsilon / 2
    assert abs(explored - expected) < 4 * np.sqrt(expected * (1 - epsilon / 2))


def test_simulated_times_repeat_exactly_but_for_the_averaging_that_was_measured():
    data, learner = collect("frozenlake", 2_000, seed=1), Learner(number_format="INT32")
    first, again = (train(data, learner, Schedule(8, 6, 2), "pim").breakdown for _ in range(2))
    assert (first.cpu_to_pim, first.pim_kernel) == (again.cpu_to_pim, again.pim_kernel)


def test_on_round_sees_every_averaged_table():
    data, seen = collect("frozenlake", 2_000, seed=1), []
    result = train(data, Learner(), Schedule(4, 5, 2), "cpu", on_round=lambda n, q: seen.append((n, q)))
    assert [episodes for episodes, _ in seen] == [2, 2, 1]
    np.testing.assert_array_equal(seen[-1][1], result.q_table)


@pytest.mark.parametrize(
    ("wrong", "needle"),
    [
        ({"cores": 0}, "cores is 0"),
        ({"episodes": 0}, "episodes is 0"),
        ({"tau": 1.5}, "tau is 1.5; expected a whole number of at least 1"),
        ({"episodes": 2**32, "tau": 2**31}, "episodes is 4294967296"),
        ({"episodes": 20_000_001, "tau": 2}, "make 10,000,001 rounds"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(wrong, needle):
    with pytest.raises(SwiftRLError, match=needle):
        Schedule(**wrong)


def test_rewards_outside_the_learners_range_are_refused():
    data = collect("taxi", 100, seed=1)
    with pytest.raises(SwiftRLError, match="outside the learner's reward_range"):
        train(data, Learner(number_format="INT32"), Schedule(1, 1, 1), "cpu")


@pytest.mark.parametrize("reward", [-0.5, 1.5])
def test_a_reward_on_either_side_of_the_range_is_refused(reward):
    data = one_reward_per_state(3)
    outside = replace(data, reward=np.array([0, reward, 1], np.float32))
    with pytest.raises(SwiftRLError, match="outside the learner's reward_range"):
        train(outside, Learner(reward_range=(0.0, 1.0)), Schedule(1, 1, 1), "cpu")


@pytest.mark.parametrize(
    ("states", "actions", "fits"), [(32_768, 2, True), (32_769, 1, False), (32_768, 3, False)]
)
def test_a_record_holds_as_many_states_and_pairs_as_its_bits(states, actions, fits):
    last = replace(
        one_reward_per_state(1),
        n_states=states,
        n_actions=actions,
        state=np.array([states - 1], np.int32),
        next_state=np.array([states - 1], np.int32),
        action=np.array([actions - 1], np.int32),
        terminated=np.array([False]),
    )
    if not fits:
        with pytest.raises(SwiftRLError, match="do not fit an 8-byte record"):
            split(last, Learner(), 1)
        return
    (step,) = split(last, Learner(), 1).records["step"].tolist()
    assert (step & 0xFFFF, step >> 16 & 0x7FFF, step >> 31) == (states * actions - 1, states - 1, 0)


def test_a_table_too_large_for_wram_is_refused_by_pim_only():
    data = replace(one_reward_per_state(100), n_states=20_000)
    with pytest.raises(SwiftRLError, match=r"takes 80,000 bytes, but a DPU's WRAM has room for"):
        train(data, Learner(), Schedule(1, 1, 1), "pim")
    assert train(data, Learner(), Schedule(1, 1, 1), "cpu").q_table.shape == (20_000, 1)


def test_an_unknown_backend_is_refused():
    with pytest.raises(SwiftRLError, match="backend is 'tpu': choose one of"):
        train(one_reward_per_state(3), Learner(), Schedule(1, 1, 1), "tpu")
