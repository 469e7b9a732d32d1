"""Experiment 06: the effect of tau, the episodes between synchronisations, on quality and communication."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swiftrl_core.dpusim.timing import HardwareProfile, resolve_hardware, transfer_seconds
from swiftrl_core.experiments.experiment import Experiment, Plot, Summary
from swiftrl_core.experiments.grids import (
    EARLY_EXIT,
    PAPER_ROWS,
    PAPER_SEEDS,
    QUICK_ROWS,
    QUICK_SEEDS,
    RECORD_BYTES,
    SMOKE_ROWS,
    SMOKE_SEEDS,
    by_environment,
)
from swiftrl_core.plotting.intervals import bars_of, means_over, over_seeds
from swiftrl_core.plotting.style import (
    ALGORITHM_COLOURS,
    PAGE_INCHES,
    colour,
    legend_above,
    named,
    new_figure,
    note,
    plain_log_ticks,
    style,
)

MARKS = {"q_learning": "o", "sarsa": "s"}


def _frequencies(transitions: Mapping[str, int], **grid: Any) -> tuple[Mapping[str, Any], ...]:
    """Return grids of both algorithms on the CPU engine, with early exit where it is exact."""
    return (
        *by_environment(
            transitions, algorithm="q_learning", backend="cpu", backend_options=EARLY_EXIT, **grid
        ),
        *by_environment(transitions, algorithm="sarsa", backend="cpu", **grid),
    )


SIZES = {
    "smoke": _frequencies(SMOKE_ROWS, cores=8, episodes=20, tau=(1, 5, 20), seed=SMOKE_SEEDS),
    "quick": _frequencies(
        QUICK_ROWS, cores=125, episodes=500, tau=(1, 2, 5, 10, 20, 50, 100, 250, 500), seed=QUICK_SEEDS
    ),
    "paper": _frequencies(
        PAPER_ROWS, cores=2000, episodes=2000, tau=(1, 2, 5, 10, 20, 50, 100, 200, 500), seed=PAPER_SEEDS
    ),
}


def table_synchronisation(rows: pd.DataFrame) -> pd.DataFrame:
    """Return quality and communication for every tau.

    Returns
    -------
    DataFrame
        environment, transitions, episodes, cores, algorithm, tau, rounds, optimum, bytes_communicated, nominal_updates,
        seeds; exact_return, mean_error_optimal and executed_updates, means with intervals over seeds;
        communication_s, the seconds of all synchronisations on a UPMEM server, evidence modelled, hardware_profile.
    """
    by = ["environment", "transitions", "episodes", "cores", "algorithm", "tau", "rounds", "optimum"]
    by += ["bytes_communicated", "nominal_updates"]
    table = over_seeds(rows, by, ["exact_return", "mean_error_optimal", "executed_updates"])
    table = table.sort_values(["environment", "algorithm", "tau"], ignore_index=True)
    profile = resolve_hardware(None)
    return table.assign(
        communication_s=[_seconds(row, profile) for row in table.itertuples()],
        communication_evidence="modelled",
        hardware_profile=profile.name,
    )


def _seconds(row, profile: HardwareProfile) -> float:
    """Return the seconds of gathering and broadcasting the tables in all rounds, by the model of host transfers."""
    tables = row.bytes_communicated - RECORD_BYTES * row.transitions
    size = tables // (2 * row.rounds * row.cores)
    up = transfer_seconds(profile, "from_dpu", row.cores, size)
    down = transfer_seconds(profile, "to_dpu", row.cores, size, "broadcast")
    return row.rounds * (up + down)


@style()
def fig_synchronisation(rows: pd.DataFrame) -> Figure:
    """Draw quality against tau, and against the communication time."""
    table = table_synchronisation(rows)
    groups = list(table.groupby("environment", sort=False))
    figure = new_figure(PAGE_INCHES, 1.2 + 1.9 * len(groups))
    panels = figure.subplots(len(groups), 3, squeeze=False)
    for line, (environment, own) in zip(panels, groups, strict=True):
        for algorithm, some in own.groupby("algorithm", sort=False):
            look = {
                "color": colour(ALGORITHM_COLOURS[algorithm]),
                "marker": MARKS[algorithm],
                "ms": 4,
                "lw": 1,
            }
            _against_tau(line, some, look | {"label": named(algorithm)})
            _against_cost(line[2], some, look, named_taus=algorithm == own["algorithm"].iloc[0])
        line[0].axhline(own["optimum"].max(), color="black", lw=0.8, ls="--", label="optimum")
        line[0].set_ylabel(f"{named(environment)}\nexact return")
        line[1].set_ylabel("mean |Q - Q*|")
        line[2].set_ylabel("mean |Q - Q*|")
        line[1].set_yscale("log")
        line[2].set(xscale="log", yscale="log")
        for axes in line[:2]:
            axes.set_xscale("log")
            plain_log_ticks(axes.xaxis)
        plain_log_ticks(line[2].xaxis)
        for axes in line[1:]:
            plain_log_ticks(axes.yaxis)
    for axes, label in zip(
        panels[-1], ("tau (episodes)", "tau (episodes)", "communication (ms, modelled)"), strict=True
    ):
        axes.set_xlabel(label)
    legend_above(figure, panels[0, 0])
    note(figure, _sentences(table))
    return figure


def summary_synchronisation(rows: pd.DataFrame) -> Summary:
    """Return the tau with the smallest error, and the communication time of the smallest tau."""
    sentences = []
    table = table_synchronisation(rows)
    for (environment, algorithm), own in table.groupby(["environment", "algorithm"], sort=False):
        own = own.sort_values("tau")
        best, often, seldom = own.loc[own["mean_error_optimal"].idxmin()], own.iloc[0], own.iloc[-1]
        more = often["communication_s"] / seldom["communication_s"]
        sentences.append(
            f"{named(environment)}, {named(algorithm)}: nearest to Q* with tau {best['tau']} (mean error "
            f"{best['mean_error_optimal']:.2g}); with tau {seldom['tau']} the error is "
            f"{seldom['mean_error_optimal']:.2g}, and tau {often['tau']} spends {more:.0f} times as long on "
            "communication (modelled)."
        )
    return Summary(sentences)


def _against_tau(line: np.ndarray, some: pd.DataFrame, look: dict) -> None:
    line[0].errorbar(some["tau"], some["exact_return"], bars_of(some, "exact_return"), **look)
    line[1].errorbar(some["tau"], some["mean_error_optimal"], bars_of(some, "mean_error_optimal"), **look)


def _against_cost(axes: Axes, some: pd.DataFrame, look: dict, *, named_taus: bool) -> None:
    cost = some["communication_s"] * 1e3
    axes.plot(cost, some["mean_error_optimal"], **look)
    for place in (0, len(some) // 2, len(some) - 1) if named_taus else ():
        axes.annotate(
            f"tau {some['tau'].iloc[place]}",
            (cost.iloc[place], some["mean_error_optimal"].iloc[place]),
            xytext=(4, 3) if place < len(some) - 1 else (0, -10),  # under the line at its left end
            textcoords="offset points",
            size=6,
        )


def _sentences(table: pd.DataFrame) -> list[str]:
    cores, episodes = table["cores"].max(), table["episodes"].max()
    profile = table["hardware_profile"].iloc[0]
    return [
        f"{cores:,} cores, {episodes:,} episodes in all for every tau; {means_over(table)}.",
        f"Communication: gathering and broadcasting all tables, modelled for {cores:,} DPUs by the hardware profile "
        f"{profile}, not measured.",
    ]


EXPERIMENT = Experiment(
    id="06_synchronisation",
    question="How often must cores synchronise: what does a small tau gain in quality and cost in communication?",
    sizes=SIZES,
    figures=(Plot("synchronisation", fig_synchronisation, table_synchronisation, summary_synchronisation),),
)
