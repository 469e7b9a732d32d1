"""Sentences under figures, computed from the rows they draw: what must stand beside every time and speed-up."""

import pandas as pd

from swiftrl_core.plotting.style import named


def simulator(rows: pd.DataFrame) -> str:
    """Say what simulated the times, if anything did."""
    simulated = rows[rows["evidence"] == "simulated"]
    if simulated.empty:
        return ""
    profiles = " and ".join(sorted(set(simulated["hardware_profile"])))
    models = " and ".join(sorted(set(simulated["model_version"])))
    return (
        f"DPUs are simulated: hardware profile {profiles}, model version {models}; no time is from hardware."
    )


def sample(rows: pd.DataFrame) -> str:
    """Say how many DPUs of each set went through the simulator, where not all did."""
    counts = rows.loc[rows["simulated_dpus"] < rows["cores"], "simulated_dpus"].unique()
    if not len(counts):
        return ""
    each = " or ".join(f"{count:.0f}" for count in sorted(counts))
    return (
        f"Of each set {each} DPUs were simulated, the busiest; their tables equal the engine's in every bit."
    )


def updates(rows: pd.DataFrame) -> str:
    """Say how many updates the times stand for, nominal and executed."""
    sentences = []
    for environment, own in rows.groupby("environment", sort=False):
        nominal, executed = own["nominal_updates"].unique(), own["executed_updates"].unique()
        if len(nominal) == len(executed) == 1:
            done = "all" if nominal[0] == executed[0] else millions(executed[0])
            sentences.append(f"{named(environment)} {millions(nominal[0])}, {done} executed")
        else:
            least, most = executed.min(), executed.max()
            sentences.append(
                f"{named(environment)} {millions(nominal.max())}, {millions(least)} to {millions(most)} executed"
            )
    return "Nominal updates: " + "; ".join(sentences) + "."


def averaging(rows: pd.DataFrame) -> str:
    """Say that the host's share is measured even where the rest is simulated."""
    return (
        "Averaging on the host, part of inter-PIM-core and PIM-CPU, is measured here."
        if "simulated" in set(rows["evidence"])
        else ""
    )


def reference(rows: pd.DataFrame) -> str:
    """Say how long it takes to count the transitions and solve their model exactly."""
    solved = rows[rows["backend"] == "exact"]
    if solved.empty:
        return ""
    seconds = solved.groupby("environment", sort=False)["pim_kernel"].median()
    times = ", ".join(f"{named(name)} {1e3 * value:.2g} ms" for name, value in seconds.items())
    return f"To count and solve the same data exactly takes one core of this host {times} (measured)."


def millions(count: float) -> str:
    """Return a number of updates as people say it."""
    return f"{count / 1e6:,.3g} M" if count >= 1e6 else f"{count:,.0f}"
