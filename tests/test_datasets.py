"""Data sets: sampled like the real environment, the same after any journey through a file, and checked on the way."""

import gzip
import itertools
import json
from collections import Counter
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from swiftrl_core.data import (
    Dataset,
    collect,
    collection,
    load,
    open_data,
    read_text,
    save,
    text_format,
    write_text,
)
from swiftrl_core.data.environments import Environment, resolve
from swiftrl_core.data.transitions import COLUMNS, check_possible
from swiftrl_core.util.errors import SwiftRLError


def stepped(environment: Environment, transitions: int, seed: int) -> dict[str, np.ndarray]:
    """Log a uniform policy in Gymnasium itself: the reference the sampler is compared with."""
    rng = np.random.default_rng(
        [seed, 1]
    )  # not default_rng(seed), the generator that Gymnasium makes of the seed
    env = environment.make()
    rows, episode = [], 0
    state, _ = env.reset(seed=seed)
    for _ in range(transitions):
        action = int(rng.integers(environment.n_actions))
        following, reward, terminated, truncated, _ = env.step(action)
        rows.append((state, action, reward, following, terminated, truncated and not terminated, episode))
        state = following
        if terminated or truncated:
            episode += 1
            state, _ = env.reset()
    return {name: np.array(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}


def assert_same(left: Dataset, right: Dataset, names=COLUMNS) -> None:
    for name in names:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
        assert getattr(left, name).dtype == getattr(right, name).dtype
    assert (left.n_states, left.n_actions) == (right.n_states, right.n_actions)


def assert_whole_episodes(data: Dataset, environment: Environment) -> None:
    """Episodes are consecutive rows numbered from 0, chained state to state, and end only where they may."""
    ended = data.terminated | data.truncated
    np.testing.assert_array_equal(data.episode, np.concatenate([[0], np.cumsum(ended)[:-1]]))
    going = ~ended[:-1]
    np.testing.assert_array_equal(data.state[1:][going], data.next_state[:-1][going])
    assert (environment.start[data.state[0]], environment.start[data.state[1:][~going]].min(initial=1)) > (
        0,
        0,
    )
    length = np.bincount(data.episode)
    if environment.step_limit:
        assert length.max() <= environment.step_limit
        last = np.cumsum(length) - 1
        expected = (length == environment.step_limit) & ~data.terminated[last]
        np.testing.assert_array_equal(data.truncated[last], expected)
    assert not environment.terminal[data.state].any()


def z_of_chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """Pearson's statistic of one multinomial, in standard deviations from its mean; small cells are pooled."""
    small = expected < 10
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    keep = expected > 0
    assert counts[~keep].sum() == 0
    statistic, freedom = ((counts - expected)[keep] ** 2 / expected[keep]).sum(), keep.sum() - 1
    return (statistic - freedom) / np.sqrt(2 * freedom)


def length_distribution(environment: Environment) -> np.ndarray:
    """P(length = t) under the uniform policy, t = 0, 1, ..., by carrying the state distribution forward."""
    alive, ends = environment.start.copy(), [0.0]
    stays = np.where(environment.terminated, 0, environment.probability) / environment.n_actions
    for _ in range(environment.step_limit):
        before = alive.sum()
        alive = np.bincount(
            environment.next_state.ravel(), (alive[:, None, None] * stays).ravel(), environment.n_states
        )
        ends.append(before - alive.sum())
    ends[-1] += alive.sum()
    return np.array(ends)


TAXI = resolve("taxi")  # costs 10 ms, too much for every example of a property


# --- the sampler ------------------------------------------------------------------------------------------------

SAMPLED = [
    ("frozenlake", {}),
    (
        "frozenlake",
        {"max_episode_steps": 8},
    ),  # a third of the episodes are truncated, some end on their last step
    ("taxi", {}),
    ("taxi", {"is_rainy": True}),
    ("cliffwalking", {}),
]


@pytest.mark.parametrize(("name", "kwargs"), SAMPLED)
def test_collected_rows_are_whole_episodes(name, kwargs):
    environment = resolve(name, **kwargs)
    data = collect(environment, 50_001, 7)
    assert len(data) == 50_001
    assert_whole_episodes(data, environment)
    check_possible(data.columns, environment)


@pytest.mark.parametrize(("name", "kwargs"), SAMPLED)
def test_actions_and_outcomes_have_their_probability(name, kwargs):
    environment = resolve(name, **kwargs)
    data = collect(environment, 300_000, 11)
    # Actions are drawn independently of everything: a multinomial.
    actions = np.bincount(data.action, minlength=environment.n_actions)
    assert abs(z_of_chi_square(actions, np.full(environment.n_actions, 300_000 / environment.n_actions))) < 4
    # Given (s, a), outcomes are independent too: compare with P cell by cell.
    shape = environment.probability.shape
    pair = data.state * environment.n_actions + data.action
    follows = environment.next_state.reshape(-1, shape[2])[pair] == data.next_state[:, None]
    pays = environment.reward.reshape(-1, shape[2]).astype(np.float32)[pair] == data.reward[:, None]
    possible = environment.probability.reshape(-1, shape[2])[pair] > 0
    outcome = np.argmax(follows & pays & possible, axis=1)
    counts = np.bincount(pair * shape[2] + outcome, minlength=environment.probability.size).reshape(
        -1, shape[2]
    )
    expected = counts.sum(axis=1, keepdims=True) * environment.probability.reshape(-1, shape[2])
    assert counts[expected == 0].sum() == 0
    smallest = np.where(expected > 0, expected, np.inf).min(axis=1)
    busy = (smallest >= 10) & np.isfinite(smallest)
    assert busy.sum() >= 0.2 * (counts.sum(axis=1) > 0).sum(), "enough of the visited pairs are tested"
    counts, expected = counts[busy], expected[busy]
    freedom = (expected > 0).sum() - len(expected)
    statistic = ((counts - expected)[expected > 0] ** 2 / expected[expected > 0]).sum()
    assert abs(statistic - freedom) <= 4 * np.sqrt(2 * freedom)


@pytest.mark.parametrize(("name", "kwargs"), [SAMPLED[0], SAMPLED[1], ("frozenlake8x8", {}), SAMPLED[2]])
def test_episode_lengths_have_the_exact_distribution(name, kwargs):
    environment = resolve(name, **kwargs)
    data = collect(environment, 1_000_000, 5)
    length = np.bincount(data.episode)[:-1]  # the last one is cut
    expected = length_distribution(environment) * len(length)
    assert abs(z_of_chi_square(np.bincount(length, minlength=len(expected)), expected)) < 4


def test_the_length_test_would_notice_episodes_chosen_for_finishing_early():
    """The trap: lanes side by side, each cut after so many rows, whose unfinished episode is thrown away."""
    environment = resolve("frozenlake")
    kept, used = [], 0
    for length in np.bincount(collect(environment, 1_000_000, 5).episode)[:-1].tolist():
        used += length
        if used <= 50:
            kept.append(length)
        else:
            used = 0
    expected = length_distribution(environment) * len(kept)
    assert abs(z_of_chi_square(np.bincount(kept, minlength=len(expected)), expected)) > 20


def test_taxi_starts_are_uniform_over_the_300_states():
    data = collect("taxi", 1_000_000, 13)
    first = np.flatnonzero(np.diff(data.episode, prepend=-1))
    counts = np.bincount(data.state[first], minlength=500)
    assert abs(z_of_chi_square(counts, resolve("taxi").start * len(first))) < 4


@pytest.mark.parametrize(("name", "kwargs"), SAMPLED[:4])
def test_collecting_is_distributed_like_stepping_gymnasium(name, kwargs):
    environment = resolve(name, **kwargs)
    rows = 60_000
    real, ours = stepped(environment, rows, 3), collect(environment, rows, 3).columns
    for name_of in ("terminated", "truncated"):
        counts = [columns[name_of].sum() for columns in (real, ours)]
        assert abs(counts[0] - counts[1]) <= 5 * np.sqrt(sum(counts) + 1), (name_of, counts)
    lengths = [np.bincount(columns["episode"])[:-1] for columns in (real, ours)]
    spread = np.sqrt(sum(length.var() / len(length) for length in lengths))
    assert abs(lengths[0].mean() - lengths[1].mean()) <= 4 * spread + 1e-9
    # Wherever both went, the same things happened.
    seen = [outcome_sets(columns) for columns in (real, ours)]
    if environment.probability.shape[2] == 1:
        assert all(seen[0][pair] == seen[1][pair] for pair in seen[0].keys() & seen[1].keys())
    # Bounds: half as much again as the largest distance between logs of Gymnasium with different seeds.
    assert total_variation(real["reward"], ours["reward"]) < 0.01
    assert total_variation(real["state"] // 20, ours["state"] // 20) < 0.07, "Taxi: the 25 squares"
    if environment.n_states == 16:
        keys = [transition_codes(columns) for columns in (real, ours)]
        assert total_variation(*keys) < 0.037
        assert total_variation(keys[0], transition_codes(collect("frozenlake8x8", rows, 3).columns)) > 0.2


def outcome_sets(columns: dict[str, np.ndarray]) -> dict:
    sets: dict = {}
    names = ("state", "action", "next_state", "reward", "terminated")
    for s, a, *outcome in zip(*(columns[name].tolist() for name in names), strict=True):
        sets.setdefault((s, a), set()).add(tuple(outcome))
    return sets


def transition_codes(columns: dict[str, np.ndarray]) -> np.ndarray:
    state, action, following = (columns[name].astype(np.int64) for name in ("state", "action", "next_state"))
    return ((state * 8 + action) * 512 + following) * 2 + columns["terminated"]


def total_variation(left: np.ndarray, right: np.ndarray) -> float:
    """Half the sum of absolute differences of two empirical distributions."""
    values, index = np.unique(np.concatenate([left, right]), return_inverse=True)
    shares = [
        np.bincount(part, minlength=len(values)) / len(part)
        for part in (index[: len(left)], index[len(left) :])
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def test_fickle_taxi_is_stepped_in_gymnasium():
    environment = resolve("taxi", fickle_passenger=True)
    data = collect(environment, 3_000, 4)
    assert_whole_episodes(data, environment)
    assert_same(data, collect(environment, 3_000, 4))
    destination = [column % 4 for column in (data.state, data.next_state)]
    assert (destination[0] != destination[1]).any(), "the passenger never changed its mind"


@given(st.integers(0, 2**64), st.integers(1, 3_000), st.integers(1, 3_000))
def test_a_seed_decides_every_row_and_a_shorter_log_is_a_prefix(seed, one, two):
    environment = resolve("frozenlake")
    short, long = sorted((one, two))
    left, right = collect(environment, short, seed), collect(environment, long, seed).rows(0, short)
    names = [name for name in COLUMNS if name != "truncated"]
    assert_same(left, right, names)
    np.testing.assert_array_equal(left.truncated, right.truncated)


def test_seeds_differ():
    assert collect("taxi", 1000, 1).sha256 != collect("taxi", 1000, 2).sha256


def test_a_data_set_says_where_it_comes_from():
    data = collect("taxi", 10, 3)
    assert data.metadata["env_id"] == resolve("taxi").env_id
    assert data.metadata["environment"] == "taxi"
    assert (data.metadata["policy"], data.metadata["seed"], data.metadata["step_limit"]) == (
        "uniform random",
        3,
        200,
    )
    assert data.metadata["terminal_states"] == [0, 85, 410, 475]
    assert data.reward_range == (-10, 20), "the environment's, though ten rows hardly show it"
    assert json.loads(json.dumps(data.metadata)) == data.metadata


# --- the data set itself ------------------------------------------------------------------------------------------


def columns_of(rows: int = 4, **changes) -> dict[str, np.ndarray]:
    columns = {name: np.zeros(rows, dtype) for name, dtype in COLUMNS.items()}
    for name, (row, value) in changes.items():
        columns[name][row] = value
    return columns


def test_rows_share_memory_and_cannot_be_changed():
    data = collect("frozenlake", 100, 0)
    part = data.rows(10, 30)
    assert len(part) == 20
    assert np.shares_memory(part.state, data.state)
    np.testing.assert_array_equal(part.reward, data.reward[10:30])
    with pytest.raises(ValueError, match="read-only"):
        data.state[0] = 1
    for start, stop in [(-1, 3), (5, 5), (90, 101), (7, 3)]:
        with pytest.raises(SwiftRLError, match=f"rows {start} to {stop}"):
            data.rows(start, stop)


def test_reward_range_without_a_known_environment_is_the_datas():
    columns = columns_of(reward=(1, -3.5))
    assert Dataset(**columns, n_states=1, n_actions=1).reward_range == (-3.5, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": (2, 16)}, r"row 2: state 16 is not in 0\.\.15"),
        ({"next_state": (3, -1)}, r"row 3: next_state -1 is not in 0\.\.15"),
        ({"action": (0, 4)}, r"row 0: action 4 is not in 0\.\.3"),
        ({"reward": (1, np.nan)}, "row 1: reward nan is not a finite number"),
        ({"reward": (1, np.inf)}, "row 1: reward inf"),
        ({"reward": (1, 2)}, r"row 1: reward 2\.0 is not in the environment's range 0\.\.1"),
        ({"state": (3, 15)}, "row 3: state 15 is terminal"),
        ({"terminated": (2, True), "truncated": (2, True)}, "row 2: both terminated and truncated"),
        ({"episode": (0, -1)}, "row 0: episode -1 is negative"),
    ],
)
def test_a_wrong_value_is_refused_naming_its_row(changes, message):
    metadata = {"terminal_states": [5, 15], "reward_range": [0.0, 1.0]}
    Dataset(**columns_of(), n_states=16, n_actions=4, metadata=metadata)
    with pytest.raises(SwiftRLError, match=message):
        Dataset(**columns_of(**changes), n_states=16, n_actions=4, metadata=metadata)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.zeros(4), r"column reward is float64 \(4,\), expected an array float32 \(4,\)"),
        (np.zeros(3, np.float32), r"float32 \(3,\), expected an array float32 \(4,\)"),
        (np.zeros((4, 1), np.float32), r"float32 \(4, 1\)"),
        ([0.0] * 4, "column reward is list"),
    ],
)
def test_a_wrong_column_is_refused(column, message):
    with pytest.raises(SwiftRLError, match=message):
        Dataset(**{**columns_of(), "reward": column}, n_states=16, n_actions=4)


