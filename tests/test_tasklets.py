"""Frozen bootstrap, and the kernel whose tasklets share a chunk: the same bits however many, and no race."""

import itertools
import time

import numpy as np
import pytest
import reference
from host_gpu import HostGpu
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_cpu_engine import assert_same_bits, chunks_of, records_of
from test_fixed_point_error import random_data

from swiftrl_core import backend as backends
from swiftrl_core.backend import Problem, open_backend
from swiftrl_core.backends.cpu import backend as cpu
from swiftrl_core.backends.gpu.backend import GpuBackend
from swiftrl_core.backends.gpu.kernels import Tables, shared_bytes
from swiftrl_core.backends.pim.dealing import deal
from swiftrl_core.backends.pim.kernels import TASKLET_LEARNER, compile_learner
from swiftrl_core.data import collect
from swiftrl_core.dpusim import DpuSet, compile_kernel
from swiftrl_core.learner import Learner, NumberFormat
from swiftrl_core.learner.chunks import split
from swiftrl_core.learner.layout import KERNEL_DIRECTORY
from swiftrl_core.training import loop as training
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

TASKLETS = [1, 2, 11, 16, 24]
FEW_TASKLETS = [1, 11, 24]
UPDATES = ["td", "vr"]
BUILDS = list(itertools.product(NumberFormat, UPDATES, ["constant", "rescaled_linear"]))
SETTINGS = st.fixed_dictionaries(
    {
        "lengths": st.lists(st.integers(1, 30), min_size=1, max_size=40),
        "episodes": st.integers(1, 3),
        "alpha": st.sampled_from([0.1, 0.25, 0.9, 1.0, 0.0123]),
        "gamma": st.sampled_from([0.95, 0.5, 0.0]),
        "seed": st.integers(0, 2**32 - 1),
    }
)
EXAMPLE = {"lengths": [9] * 7 + [8] * 60 + [1], "episodes": 3, "alpha": 0.1, "gamma": 0.95, "seed": 1}


def frozen(number_format="FP32", update="td", schedule="constant", **settings) -> Learner:
    ranged = {"reward_range": (-1.0, 1.0)} | settings
    return Learner(
        number_format=number_format, update=update, alpha_schedule=schedule, bootstrap="frozen", **ranged
    )


def a_round(learner, shape, lengths, seed):
    """Return a problem, random chunks, a table and, in update vr, its targets."""
    rng = np.random.default_rng(seed)
    chunks = chunks_of(records_of(learner, shape, sum(lengths), rng), lengths)
    problem = Problem(learner, *shape, seed=seed)
    table, targets = (learner.to_raw(rng.uniform(-1, 1, problem.entries)) for _ in range(2))
    return problem, chunks, table, targets if learner.update == "vr" else None


def learned_by(machine, chunks, table, episodes, targets):
    try:
        machine.load(chunks)
        return machine.run_round(table, episodes, targets).tables.copy()
    finally:
        machine.close()


def by_reference(problem, chunks, table, episodes, targets):
    args = problem.arguments(chunks)
    return np.stack(
        [
            reference.train_core(
                problem.learner, problem.n_actions, args[core], table, chunks.chunk(core), episodes, targets
            )[0]
            for core in range(chunks.cores)
        ]
    )


# --- what frozen means ------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", BUILDS, ids="-".join)
@settings(max_examples=8)
@given(case=SETTINGS)
@example(case=EXAMPLE)
def test_engine_and_gpu_equal_plain_python(build, case):
    """Lanes, one core after another, both homes of a GPU's tables; from any table, towards any targets."""
    learner = frozen(*build, alpha=case["alpha"], gamma=case["gamma"])
    shape = (7, 6) if build[0] == NumberFormat.FP32 else (16, 4)
    problem, chunks, table, targets = a_round(learner, shape, case["lengths"], case["seed"])
    wanted = by_reference(problem, chunks, table, case["episodes"], targets)
    for machine in (
        cpu.open_backend(problem, chunks.cores, threads=2),
        cpu.CpuBackend(problem, chunks.cores, 1, by_lanes=False),
        GpuBackend(problem, chunks.cores, HostGpu(), Tables.IN_SHARED_MEMORY),
        GpuBackend(problem, chunks.cores, HostGpu(), Tables.IN_GLOBAL_MEMORY),
    ):
        got = learned_by(machine, chunks, table, case["episodes"], targets)
        assert_same_bits([got], [wanted])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(16, 4), (7, 6), (5, 11)], ids=str)
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("number_format", NumberFormat)
def test_other_vector_widths_give_the_same_bits(number_format, update, shape):
    problem, chunks, table, targets = a_round(frozen(number_format, update), shape, EXAMPLE["lengths"], 3)
    native, plain = (
        cpu.CpuBackend(problem, chunks.cores, 2, by_lanes=True, flags=flags) for flags in ([], ["-DPLAIN_C"])
    )
    wanted = by_reference(problem, chunks, table, 4, targets)
    for machine in (native, plain):
        assert_same_bits([learned_by(machine, chunks, table, 4, targets)], [wanted])


