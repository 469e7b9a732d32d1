"""The strict wrapper around papermill, and what a notebook of this package must look like."""

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import nbformat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftrl_core.cli import main
from swiftrl_core.experiments import notebooks
from swiftrl_core.experiments.notebooks import (
    Job,
    NotebookError,
    Parameter,
    check,
    check_texts,
    execute,
    execution,
    is_done,
    parameters,
)
from swiftrl_core.util.errors import SwiftRLError

PARAMETERS = """
name: str = "lake"  # a word
count: int = 3
rate: float = 0.5  # learning rate
flag: bool = False
pair: tuple[int, float] = (1, 2.0)
many: list[int] = [1]
path: Path = Path("here")
maybe: int | None = None
size: Literal["smoke", "quick"] = "smoke"
table: dict[str, float] = {"a": 1.0}
anything = 7
"""
REPORT = "print(repr([name, count, rate, flag, pair, many, path, maybe, size, table, anything]))"


def notebook(path: Path, *cells: str, parameters: str = PARAMETERS) -> Path:
    node = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    )
    first = "from pathlib import Path\nfrom typing import Literal"
    node.cells = [
        nbformat.v4.new_code_cell(first),
        nbformat.v4.new_code_cell(parameters.strip(), metadata={"tags": ["parameters"]}),
        *map(nbformat.v4.new_code_cell, cells),
    ]
    nbformat.write(node, path)
    return path


@pytest.fixture
def reporting(tmp_path) -> Path:
    return notebook(tmp_path / "reporting.ipynb", REPORT)


def printed(output: Path) -> str:
    return nbformat.read(output, as_version=4).cells[-1].outputs[0].text.strip()


def test_parameters_are_read_with_their_types_defaults_and_help(reporting):
    known = notebooks.read_parameters(reporting)
    assert list(known) == "name count rate flag pair many path maybe size table anything".split()
    assert known["rate"] == Parameter("rate", float, 0.5, "learning rate")
    assert known["path"].default == Path("here")
    assert known["maybe"].type == int | None
    assert known["size"].type == Literal["smoke", "quick"]
    assert known["anything"].type is int


GIVEN = {
    "name": 'it\'s "quoted"\n',
    "count": np.int64(5),
    "rate": np.float32(0.25),
    "flag": np.bool_(True),
    "pair": (np.int32(4), 1),
    "many": [],
    "path": Path("some where/x"),
    "maybe": 9,
    "size": "quick",
    "table": {"b": np.float64(1e-3)},
    "anything": 8,
}
ARRIVED = ['it\'s "quoted"\n', 5, 0.25, True, (4, 1.0), [], Path("some where/x"), 9, "quick", {"b": 0.001}, 8]


def test_values_arrive_as_what_they_are(reporting, tmp_path):
    output = execute(reporting, tmp_path / "out" / "done.ipynb", GIVEN)
    assert printed(output) == repr(ARRIVED)
    assert printed(execute(reporting, tmp_path / "plain.ipynb")) == repr(
        ["lake", 3, 0.5, False, (1, 2.0), [1], Path("here"), None, "smoke", {"a": 1.0}, 7]
    )


TEXTS = {
    "name": ("7", "7"),
    "count": ("12", 12),
    "rate": ("1e-3", 0.001),
    "flag": ("true", True),
    "pair": ("(1, 2)", (1, 2.0)),
    "many": ("[1, 2]", [1, 2]),
    "path": ("a/b.txt", Path("a/b.txt")),
    "maybe": ("None", None),
    "size": ("quick", "quick"),
    "table": ("{'x': 1}", {"x": 1.0}),
}


def test_texts_from_the_command_line_are_read_as_the_type_says(reporting):
    values = check_texts(reporting, {name: text for name, (text, _) in TEXTS.items()})
    assert values == {name: value for name, (_, value) in TEXTS.items()}
    assert [type(value) for value in values.values()] == [type(value) for _, value in TEXTS.values()]