def test_an_empty_data_set_and_wrong_sizes_are_refused():
    with pytest.raises(SwiftRLError, match="no transitions"):
        Dataset(**columns_of(0), n_states=16, n_actions=4)
    with pytest.raises(SwiftRLError, match="n_actions is 0"):
        Dataset(**columns_of(), n_states=16, n_actions=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("frozenlake", 0, 0), "transitions is 0"),
        (("frozenlake", 1.5, 0), "transitions is 1.5"),
        (("frozenlake", 10, -1), "seed is -1"),
        (("frozenlake", 10, None), "seed is None"),
        (("frozenlake", 2**31, 0), "at most 2147483647"),
        (("ice", 10, 0), "'ice' is unknown"),
    ],
)
def test_collect_refuses_wrong_arguments(arguments, message):
    with pytest.raises(SwiftRLError, match=message):
        collect(*arguments)


# --- Parquet ------------------------------------------------------------------------------------------------------


@st.composite
def any_dataset(draw):
    """A data set of unknown origin with any values that are allowed."""
    states, actions, rows = draw(st.integers(1, 600)), draw(st.integers(1, 9)), draw(st.integers(1, 40))

    def column(values, dtype):
        return np.array(draw(st.lists(values, min_size=rows, max_size=rows)), dtype)

    ends = column(st.integers(0, 2), np.int32)
    return Dataset(
        state=column(st.integers(0, states - 1), np.int32),
        action=column(st.integers(0, actions - 1), np.int32),
        reward=column(st.floats(width=32, allow_nan=False, allow_infinity=False), np.float32),
        next_state=column(st.integers(0, states - 1), np.int32),
        terminated=ends == 1,
        truncated=ends == 2,
        episode=column(st.integers(0, 2**31 - 1), np.int32),
        n_states=states,
        n_actions=actions,
        metadata=draw(st.dictionaries(st.sampled_from(["seed", "policy", "source"]), st.text(max_size=5))),
    )


