"""What an experiment's rows say, in sentences: computed, so that they are true of whatever run is at hand.

Each function takes the rows of an experiment, or the table that its docstring names, and returns
`Findings`. A notebook shows them as a list.
"""

import numpy as np
import pandas as pd

from swiftrl_core.experiments import figures
from swiftrl_core.experiments import roofline_probe as roofline
from swiftrl_core.plotting.style import evidence_of, named

LEARNER = ["algorithm", "sampling", "number_format"]


class Findings(tuple):
    """Sentences; a list with dots where a notebook shows them."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(self)

    def _repr_markdown_(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self)


def coverage(rows: pd.DataFrame) -> Findings:
    """Say what a chunk shows on the largest number of cores."""
    return Findings(
        f"{named(row.environment)}: all data show {row.coverage:.1%} of the pairs, a chunk of one in {row.cores:,} "
        f"shows {row.chunk_coverage:.1%}."
        for row in _most_cores(figures.table_coverage(rows)).itertuples()
    )


def chunk_rewards(rows: pd.DataFrame) -> Findings:
    """Say how many chunks hold no reward on the largest number of cores, and what the mean is worth."""
    return Findings(
        f"{named(row.environment)}, {row.cores:,} cores: {row.without_reward:.0%} of the chunks hold no "
        "positive reward; "
        f"the mean table's exact return is {row.exact_return:.3f}, the optimum {row.optimum:.3f}."
        for row in _most_cores(figures.table_chunk_rewards(rows)).itertuples()
    )


def learning_quality(rows: pd.DataFrame) -> Findings:
    """Say which numbers of cores reach the optimum, how far samplings and formats are apart, and what dice add."""
    told = []
    table = figures.table_learning_quality(rows)
    for (environment, cores), own in table.groupby(["environment", "cores"]):
        low, high = own["exact_return"].min(), own["exact_return"].max()
        told.append(
            f"{named(environment)}, {_cores(cores)}: the learners' mean returns lie between {low:.3f} and "
            f"{high:.3f}; the "
            f"optimum is {own['optimum'].max():.3f}."
        )
    rows = rows.assign(off=(rows["exact_return"] - rows["monte_carlo_mean"]).abs())
    for environment, own in rows.groupby("environment"):
        told.append(
            f"{named(environment)}: the mean of {own['monte_carlo_episodes'].max():,} played episodes is off the exact "
            f"return by {own['off'].mean():.2g} on average and by {own['off'].max():.2g} at most, in {len(own):,} runs."
        )
    return Findings(told)


def table_error(rows: pd.DataFrame) -> Findings:
    """Say with how many cores each algorithm comes nearest to Q*, and where the data end."""
    table = figures.table_table_error(rows)
    best = table.loc[table.groupby(["environment", "algorithm"], sort=False)["mean_error_optimal"].idxmin()]
    return Findings(
        f"{named(row.environment)}, {named(row.algorithm)}: nearest to Q* with {_cores(row.cores)} ({row.sampling} "
        f"{row.number_format}), at a mean error of {row.mean_error_optimal:.2g}; from the data's own fixed point it is "
        f"{row.mean_error_empirical:.2g} away."
        for row in best.itertuples()
    )


def precision(errors: pd.DataFrame) -> Findings:
    """Say how far each number format ends from doubles; takes rows of `precision.Precision`."""
    told = []
    for name, own in errors.groupby("number_format", sort=False):
        worst = own.loc[own["max_error"].idxmax()]
        proved = f", proved: at most {worst['bound']:.2g}" if worst["bound"] == worst["bound"] else ""
        told.append(
            f"{name} ends at most {worst['max_error']:.1e} from doubles ({named(worst['environment'])}, "
            f"{_cores(worst['cores'])}{proved})."
        )
    changed = errors[errors["exact_return"] != errors["exact_return_doubles"]]
    told.append(
        f"The greedy policy's return differs from that of doubles in {len(changed)} of {len(errors)} runs."
    )
    return Findings(told)


def strong_scaling(rows: pd.DataFrame) -> Findings:
    """Say what the growth from the fewest DPUs to the most brings."""
    table = figures.table_strong_scaling(rows)
    told = []
    for environment, own in table.groupby("environment", sort=False):
        fewest, most = own["cores"].min(), own["cores"].max()
        last = own[own["cores"] == most]
        worst, best = last.loc[last["speedup"].idxmin()], last.loc[last["speedup"].idxmax()]
        told.append(
            f"{named(environment)}: from {fewest:,} to {most:,} DPUs, {most / fewest:g} times as many, learners become "
            f"{worst['speedup']:.1f} ({_learner(worst)}) to {best['speedup']:.1f} times ({_learner(best)}) as "
            "fast; times are "
            f"{evidence_of(last)}."
        )
        solved = own["exact_solution_s"].iloc[0]
        quickest = last["total_s"].min()
        told.append(
            f"{named(environment)}: the quickest learner there takes {quickest * 1e3:.3g} ms ({evidence_of(last)}) for "
            f"{last['nominal_updates'].iloc[0]:,} updates; counting and solving the same data takes one core "
            "of this host "
            f"{solved * 1e3:.2g} ms (measured)."
        )
    return Findings(told)


def scaling_breakdown(rows: pd.DataFrame) -> Findings:
    """Say what is not spent in the kernel on the most DPUs."""
    last = _most_cores(figures.table_scaling_breakdown(rows))
    told = []
    for environment, own in last.groupby("environment", sort=False):
        other = 1 - own["pim_kernel_share"]
        least, most = own.loc[other.idxmin()], own.loc[other.idxmax()]
        told.append(
            f"{named(environment)}, {own['cores'].iloc[0]:,} DPUs: between {other.min():.1%} ({_learner(least)}) and "
            f"{other.max():.1%} ({_learner(most)}) of the time is not the kernel ({evidence_of(own)})."
        )
    return Findings(told)


def backends(rows: pd.DataFrame) -> Findings:
    """Say what was quickest, and how far the exact solution is ahead."""
    table = figures.table_backends(rows).dropna(subset="seconds")
    told = []
    for (environment, number_format), own in table.groupby(["environment", "number_format"], sort=False):
        own = own.set_index("backend")
        measured = own[(own["evidence"] == "measured") & (own.index != "exact")]
        first, pim, solved = measured.loc[measured["seconds"].idxmin()], own.loc["pim"], own.loc["exact"]
        told.append(
            f"{named(environment)} {number_format}: of the learners that were measured, `{first.name}` is the quickest "
            f"with {first['seconds'] * 1e3:.3g} ms; `pim` takes {pim['seconds'] * 1e3:.3g} ms ({pim['evidence']}), the "
            f"exact solution {solved['seconds'] * 1e3:.2g} ms (measured)."
        )
    return Findings(told)


def same_tables(rows: pd.DataFrame) -> Findings:
    """Say that DPUs, engine and GPU end with the same table, bit for bit.

    Raises
    ------
    AssertionError
        If they do not.
    """
    same = rows[rows["backend"].isin(["pim", "cpu", "gpu"])]
    tables = same.groupby(["environment", "number_format", "cores", "seed"])["q_sha256"].nunique()
    assert (tables == 1).all(), f"backends end with different tables: {tables[tables > 1].to_dict()}"
    ran = " and ".join(f"`{name}`" for name in sorted(set(same["backend"])))
    return Findings(
        [f"{len(same)} runs on {ran} for {len(tables)} problems: {len(tables)} tables, equal in every bit."]
    )


def synchronisation(rows: pd.DataFrame) -> Findings:
    """Say which tau comes nearest to Q*, and what a small one costs."""
    table = figures.table_synchronisation(rows)
    told = []
    for (environment, algorithm), own in table.groupby(["environment", "algorithm"], sort=False):
        own = own.sort_values("tau")
        best, often, seldom = own.loc[own["mean_error_optimal"].idxmin()], own.iloc[0], own.iloc[-1]
        more = often["communication_s"] / seldom["communication_s"]
        told.append(
            f"{named(environment)}, {named(algorithm)}: nearest to Q* with tau {best['tau']} (mean error "
            f"{best['mean_error_optimal']:.2g}); tau {seldom['tau']} ends at "
            f"{seldom['mean_error_optimal']:.2g}, and tau "
            f"{often['tau']} spends {more:.0f} times as long on communication (modelled)."
        )
    return Findings(told)


def aggregation(rows: pd.DataFrame) -> Findings:
    """Say what the best recipe and the paper's need on the most cores, on every data set."""
    told = []
    most = rows["nominal_updates"].groupby(rows["environment"]).max() / 1e6
    goals = (
        ("return within 1 % of the optimum", "exact_return", 0.01),
        ("table within 0.02 of the data's own fixed point", "max_error_empirical", 0.02),
    )
    for goal, measure, within in goals:
        table = _most_cores(figures.table_needed(rows, measure, within))
        for environment, own in table.groupby("environment", sort=False):
            paper, needed = own.iloc[0], own["updates_m"]
            sentence = f"{named(environment)}, {_cores(paper['cores'])}, {own['seeds'].max()} data sets: "
            if needed.isna().all():
                told.append(f"{sentence}no recipe ends with a {goal} on all of them.")
                continue
            best = own.loc[needed.idxmin()]
            told.append(
                f"{sentence}a {goal} takes `{best['recipe']}` {best['updates_m']:,.3g} M updates in "
                f"{best['rounds']:.0f} rounds; `{paper['recipe']}`, the paper's way, "
                + (
                    f"does not get there in {most[environment]:,.4g} M."
                    if pd.isna(paper["updates_m"])
                    else f"{paper['updates_m']:,.4g} M in {paper['rounds']:.0f}."
                )
            )
    return Findings(told)


