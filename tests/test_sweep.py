"""Sweeps with real processes: kills, Ctrl-C, full disks, two at once. What is finished stays; what is not is redone."""

import errno
import itertools
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from odd_runs import OddRun

from benchmarks import sweeps as sweep_bench
from swiftrl_core.cli import main
from swiftrl_core.data import collect, save
from swiftrl_core.experiments import registry as experiments
from swiftrl_core.sweeps import executors, progress, results
from swiftrl_core.sweeps.estimate import estimate
from swiftrl_core.sweeps.executors import Processes, Serial
from swiftrl_core.sweeps.executors.executor import Turns
from swiftrl_core.sweeps.grid import combine, unique
from swiftrl_core.sweeps.job import alone_on
from swiftrl_core.sweeps.plan import INTERRUPT_SECONDS, execute, make_plan
from swiftrl_core.sweeps.run import Run
from swiftrl_core.sweeps.store import Store
from swiftrl_core.util.errors import SwiftRLError

SETTINGS = {
    "transitions": 1_000,
    "cores": 4,
    "episodes": 10,
    "tau": 5,
    "backend": "cpu",
    "monte_carlo_episodes": 20,
}
SWIFTRL = [sys.executable, "-m", "swiftrl_core.cli"]


def make_runs(count: int, **settings) -> list[Run]:
    return combine(SETTINGS | settings | {"seed": list(range(count))})


def specification(folder: Path, count: int, **settings) -> Path:
    path = folder / "lake.yaml"
    path.write_text(yaml.safe_dump({"base": SETTINGS | settings, "grid": {"seed": list(range(count))}}))
    return path


def command(path: Path, *more: str, out: Path | None = None) -> list[str]:
    return [*SWIFTRL, "sweep", str(path), "--out", str(out or path.parent / "out"), *more]


def finished(out: Path) -> int:
    folder = out / "rows"
    return len([name for name in os.listdir(folder) if not name.startswith(".")]) if folder.is_dir() else 0


