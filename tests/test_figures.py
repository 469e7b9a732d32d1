"""Figures: what they draw is what the table says, and the same table gives the same bytes."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from swiftrl_core.data.evaluation import value_iteration
from swiftrl_core.experiments import quickstart
from swiftrl_core.experiments.quickstart import policy_on_map
from swiftrl_core.plotting.style import PARTS, save

TIMES = pd.DataFrame(
    {
        "run": ["a", "b"],
        "cpu_to_pim": [0.1, 0.2],
        "pim_kernel": [1.0, 2.0],
        "inter_pim_core": [0.3, 0.4],
        "pim_to_cpu": [0.05, 0.06],
        "evidence": ["simulated", "measured"],
    }
)
CURVE = pd.DataFrame(
    {
        "run": ["a", "a", "b", "b"],
        "episodes": [0, 10, 0, 10],
        "exact_return": [0, 0.5, 0, 0.5],
        "optimum": 0.73,
    }
)


def drawn():
    policy = policy_on_map("frozenlake", value_iteration("frozenlake", 0.95))
    return {
        "breakdown": (quickstart.fig_breakdown(TIMES), TIMES),
        "learning_curve": (quickstart.fig_learning_curve(CURVE), CURVE),
        "policy": (quickstart.fig_policy(policy), policy),
    }


def test_stacked_bars_add_up_to_the_total():
    bars = quickstart.fig_breakdown(TIMES).axes[0].patches
    ends = [bar.get_x() + bar.get_width() for bar in bars[-2:]]
    parts = TIMES[list(PARTS)].sum(axis=1) * 1e3
    np.testing.assert_allclose(ends, parts)


def test_every_time_says_what_it_is():
    axes = quickstart.fig_breakdown(TIMES).axes[0]
    assert axes.get_xlabel() == "time (ms, measured and simulated)"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a\n(simulated)", "b\n(measured)"]


def test_equal_curves_can_be_told_apart():
    first, second = quickstart.fig_learning_curve(CURVE).axes[0].lines[:2]
    assert first.get_markersize() != second.get_markersize()
    assert first.get_color() != second.get_color()


def test_the_policy_has_an_arrow_on_every_tile_that_can_be_left():
    figure = quickstart.fig_policy(policy_on_map("frozenlake", value_iteration("frozenlake", 0.95)))
    arrows = [text.get_text() for text in figure.axes[0].texts if text.get_text() in quickstart.ARROWS]
    assert len(arrows) == 11


@pytest.mark.parametrize("name", ["breakdown", "learning_curve", "policy"])
def test_the_same_table_gives_the_same_bytes(tmp_path, name):
    for folder in ("one", "two"):
        paths = save(*drawn()[name], tmp_path / folder, name)
        assert [path.suffix for path in paths] == [".pdf", ".png", ".csv"]
    for path in paths:
        assert path.read_bytes() == (tmp_path / "one" / path.name).read_bytes()


def test_the_user_s_settings_of_matplotlib_change_no_byte(tmp_path):
    theirs = {
        "font.family": "serif",
        "axes.grid": True,
        "savefig.bbox": "tight",
        "lines.linewidth": 3,
        "pdf.use14corefonts": True,
        "text.usetex": True,
        "figure.dpi": 30,
    }
    for name in drawn():
        ours = save(*drawn()[name], tmp_path / "ours", name)
        with mpl.rc_context(theirs):
            for path, other in zip(ours, save(*drawn()[name], tmp_path / "theirs", name), strict=True):
                assert path.read_bytes() == other.read_bytes(), path.name


def test_fonts_are_embedded_as_truetype(tmp_path):
    pdf = save(*drawn()["breakdown"], tmp_path, "breakdown")[0].read_bytes()
    assert b"/Type3" not in pdf
    assert b"/TrueType" in pdf or b"/CIDFontType2" in pdf
