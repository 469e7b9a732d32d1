"""Figures and summaries of the experiments, drawn from the reference results; regeneration; intervals."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from swiftrl_core.cli import main
from swiftrl_core.experiments import backends, quickstart, strong_scaling, synchronisation, time_to_optimum
from swiftrl_core.experiments import registry as experiments
from swiftrl_core.experiments.experiment import Plot
from swiftrl_core.plotting import captions, intervals
from swiftrl_core.plotting.style import COLUMN_INCHES, PAGE_INCHES, save
from swiftrl_core.plotting.style import PARTS as NAMES_OF_PARTS
from swiftrl_core.sweeps import results
from swiftrl_core.util.errors import SwiftRLError

REFERENCE = Path(__file__).resolve().parent.parent / "results" / "reference"
PARTS = list(NAMES_OF_PARTS)


def folder_of(experiment: experiments.Experiment) -> Path:
    return REFERENCE / experiment.part_of / experiment.id if experiment.part_of else REFERENCE / experiment.id


def drawn_from_rows(experiment: experiments.Experiment) -> list[Plot]:
    return [plot for plot in experiment.figures if plot.table is not None]


KEPT = [entry for entry in experiments.EXPERIMENTS.values() if folder_of(entry).is_dir()]


def rows_of(name: str) -> pd.DataFrame:
    experiment = experiments.find(name)
    return results.read_table(folder_of(experiment) / "table.parquet", experiment.columns)


@pytest.fixture(scope="module")
def scaling() -> pd.DataFrame:
    return rows_of("04_strong_scaling")


@pytest.fixture(scope="module")
def machines() -> pd.DataFrame:
    return rows_of("05_backends")


def texts(figure: Figure) -> str:
    """All that is written in a figure, on one line."""
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    found += [axes.get_xlabel() + " " + axes.get_ylabel() + " " + axes.get_title() for axes in figure.axes]
    found.append(figure._supxlabel.get_text() if figure._supxlabel else "")
    return " ".join(" ".join(found).split())


# --- the reference results --------------------------------------------------------------------------------


def test_there_are_reference_results():
    kept = {(entry.part_of or entry.id)[:2] for entry in KEPT}
    assert {"02", "03", "04", "05", "06", "07", "08", "10", "12"} <= kept
    assert "precision" in {entry.id for entry in KEPT}


@pytest.mark.parametrize("experiment", [entry.id for entry in KEPT])
def test_the_reference_is_a_whole_quick_run_of_today_s_experiment(experiment):
    rows = rows_of(experiment)
    planned = {run.config_hash for run in experiments.expand(experiment, "quick")}
    ran = set(rows["config_hash"])
    assert ran <= planned
    left_out = {run.group[1] for run in experiments.expand(experiment, "quick") if run.config_hash not in ran}
    assert left_out <= {"gpu", "gpu-shared"}


def test_the_reference_is_small_and_says_nothing_of_whose_machine_it_was():
    files = [path for path in REFERENCE.rglob("*") if path.suffix in (".parquet", ".json")]
    assert sum(path.stat().st_size for path in files) < 500_000
    for path in files:
        content = path.read_bytes()
        assert b"/home/" not in content
        assert b"/root/" not in content


def test_the_readme_and_the_docs_quote_the_reference(scaling):
    docs = REFERENCE.parent.parent / "docs"
    pages = {page.name: page.read_text() for page in [docs.parent / "README.md", *docs.glob("*.md")]}
    readme = " ".join(pages["README.md"].split())
    table = strong_scaling.table_strong_scaling(scaling)
    ends = table[table["cores"] == 2000].groupby("environment")["speedup"].agg(["min", "max"])
    lake, taxi = (
        f"{ends.loc[name, 'min']:.1f} to {ends.loc[name, 'max']:.1f} times" for name in ("frozenlake", "taxi")
    )
    assert f"Sixteen times the DPUs learn {lake} as fast on FrozenLake and {taxi} on Taxi." in readme
    optimum = time_to_optimum.table_time_to_optimum(rows_of("12_time_to_optimum")).dropna(subset="total_s")
    taxi = optimum[(optimum["environment"] == "taxi") & (optimum["backend"] == "pim")]
    best = taxi.loc[taxi["total_s"].idxmin()]
    faster, kernel = (f"{taxi[name].iloc[0] / best[name]:.0f}" for name in ("total_s", "pim_kernel"))
    assert f"our best recipe is {faster} times as fast as the paper's, its kernel {kernel} times" in readme
    pim = optimum[optimum["backend"] == "pim"]
    pim = pim.assign(rate=pim["updates_m"] / pim["pim_kernel"])
    lake, taxi = (own["rate"].iloc[-1] / own["rate"].iloc[0] for _, own in pim.groupby("environment"))
    faster = (
        f"{lake:.0f} times the updates a second of the paper's on FrozenLake and {taxi:.0f} times on Taxi"
    )
    assert f"Its kernel, tuned, makes {faster}" in " ".join(pages["tasklets.md"].split())
    assert "](docs/strong_scaling.png)" in readme
    for name in ("strong_scaling", "synchronisation", "time_to_optimum"):
        assert f"]({name}.png)" in pages["experiments.md"]
        assert 0 < (docs / f"{name}.png").stat().st_size < 100_000


# --- regeneration -----------------------------------------------------------------------------------------


def checksums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".pdf", ".png", ".csv")
    }


@pytest.mark.parametrize(
    "folders",
    [
        ["02_datasets", "08_roofline"],
        pytest.param([path.name for path in REFERENCE.iterdir()], marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_regenerating_twice_gives_the_same_bytes_and_executes_no_run(tmp_path, monkeypatch, capsys, folders):
    def never(*_, **__):
        raise AssertionError("regeneration executed a run")

    monkeypatch.setattr("swiftrl_core.sweeps.run.train", never)
    monkeypatch.setattr("swiftrl_core.sweeps.probe.Probe.run", never)
    keep = shutil.ignore_patterns("*.pdf", "*.png", "*.csv")
    for folder in folders:
        shutil.copytree(REFERENCE / folder, tmp_path / folder, ignore=keep)
    assert main(["figures", str(tmp_path)]) == 0
    first = checksums(tmp_path)
    expected = {
        plot.name
        for entry in KEPT
        if (entry.part_of or entry.id) in folders
        for plot in drawn_from_rows(entry)
    }
    assert {Path(name).stem for name in first} == expected
    assert len(first) == 3 * len(expected)
    assert main(["figures", str(tmp_path)]) == 0
    assert checksums(tmp_path) == first
    assert len(capsys.readouterr().out.splitlines()) == 2 * len(first)


def test_a_figure_is_regenerated_from_the_table_it_showed(tmp_path):
    curve = pd.DataFrame(
        {"run": "a", "episodes": [0, 10, 20], "exact_return": [0.1, 1 / 3, 0.7], "optimum": 0.7297660034}
    )
    save(quickstart.fig_learning_curve(curve), curve, tmp_path, "learning_curve")
    before = checksums(tmp_path)
    (tmp_path / "learning_curve.png").unlink()
    assert main(["figures", str(tmp_path)]) == 0
    assert checksums(tmp_path) == before


def test_regeneration_reports_what_it_cannot_read_and_draws_the_rest(tmp_path, capsys):
    shutil.copytree(REFERENCE / "02_datasets", tmp_path / "02_datasets")
    shutil.copytree(REFERENCE / "08_roofline", tmp_path / "08_roofline")
    (tmp_path / "02_datasets" / "table.json").unlink()
    assert main(["figures", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "02_datasets/table.parquet is not a finished table" in printed.err
    assert "roofline.pdf" in printed.out
    assert main(["figures", str(tmp_path / "nothing")]) == 1


# --- every figure -----------------------------------------------------------------------------------------


ALL = [pytest.param(entry.id, plot, id=plot.name) for entry in KEPT for plot in drawn_from_rows(entry)]


@pytest.mark.parametrize(("experiment", "plot"), ALL)
def test_a_figure_is_pure_and_fits_a_column_or_a_page(experiment, plot):
    rows = rows_of(experiment)
    before = rows.copy(deep=True)
    figure = plot.draw(rows)
    pd.testing.assert_frame_equal(rows, before)
    assert figure.get_figwidth() in (COLUMN_INCHES, PAGE_INCHES)
    assert all(axes.get_xlabel() or axes.get_ylabel() or axes.get_title() for axes in figure.axes)


@pytest.mark.parametrize(("experiment", "plot"), ALL)
def test_the_order_of_the_rows_does_not_change_the_numbers(experiment, plot):
    rows = rows_of(experiment)
    one, other = plot.table(rows), plot.table(rows.sample(frac=1, random_state=1))
    keys = [column for column in one if one[column].dtype != float]
    one, other = (shown.sort_values(keys, ignore_index=True) for shown in (one, other))
    numbers = one.select_dtypes("number").columns
    intervals_of_order = [name for name in numbers if name.endswith(("_low", "_high"))]
    pd.testing.assert_frame_equal(
        one.drop(columns=intervals_of_order), other.drop(columns=intervals_of_order)
    )


SUMMARIES = [
    *((entry.id, plot.summary) for entry in KEPT for plot in drawn_from_rows(entry) if plot.summary),
    ("05_backends", backends.summary_same_tables),
]


def test_all_kinds_of_rows_have_a_summary():
    assert {experiment for experiment, _ in SUMMARIES} == {entry.id for entry in KEPT}
    assert len(SUMMARIES) >= 16


@pytest.mark.parametrize(
    ("experiment", "summarise"), SUMMARIES, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_summary_is_sentences(experiment, summarise):
    summary = summarise(rows_of(experiment))
    assert len(summary) >= 1
    assert all(sentence.endswith(".") and "nan" not in sentence for sentence in summary)
    assert summary._repr_markdown_().count("\n- ") == len(summary) - 1


# --- strong scaling ---------------------------------------------------------------------------------------


def test_speed_up_is_total_over_total(scaling):
    table = strong_scaling.table_strong_scaling(scaling)
    learner = ["environment", "algorithm", "sampling", "number_format"]
    assert len(table.groupby(learner)) == 24
    for _, own in table.groupby(learner):
        parts = own[PARTS].sum(axis=1).to_numpy()
        np.testing.assert_allclose(own["speedup"], parts[0] / parts)
        np.testing.assert_allclose(own["efficiency"], own["speedup"] * own["cores"].iloc[0] / own["cores"])
    assert set(table["exact_solution_evidence"]) == {"measured"}


def test_stacked_parts_add_up_to_the_total(scaling):
    figure = strong_scaling.fig_scaling_breakdown(scaling)
    table = strong_scaling.table_scaling_breakdown(scaling)
    np.testing.assert_allclose(table[[f"{part}_share" for part in PARTS]].sum(axis=1), 1)
    shown = table[(table["algorithm"] == "q_learning") & (table["sampling"] == "SEQ")]
    groups = [own for _, own in shown.groupby(["environment", "number_format"], sort=False)]
    upper, lower = np.array(figure.axes).reshape(2, -1)
    for axes, below, own in zip(upper, lower, groups, strict=True):
        bars = len(own)
        assert len(axes.patches) == bars * len(PARTS)
        tops = [bar.get_y() + bar.get_height() for bar in axes.patches[-bars:]]
        np.testing.assert_allclose(tops, own["total_s"])
        np.testing.assert_allclose([bar.get_y() + bar.get_height() for bar in below.patches[-bars:]], 100)


def test_simulated_marks_are_hollow_and_measured_ones_are_filled(scaling):
    def faces(rows):
        axes = strong_scaling.fig_strong_scaling(rows).axes[0]
        return {
            line.get_markerfacecolor() for line in axes.lines if line.get_marker() not in ("None", "", None)
        }

    assert faces(scaling) == {"white"}
    assert "white" not in faces(
        scaling.assign(evidence="measured", hardware_profile=None, model_version=None)
    )


def test_a_speed_up_is_reported_with_the_updates_and_the_exact_solution(scaling):
    written = texts(strong_scaling.fig_strong_scaling(scaling))
    for needle in (
        "speed-up over 125 DPUs (simulated times)",
        "hardware profile upmem-2556, model version",
        "no time is from hardware",
        "8 DPUs were simulated",
        "Nominal updates: FrozenLake 100 M, all executed; Taxi 100 M, all executed.",
        "Averaging on the host, part of inter-PIM-core and PIM-CPU, is measured here.",
    ):
        assert needle in written
    solved = scaling[(scaling["backend"] == "exact") & (scaling["environment"] == "taxi")][
        "pim_kernel"
    ].median()
    assert f"Taxi {1e3 * solved:.2g} ms (measured)" in written


def test_updates_that_were_left_out_are_told():
    rows = pd.DataFrame(
        {"environment": "taxi", "nominal_updates": [10**7] * 2, "executed_updates": [10**7, 10**6]}
    )
    assert captions.updates(rows) == "Nominal updates: Taxi 10 M, 1 M to 10 M executed."


# --- backends ---------------------------------------------------------------------------------------------


def test_a_backend_that_is_not_there_has_its_reason_and_no_number(machines):
    rows = machines[~machines["backend"].str.startswith("gpu")]
    table = backends.table_backends(rows, {"gpu": "no driver"})
    absent = table[table["backend"].isin(["gpu", "gpu-shared"])]
    assert len(absent) == 8
    assert absent[["seconds", "speedup", "exact_return", "nominal_updates"]].isna().all(axis=None)
    assert set(absent["reason"]) == {"no driver", "not on the machine of this run"}
    present = table.dropna(subset="seconds")
    assert (present["reason"] == "").all()
    assert texts(backends.fig_backends(rows)).count("not on the machine of this run") == 4


def test_a_figure_with_simulated_and_measured_times_warns_of_it(machines):
    written = texts(backends.fig_backends(machines))
    assert "time (ms, measured and simulated)" in written
    assert "Simulated and measured times are shown side by side" in written
    assert "The exact solution reads each transition once." in written
    alone = texts(backends.fig_backends(machines[machines["evidence"] == "measured"]))
    assert "side by side" not in alone


def test_backends_that_disagree_are_not_passed_over(machines):
    rows = machines.copy()
    rows.loc[rows.index[rows["backend"] == "pim"][0], "q_sha256"] = "another"
    with pytest.raises(SwiftRLError, match="different tables"):
        backends.summary_same_tables(rows)


# --- intervals --------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_an_interval_holds_the_mean_and_is_the_range_of_few_values(values):
    mean, low, high = intervals.interval(values)
    slack = 1e-9 * (1 + abs(mean))
    assert low - slack <= mean <= high + slack
    assert mean == pytest.approx(np.mean(values))
    assert intervals.interval(values) == (mean, low, high)
    if len(values) < 5:
        assert (low, high) == (min(values), max(values))


def test_an_interval_is_student_s():
    """Quantiles of 97.5 % from the tables, for 1, 2, 4, 9, 29 and 120 degrees of freedom."""
    published = {1: 12.7062, 2: 4.3027, 4: 2.7764, 9: 2.2622, 29: 2.0452, 120: 1.9799}
    assert {n: round(intervals.student_t(n), 4) for n in published} == published
    # 1 to 5: mean 3, standard deviation sqrt(2.5), standard error sqrt(0.5)
    assert intervals.interval([1, 2, 3, 4, 5]) == pytest.approx(
        (3, 3 - 2.7764 / 2**0.5, 3 + 2.7764 / 2**0.5), 1e-4
    )


@pytest.mark.parametrize("count", [5, 10, 30])
def test_an_interval_covers_as_often_as_it_says(count):
    found = [intervals.interval(values) for values in np.random.default_rng(5).normal(size=(4_000, count))]
    covered = np.mean([low <= 0 <= high for _, low, high in found])
    assert abs(covered - 0.95) < 4 * (0.95 * 0.05 / 4_000) ** 0.5


def test_captions_name_the_bars():
    def words(*seeds):
        return intervals.means_over(pd.DataFrame({"seeds": seeds}))

    assert words(1, 1) == "one data set"
    assert words(3, 3) == "means over 3 data sets; bars: the range of 3"
    assert words(10, 5) == "means over 10 data sets; bars: 95 % intervals by Student's t"
    assert words(2, 5).endswith("95 % intervals by Student's t, of fewer than 5 data sets the range")


def test_one_value_is_its_own_interval():
    assert intervals.interval([3.0]) == (3.0, 3.0, 3.0)


# --- synchronisation --------------------------------------------------------------------------------------


def test_communication_is_both_ways_by_the_formula():
    """Rows by hand, on 64 DPUs, one rank: 0.12 ms a transfer, 4.74 GB/s up and 16.88 GB/s to broadcast (PrIM)."""
    rows = pd.DataFrame(
        {
            "environment": "frozenlake", "transitions": 1_000, "episodes": 30, "cores": 64, "algorithm": "sarsa",
            "tau": 10, "rounds": 3, "optimum": 1.0, "bytes_communicated": 8 * 1_000 + 3 * 2 * 64 * 256,
            "nominal_updates": 30_000, "exact_return": [0.5], "mean_error_optimal": 0.1, "executed_updates": 30_000,
        }
    )  # fmt: skip
    (row,) = synchronisation.table_synchronisation(rows).itertuples()
    up, down = (0.12e-3 + 64 * 256 / rate for rate in (4.74e9, 16.88e9))
    assert row.communication_s == pytest.approx(3 * (up + down), rel=1e-9)


def test_communication_is_modelled_and_grows_with_the_rounds():
    rows = rows_of("06_synchronisation")
    table = synchronisation.table_synchronisation(rows)
    assert set(table["communication_evidence"]) == {"modelled"}
    for _, own in table.groupby(["environment", "algorithm"]):
        each = own["communication_s"] / own["rounds"]
        np.testing.assert_allclose(each, each.iloc[0])
    assert "modelled" in texts(synchronisation.fig_synchronisation(rows))
