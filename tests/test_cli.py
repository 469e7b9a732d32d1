"""The command line: what it writes, what it says, and how it refuses."""

import argparse
import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from swiftrl_core.backends.pim import kernels
from swiftrl_core.cli import benches, main, tools
from swiftrl_core.cli.app import COMMANDS, make_parser
from swiftrl_core.data import Dataset, environments, load, save
from swiftrl_core.learner import Learner
from swiftrl_core.training.loop import Schedule
from swiftrl_core.util.files import sha256_file

FAULTING_KERNEL = """
#include <defs.h>
#include <mram.h>
#include <stdint.h>
#include "layout.h"
__host struct learner_args args;
__mram_noinit value_t q_table[N_STATES * N_ACTIONS];
int main(void) { args.transitions = args.transitions / (args.episodes - 1); return 0; }
"""


@pytest.fixture
def lake(tmp_path):
    path = tmp_path / "lake.parquet"
    assert (
        main(["collect", "--env", "frozenlake", "--transitions", "3000", "--seed", "4", "--out", str(path)])
        == 0
    )
    return path


def train_arguments(data, out, *more):
    return ["train", "--data", str(data), "--dpus", "4", "--episodes", "3", "--out", str(out), *more]


@pytest.mark.parametrize("backend", ["pim", "cpu"])
def test_from_collecting_to_evaluating(tmp_path, lake, capsys, backend):
    out = tmp_path / "run"
    assert main(train_arguments(lake, out, "--backend", backend, "--number-format", "INT32", "--json")) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest == json.loads((out / "manifest.json").read_text())
    assert manifest["evidence"] == {"pim": "simulated", "cpu": "measured"}[backend]
    assert manifest["updates"] == 9000
    q, raw = np.load(out / "q_table.npy"), np.load(out / "q_table_raw.npy")
    assert (q.shape, q.dtype, raw.shape, raw.dtype) == ((16, 4), np.float32, (16, 4), np.int32)
    np.testing.assert_allclose(q, raw / 10_000, rtol=1e-6)
    assert manifest["files"] == {name: sha256_file(out / name) for name in ("q_table.npy", "q_table_raw.npy")}
    parts = manifest["seconds"]
    assert parts["total"] == pytest.approx(
        parts["cpu_to_pim"] + parts["pim_kernel"] + parts["inter_pim_core"] + parts["pim_to_cpu"]
    )

    table = str(out / "q_table.npy")
    assert main(["evaluate", "--env", "frozenlake", "--q-table", table, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert 0 <= report["exact_return"] <= report["optimum"] == pytest.approx(0.72977, abs=1e-5)
    assert (
        abs(report["monte_carlo_return"] - report["exact_return"])
        < 5 * report["monte_carlo_standard_error"] + 0.01
    )


@pytest.mark.parametrize("stream", ["out", "err"])
def test_the_first_line_says_when_pim_is_simulated(tmp_path, lake, capsys, stream):
    arguments = train_arguments(lake, tmp_path / "run", "--backend", "pim", "--hardware", "upimulator-server")
    assert main([*arguments, *(["--json"] if stream == "err" else [])]) == 0
    lines = getattr(capsys.readouterr(), stream).splitlines()
    assert lines[0].startswith("PIM is simulated (hardware profile upimulator-server): ")


def test_tasklets_write_the_engine_s_table(tmp_path, lake):
    for out, options in (("one", ["--tasklets", "11"]), ("two", ["--backend", "cpu"])):
        assert main(train_arguments(lake, tmp_path / out, "--bootstrap", "frozen", *options)) == 0
    one, two = (json.loads((tmp_path / out / "manifest.json").read_text()) for out in ("one", "two"))
    assert one["files"] == two["files"]
    assert one["learner"]["bootstrap"] == "frozen"
    assert one["machine"]["tasklets"] == 11


def test_the_same_command_writes_the_same_table(tmp_path, lake):
    for out in ("one", "two"):
        assert main(train_arguments(lake, tmp_path / out, "--sampling", "RAN", "--seed", "7")) == 0
    assert sha256_file(tmp_path / "one" / "q_table_raw.npy") == sha256_file(
        tmp_path / "two" / "q_table_raw.npy"
    )


def test_convert_goes_there_and_back(tmp_path, shared_data):
    text, there, back = shared_data / "Taxi_trajectories_10k.txt", tmp_path / "t.parquet", tmp_path / "t.txt"
    assert main(["convert", str(text), str(there), "--env", "taxi"]) == 0
    assert main(["convert", str(there), str(back), "--env", "taxi"]) == 0
    np.testing.assert_array_equal(np.loadtxt(text, dtype=int), np.loadtxt(back, dtype=int))
    assert load(there).terminated.sum() == 3


def test_doctor_says_what_is_here(capsys):
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["backends"]["pim"]["available"]
    assert report["backends"]["cpu"] == {"available": True, "reason": None}
    assert report["hardware"]["available"] or report["hardware"]["reason"]
    assert main(["doctor"]) == 0
    assert "pim runs on" in capsys.readouterr().out


@pytest.mark.parametrize("command", [*COMMANDS, "experiment list", "experiment run", "experiment notebook"])
def test_every_command_describes_itself_and_every_option(capsys, command):
    with pytest.raises(SystemExit) as done:
        main([*command.split(), "--help"])
    assert done.value.code == 0
    assert f"usage: swiftrl {command}" in capsys.readouterr().out


def test_every_option_has_help():
    pending = [make_parser()]
    while pending:
        for action in pending.pop()._actions:
            assert action.help or isinstance(action, argparse._SubParsersAction), action
            pending += action.choices.values() if isinstance(action, argparse._SubParsersAction) else []


def test_the_options_of_train_are_the_fields_of_learner_and_schedule(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for entry in (*fields(Learner), *fields(Schedule)):
        if entry.name not in ("reward_range", "units"):
            name = {"cores": "dpus"}.get(entry.name, entry.name.replace("_", "-"))
            assert f"--{name} " in text
            assert f"{entry.metadata['help']} (default: {entry.default})" in text


WRONG = [["trian"], ["train", "--algorithm", "dqn"], ["train", "--tau", "x"], []]
EMPTY = [
    "train --tau",
    "train --alpha",
    "train --data",
    "train --hardware",
    "evaluate --q-table",
    "sweep --out",
]


@pytest.mark.parametrize("wrong", WRONG + [f"{option}=--".split() for option in EMPTY], ids=" ".join)
def test_options_that_do_not_parse_are_one_sentence(capsys, wrong):
    with pytest.raises(SystemExit) as done:
        main(wrong)
    assert done.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("swiftrl: ")
    assert message.count("\n") == 1


def test_help_imports_no_command():
    code = "import sys; from swiftrl_core.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "assert not {'numpy', 'pandas', 'matplotlib', 'gymnasium'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def write_parquet_with(path, lake, **columns):
    frame = pd.read_parquet(lake).assign(**columns)
    frame.to_parquet(path)


BAD_DATA = {
    "absent": (lambda path, lake: None, "bad"),
    "empty": (lambda path, lake: path.write_bytes(b""), "empty"),
    "not numbers": (lambda path, lake: path.write_text("0 2 0 1\n1 one 0 0\n"), "line 2"),
    "a field short": (lambda path, lake: path.write_text("0 2 0 1\n1 1 0\n"), "line 2"),
    "half a Parquet file": (lambda path, lake: path.write_bytes(lake.read_bytes()[:500]), "bad"),
    "a state too large": (lambda path, lake: path.write_text("0 2 0 1\n16 1 0 0\n"), "16"),
    "an action too large": (lambda path, lake: path.write_text("0 4 0 1\n"), "4"),
    "a negative state": (lambda path, lake: path.write_text("-1 2 0 1\n"), "-1"),
}


@pytest.mark.parametrize("name", BAD_DATA)
@pytest.mark.parametrize("command", ["train", "convert"])
def test_bad_data_is_refused_and_nothing_written(tmp_path, lake, capsys, name, command):
    make, needle = BAD_DATA[name]
    bad = tmp_path / ("bad.parquet" if "Parquet" in name else "bad.txt")
    make(bad, lake)
    out = tmp_path / "out"
    if command == "train":
        arguments = train_arguments(bad, out, "--env", "frozenlake")
    else:
        arguments = ["convert", str(bad), str(out / "data.parquet"), "--env", "frozenlake"]
    refused(arguments, capsys, needle)
    assert not list(out.glob("*"))


def test_rewards_that_are_no_numbers_are_refused(tmp_path, lake, capsys):
    bad = tmp_path / "bad.parquet"
    write_parquet_with(bad, lake, reward=np.full(3000, np.nan, np.float32))
    refused(train_arguments(bad, tmp_path / "out", "--env", "frozenlake"), capsys, "reward")


@pytest.mark.parametrize(
    ("more", "needle"),
    [
        (["--dpus", "3001"], "3001 cores for 3,000 transitions"),
        (["--dpus", "0"], "cores is 0"),
        (["--tasklets", "16"], "tasklets is 16: with bootstrap current"),
        (["--tasklets", "25", "--bootstrap", "frozen"], "tasklets is 25"),
        (["--sampling", "RAN", "--bootstrap", "frozen"], "bootstrap frozen does not apply to sampling RAN"),
        (["--tasklets", "1", "--backend", "cpu"], "--tasklets does not apply to --backend cpu"),
        (["--simulated-dpus", "2", "--backend", "cpu"], "--simulated-dpus does not apply to --backend cpu"),
        (
            ["--simulated-dpus", "9"],
            "simulated_dpus is 9; expected a whole number of at least 1 and at most 4",
        ),
        (["--hardware", "cray"], "cray"),
        (["--epsilon", "0.2"], "--epsilon does not apply to q_learning"),
        (["--alpha", "0.2", "--alpha-schedule", "rescaled_linear"], "does not apply to rescaled_linear"),
        (["--tau", "4"], "--tau 4 is more than --episodes 3"),
        (["--alpha", "2"], "alpha is 2.0"),
        (["--number-format", "INT32", "--gamma", "1"], "gamma is 1"),
        (["--env", "taxi"], "logged in FrozenLake-v1"),
        (["--env", "frozenlak"], "frozenlak"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, lake, capsys, more, needle):
    refused(train_arguments(lake, tmp_path / "out", *more), capsys, needle)
    assert not list((tmp_path / "out").glob("*"))


def test_a_folder_or_a_pipe_is_never_replaced(tmp_path, lake, capsys):
    for arguments in (
        ["collect", "--env", "frozenlake", "--transitions", "5", "--out", "OUT"],
        ["convert", str(lake), "OUT", "--env", "frozenlake"],
    ):
        folder, pipe = tmp_path / "folder.parquet", tmp_path / "pipe.parquet"
        folder.mkdir(exist_ok=True)
        if not pipe.exists():
            os.mkfifo(pipe)
        for target in (folder, pipe):
            refused(
                [str(target) if word == "OUT" else word for word in arguments], capsys, "no ordinary file"
            )
        assert folder.is_dir()
        assert pipe.is_fifo()


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "target.parquet", tmp_path / "link.parquet"
    target.write_text("old")
    link.symlink_to(target)
    assert main(["collect", "--env", "frozenlake", "--transitions", "5", "--out", str(link)]) == 0
    assert link.is_symlink()
    assert len(load(target)) == 5


def test_parquet_is_message_by_its_name_in_one_way(tmp_path, lake, capsys):
    for name in ("lake.pq", "LAKE.PARQUET"):
        assert main(["convert", str(lake), str(tmp_path / name), "--env", "frozenlake"]) == 0
        assert len(load(tmp_path / name)) == 3000
    refused(
        ["collect", "--env", "frozenlake", "--transitions", "5", "--out", "x.txt"],
        capsys,
        "name the file *.parquet",
    )


@pytest.mark.parametrize("name", ["q_table.npy", "manifest.json"])
def test_a_folder_where_a_result_belongs_is_refused_before_training(tmp_path, lake, capsys, name):
    (tmp_path / "out" / name).mkdir(parents=True)
    refused(train_arguments(lake, tmp_path / "out"), capsys, "is a folder")


@pytest.mark.parametrize(
    ("metadata", "needle"),
    [
        ({"terminal_states": [999]}, "terminal state"),
        ({"terminal_states": "ab"}, "terminal_states is 'ab'"),
        ({"reward_range": [0]}, "reward_range is [0]"),
        ({"reward_range": {"low": 0}}, "reward_range"),
        ({"env_id": 5}, "env_id is 5"),
    ],
)
def test_damaged_metadata_is_refused(tmp_path, lake, capsys, metadata, needle):
    bad = tmp_path / "bad.parquet"
    table = parquet.read_table(lake)
    header = json.loads(table.schema.metadata[b"swiftrl"])
    header["metadata"] |= metadata
    parquet.write_table(table.replace_schema_metadata({b"swiftrl": json.dumps(header)}), bad)
    refused(train_arguments(bad, tmp_path / "out"), capsys, needle)


def test_metadata_that_nest_too_deeply_are_refused(tmp_path, lake, capsys):
    table = parquet.read_table(lake).replace_schema_metadata({b"swiftrl": b"[" * 100_000})
    parquet.write_table(table, tmp_path / "bad.parquet")
    refused(train_arguments(tmp_path / "bad.parquet", tmp_path / "out"), capsys, "the metadata is not JSON")


@pytest.mark.parametrize("table", [np.zeros((16, 4), np.int32), np.full((16, 4), np.inf, np.float32)])
def test_a_table_of_raw_or_infinite_numbers_is_refused(tmp_path, capsys, table):
    np.save(tmp_path / "q.npy", table)
    refused(
        ["evaluate", "--env", "frozenlake", "--q-table", str(tmp_path / "q.npy")], capsys, "finite values"
    )


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"\x93NUMPY\x01\x00", b""])
def test_a_table_that_is_none_is_refused(tmp_path, capsys, content):
    (tmp_path / "q.npy").write_bytes(content)
    refused(["evaluate", "--env", "taxi", "--q-table", str(tmp_path / "q.npy")], capsys, "q.npy")


def test_values_beyond_single_precision_are_an_error_not_a_result(tmp_path, capsys):
    huge = np.array([3e38, -3e38] * 50, np.float32)
    index = np.zeros(100, np.int32)
    flags = np.zeros(100, bool)
    path = tmp_path / "huge.parquet"
    save(Dataset(index, index, huge, index, flags, flags, index, 1, 1), path)
    refused(train_arguments(path, tmp_path / "out", "--episodes", "50", "--alpha", "1"), capsys, "not finite")
    assert not list((tmp_path / "out").glob("*"))


def test_train_resolves_the_environment_once(tmp_path, lake, monkeypatch):
    resolved, read = [], environments._read

    def counted(env_id, *more):
        resolved.append(env_id)
        return read(env_id, *more)

    monkeypatch.setattr(environments, "_read", counted)
    assert main(train_arguments(lake, tmp_path / "out", "--env", "frozenlake")) == 0
    assert resolved == ["FrozenLake-v1"]


@pytest.mark.parametrize("backend", ["pim", "cpu"])
def test_ctrl_c_ends_a_long_round_soon_and_writes_nothing(tmp_path, lake, backend):
    long = ["--episodes", "4000000", "--tau", "4000000", "--backend", backend]
    command = [sys.executable, "-m", "swiftrl_core.cli", *train_arguments(lake, tmp_path / "out"), *long]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not (tmp_path / "out").exists():
                time.sleep(0.05)
            time.sleep(2)  # into the round
            process.send_signal(signal.SIGINT)
            message = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert process.returncode == 130
    assert "interrupted" in message
    assert not list((tmp_path / "out").glob("*"))


def test_too_many_open_files_are_called_so(capsys, monkeypatch):
    monkeypatch.setattr("os.pipe", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
    monkeypatch.setattr(tools, "doctor", lambda options: os.pipe())
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == (
        "swiftrl: too many files are open: use fewer workers, or raise the limit of `ulimit -n`\n"
    )


def test_commands_work_without_docstrings_and_assertions():
    done = subprocess.run(
        [sys.executable, "-OO", "-m", "swiftrl_core.cli", "train", "--help"], capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_output_is_one_sentence():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "swiftrl_core.cli", "doctor"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("swiftrl: ")
    assert "Traceback" not in done.stderr


def test_a_kernel_that_faults_is_reported_and_leaves_no_result(tmp_path, lake, capsys, monkeypatch):
    source = tmp_path / "learner.c"
    source.write_text(FAULTING_KERNEL)
    monkeypatch.setattr(kernels, "LEARNER", source)
    refused(train_arguments(lake, tmp_path / "out", "--episodes", "1"), capsys, "fault")
    assert not list((tmp_path / "out").glob("*"))


def test_a_table_too_large_for_wram_is_refused(tmp_path, capsys):
    path = tmp_path / "wide.parquet"
    column = np.zeros(10, np.int32)
    flags = np.zeros(10, bool)
    wide = Dataset(column, column, column.astype(np.float32), column, flags, flags, column, 6_000, 5)
    save(wide, path)
    refused(train_arguments(path, tmp_path / "out"), capsys, "6,000 states x 5 actions takes 120,000 bytes")


def test_a_results_folder_that_is_a_file_is_refused_before_training(tmp_path, lake, capsys):
    (tmp_path / "out").write_text("mine")
    refused(train_arguments(lake, tmp_path / "out"), capsys, "is a file")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path, lake, capsys):
    tmp_path.joinpath("locked").mkdir(mode=0o500)
    refused(train_arguments(lake, tmp_path / "locked" / "out"), capsys, "cannot write")


def test_a_table_that_does_not_fit_the_environment_is_refused(tmp_path, capsys):
    np.save(tmp_path / "q.npy", np.zeros((3, 3), np.float32))
    refused(["evaluate", "--env", "taxi", "--q-table", str(tmp_path / "q.npy")], capsys, "(500, 6)")
    refused(["evaluate", "--env", "taxi", "--q-table", str(tmp_path / "none.npy")], capsys, "none.npy")


def test_the_installed_command_exits_with_1_and_one_sentence(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "swiftrl_core.cli",
            "collect",
            "--env",
            "nowhere",
            "--transitions",
            "5",
            "--out",
            "x",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("swiftrl: ")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def refused(arguments, capsys, needle):
    """Assert exit code 1 and one sentence; a progress bar and the binding's line for each faulty DPU may precede it."""
    capsys.readouterr()
    assert main(arguments) == 1
    message = capsys.readouterr().err
    lines = [line for line in message.splitlines() if "episode/s" not in line and not line.startswith("DPU ")]
    assert len(lines) == 1, message
    assert lines[0].startswith("swiftrl: ")
    assert needle in lines[0]


def test_bench_reports_rows_of_every_section(capsys, monkeypatch):
    row = {"name": "x", "ns_per_update": 1.5}
    for name in benches.NAMES:
        monkeypatch.setattr(benches.load(name), "rows", lambda: [row])
    assert main(["bench", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == [row] * len(benches.NAMES)
    assert report["machine"]["threads"] >= 1


def test_a_bench_with_bars_fails_where_one_is_missed(capsys, monkeypatch):
    row = {"environment": "taxi", "recipe": "safe", "number_format": "FP32", "rounds": 3, "updates_m": 30.0}
    for value, status in ((7.93, 0), (7.9, 1)):
        asked = []

        def rows(asked=asked, value=value, **settings):
            asked.append(settings)
            return [row | {"least_return": value}]

        monkeypatch.setattr(benches.load("fewer-updates"), "rows", rows)
        assert main(["bench", "--only", "fewer-updates", "--seeds", "2"]) == status
        assert asked == [{"seeds": 2}]
        printed = capsys.readouterr()
        assert "| taxi | safe | FP32 | 3 |" in printed.out
        assert printed.err == "swiftrl: missed bars: taxi safe FP32: return 7.900\n" * status


def test_options_of_a_bench_are_refused_for_others(capsys):
    refused(["bench", "--only", "engine", "--seeds", "2"], capsys, "--seeds applies to one benchmark")


def test_bench_of_an_installed_package_says_where_to_run_it(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(benches, "ROOT", tmp_path)
    refused(["bench"], capsys, "run `swiftrl bench` from a clone")


def test_figures_of_no_results_are_one_sentence(capsys, tmp_path):
    refused(["figures", str(tmp_path)], capsys, f"there are no results in {tmp_path}")