def wait_for(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def comparable(table: pd.DataFrame) -> pd.DataFrame:
    measured = table["evidence"] == "measured"
    return table.drop(columns=list(results.VARIES)).assign(
        **{part: table[part].where(~measured) for part in results.PARTS}
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> pd.DataFrame:
    """The table of 40 runs, executed one after the other."""
    store = Store(tmp_path_factory.mktemp("undisturbed"))
    summary = execute(make_plan(make_runs(40), store), store, Serial(), show_progress=False)
    assert (summary.total, summary.done, summary.failed) == (40, 40, 0)
    return comparable(results.read_table(summary.table))


def require_same_table(out: Path, undisturbed: pd.DataFrame, count: int = 40) -> None:
    pd.testing.assert_frame_equal(comparable(results.read_table(out / "table.parquet")), undisturbed[:count])


def test_processes_end_with_the_same_table(tmp_path, undisturbed):
    store = Store(tmp_path)
    summary = execute(make_plan(make_runs(40), store), store, Processes(2), show_progress=False)
    require_same_table(tmp_path, undisturbed)
    assert set(results.read_table(summary.table)["workers"]) == {2}


def test_what_is_done_is_not_run_again(tmp_path, undisturbed):
    store = Store(tmp_path)
    execute(make_plan(make_runs(10), store), store, Serial(), show_progress=False)
    before = {path: path.stat() for path in (tmp_path / "rows").iterdir()}
    plan = make_plan(make_runs(20), store)
    assert (len(plan.done), len(plan.pending)) == (10, 10)
    execute(plan, store, Serial(), show_progress=False)
    assert all(path.stat() == status for path, status in before.items())
    require_same_table(tmp_path, undisturbed, 20)
    assert make_plan(make_runs(20), store).pending == []


def test_a_failed_run_is_recorded_stops_nothing_and_is_retried_on_demand(tmp_path, capsys):
    data = tmp_path / "lake.parquet"
    save(collect("frozenlake", 1_000, 0), data)
    whole = data.read_bytes()
    spec = tmp_path / "spec.yaml"
    own = SETTINGS | {"transitions": None, "data": "lake.parquet"}
    spec.write_text(yaml.safe_dump({"runs": [SETTINGS, own, SETTINGS | {"seed": 1}]}))
    arguments = ["sweep", str(spec), "--out", str(tmp_path / "out")]
    store = Store(tmp_path / "out")
    plan = make_plan(unique([Run(**SETTINGS), Run(**own | {"data": str(data)})]), store)
    save(collect("frozenlake", 1_000, 9), data)
    summary = execute(plan, store, Serial(), show_progress=False)
    assert (summary.done, summary.failed, summary.table) == (1, 1, None)
    (record,) = store.failures().values()
    assert "is not the file it was" in record["error"]
    assert "Traceback" in record["details"]
    data.write_bytes(whole)
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert "1 failed before (--retry-failed executes them again), 1 left" in told.out
    assert "1 of 3 runs failed, the first with: " in told.err
    assert main([*arguments, "--retry-failed"]) == 0
    assert store.failures() == {}
    assert len(results.read_table(tmp_path / "out" / "table.parquet")) == 3


def test_a_dry_run_says_what_is_to_do_and_writes_nothing(tmp_path, capsys):
    path = specification(tmp_path, 5)
    assert main([*command(path)[3:], "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path / 'out'}: 5 runs: 0 done, 5 left"
    assert lines[1].startswith("about ")
    assert lines[1].endswith(" with 1 worker, extrapolated from 0 finished and 1 small runs")
    assert not (tmp_path / "out").exists()


def test_an_estimate_leaves_out_what_is_not_here(tmp_path, capsys):
    path = specification(tmp_path, 1, backend="pim", hardware=True)
    assert main([*command(path)[3:], "--dry-run"]) == 0
    assert ", without pim, which cannot run here" in capsys.readouterr().out


@pytest.mark.parametrize("backend", [{}, {"backend": "pim", "backend_options": {"simulated_dpus": 2}}])
def test_an_estimate_is_of_the_right_size(tmp_path, backend):
    store = Store(tmp_path)
    plan = make_plan(make_runs(4, transitions=20_000, episodes=200, tau=100, **backend), store)
    expected = estimate(plan, store)
    assert expected.untimed == ()
    start = time.perf_counter()
    execute(plan, store, Serial(), show_progress=False)
    took = time.perf_counter() - start
    assert took / 6 < expected.seconds < took * 6


# --- workers that die -------------------------------------------------------------------------------------


@pytest.fixture
def odd(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    return lambda name, **how: OddRun(name, marks=str(tmp_path), **how)


def test_a_run_whose_process_dies_is_tried_again_and_then_fails(odd, tmp_path):
    asked = [odd("once", dies=1), odd("always", dies=99), odd("never"), *make_runs(3)]
    with Processes(2) as executor:
        outcomes = {outcome.job.config_hash: outcome for outcome in executor.run(asked)}
    assert len(outcomes) == 6
    assert outcomes["always"].error == "its worker process died 2 times, most recently from signal 9"
    assert outcomes["once"].error == outcomes["never"].error == "ValueError: odd"
    assert [len(list(tmp_path.glob(f"{name}.*"))) for name in ("once", "always", "never")] == [2, 2, 1]
    assert all(outcomes[run.config_hash].row for run in asked[3:])


def test_runs_of_one_device_run_one_at_a_time(odd, tmp_path):
    """A GPU run waits for the other; runs of the processor go on meanwhile."""
    asked = [*(odd(f"gpu{number}", seconds=0.3, device="gpu") for number in range(3)), odd("cpu")]
    with Processes(3) as executor:
        order = [outcome.job.config_hash for outcome in executor.run(asked)]
    assert order[0] == "cpu"
    starts = sorted(int(path.suffix[1:]) for path in tmp_path.glob("gpu*"))
    assert min(later - sooner for sooner, later in itertools.pairwise(starts)) >= 0.3e9


def test_a_killed_worker_costs_nothing_but_time(tmp_path, undisturbed):
    driver = subprocess.Popen(
        command(specification(tmp_path, 40), "--executor", "processes", "--workers", "2")
    )
    out = tmp_path / "out"
    for mark in (5, 20):
        wait_for(lambda mark=mark: finished(out) >= mark)
        os.kill(children(driver.pid)[0], signal.SIGKILL)
    assert driver.wait(60) == 0
    require_same_table(out, undisturbed)


def interrupt(driver: subprocess.Popen) -> str:
    """Send Ctrl-C and return the last words; a driver that does not end is killed.

    It ends within INTERRUPT_SECONDS and the time its last words take. On a busy machine that can be long, so the limit
    here is wide; that the promise of 5 seconds holds on a quiet one follows from the constant.
    """
    assert INTERRUPT_SECONDS <= 4
    driver.send_signal(signal.SIGINT)
    try:
        return driver.communicate(timeout=30)[1]
    finally:
        driver.kill()


SERIAL = pytest.param(("serial",), marks=pytest.mark.slow)
PROCESSES = ("processes", "--workers", "2")


@pytest.mark.parametrize("executor", [SERIAL, PROCESSES])
def test_a_killed_driver_leaves_finished_runs_and_no_processes(tmp_path, undisturbed, executor):
    arguments = command(specification(tmp_path, 40), "--executor", *executor)
    out = tmp_path / "out"
    for mark in (3, 20):
        driver = subprocess.Popen(arguments)
        wait_for(lambda mark=mark: finished(out) >= mark)
        workers = children(driver.pid)
        driver.kill()
        driver.wait()
        before = {path: path.read_bytes() for path in (out / "rows").iterdir() if path.suffix == ".json"}
        wait_for(lambda workers=workers: not any(map(is_alive, workers)), 5)
        assert not (out / "table.parquet").exists()
    assert subprocess.run(arguments).returncode == 0
    assert all(path.read_bytes() == content for path, content in before.items())
    require_same_table(out, undisturbed)


@pytest.mark.parametrize("executor", [SERIAL, PROCESSES])
def test_ctrl_c_ends_soon_says_what_is_done_and_can_go_on(tmp_path, undisturbed, executor):
    arguments = command(specification(tmp_path, 40), "--executor", *executor)
    driver = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: finished(tmp_path / "out") >= 10)
    told = interrupt(driver)
    assert driver.returncode == 130
    done = finished(tmp_path / "out")
    assert f"swiftrl: interrupted: {done} of 40 runs are done and kept in {tmp_path / 'out'}" in told
    assert "run the same command again" in told
    assert "Traceback" not in told
    assert subprocess.run(arguments).returncode == 0
    require_same_table(tmp_path / "out", undisturbed)


def test_ctrl_c_ends_soon_even_while_compiled_code_runs(tmp_path):
    """One round of minutes: the thread pool would wait for it to end."""
    settings = {
        "transitions": 100_000,
        "episodes": 2_000_000,
        "tau": 2_000_000,
        "cores": 1,
        "algorithm": "sarsa",
    }
    driver = subprocess.Popen(
        command(specification(tmp_path, 1, **settings)), stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: (tmp_path / "out" / "sweep.log").exists())
    time.sleep(1)
    told = interrupt(driver)
    assert driver.returncode == 130
    assert "swiftrl: interrupted: 0 of 1 runs are done" in told


# --- folders ----------------------------------------------------------------------------------------------


def test_two_sweeps_on_one_folder_share_the_work_and_agree(tmp_path, undisturbed):
    arguments = command(specification(tmp_path, 40))
    both = [subprocess.Popen(arguments) for _ in range(2)]
    assert [driver.wait(60) for driver in both] == [0, 0]
    require_same_table(tmp_path / "out", undisturbed)
    log = (tmp_path / "out" / "sweep.log").read_text()
    assert "another sweep uses this folder: this one executes the runs in reverse order" in log
    assert 40 <= log.count(" s frozenlake") <= 55  # runs executed, by both together


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_stops_no_sweep(tmp_path, monkeypatch, number):
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(number, os.strerror(number))))
    with alone_on("pim"):
        pass
    store = Store(tmp_path)
    assert execute(make_plan(make_runs(2), store), store, show_progress=False).done == 2


def test_a_second_user_can_lock_a_device(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    before = os.umask(0o077)
    try:
        with alone_on("gpu"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "swiftrl-gpu.lock").stat().st_mode & 0o777 == 0o444  # whose owner may be any user
    opened = Mock(wraps=os.open)
    monkeypatch.setattr("os.open", opened)
    with alone_on("gpu"):
        pass
    opened.assert_called_once_with(tmp_path / "swiftrl-gpu.lock", os.O_RDONLY)


def test_a_full_disk_ends_the_sweep_in_one_sentence(tmp_path, undisturbed):
    arguments = command(specification(tmp_path, 40))

    def no_large_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))  # the log reaches it after some rows

    done = subprocess.run(arguments, preexec_fn=no_large_files, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("swiftrl: cannot write ")
    assert "finished runs are kept" in done.stderr
    assert done.stderr.count("\n") == 1
    assert 0 < finished(tmp_path / "out") < 40
    again = subprocess.run(arguments, stderr=subprocess.PIPE, text=True)
    assert (again.returncode, again.stderr) == (0, "")  # silent, for this is no terminal
    require_same_table(tmp_path / "out", undisturbed)


def test_a_read_only_folder_ends_the_sweep_before_it_starts(tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    arguments = command(specification(tmp_path, 2), out=locked)
    if os.geteuid() == 0:  # root may write everywhere, unless it gives that up
        arguments = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *arguments]
    done = subprocess.run(arguments, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"swiftrl: cannot write {locked}")
    assert not list(locked.iterdir())


# --- progress, executors, experiments -----------------------------------------------------------------------


def test_progress_is_one_line_on_a_terminal(tmp_path):
    arguments = command(specification(tmp_path, 20))
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    driver = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    while chunk := read(ours):
        shown += chunk
    assert driver.wait() == 0
    lines = shown.decode().replace("\r\n", "\n").split("\n")
    assert lines[1:] == [""]
    assert lines[0].split("\r")[-1].startswith("20/20 runs ")
    assert " left" in lines[0]
    assert len((tmp_path / "out" / "sweep.log").read_text().splitlines()) == 20 + 2


def test_progress_in_a_log_is_a_line_now_and_then(capsys, monkeypatch):
    """With the time left, and none at all for a sweep that ends sooner."""
    for seconds, most in ((0.1, 12), (10.0, 0)):
        monkeypatch.setattr(progress, "LOG_SECONDS", seconds)
        runs = make_runs(20)
        shown = progress.Progress(runs, 5)
        for run in runs:
            time.sleep(0.02)
            shown.count(run, failed=run.seed == 3)
        shown.close()
        lines = capsys.readouterr().err.splitlines()
        assert 0 <= len(lines) - bool(most) < max(most, 1)
        assert all(re.fullmatch(r"\d+/25 runs(, 1 failed)?, 00:0\d, 00:0\d left", line) for line in lines)
    assert (shown.total, shown.done, shown.failed) == (25, 24, 1)


def test_the_time_left_counts_work_not_runs(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    large = make_runs(1, episodes=100_000, tau=100_000)  # a hundred times the small run's work
    shown = progress.Progress([*make_runs(1), *large])
    time.sleep(0.3)
    shown.count(*make_runs(1))
    left = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"1/2 runs, 00:00, 00:[23]\d left", left)
    shown.skip(*large)
    assert str(shown) == "2/2 runs"
    shown.close()


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        (["--executor", "serial", "--workers", "2"], "--workers 2 does not apply to --executor serial"),
        (["--executor", "processes", "--scheduler", "tcp://x:1"], "--scheduler does not apply"),
        (["--executor", "processes", "--workers", "0"], "--workers is 0"),
        (["--executor", "dask", "--scheduler", "tcp://x:1", "--workers", "2"], "--workers does not apply"),
    ],
)
def test_executor_options_that_do_not_fit_are_refused(tmp_path, capsys, arguments, needle):
    assert main([*command(specification(tmp_path, 1))[3:], *arguments]) == 1
    assert needle in capsys.readouterr().err


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_hardware_that_is_not_here_is_told_before_anything_runs(tmp_path, executor):
    store = Store(tmp_path / "out")
    plan = make_plan(make_runs(2) + make_runs(2, backend="pim", hardware=True), store)
    with pytest.raises(SwiftRLError, match="requires UPMEM hardware"):
        execute(plan, store, executors.make(executor), show_progress=False)
    assert not (tmp_path / "out").exists()


