"""The text format of the SwiftRL authors, plain or gzip: lines ``state action reward next_state``."""

import gzip
import os
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from swiftrl_core.data.environments import Environment, resolve
from swiftrl_core.data.transitions import (
    COLUMNS,
    LINE,
    Dataset,
    check_possible,
    check_range,
    refuse_first,
    sizes,
)
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import atomic_path, opened

TEXT_COLUMNS = ("state", "action", "reward", "next_state")
LARGEST_EXACT_REWARD = 2**24  # above it float32 skips whole numbers


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
    _require_distinct_ends(environment)
    try:
        integers = _parse(_read_bytes(Path(path)))
        columns = _infer(integers, environment)
        check_possible(columns, environment, LINE)
        return Dataset.logged_in(environment, columns, source=Path(path).name)
    except SwiftRLError as error:
        raise SwiftRLError(f"{path}: {error}") from error


def write_text(dataset: Dataset, path: str | os.PathLike) -> None:
    """Write the text format of the SwiftRL authors; gzip where the name ends in ``.gz``.

    The flags and episode numbers are not part of the format. The seed and the environment are also lost.

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


def _read_bytes(path: Path) -> bytes:
    """Return a file's content, unpacked if it is gzip."""
    with opened(path) as stream:
        content = stream.read()
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SwiftRLError(f"the gzip file is damaged or cut off ({error}); copy it again") from error


def _parse(content: bytes) -> np.ndarray:
    """Turn text into (n, 4) int64: by Arrow if it is clean, else line by line, which finds the error."""
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
            pass  # unusual or wrong: the slow reader accepts the first and names the line of the second
    return _parse_lines(content)


def _parse_lines(content: bytes) -> np.ndarray:
    """Read line by line, so that an error names its line."""
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
    for name, size in sizes(environment).items():
        check_range(name, columns[name], size, LINE)
    inexact = np.abs(columns["reward"]) > LARGEST_EXACT_REWARD
    refuse_first(inexact, LINE, "a reward beyond 2**24, inexact in float32")
    state, next_state = columns["state"], columns["next_state"]
    terminated = environment.terminal[next_state]
    truncated = np.zeros(len(state), bool)
    truncated[:-1] = (state[1:] != next_state[:-1]) & ~terminated[:-1]
    episode = np.zeros(len(state), np.int32)
    np.cumsum((terminated | truncated)[:-1], out=episode[1:])
    columns |= {"terminated": terminated, "truncated": truncated, "episode": episode}
    return {name: np.ascontiguousarray(columns[name], dtype) for name, dtype in COLUMNS.items()}


def _require_distinct_ends(environment: Environment) -> None:
    """Refuse an environment where the next state does not determine whether the episode terminated."""
    ends_in = environment.next_state[environment.terminated & (environment.probability > 0)]
    passing = ends_in[~environment.terminal[ends_in]]
    if len(passing):
        raise SwiftRLError(
            f"{environment.env_id} can terminate in state {passing[0]} and also pass through it, so a "
            "text file, which has no flags, does not show where episodes end; use Parquet"
        )
