"""Independent agents: every backend equals the plain Python reference in every bit, agent by agent."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import reference
from host_gpu import HostGpu
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import agents as multi_agent_bench
from swiftrl_core.backend import Evidence, Problem
from swiftrl_core.backends.cpu import agents as cpu_agents
from swiftrl_core.backends.gpu import backend as gpu_backend
from swiftrl_core.backends.pim import agents as pim_agents
from swiftrl_core.backends.pim import kernels, sampled
from swiftrl_core.data import Dataset, collect, environments, evaluation
from swiftrl_core.experiments import multi_agent as experiment
from swiftrl_core.experiments.multi_agent_probe import Agents, agreement, majority, spread
from swiftrl_core.learner import Algorithm, Learner, NumberFormat, Sampling
from swiftrl_core.learner.layout import KERNEL_DIRECTORY
from swiftrl_core.sweeps import results
from swiftrl_core.sweeps.manifest import write_agents
from swiftrl_core.training import aggregation
from swiftrl_core.training.agents import populate, train_agents
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import sha256_file

EPISODES, SEED = 2, 3
VARIANTS = [(a, s, f) for a in Algorithm for s in Sampling for f in NumberFormat]
IN_STEP = [("SEQ", "FP32"), ("SEQ", "INT32_POW2"), ("STR", "FP32"), ("STR", "INT32"), ("STR", "INT32_POW2")]
SHAPES = [(16, 4), (7, 6), (3, 1), (5, 11), (4, 18)]
"""States and actions: even and odd numbers of them, a row that is no choice, and some that are long."""


def random_data(shape, rows, seed=0):
    """Random transitions, a tenth of them terminal, with rewards of both signs."""
    rng = np.random.default_rng(seed)
    states, actions = shape
    return Dataset(
        state=rng.integers(0, states, rows, dtype=np.int32),
        action=rng.integers(0, actions, rows, dtype=np.int32),
        reward=rng.uniform(-1, 1, rows).astype(np.float32),
        next_state=rng.integers(0, states, rows, dtype=np.int32),
        terminated=rng.random(rows) < 0.1,
        truncated=np.zeros(rows, bool),
        episode=np.zeros(rows, np.int32),
        n_states=states,
        n_actions=actions,
    )


DATA = random_data((7, 6), 101)
"""A prime number of rows: blocks, strides and chunks all end in odd places."""


def learners_of(data, agents, **choices):
    """Agents that differ, with coefficients that fixed point can hold."""
    number = np.arange(agents)
    learner = Learner(**choices, reward_range=data.reward_range)
    return spread(learner, (1 + number % 23) / 25, (number % 19) / 20)


def expected(population):
    """Return the reference's tables (agents, entries)."""
    problem, tables = population.problem, []
    learner = problem.learner
    if learner.sampling == "REV":  # the population's records are turned round already
        learner = replace(learner, sampling="SEQ")
    zeros = np.zeros(problem.entries, problem.learner.dtype)
    for args, start in zip(population.args, population.starts, strict=True):
        records = population.records[start : start + args["transitions"]]
        trained = reference.train_core(learner, problem.n_actions, args, zeros, records, args["episodes"])
        tables.append(trained[0])
    return np.stack(tables)


def assert_same_bits(got, wanted):
    assert np.any(wanted), "tables that never left zero prove nothing"
    bits = [tables.reshape(len(tables), -1).view(np.uint32) for tables in (got, wanted)]
    np.testing.assert_array_equal(*bits)