@given(any_dataset())
def test_parquet_gives_back_every_bit(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("round") / "data.parquet"
    save(data, path)
    back = load(path)
    assert_same(data, back)
    assert back.metadata == data.metadata
    assert back.sha256 == data.sha256
    assert back.reward.tobytes() == data.reward.tobytes(), "minus zero included"


@pytest.fixture
def stored(tmp_path):
    """A saved FrozenLake data set and its path."""
    data, path = collect("frozenlake", 500, 1), tmp_path / "lake.parquet"
    save(data, path)
    return data, path


def rewrite(path, change, keep_header=True) -> None:
    """Replace a Parquet file by a changed copy of its table."""
    table = parquet.read_table(path)
    changed = change(table)
    parquet.write_table(changed.replace_schema_metadata(table.schema.metadata if keep_header else None), path)


def with_column(name, values):
    return lambda table: table.set_column(
        table.schema.get_field_index(name), name, values(table[name].to_numpy())
    )


def changed_at(row, value):
    def change(values):
        values = values.copy()
        values[row] = value
        return pa.array(values)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["reward"]), r"missing \['reward'\], unknown \[\]"),
        (lambda t: t.append_column("done", t["terminated"]), r"unknown \['done'\]"),
        (lambda t: t.append_column("state", t["state"]), "expected"),
        (
            with_column("state", lambda v: pa.array(v.astype(np.int64))),
            "column state is int64, expected int32",
        ),
        (
            with_column("reward", lambda v: pa.array(v.astype(float))),
            "column reward is double, expected float",
        ),
        (lambda t: t.slice(0, 0), "holds no transitions"),
        (
            with_column("action", lambda v: pa.array([None, *v[1:].tolist()], pa.int32())),
            "action is missing in row 0",
        ),
        (with_column("reward", changed_at(7, np.nan)), "row 7: reward nan"),
        (with_column("state", changed_at(9, 99)), r"row 9: state 99 is not in 0\.\.15"),
        (with_column("action", changed_at(9, -1)), "row 9: action -1"),
        (with_column("state", changed_at(11, 15)), "row 11: state 15 is terminal"),
        (with_column("episode", changed_at(11, 3000)), "do not match their checksum"),
        (lambda t: t.slice(1), "do not match their checksum"),
        (lambda t: t.take(list(range(499, -1, -1))), "do not match their checksum"),
    ],
)
def test_a_changed_parquet_file_is_refused_in_one_sentence(stored, change, message):
    _, path = stored
    rewrite(path, change)
    with pytest.raises(SwiftRLError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "not JSON"),
        (b"[]", "not of format"),
        (b'{"format": "swiftrl-transitions-1"}', "lacks 'n_states'"),
    ],
)
def test_a_wrong_header_is_refused(stored, header, message):
    _, path = stored
    parquet.write_table(parquet.read_table(path).replace_schema_metadata({b"swiftrl": header}), path)
    with pytest.raises(SwiftRLError, match=message):
        load(path)


