"""Logged experience: collect it, keep it on disk, convert it from and to the authors' text format.

A transition is (state, action, reward, next_state, terminated). Two columns more, `truncated` and
`episode`, keep what an episode border was: a truncated transition bootstraps, a terminated one does not,
and the next state is always the one that was really seen, never the first state of the next episode.
"""

import gzip
import hashlib
import json
import os
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from swiftrl_core.data.environments import Environment, base_id, resolve
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import atomic_path

COLUMNS = {
    "state": np.int32,
    "action": np.int32,
    "reward": np.float32,
    "next_state": np.int32,
    "terminated": np.bool_,
    "truncated": np.bool_,
    "episode": np.int32,
}
TEXT_COLUMNS = ("state", "action", "reward", "next_state")
FORMAT = "swiftrl-transitions-1"
MAXIMUM_ROWS = 2**31 - 1  # episode numbers are int32
LARGEST_EXACT_REWARD = 2**24  # above it float32 skips whole numbers
LARGEST_REWARD = float(np.finfo(np.float32).max)
MOST_STATES = 2**31 - 1  # states and actions are int32
_METADATA_KEY = b"swiftrl"
_BLOCK = 1 << 16  # random numbers drawn at a time; part of what a seed means
_UNIFORM_POLICY = "uniform random"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Transitions in the order they were logged, one array per column.

    The arrays are checked when the data set is made, and read-only from then on.

    Attributes
    ----------
    state, action, next_state : (n,) int32
    reward : (n,) float32
    terminated : (n,) bool
        The environment ended the episode here: no bootstrap.
    truncated : (n,) bool
        The step limit ended the episode here, without termination: bootstrap. Gymnasium sets both flags
        when an episode terminates on its very last step; here that is a termination alone.
    episode : (n,) int32
        Number of the episode, from 0.
    n_states, n_actions : int
        Sizes of the Q-table.
    metadata : dict
        JSON values: ``environment``, ``env_id``, ``kwargs``, ``gymnasium_version``, ``step_limit``,
        ``reward_range``, ``terminal_states``, ``policy``, ``seed``, ``source``; empty for data of unknown
        origin.

    Raises
    ------
    SwiftRLError
        If a column has the wrong type or length, a value is out of range (the sentence names the first such
        row, counted from 0), or a terminal state of the environment occurs as `state`.
    """

    state: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_state: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    episode: np.ndarray
    n_states: int
    n_actions: int
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_columns(self)
        _check_values(self, _Place("row", 0))
        for name in COLUMNS:
            view = getattr(self, name).view()
            view.setflags(write=False)
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.state)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The columns by name, in the order of `COLUMNS`."""
        return {name: getattr(self, name) for name in COLUMNS}

    @property
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest reward: the environment's where it is known, else those of the data."""
        known = self.metadata.get("reward_range")
        low, high = known or (self.reward.min(), self.reward.max())
        return float(low), float(high)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the columns' names, types and little-endian bytes, in hexadecimal."""
        digest = hashlib.sha256()
        for name, dtype in COLUMNS.items():
            little = np.dtype(dtype).newbyteorder("<")
            digest.update(f"{name}:{little.str};".encode())
            digest.update(np.ascontiguousarray(getattr(self, name), little).data)
        return digest.hexdigest()

    def rows(self, start: int, stop: int) -> "Dataset":
        """Return rows start, ..., stop - 1 as a data set that shares this one's memory.

        Raises
        ------
        SwiftRLError
            Unless 0 <= start < stop <= len(self).
        """
        if not 0 <= start < stop <= len(self):
            raise SwiftRLError(f"rows {start} to {stop} do not exist; the data set has rows 0 to {len(self)}")
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        return Dataset(**columns, n_states=self.n_states, n_actions=self.n_actions, metadata=self.metadata)


