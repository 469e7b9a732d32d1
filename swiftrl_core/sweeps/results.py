"""Tables of runs: their columns, and Parquet files with a manifest.

A table has one row for each run, with the columns `COLUMNS` or those of another kind of run (`Probe`). Its manifest is
written last and holds the checksum: without it, the table is not finished.
"""

import datetime
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from swiftrl_core.learner import SOMETIMES_IGNORED
from swiftrl_core.sweeps.settings import ARROW, LEARNER
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import atomic_path, sha256_file

ROW_SCHEMA_VERSION = 3
"""Raised when a column changes its name, type or meaning: rows of two versions never stand in one table."""


def column(name: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
    """Return a column: its name, its type, and whether a row may have none."""
    return pa.field(name, kind, nullable=nullable)


_LEARNER_COLUMNS = [
    column(name, ARROW.get(kind, pa.string()), nullable=name in SOMETIMES_IGNORED)
    for name, kind in LEARNER.items()
]
"""A number is null in the rows of learners that do not use it: alpha where it falls, epsilon in Q-learning."""

COLUMNS = pa.schema(
    [
        column("schema_version", pa.int32()),
        column("config_hash", pa.string()),  # of the settings, the columns down to `ties`
        column("environment", pa.string()),
        column("environment_options", pa.string()),  # JSON
        column("data_sha256", pa.string(), nullable=True),  # null where the data set was collected
        column("transitions", pa.int64()),
        column("data_seed", pa.int64(), nullable=True),  # null where the data set is a file
        *_LEARNER_COLUMNS,
        column("cores", pa.int64()),
        column("episodes", pa.int64()),
        column("tau", pa.int64()),
        column("seed", pa.int64()),
        column("backend", pa.string()),
        column("backend_options", pa.string()),  # JSON
        column("hardware", pa.bool_()),  # asked for hardware, and would have failed without it
        column("monte_carlo_episodes", pa.int64()),
        column("evaluation_seed", pa.int64()),
        column("ties", pa.string()),
        # the data: shares of the (state, action) pairs an episode can meet
        column("env_id", pa.string()),
        column("coverage", pa.float64()),  # pairs seen anywhere in the data
        column("chunk_coverage", pa.float64()),  # pairs seen in a chunk, mean over the chunks
        column("chunks_without_positive_reward", pa.int64()),
        # the result; exact columns are null where P is not what the environment does
        column("q_sha256", pa.string()),  # of the raw table's bytes
        column("exact_return", pa.float64(), nullable=True),
        column("optimum", pa.float64(), nullable=True),  # exact return of the greedy policy of Q*
        column("monte_carlo_mean", pa.float64(), nullable=True),
        column("monte_carlo_standard_error", pa.float64(), nullable=True),
        column("max_error_optimal", pa.float64(), nullable=True),  # |Q - Q*| over pairs an episode can meet
        column("mean_error_optimal", pa.float64(), nullable=True),
        column("max_error_empirical", pa.float64(), nullable=True),  # against the data's fixed point
        column("mean_error_empirical", pa.float64(), nullable=True),
        column("nominal_updates", pa.int64()),
        column("executed_updates", pa.int64()),
        column("rounds", pa.int64()),
        # bytes to and from all cores together; null where nothing is distributed
        column("round_bytes_down", pa.int64(), nullable=True),  # tables, in each round
        column("round_bytes_up", pa.int64(), nullable=True),
        column("bytes_communicated", pa.int64(), nullable=True),  # of the whole run, the chunks included
        # the time, in seconds, and what it is
        column("cpu_to_pim", pa.float64()),
        column("pim_kernel", pa.float64()),
        column("inter_pim_core", pa.float64()),
        column("pim_to_cpu", pa.float64()),
        column("host_averaging", pa.float64()),  # part of the others but the kernel; always measured
        column("evidence", pa.string()),
        column("simulated_dpus", pa.int64(), nullable=True),  # of the `cores`; null where none was simulated
        column("hardware_profile", pa.string(), nullable=True),
        column("model_version", pa.string(), nullable=True),
        column("machine", pa.string()),
        column("machine_details", pa.string()),  # JSON
        column("wall_seconds", pa.float64()),  # of training, measured on the host
        column("workers", pa.int64()),  # runs that were under way on the host at once, this one included
        # where it comes from
        column("created", pa.string()),
        column("host", pa.string()),
        column("git_commit", pa.string(), nullable=True),
        column("versions", pa.string()),  # JSON
    ]
)
"""The columns of a table of training runs, in order, with their types."""

LATER = MappingProxyType({"bootstrap": "current"})
"""Columns that the first rows of this schema version lack, and their value in these rows, a choice of the paper's. A
run with that value has the name that it had without the column."""

RENAMED = MappingProxyType({"backend": MappingProxyType({"model": "exact"})})
"""Column to old values and their new names. The name of a run is still made with the old value."""

VARIES = frozenset(
    (
        "host_averaging",
        "wall_seconds",
        "workers",
        "created",
        "host",
        "git_commit",
        "versions",
        "machine_details",
    )
)
"""Columns that differ from run to run of one configuration. Where the evidence is measured, so do the four `PARTS`."""
PARTS = ("cpu_to_pim", "pim_kernel", "inter_pim_core", "pim_to_cpu")


def to_table(rows: Iterable[Mapping[str, Any]], columns: pa.Schema = COLUMNS) -> pa.Table:
    """Return rows as a table, checked against its columns.

    Raises
    ------
    SwiftRLError
        If a row lacks a column, has one more, or a value does not fit its column.
    """
    later = {name: value for name, value in LATER.items() if name in columns.names}
    rows = [later | _with_new_names(row) for row in rows]
    for row in rows:
        check_version(row.get("schema_version"), f"the row {row.get('config_hash')}")
        if missing := columns.names - row.keys():
            raise SwiftRLError(f"the row {row['config_hash']} lacks the columns {sorted(missing)}")
        if unknown := row.keys() - set(columns.names):
            raise SwiftRLError(f"the row {row['config_hash']} has unknown columns {sorted(unknown)}")
    try:
        table = pa.Table.from_pylist(rows, columns)
        table.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SwiftRLError(
            f"a row's value does not fit its column: {' '.join(str(error).split())}"
        ) from error
    for field in columns:
        if not field.nullable and table[field.name].null_count:
            raise SwiftRLError(f"column {field.name} has no value in some row; every row needs one")
    for row, kept in zip(
        rows, table.to_pylist(), strict=True
    ):  # Arrow truncates 2.5 to 2 in an integer column
        if changed := [name for name in columns.names if row[name] != kept[name]]:
            raise SwiftRLError(
                f"the row {row['config_hash']} has values that do not fit the columns {changed}"
            )
    return table


def write_table(path: str | os.PathLike, table: pa.Table) -> dict:
    """Write a table of runs as Parquet, then its manifest in the same folder; return the manifest.

    The manifest has the table's name with the suffix `.json`. It holds the number of rows, the Parquet file's checksum,
    and the distinct values of columns that should not be mixed unnoticed: evidence, hardware profile, model version.

    Raises
    ------
    SwiftRLError
        If the folder cannot be written.
    """
    path = Path(path)
    manifest_path = path.with_suffix(".json")
    manifest_path.unlink(missing_ok=True)
    with atomic_path(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd")
    manifest = {
        "schema_version": ROW_SCHEMA_VERSION,
        "created": now(),
        "rows": table.num_rows,
        "files": {path.name: sha256_file(path)},
        "config_hash": _hash_of(sorted(table["config_hash"].to_pylist())),
    } | {name: _distinct(table, name) for name in _SUMMARISED if name in table.column_names}
    with atomic_path(manifest_path) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def read_table(path: str | os.PathLike, columns: pa.Schema = COLUMNS) -> pd.DataFrame:
    """Read a table of runs that `write_table` wrote, with these columns.

    Raises
    ------
    SwiftRLError
        If the table or its manifest is absent, damaged, or of another schema version.
    """
    path = Path(path)
    try:
        manifest = json.loads(path.with_suffix(".json").read_text())
        check_version(manifest["schema_version"], str(path))
        whole = manifest["files"][path.name] == sha256_file(path)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SwiftRLError(
            f"{path} is not a finished table with its manifest ({type(error).__name__}: {error}); compact it again"
        ) from error
    if not whole:
        raise SwiftRLError(f"{path} does not match the checksum in its manifest; compact it again")
    table = _with_later_columns(parquet.read_table(path), columns)
    if table.schema.remove_metadata() != columns:
        raise SwiftRLError(
            f"{path} has other columns than schema version {ROW_SCHEMA_VERSION}; compact it again"
        )
    return table.to_pandas()


def _with_later_columns(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return a stored table with the columns that came later, and with the new names of old values."""
    for name in LATER.keys() & set(columns.names) - set(table.column_names):
        values = pa.array([LATER[name]] * table.num_rows, columns.field(name).type)
        table = table.append_column(columns.field(name), values)
    for name, values in RENAMED.items():
        if name in table.column_names:
            place, kept = table.column_names.index(name), table[name].to_pylist()
            renamed = pa.array([values.get(value, value) for value in kept], table.schema.field(name).type)
            table = table.set_column(place, table.schema.field(name), renamed)
    return table.select(columns.names) if set(table.column_names) == set(columns.names) else table


def _with_new_names(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with today's names of values; see `RENAMED`."""
    return dict(row) | {
        name: values.get(row[name], row[name]) for name, values in RENAMED.items() if name in row
    }


def check_version(found: Any, what: str) -> None:
    """Refuse rows of another schema version, which must not be mixed with others or silently repeated.

    Raises
    ------
    SwiftRLError
        If `found` is not `ROW_SCHEMA_VERSION`; `what` names the row or table.
    """
    if found != ROW_SCHEMA_VERSION:
        raise SwiftRLError(
            f"{what} is of schema version {found}, this package writes {ROW_SCHEMA_VERSION}: "
            "keep the two in separate folders, and run again what you need"
        )


_SUMMARISED = (
    *("environment", "backend", "evidence", "hardware_profile", "model_version", "machine", "host"),
    *("git_commit", "versions", "seed", "data_seed"),
)


def _distinct(table: pa.Table, name: str) -> list:
    return sorted(table[name].unique().drop_null().to_pylist())


def _hash_of(names: list[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def now() -> str:
    """Return the time in UTC, ISO 8601 to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
