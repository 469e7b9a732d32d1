"""Stored rows keep their names: a rename in the code must not change a `config_hash`, or a sweep runs them again."""

import dataclasses
import json
from pathlib import Path

import pytest
from pyarrow import parquet

from swiftrl_core.experiments import registry as experiments
from swiftrl_core.experiments.multi_agent_probe import Agents
from swiftrl_core.experiments.precision import Precision
from swiftrl_core.experiments.roofline_probe import Speed
from swiftrl_core.sweeps import results
from swiftrl_core.sweeps.run import Run

REFERENCE = Path(__file__).resolve().parent.parent / "results" / "reference"
GOLDEN = (
    (Run(), "training", "454878a78f31233bcee4"),
    (
        Run(
            algorithm="sarsa",
            number_format="INT32",
            sampling="STR",
            backend="cpu",
            cores=8,
            transitions=4_000,
        ),
        "training",
        "e7c3f5ff9ed54f924800",
    ),
    (
        Run(update="vr", aggregation="count", bootstrap="frozen", backend="pim", tau=2),
        "training",
        "7978a797e418fde77f28",
    ),
    (Run(backend="exact", cores=1, episodes=1, tau=1), "training", "cbb1042f9dd9afa577eb"),
    (
        Agents(environment="frozenlake", transitions=500, agents=4, episodes=1, backend="cpu"),
        "Agents",
        "accd6ec82c75249970ab",
    ),
    (
        Precision(environment="taxi", transitions=500, cores=2, episodes=4, tau=2, number_format="INT32"),
        "Precision",
        "914ad66153a93d52083e",
    ),
    (Speed(machine="one core of this CPU", kind="peak", name="FP32"), "Speed", "db7c54cf037d608a5707"),
)
"""A run of each kind, and the name its row had on the day it was first stored."""


@pytest.mark.parametrize(("run", "kind", "name"), GOLDEN)
def test_a_run_keeps_its_name(run, kind, name):
    assert run.kind_of_run == kind
    assert run.config_hash == name


@pytest.mark.parametrize("table", sorted(REFERENCE.rglob("table.parquet")), ids=lambda path: path.parent.name)
def test_every_stored_row_is_the_row_of_a_run_with_its_settings(table):
    experiment = experiments.EXPERIMENTS[table.parent.name]
    settings = {entry.name for entry in dataclasses.fields(experiment.of)}
    rows = results.to_table(parquet.read_table(table).to_pylist(), experiment.columns).to_pylist()
    assert rows
    for row in rows:
        given = {name: value for name, value in row.items() if name in settings and value is not None}
        for name in ("environment_options", "backend_options"):
            if name in given:
                given[name] = json.loads(given[name])
        assert experiment.of(**given).config_hash == row["config_hash"]


def test_the_solved_rows_of_old_tables_are_rows_of_the_backend_exact():
    """They were stored when the backend was called model."""
    solved = parquet.read_table(REFERENCE / "10_aggregation" / "table.parquet")["backend"].to_pylist()
    rows = results.read_table(REFERENCE / "10_aggregation" / "table.parquet")
    assert [{"model": "exact"}.get(name, name) for name in solved] == rows["backend"].tolist()
    assert "exact" in set(rows["backend"])
