"""Find UPMEM hardware and its SDK, and allocate DPUs there or on the simulator."""

import ctypes
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from swiftrl_core import dpusim
from swiftrl_core.backends.pim.clocks import Clock, SimulatedClock, WallClock
from swiftrl_core.util.errors import SwiftRLError

ON_HARDWARE = "backend=hw"
"""Profile that keeps the SDK from falling back on the vendor's own simulator, whose times mean nothing."""

PLATFORMS = ("auto", "hardware", "simulator")


def runs_on_hardware() -> bool:
    """Return whether DPUs are UPMEM hardware here rather than the simulator."""
    return hardware_reason() is None


def hardware_reason() -> str | None:
    """Return why no UPMEM hardware can be used here, or None if it can. Allocates one DPU to find out."""
    sdk, reason = _find_sdk()
    if sdk is None:
        return reason
    try:
        sdk.DpuSet(nr_dpus=1, profile=ON_HARDWARE).free()
    except sdk.DpuError as error:
        return _nothing_free(error)
    return None


def allocate(
    nr_dpus: int, log: Any, platform: str, hardware: Any, threads: int | None, mode: str
) -> tuple[Any, Callable[[Any], Clock], type[Exception]]:
    """Return an allocated set, the class of its clock and the class of its errors."""
    sdk, reason = (None, "") if platform == "simulator" else _find_sdk()
    if sdk is not None:
        try:
            allocated = sdk.DpuSet(nr_dpus=nr_dpus, profile=ON_HARDWARE, log=log)
        except sdk.DpuError as error:
            there = _free_dpus(sdk)
            if there:
                raise SwiftRLError(
                    f"{nr_dpus} DPUs were requested, but this machine has {there} free ({error_text(error)}); "
                    "ask for fewer, or choose platform='simulator'"
                ) from error
            reason = _nothing_free(error)
        else:
            if hardware is not None:
                allocated.free()
                raise SwiftRLError(
                    f"hardware={hardware!r} is a server to simulate, but this machine has DPUs of its own; "
                    "leave it out, or choose platform='simulator'"
                )
            return allocated, WallClock, sdk.DpuError
    if platform == "hardware":
        raise SwiftRLError(f"there is no UPMEM hardware to use: {reason}")
    with explained(f"{nr_dpus} DPUs cannot be simulated", dpusim.DpuError):
        simulated = dpusim.DpuSet(nr_dpus=nr_dpus, log=log, hardware=hardware, threads=threads, mode=mode)
    return simulated, SimulatedClock, dpusim.DpuError


def _nothing_free(error: Exception) -> str:
    return f"the UPMEM SDK is installed, but no DPU can be allocated ({error_text(error)})"


def _free_dpus(sdk: ModuleType) -> int:
    """Return how many DPUs could be allocated, by allocating them all for a moment."""
    try:
        everything = sdk.DpuSet(nr_dpus=sdk.ALLOCATE_ALL, profile=ON_HARDWARE)
    except sdk.DpuError:  # how the SDK reports that there is none
        return 0
    there = len(everything)
    everything.free()
    return there


def _find_sdk() -> tuple[ModuleType | None, str]:
    """Return the SDK's Python package, or None and the reason why it cannot be used."""
    overriding = [entry for entry in os.environ.get("UPMEM_PROFILE", "").split(",") if "backend=" in entry]
    if overriding and overriding[-1].strip() != ON_HARDWARE:
        return None, f"UPMEM_PROFILE sets {overriding[-1].strip()}, which is not hardware"
    try:
        sdk = importlib.import_module("dpu")
    except ModuleNotFoundError as error:
        if error.name != "dpu":
            return None, f"the UPMEM SDK's Python package cannot be imported ({error})"
        return None, "the UPMEM SDK's Python package `dpu` is not installed"
    except (ImportError, OSError) as error:  # its ctypes layer does not load libdpu.so
        return None, f"the UPMEM SDK's Python package cannot be imported ({error}): {_library_trouble()}"
    missing = [name for name in ("DpuSet", "DpuError", "ALLOCATE_ALL") if not hasattr(sdk, name)]
    if missing:
        return None, f"the installed package `dpu` is not UPMEM's: it has no {', '.join(missing)}"
    return sdk, ""


def _library_trouble() -> str:
    """Return why the SDK's library does not load, and which one it lacks: the SDK itself names neither."""
    found = next(_sdk_libraries(), "libdpu.so")
    try:
        ctypes.CDLL(found)
    except OSError as error:
        missing, absent, _ = str(error).partition(": cannot open shared object file")
        if not absent or missing == found:
            return f"{error}; source upmem_env.sh"
        return f"{found} needs {missing}, which is not found; add its folder to LD_LIBRARY_PATH"
    return f"{found} loads, so another part of the package is broken; source upmem_env.sh"


def _sdk_libraries() -> Iterator[str]:
    """Yield the paths of the SDK's library: on the loader's path, in its home, near its Python package."""
    folders = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder]
    if "UPMEM_HOME" in os.environ:
        folders.append(Path(os.environ["UPMEM_HOME"], "lib"))
    package = importlib.util.find_spec("dpu")
    if package is not None and package.origin is not None:
        folders += [parent / "lib" for parent in Path(package.origin).parents]
    for folder in folders:
        yield from map(str, sorted(folder.glob("libdpu.so*")))


def simulation_notice(hardware: str | None) -> str | None:
    """Return a line that announces which server will be simulated, and why; None if there is hardware.

    Parameters
    ----------
    hardware : str or None
        Name of the hardware profile; None for the default.
    """
    reason = hardware_reason()
    if reason is None:
        return None
    profile = dpusim.HARDWARE_PROFILES.get(hardware or dpusim.DEFAULT_HARDWARE)
    name = hardware if profile is None else profile.name
    return f"PIM is simulated (hardware profile {name}): {reason}"


def error_text(error: Exception) -> str:
    """Return an SDK error's text; releases up to 2023.2 hold bytes."""
    if error.args and isinstance(error.args[0], bytes):
        return error.args[0].decode(errors="replace")
    return str(error)


@contextmanager
def explained(what: str, error_type: type[Exception]) -> Iterator[None]:
    """Turn an error of the SDK or the simulator into a sentence that names the operation that failed."""
    try:
        yield
    except error_type as error:
        raise SwiftRLError(f"{what}: {error_text(error)}") from error
