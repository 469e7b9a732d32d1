"""The experiments as data, and the specifications of sweeps."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.data import collect, save
from swiftrl_core.experiments import notebooks
from swiftrl_core.experiments import registry as experiments
from swiftrl_core.experiments.registry import EXPERIMENTS, SIZES, expand
from swiftrl_core.experiments.roofline_probe import Speed
from swiftrl_core.sweeps import spec
from swiftrl_core.sweeps.grid import combine
from swiftrl_core.sweeps.run import Run
from swiftrl_core.util.errors import SwiftRLError


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("size", SIZES)
def test_every_experiment_expands_to_distinct_valid_runs(name, size):
    runs = expand(name, size)
    assert len({run.config_hash for run in runs}) == len(runs) > 0
    assert (notebooks.DIRECTORY / EXPERIMENTS[name].notebook).exists()
    assert EXPERIMENTS[name].question.endswith("?")


def test_a_notebook_that_runs_a_grid_is_an_experiment():
    for path in notebooks.all_notebooks():
        if "EXPERIMENT\\n" in path.read_text() or "EXPERIMENT.run(" in path.read_text():
            assert path.stem in EXPERIMENTS


TRAINING = [name for name, entry in EXPERIMENTS.items() if entry.of is Run]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_paper_size_has_ten_seeds(name):
    runs = expand(name, "paper")
    if name != "08_roofline":  # a machine's ceilings have no seed; the best of many repetitions counts
        assert {run.seed for run in runs} == set(range(10))


@pytest.mark.parametrize("name", TRAINING)
def test_the_paper_size_has_the_paper_s_sizes(name):
    runs = expand(name, "paper")
    sizes = {(run.environment, run.transitions) for run in runs}
    assert sizes - {("frozenlake8x8", 1_000_000)} == {("frozenlake", 1_000_000), ("taxi", 5_000_000)}
    assert max(run.cores for run in runs) == 2_000
    # 02 asks about the data, for which one round is enough; 10, 12 and tasklets ask what fewer episodes reach
    if name not in ("02_datasets", "10_aggregation", "12_time_to_optimum", "tasklets"):
        assert {run.episodes for run in runs} == {2_000}
        assert 50 in {run.tau for run in runs}


def test_strong_scaling_covers_the_twelve_learners_and_the_paper_s_cores():
    runs = [run for run in expand("04_strong_scaling", "paper") if run.backend == "pim"]
    learners = {(run.algorithm, run.sampling, run.number_format) for run in runs}
    assert len(learners) == 12
    assert {run.cores for run in runs} == {125, 250, 500, 1000, 2000}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_smoke_is_small(name):
    most = 2e7 if name in TRAINING else 1e9  # which agents in lanes make in a fraction of a second
    assert sum(run.updates for run in expand(name, "smoke")) < most


def test_every_notebook_is_an_experiments_or_named_as_one_that_stands_alone():
    named = {entry.notebook for entry in EXPERIMENTS.values()} | {
        f"{name}.ipynb" for name in experiments.NOTEBOOKS_ALONE
    }
    assert named == {path.name for path in notebooks.all_notebooks()}


def test_an_experiment_is_found_by_the_start_of_its_id():
    assert experiments.find("04").id == "04_strong_scaling"
    assert experiments.find("precision").part_of == "03_learning_quality"
    assert [entry.id for entry in experiments.with_parts("03")] == ["03_learning_quality", "precision"]
    for unknown in ("0", "99", "", "prec"):
        with pytest.raises(SwiftRLError, match="choose one of"):
            experiments.find(unknown)
    with pytest.raises(SwiftRLError, match=r"11_kernel_study is a notebook only, .* experiment notebook 11`"):
        experiments.find("11")
    with pytest.raises(SwiftRLError, match="size is 'tiny'"):
        expand("04", "tiny")


@given(
    st.fixed_dictionaries(
        {
            "cores": st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True),
            "seed": st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True),
            "sampling": st.lists(st.sampled_from(["SEQ", "STR", "RAN"]), min_size=1, unique=True),
        }
    )
)
def test_a_grid_is_all_combinations_in_order(grid):
    runs = combine(grid | {"backend": "cpu"})
    expected = list(itertools.product(*grid.values()))
    assert [tuple(getattr(run, name) for name in grid) for run in runs] == expected


def test_combinations_that_come_to_the_same_are_one():
    runs = combine({"backend": "cpu", "algorithm": ["q_learning", "sarsa"], "epsilon": [0.1, 0.2]})
    assert [(run.algorithm, run.epsilon) for run in runs] == [
        ("q_learning", None),
        ("sarsa", 0.1),
        ("sarsa", 0.2),
    ]


def test_a_grid_of_what_a_run_does_not_have_is_told():
    with pytest.raises(SwiftRLError, match="corez is not a setting of a Run: choose from algorithm"):
        combine({"corez": 3})
    with pytest.raises(SwiftRLError, match="tau is not a setting of a Speed"):
        combine({"tau": 3}, Speed)
    with pytest.raises(SwiftRLError, match="cores has no values"):
        combine({"cores": ()})


# --- specifications ---------------------------------------------------------------------------------------


GOOD = """
name: lake
base: {episodes: 20, tau: 10, backend: cpu, transitions: 500}
grid:
  environment: [frozenlake, taxi]
  cores: [1, 8]
  environment_options: {}