@pytest.mark.parametrize("build", BUILDS, ids="-".join)
@settings(max_examples=5)
@given(case=SETTINGS)
@example(case=EXAMPLE)
def test_tasklets_equal_plain_python(build, case):
    """Eleven; below, other numbers of them equal the engine."""
    learner = frozen(*build, alpha=case["alpha"], gamma=case["gamma"])
    lengths = case["lengths"][-5:]
    problem, chunks, table, targets = a_round(learner, (5, 3), lengths, case["seed"])
    machine = open_backend("pim", problem, len(lengths), tasklets=11)
    got = learned_by(machine, chunks, table, case["episodes"], targets)
    assert_same_bits([got], [by_reference(problem, chunks, table, case["episodes"], targets)])


def test_a_pass_takes_the_values_it_began_with():
    """Two states in a row: the reward reaches the first one a pass late, where the paper's way has it at once."""
    learner = frozen(alpha=1.0, gamma=0.5)
    records = records_of(learner, (2, 1), 2, np.random.default_rng(0))
    records["step"] = [1 | 1 << 31, 0 | 1 << 16]  # state 1 earns 1 and ends; state 0 leads to state 1
    records["reward"] = [1, 0]
    chunks = chunks_of(records, [2])
    for bootstrap, passes, wanted in (
        ("frozen", 1, [0, 1]),
        ("frozen", 2, [0.5, 1]),
        ("current", 1, [0.5, 1]),
    ):
        problem = Problem(Learner(alpha=1.0, gamma=0.5, bootstrap=bootstrap), 2, 1)
        got = learned_by(open_backend("cpu", problem, 1), chunks, np.zeros(2, np.float32), passes, None)
        np.testing.assert_array_equal(got, [wanted])


def test_early_exit_changes_no_bit():
    problem, chunks, table, _ = a_round(frozen("INT32", alpha=0.5, gamma=0.5), (16, 4), [3, 5] * 9, 0)
    short = open_backend("cpu", problem, 18, early_exit=True)
    short.load(chunks)
    done = short.run_round(table, 150)
    assert_same_bits([done.tables], [by_reference(problem, chunks, table, 150, None)])
    assert done.executed_updates < 150 * 72 / 2
    short.close()


# --- all backends, all tasklets ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return {name: collect(name, 2_609, seed=3) for name in ("frozenlake", "taxi")}  # a prime: chunks differ


@pytest.fixture
def gpu_on_host(monkeypatch):
    """Let `train(..., "gpu")` run the GPU's kernels on the host."""

    def open_here(name, problem, cores, **options):
        if name != "gpu":
            return backends.open_backend(name, problem, cores, **options)
        return GpuBackend(problem, cores, HostGpu(shared_limit=1 << 20), Tables.IN_GLOBAL_MEMORY)

    monkeypatch.setattr(training, "open_backend", open_here)


