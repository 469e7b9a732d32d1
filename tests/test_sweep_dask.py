"""Sweeps on a Dask cluster of real processes: workers started by hand, kills, resources, hundreds of runs."""

import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from odd_runs import OddRun
from test_sweep import (
    children,
    command,
    comparable,
    finished,
    is_alive,
    make_runs,
    require_same_table,
    specification,
    undisturbed,
    wait_for,
)

from swiftrl_core.sweeps import executors, results
from swiftrl_core.sweeps.executors import Dask
from swiftrl_core.sweeps.plan import execute, make_plan
from swiftrl_core.sweeps.store import Store
from swiftrl_core.util.errors import SwiftRLError

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")

__all__ = ["undisturbed"]  # a fixture


class Cluster:
    """A scheduler and workers on the loopback, each a process that this test started and can kill."""

    def __init__(self, folder) -> None:
        self._folder = folder
        self.address_file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        wait_for(lambda: self.address_file.exists())
        self.workers = []

    def add_worker(self, *arguments: str) -> subprocess.Popen:
        local = ("--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder))
        self.workers.append(self._start("worker", *local, *arguments))
        return self.workers[-1]

    @property
    def address(self) -> str:
        return pd.read_json(self.address_file, typ="series")["address"]

    def wait(self) -> None:
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=30)

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, what: str, *arguments: str) -> subprocess.Popen:
        shared = ("--scheduler-file", str(self.address_file), "--no-dashboard")
        command = [sys.executable, "-m", "distributed.cli.dask_" + what, *shared, *arguments]
        environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
        log = (self._folder / "cluster.log").open("a")
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def on(cluster: Cluster) -> tuple[str, ...]:
    return "--executor", "dask", "--scheduler", cluster.address


def test_a_cluster_without_what_runs_need_is_an_error_not_a_hang(cluster, tmp_path):
    start = time.monotonic()
    with pytest.raises(SwiftRLError, match="has no workers"), Dask(cluster.address):
        pass
    assert time.monotonic() - start < 5
    cluster.add_worker("--resources", "gpu=1")
    cluster.wait()
    start = time.monotonic()
    with Dask(cluster.address) as executor:
        executor.check([OddRun("any"), OddRun("gpu", device="gpu"), *make_runs(2, backend="pim")])
        with pytest.raises(SwiftRLError, match="offers pim.*--resources pim=1"):
            executor.check(make_runs(2, backend="pim", hardware=True))
    assert time.monotonic() - start < 5
    path = specification(tmp_path, 2, backend="pim", hardware=True)
    done = subprocess.run(command(path, *on(cluster)), stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("swiftrl: no worker of the cluster offers pim")
    assert not (tmp_path / "out").exists()


def test_a_scheduler_that_is_not_there_is_told(tmp_path):
    with (
        pytest.raises(SwiftRLError, match="no Dask scheduler answers at tcp://127.0.0.1:9"),
        Dask("tcp://127.0.0.1:9"),
    ):
        pass


def test_runs_on_workers_started_by_hand_and_survive_the_death_of_one(cluster, tmp_path, undisturbed):
    victim = cluster.add_worker()
    cluster.add_worker()
    cluster.wait()
    driver = subprocess.Popen(command(specification(tmp_path, 40), *on(cluster)))
    wait_for(lambda: finished(tmp_path / "out") >= 5)
    victim.kill()
    assert driver.wait(60) == 0
    require_same_table(tmp_path / "out", undisturbed)


@pytest.mark.slow
def test_a_lost_scheduler_ends_the_sweep_in_one_sentence(cluster, tmp_path, undisturbed):
    cluster.add_worker()
    cluster.wait()
    path = specification(tmp_path, 40)
    driver = subprocess.Popen(command(path, *on(cluster)), stderr=subprocess.PIPE, text=True)
    wait_for(lambda: finished(tmp_path / "out") >= 5)
    cluster.scheduler.kill()
    told = driver.communicate(timeout=60)[1]
    assert driver.returncode == 1
    assert told.startswith("swiftrl: the connection to the Dask scheduler is lost; finished runs are kept")
    assert told.count("\n") == 1
    assert subprocess.run(command(path)).returncode == 0
    require_same_table(tmp_path / "out", undisturbed)


@pytest.mark.slow
def test_a_killed_driver_leaves_finished_runs_and_the_cluster_goes_on(cluster, tmp_path, undisturbed):
    cluster.add_worker()
    cluster.wait()
    arguments = command(specification(tmp_path, 40), *on(cluster))
    driver = subprocess.Popen(arguments)
    wait_for(lambda: finished(tmp_path / "out") >= 5)
    driver.kill()
    driver.wait()
    assert 5 <= finished(tmp_path / "out") < 40
    assert subprocess.run(arguments).returncode == 0
    require_same_table(tmp_path / "out", undisturbed)


@pytest.mark.slow
def test_ctrl_c_ends_a_sweep_on_a_cluster_of_this_machine(tmp_path):
    arguments = command(specification(tmp_path, 40), "--executor", "dask", "--workers", "2")
    driver = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: finished(tmp_path / "out") >= 5)
    workers = children(driver.pid)
    start = time.monotonic()
    driver.send_signal(signal.SIGINT)
    told = driver.communicate(timeout=30)[1]
    assert time.monotonic() - start < 5
    assert driver.returncode == 130
    assert "of 40 runs are done and kept" in told
    wait_for(lambda: not any(map(is_alive, workers)), 10)


