"""The store of a sweep's rows: a folder with one small file for each finished run.

    DIR/rows/HASH.json       the row of a finished run, named by its configuration
    DIR/failed/HASH.json     the error of a failed run, with its settings
    DIR/table.parquet, .json the rows as one table with its manifest, made on demand

A file is written atomically, so a killed process leaves finished runs and nothing else. A row carries its own checksum;
a damaged file counts as absent, and its run is repeated. A row is never overwritten, so two sweeps in one folder agree
on the first.
"""

import datetime
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from swiftrl_core.sweeps import results
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import new_file_mode

TABLE = "table.parquet"
_ROW_FILE = re.compile(r"[0-9a-f]{20}\.json")


class StoreError(SwiftRLError):
    """The folder of results cannot be written, so nothing more would be kept."""


class Store:
    """The rows of a sweep, in a folder.

    Parameters
    ----------
    directory : path
        Made when the first row is written.
    columns : pa.Schema
        Of the rows; by default those of training runs.
    """

    def __init__(self, directory: str | os.PathLike, columns: pa.Schema = results.COLUMNS) -> None:
        self.directory = Path(directory)
        self._columns = columns
        before = self.directory / "cells"  # the name of the folder before the first release
        self._rows = before if before.is_dir() else self.directory / "rows"
        self._failed = self.directory / "failed"

    def prepare(self) -> None:
        """Make the folder and check that it can be written, before anything expensive starts.

        Raises
        ------
        StoreError
            If it cannot.
        """
        with _explained(self.directory):
            for folder in (self._rows, self._failed):
                folder.mkdir(parents=True, exist_ok=True)
                _write_new(folder / ".writable", b"")
                (folder / ".writable").unlink(missing_ok=True)

    def row(self, config_hash: str) -> dict[str, Any] | None:
        """Return a finished run's row, or None if there is none or it is damaged.

        Raises
        ------
        SwiftRLError
            If the row is of another schema version.
        """
        found = _read(self._rows / f"{config_hash}.json")
        if found is None:
            return None
        results.check_version(found.get("schema_version"), f"{self._rows / config_hash}.json")
        row = found.get("row")
        whole = isinstance(row, dict) and found.get("sha256") == _checksum(row)
        return row if whole and row.get("config_hash") == config_hash else None

    def __contains__(self, config_hash: str) -> bool:
        return self.row(config_hash) is not None

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a finished run's row, unless the folder already has one; forget its failure.

        Raises
        ------
        StoreError
            If the file cannot be written.
        SwiftRLError
            If the row does not have the store's columns.
        """
        row = results.to_table([row], self._columns).to_pylist()[0]
        config_hash = row["config_hash"]
        target = self._rows / f"{config_hash}.json"
        content = {"schema_version": row["schema_version"], "sha256": _checksum(row), "row": row}
        with _explained(target):
            if not _write_new(target, _encode(content)) and config_hash not in self:
                _discard(target)  # there, but damaged
                _write_new(target, _encode(content))
            _discard(self._failed / target.name)

    def fail(self, config: Mapping[str, Any], config_hash: str, error: str, details: str) -> None:
        """Record that a run failed; a later failure of the same run replaces the record.

        Raises
        ------
        StoreError
            If the file cannot be written.
        """
        record = {
            "config_hash": config_hash,
            "error": error,
            "details": details,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "config": dict(config),
        }
        target = self._failed / f"{config_hash}.json"
        with _explained(target):
            while not _write_new(target, _encode(record)):
                _discard(target)

    def failures(self) -> dict[str, dict[str, Any]]:
        """Return the records of failed runs by configuration hash."""
        records = {path.stem: _read(path) for path in _files(self._failed)}
        return {name: record for name, record in records.items() if record is not None}

    def hashes(self) -> list[str]:
        """Return the configuration hashes of the finished runs, sorted."""
        return sorted(path.stem for path in _files(self._rows) if path.stem in self)

    def table(self, config_hashes: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the rows of finished runs: those named, in that order, or all, by hash.

        Raises
        ------
        SwiftRLError
            If a named run is not finished, or a row is of another schema version.
        """
        return results.to_table(self._select(config_hashes), self._columns).to_pandas()

    def compact(self, config_hashes: Iterable[str] | None = None) -> Path:
        """Write the rows as one Parquet table with its manifest; return the table's path.

        Raises
        ------
        SwiftRLError
            As `table` does, and if the folder cannot be written.
        """
        target = self.directory / TABLE
        table = results.to_table(self._select(config_hashes), self._columns)
        with _explained(target):
            results.write_table(target, table)
        return target

    def append(self, name: str, text: str) -> None:
        """Add a line to a log in the folder.

        Raises
        ------
        StoreError
            If the file cannot be written.
        """
        target = self.directory / name
        with _explained(target), target.open("a") as stream:
            stream.write(text)

    def _select(self, config_hashes: Iterable[str] | None) -> Iterator[dict[str, Any]]:
        for config_hash in self.hashes() if config_hashes is None else config_hashes:
            row = self.row(config_hash)
            if row is None:
                raise SwiftRLError(
                    f"{self.directory} has no finished run {config_hash}: run the sweep to its end"
                )
            yield row


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if _ROW_FILE.fullmatch(path.name)]


def _read(path: Path) -> dict[str, Any] | None:
    """Return a file's JSON object; None if the file is absent or damaged."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _write_new(target: Path, content: bytes) -> bool:
    """Write a file whole; return False, and leave it alone, if it exists.

    A hard link fails where a rename would replace, and is also atomic on network file systems.
    """
    handle, name = tempfile.mkstemp(prefix=".new-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(name, new_file_mode())
        os.link(name, target)
    except FileExistsError:
        return False
    finally:
        os.unlink(name)
    return True


def _discard(path: Path) -> None:
    """Remove a file, if there is one; move a folder that stands in its place out of the way."""
    if path.is_dir() and not path.is_symlink():
        path.rename(tempfile.mkdtemp(prefix=f"{path.name}-folder-", dir=path.parent))
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    """Turn the system's error into a sentence with what is safe and how to resume."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write {target}: {error.strerror or error}; finished runs are kept, so make room or choose "
            "another folder with --out, and run the same command again"
        ) from error


def _encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, allow_nan=False).encode()


def _checksum(row: Mapping[str, Any]) -> str:
    return hashlib.sha256(_encode(row)).hexdigest()