@pytest.mark.parametrize("environment", ["frozenlake", "taxi"])
@pytest.mark.parametrize("sampling", ["SEQ", "REV"])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("number_format", NumberFormat)
@pytest.mark.parametrize(
    "numbers", [FEW_TASKLETS, pytest.param(TASKLETS, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_all_backends_and_tasklets_give_the_same_bits(
    data, gpu_on_host, numbers, number_format, update, sampling, environment
):
    own = data[environment]
    learner = frozen(number_format, update, sampling=sampling, reward_range=own.reward_range)
    for schedule in (Schedule(1, 2, 1), Schedule(7, 3, 2)):
        wanted = train(own, learner, schedule, "cpu").q_raw
        assert np.any(wanted), "a table that never left zero proves nothing"
        for tasklets in numbers:
            got = train(own, learner, schedule, "pim", tasklets=tasklets)
            assert_same_bits([got.q_raw], [wanted])
            assert got.machine["tasklets"] == tasklets
        assert_same_bits([train(own, learner, schedule, "gpu").q_raw], [wanted])


@pytest.mark.parametrize("build", BUILDS, ids="-".join)
def test_known_coefficients_change_no_bit(data, build):
    """The arithmetic of `pim.tuning`, where alpha and gamma are built in."""
    learner = frozen(*build, reward_range=data["taxi"].reward_range)
    paper, tuned = (
        train(data["taxi"], learner, Schedule(3, 4, 2), "pim", tasklets=11, kernel=kernel)
        for kernel in ("paper", "tuned")
    )
    assert_same_bits([tuned.q_raw], [paper.q_raw])
    assert tuned.breakdown.pim_kernel < paper.breakdown.pim_kernel


@pytest.mark.parametrize("update", UPDATES)
def test_sampled_dpus_are_held_to_the_engine(data, update, monkeypatch):
    measured = []  # seconds of dealing, which differ from run to run

    def timed(*given):
        start = time.perf_counter()
        done = deal(*given)
        measured.append(time.perf_counter() - start)
        return done

    monkeypatch.setattr("swiftrl_core.backends.pim.backend.deal", timed)
    learner = frozen("INT32", update, sampling="REV")
    every = train(data["frozenlake"], learner, Schedule(20, 4, 2), "pim", tasklets=11)
    some = train(data["frozenlake"], learner, Schedule(20, 4, 2), "pim", tasklets=11, simulated_dpus=20)
    assert_same_bits([some.q_raw], [every.q_raw])
    assert some.machine["tasklets"] == 11
    for part in ("cpu_to_pim", "pim_kernel"):
        on_a_clock = some.breakdown.host_averaging + every.breakdown.host_averaging + sum(measured)
        assert getattr(some.breakdown, part) == pytest.approx(getattr(every.breakdown, part), abs=on_a_clock)


@pytest.mark.parametrize("simulated_dpus", ["all", 2])
def test_dealing_takes_time_that_is_booked(data, monkeypatch, simulated_dpus):
    def slowly(*given):
        time.sleep(0.3)
        return deal(*given)

    monkeypatch.setattr("swiftrl_core.backends.pim.backend.deal", slowly)
    options = {"tasklets": 2, "simulated_dpus": simulated_dpus}
    result = train(data["frozenlake"], frozen("INT32"), Schedule(4, 1, 1), "pim", **options)
    assert result.breakdown.cpu_to_pim > 0.3


@pytest.mark.parametrize("tasklets", [1, 11, 24])
def test_tasklets_interleaved_leave_the_same_memory(tasklets):
    problem, chunks, table, targets = a_round(frozen("INT32", "vr"), (16, 4), [601, 77], 2)
    fast, exact = (
        learned_by(open_backend("pim", problem, 2, tasklets=tasklets, mode=mode), chunks, table, 4, targets)
        for mode in ("fast", "exact")
    )
    assert_same_bits([exact], [fast])


def test_a_share_longer_than_its_block_streams():
    """One tasklet, 2,048 bytes of WRAM for its transitions: 700 of one pair, then others, cross blocks as they come."""
    learner = frozen("INT32")
    problem, chunks, table, _ = a_round(learner, (5, 2), [2_000], 4)
    chunks.records["step"][300:1_000] &= 0xFFFF0000  # pair 0
    got = learned_by(open_backend("pim", problem, 1), chunks, table, 3, None)
    assert_same_bits([got], [by_reference(problem, chunks, table, 3, None)])


# --- dealing ----------------------------------------------------------------------------------------------

CHUNKS = {
    "lengths": st.lists(st.integers(1, 60), min_size=1, max_size=6),
    "shape": st.sampled_from([(1, 1), (3, 2), (40, 6)]),
    "tasklets": st.sampled_from([1, 2, 3, 11, 24]),
    "seed": st.integers(0, 2**32 - 1),
}


@given(**CHUNKS)
def test_dealing_loses_nothing_and_keeps_the_order_of_each_pair(lengths, shape, tasklets, seed):
    learner = frozen("INT32")
    chunks = chunks_of(records_of(learner, shape, sum(lengths), np.random.default_rng(seed)), lengths)
    problem = Problem(learner, *shape)
    dealt = deal(problem, chunks, tasklets)
    for core in range(chunks.cores):
        owner, found = {}, {}
        for tasklet in range(tasklets):
            first, behind = (int(edge) for edge in dealt.shares[core, tasklet : tasklet + 2])
            words = dealt.core(core)[first:behind].tolist()
            while words:
                (pair, count), *rest = words
                assert owner.setdefault(pair, tasklet) == tasklet, "a pair has one tasklet"
                found[pair] = found.get(pair, []) + rest[:count]
                words = rest[count:]
        assert dealt.shares[core, 0] == 0
        assert dealt.shares[core, -1] == len(dealt.core(core)) == len(chunks.chunk(core)) + len(found)
        assert found == by_pair(chunks.chunk(core), shape[0])


def by_pair(records, n_states) -> dict:
    """Return what follows each pair, in the chunk's order: (next state, n_states where it terminated; reward)."""
    wanted = {}
    for step, reward in records.tolist():
        following = n_states if step >> 31 else step >> 16 & 0x7FFF
        wanted.setdefault(step & 0xFFFF, []).append((following, reward))
    return wanted


@given(**CHUNKS)
def test_dealing_is_balanced_as_longest_first_must_be(lengths, shape, tasklets, seed):
    """Whoever ends up busiest had the least to do before the last pair came: at most the others' mean."""
    learner = frozen()
    chunks = chunks_of(records_of(learner, shape, sum(lengths), np.random.default_rng(seed)), lengths)
    loads = np.diff(deal(Problem(learner, *shape), chunks, tasklets).shares.astype(int), axis=1)
    for core in range(chunks.cores):
        transitions = np.bincount(chunks.chunk(core)["step"] & 0xFFFF)
        words = transitions[transitions > 0] + 1
        assert loads[core].sum() == words.sum()
        assert tasklets * loads[core].max() <= words.sum() + (tasklets - 1) * words.max()
        if len(words) <= tasklets:
            assert loads[core].max() == words.max()


def test_dealing_is_the_same_whoever_deals_with_it():
    """A core's share does not depend on the other cores that are dealt to with it."""
    chunks = split(random_data(0, 500, states=6, actions=3, scale=1.0), Learner(reward_range=(-9, 9)), 7)
    problem = Problem(frozen(reward_range=(-9, 9)), 6, 3)
    records = np.concatenate([chunks.chunk(2), chunks.chunk(5)])
    every, some = (deal(problem, part, 5) for part in (chunks, chunks_of(records, chunks.lengths[[2, 5]])))
    for place, core in enumerate((2, 5)):
        np.testing.assert_array_equal(some.core(place), every.core(core))
        np.testing.assert_array_equal(some.shares[place], every.shares[core])


# --- races ------------------------------------------------------------------------------------------------


def reports_of(binary, problem, chunks, table, targets, tasklets):
    """Return what the simulator's debug run finds in a launch of two passes."""
    args = problem.arguments(chunks)
    args["episodes"] = 2
    dealt = deal(problem, chunks, tasklets)
    with DpuSet(nr_dpus=1, binary=str(binary), sanitize=True) as dpus:
        dpus.copy("__sys_used_mram_end", bytearray(dealt.words.tobytes()))
        dpus.copy("shares", bytearray(dealt.shares.tobytes()))
        dpus.copy("args", bytearray(args.tobytes()))
        dpus.copy("q_table", bytearray(table.tobytes()))
        if targets is not None:
            dpus.copy("target_table", bytearray(targets.tobytes()))
        dpus.exec()
        assert dpus.last_run[0].instructions.min() > 0
        return dpus.sanitizer_reports


@pytest.mark.parametrize("tasklets", [2, 11, 24])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("schedule", ["constant", "rescaled_linear"])
def test_there_is_no_race(tasklets, update, schedule):
    problem, chunks, table, targets = a_round(frozen("INT32", update, schedule), (16, 4), [300], 5)
    binary = compile_learner(problem, tasklets, for_hardware=False)
    assert reports_of(binary, problem, chunks, table, targets, tasklets) == []


PASS = "    pass(&share, &a);\n"
BARRIER = "    barrier_wait(&everybody);\n"


@pytest.mark.parametrize(
    ("sound", "broken", "symbol"),
    [
        (BARRIER + PASS, PASS, "frozen"),
        (PASS + BARRIER, PASS, "q"),
        ("q[pair] = value;", "q[0] = value;", "q"),
    ],
    ids=["no barrier before the pass", "no barrier after the pass", "an entry of all"],
)
def test_a_race_would_be_found(tmp_path, sound, broken, symbol):
    text = TASKLET_LEARNER.read_text()
    assert text.count(sound) == 1
    source = tmp_path / "broken.c"
    source.write_text(text.replace(sound, broken))
    problem, chunks, table, targets = a_round(frozen("INT32"), (16, 4), [300], 5)
    defines = problem.learner.switches | {"N_STATES": 16, "N_ACTIONS": 4, "BLOCK_BYTES": 512}
    binary = compile_kernel(source, defines, 4, include_dirs=[KERNEL_DIRECTORY])
    found = reports_of(binary, problem, chunks, table, targets, 4)
    assert {report.kind for report in found} == {"data race"}
    assert symbol in {report.symbol.split("+")[0] for report in found}


# --- what cannot be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "needle"),
    [
        ({"algorithm": "sarsa"}, "bootstrap frozen does not apply to sarsa, whose draws depend on the order"),
        (
            {"sampling": "RAN"},
            "bootstrap frozen does not apply to sampling RAN, whose draws depend on the order",
        ),
        ({"sampling": "STR"}, "bootstrap frozen does not apply to sampling STR, .* use SEQ or REV"),
        ({"bootstrap": "thawed"}, "bootstrap is 'thawed': choose one of current, frozen"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(choices, needle):
    with pytest.raises(SwiftRLError, match=needle):
        Learner(**{"bootstrap": "frozen"} | choices)


@pytest.mark.parametrize("backend", ["cpu-shared", "gpu-shared", "exact"])
def test_baselines_refuse_a_frozen_bootstrap(data, backend):
    with pytest.raises(
        SwiftRLError, match=f"^bootstrap frozen does not apply to backend {backend}: use current"
    ):
        train(data["frozenlake"], frozen(), Schedule(1, 1, 1), backend)


@pytest.mark.parametrize(
    ("learner", "tasklets", "needle"),
    [
        (Learner(), 2, "tasklets is 2: with bootstrap current .* use --tasklets 1, or --bootstrap frozen"),
        (frozen(), 0, "tasklets is 0"),
        (frozen(), 25, "tasklets is 25"),
        (frozen(), 1.5, "tasklets is 1.5"),
    ],
)
def test_tasklets_that_a_learner_cannot_use_are_refused(learner, tasklets, needle):
    with pytest.raises(SwiftRLError, match=needle):
        open_backend("pim", Problem(learner, 16, 4), 1, tasklets=tasklets)


def test_tasklets_need_room_in_wram():
    """2,700 states x 4 actions: 43,200 bytes of table, 10,804 of values, and little is left."""
    problem = Problem(frozen(), 2_700, 4)
    with pytest.raises(
        SwiftRLError, match=r"tasklets is 11: next to a Q-table of 2,700 .* room for 7; use --tas"
    ):
        compile_learner(problem, 11, for_hardware=False)
    compile_learner(problem, 7, for_hardware=False)
    compile_learner(Problem(frozen("INT32", "vr", "rescaled_linear"), 500, 6), 24, for_hardware=False)


def test_a_chunk_with_its_heads_must_fit_mram(monkeypatch, data):
    monkeypatch.setattr("swiftrl_core.backends.pim.backend.MRAM_BYTES", 8 * 2_609 + 4 * 64 + 8)
    train(data["frozenlake"], Learner(), Schedule(1, 1, 1), "pim")
    with pytest.raises(SwiftRLError, match="do not fit a DPU's MRAM"):
        train(data["frozenlake"], frozen(), Schedule(1, 1, 1), "pim")


def test_a_gpu_s_tile_counts_the_frozen_values():
    assert shared_bytes(Problem(frozen(), 16, 4)) == 32 * (64 + 16) * 4