def test_an_experiment_gives_its_table_and_runs_once(tmp_path):
    table = experiments.run_experiment("06_synchronisation", "smoke", tmp_path)
    expected = experiments.expand("06_synchronisation", "smoke")
    assert table["config_hash"].tolist() == [run.config_hash for run in expected]
    assert table["exact_return"].notna().all()
    again = experiments.run_experiment("06", "smoke", tmp_path)
    pd.testing.assert_frame_equal(again, table)


def test_experiments_are_listed_and_run_from_the_command_line(tmp_path, capsys):
    assert main(["experiment", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(entry.question in listed for entry in experiments.EXPERIMENTS.values())
    out = str(tmp_path / "out")
    assert main(["experiment", "run", "02", "--size", "smoke", "--out", out]) == 0
    assert f"{len(experiments.expand('02', 'smoke'))} rows" in capsys.readouterr().out
    assert (tmp_path / "out" / "02_datasets" / "smoke" / "table.parquet").exists()
    assert main(["experiment", "run", "99", "--out", out]) == 1
    assert "choose one of" in capsys.readouterr().err


def test_the_benchmark_compares_executors(capsys):
    measured = sweep_bench.rows(runs=6)
    assert [row["executor"] for row in measured][:2] == ["serial", "processes"]
    assert all(row["runs"] == 6 and row["runs_per_s"] > 0 for row in measured)
    assert measured[0]["overhead_ms"] == 0
    assert len(sweep_bench.table(measured).splitlines()) == 1 + len(measured)


@given(
    st.lists(st.sampled_from(["gpu", "pim", None]), max_size=20),
    st.lists(st.sets(st.sampled_from(["gpu", "pim"])), max_size=60),
)
def test_turns_give_every_job_once_in_order_and_none_whose_device_is_taken(devices, moments):
    asked = list(enumerate(devices))
    turns = Turns(asked, device=lambda job: job[1])
    given = []
    for taken in [*moments, *[set()] * len(asked)]:
        job = turns.next(taken)
        if job is None:
            left = [device for number, device in asked if (number, device) not in given]
            assert all(device in taken for device in left)
        else:
            assert job[1] not in taken
            given.append(job)
    assert sorted(given) == sorted(asked, key=lambda job: job[0])
    for device in ("gpu", "pim", None):  # each device sees its jobs in order
        own = [number for number, wanted in given if wanted == device]
        assert own == sorted(own)
