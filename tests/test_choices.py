"""Beyond the paper: aggregation, update, alpha schedule and REV, against plain Python, on every backend, in bytes."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import reference
from host_gpu import HostGpu
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_cpu_engine import assert_same_bits, chunks_of, expected, records_of
from test_fixed_point_error import random_data

from swiftrl_core import backend as backends
from swiftrl_core.backend import Problem, open_backend
from swiftrl_core.backends.cpu import backend as cpu
from swiftrl_core.backends.exact import empirical_fixed_point
from swiftrl_core.backends.gpu.backend import GpuBackend
from swiftrl_core.backends.gpu.kernels import Tables
from swiftrl_core.data import collect
from swiftrl_core.learner import AlphaSchedule, Learner, NumberFormat, Update
from swiftrl_core.learner.chunks import split
from swiftrl_core.training import aggregation
from swiftrl_core.training import loop as training
from swiftrl_core.training.counting import Counter
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.training.synchronisation import BellmanTargets, state_values
from swiftrl_core.util.errors import SwiftRLError

BEYOND = [
    {"update": "vr"},
    {"alpha_schedule": "rescaled_linear"},
    {"update": "vr", "alpha_schedule": "rescaled_linear"},
]
BUILDS = list(itertools.product(["SEQ", "RAN"], NumberFormat, BEYOND))
SETTINGS = st.fixed_dictionaries(
    {
        "lengths": st.lists(st.integers(1, 14), min_size=1, max_size=40),
        "episodes": st.integers(1, 3),
        "alpha": st.sampled_from([0.1, 0.25, 0.9, 1.0, 0.0123]),
        "gamma": st.sampled_from([0.95, 0.5, 0.8]),
        "seed": st.integers(0, 2**32 - 1),
    }
)
EXAMPLE = {"lengths": [9] * 7 + [8] * 60, "episodes": 3, "alpha": 0.1, "gamma": 0.95, "seed": 1}


def name_of(build) -> str:
    sampling, number_format, beyond = build
    return "-".join([sampling, number_format, *beyond.values()])


@pytest.mark.parametrize("build", BUILDS, ids=name_of)
@settings(max_examples=8)
@given(case=SETTINGS)
@example(case=EXAMPLE)
def test_a_round_equals_plain_python(build, case):
    """Lanes, or one core after another where alpha falls; from any table, towards any targets."""
    sampling, number_format, beyond = build
    learner = Learner(
        "q_learning",
        sampling,
        number_format,
        case["alpha"],
        case["gamma"],
        reward_range=(-1.0, 1.0),
        **beyond,
    )
    rng = np.random.default_rng(case["seed"])
    shape = (7, 6) if number_format == NumberFormat.FP32 else (16, 4)
    chunks = chunks_of(records_of(learner, shape, sum(case["lengths"]), rng), case["lengths"])
    problem = Problem(learner, *shape, seed=case["seed"])
    table, targets = (learner.to_raw(rng.uniform(-1, 1, problem.entries)) for _ in range(2))
    machine = open_backend("cpu", problem, chunks.cores, threads=2)
    machine.load(chunks)
    got = machine.run_round(table, case["episodes"], targets if learner.update == Update.VR else None)
    machine.close()
    args = problem.arguments(chunks)
    wanted = [
        reference.train_core(
            learner, shape[1], args[core], table, chunks.chunk(core), case["episodes"], targets
        )[0]
        for core in range(chunks.cores)
    ]
    assert_same_bits([got.tables], [np.stack(wanted)])


@pytest.mark.parametrize("number_format", NumberFormat)
@given(
    rows=st.integers(1, 200),
    gamma=st.sampled_from([0.95, 0.5, 0.0]),
    shape=st.sampled_from([(3, 1), (5, 4), (4, 3)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_targets_equal_plain_python(number_format, rows, gamma, shape, seed):
    learner = Learner(number_format=number_format, gamma=gamma, reward_range=(-1.0, 1.0), update="vr")
    rng = np.random.default_rng(seed)
    records = records_of(learner, shape, rows, rng)
    table = learner.to_raw(rng.uniform(-1, 1, shape[0] * shape[1]))
    problem = Problem(learner, *shape)
    got = BellmanTargets(problem, Counter(problem).outcomes(records)).of(table)
    wanted = reference.bellman_targets(learner, shape[1], table, records)
    assert_same_bits([got], [wanted])


@pytest.mark.parametrize("number_format", NumberFormat)
@pytest.mark.parametrize("kind", ["mean", "visited", "count"])
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=20),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_aggregation_equals_plain_python(number_format, kind, lengths, scale, seed):
    learner = Learner(number_format=number_format, reward_range=(-1.0, 1.0), aggregation=kind)
    rng = np.random.default_rng(seed)
    chunks = chunks_of(records_of(learner, (4, 2), sum(lengths), rng), lengths)
    tables, old = (learner.to_raw(rng.uniform(-scale, scale, s)) for s in ((len(lengths), 8), 8))
    host = training.Synchronisation(Problem(learner, 4, 2))
    host.load(chunks)
    each = [chunks.chunk(core) for core in range(chunks.cores)]
    combined, seconds = host.combine(tables, old)
    assert seconds > 0
    assert_same_bits([combined], [reference.combined(learner, tables, old, each)])


def test_state_values_are_those_of_the_kernel_zeros_of_both_signs_included():
    table = np.array([-0.0, 0.0, 0.0, -0.0, -3, -2, 5, 5], np.float32)
    assert_same_bits([state_values(table, 2)], [np.array([-0.0, 0.0, -2, 5], np.float32)])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.sampled_from(["FP32", "INT32"]))
@settings(max_examples=10)
def test_rev_is_seq_over_data_whose_chunks_lie_the_other_way_round(lengths, number_format):
    data = random_data(sum(lengths), sum(lengths), states=4, actions=2, scale=1.0)
    learner = Learner(sampling="REV", number_format=number_format, reward_range=data.reward_range)
    cores = len(lengths)
    chunks = split(data, learner, cores)
    forwards = split(data, replace(learner, sampling="SEQ"), cores)
    for core in range(cores):
        np.testing.assert_array_equal(chunks.chunk(core), forwards.chunk(core)[::-1])
    problem = Problem(learner, 4, 2)
    machine = open_backend("cpu", problem, cores)
    machine.load(chunks)
    table = np.zeros(8, learner.dtype)
    assert_same_bits([machine.run_round(table, 2).tables], expected(problem, chunks, table, [2])[0])
    machine.close()


# --- backends ---------------------------------------------------------------------------------------------

GRID = [
    {"update": "vr", "aggregation": "count", "sampling": "REV", "number_format": "INT32"},
    {"update": "vr", "aggregation": "visited", "sampling": "RAN", "number_format": "FP32"},
    {"update": "vr", "aggregation": "count", "sampling": "STR", "number_format": "INT32_POW2"},
    {"update": "vr", "alpha_schedule": "rescaled_linear", "sampling": "REV", "number_format": "FP32"},
    {"update": "vr", "alpha_schedule": "rescaled_linear", "sampling": "RAN", "number_format": "INT32_POW2"},
    {"alpha_schedule": "rescaled_linear", "algorithm": "sarsa", "number_format": "INT32"},
    {"aggregation": "count", "algorithm": "sarsa", "sampling": "RAN", "number_format": "FP32"},
]


@pytest.fixture(scope="module")
def frozenlake():
    return collect("frozenlake", 2_609, seed=3)


@pytest.fixture(scope="module")
def taxi():
    return collect("taxi", 2_609, seed=4)


@pytest.fixture(params=[Tables.IN_SHARED_MEMORY, Tables.IN_GLOBAL_MEMORY])
def gpu_on_host(request, monkeypatch):
    """Let `train(..., "gpu")` run the GPU's kernels on the host."""

    def open_backend(name, problem, cores, **options):
        if name != "gpu":
            return backends.open_backend(name, problem, cores, **options)
        return GpuBackend(problem, cores, HostGpu(shared_limit=1 << 20), request.param)

    monkeypatch.setattr(training, "open_backend", open_backend)