def collect(environment: str | Environment, transitions: int, seed: int) -> Dataset:
    """Log a uniform random policy, as if the Gymnasium environment had been stepped and reset in a loop.

    The sampler walks through ``P`` one transition after the other, with the random numbers drawn ahead in
    blocks. That is the very chain of the real environment. Running many episodes side by side and keeping
    what is done when enough rows are there would prefer short episodes; one walk, cut after the last row,
    cannot. So the last episode is usually unfinished, and then carries neither flag. A smaller data set is
    a prefix of a larger one of the same seed.

    Where ``P`` is not what `step` does (`Environment.inexact`), the real environment is stepped: about 15
    us a transition instead of 0.2 us.

    Parameters
    ----------
    environment : str or Environment
        See `swiftrl_core.data.environments.resolve`.
    transitions : int
        Number of rows.
    seed : int
        Decides every row; not negative.

    Returns
    -------
    Dataset
        Episodes are consecutive rows, numbered from 0.

    Raises
    ------
    SwiftRLError
        If the environment, the number of rows or the seed is not valid.
    """
    environment = resolve(environment)
    transitions = whole_number(transitions, "the number of transitions", 1, MAXIMUM_ROWS)
    seed = whole_number(seed, "the seed", 0)
    columns = (_step if environment.inexact else _walk)(environment, transitions, seed)
    return _dataset(environment, columns, policy=_UNIFORM_POLICY, seed=seed, source="collected")


