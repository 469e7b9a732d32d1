"""Data sets in files: Parquet, and any format by its content."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from swiftrl_core.data.environments import Environment, resolve
from swiftrl_core.data.text_format import read_text
from swiftrl_core.data.transitions import COLUMNS, Dataset, check_environment, check_possible
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import atomic_path, opened

FORMAT = "swiftrl-transitions-1"
_METADATA_KEY = b"swiftrl"


def save(dataset: Dataset, path: str | os.PathLike) -> None:
    """Write a data set as Parquet (zstd), with its metadata and the SHA-256 of its columns.

    The file appears whole or not at all, and the same data set gives the same bytes with the same pyarrow.

    Parameters
    ----------
    dataset : Dataset
    path : path
        The file to write; an existing one is replaced.

    Raises
    ------
    SwiftRLError
        If the file cannot be written or the metadata is not JSON.

    Examples
    --------
    >>> from swiftrl_core import collect, load, save
    >>> lake = collect("frozenlake", 500, seed=1)
    >>> save(lake, "lake.parquet")
    >>> load("lake.parquet").sha256 == lake.sha256
    True
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

    Returns
    -------
    Dataset

    Raises
    ------
    SwiftRLError
        If the file is absent, unreadable, cut off or empty, has missing, extra or wrongly typed columns,
        does not match its checksum, was logged in another environment, or holds a value out of range.

    Examples
    --------
    >>> from swiftrl_core import collect, load, save
    >>> save(collect("taxi", 300, seed=0), "taxi.parquet")
    >>> len(load("taxi.parquet"))
    300
    """
    environment = None if environment is None else resolve(environment)
    columns, header = _read_parquet(Path(path))
    try:
        if header is not None:
            dataset = _from_header(columns, header)
        elif environment is not None:
            dataset = Dataset.logged_in(environment, columns, source=Path(path).name)
        else:
            raise SwiftRLError("no SwiftRL metadata in the file, so name the environment the data comes from")
        if environment is not None:
            check_environment(dataset, environment)
            check_possible(dataset.columns, environment)
    except SwiftRLError as error:
        raise SwiftRLError(f"{path}: {error}") from error
    return dataset


def is_parquet(path: str | os.PathLike) -> bool:
    """Return whether a file name is one of Parquet: it ends in .parquet or .pq, in any case."""
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
    with opened(path) as stream:
        magic = stream.read(4)
    if magic == b"PAR1" or is_parquet(path):
        return load(path, environment)
    if environment is None:
        raise SwiftRLError(
            f"{path}: the text format does not record where the data come from; name the environment, such as 'taxi'"
        )
    return read_text(path, environment)


def _read_parquet(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
    """Return the columns and the stored header, None where there is none."""
    with opened(path) as stream:
        try:
            with parquet.ParquetFile(stream) as file:
                _check_schema(path, file.schema_arrow)
                table = file.read()
        except (OSError, pa.ArrowException) as error:
            reason = " ".join(str(error).split())
            raise SwiftRLError(
                f"{path}: not a complete Parquet file ({reason}); copy or collect it again"
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
    except (ValueError, RecursionError) as error:
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