@pytest.mark.parametrize(
    ("given", "needle"),
    [
        ({"nmae": "x"}, "has no parameter 'nmae': choose from name, count"),
        ({"count": "5"}, "parameter count is '5' (str): give int"),
        ({"count": 5.0}, "parameter count is 5.0 (float): give int"),
        ({"count": True}, "parameter count is True (bool): give int"),
        ({"rate": "1e-3"}, "parameter rate is '1e-3' (str): give float"),
        ({"flag": 1}, "parameter flag is 1 (int): give bool"),
        ({"name": Path("x")}, "give str"),
        ({"pair": [1, 2.0]}, "give tuple[int, float]"),
        ({"pair": (1, 2.0, 3)}, "give tuple[int, float]"),
        ({"many": [1, "2"]}, "give list[int]"),
        ({"path": "text"}, "parameter path is 'text' (str): give Path"),
        ({"maybe": "3"}, "give int | None"),
        ({"size": "huge"}, "give Literal['smoke', 'quick']"),
        ({"table": {1: 1.0}}, "give dict[str, float]"),
        ({"rate": np.zeros(3)}, "give float"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_kernel_starts(reporting, tmp_path, given, needle):
    with pytest.raises(SwiftRLError) as raised:
        execute(reporting, tmp_path / "out" / "done.ipynb", given)
    assert needle in str(raised.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["8.5", "eight", "True", "", "(1,)"])
def test_texts_that_do_not_fit_are_refused(reporting, text):
    with pytest.raises(SwiftRLError, match="parameter count is"):
        check_texts(reporting, {"count": text})


@pytest.mark.parametrize("read", [check, check_texts])
def test_a_word_that_the_parameter_cannot_be_is_refused(tmp_path, read):
    words = 'size: str = "smoke"\nsampling: str = "SEQ"\nname: str = "SEQ"'
    source = notebook(tmp_path / "words.ipynb", parameters=words)
    given = {"size": "paper", "sampling": "RAN", "name": "any"}
    assert read(source, given) == given
    with pytest.raises(SwiftRLError, match="parameter size is 'nope': choose one of smoke, quick, paper"):
        read(source, {"size": "nope"})
    with pytest.raises(SwiftRLError, match="parameter sampling is 'seq': choose one of SEQ, STR, RAN"):
        read(source, {"sampling": "seq"})


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.text(min_size=1).map(Path),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=25)
@given(plain)
def test_any_plain_value_survives_the_way_through_source(value):
    whole = Parameter("x", list, [], "").check([value])
    source = parameters.literal(whole)
    ast.parse(source)
    back = eval(source, {"Path": Path})
    assert repr(back) == repr(whole) == repr([value])  # repr tells 1 from 1.0 and True, and takes nan for nan


@pytest.mark.parametrize(
    ("cell", "needle"),
    [
        ("x: int = 1\nfor i in range(3): pass", "is not a parameter"),
        ("x: int = 1 +", "is not Python"),
        ("x: int = len([1])", "'x: int = len([1])' is not a parameter"),
        ("x: quaternion = 1", "is not a parameter"),
        ("x: int", "is not a parameter"),
        ("x: int = 'one'", "parameter x is 'one' (str): give int"),
    ],
)
def test_a_cell_of_parameters_that_says_something_else_is_refused(tmp_path, cell, needle):
    with pytest.raises(SwiftRLError) as raised:
        notebooks.read_parameters(notebook(tmp_path / "n.ipynb", parameters=cell))
    assert needle in str(raised.value)


def test_a_notebook_without_parameters_or_not_a_notebook_is_refused(tmp_path):
    node = nbformat.v4.new_notebook()
    nbformat.write(node, tmp_path / "bare.ipynb")
    with pytest.raises(SwiftRLError, match="0 cells tagged `parameters`"):
        check(tmp_path / "bare.ipynb", {})
    (tmp_path / "text.ipynb").write_text("no")
    (tmp_path / "deep.ipynb").write_text("[" * 100_000)
    for name in ("text.ipynb", "gone.ipynb", "deep.ipynb"):
        with pytest.raises(SwiftRLError, match="not a readable notebook"):
            check(tmp_path / name, {})


def test_a_failed_cell_is_told_with_its_traceback_and_leaves_no_finished_output(tmp_path):
    source = notebook(tmp_path / "wrong.ipynb", "1 / count", "print('never')")
    output = tmp_path / "done.ipynb"
    execute(source, output, {"count": 1})
    with pytest.raises(NotebookError, match="wrong.ipynb failed in cell 4 with ZeroDivisionError") as raised:
        execute(source, output, {"count": 0})
    details = notebooks.without_colours(raised.value.details)
    assert "1 / count" in details
    assert "ZeroDivisionError: division by zero" in details
    assert not output.exists()
    assert (tmp_path / "done.failed.ipynb").exists()
    assert not (tmp_path / "done.partial.ipynb").exists()


def test_a_notebook_has_a_time_limit_and_its_kernel_ends(tmp_path):
    pid = tmp_path / "pid"
    source = notebook(
        tmp_path / "slow.ipynb",
        f"import os, time; Path({str(pid)!r}).write_text(str(os.getpid()))",
        "for _ in range(600): time.sleep(0.1)",
    )
    start = time.monotonic()
    with pytest.raises(NotebookError, match=r"did not end within 3 s, and was stopped in cell 5"):
        execute(source, tmp_path / "out.ipynb", timeout=3)
    assert time.monotonic() - start < 12
    assert not Path(f"/proc/{pid.read_text()}").exists()
    assert not (tmp_path / "out.ipynb").exists()


def test_a_kernel_that_dies_is_told(tmp_path):
    source = notebook(tmp_path / "dying.ipynb", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(NotebookError, match="lost its kernel in cell 4"):
        execute(source, tmp_path / "out.ipynb")


def test_done_means_complete_and_of_this_notebook_and_these_parameters(tmp_path):
    source = notebook(tmp_path / "n.ipynb", "1 + 1")
    job = Job(source, tmp_path / "out.ipynb", {"count": 2})
    assert not is_done(job)
    execute(job.source, job.output, job.parameters)
    assert is_done(job)
    assert not is_done(Job(source, job.output, {"count": 3}))
    whole = job.output.read_text()
    for cut in (0, 10, len(whole) // 2, len(whole) - 3):
        job.output.write_text(whole[:cut])
        assert not is_done(job)
    node = json.loads(whole)
    node["cells"][-1]["metadata"]["papermill"]["end_time"] = None  # what a kill leaves under plain papermill
    job.output.write_text(json.dumps(node))
    assert not is_done(job)
    job.output.write_text(whole)
    notebook(source, "1 + 2")
    assert not is_done(job)


def test_a_killed_run_leaves_no_finished_output_and_no_kernel(tmp_path):
    pid = tmp_path / "pid"
    source = notebook(
        tmp_path / "slow.ipynb",
        f"import os, time; Path({str(pid)!r}).write_text(str(os.getpid()))\ntime.sleep(60)",
    )
    program = "from swiftrl_core.experiments import notebooks; "
    program += f"notebooks.execute({str(source)!r}, {str(tmp_path / 'o.ipynb')!r})"
    driver = subprocess.Popen([sys.executable, "-c", program])
    end = time.monotonic() + 30
    while not (pid.exists() and pid.read_text()):
        assert time.monotonic() < end
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    assert not (tmp_path / "o.ipynb").exists()
    assert not is_done(Job(source, tmp_path / "o.ipynb", {}))
    while Path(f"/proc/{pid.read_text()}").exists():  # the kernel looks for its parent every second
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
def test_parallel_notebooks_do_not_meet(tmp_path):
    jobs = [
        Job(
            notebook(tmp_path / f"n{number}.ipynb", "1 / (count - 2)", REPORT),
            tmp_path / f"o{number}.ipynb",
            given,
        )
        for number in range(3)
        for given in [{"count": number, "name": f"n{number}"}]
    ]
    errors = notebooks.execute_all(jobs, workers=3)
    assert list(errors) == [jobs[2].source]
    assert "ZeroDivisionError" in str(errors[jobs[2].source])
    for number in (0, 1):
        assert printed(jobs[number].output).startswith(f"['n{number}', {number}, ")


def test_a_sweep_in_a_notebook_shows_a_bar_that_ends_complete(tmp_path):
    program = "from swiftrl_core.experiments import registry as experiments\n"
    program += f"table = experiments.run_experiment('06', 'smoke', {str(tmp_path / 'rows')!r})"
    output = execute(notebook(tmp_path / "sweep.ipynb", program, "print(len(table))"), tmp_path / "out.ipynb")
    executed = nbformat.read(output, as_version=4)
    (shown,) = [entry for entry in executed.cells[-2].outputs if entry.output_type == "display_data"]
    count = int(executed.cells[-1].outputs[0].text)
    assert shown.data["text/plain"].startswith(f"0/{count} runs")
    (widgets,) = executed.metadata.widgets.values()
    states = [widget.state for widget in widgets.state.values()]
    texts = [
        " ".join(str(state.get("value")).split()) for state in states
    ]  # tqdm's spaces have a digit's width
    assert f"{count}/{count} runs" in texts
    (bar,) = [state for state in states if "bar_style" in state]
    assert (bar.bar_style, bar.value) == ("success", bar.max)


def test_a_long_temporary_folder_still_gives_short_sockets(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with execution._socket_directory() as directory:
        assert len(os.fsencode(directory)) < 40
        other = directory
    assert not Path(other).exists()


# --- the command ------------------------------------------------------------------------------------------


@pytest.fixture
def shelf(tmp_path, monkeypatch) -> Path:
    """A folder with two notebooks in place of the package's own; results go next to it."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    parameters = 'size: str = "smoke"\nscale: float = 1.0\noutput: str = "nowhere"'
    notebook(folder / "01_one.ipynb", "print(repr([size, scale, output]))", parameters=parameters)
    notebook(folder / "02_two.ipynb", "print(repr([size, scale, output])); 1 / scale", parameters=parameters)
    monkeypatch.setattr(execution, "DIRECTORY", folder)
    monkeypatch.chdir(tmp_path)
    return folder


def test_the_command_runs_a_notebook_with_checked_parameters(shelf, capsys):
    assert main("experiment notebook 01 --size quick -p scale 1e-3 --out res".split()) == 0
    assert "res/01_one/01_one.ipynb: done" in capsys.readouterr().out
    assert printed(Path("res/01_one/01_one.ipynb")) == "['quick', 0.001, 'res/01_one']"
    stamp = os.stat("res/01_one/01_one.ipynb")
    assert main("experiment notebook 01 --size quick -p scale 1e-3 --out res --skip-done".split()) == 0
    assert os.stat("res/01_one/01_one.ipynb") == stamp
    for wrong, needle in (
        ("01 -p skale 1", "no parameter 'skale'"),
        ("01 -p scale one", "parameter scale is 'one'"),
        ("0", "choose one of 01_one, 02_two"),
    ):
        assert main(["experiment", "notebook", *wrong.split()]) == 1
        assert needle in capsys.readouterr().err


def test_the_command_runs_all_shows_the_failed_cell_and_exits_with_1(shelf, capsys):
    assert main("experiment notebook all --out res --workers 2 -p scale 0".split()) == 1
    printed = capsys.readouterr()
    assert "res/01_one/01_one.ipynb: done" in printed.out
    assert "res/02_two/02_two.ipynb: failed" in printed.out
    assert "ZeroDivisionError: float division by zero" in printed.err
    assert "\x1b[" not in printed.err
    assert printed.err.splitlines()[-1].startswith(
        "swiftrl: 02_two.ipynb failed in cell 4 with ZeroDivisionError"
    )


def test_a_package_without_notebooks_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(execution, "DIRECTORY", tmp_path)
    assert main("experiment notebook all".split()) == 1
    assert "run from a clone" in capsys.readouterr().err


# --- the package's own notebooks --------------------------------------------------------------------------


@pytest.mark.parametrize("path", notebooks.all_notebooks(), ids=lambda path: path.stem)
def test_a_notebook_keeps_the_contract(path):
    known = notebooks.read_parameters(path)
    assert next(iter(known)) == "size"
    assert known["size"].default == "smoke"
    node = nbformat.read(path, as_version=4)
    code = [cell for cell in node.cells if cell.cell_type == "code"]
    assert len(code) <= 12
    assert "parameters" in code[0].metadata.tags
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert node.metadata.kernelspec.name == "python3"


def test_plain_papermill_takes_the_same_notebook(reporting, tmp_path):
    output = tmp_path / "plain.ipynb"
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(reporting),
        str(output),
        "-p",
        "count",
        "4",
        "-p",
        "rate",
        "0.25",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert printed(output).startswith("['lake', 4, 0.25, ")