@pytest.mark.parametrize("shared_data", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize(("algorithm", "sampling", "number_format"), VARIANTS)
def test_pim_and_cpu_equal_the_reference(algorithm, sampling, number_format, shared_data):
    learners = learners_of(DATA, 3, algorithm=algorithm, sampling=sampling, number_format=number_format)
    wanted = expected(populate(DATA, learners, EPISODES, SEED, shared_data=shared_data))
    for backend, options in (("cpu", {}), ("pim", {"agents_per_dpu": 2})):
        done = train_agents(DATA, learners, None, EPISODES, SEED, backend, shared_data=shared_data, **options)
        assert_same_bits(done.tables, wanted)
        assert done.updates == EPISODES * len(DATA) * (3 if shared_data else 1)


@pytest.mark.parametrize("number_format", NumberFormat)
@pytest.mark.parametrize("agents", [1, 3, 64])
@pytest.mark.parametrize("agents_per_dpu", [1, 2, 11, 16, 24])
def test_packing_agents_on_tasklets_changes_no_bit(agents, agents_per_dpu, number_format):
    learners = learners_of(DATA, agents, sampling="STR", number_format=number_format)
    wanted = train_agents(DATA, learners, episodes=1, backend="cpu").tables
    done = train_agents(DATA, learners, episodes=1, agents_per_dpu=agents_per_dpu)
    assert_same_bits(done.tables, wanted)
    assert done.machine["dpus"] == -(-agents // agents_per_dpu)


@pytest.mark.parametrize("agents_per_dpu", [1, 11])
def test_agents_with_chunks_of_their_own_pack_too(agents_per_dpu):
    learners = learners_of(DATA, 37, algorithm="sarsa", sampling="RAN", number_format="INT32")
    wanted = train_agents(DATA, learners, None, 3, SEED, "cpu", shared_data=False)
    done = train_agents(
        DATA, learners, None, 3, SEED, "pim", shared_data=False, agents_per_dpu=agents_per_dpu
    )
    assert_same_bits(done.tables, wanted.tables)


def run_lanes(engine, population, unit):
    """Train vector by vector group of `unit`, so that teams of all sizes come up."""
    tables = np.full((population.agents, population.problem.entries), 7, population.problem.learner.dtype)
    vectors = -(-population.agents // engine.lanes())
    for first in range(0, vectors, unit):
        status = engine.train_vectors(
            population.records.ctypes.data,
            len(population.records),
            population.args.ctypes.data,
            tables.ctypes.data,
            population.agents,
            first,
            min(first + unit, vectors),
        )
        assert status == 0
    return tables


@pytest.mark.parametrize(
    ("shape", "sampling", "number_format"),
    [(shape, "SEQ", "INT32") for shape in SHAPES] + [(SHAPES[1], *choice) for choice in IN_STEP],
)
@settings(max_examples=3)
@given(st.integers(1, 150), st.integers(1, 40), st.integers(1, 20), st.integers(0, 99))
def test_lanes_equal_the_reference(shape, sampling, number_format, agents, rows, unit, seed):
    data = random_data(shape, rows, seed)
    learners = learners_of(data, agents, sampling=sampling, number_format=number_format)
    population = populate(data, learners, EPISODES)
    got = run_lanes(cpu_agents.compile_lanes(population.problem), population, unit)
    np.testing.assert_array_equal(got.view(np.uint32), expected(population).view(np.uint32))


@pytest.mark.parametrize("flags", [["-DPLAIN_C"], ["-mcpu=x86_64_v3"]], ids=["portable", "AVX2"])
@pytest.mark.parametrize("number_format", NumberFormat)
def test_other_vectors_give_the_same_bits(number_format, flags):
    population = populate(DATA, learners_of(DATA, 71, number_format=number_format), EPISODES)
    native, other = (cpu_agents.compile_lanes(population.problem, extra) for extra in ((), flags))
    assert_same_bits(run_lanes(other, population, 64), run_lanes(native, population, 64))


def test_fixed_point_is_exact_where_products_are_large():
    """Rewards as large as the proof of the range allows, with an even and an odd denominator, and with none."""
    low, high = -3000.0, 4200.0
    data = random_data((5, 3), 200)
    rewards = np.random.default_rng(1).uniform(low, high, 200).astype(np.float32)
    columns = data.columns | {"reward": rewards}
    data = Dataset(**columns, n_states=5, n_actions=3)
    learner = Learner(number_format="INT32", gamma=0.5, reward_range=(low, high))
    pairs = [(1 / 3, 0.5), (0.5, 1 / 3), (1.0, 2 / 3), (0.1, 0.75), (1 / 7, 0.8), (0.25, 0.0)]
    learners = spread(learner, *zip(*pairs, strict=True))
    population = populate(data, learners, 20)
    assert max(each.coefficients.high * each.coefficients.gamma for each in learners) > 2**27
    assert_same_bits(train_agents(data, learners, episodes=20, backend="cpu").tables, expected(population))


def test_an_agent_learns_the_same_in_any_company():
    learners = learners_of(DATA, 40, number_format="FP32")
    together = train_agents(DATA, learners, episodes=EPISODES, backend="cpu").tables
    reversed_order = train_agents(DATA, learners[::-1], episodes=EPISODES, backend="cpu").tables
    alone = train_agents(DATA, learners[17], 1, EPISODES, backend="cpu").tables
    assert_same_bits(together[::-1], reversed_order)
    assert_same_bits(together[17:18], alone)
    assert len(np.unique(together.reshape(40, -1), axis=0)) == 40


def test_agents_that_draw_differ_by_their_number_alone():
    learner = Learner(sampling="RAN", reward_range=DATA.reward_range)
    first, again, other = (train_agents(DATA, learner, 5, 1, seed, "cpu").tables for seed in (0, 0, 1))
    assert_same_bits(first, again)
    assert len(np.unique(np.concatenate([first, other]).reshape(10, -1), axis=0)) == 10


@pytest.mark.parametrize("shared_data", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize("variant", [("q_learning", "SEQ", "FP32"), ("sarsa", "RAN", "INT32")], ids="-".join)
def test_gpu_kernels_equal_the_cpu(monkeypatch, variant, shared_data):
    monkeypatch.setattr(gpu_backend, "CudaDevice", HostGpu)
    monkeypatch.setattr("swiftrl_core.backends.gpu.agents.available", lambda: None)
    algorithm, sampling, number_format = variant
    learners = learners_of(
        DATA, 35, algorithm=algorithm, sampling=sampling, number_format=number_format
    )  # more than a warp
    cpu, gpu = (
        train_agents(DATA, learners, None, EPISODES, SEED, backend, shared_data=shared_data)
        for backend in ("cpu", "gpu")
    )
    assert_same_bits(gpu.tables, cpu.tables)
    assert gpu.breakdown.evidence == Evidence.MEASURED


def test_times_carry_their_evidence_and_the_mean_is_the_plain_one():
    learners = learners_of(DATA, 5, number_format="INT32")
    pim, cpu = (train_agents(DATA, learners, episodes=1, backend=backend) for backend in ("pim", "cpu"))
    assert pim.breakdown.evidence == Evidence.SIMULATED
    assert cpu.breakdown.evidence == Evidence.MEASURED
    assert pim.breakdown.inter_pim_core == 0
    assert min(pim.breakdown.cpu_to_pim, pim.breakdown.pim_kernel, pim.breakdown.pim_to_cpu) > 0
    assert 0 < cpu.machine["core_s"] < 60
    assert cpu.ns_per_agent_update == pytest.approx(1e9 * cpu.breakdown.pim_kernel / cpu.updates)
    np.testing.assert_array_equal(cpu.mean.ravel(), aggregation.mean(cpu.tables.reshape(5, -1)))
    np.testing.assert_array_equal(cpu.values, (cpu.tables / cpu.learners[0].scale).astype(np.float32))


def test_eleven_agents_take_a_dpu_little_longer_than_one_and_twenty_two_take_twice_as_long():
    """A tasklet issues an instruction every 11 cycles at most, so the pipeline has room for 11."""
    learners = learners_of(DATA, 22, number_format="INT32")
    seconds = {
        count: train_agents(DATA, learners[:count], episodes=10, agents_per_dpu=count).breakdown.pim_kernel
        for count in (1, 11, 22)
    }
    assert seconds[11] < 1.5 * seconds[1]
    assert seconds[22] > 1.6 * seconds[11]


@pytest.mark.parametrize("shared_data", [True, False], ids=["shared", "own"])
def test_sampled_dpus_take_the_time_of_all(shared_data):
    learners = learners_of(DATA, 45, number_format="INT32")
    run = {"episodes": 2, "shared_data": shared_data, "agents_per_dpu": 11}
    whole, some, every = (
        train_agents(DATA, learners, simulated_dpus=count, **run) for count in ("all", 2, 5)
    )
    assert_same_bits(some.tables, whole.tables)
    assert some.machine["dpus"] == 5
    assert some.machine["simulated_dpus"] == 2
    for part in ("cpu_to_pim", "pim_kernel", "pim_to_cpu"):
        assert getattr(every.breakdown, part) == pytest.approx(getattr(whole.breakdown, part))
    assert some.breakdown.total - some.breakdown.pim_kernel == pytest.approx(
        whole.breakdown.total - whole.breakdown.pim_kernel
    )
    assert some.breakdown.pim_kernel == pytest.approx(whole.breakdown.pim_kernel, rel=0.05)


def test_a_kernel_that_differs_from_the_cpu_stops_the_run(monkeypatch):
    honest = cpu_agents.train

    def crooked(population):
        trained = honest(population)
        trained.tables[-1, 9] += 1
        return trained

    monkeypatch.setattr(cpu_agents, "train", crooked)
    with pytest.raises(SwiftRLError, match="agent 11 differs .* state 1, action 3"):
        train_agents(DATA, learners_of(DATA, 12), episodes=1, simulated_dpus=2)


def test_a_dpu_has_room_for_as_many_agents_as_their_tables_leave():
    lake, taxi = (Problem(Learner(), *shape) for shape in ((16, 4), (500, 6)))
    assert kernels.most_agents(lake) == 24
    assert kernels.most_agents(taxi) == 4
    for problem, most in ((lake, 24), (taxi, 4)):
        kernels.compile_agents(problem, most, for_hardware=False)
        with pytest.raises(
            SwiftRLError, match=f"agents_per_dpu is {most + 1}: .* room in WRAM for {most} agents"
        ):
            kernels.compile_agents(problem, most + 1, for_hardware=False)


def test_a_table_that_just_fits_is_one_agents():
    entries = kernels.largest_table_bytes() // 4
    problem = Problem(Learner(), entries, 1)
    assert kernels.most_agents(problem) == 1
    kernels.compile_agents(problem, 1, for_hardware=False)
    with pytest.raises(SwiftRLError, match="WRAM has room"):
        kernels.compile_agents(Problem(Learner(), entries + 2, 1), 1, for_hardware=False)


def test_data_that_do_not_fit_mram_are_refused(monkeypatch):
    monkeypatch.setattr(pim_agents, "MRAM_BYTES", 8 * len(DATA))
    with pytest.raises(SwiftRLError, match="do not fit a DPU's MRAM of 808 bytes"):
        train_agents(DATA, learners_of(DATA, 2), episodes=1)


def test_the_kernel_includes_only_what_the_sdk_has():
    text = (KERNEL_DIRECTORY / "multi_agent.c").read_text()
    included = set(re.findall(r"#include <(.*)>", text))
    assert included <= {"alloc.h", "attributes.h", "defs.h", "mram.h", "stdint.h"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"learners": ()}, "there are no learners"),
        ({"learners": Learner(reward_range=(-1, 1))}, "no number of agents: give agents=1000"),
        ({"agents": 4}, "agents is 4, but there are 3 learners"),
        ({"agents": 0}, "agents is 0; expected a whole number of at least 1"),
        ({"learners": ["a"]}, "agent 0 has 'a' for a learner"),
        ({"learners": (Learner(), Learner(sampling="STR"))}, "agent 1 has sampling STR and agent 0 SEQ"),
        ({"learners": (Learner(), Learner())}, "outside the learner's reward_range"),
        ({"episodes": 0}, "episodes is 0; expected a whole number of at least 1"),
        ({"seed": -1}, "seed is -1; expected a whole number of at least 0"),
        ({"backend": "tpu"}, "backend is 'tpu': choose one of pim, cpu, gpu"),
        ({"backend": "cpu", "agents_per_dpu": 2}, "do not apply to backend cpu"),
        ({"backend": "cpu", "threads": 0}, "threads is 0; expected a whole number of at least 1"),
        ({"agents_per_dpu": 25}, "agents_per_dpu is 25: a DPU has 24 tasklets"),
        ({"simulated_dpus": 4}, "simulated_dpus is 4; expected a whole number of at least 1 and at most 3"),
        ({"simulated_dpus": "few"}, "simulated_dpus is 'few': give 'all'"),
        (
            {
                "learners": Learner(reward_range=(-1.0, 1.0)),
                "agents": 200,
                "shared_data": False,
            },
            "200 agents for 101 transitions: use fewer agents, or let them share the data",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(change, sentence):
    given = {"learners": learners_of(DATA, 3), "episodes": 1} | change
    with pytest.raises(SwiftRLError, match=re.escape(sentence)) as caught:
        train_agents(DATA, **given)
    assert "\n" not in str(caught.value)


def test_choices_that_the_kernel_does_not_have_are_refused():
    class Beyond(Learner):
        @property
        def switches(self):
            return super().switches | {"UPDATE": 1, "OTHER": 0}

    with pytest.raises(SwiftRLError, match="agent 0 has a learner with update beyond the paper"):
        train_agents(DATA, Beyond(reward_range=DATA.reward_range), 2, backend="cpu")


def test_spread_makes_a_learner_for_each_alpha_and_gamma():
    made = spread(Learner(alpha=0.3), gamma=[0.5, 0.9])
    assert [(each.alpha, each.gamma) for each in made] == [(0.3, 0.5), (0.3, 0.9)]
    assert [each.alpha for each in spread(Learner(), np.array([0.1, 1.0]))] == [0.1, 1.0]
    with pytest.raises(SwiftRLError, match="2 and 3 values"):
        spread(Learner(), [0.1, 0.2], [0.5, 0.6, 0.7])
    with pytest.raises(SwiftRLError, match="neither alpha nor gamma is a list"):
        spread(Learner(), 0.1, 0.9)
    with pytest.raises(SwiftRLError, match="alpha is 2"):
        spread(Learner(), [0.1, 2.0])


def test_hardware_runs_all_dpus(monkeypatch):
    monkeypatch.setattr(sampled, "runs_on_hardware", lambda: True)
    with pytest.raises(SwiftRLError, match="UPMEM hardware, where all DPUs run"):
        train_agents(DATA, learners_of(DATA, 3), episodes=1, simulated_dpus=2)


def test_a_table_of_speeds_has_a_row_for_each_case():
    rows = multi_agent_bench.rows(agents=20, episodes=1, repetitions=1)
    assert {(row["env"], row["number_format"]) for row in rows} == {
        (environment, number_format)
        for environment in ("frozenlake", "taxi")
        for number_format in NumberFormat
    }
    assert all(row["ns_per_agent_update"] > 0 and row["evidence"] == "measured" for row in rows)


def test_a_population_agrees_as_far_as_its_members_decide_alike():
    values = np.zeros((3, 4, 2), np.float32)
    values[:, 0, 1] = 1  # all alike
    values[2, 1, 1] = 1  # the third alone
    values[1:, 2, 1] = 1  # the first alone
    np.testing.assert_array_equal(majority(values), [1, 0, 1, 0])
    np.testing.assert_allclose(agreement(values), [0.75, 1, 0.75])
    np.testing.assert_allclose(agreement(values, np.array([True, True, False, False])), [1, 1, 0.5])


def test_what_is_saved_comes_back(tmp_path):
    done = train_agents(DATA, learners_of(DATA, 3, number_format="INT32"), episodes=2, backend="cpu")
    tables, manifest = write_agents(done, DATA, tmp_path / "run")
    assert_same_bits(np.load(tables), done.tables)
    told = json.loads(manifest.read_text())
    assert told["learners"]["gamma"] == [each.gamma for each in done.learners]
    assert (told["agents"], told["episodes"], told["evidence"]) == (3, 2, "measured")
    assert told["files"] == {"tables.npy": sha256_file(tables)}


# --- populations as runs of an experiment -----------------------------------------------------------------


def population(**settings):
    given = {"environment": "frozenlake", "transitions": 2_000, "agents": 9, "episodes": 5, "backend": "cpu"}
    return Agents(**given | settings)


def test_a_population_s_row_says_how_good_each_agent_is():
    row = population(side=3, seed=4).run()
    table = results.to_table([row], Agents.columns).to_pandas()
    assert list(table.columns) == Agents.columns.names
    data = collect("frozenlake", 2_000, 4)
    learners = spread(Learner(reward_range=data.reward_range), row["alpha"], row["gamma"])
    again = train_agents(data, learners, episodes=5, seed=4, backend="cpu")
    assert row["exact_return"] == [evaluation.exact_return("frozenlake", values) for values in again.values]
    assert row["agreement"] == list(agreement(again.values, ~environments.resolve("frozenlake").terminal))
    assert (min(row["alpha"]), max(row["alpha"])) == (0.01, 1.0)
    assert (min(row["gamma"]), max(row["gamma"])) == (0.5, 0.995)
    assert (row["updates"], row["rewarded"]) == (9 * 2_000 * 5, (data.reward > 0).sum())
    assert max(row["exact_return"]) <= row["optimum"]
    assert row["evidence"] == "measured"


def test_packed_agents_have_the_tables_of_those_on_the_cpu_and_a_simulated_time():
    packed = population(backend="pim", agents_per_dpu=3, simulated_dpus=1).run()
    assert packed["tables_sha256"] == population().run()["tables_sha256"]
    assert (packed["dpus"], packed["simulated_dpus"], packed["evidence"]) == (3, 1, "simulated")
    assert packed["hardware_profile"] is not None
    assert packed["alpha"] is None


def test_a_population_is_checked_where_it_is_made():
    with pytest.raises(SwiftRLError, match="agents is 9: a grid of side 4 has 16"):
        population(side=4)
    with pytest.raises(SwiftRLError, match="episodes is '5': give a value of type int"):
        population(episodes="5")
    with pytest.raises(SwiftRLError, match="backend is 'tpu'"):
        population(backend="tpu").run()


@pytest.fixture(scope="module")
def populations():
    """Two data sets of agents that differ, and what a few on a DPU cost."""
    rows = [population(agents=64, side=8, seed=seed).run() for seed in (0, 1)]
    packing = {"backend": "pim", "simulated_dpus": 1, "transitions": 200, "episodes": 1}
    for number_format in ("FP32", "INT32"):
        rows += [
            population(number_format=number_format, agents_per_dpu=each, **packing).run() for each in (1, 3)
        ]
    return results.to_table(rows, Agents.columns).to_pandas()


def test_a_heat_map_shows_each_agent_where_its_alpha_and_gamma_are(populations):
    table = experiment.table_population(populations)
    assert len(table) == 64
    assert set(table["seeds"]) == {2}
    (left, *_) = experiment.fig_population(populations).axes
    shown = left.collections[0].get_array().ravel()
    np.testing.assert_array_equal(shown, table.sort_values(["gamma", "alpha"])["exact_return"])
    one = table[(table["alpha"] == 0.01) & (table["gamma"] == 0.5)]["exact_return"].item()
    assert one == pytest.approx(np.mean([row.exact_return[0] for row in populations[:2].itertuples()]))
    assert len(left.texts) == 64


def test_packing_is_drawn_hollow_where_it_is_simulated(populations):
    left, right = experiment.fig_agents_per_dpu(populations).axes
    row = populations[populations["agents_per_dpu"] == 3].iloc[0]
    assert left.lines[0].get_ydata()[1] == pytest.approx(1e3 * row["pim_kernel"])
    assert right.lines[0].get_ydata()[1] == pytest.approx(1e6 * 3 * row["pim_kernel"] / row["updates"])
    assert "simulated" in left.get_ylabel()
    assert left.lines[0].get_markerfacecolor() == "white"
    measured = populations.assign(evidence="measured", hardware_profile=None, model_version=None)
    axes = experiment.fig_agents_per_dpu(measured).axes[0]
    assert axes.lines[0].get_markerfacecolor() != "white"


def test_agents_learn_the_lake():
    lake = collect("frozenlake", 50_000, seed=1)
    done = train_agents(lake, Learner(), 2, 50, backend="cpu")
    assert done.values[0].max() > 0.3
