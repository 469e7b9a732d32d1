"""Where a sweep's rows live: a folder with one small file for each finished cell.

    DIR/cells/HASH.json      a finished cell's row, named by its configuration
    DIR/failed/HASH.json     what went wrong with a cell, with its settings
    DIR/table.parquet, .json the rows as one table with its manifest, made on demand

A file appears whole or not at all, so a killed process leaves finished cells and nothing else. A row carries its own
checksum, so a file that the disk or a person damaged counts as absent and its cell is run again. A finished cell is
never written twice, so two sweeps on one folder agree on whoever came first.
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

TABLE = "table.parquet"
_CELL_FILE = re.compile(r"[0-9a-f]{20}\.json")


class StoreError(SwiftRLError):
    """The folder of results cannot be written; nothing that runs on will be kept."""


class Store:
    """The rows of a sweep, in a folder.

    Parameters
    ----------
    directory : path
        Made when the first row is written.
    columns : pa.Schema
        Of the rows; those of cells by default.
    """

    def __init__(self, directory: str | os.PathLike, columns: pa.Schema = results.COLUMNS) -> None:
        self.directory = Path(directory)
        self._columns = columns
        self._cells = self.directory / "cells"
        self._failed = self.directory / "failed"

    def prepare(self) -> None:
        """Make the folder and check that it can be written, before anything expensive starts.

        Raises
        ------
        StoreError
            If it cannot.
        """
        with _told(self.directory):
            for folder in (self._cells, self._failed):
                folder.mkdir(parents=True, exist_ok=True)
                _write_new(folder / ".writable", b"")
                (folder / ".writable").unlink(missing_ok=True)

    def row(self, config_hash: str) -> dict[str, Any] | None:
        """Return a finished cell's row, or None where there is none, or not a whole one.

        Raises
        ------
        SwiftRLError
            If the row is of another schema version.
        """
        found = _read(self._cells / f"{config_hash}.json")
        if found is None:
            return None
        results.check_version(found.get("schema_version"), f"{self._cells / config_hash}.json")
        row = found.get("row")
        whole = isinstance(row, dict) and found.get("sha256") == _checksum(row)
        return row if whole and row.get("config_hash") == config_hash else None

    def __contains__(self, config_hash: str) -> bool:
        return self.row(config_hash) is not None

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a finished cell's row, unless the folder has one of that cell already; forget its failure.

        Raises
        ------
        StoreError
            If the file cannot be written.
        SwiftRLError
            If the row does not have the store's columns.
        """
        row = results.to_table([row], self._columns).to_pylist()[0]
        config_hash = row["config_hash"]
        target = self._cells / f"{config_hash}.json"
        content = {"schema_version": row["schema_version"], "sha256": _checksum(row), "row": row}
        with _told(target):
            if not _write_new(target, _encode(content)) and config_hash not in self:
                target.unlink(missing_ok=True)  # there, but damaged
                _write_new(target, _encode(content))
            (self._failed / target.name).unlink(missing_ok=True)

    def fail(self, config: Mapping[str, Any], config_hash: str, error: str, details: str) -> None:
        """Record that a cell failed; a later failure of the same cell replaces the record.

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
        with _told(target):
            while not _write_new(target, _encode(record)):
                target.unlink(missing_ok=True)

    def failures(self) -> dict[str, dict[str, Any]]:
        """Return the records of failed cells by configuration hash."""
        records = {path.stem: _read(path) for path in _files(self._failed)}
        return {name: record for name, record in records.items() if record is not None}

    def hashes(self) -> list[str]:
        """Return the configuration hashes of the finished cells, sorted."""
        return sorted(path.stem for path in _files(self._cells) if path.stem in self)

    def table(self, config_hashes: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the rows of finished cells: those named, in that order, or all, by hash.

        Raises
        ------
        SwiftRLError
            If a named cell is not finished, or a row is of another schema version.
        """
        return results.to_table(self._rows(config_hashes), self._columns).to_pandas()

    def compact(self, config_hashes: Iterable[str] | None = None) -> Path:
        """Write the rows as one Parquet table with its manifest; return the table's path.

        Raises
        ------
        SwiftRLError
            As `table` does, and if the folder cannot be written.
        """
        target = self.directory / TABLE
        table = results.to_table(self._rows(config_hashes), self._columns)
        with _told(target):
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
        with _told(target), target.open("a") as stream:
            stream.write(text)

    def _rows(self, config_hashes: Iterable[str] | None) -> Iterator[dict[str, Any]]:
        for config_hash in self.hashes() if config_hashes is None else config_hashes:
            row = self.row(config_hash)
            if row is None:
                raise SwiftRLError(
                    f"{self.directory} has no finished cell {config_hash}: run the sweep to its end"
                )
            yield row


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if _CELL_FILE.fullmatch(path.name)]


def _read(path: Path) -> dict[str, Any] | None:
    """Return a file's JSON object; None where the file is absent or not whole."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _write_new(target: Path, content: bytes) -> bool:
    """Write a file whole; return False, and leave it alone, where it is there already.

    A hard link fails where a rename would replace, and is atomic on network file systems, too.
    """
    handle, name = tempfile.mkstemp(prefix=".new-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(name, 0o644)
        os.link(name, target)
    except FileExistsError:
        return False
    finally:
        os.unlink(name)
    return True


@contextmanager
def _told(target: Path) -> Iterator[None]:
    """Turn the system's complaint into a sentence that says what is safe and how to go on."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write {target}: {error.strerror or error}; finished cells are kept, so make room or choose "
            "another folder with --out, and run the same command again"
        ) from error


def _encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, allow_nan=False).encode()


def _checksum(row: Mapping[str, Any]) -> str:
    return hashlib.sha256(_encode(row)).hexdigest()