def time_to_optimum(rows: pd.DataFrame) -> Findings:
    """Say how far the best way on DPUs is from the paper's, and which way is the quickest of all."""
    told = []
    for environment, own in figures.table_time_to_optimum(rows).groupby("environment", sort=False):
        arrived = own.dropna(subset="total_s")
        pim, paper = arrived[arrived["backend"] == "pim"], own[own["backend"] == "pim"].iloc[0]
        if pim.empty:
            told.append(f"{named(environment)}: no recipe on DPUs gets to the optimum in this experiment.")
            continue
        best, first = (some.loc[some["total_s"].idxmin()] for some in (pim, arrived))
        sentence = f"{named(environment)}: `{best['way']}` is there after {_spent(best)}"
        if pd.notna(paper["total_s"]) and best["way"] != paper["way"]:
            times, kernels = (paper[name] / best[name] for name in ("total_s", "pim_kernel"))
            sentence += f", {times:.3g} times as fast as the paper's way ({_spent(paper)})"
            sentence += f", its kernel {kernels:.3g} times"
        told.append(f"{sentence}.")
        told.append(f"{named(environment)}: the quickest of all is `{first['way']}`, {_spent(first)}.")
    return Findings(told)


def data_size(rows: pd.DataFrame) -> Findings:
    """Say from how many transitions on PIM is modelled to be ahead."""
    smallest = figures.table_data_size(rows)["transitions"].min()
    return Findings(
        f"{named(row.environment)}: against `{row.against}` PIM is ahead {_from(row.from_transitions, smallest)}, and "
        f"{_from(row.from_transitions_in_place, smallest)} if the data are in MRAM already (modelled)."
        for row in figures.table_winners(rows).itertuples()
    )


