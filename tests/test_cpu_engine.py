"""The CPU engine equals the plain Python reference in every bit, whatever the learner, the chunks and the data."""

import ctypes
import platform
import zlib
from pathlib import Path

import numpy as np
import pytest
import reference
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swiftrl_core.backend import Problem, open_backend
from swiftrl_core.backends.cpu import backend as cpu
from swiftrl_core.learner import Learner
from swiftrl_core.learner.chunks import Chunks
from swiftrl_core.learner.layout import KERNEL_DIRECTORY, struct
from swiftrl_core.util import toolchain
from swiftrl_core.util.errors import SwiftRLError

VARIANTS = [
    (algorithm, sampling, number_format)
    for algorithm in ("q_learning", "sarsa")
    for sampling in ("SEQ", "STR", "RAN")
    for number_format in ("FP32", "INT32", "INT32_POW2")
]
SHAPES = [(16, 4), (7, 6), (3, 1), (5, 11)]
"""States and actions; rows of 4, 6, 1 and 11 entries take 4, 6, 4 and 11, or with AVX-512 4, 8, 4 and 16."""


def records_of(learner, shape, rows, rng, low=-1.0, high=1.0):
    """Random transitions, a tenth of them terminal."""
    states, actions = shape
    records = np.empty(rows, struct("transition", learner.dtype))
    pair = rng.integers(0, states * actions, rows, dtype=np.uint32)
    next_state = rng.integers(0, states, rows, dtype=np.uint32)
    terminated = (rng.random(rows) < 0.1).astype(np.uint32)
    records["step"] = pair | next_state << np.uint32(16) | terminated << np.uint32(31)
    records["reward"] = learner.to_raw(rng.uniform(low, high, rows))
    return records


def chunks_of(records, lengths):
    return Chunks(
        records, np.concatenate(([0], np.cumsum(lengths))).astype(np.int64), np.arange(len(lengths))
    )


def run(problem, chunks, table, rounds, **options):
    """Return the tables and executed updates of each round on the backend."""
    return run_on(open_backend("cpu", problem, chunks.cores, **options), chunks, table, rounds)


def run_on(machine, chunks, table, rounds, targets=None):
    try:
        machine.load(chunks)
        done = [machine.run_round(table, episodes, targets) for episodes in rounds[:1]]
        first = done[0].tables.copy()
        rest = [machine.run_round(table, episodes, targets) for episodes in rounds[1:]]
        return [first, *(r.tables.copy() for r in rest)], [r.executed_updates for r in (*done, *rest)]
    finally:
        machine.close()


def expected(problem, chunks, table, rounds):
    args = problem.arguments(chunks)
    tables, executed = [], []
    for episodes in rounds:
        trained = [
            reference.train_core(
                problem.learner, problem.n_actions, args[core], table, chunks.chunk(core), episodes
            )
            for core in range(chunks.cores)
        ]
        tables.append(np.stack([t[0] for t in trained]))
        args["random_state"] = [t[1] for t in trained]
        executed.append(int(np.dot([t[2] for t in trained], chunks.lengths)))
    return tables, executed