def trained(data, choices, backend, schedule, **options):
    learner = Learner(reward_range=data.reward_range, **choices)
    return train(data, learner, schedule, backend, **options)


def assert_all_equal(data, choices, schedule, names):
    tables = [trained(data, choices, name, schedule).q_raw for name in names]
    assert np.any(tables[0]), "a table that never left zero proves nothing"
    assert_same_bits(tables[1:], [tables[0]] * (len(tables) - 1))


@pytest.mark.parametrize("choices", GRID, ids=lambda choices: "-".join(choices.values()))
def test_all_backends_give_the_same_bits(frozenlake, gpu_on_host, choices):
    names = ["cpu", "pim", "gpu", "cpu-local"]
    assert_all_equal(frozenlake, choices, Schedule(33, 5, 2, seed=5), names)
    assert_all_equal(frozenlake, choices, Schedule(3, 2, 1), names[:3])


@pytest.mark.parametrize("choices", GRID[1:4], ids=lambda choices: "-".join(choices.values()))
def test_all_backends_give_the_same_bits_on_taxi(taxi, gpu_on_host, choices):
    assert_all_equal(taxi, choices, Schedule(40, 4, 2), ["cpu", "pim", "gpu"])


@pytest.mark.parametrize("number_format", NumberFormat)
def test_sampled_dpus_are_checked_in_update_vr_too(frozenlake, number_format):
    choices = {"update": "vr", "aggregation": "count", "number_format": number_format}
    schedule = Schedule(20, 4, 2)
    every = trained(frozenlake, choices, "pim", schedule)
    some = trained(frozenlake, choices, "pim", schedule, simulated_dpus=2)
    assert_same_bits([some.q_raw], [every.q_raw])
    assert some.breakdown.host_averaging > 0
    paper = trained(frozenlake, {"number_format": number_format}, "pim", schedule, simulated_dpus=2)
    assert some.breakdown.cpu_to_pim > paper.breakdown.cpu_to_pim