def _spent(row: pd.Series) -> str:
    if row["backend"] != "pim":
        return f"{row['total_s'] * 1e3:,.4g} ms ({row['evidence']})"
    evidence = (
        row["evidence"]
        if row["evidence"] == "measured"
        else f"{row['evidence']}, but the host's share measured"
    )
    kernel = row["pim_kernel"] * 1e3
    return f"{row['total_s'] * 1e3:,.4g} ms, {kernel:,.4g} of them in the kernel ({evidence})"


def _from(transitions: float, smallest: int) -> str:
    if pd.isna(transitions):
        return "at no size"
    return "at every size" if transitions == smallest else f"from {transitions / 1e6:,.3g} M transitions on"


def population(rows: pd.DataFrame) -> Findings:
    """Say whether agents that learn alone agree, and what their majority and their mean are worth."""
    differ = rows[rows["side"].notna()]
    best, median = (differ["exact_return"].map(of) for of in (np.max, np.median))
    agree = differ["agreement"].map(np.mean)
    sets = f"{len(differ)} data set{'s' * int(len(differ) > 1)}"
    return Findings(
        [
            f"On {sets} the best of {differ['agents'].max():,.0f} agents reaches {_range(best)}, of at most "
            f"{differ['optimum'].max():.3f}; the median agent {_range(median)}.",
            f"An agent decides as most do in {agree.min():.0%} to {agree.max():.0%} of the states, on average.",
            f"The majority's choice in each state is worth {_range(differ['majority_return'])}, the greedy policy of "
            f"the mean of all tables {_range(differ['mean_return'])}.",
        ]
    )