def assert_same_bits(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


CASES = {
    "lengths": st.lists(st.integers(1, 14), min_size=1, max_size=40),
    "rounds": st.lists(st.integers(1, 3), min_size=1, max_size=2),
    "alpha": st.sampled_from([0.1, 0.25, 0.0625, 0.9, 1.0, 0.0123]),
    "gamma": st.sampled_from([0.95, 0.5, 0.0, 0.8]),
    "seed": st.integers(0, 2**32 - 1),
}


def check_against_reference(variant, shape, lengths, rounds, alpha, gamma, seed):
    rng = np.random.default_rng(seed)
    learner = Learner(*variant, alpha=alpha, gamma=gamma, epsilon=0.3, reward_range=(-1.0, 1.0))
    chunks = chunks_of(records_of(learner, shape, sum(lengths), rng), lengths)
    problem = Problem(learner, *shape, seed=seed)
    table = learner.to_raw(rng.uniform(-1, 1, problem.entries))
    got, _ = run(problem, chunks, table, rounds, threads=2)
    wanted, _ = expected(problem, chunks, table, rounds)
    assert_same_bits(got, wanted)


@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
@settings(max_examples=12)
@given(**CASES)
@example(lengths=[9] * 7 + [8] * 60, rounds=[3, 2], alpha=0.1, gamma=0.95, seed=1)
def test_engine_equals_reference(variant, **case):
    """One shape of the table a variant, since each has to be compiled."""
    check_against_reference(variant, SHAPES[VARIANTS.index(variant) % len(SHAPES)], **case)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
@settings(max_examples=40)
@given(**CASES)
def test_engine_equals_reference_for_every_shape(variant, shape, **case):
    check_against_reference(variant, shape, **case)


@pytest.mark.parametrize("sampling", ["SEQ", "STR"])
@pytest.mark.parametrize("number_format", ["FP32", "INT32", "INT32_POW2"])
@pytest.mark.parametrize("cores", [2, 53])
def test_early_exit_leaves_out_only_what_changes_nothing(sampling, number_format, cores):
    rng = np.random.default_rng(cores)
    learner = Learner("q_learning", sampling, number_format, alpha=0.5, gamma=0.5, reward_range=(-1.0, 1.0))
    lengths = rng.integers(1, 6, cores)
    records = records_of(learner, (16, 4), lengths.sum(), rng)
    records["reward"][-lengths[-1] :] = 0  # the last core, in a later team, rests after one pass
    chunks = chunks_of(records, lengths)
    problem = Problem(learner, 16, 4)
    table = learner.to_raw(np.zeros(64))
    got, executed = run(problem, chunks, table, [150, 1], early_exit=True)
    plain, nominal = run(problem, chunks, table, [150, 1])
    assert_same_bits(got, plain)
    wanted, counted = expected(problem, chunks, table, [150, 1])
    assert_same_bits(got, wanted)
    assert executed == counted
    assert nominal == [150 * lengths.sum(), lengths.sum()]
    assert executed[0] < nominal[0] / 2


@pytest.mark.parametrize(("algorithm", "sampling"), [("sarsa", "SEQ"), ("q_learning", "RAN")])
def test_early_exit_is_refused_where_episodes_differ(algorithm, sampling):
    problem = Problem(Learner(algorithm, sampling), 16, 4)
    with pytest.raises(SwiftRLError, match="early_exit does not apply"):
        open_backend("cpu", problem, 8, early_exit=True)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_threads_are_a_whole_number(threads):
    with pytest.raises(SwiftRLError, match="threads is"):
        open_backend("cpu", Problem(Learner(), 16, 4), 8, threads=threads)


@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
def test_lanes_equal_one_core_after_another(variant):
    """Long enough for values to settle; 100 cores of uneven length, against scalar.c."""
    rng = np.random.default_rng(5)
    learner = Learner(*variant, reward_range=(-10.0, 20.0))
    lengths = rng.integers(1, 400, 100)
    records = records_of(learner, (50, 6), lengths.sum(), rng, -10, 20)
    chunks, problem = chunks_of(records, lengths), Problem(learner, 50, 6, seed=3)
    table = np.zeros(300, learner.dtype)
    (got,), _ = run(problem, chunks, table, [30])
    engine, args = cpu.compile_engine(problem), problem.arguments(chunks)
    args["episodes"] = 30
    wanted, passes = np.empty_like(got), np.zeros(100, np.int64)
    arrays = (table, table, wanted, records, chunks.starts, args, passes)
    engine.train_cores(*(array.ctypes.data for array in arrays), 0, 100)
    assert_same_bits([got], [wanted])


AVX512_ON_HOST = Path(__file__).with_name("avx512_on_host.h")
OTHER_WIDTHS = {
    "4": ["-DPLAIN_C"],
    "8": ["-mcpu=x86_64_v3"],
    "16": [
        *("-mcpu=x86_64_v3", "-D__AVX512F__=1", "-include", str(AVX512_ON_HOST)),
        f"-DVERSION={zlib.crc32(AVX512_ON_HOST.read_bytes())}",  # or an older build would pass for this one
    ],
}
"""Flags by which the engine is built for vectors of so many lanes; for 16, a CPU with AVX2 will do."""


def assert_lanes_equal_scalar_code(lanes, variant, shape, **choices):
    if lanes != "4" and platform.machine() != "x86_64":
        pytest.skip(f"{lanes} lanes are for x86-64, this is {platform.machine()}")
    rng = np.random.default_rng(6)
    learner = Learner(*variant, reward_range=(-1.0, 1.0), **choices)
    lengths = rng.integers(1, 60, 61)
    chunks = chunks_of(records_of(learner, shape, lengths.sum(), rng), lengths)
    problem = Problem(learner, *shape, seed=3)
    table, targets = learner.to_raw(rng.uniform(-1, 1, (2, problem.entries)))
    wide = cpu.CpuBackend(problem, 61, 2, by_lanes=True, flags=OTHER_WIDTHS[lanes])
    assert wide.describe()["lanes"] == int(lanes)
    scalar = cpu.CpuBackend(problem, 61, 2, by_lanes=False)
    got, wanted = (run_on(machine, chunks, table, [20, 3], targets)[0] for machine in (wide, scalar))
    assert not np.array_equal(*wanted)
    assert_same_bits(got, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", OTHER_WIDTHS)
@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
def test_every_vector_width_gives_the_same_bits(variant, lanes):
    assert_lanes_equal_scalar_code(lanes, variant, (16, 4))


@pytest.mark.parametrize("lanes", OTHER_WIDTHS)
@pytest.mark.parametrize(
    ("variant", "shape", "choices"),
    [
        (("q_learning", "SEQ", "FP32"), (16, 4), {}),
        (("sarsa", "RAN", "INT32"), (9, 11), {}),
        (("q_learning", "STR", "FP32"), (12, 5), {"update": "vr"}),
        (("q_learning", "SEQ", "INT32"), (20, 6), {"update": "vr", "bootstrap": "frozen"}),
    ],
    ids=["q_learning-SEQ-FP32", "sarsa-RAN-INT32", "vr", "vr-frozen"],
)
def test_other_vector_widths_give_the_same_bits(variant, shape, choices, lanes):
    assert_lanes_equal_scalar_code(lanes, variant, shape, **choices)


@pytest.mark.parametrize(
    ("shape", "sampling"),
    [((32_768, 2), "RAN"), ((16_384, 4), "SEQ"), ((2_044, 4), "RAN"), ((1_020, 4), "SEQ")],
)
def test_tables_too_large_for_places_of_16_bits(shape, sampling):
    """As large as a record can address, and just above what 16, 4 and 8 lanes still reach by 16 bits."""
    rng = np.random.default_rng(7)
    learner = Learner(sampling=sampling, reward_range=(-1.0, 1.0))
    lengths = [40] * 35
    chunks, problem = chunks_of(records_of(learner, shape, 1_400, rng), lengths), Problem(learner, *shape)
    table = rng.uniform(-1, 1, problem.entries).astype(np.float32)
    assert_same_bits(run(problem, chunks, table, [2])[0], expected(problem, chunks, table, [2])[0])


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v[2] == "FP32"], ids="-".join)
def test_no_entry_tells_how_zeros_were_compared(variant):
    """Lanes take a row's largest in another order, and after termination a row of zeros: signs of zeros may differ."""
    rng = np.random.default_rng(9)
    learner, shape = Learner(*variant, alpha=1.0, gamma=0.5, reward_range=(-1.0, 1.0)), (5, 6)
    numbers = np.array([-0.0, 0.0, -0.0, 0.0, 1.0, -1.0], np.float32)
    lengths = [20] * 30
    records = records_of(learner, shape, 600, rng)
    records["reward"] = rng.choice(numbers, 600)
    chunks, problem = chunks_of(records, lengths), Problem(learner, *shape)
    table = rng.choice(numbers, 30)
    assert np.signbit(table[table == 0]).any()
    assert_same_bits(run(problem, chunks, table, [1, 3])[0], expected(problem, chunks, table, [1, 3])[0])


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """The divisions of lanes_fixed_point.h over an array: vectors("multiply_divide" or "part_towards", x, p, q)."""
    names = ("multiply_divide", "part_towards")
    source = tmp_path_factory.mktemp("probe") / "divide.c"
    source.write_text(
        "#include <stdint.h>\n#define N_STATES 16\n#define N_ACTIONS 4\n#define TEAM 1\ntypedef int32_t value_t;\n"
        '#include "lanes_fixed_point.h"\n#include <string.h>\n'
        + "".join(
            f"void all_{name}(int32_t *x, int64_t n, int32_t p, int32_t q) {{\n  as_multiplier(&p, &q);\n"
            "  for (int64_t i = 0; i < n; i += LANES) {\n    mask_t v;\n    memcpy(&v, x + i, sizeof(v));\n"
            f"    v = {name}(v, p, q);\n    memcpy(x + i, &v, sizeof(v));\n  }}\n}}\n"
            for name in names
        )
    )
    headers = [cpu.FOLDER / "lanes.h", cpu.FOLDER / "lanes_fixed_point.h"]
    folders = [cpu.FOLDER, KERNEL_DIRECTORY]
    library = toolchain.compile_shared_library([source], headers=headers, include_directories=folders)
    functions = {name: getattr(ctypes.CDLL(str(library)), f"all_{name}") for name in names}
    for function in functions.values():
        function.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32]

    def over(name, x, p, q):
        padded = np.zeros(len(x) + 16, np.int32)
        padded[: len(x)] = x
        functions[name](padded.ctypes.data, len(x), p, q)
        return padded[: len(x)]

    return over