def test_early_exit_in_update_vr_changes_no_bit(frozenlake):
    choices = {
        "update": "vr",
        "aggregation": "count",
        "sampling": "REV",
        "number_format": "INT32",
        "alpha": 0.5,
    }
    full = trained(frozenlake, choices, "cpu", Schedule(40, 400, 200))
    short = trained(frozenlake, choices, "cpu", Schedule(40, 400, 200), early_exit=True)
    assert_same_bits([short.q_raw], [full.q_raw])
    assert short.executed_updates < full.executed_updates


# --- what the choices mean --------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["SEQ", "REV", "RAN"])
@pytest.mark.parametrize("kind", ["mean", "visited", "count"])
@given(seed=st.integers(0, 2**32 - 1), cores=st.integers(1, 30), tau=st.integers(1, 5))
@settings(max_examples=6)
def test_the_fixed_point_of_vr_is_the_model_s(sampling, kind, seed, cores, tau):
    """Whatever the chunks: rounds that start there stay there."""
    data = random_data(seed, rows=120, states=5, actions=2, scale=1.0)
    solved = empirical_fixed_point(data, 0.95)
    for number_format, off in (("FP32", 1e-4), ("INT32", 1 / 500), ("INT32_POW2", 1 / 400)):
        learner = Learner(
            "q_learning", sampling, number_format, 0.5, reward_range=data.reward_range,
            update="vr", aggregation=kind,
        )  # fmt: skip
        problem, chunks = Problem(learner, 5, 2), split(data, learner, cores)
        host, machine = training.Synchronisation(problem), open_backend("cpu", problem, cores)
        host.load(chunks)
        machine.load(chunks)
        table = learner.to_raw(solved.ravel())
        for _ in range(5):
            targets, _ = host.targets(table)
            table, _ = host.combine(machine.run_round(table, tau, targets).tables, table)
        machine.close()
        assert np.abs(learner.to_values(table) - solved.ravel()).max() <= off * (
            1 + np.abs(solved).max() / 20
        )


@pytest.mark.parametrize("number_format", NumberFormat)
def test_vr_learns_the_model_s_fixed_point_where_td_overestimates(number_format):
    data = collect("frozenlake", 20_000, seed=1)
    solved, schedule = empirical_fixed_point(data, 0.95), Schedule(200, 80, 2)
    choices = {"number_format": number_format, "aggregation": "count", "sampling": "REV"}
    td = trained(data, choices | {"alpha": 0.5}, "cpu", schedule)
    vr = trained(data, choices | {"update": "vr", "alpha_schedule": "rescaled_linear"}, "cpu", schedule)
    assert np.abs(vr.q_table - solved).max() < 0.003
    assert np.abs(td.q_table - solved).max() > 0.1


def test_counting_knows_the_last_of_65_536_pairs():
    learner = Learner(reward_range=(-1.0, 1.0))
    records = records_of(learner, (16_384, 4), 5_000, np.random.default_rng(3))
    records["step"][-9:] |= 0xFFFF
    pairs = records["step"] & 0xFFFF
    counter = Counter(Problem(learner, 16_384, 4))
    visits = counter.visits(chunks_of(records, [2_000, 3_000]))
    wanted = [np.bincount(own, minlength=65_536) for own in (pairs[:2_000], pairs[2_000:])]
    np.testing.assert_array_equal(visits, wanted)
    np.testing.assert_array_equal(counter.outcomes(records).visits, np.bincount(pairs, minlength=65_536))


