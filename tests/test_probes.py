"""Probes: jobs that are not training runs, and their tables."""

from dataclasses import dataclass, replace

import pandas as pd
import pyarrow as pa
import pytest

from swiftrl_core.experiments import registry as experiments
from swiftrl_core.experiments.registry import SIZES, Experiment
from swiftrl_core.sweeps import results
from swiftrl_core.sweeps.executors import Processes
from swiftrl_core.sweeps.plan import execute, make_plan
from swiftrl_core.sweeps.probe import Probe
from swiftrl_core.sweeps.results import column
from swiftrl_core.sweeps.store import TABLE, Store
from swiftrl_core.util.errors import SwiftRLError


@dataclass(frozen=True, kw_only=True)
class Area(
    Probe,
    kind_of_run="Area",
    found=pa.schema([column("area", pa.int64()), column("evidence", pa.string())]),
):
    """Of a rectangle; a stand-in for a probe."""

    width: int
    height: int | None = None

    def measure(self) -> dict:
        return {"area": self.width * (self.height or self.width), "evidence": "modelled"}


AREAS = Experiment(
    id="99_areas",
    question="How large is it?",
    sizes=dict.fromkeys(SIZES, ({"width": (2, 3), "height": (None, 5)},)),
    of=Area,
)


def test_a_row_has_settings_what_was_found_and_where_it_comes_from():
    row = Area(width=2, height=5).run(workers=3)
    assert list(results.to_table([row], Area.columns).column_names) == Area.columns.names
    assert Area.columns.names[:6] == ["schema_version", "config_hash", "width", "height", "area", "evidence"]
    assert (row["area"], row["workers"]) == (10, 3)
    assert row["schema_version"] == results.ROW_SCHEMA_VERSION
    assert {"created", "host", "git_commit", "versions", "wall_seconds"} <= row.keys()
    with pytest.raises(SwiftRLError, match="lacks the columns"):
        results.to_table([row])


def test_the_name_is_made_of_kind_and_settings():
    @dataclass(frozen=True, kw_only=True)
    class Volume(Probe, kind_of_run="Volume", found=pa.schema([])):
        width: int
        height: int | None = None

        def measure(self) -> dict:
            return {}

    assert Area(width=2) == Area(width=2, height=None)
    names = {
        run.config_hash for run in (Area(width=2), Area(width=3), Area(width=2, height=2), Volume(width=2))
    }
    assert len(names) == 4
    assert replace(Area(width=3), width=2).config_hash == Area(width=2).config_hash
    assert Area(width=2).label == "area: width 2"


@pytest.mark.parametrize("settings", [{"width": "2"}, {"width": None}, {"width": True}, {"width": 2.0}])
def test_a_setting_of_another_type_is_told(settings):
    with pytest.raises(SwiftRLError, match="give a value of type int"):
        Area(**settings)


def test_an_experiment_of_probes_runs_once_and_keeps_a_table(tmp_path, monkeypatch):
    rows = experiments.run_experiment(AREAS, "smoke", tmp_path)
    assert rows["area"].tolist() == [4, 10, 9, 15]
    kept = results.read_table(tmp_path / TABLE, Area.columns)
    pd.testing.assert_frame_equal(kept, rows)
    monkeypatch.setattr(Area, "measure", lambda self: pytest.fail("measured again"))
    pd.testing.assert_frame_equal(experiments.run_experiment(AREAS, "smoke", tmp_path), rows)
    with pytest.raises(SwiftRLError, match="has other columns"):
        results.read_table(tmp_path / TABLE)


def test_probes_run_in_processes_as_training_runs_do(tmp_path):
    runs = experiments.expand("08_roofline", "smoke")
    modelled = [run for run in runs if run.machine == "one DPU" and run.kind != "learner"]
    store = Store(tmp_path, modelled[0].columns)
    summary = execute(make_plan(modelled, store), store, Processes(2), show_progress=False)
    assert (summary.done, summary.failed) == (4, 0)
