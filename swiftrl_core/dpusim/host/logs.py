"""The output of kernels: choose each DPU's stream, and write to it."""

from collections.abc import Sequence
from typing import Any

from swiftrl_core.dpusim.host.allocation import Allocation
from swiftrl_core.dpusim.program.symbols import DpuError


def writable(stream: object) -> object:
    """Return a stream, refusing one that cannot be written to."""
    if stream is not None and not hasattr(stream, "write"):
        raise DpuError("stream argument is not an object with a 'write' method")
    return stream


def choose_streams(dpus: Sequence[Any], log: object, default: object) -> list[tuple[Any, object]]:
    """Return each DPU that has a stream, with the stream: the one in `log`, else its own, else the default.

    Parameters
    ----------
    dpus : DpuSet
        The set whose kernels have printed.
    log : stream, list of one per DPU, dict of set to stream, or None
        As the user gave it.
    default : stream or None
        Where a DPU writes that has no stream.

    Raises
    ------
    DpuError
        If a list has another length than the set, or something is no stream.
    """
    if isinstance(log, dict):
        chosen = [(dpu, writable(stream)) for part, stream in log.items() for dpu in part]
    elif isinstance(log, list):
        if len(log) != len(dpus):
            raise DpuError("cannot log, log list length does not match the number of DPUs in DpuSet")
        chosen = [(dpu, writable(stream)) for dpu, stream in zip(dpus, log, strict=True)]
    else:
        chosen = [(dpu, writable(log)) for dpu in dpus]
    filled = (
        (dpu, next((s for s in (stream, dpu._log, default) if s is not None), None)) for dpu, stream in chosen
    )
    return [(dpu, stream) for dpu, stream in filled if stream is not None]


def write_log(allocation: Allocation, index: int, stream: object) -> None:
    """Write a header line, then what DPU `index` printed in its last launch.

    Raises
    ------
    DpuError
        If its program does not print, or printed more than its buffer holds.
    """
    machine = allocation.machines[index]
    if machine is None or not allocation.programs[index].prints:
        raise DpuError("logging context missing: the program does not print")
    stream.write(f"=== DPU#{allocation.ids[index]:#x} ===\n")
    stream.write(machine.log_text())
    if machine.log_lost:
        raise DpuError("logging buffer too small: the kernel printed more than 1 MiB; older text is lost")