def test_a_parquet_file_of_others_needs_and_gets_an_environment(stored):
    data, path = stored
    rewrite(path, lambda table: table.select(reversed(table.schema.names)), keep_header=False)
    with pytest.raises(SwiftRLError, match="name the environment"):
        load(path)
    back = load(path, "frozenlake")
    assert_same(data, back)
    assert (back.metadata["policy"], back.metadata["source"]) == ("unknown", "lake.parquet")
    rewrite(path, with_column("terminated", lambda values: pa.array(~values)), keep_header=False)
    with pytest.raises(SwiftRLError, match=r"row 0: FrozenLake-v1 cannot go from state 0 .* terminated True"):
        load(path, "frozenlake")


def test_the_wrong_environment_is_noticed(stored):
    _, path = stored
    assert load(path, "frozenlake").metadata["environment"] == "frozenlake"
    for wrong in ("taxi", "frozenlake8x8", resolve("frozenlake", is_slippery=False)):
        with pytest.raises(SwiftRLError, match="logged in FrozenLake-v1"):
            load(path, wrong)


@given(st.data())
def test_a_damaged_parquet_file_is_refused_or_whole(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "lake.parquet"
    original = collect("frozenlake", 200, 1)
    save(original, path)
    content = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:where]
    else:
        content[where] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        back = load(path)
    except SwiftRLError:
        return  # anything else fails the test
    assert_same(original, back)


