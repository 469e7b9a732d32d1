"""The store of rows: whole or absent, never mixed, never written twice."""

import json
import os
import resource
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.sweeps import results
from swiftrl_core.sweeps.run import Run
from swiftrl_core.sweeps.store import Store, StoreError
from swiftrl_core.util.errors import SwiftRLError


@pytest.fixture(scope="module")
def rows():
    return [
        Run(
            transitions=200, cores=2, episodes=2, tau=1, backend="cpu", monte_carlo_episodes=0, seed=seed
        ).run()
        for seed in range(3)
    ]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "sweep")
    store.prepare()
    return store


def row_file(store, row):
    return store.directory / "rows" / f"{row['config_hash']}.json"


def test_rows_come_back_as_they_were(store, rows):
    for row in rows:
        store.add(row)
    assert store.hashes() == sorted(row["config_hash"] for row in rows)
    asked = [row["config_hash"] for row in reversed(rows)]
    table = store.table(asked)
    assert table["config_hash"].tolist() == asked
    assert list(table.columns) == results.COLUMNS.names
    assert table["exact_return"].tolist() == [row["exact_return"] for row in reversed(rows)]
    assert table["monte_carlo_mean"].isna().all()


def test_a_finished_run_is_never_written_again(store, rows):
    store.add(rows[0])
    before = row_file(store, rows[0]).stat()
    store.add(rows[0] | {"wall_seconds": 99.0})
    assert row_file(store, rows[0]).stat() == before
    assert store.row(rows[0]["config_hash"])["wall_seconds"] == rows[0]["wall_seconds"]


@given(cut=st.integers(0, 400), flip=st.booleans())
def test_a_damaged_file_counts_as_absent_and_is_replaced(tmp_path_factory, rows, cut, flip):
    store = Store(tmp_path_factory.mktemp("store"))
    store.prepare()
    store.add(rows[0])
    path = row_file(store, rows[0])
    content = path.read_bytes()
    path.write_bytes(content[:cut] + (bytes([content[cut] ^ 1]) + content[cut + 1 :] if flip else b""))
    try:
        found = store.row(rows[0]["config_hash"])
    except SwiftRLError as error:
        assert "schema version" in str(error)  # the flip hit the version itself
        return
    assert found is None
    store.add(rows[0])
    assert path.read_bytes() == content


@pytest.mark.parametrize("kind", ["rows", "failed"])
@pytest.mark.parametrize("damage", ["folder", "full folder", "deep JSON"])
def test_a_folder_or_deep_json_in_the_place_of_a_row_counts_as_absent(store, rows, kind, damage):
    config_hash = rows[0]["config_hash"]
    path = store.directory / kind / f"{config_hash}.json"
    if damage == "deep JSON":
        path.write_text("[" * 100_000)
    else:
        path.mkdir()
        if damage == "full folder":
            (path / "kept").write_text("something")
    assert store.row(config_hash) is None
    assert store.failures() == {}
    store.fail(rows[0], config_hash, "an error", "details")
    assert store.failures()[config_hash]["error"] == "an error"
    store.add(rows[0])
    assert store.row(config_hash) == rows[0]
    assert store.failures() == {}
    assert len(list(store.directory.rglob("kept"))) == (damage == "full folder")


@pytest.mark.parametrize("mask", [0o077, 0o002])
def test_rows_and_failures_obey_the_umask(store, rows, mask):
    before = os.umask(mask)
    try:
        store.add(rows[0])
        store.fail(rows[1], rows[1]["config_hash"], "an error", "details")
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in store.directory.rglob("*.json")}
    assert modes == {0o666 & ~mask}


def test_a_file_under_another_run_s_name_does_not_count(store, rows):
    store.add(rows[0])
    row_file(store, rows[0]).rename(row_file(store, rows[1]))
    assert rows[1]["config_hash"] not in store


def test_rows_in_a_folder_of_the_old_name_are_still_read(store, rows):
    store.add(rows[0])
    (store.directory / "rows").rename(store.directory / "cells")
    again = Store(store.directory)
    again.add(rows[1])
    assert again.hashes() == sorted(row["config_hash"] for row in rows[:2])
    assert not (store.directory / "rows").exists()


def test_a_file_that_was_being_written_does_not_count(store, rows):
    (store.directory / "rows" / ".new-x").write_bytes(b"half")
    assert store.hashes() == []
    assert len(store.table()) == 0


