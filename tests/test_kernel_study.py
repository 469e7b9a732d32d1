"""The kernel study: what its table says of any run, its reference in doubles, and what was not adopted, literally."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swiftrl_core.data import collect
from swiftrl_core.experiments import kernel_study, kernel_variants
from swiftrl_core.experiments.kernel_study import Size
from swiftrl_core.experiments.kernel_variants import Kind
from swiftrl_core.experiments.precision import error_bound
from swiftrl_core.learner import Learner, NumberFormat
from swiftrl_core.learner.chunks import split
from swiftrl_core.training.loop import Schedule, train
from swiftrl_core.util.errors import SwiftRLError

NOTEBOOK = Path(__file__).resolve().parent.parent / "notebooks" / "11_kernel_study.ipynb"
CASES = (("frozenlake", "INT32", "SEQ"), ("frozenlake", "INT32", "RAN"), ("frozenlake", "FP32", "SEQ"))


@pytest.fixture(scope="module")
def small():
    """The study with three DPUs, chunks of 150 and launches of four episodes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_study, "PAPER_CHUNK", {"frozenlake": 150, "taxi": 150})
        patch.setattr(kernel_variants, "TAU", 4)
        patch.setattr(kernel_study, "SIZES", {"smoke": Size(CASES, dpus=3)})
        yield kernel_study.measure("smoke")


def test_every_step_leaves_the_papers_bits_and_says_what_it_saved(small):
    for _, own in small.groupby(["environment", "number_format", "sampling"]):
        steps = own[own["kind"].isin([Kind.PAPER, Kind.STEP])]
        assert steps["same_bits"].all()
        assert steps[["max_error", "exact_return"]].drop_duplicates().shape == (1, 2)
        np.testing.assert_allclose(
            steps["saved"][1:], 1 - steps["cycles"].to_numpy()[1:] / steps["cycles"][:-1]
        )
        paper = own[own["kind"] == Kind.PAPER].iloc[
            -1
        ]  # in INT32 the second row, with fractions in lowest terms
        np.testing.assert_allclose(own["speedup"], paper["cycles"] / own["cycles"])
        assert len(own[own["kind"] == Kind.PAPER]) == 1 + (paper["number_format"] == "INT32")
        assert steps["instructions"].iloc[-1] < 0.65 * steps["instructions"].iloc[0]


def test_cycles_of_a_tasklet_are_eleven_an_instruction_and_its_transfers(small):
    alone = small[small["kind"].isin([Kind.PAPER, Kind.STEP]) & (small["number_format"] == "INT32")]
    np.testing.assert_allclose(alone["cycles"], 11 * alone["instructions"] + alone["dma_cycles"], rtol=2e-3)


def test_no_more_than_the_bound_is_modelled(small):
    bounds = small[small["kind"] == Kind.BOUND]
    assert len(bounds) == len(CASES)
    assert set(bounds["evidence"]) == {"modelled"}
    assert set(small.loc[small["kind"] != Kind.BOUND, "evidence"]) == {"simulated"}
    assert (bounds["saved"] > 0).all()
    assert bounds["same_bits"].isna().all()


def test_the_error_to_doubles_is_within_what_is_proved(small):
    """Also that the reference draws as the kernel does: a transition drawn otherwise is off by much more."""
    bound = error_bound(Learner(number_format="INT32").coefficients, 0.1, 0.95, kernel_variants.ROUNDS)
    errors = small[small["kind"] != Kind.OTHER_LEARNER].groupby("number_format")["max_error"].max()
    assert 0 < errors["INT32"] < bound / 5
    assert errors["FP32"] < 1e-6
    assert small.loc[small["step"] == "scaled index", "max_error"].item() < bound / 5


def test_a_step_that_changes_bits_stops_the_study(small, monkeypatch):
    def wrong(problem):
        for variant in variants(problem):
            yield replace(variant, kind=Kind.STEP) if variant.name == "scale 2^13" else variant

    variants = kernel_study.variants
    monkeypatch.setattr(kernel_study, "variants", wrong)
    monkeypatch.setattr(kernel_study, "SIZES", {"smoke": Size(CASES[:1], dpus=3)})
    with pytest.raises(SwiftRLError, match=r"'scale 2\^13' leaves a table other than the paper's kernel"):
        kernel_study.measure("smoke")


def test_reference_is_the_training_in_doubles():
    """FP32 stays within its rounding of it, in every sampling, from chunks that are not all as long."""
    dataset = collect("frozenlake", 1_001, seed=4)
    schedule = Schedule(3, kernel_variants.TAU * kernel_variants.ROUNDS, kernel_variants.TAU)
    for sampling in ("SEQ", "STR", "RAN"):
        learner = Learner(sampling=sampling)
        single = train(dataset, learner, schedule, "cpu").q_table
        np.testing.assert_allclose(kernel_variants.reference(dataset, learner, 3), single, atol=2e-6)


def test_the_fused_update_does_what_it_says():
    """Q += (A (r - Q) + B max + half) >> 13 on one chunk, in Python's integers."""
    dataset = collect("taxi", 400, seed=1)
    learner = Learner(number_format=NumberFormat.INT32_POW2, reward_range=dataset.reward_range)
    problem = kernel_variants.Problem(learner, dataset.n_states, dataset.n_actions)
    (fused,) = (
        variant
        for variant in kernel_variants.variants(
            replace(problem, learner=replace(learner, number_format="INT32"))
        )
        if variant.name == "fused update"
    )
    _, table = kernel_variants.run(fused, fused.build(), dataset, 1)
    q = np.zeros((dataset.n_states, dataset.n_actions), object)
    chunk = split(dataset, learner, 1).records
    for _ in range(kernel_variants.TAU * kernel_variants.ROUNDS):
        for step, reward in chunk.tolist():
            state, action = divmod(step & 0xFFFF, dataset.n_actions)
            best = 0 if step >> 31 else max(q[step >> 16 & 0x7FFF])
            q[state, action] += (820 * (reward - q[state, action]) + 779 * best + 4096) >> 13
    np.testing.assert_array_equal(table.reshape(q.shape), q.astype(np.int32))


def test_the_figure_and_the_sentences_take_any_study(small):
    figure = kernel_study.fig_kernel_study(small)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [f"FrozenLake, {number_format}, {sampling}" for _, number_format, sampling in CASES]
    assert "Simulated, except the bound" in figure.get_supxlabel()
    assert len(kernel_study.summary_kernel_study(small)) == len(CASES)
    assert kernel_study.verdicts(small)["verdict"].notna().all()


def test_an_unknown_size_is_refused(small):
    with pytest.raises(SwiftRLError, match="size is 'huge': choose one of smoke"):
        kernel_study.measure("huge")


def test_the_notebook_says_its_parameters():
    source = json.loads(NOTEBOOK.read_text())["cells"][1]["source"]
    assert source[0].startswith('size: str = "smoke"')