def test_saving_repeats_byte_for_byte_and_leaves_no_other_file(stored, tmp_path):
    data, path = stored
    first = path.read_bytes()
    save(data, path)
    assert path.read_bytes() == first
    assert [entry.name for entry in tmp_path.iterdir()] == ["lake.parquet"]


def test_files_that_are_not_there_are_told(tmp_path):
    for read in (load, lambda path: read_text(path, "taxi"), open_data):
        with pytest.raises(SwiftRLError, match=r"cannot read .*none.*No such file"):
            read(tmp_path / "none.parquet")
        with pytest.raises(SwiftRLError, match="cannot read"):
            read(tmp_path)


def test_metadata_that_json_cannot_hold_is_refused(tmp_path):
    data = Dataset(**columns_of(), n_states=1, n_actions=1, metadata={"seed": np.int64(3)})
    with pytest.raises(SwiftRLError, match="metadata is not plain JSON"):
        save(data, tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


# --- the authors' text format -----------------------------------------------------------------------------------


@given(
    st.integers(0, 1000),
    st.sampled_from(["frozenlake", "taxi", "cliffwalking"]),
    st.integers(1, 700),
    st.booleans(),
)
def test_text_gives_back_what_it_can_hold(tmp_path_factory, seed, name, rows, packed):
    environment = resolve(name)
    data = collect(environment, rows, seed)
    path = tmp_path_factory.mktemp("text") / ("data.txt.gz" if packed else "data.txt")
    write_text(data, path)
    back = read_text(path, environment)
    assert_same(data, back, ("state", "action", "reward", "next_state", "terminated"))
    # A truncation is seen where the next line starts somewhere else.
    visible = data.truncated & np.append(data.state[1:] != data.next_state[:-1], False)
    np.testing.assert_array_equal(back.truncated, visible)
    ended = back.terminated | back.truncated
    np.testing.assert_array_equal(back.episode, np.concatenate([[0], np.cumsum(ended)[:-1]]))
    assert_same(back, open_data(path, environment))


@given(st.data())
def test_text_cut_anywhere_but_at_a_line_is_noticed(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cut") / "data.txt"
    whole = collect(TAXI, 30, 2)
    write_text(whole, path)
    content = path.read_bytes()
    cut = data.draw(st.integers(1, len(content) - 1))
    path.write_bytes(content[:cut])
    if content[cut - 1 : cut] == b"\n":
        assert_same(read_text(path, TAXI), whole.rows(0, content[:cut].count(b"\n")), ("state", "reward"))
    else:
        with pytest.raises(SwiftRLError, match=f"line {content[:cut].count(10) + 1}: .*seems cut off"):
            read_text(path, TAXI)


@given(
    st.lists(st.lists(st.integers(-(10**6), 10**6), min_size=4, max_size=4), min_size=1, max_size=20),
    st.data(),
)
def test_both_readers_of_numbers_agree(rows, data):
    clean = "".join(" ".join(map(str, row)) + "\n" for row in rows).encode()
    np.testing.assert_array_equal(text_format._parse(clean), rows)
    np.testing.assert_array_equal(text_format._parse_lines(clean), rows)
    blank = data.draw(st.sampled_from(["\t", "  ", " \t "]))
    loose = "".join(" " + blank.join(map(str, row)) + " \r\n" for row in rows).encode()
    np.testing.assert_array_equal(text_format._parse(loose), rows)


@given(st.text(alphabet="0123456789 -+x.\n\t\r\x00é", max_size=60))
def test_any_text_is_read_alike_by_both_readers_or_refused(text):
    content = text.encode()
    try:
        expected = text_format._parse_lines(content)
    except SwiftRLError:
        with pytest.raises(SwiftRLError):
            text_format._parse(content)
    else:
        if content.strip():
            np.testing.assert_array_equal(text_format._parse(content), expected)


GOOD = "0 2 0 1\n1 1 0 5\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file is empty"),
        (" \n\n", "file is empty"),
        (GOOD + "0 2 0\n", "line 3: found 3 fields, expected 4"),
        (GOOD + "0 2 0 1 1\n0 2 0 1\n", "line 3: found 5 fields"),
        ("state action reward next_state\n" + GOOD, "line 1: state is 'state', expected a whole number"),
        (GOOD + "0 x 0 1\n", "line 3: action is 'x'"),
        (GOOD + "0 2 0.5 1\n", r"line 3: reward is '0\.5'"),
        (GOOD + "0 2 0x1 1\n", "line 3: reward is '0x1'"),
        (GOOD + "0 2 nan 1\n", "line 3: reward is 'nan'"),
        (GOOD + "0 ² 0 1\n", "line 3: action"),
        (GOOD + "\n" + GOOD, "line 3: found 0 fields"),
        (GOOD + "0 2 0", "line 3: the last line has no newline"),
        (GOOD + "0 2 0 1", "line 3: the last line has no newline"),
        (GOOD + "16 2 0 1\n", r"line 3: state 16 is not in 0\.\.15"),
        (GOOD + "0 4 0 1\n", r"line 3: action 4 is not in 0\.\.3"),
        (GOOD + "0 2 0 -1\n", r"line 3: next_state -1 is not in 0\.\.15"),
        (GOOD + "0 2 99999999999999999999 1\n", "line 3: reward is '9999"),
        (GOOD + "0 2 99999999 1\n", r"line 3: a reward beyond 2\*\*24"),
        (GOOD + "5 2 0 5\n", "line 3: state 5 is terminal"),
        (
            GOOD + "0 2 1 1\n",
            "line 3: FrozenLake-v1 cannot go from state 0 by action 2 with reward 1 to state 1,",
        ),
        (GOOD + "0 2 0 9\n", "line 3: FrozenLake-v1 cannot go from state 0"),
    ],
)
def test_wrong_text_is_refused_naming_the_line(tmp_path, text, message):
    path = tmp_path / "lake.txt"
    path.write_bytes(text.encode())
    with pytest.raises(SwiftRLError, match=message) as caught:
        open_data(path, "frozenlake")
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_damaged_gzip_is_refused(tmp_path):
    path = tmp_path / "lake.txt.gz"
    packed = gzip.compress(GOOD.encode() * 50)
    for content in (packed[:-4], packed[:15], packed[:20] + b"\xff\xff" + packed[22:]):
        path.write_bytes(content)
        with pytest.raises(SwiftRLError, match="gzip file is damaged or cut off"):
            read_text(path, "frozenlake")