def test_a_row_from_before_a_later_column_stands_for_the_paper_s_setting(store, rows, tmp_path):
    """In a run's file and in a table; a run with that setting keeps the name it had."""
    old = [{name: value for name, value in row.items() if name not in results.LATER} for row in rows]
    assert old[0] != rows[0]
    for row in old:
        store.add(row)
    assert store.table([row["config_hash"] for row in rows]).equals(results.to_table(rows).to_pandas())
    results.write_table(tmp_path / "table.parquet", results.to_table(rows).drop_columns(list(results.LATER)))
    found = results.read_table(tmp_path / "table.parquet")
    assert found.equals(results.to_table(rows).to_pandas())
    assert list(found.columns) == results.COLUMNS.names


def test_rows_of_another_schema_version_are_refused_everywhere(store, rows, monkeypatch):
    store.add(rows[0])
    table = store.compact()
    now = results.ROW_SCHEMA_VERSION
    monkeypatch.setattr(results, "ROW_SCHEMA_VERSION", now + 1)
    for look in (
        lambda: store.table(),
        lambda: rows[0]["config_hash"] in store,
        lambda: results.read_table(table),
        lambda: results.to_table(rows),
    ):
        with pytest.raises(SwiftRLError, match=f"is of schema version {now}, this package writes {now + 1}"):
            look()


def test_failures_are_recorded_and_forgotten_on_success(store, rows):
    name = rows[0]["config_hash"]
    store.fail({"cores": 2}, name, "first", "trace")
    store.fail({"cores": 2}, name, "second", "trace")
    assert store.failures()[name]["error"] == "second"
    assert store.failures()[name]["config"] == {"cores": 2}
    store.add(rows[0])
    assert store.failures() == {}


@pytest.mark.parametrize("change", [{"alpha": "much"}, {"cores": None}, {"colour": 1}, {"cores": 2.5}])
def test_a_row_that_does_not_fit_the_columns_is_refused(store, rows, change):
    with pytest.raises(SwiftRLError):
        store.add(rows[0] | change)
    with pytest.raises(SwiftRLError, match="lacks the columns \\['cores'\\]"):
        store.add({name: value for name, value in rows[0].items() if name != "cores"})
    assert store.hashes() == []


def test_the_table_on_disk_is_checked_when_it_is_read(store, rows):
    for row in rows:
        store.add(row)
    path = store.compact()
    pd.testing.assert_frame_equal(results.read_table(path), store.table())
    manifest = json.loads(path.with_suffix(".json").read_text())
    assert manifest["rows"] == 3
    assert manifest["seed"] == [0, 1, 2]
    assert manifest["evidence"] == ["measured"]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    with pytest.raises(SwiftRLError, match="checksum"):
        results.read_table(path)
    path.write_bytes(content)
    path.with_suffix(".json").write_text("[" * 100_000)
    with pytest.raises(SwiftRLError, match="not a finished table"):
        results.read_table(path)
    path.with_suffix(".json").unlink()
    with pytest.raises(SwiftRLError, match="not a finished table"):
        results.read_table(path)


def test_a_table_with_other_columns_is_refused(store, rows):
    table = results.to_table(rows).drop_columns(["tau"]).append_column("tau", pa.array([1.0, 1.0, 1.0]))
    path = store.directory / "table.parquet"
    results.write_table(path, table)
    with pytest.raises(SwiftRLError, match="other columns"):
        results.read_table(path)


def test_a_table_of_unfinished_runs_is_refused(store, rows):
    with pytest.raises(SwiftRLError, match="no finished run"):
        store.compact([rows[0]["config_hash"]])


def test_a_full_disk_is_told_and_leaves_nothing_half_written(store, rows, tmp_path):
    """The kernel itself refuses to write more than 1,000 bytes to a file here."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(StoreError, match="cannot write .*finished runs are kept"):
            store.add(rows[0])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((store.directory / "rows").iterdir()) == []
    store.add(rows[0])
    assert rows[0]["config_hash"] in store


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        Store(tmp_path / "file" / "sweep").prepare()


@pytest.mark.skipif(
    os.geteuid() == 0 and not os.path.exists("/usr/bin/setpriv"), reason="root may write everywhere"
)
def test_a_read_only_folder_is_told(tmp_path):
    tmp_path.chmod(0o755)
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    program = f"from swiftrl_core.sweeps.store import Store; Store({str(folder)!r}).prepare()"
    command = [sys.executable, "-c", program]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "StoreError: cannot write" in done.stderr
    assert not list(folder.iterdir())