runs:
  - {environment: cliffwalking, cores: 4}
  - {environment: frozenlake, cores: 8}
"""


def test_a_specification_expands_in_the_file_s_order_each_run_once(tmp_path):
    path = tmp_path / "any.yaml"
    path.write_text(GOOD)
    read = spec.read(path)
    assert read.name == "lake"
    assert [(run.environment, run.cores) for run in read.runs] == [
        ("frozenlake", 1),
        ("frozenlake", 8),
        ("taxi", 1),
        ("taxi", 8),
        ("cliffwalking", 4),
    ]
    assert read.runs[0] == Run(episodes=20, tau=10, backend="cpu", transitions=500, cores=1)


def test_a_specification_s_data_lie_beside_it(tmp_path):
    save(collect("frozenlake", 300, 0), tmp_path / "lake.parquet")
    path = tmp_path / "files.yaml"
    path.write_text("grid: {data: lake.parquet, backend: cpu, cores: [1, 2]}")
    read = spec.read(path)
    assert read.name == "files"
    assert {run.data for run in read.runs} == {str(tmp_path / "lake.parquet")}


WRONG = {
    "": "bad.yaml: the file is empty",
    "grid: [": "line 1: this is not YAML",
    "a: 1\n b: 2": "line 2: this is not YAML",
    "- grid": "line 1: the file must be `key: value` lines",
    "name: x": "nothing to run",
    "name: 3\ngrid: {cores: 2}": "line 1: 3 is not a name",
    "grid:\n  alpha: 1e-3": "line 2: alpha is the text '1e-3': write the number 0.001",
    "grid:\n  alpha:\n  - 0.1\n  - 1e-3": "line 4: alpha is the text '1e-3'",
    "base:\n  alpha: 1e-3\ngrid: {cores: 2}": "line 2: alpha is the text",
    "grid:\n  cores: 4\n  corez: 5": "line 3: corez is not a setting of a run",
    "grid: {cores: 4}\nsettings: {}": "line 2: settings is not a key here",
    "grid:\n  cores: 4\n  cores: 5": "line 3: cores is given twice",
    "grid:\n  seed: 1\n  cores: []": "line 3: cores has no values, so the grid is empty",
    "runs: []": "line 1: the list is empty",
    "runs:\n- {cores: 1}\n- {cores: [1, 2]}": "line 3: cores is [1, 2]",
    "runs:\n- {cores: 1}\n- 7": "line 3: settings must be `key: value` lines",
    "runs:\n- {cores: 1}\n- {cores: 8, transitions: 4}": "line 3: 8 cores for 4 transitions",
    "grid:\n- {cores: 1}\n- {tau: 9, episodes: 3}": "line 3: tau is 9",
    "grid:\n  seed: 2026-01-01": "line 2: seed is datetime.date(2026, 1, 1)",
    "grid:\n  seed: !!python/none x": "bad.yaml, line 2: this is not a YAML value",
    "grid:\n  data: gone.parquet": "line 2: cannot read",
    "grid:\n  seed: [1, 010]": "line 2: this is not a YAML value (010 is octal or base 60 in YAML",
    "grid:\n  transitions: 1:30": "line 2: this is not a YAML value (1:30 is octal or base 60",
    "grid:\n  alpha: 1:30.5": "line 2: this is not a YAML value (1:30.5 is octal or base 60",
    "runs:\n- cores: 1\n  backend_options: {simulated_dpus: 010}": "(010 is octal or base 60",
    "[" * 3_000: "the lists are nested too deeply",
    "name: ../../evil\ngrid: {cores: 2}": "line 1: name is '../../evil': write a plain folder name",
    "name: /tmp/evil\ngrid: {cores: 2}": "line 1: name is '/tmp/evil': write a plain folder name",
    "name: ..\ngrid: {cores: 2}": "line 1: name is '..': write a plain folder name",
    'name: "a\\0b"\ngrid: {cores: 2}': "write a plain folder name",
    "grid:\n  data: /dev/zero": "line 2: cannot read /dev/zero: it is no ordinary file",
    f"grid: {{seed: {list(range(1001))}, evaluation_seed: {list(range(1001))}}}": "the grid has 1,002,001 runs",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: WRONG[text][:40])
def test_a_wrong_specification_is_told_in_one_sentence_with_its_line(tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(SwiftRLError) as raised:
        spec.read(path)
    assert WRONG[text] in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_specification_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SwiftRLError, match="cannot read"):
        spec.read(tmp_path / "none.yaml")
    with pytest.raises(SwiftRLError, match="cannot read /dev/zero: it is no ordinary file"):
        spec.read("/dev/zero")
