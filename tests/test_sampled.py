"""PIM at paper scale: a few simulated DPUs stand for all, and are held to the engine."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import paper_scale as sampled_bench
from swiftrl_core import backend as backends
from swiftrl_core.backends.pim import sampled
from swiftrl_core.data import collect
from swiftrl_core.learner import Learner
from swiftrl_core.learner.chunks import split
from swiftrl_core.training.agents import train_agents
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError


@pytest.mark.parametrize(
    "learner", [Learner(), Learner("sarsa", "RAN", "INT32")], ids=["fp32", "int32-sarsa-ran"]
)
def test_sampling_all_dpus_is_simulating_all(learner):
    data, schedule = collect("frozenlake", 2_003, seed=1), Schedule(10, 5, 2, seed=4)
    every = train(data, learner, schedule, "pim")
    all_sampled = train(data, learner, schedule, "pim", simulated_dpus=10)
    np.testing.assert_array_equal(all_sampled.q_raw, every.q_raw)
    unmeasured = {"host_averaging": 0.0, "inter_pim_core": 0.0, "pim_to_cpu": 0.0}
    assert replace(all_sampled.breakdown, **unmeasured) == replace(every.breakdown, **unmeasured)
    for part in ("inter_pim_core", "pim_to_cpu"):  # they contain averaging, which was measured
        simulated, full = (getattr(run.breakdown, part) for run in (all_sampled, every))
        assert simulated == pytest.approx(
            full, abs=all_sampled.breakdown.host_averaging + every.breakdown.host_averaging
        )


def down_s(machine, learner, data) -> float:
    """Seconds of the transfers before a round."""
    machine.load(split(data, learner, 64))
    table = np.zeros(64, learner.dtype)
    down = machine.run_round(table, 1, table if learner.update == "vr" else None).down_s
    machine.close()
    return down


def test_the_table_of_targets_is_broadcast_as_well():
    """64 DPUs, one rank: 0.12 ms a broadcast and 16.88 GB/s (PrIM); the episodes, the table, in vr the targets."""
    data = collect("frozenlake", 640, seed=1)
    for update, tables in (("td", 1), ("vr", 2)):
        learner = Learner(update=update)
        problem = backends.Problem(learner, 16, 4)
        seconds = (1 + tables) * 0.12e-3 + 64 * (4 + tables * 256) / 16.88e9
        assert down_s(sampled.open_sampled(problem, 64, 2), learner, data) == pytest.approx(seconds, rel=1e-9)
        assert down_s(backends.open_backend("pim", problem, 64), learner, data) == pytest.approx(
            seconds, rel=1e-9
        )


@pytest.mark.parametrize("number_format", ["FP32", "INT32"])
@pytest.mark.parametrize("name", ["frozenlake", "taxi"])
def test_eight_chosen_dpus_take_as_long_as_the_slowest_of_all(name, number_format):
    data = collect(name, 50_000, seed=2)
    learner = Learner(number_format=number_format, reward_range=data.reward_range)
    every, chosen = (
        train(data, learner, Schedule(100, 20, 5), "pim", simulated_dpus=count).breakdown.pim_kernel
        for count in ("all", 8)
    )
    print(f"{name} {number_format}: kernel time from 8 of 100 DPUs {chosen / every - 1:+.3%}")
    assert 0.97 <= chosen / every <= 1


def test_a_dpu_that_differs_stops_the_run(monkeypatch):
    def corrupted(name, problem, cores, **options):
        machine = backends.open_backend(name, problem, cores, **options)
        if name == "cpu":
            honest = machine.run_round

            def run_round(table, episodes, targets):
                done = honest(table, episodes, targets)
                done.tables[3, 17] += 1
                return done

            machine.run_round = run_round
        return machine

    monkeypatch.setattr(sampled, "open_backend", corrupted)
    data = collect("frozenlake", 500, seed=1)
    with pytest.raises(SwiftRLError, match=r"DPU 3 differs from the engine in round 1, state 4, action 1"):
        train(data, Learner(), Schedule(5, 3, 1), "pim", simulated_dpus=5)


@pytest.mark.parametrize("kernel", ["paper", "tuned"])
@pytest.mark.parametrize("bootstrap", ["current", "frozen"])
def test_leaving_single_precision_is_no_difference_of_kernels(kernel, bootstrap):
    """Infinities of both signs make NaNs, which the tuned kernel orders as integers."""
    data = collect("frozenlake", 400, seed=1)
    data = replace(data, reward=np.where(np.arange(400) % 2, 3e38, -3e38).astype(np.float32), metadata={})
    learner = Learner(alpha=1.0, gamma=1.0, reward_range=data.reward_range, bootstrap=bootstrap)
    with pytest.raises(SwiftRLError, match="of 64 entries of the Q-table are not finite"):
        train(data, learner, Schedule(3, 6, 2), "pim", kernel=kernel, simulated_dpus=2)


def test_the_busiest_have_the_longest_chunks_and_bootstrap_most():
    data, learner = collect("frozenlake", 1_003, seed=1), Learner()
    chunks = split(data, learner, 10)
    terminal = [int((chunks.chunk(core)["step"] >> 31).sum()) for core in range(10)]
    chosen = sampled.busiest(chunks, 2).tolist()
    assert set(chosen) < {0, 1, 2}  # the three with a row more
    left_out = ({0, 1, 2} - set(chosen)).pop()
    assert all(terminal[core] <= terminal[left_out] for core in chosen)


@pytest.mark.parametrize("wrong", [0, 6, 2.5, True, "some"])
def test_a_number_of_dpus_that_cannot_be_is_refused(wrong):
    with pytest.raises(SwiftRLError, match="simulated_dpus is"):
        train(collect("frozenlake", 50, seed=1), Learner(), Schedule(5, 1, 1), "pim", simulated_dpus=wrong)


def test_a_server_with_too_few_dpus_is_refused_and_ranks_are_those_of_all():
    data = collect("frozenlake", 5_000, seed=1)
    with pytest.raises(SwiftRLError, match="asked for 2561 DPUs, upmem-2556 has 2560"):
        train(data, Learner(), Schedule(2_561, 1, 1), "pim", simulated_dpus=1)
    for cores, ranks in ((200, 4), (64, 1)):
        machine = train(data, Learner(), Schedule(cores, 1, 1), "pim", simulated_dpus=2).machine
        assert (machine["dpus"], machine["simulated_dpus"], machine["ranks"]) == (cores, 2, ranks)
    with pytest.raises(SwiftRLError, match="asked for 2561 DPUs, upmem-2556 has 2560"):
        train_agents(data, [Learner()] * 2_561, episodes=1, simulated_dpus=1)
    machine = train_agents(data, [Learner()] * 65, episodes=1, simulated_dpus=1).machine
    assert (machine["dpus"], machine["ranks"]) == (65, 2)


@pytest.mark.parametrize(
    "options", [{}, {"kernel": "tuned"}, {"simulated_dpus": 2}, {"tasklets": 16}], ids=str
)
def test_a_server_of_v1b_chips_trains_the_same_tables(options):
    learner = Learner(bootstrap="frozen" if "tasklets" in options else "current")
    data, schedule = collect("frozenlake", 200, seed=1), Schedule(4, 2, 2)
    trained = train(data, learner, schedule, "pim", hardware="upmem-v1b", **options)
    assert trained.machine["hardware"] == "upmem-v1b"
    np.testing.assert_array_equal(trained.q_raw, train(data, learner, schedule, "cpu").q_raw)


def test_a_v1b_chip_has_16_tasklets():
    data, options = collect("frozenlake", 200, seed=1), {"hardware": "upmem-v1b", "tasklets": 17}
    with pytest.raises(SwiftRLError, match="does not fit a v1B DPU; choose 1 to 16 tasklets"):
        train(data, Learner(bootstrap="frozen"), Schedule(4, 2, 2), "pim", **options)


def test_other_backends_have_no_simulated_dpus():
    with pytest.raises(SwiftRLError, match="does not apply to backend cpu"):
        train(collect("frozenlake", 50, seed=1), Learner(), Schedule(5, 1, 1), "cpu", simulated_dpus=2)


def test_the_benchmark_measures_seconds_and_simulates_the_kernel():
    rows = sampled_bench.rows((("frozenlake", 2_000),), Schedule(20, 4, 2), simulated_dpus=2)
    assert [row["number_format"] for row in rows] == ["INT32", "FP32"]
    for row in rows:
        assert row["updates"] == 8_000
        assert row["ns_per_update"] == pytest.approx(row["seconds"] / 8_000 * 1e9, rel=0.05)
        assert row["kernel_s"] > 0
    assert f"{rows[1]['kernel_s']:.2f}" in sampled_bench.table(rows)
