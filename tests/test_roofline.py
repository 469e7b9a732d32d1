"""The roofline, number formats against doubles, and the controls of the quick start."""

import numpy as np
import pandas as pd
import pytest

from swiftrl_core.data import collect, environments
from swiftrl_core.experiments import reference_fp64, roofline, widgets
from swiftrl_core.experiments import roofline_probe as probe
from swiftrl_core.experiments.registry import expand
from swiftrl_core.learner import Learner
from swiftrl_core.training.loop import Schedule, train


class Counted(float):
    """A number that counts what is done with it."""

    operations = 0

    def _count(self, result: float) -> "Counted":
        Counted.operations += 1
        return Counted(result)

    def __add__(self, other):
        return self._count(float(self) + float(other))

    def __sub__(self, other):
        return self._count(float(self) - float(other))

    def __mul__(self, other):
        return self._count(float(self) * float(other))

    def __gt__(self, other):
        Counted.operations += 1
        return float(self) > float(other)


@pytest.mark.parametrize("environment", ["frozenlake", "taxi"])
def test_operations_and_bytes_are_those_of_the_rule_as_it_runs(environment):
    data = collect(environment, 600, 3)
    q = {pair: Counted(0) for pair in np.ndindex(data.n_states, data.n_actions)}
    alpha, gamma, touched = Counted(0.1), Counted(0.95), 0
    Counted.operations = 0
    for s, a, r, then, ended in zip(
        data.state, data.action, data.reward, data.next_state, data.terminated, strict=True
    ):
        target = Counted(r)
        touched += 8
        if not ended:
            row = [q[then, b] for b in range(data.n_actions)]
            touched += 4 * len(row)
            best = row[0]
            for value in row[1:]:
                if value > best:
                    best = value
            target = gamma * best + target
        q[s, a] = q[s, a] + alpha * (target - q[s, a])
        touched += 8
    counted = probe.count(data)
    assert counted.operations == pytest.approx(Counted.operations / len(data))
    assert counted.bytes_touched == pytest.approx(touched / len(data))
    assert counted.bytes_streamed == 8


@pytest.fixture(scope="module")
def measured():
    return pd.DataFrame([run.run() for run in expand("08_roofline", "smoke")])


def test_every_speed_is_below_its_machine_s_ceilings(measured):
    for _, own in measured.groupby("machine"):
        learners = own[own["kind"] == "learner"]
        assert (learners["value"] > 0).all()
        assert learners["value"].max() < own.loc[own["kind"] == "peak", "value"].max()
        touched = learners["value"] / learners["operations"] * learners["bytes_touched"]
        assert touched.max() < own.loc[own["kind"] == "bandwidth", "value"].max()


def test_each_number_says_what_it_is_and_where_it_comes_from(measured):
    assert measured[["machine", "kind", "name", "value", "unit", "evidence", "source"]].notna().all(axis=None)
    evidence = measured.groupby(["machine", "kind"])["evidence"].unique().map(set).to_dict()
    assert evidence[probe.HOST, "learner"] == evidence[probe.HOST, "peak"] == {"measured"}
    assert evidence[probe.DPU, "peak"] == evidence[probe.DPU, "bandwidth"] == {"modelled"}
    assert evidence[probe.DPU, "learner"] <= {"simulated", "measured"}
    simulated = measured[measured["evidence"] == "simulated"]
    assert simulated[["hardware_profile", "model_version"]].notna().all(axis=None)


def test_caches_read_no_slower_than_memory_and_vectors_compute_more_than_numbers(measured):
    host = measured[measured["machine"] == probe.HOST].set_index("name")["value"]
    assert host["L1"] > host["memory"]
    assert host["vectors"] > host["scalar"]


def test_the_roofline_is_drawn_with_hollow_marks_for_the_dpu(measured):
    host, dpu = roofline.fig_roofline(measured).axes[:2]
    faces = [
        {line.get_markerfacecolor() for line in axes.lines if line.get_marker() in "os^"}
        for axes in (host, dpu)
    ]
    assert "white" not in faces[0]
    assert faces[1] == {"white"}
    assert len(roofline.summary_host(measured)) == 6
    assert len(roofline.summary_dpu(measured)) == 4


# --- double precision -------------------------------------------------------------------------------------


def test_doubles_train_as_the_engine_does_but_for_the_rounding():
    data = collect("taxi", 3_001, 1)
    schedule = Schedule(cores=7, episodes=5, tau=2)
    exact = reference_fp64.train(data, 7, 5, 2)
    single = train(data, Learner(reward_range=data.reward_range), schedule, "cpu").q_table
    assert exact.dtype == np.float64
    assert np.abs(exact).max() > 1
    assert 0 < np.abs(single - exact).max() < 1e-5


def test_no_format_leaves_its_proved_bound_and_floats_are_nearest():
    errors = pd.DataFrame([run.run() for run in expand("precision", "smoke")])
    fixed = errors[errors["number_format"] != "FP32"]
    assert (fixed["max_error"] <= fixed["bound"]).all()
    assert errors.loc[errors["number_format"] == "FP32", "bound"].isna().all()
    assert (errors["mean_error"] <= errors["max_error"]).all()
    assert (errors["bias"].abs() <= errors["mean_error"] + 1e-15).all()
    largest = errors.groupby("number_format")["max_error"].max()
    assert largest["FP32"] < largest["INT32"]


# --- controls ---------------------------------------------------------------------------------------------


@pytest.fixture
def explorer():
    lake = environments.resolve("frozenlake")
    return widgets.Explorer(lake, collect(lake, 5_000, 1), episodes=20)


@pytest.mark.parametrize(
    ("control", "value"), [("cores", 1000), ("tau", 1), ("algorithm", "sarsa"), ("number_format", "INT32")]
)
def test_moving_a_control_draws_both_pictures_again(explorer, control, value):
    before = explorer.lake.value, explorer.curve.value
    getattr(explorer, control).value = value
    assert bytes(explorer.lake.value).startswith(b"\x89PNG")
    assert bytes(explorer.curve.value) != bytes(before[1])
    assert "exact return" in explorer.message.value


def test_an_error_is_a_sentence_and_the_pictures_stay(explorer, monkeypatch):
    before = explorer.curve.value
    monkeypatch.setattr(explorer, "_episodes", 0)
    explorer.cores.value = 4
    assert explorer.message.value.startswith("<b>")
    assert "episodes" in explorer.message.value
    assert bytes(explorer.curve.value) == bytes(before)


def test_a_copy_without_a_kernel_still_has_a_picture(explorer):
    assert {"application/vnd.jupyter.widget-view+json", "image/png"} <= explorer._repr_mimebundle_().keys()