def test_a_core_that_saw_nothing_does_not_hold_the_others_back():
    data = random_data(0, rows=40, states=10, actions=2, scale=1.0)
    problem = Problem(Learner(reward_range=data.reward_range), 10, 2)
    chunks = split(data, problem.learner, 8)
    counted = Counter(problem).visits(chunks)
    assert counted.sum() == 40
    pairs = data.state * 2 + data.action
    np.testing.assert_array_equal(counted.sum(axis=0), np.bincount(pairs, minlength=20))
    tables = np.where(counted > 0, 7, 1).astype(np.float32)
    old = np.full(20, 1, np.float32)
    merged = aggregation.weighted(tables, counted, old)
    np.testing.assert_array_equal(merged, np.where(counted.sum(axis=0) > 0, 7, 1))


def test_alpha_falls_by_its_schedule_and_starts_anew_with_each_round():
    """One pair, reward 1, termination: after n updates 1 - Q is the product of 1 - alpha."""
    data = random_data(0, rows=6, states=1, actions=1, scale=1.0)
    data = replace(
        data, reward=np.ones(6, np.float32), terminated=np.ones(6, bool), truncated=np.zeros(6, bool)
    )
    learner = Learner(alpha_schedule="rescaled_linear", gamma=0.5)
    one = np.prod([1 - 1 / (1 + 0.5 * n) for n in range(1, 13)])
    assert 1 - train(data, learner, Schedule(1, 2, 2), "cpu").q_table.item() == pytest.approx(one, abs=1e-7)
    two = np.prod([1 - 1 / (1 + 0.5 * n) for n in range(1, 7)]) ** 2
    assert 1 - train(data, learner, Schedule(1, 2, 1), "cpu").q_table.item() == pytest.approx(two, abs=1e-7)


@pytest.mark.parametrize("backend", ["cpu", "pim"])
@pytest.mark.parametrize("bootstrap", ["current", "frozen"])
def test_alpha_does_not_return_to_one(backend, bootstrap):
    """One pair, rewards 0 and 1 in turn: Q approaches 1/2 by ever smaller steps.

    After 65,535 updates, the most that 16 bits count, a count from 0 again would take the next rewards at 2/3 and 1/2.
    """
    data = replace(
        random_data(0, rows=2, states=1, actions=1, scale=1.0),
        reward=np.array([0, 1], np.float32),
        terminated=np.ones(2, bool),
        truncated=np.zeros(2, bool),
    )
    learner = Learner(alpha_schedule="rescaled_linear", gamma=0.5, bootstrap=bootstrap)
    episodes = 2**15 + 1
    got = train(data, learner, Schedule(1, episodes, episodes), backend).q_table.item()
    assert got == pytest.approx(0.5, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "pim"])
@pytest.mark.parametrize("number_format", NumberFormat)
def test_alpha_stops_falling_where_its_count_ends(backend, number_format):
    """70,000 updates of one pair: past 65,535, on the reference as well."""
    data = random_data(3, rows=70, states=1, actions=1, scale=1.0)
    learner = Learner(
        number_format=number_format,
        gamma=0.5,
        alpha_schedule="rescaled_linear",
        reward_range=data.reward_range,
    )
    got = train(data, learner, Schedule(1, 1000, 1000), backend).q_raw
    problem, chunks = Problem(learner, 1, 1), split(data, learner, 1)
    table = np.zeros(1, learner.dtype)
    wanted, _, _ = reference.train_core(learner, 1, problem.arguments(chunks)[0], table, chunks.records, 1000)
    assert_same_bits([got.ravel()], [wanted])


def test_bytes_of_a_round(frozenlake):
    table = 64 * 4
    for choices, down in (
        ({}, 10 * table),
        ({"update": "vr"}, 2 * 10 * table),
        ({"aggregation": "count"}, 10 * table),
    ):
        result = trained(frozenlake, choices, "cpu", Schedule(10, 3, 1))
        assert (result.round_bytes_down, result.round_bytes_up) == (down, 10 * table)