def test_text_needs_an_environment_that_it_can_tell_ends_in(tmp_path, monkeypatch):
    path = tmp_path / "lake.txt"
    path.write_text(GOOD)
    with pytest.raises(SwiftRLError, match="name the environment"):
        open_data(path)
    # A map without terminal states of their own: every outcome ends the episode where others pass.
    lake = resolve("frozenlake")
    fields = {name: getattr(lake, name) for name in lake.__dataclass_fields__}
    ambiguous = Environment(**{**fields, "terminal": np.zeros(16, bool)})
    with pytest.raises(SwiftRLError, match="can terminate in state"):
        read_text(path, ambiguous)


def test_the_numbers_of_actions_outcomes_and_starts_are_independent():
    """From one seed three streams. Words of one generator would meet again: an action takes half of a word that a
    uniform number takes whole, so that of row 2k + 1 would be a quarter of the outcome's number of row k.
    """
    lake, taxi = resolve("frozenlake"), resolve("taxi")  # 4 actions, and 300 states to start from
    rows, begins = 4_000, np.flatnonzero(taxi.start)
    for seed in range(3):
        actions, uniforms, _ = collection._streams(lake, seed)
        _, _, starts = collection._streams(taxi, seed)
        actions, uniforms, starts = (np.array(list(islice(s, 2 * rows))) for s in (actions, uniforms, starts))
        outcomes = (4 * uniforms[:rows]).astype(int)
        began = np.searchsorted(begins, starts[:rows]) * 4 // len(begins)
        for one, other in itertools.product((outcomes, began), (actions[:rows], actions[::2], actions[1::2])):
            assert abs(np.mean(one == other) - 0.25) < 0.04
        assert abs(np.mean(outcomes == began) - 0.25) < 0.04


