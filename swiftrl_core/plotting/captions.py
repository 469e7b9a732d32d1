"""Sentences for captions and summaries, computed from rows, to be reported with every time and speed-up."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from swiftrl_core.plotting.style import named


def simulator(rows: pd.DataFrame) -> str:
    """Return what simulated the times of some rows, or nothing where they are measured."""
    simulated = rows[rows["evidence"] == "simulated"]
    if simulated.empty:
        return ""
    profiles = " and ".join(sorted(set(simulated["hardware_profile"])))
    models = " and ".join(sorted(set(simulated["model_version"])))
    return (
        f"DPUs are simulated: hardware profile {profiles}, model version {models}; no time is from hardware."
    )


def sample(rows: pd.DataFrame) -> str:
    """Return how many DPUs of each set the simulator ran, or nothing where it ran all of them."""
    counts = rows.loc[rows["simulated_dpus"] < rows["cores"], "simulated_dpus"].unique()
    if not len(counts):
        return ""
    each = " or ".join(f"{count:.0f}" for count in sorted(counts))
    return (
        f"The busiest {each} DPUs were simulated in each run, so kernel times are lower bounds; the DPUs' tables equal "
        "the engine's in every bit."
    )


def updates(rows: pd.DataFrame) -> str:
    """Return how many updates the times are for, nominal and executed."""
    parts = []
    for environment, own in rows.groupby("environment", sort=False):
        nominal, executed = own["nominal_updates"].unique(), own["executed_updates"].unique()
        if len(nominal) == len(executed) == 1:
            executions = "all" if nominal[0] == executed[0] else millions(executed[0])
            parts.append(f"{named(environment)} {millions(nominal[0])}, {executions} executed")
        else:
            least, most = executed.min(), executed.max()
            parts.append(
                f"{named(environment)} {millions(nominal.max())}, {millions(least)} to {millions(most)} executed"
            )
    return "Nominal updates: " + "; ".join(parts) + "."


def averaging(rows: pd.DataFrame) -> str:
    """Return that the host's share is measured where the rest is simulated, or nothing."""
    return (
        "Averaging on the host, part of inter-PIM-core and PIM-CPU, is measured here."
        if "simulated" in set(rows["evidence"])
        else ""
    )


def reference(rows: pd.DataFrame) -> str:
    """Return how long it takes to count the transitions and solve their MDP exactly, or nothing if no row does."""
    solved = rows[rows["backend"] == "exact"]
    if solved.empty:
        return ""
    seconds = solved.groupby("environment", sort=False)["pim_kernel"].median()
    times = ", ".join(f"{named(name)} {1e3 * value:.2g} ms" for name, value in seconds.items())
    return f"Exact solution of the same data on one core of this host: {times} (measured)."


def millions(count: float) -> str:
    """Format an update count for humans, such as 12.5 M."""
    return f"{count / 1e6:,.3g} M" if count >= 1e6 else f"{count:,.0f}"


def cores(count: int) -> str:
    """Format a number of cores, such as `1 core` or `2,000 cores`."""
    return f"{count:,} core{'s' * int(count > 1)}"


def learner(row: Mapping[str, Any]) -> str:
    """Name one of the paper's learners from its three columns, such as `Q-learning SEQ FP32`."""
    return f"{named(row['algorithm'])} {row['sampling']} {row['number_format']}"