# --- what cannot be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "needle"),
    [
        ({"update": "vr", "algorithm": "sarsa"}, "update vr does not apply to sarsa"),
        ({"alpha_schedule": "rescaled_linear", "gamma": 1.0}, "never falls"),
        ({"aggregation": "median"}, "aggregation is 'median': choose one of mean, visited, count"),
        ({"update": "sgd"}, "update is 'sgd': choose one of td, vr"),
        ({"alpha_schedule": "cosine"}, "choose one of constant, rescaled_linear"),
        ({"sampling": "ODD"}, "choose one of SEQ, STR, RAN, REV"),
        (
            {
                "alpha_schedule": "rescaled_linear",
                "gamma": 0.99,
                "number_format": "INT32",
                "reward_range": (-100, 0),
            },
            "INT32 cannot hold",
        ),
        (
            {"update": "vr", "alpha": 0.9999, "number_format": "INT32", "reward_range": (-1, 1)},
            "INT32 cannot hold",
        ),
    ],
)
def test_choices_that_do_not_go_together_are_refused(choices, needle):
    with pytest.raises(SwiftRLError, match=needle):
        Learner(**choices)


@pytest.mark.parametrize("backend", ["cpu-shared", "gpu-shared", "exact"])
@pytest.mark.parametrize(
    "choice", [{"aggregation": "count"}, {"update": "vr"}, {"alpha_schedule": "rescaled_linear"}]
)
def test_baselines_refuse_what_they_do_not_have(frozenlake, backend, choice):
    (name,) = choice
    with pytest.raises(
        SwiftRLError, match=f"^{name} .* does not apply to backend {backend}: use .*, or one of"
    ):
        trained(frozenlake, choice, backend, Schedule(1, 1, 1))


def test_early_exit_is_refused_where_alpha_falls():
    problem = Problem(Learner(alpha_schedule="rescaled_linear"), 16, 4)
    with pytest.raises(SwiftRLError, match="early_exit does not apply to alpha_schedule rescaled_linear"):
        open_backend("cpu", problem, 8, early_exit=True)


def test_what_stands_beside_the_table_needs_room_in_wram():
    data = replace(random_data(0, 50, states=5, actions=2, scale=1.0), n_states=4_000)
    assert trained(data, {}, "pim", Schedule(1, 1, 1)).q_table.shape == (4_000, 2)
    with pytest.raises(SwiftRLError, match=r"with the learner's other arrays, takes 80,000 bytes, but a DPU"):
        trained(data, {"update": "vr"}, "pim", Schedule(1, 1, 1))


@pytest.mark.parametrize("number_format", ["INT32", "INT32_POW2"])
def test_a_run_that_diverges_stops_before_a_product_overflows(number_format):
    learner = Learner(number_format=number_format, update="vr", reward_range=(-1.0, 1.0))
    records = records_of(learner, (5, 2), 50, np.random.default_rng(0))
    problem = Problem(learner, 5, 2)
    host = BellmanTargets(problem, Counter(problem).outcomes(records))
    far = int(learner.coefficients.largest_gap)
    host.of(np.full(10, far // 2, np.int32))
    table = np.zeros(10, np.int32)
    table[records["step"][0] % 2**16] = 2 * far
    with pytest.raises(SwiftRLError, match="update vr diverges"):
        host.of(table)


@pytest.mark.parametrize("number_format", NumberFormat)
@pytest.mark.parametrize("schedule", AlphaSchedule)
@given(
    low=st.sampled_from([-200.0, -10.0, -1.0, 0.0]),
    high=st.sampled_from([0.0, 1.0, 20.0, 300.0]),
    alpha=st.sampled_from([0.01, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=10)
def test_no_product_overflows_where_a_learner_was_accepted(number_format, schedule, low, high, alpha, seed):
    """From the worst table that the host lets pass, against integers without limits."""
    try:
        learner = Learner(
            "q_learning", "SEQ", number_format, alpha, reward_range=(low, high),
            update="vr", alpha_schedule=schedule,
        )  # fmt: skip
    except SwiftRLError:
        return
    rng = np.random.default_rng(seed)
    lengths = [6] * 5
    problem = Problem(learner, 3, 2)
    chunks = chunks_of(records_of(learner, (3, 2), 30, rng), lengths)
    gap = 1e6 if number_format == NumberFormat.FP32 else learner.coefficients.largest_gap
    table = rng.integers(-1000, 1000, 6).astype(learner.dtype)
    targets = (table + np.floor(rng.choice([-1, 1], 6) * gap)).astype(learner.dtype)
    machine = cpu.open_backend(problem, 5)
    machine.load(chunks)
    got = machine.run_round(table, 20, targets).tables
    machine.close()
    args = problem.arguments(chunks)
    wanted = [
        reference.train_core(learner, 2, args[core], table, chunks.chunk(core), 20, targets)[0]
        for core in range(5)
    ]
    assert_same_bits([got], [np.stack(wanted)])