def test_fractional_rewards_do_not_fit_the_text_format(tmp_path):
    data = Dataset(**columns_of(reward=(2, 0.5)), n_states=1, n_actions=1)
    with pytest.raises(SwiftRLError, match=r"row 2 has the reward 0\.5"):
        write_text(data, tmp_path / "x.txt")
    assert list(tmp_path.iterdir()) == []


def test_open_data_looks_at_the_content(stored, tmp_path):
    data, path = stored
    hidden = tmp_path / "lake.dat"
    hidden.write_bytes(path.read_bytes())
    assert_same(open_data(hidden), data)
    broken = tmp_path / "broken.parquet"
    broken.write_text(GOOD)
    with pytest.raises(SwiftRLError, match="not a complete Parquet file"):
        open_data(broken, "frozenlake")


def test_the_authors_files(shared_data):
    lake = open_data(shared_data / "FrozenLake_trajectories_10k.txt", "frozenlake")
    taxi = open_data(shared_data / "Taxi_trajectories_10k.txt", "taxi")
    cliff = open_data(shared_data / "Cliffwalking_trajectories_10k.txt", "cliffwalking")
    assert [len(data) for data in (lake, taxi, cliff)] == [10_000] * 3
    # FrozenLake: every episode ends in a hole or at the goal, and the next line starts at 0.
    assert (lake.terminated.sum(), lake.truncated.sum()) == (1318, 0)
    assert set(lake.next_state[lake.terminated].tolist()) <= {5, 7, 11, 12, 15}
    first = np.flatnonzero(np.diff(lake.episode)) + 1
    assert (lake.state[first] == 0).all()
    # Taxi: 50 episode ends, 47 at the 200-step limit and 3 deliveries, which pay 20.
    assert (taxi.terminated.sum(), taxi.truncated.sum()) == (3, 47)
    np.testing.assert_array_equal(taxi.terminated, taxi.reward == 20)
    lengths = Counter(np.bincount(taxi.episode).tolist())
    assert lengths[200] == 47
    assert max(lengths) == 200
    # CliffWalking: one episode that goes on and on.
    assert (cliff.terminated.sum(), cliff.truncated.sum(), cliff.episode.max()) == (0, 0, 0)