@pytest.mark.slow
def test_a_run_that_kills_its_workers_fails_and_the_others_finish(cluster, tmp_path):
    for _ in range(6):  # nobody restarts them
        cluster.add_worker()
    cluster.wait()
    with Dask(cluster.address) as executor:
        outcomes = list(executor.run([OddRun("always", dies=99, marks=str(tmp_path)), *make_runs(5)]))
    failed = [outcome for outcome in outcomes if outcome.row is None]
    assert len(outcomes) == 6
    assert [outcome.job.config_hash for outcome in failed] == ["always"]
    assert "its workers kept dying" in failed[0].error


@pytest.mark.slow
def test_a_device_takes_one_run_at_a_time(cluster, tmp_path):
    cluster.add_worker("--resources", "gpu=1", "--nthreads", "4")
    cluster.wait()
    asked = [OddRun(f"gpu{number}", seconds=0.3, marks=str(tmp_path), device="gpu") for number in range(4)]
    with Dask(cluster.address) as executor:
        executor.check(asked)
        assert len(list(executor.run(asked))) == 4
    starts = sorted(int(path.suffix[1:]) for path in tmp_path.glob("gpu*"))
    assert starts[-1] - starts[0] >= 0.9e9


@pytest.mark.slow
def test_workers_that_come_later_are_used_and_runs_of_a_device_hold_nobody_up(cluster, tmp_path):
    cluster.add_worker("--resources", "gpu=1")
    cluster.wait()
    gpu = [OddRun(f"gpu{number}", seconds=0.5, marks=str(tmp_path), device="gpu") for number in range(6)]
    plain = [OddRun(f"plain{number}", seconds=1.0, marks=str(tmp_path)) for number in range(12)]
    with Dask(cluster.address) as executor:
        outcomes = executor.run([*gpu, *plain])
        next(outcomes)
        for _ in range(4):
            cluster.add_worker()
        assert len(list(outcomes)) == 17
        assert executor.workers == 5
    pids = {path.read_text() for path in tmp_path.glob("plain*")}
    assert len(pids) >= 4
    assert len({path.read_text() for path in tmp_path.glob("gpu*")}) == 1


@pytest.mark.slow
def test_five_hundred_runs_on_a_local_cluster_with_a_worker_killed(tmp_path, undisturbed):
    store, killer = Store(tmp_path), Killer()
    plan, executor = make_plan(make_runs(500), store), executors.make("dask", workers=2)
    summary = execute(plan, store, executor, show_progress=False, on_outcome=killer.note)
    assert (summary.done, summary.failed) == (500, 0)
    assert killer.killed
    table = results.read_table(summary.table)
    pd.testing.assert_frame_equal(comparable(table)[:40], undisturbed)
    assert table["seed"].tolist() == list(range(500))


class Killer:
    """Kills one of the cluster's workers after 100 outcomes."""

    def __init__(self) -> None:
        self.killed, self.outcomes = None, 0

    def note(self, _) -> None:
        self.outcomes += 1
        if self.outcomes == 100:
            self.killed = next(pid for pid in children(os.getpid()) if is_worker(pid))
            os.kill(self.killed, signal.SIGKILL)


def is_worker(pid: int) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as stream:
        return b"spawn_main" in stream.read()
