"""Launches of the DPUs of an allocation, the faults they end in, and the bugs they show."""

import sys
from dataclasses import replace

from swiftrl_core.dpusim.host.allocation import Allocation
from swiftrl_core.dpusim.machine import run_machines
from swiftrl_core.dpusim.program.symbols import DpuError
from swiftrl_core.dpusim.sanitizer import SanitizerReport, merge
from swiftrl_core.dpusim.timing import launch_seconds

FAULTS_SHOWN = 15


def launch(allocation: Allocation, span: range) -> None:
    """Run the loaded program on the DPUs `span` until all of them have stopped, and charge the seconds.

    Raises
    ------
    DpuError
        If a DPU has no program, or is in fault before or afterwards.
    """
    machines = allocation.machines[span.start : span.stop]
    if any(machine is None for machine in machines):
        raise DpuError("no program has been loaded in the dpu set")
    _refuse_faults(allocation, span, "cannot run again", show=False)
    for machine in machines:
        machine.boot()
    stats = run_machines(machines, allocation.threads, allocation.mode, allocation.instruction_budget)
    allocation.last_run[span.start : span.stop] = stats
    ledger = allocation.ledger
    ledger.launches += 1
    ledger.kernel_s += launch_seconds(allocation.hardware, max(run.cycles for run in stats))
    ledger.instructions += sum(int(run.instructions.sum()) for run in stats)
    _refuse_faults(allocation, span, "in this launch", show=True)


def faults(allocation: Allocation, span: range) -> dict[int, str]:
    """Return a line for each faulty DPU of `span`, by its index in the span."""
    lines = {}
    for index in span:
        machine = allocation.machines[index]
        if machine is not None and machine.fault is not None:
            place = allocation.ids[index]
            name = f"DPU {place >> 16}.{place >> 8 & 0xFF}.{place & 0xFF}"
            program = allocation.programs[index].path.name
            lines[index - span.start] = f"{name} '{program}' is in fault: {machine.fault}"
    return lines


def sanitizer_reports(allocation: Allocation, span: range) -> list[SanitizerReport]:
    """Return the bugs that launches of the DPUs `span` have shown, each once, with the indices of its DPUs."""
    machines = enumerate(allocation.machines[span.start : span.stop])
    return merge(
        replace(report, dpus=(index,))
        for index, machine in machines
        if machine is not None
        for report in machine.sanitizer_reports
    )


def _refuse_faults(allocation: Allocation, span: range, when: str, show: bool) -> None:
    faulty = faults(allocation, span)
    if not faulty:
        return
    if show:
        for line in list(faulty.values())[:FAULTS_SHOWN]:
            print(line, file=sys.stderr)
    more = f" and {len(faulty) - 1} more" if len(faulty) > 1 else ""
    raise DpuError(f"dpu is in fault: {next(iter(faulty.values()))}{more} ({when}; free the set)")