def save(dataset: Dataset, path: str | os.PathLike) -> None:
    """Write a data set as Parquet (zstd), with its metadata and the SHA-256 of its columns.

    The file appears whole or not at all, and the same data set gives the same bytes with the same pyarrow.

    Raises
    ------
    SwiftRLError
        If the file cannot be written or the metadata is not JSON.
    """
    header = {
        "format": FORMAT,
        "n_states": dataset.n_states,
        "n_actions": dataset.n_actions,
        "sha256": dataset.sha256,
        "metadata": dataset.metadata,
    }
    try:
        text = json.dumps(header, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SwiftRLError(f"cannot write {path}: the metadata is not plain JSON ({error})") from error
    table = pa.table(dataset.columns)
    table = table.replace_schema_metadata({_METADATA_KEY: text})
    with atomic_path(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd")


def load(path: str | os.PathLike, environment: str | Environment | None = None) -> Dataset:
    """Read a data set from Parquet and check it.

    Parameters
    ----------
    path : path
        A file written by `save`, or another Parquet file with the columns of `COLUMNS` in any order.
    environment : str or Environment, optional
        Where the data comes from. Needed for a file that `save` did not write. Where it is given, every row
        must be possible in it.

    Raises
    ------
    SwiftRLError
        If the file is absent, unreadable, cut off or empty, has missing, extra or wrongly typed columns,
        does not match its checksum, was logged in another environment, or holds a value out of range.
    """
    environment = None if environment is None else resolve(environment)
    columns, header = _read_parquet(Path(path))
    try:
        if header is not None:
            dataset = _from_header(columns, header)
        elif environment is not None:
            dataset = _dataset(environment, columns, policy="unknown", seed=None, source=Path(path).name)
        else:
            raise SwiftRLError("no SwiftRL metadata in the file, so name the environment the data comes from")
        if environment is not None:
            _check_environment(dataset, environment)
            _check_possible(dataset.columns, environment, _Place("row", 0))
    except SwiftRLError as error:
        raise SwiftRLError(f"{path}: {error}") from error
    return dataset


def read_text(path: str | os.PathLike, environment: str | Environment) -> Dataset:
    """Read the text format of the SwiftRL authors, plain or gzip: lines ``state action reward next_state``.

    The format has no flags, so they are inferred: a transition is terminated where its next state is a
    terminal state of the environment, and truncated where the next line starts somewhere else without
    termination. A truncation whose reset happens to start where the episode stopped cannot be seen.

    Parameters
    ----------
    path : path
        Integers separated by blanks; every line ends with a newline.
    environment : str or Environment
        Where the data comes from; every line must be possible in it.

    Raises
    ------
    SwiftRLError
        Naming the line, if one is not four integers, is cut off, is out of range or impossible in the
        environment; if the file is absent, empty or damaged.
    """
    environment = resolve(environment)
    _require_telling_states(environment)
    try:
        integers = _parse(_read_bytes(Path(path)))
        columns = _infer(integers, environment)
        _check_possible(columns, environment, _Place("line", 1))
        return _dataset(environment, columns, policy="unknown", seed=None, source=Path(path).name)
    except SwiftRLError as error:
        raise SwiftRLError(f"{path}: {error}") from error


def write_text(dataset: Dataset, path: str | os.PathLike) -> None:
    """Write the text format of the SwiftRL authors; gzip where the name ends in ``.gz``.

    The flags and episode numbers are not part of the format. The seed and the environment are lost, too.

    Raises
    ------
    SwiftRLError
        If a reward is not a whole number, which the format cannot hold, or the file cannot be written.
    """
    whole = dataset.reward == np.rint(dataset.reward)
    if not whole.all():
        row = int(np.argmin(whole))
        raise SwiftRLError(
            f"cannot write {path}: row {row} has the reward {dataset.reward[row]:g} and the text format "
            f"holds whole numbers only; use Parquet"
        )
    columns = {name: getattr(dataset, name).astype(np.int64) for name in TEXT_COLUMNS}
    buffer = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    csv.write_csv(pa.table(columns), buffer, options)
    content = buffer.getvalue().to_pybytes()
    if Path(path).suffix == ".gz":
        content = gzip.compress(content, mtime=0)  # without the time, the same data gives the same bytes
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def is_parquet(path: str | os.PathLike) -> bool:
    """Return whether a name says Parquet: it ends in .parquet or .pq, in any case."""
    return Path(path).suffix.lower() in (".parquet", ".pq")


def open_data(path: str | os.PathLike, environment: str | Environment | None = None) -> Dataset:
    """Read a data set in whichever format it is: Parquet by its first bytes or its suffix, else text.

    Parameters
    ----------
    path : path
    environment : str or Environment, optional
        Needed for text; see `load` and `read_text`.

    Raises
    ------
    SwiftRLError
        As `load` and `read_text` do, and for text without an environment.
    """
    path = Path(path)
    with _opened(path) as stream:
        magic = stream.read(4)
    if magic == b"PAR1" or is_parquet(path):
        return load(path, environment)
    if environment is None:
        raise SwiftRLError(
            f"{path}: the text format does not say where the data comes from; name the environment, such "
            f"as 'taxi'"
        )
    return read_text(path, environment)


# --- sampling ---------------------------------------------------------------------------------------------


def _walk(environment: Environment, transitions: int, seed: int) -> dict[str, np.ndarray]:
    """Sample a chain of transitions from ``P``; return the columns."""
    outcome, lengths = _chain(environment, transitions, *_streams(environment, seed))
    pair = outcome // environment.probability.shape[2]
    terminated = environment.terminated.ravel()[outcome]
    last = np.cumsum(lengths) - 1  # row in which each episode stops
    truncated = np.zeros(transitions, bool)
    truncated[last] = (lengths == environment.step_limit) & ~terminated[last]
    return {
        "state": (pair // environment.n_actions).astype(np.int32),
        "action": (pair % environment.n_actions).astype(np.int32),
        "reward": environment.reward.ravel()[outcome].astype(np.float32),
        "next_state": environment.next_state.ravel()[outcome],
        "terminated": terminated,
        "truncated": truncated,
        "episode": np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
    }


def _streams(environment: Environment, seed: int) -> tuple[Iterator[int], Iterator[float], Iterator[int]]:
    """Return endless draws of actions, of uniform numbers for the outcomes, and of start states.

    Each has a generator of its own, so that no row depends on how many rows are wanted.
    """
    actions, uniforms, starts = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(3))
    return (
        _endless(lambda: actions.integers(environment.n_actions, size=_BLOCK)),
        _endless(lambda: uniforms.random(_BLOCK)),
        _endless(lambda: environment.sample_starts(starts.random(_BLOCK))),
    )


def _endless(block: Callable[[], np.ndarray]) -> Iterator[Any]:
    """Chain the blocks a function draws, one Python number at a time, for ever."""
    return chain.from_iterable(iter(lambda: block().tolist(), None))


def _chain(
    environment: Environment,
    transitions: int,
    actions: Iterator[int],
    uniforms: Iterator[float],
    starts: Iterator[int],
) -> tuple[np.ndarray, np.ndarray]:
    """Walk through ``P`` with resets; return flat outcome indices (n,) and episode lengths (episodes,).

    Lists and `bisect` rather than arrays: one step depends on the one before, and NumPy costs 20 times as
    much as a list when it handles one number.
    """
    outcomes, n_actions = environment.probability.shape[2], environment.n_actions
    thresholds = environment.thresholds.tolist()
    next_pair = (environment.next_state.ravel() * n_actions).tolist()  # pair of (next state, action 0)
    ends = environment.terminated.ravel().tolist()
    draws = zip(actions, uniforms, strict=False)
    limit = environment.step_limit or transitions
    chosen, lengths = array("q"), array("q")
    while (before := len(chosen)) < transitions:
        pair = next(starts) * n_actions
        for action, uniform in islice(draws, min(limit, transitions - before)):
            pair += action
            outcome = pair * outcomes + bisect_right(thresholds[pair], uniform)
            chosen.append(outcome)
            if ends[outcome]:
                break
            pair = next_pair[outcome]
        lengths.append(len(chosen) - before)
    return np.frombuffer(chosen, np.int64), np.frombuffer(lengths, np.int64)


def _step(environment: Environment, transitions: int, seed: int) -> dict[str, np.ndarray]:
    """Step the real environment instead; return the same columns."""
    # Gymnasium makes the environment's generator of the seed as NumPy does. Actions from default_rng(seed) would be
    # the same stream as the outcomes; on Taxi, reward shares then vary a fifth as much between seeds as they should.
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
    rows, episode, env = [], 0, environment.make()
    try:
        state, _ = env.reset(seed=seed)
        for action in rng.integers(environment.n_actions, size=transitions).tolist():
            following, reward, terminated, truncated, _ = env.step(action)
            rows.append((state, action, reward, following, terminated, truncated and not terminated, episode))
            state = following
            if terminated or truncated:
                episode += 1
                state, _ = env.reset()
    finally:
        env.close()
    columns = zip(*rows, strict=True)
    return {name: np.array(column, COLUMNS[name]) for name, column in zip(COLUMNS, columns, strict=True)}


def _dataset(
    environment: Environment, columns: dict[str, np.ndarray], policy: str, seed: int | None, source: str
) -> Dataset:
    """Make a data set that knows its environment."""
    return Dataset(
        **columns,
        n_states=environment.n_states,
        n_actions=environment.n_actions,
        metadata={
            "environment": environment.name,
            "env_id": environment.env_id,
            "kwargs": environment.kwargs,
            "gymnasium_version": environment.gymnasium_version,
            "step_limit": environment.step_limit,
            "reward_range": list(environment.reward_range),
            "terminal_states": np.flatnonzero(environment.terminal).tolist(),
            "policy": policy,
            "seed": seed,
            "source": source,
        },
    )


# --- files ------------------------------------------------------------------------------------------------


def _opened(path: Path) -> Any:
    try:
        if path.exists() and not path.is_file():
            raise SwiftRLError(f"cannot read {path}: it is no ordinary file; name one that holds a data set")
        return path.open("rb")
    except OSError as error:
        raise SwiftRLError(f"cannot read {path}: {error.strerror or error}") from error


def _read_bytes(path: Path) -> bytes:
    """Return a file's content, unpacked if it is gzip."""
    with _opened(path) as stream:
        content = stream.read()
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SwiftRLError(f"the gzip file is damaged or cut off ({error}); copy it again") from error


def _read_parquet(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
    """Return the columns and the stored header, None where there is none."""
    with _opened(path) as stream:
        try:
            with parquet.ParquetFile(stream) as file:
                _check_schema(path, file.schema_arrow)
                table = file.read()
        except (OSError, pa.ArrowException) as error:
            reason = " ".join(str(error).split())
            raise SwiftRLError(
                f"{path}: not a whole Parquet file ({reason}); copy or collect it again"
            ) from error
    if table.num_rows == 0:
        raise SwiftRLError(f"{path}: the file holds no transitions; at least one is needed")
    for name in COLUMNS:
        if table[name].null_count:
            row = int(np.argmax(table[name].is_null().to_numpy()))
            raise SwiftRLError(f"{path}: {name} is missing in row {row}; every value must be given")
    stored = (table.schema.metadata or {}).get(_METADATA_KEY)
    try:
        header = None if stored is None else json.loads(stored)
    except ValueError as error:
        raise SwiftRLError(f"{path}: the metadata is not JSON ({error}); write the file again") from error
    return {name: table[name].to_numpy() for name in COLUMNS}, header


def _check_schema(path: Path, schema: pa.Schema) -> None:
    missing = [name for name in COLUMNS if name not in schema.names]
    extra = [name for name in schema.names if name not in COLUMNS]
    if missing or extra or len(schema.names) != len(COLUMNS):
        raise SwiftRLError(
            f"{path}: the columns are {schema.names}, expected {list(COLUMNS)}: missing {missing}, unknown {extra}"
        )
    for name, dtype in COLUMNS.items():
        if schema.field(name).type != pa.from_numpy_dtype(dtype):
            raise SwiftRLError(
                f"{path}: column {name} is {schema.field(name).type}, expected {pa.from_numpy_dtype(dtype)}"
            )


def _from_header(columns: dict[str, np.ndarray], header: Any) -> Dataset:
    """Make the data set that a header describes, and compare its checksum."""
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise SwiftRLError(
            f"the metadata is not of format {FORMAT!r}; read it with the version that wrote it"
        )
    try:
        sizes = {name: header[name] for name in ("n_states", "n_actions", "metadata")}
        expected = header["sha256"]
    except KeyError as error:
        raise SwiftRLError(f"the metadata lacks {error}; write the file again") from error
    dataset = Dataset(**columns, **sizes)
    if dataset.sha256 != expected:
        raise SwiftRLError(
            "the columns do not match their checksum, so the file was changed; collect it again"
        )
    return dataset


def _parse(content: bytes) -> np.ndarray:
    """Turn text into (n, 4) int64: by Arrow if it is clean, else line by line, which finds what is wrong."""
    if not content.strip():
        raise SwiftRLError("the file is empty; expected lines 'state action reward next_state'")
    if not content.translate(None, b"0123456789- \n") and content.endswith(b"\n"):
        try:
            table = csv.read_csv(
                pa.BufferReader(content),
                csv.ReadOptions(column_names=TEXT_COLUMNS),
                csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False),
                csv.ConvertOptions(column_types=dict.fromkeys(TEXT_COLUMNS, pa.int64()), null_values=[]),
            )
            return np.stack([table[name].to_numpy() for name in TEXT_COLUMNS], axis=1)
        except pa.ArrowInvalid:
            pass  # unusual or wrong: the slow reader accepts the one and names the line of the other
    return _parse_lines(content)


def _parse_lines(content: bytes) -> np.ndarray:
    """Read line by line; every complaint names its line."""
    lines = content.decode("latin-1").split("\n")
    if lines.pop():
        raise SwiftRLError(
            f"line {len(lines) + 1}: the last line has no newline, so the file seems cut off; copy it "
            f"again, or add the newline if it is whole"
        )
    rows = np.empty((len(lines), 4), np.int64)
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if len(fields) != 4:
            raise SwiftRLError(
                f"line {number}: found {len(fields)} fields, expected 4: state action reward next_state"
            )
        for column, text in enumerate(fields):
            digits = text[1:] if text[0] in "+-" else text
            if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
                raise SwiftRLError(
                    f"line {number}: {TEXT_COLUMNS[column]} is {text[:24]!r}, expected a whole number"
                )
            rows[number - 1, column] = int(text)
    return rows


def _infer(integers: np.ndarray, environment: Environment) -> dict[str, np.ndarray]:
    """Add the flags and episode numbers to (n, 4) integers, once these are known to be in range."""
    columns = dict(zip(TEXT_COLUMNS, integers.T, strict=True))
    place = _Place("line", 1)
    for name, size in _sizes(environment).items():
        _check_range(name, columns[name], size, place)
    _first(
        np.abs(columns["reward"]) > LARGEST_EXACT_REWARD, place, "a reward beyond 2**24, inexact in float32"
    )
    state, next_state = columns["state"], columns["next_state"]
    terminated = environment.terminal[next_state]
    truncated = np.zeros(len(state), bool)
    truncated[:-1] = (state[1:] != next_state[:-1]) & ~terminated[:-1]
    episode = np.zeros(len(state), np.int32)
    np.cumsum((terminated | truncated)[:-1], out=episode[1:])
    columns |= {"terminated": terminated, "truncated": truncated, "episode": episode}
    return {name: np.ascontiguousarray(columns[name], dtype) for name, dtype in COLUMNS.items()}


def _require_telling_states(environment: Environment) -> None:
    """Refuse an environment where the next state does not say whether the episode terminated."""
    ends_in = environment.next_state[environment.terminated & (environment.probability > 0)]
    passing = ends_in[~environment.terminal[ends_in]]
    if len(passing):
        raise SwiftRLError(
            f"{environment.env_id} can terminate in state {passing[0]} and also pass through it, so text "
            f"without flags does not say where episodes end; use Parquet"
        )


# --- checks -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """How a sentence names the i-th transition: rows count from 0, lines from 1."""

    unit: str
    first: int

    def of(self, index: int) -> str:
        return f"{self.unit} {index + self.first}"


def _first(wrong: np.ndarray, place: _Place, complaint: str, *values: np.ndarray) -> None:
    """Raise if any element is True, naming the first; `complaint` is formatted with its values."""
    index = int(np.argmax(wrong))
    if wrong[index]:
        raise SwiftRLError(f"{place.of(index)}: {complaint.format(*(value[index] for value in values))}")


def _check_columns(dataset: Dataset) -> None:
    """Check types, shapes and sizes: what can be said without looking at a value."""
    whole_number(dataset.n_states, "n_states", 1, MOST_STATES)
    whole_number(dataset.n_actions, "n_actions", 1, MOST_STATES)
    rows = len(dataset.state) if isinstance(dataset.state, np.ndarray) and dataset.state.ndim == 1 else -1
    if rows == 0:
        raise SwiftRLError("the data set holds no transitions; at least one is needed")
    for name, dtype in COLUMNS.items():
        column = getattr(dataset, name)
        if not isinstance(column, np.ndarray) or column.dtype != dtype or column.shape != (rows,):
            found = (
                f"{column.dtype} {column.shape}" if isinstance(column, np.ndarray) else type(column).__name__
            )
            length = "n" if rows < 0 else rows
            raise SwiftRLError(f"column {name} is {found}, expected an array {np.dtype(dtype)} ({length},)")
    if not isinstance(dataset.metadata, dict):
        raise SwiftRLError(f"metadata is {type(dataset.metadata).__name__}, expected a dict of JSON values")
    _check_metadata(dataset)


def _check_metadata(dataset: Dataset) -> None:
    """Check the metadata that is used: it may come from a file that something else wrote or damaged."""
    known = dataset.metadata
    if (rewards := known.get("reward_range")) is not None:
        numbers = isinstance(rewards, list | tuple) and [x for x in rewards if isinstance(x, int | float)]
        if not numbers or len(numbers) != 2 or len(rewards) != 2 or not np.isfinite(numbers).all():
            raise SwiftRLError(f"the metadata's reward_range is {rewards!r}, expected two finite numbers")
    terminal = known.get("terminal_states") or []
    if not isinstance(terminal, list | tuple):
        raise SwiftRLError(f"the metadata's terminal_states is {terminal!r}, expected a list of states")
    for state in terminal:
        whole_number(state, "a terminal state of the metadata", 0, dataset.n_states - 1)
    if not isinstance(known.get("env_id", ""), str):
        raise SwiftRLError(f"the metadata's env_id is {known['env_id']!r}, expected the environment's name")


def _sizes(sized: Dataset | Environment) -> dict[str, int]:
    return {"state": sized.n_states, "action": sized.n_actions, "next_state": sized.n_states}


def _check_range(name: str, column: np.ndarray, size: int, place: _Place) -> None:
    _first((column < 0) | (column >= size), place, f"{name} {{}} is not in 0..{size - 1}", column)


def _check_values(dataset: Dataset, place: _Place) -> None:
    """Check every value against the sizes and what the metadata says of the environment."""
    for name, size in _sizes(dataset).items():
        _check_range(name, getattr(dataset, name), size, place)
    reward = dataset.reward
    _first(~np.isfinite(reward), place, "reward {} is not a finite number", reward)
    _first(
        dataset.terminated & dataset.truncated, place, "both terminated and truncated, expected at most one"
    )
    _first(dataset.episode < 0, place, "episode {} is negative", dataset.episode)
    if (known := dataset.metadata.get("reward_range")) is not None:
        low, high = np.clip(known, -LARGEST_REWARD, LARGEST_REWARD).astype(np.float32)
        outside = (reward < low) | (reward > high)
        _first(outside, place, f"reward {{}} is not in the environment's range {low:g}..{high:g}", reward)
    if terminal := dataset.metadata.get("terminal_states"):
        is_terminal = np.zeros(dataset.n_states, bool)
        is_terminal[terminal] = True
        _check_terminal(is_terminal, dataset.state, place)


def _check_terminal(is_terminal: np.ndarray, state: np.ndarray, place: _Place) -> None:
    """Bootstrapping and the exact evaluation both need that no episode continues after its end."""
    complaint = (
        "state {} is terminal, so no transition can start there; drop the rows logged after an episode's end"
    )
    _first(is_terminal[state], place, complaint, state)


def _check_environment(dataset: Dataset, environment: Environment) -> None:
    """Compare where a data set says it comes from with where the caller says so; versions may differ."""
    stored = (dataset.metadata.get("env_id"), dataset.metadata.get("kwargs"))
    if stored[0] is None:
        return
    if (base_id(stored[0]), stored[1]) != (base_id(environment.env_id), environment.kwargs):
        raise SwiftRLError(
            f"the data was logged in {_called(*stored)}, not in {_called(environment.env_id, environment.kwargs)}; "
            "name the environment it comes from, or none"
        )


def _called(env_id: str, kwargs: dict[str, Any]) -> str:
    return f"{env_id} with {kwargs}" if kwargs else env_id


def _check_possible(columns: dict[str, np.ndarray], environment: Environment, place: _Place) -> None:
    """Check that the environment can produce every transition, flag included, where ``P`` can tell."""
    state, action, reward, next_state, terminated = (columns[name] for name in (*TEXT_COLUMNS, "terminated"))
    for name, size in _sizes(environment).items():
        _check_range(name, columns[name], size, place)
    _check_terminal(environment.terminal, state, place)
    if environment.inexact:
        return
    pair = state * environment.n_actions + action
    possible = np.zeros(len(state), bool)
    for k in range(environment.probability.shape[2]):
        probability, follows, pays, ends = (
            table[:, :, k].ravel()
            for table in (
                environment.probability,
                environment.next_state,
                environment.reward,
                environment.terminated,
            )
        )
        same = (follows[pair] == next_state) & (pays.astype(np.float32)[pair] == reward)
        possible |= same & (ends[pair] == terminated) & (probability > 0)[pair]
    _first(
        ~possible,
        place,
        f"{environment.env_id} cannot go from state {{}} by action {{}} with reward {{:g}} to state {{}}, "
        "terminated {}; name the environment and arguments the data comes from",
        state,
        action,
        reward,
        next_state,
        terminated,
    )