def test_division_by_multiplication_is_exact_where_the_quotient_steps(vectors):
    """For each p / q: around 500 steps of the quotient, at zero and at both ends of the admitted range."""
    rng = np.random.default_rng(8)
    fractions = [(1, 1), (1, 10), (19, 20), (9999, 10_000), (1, 10_000), (0, 1), (1, 2), (5000, 9999), (7, 8)]
    fractions += [(int(rng.integers(1, q + 1)), q) for q in rng.integers(2, 10_001, 400).tolist()]
    for p, q in fractions:
        largest = (2**31 - 1 - q // 2) // max(p, 1)
        steps = rng.integers(0, largest * p // q + 1, 500)
        edges = (2 * steps + 1) * q // (2 * max(p, 1))
        x = np.concatenate([edges - 1, edges, edges + 1, np.arange(12), largest - np.arange(12)])
        x = np.unique(np.clip(np.concatenate([x, -x]), -largest, largest))
        magnitude = (2 * p * np.abs(x) + q) // (2 * q)
        np.testing.assert_array_equal(
            vectors("multiply_divide", x, p, q), np.sign(x) * magnitude, err_msg=f"{p}/{q}"
        )
        at_least_one = np.maximum(magnitude, 1) * np.sign(x)
        np.testing.assert_array_equal(vectors("part_towards", x, p, q), at_least_one, err_msg=f"{p}/{q}")


def test_chunks_are_as_many_as_cores():
    learner = Learner()
    chunks = chunks_of(records_of(learner, (4, 2), 12, np.random.default_rng(0)), [4, 4, 4])
    opened = cpu.CpuBackend(Problem(learner, 4, 2), 8, 1, by_lanes=True)
    with pytest.raises(SwiftRLError, match="3 chunks for a backend of 8 cores"):
        opened.load(chunks)


def test_more_transitions_of_a_team_than_it_can_count():
    records = np.broadcast_to(
        np.zeros(1, struct("transition", np.float32)), 2**32 + 40
    )  # one, seen many times over
    chunks = Chunks(records, np.arange(5) * (len(records) // 4), np.arange(4))
    opened = cpu.CpuBackend(Problem(Learner(sampling="RAN"), 4, 2), 4, 1, by_lanes=True)
    with pytest.raises(SwiftRLError, match="neighbouring cores share 4,294,967,336 transitions"):
        opened.load(chunks)