def agents_per_dpu(rows: pd.DataFrame) -> Findings:
    """Say what it costs a DPU to hold more than one agent."""
    told = []
    for name, own in figures.table_agents_per_dpu(rows).groupby("number_format", sort=False):
        kernel = own.set_index("agents_per_dpu")["kernel_s"]
        steps = ", ".join(f"{count} take {kernel[count] / kernel.iloc[0]:.2f}" for count in kernel.index[1:])
        told.append(f"{name}: in units of the time of one agent on a DPU, {steps} ({evidence_of(own)}).")
    return Findings(told)


def host_roofline(table: pd.DataFrame) -> Findings:
    """Say how close the learners come to this CPU's ceilings; takes rows of `roofline.Speed`."""
    host = table[table["machine"] == roofline.HOST]
    ceiling = host.set_index("name")["value"]
    told = []
    for row in host[host["kind"] == "learner"].itertuples():
        rate = row.bytes_streamed / row.ns_per_update * 1e9
        told.append(
            f"{named(row.environment)}, {row.name}: {row.ns_per_update:.2f} ns an update (measured). It streams "
            f"{rate / 1e9:.2g} GB/s, {rate / ceiling['memory']:.0%} of what memory gives, and makes "
            f"{row.value / ceiling['vectors']:.1%} of the operations that vectors could."
        )
    return Findings(told)


def dpu_roofline(table: pd.DataFrame) -> Findings:
    """Say how close the kernel comes to a DPU's ceilings; takes rows of `roofline.Speed`."""
    dpu = table[table["machine"] == roofline.DPU]
    ceiling = dpu.set_index("name")["value"]
    told = []
    for row in dpu[dpu["kind"] == "learner"].itertuples():
        slots = row.ns_per_update * 1e-9 * ceiling["1 tasklet"]
        rate = row.bytes_streamed / row.ns_per_update * 1e9
        told.append(
            f"{named(row.environment)} {row.number_format}: {row.ns_per_update / 1e3:.1f} µs an update "
            f"({row.evidence}), the time "
            f"of {slots:.0f} instructions of one tasklet for {row.operations:.1f} operations. It streams "
            f"{rate / 1e6:.2g} MB/s, {rate / ceiling['MRAM']:.1%} of what its MRAM gives (modelled)."
        )
    return Findings(told)


def _range(values: pd.Series) -> str:
    low, high = f"{values.min():.3f}", f"{values.max():.3f}"
    return low if low == high else f"{low} to {high}"


def _most_cores(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["cores"] == table.groupby("environment")["cores"].transform("max")]


def _learner(row: pd.Series) -> str:
    return " ".join([named(row["algorithm"]), row["sampling"], row["number_format"]])


def _cores(count: int) -> str:
    return f"{count:,} core{'s' * int(count > 1)}"


def kernel_study(table: pd.DataFrame) -> Findings:
    """Say what the kernel's steps add up to; takes a table of `kernel_study.measure`."""
    told = []
    for case, own in table.groupby(["environment", "number_format", "sampling"], sort=False):
        paper, tuned = (own[own["kind"].isin(kinds)].iloc[-1] for kinds in (["the paper's"], ["same bits"]))
        sentence = (
            f"{named(case[0])}, {case[1]}, {case[2]}: an update takes {paper['instructions']:.0f} instructions with "
            f"--kernel paper and {tuned['instructions']:.0f} with --kernel tuned. That is {tuned['speedup']:.2f} times "
            f"as fast and leaves the same table, off doubles by {tuned['max_error']:.1g} at most; 50 episodes take "
            f"{tuned['launch_ms']:.3g} ms in place of {paper['launch_ms']:.3g} (simulated)."
        )
        tasklets = own[own["kind"] == "other learner"]
        if len(tasklets):
            best = tasklets.loc[tasklets["speedup"].idxmax()]
            sentence += (
                f" Another learner, of a frozen bootstrap, makes updates {best['speedup']:.1f} times as fast by "
                f"{best['step']}."
            )
        told.append(sentence)
    return Findings(told)
