"""A simulator of UPMEM DPUs with the API of the SDK's Python binding; independent of reinforcement learning."""

from swiftrl_core.dpusim.dpu_set import ALLOCATE_ALL, DpuSet
from swiftrl_core.dpusim.host.allocation import Ledger
from swiftrl_core.dpusim.program.compile import compile_kernel
from swiftrl_core.dpusim.program.symbols import DpuError, DpuProgram, DpuSymbol, DpuVariable
from swiftrl_core.dpusim.timing import (
    DEFAULT_HARDWARE,
    HARDWARE_PROFILES,
    MODEL_VERSION,
    DmaTiming,
    HardwareProfile,
)

__all__ = [
    "ALLOCATE_ALL",
    "DEFAULT_HARDWARE",
    "HARDWARE_PROFILES",
    "MODEL_VERSION",
    "DmaTiming",
    "DpuError",
    "DpuProgram",
    "DpuSet",
    "DpuSymbol",
    "DpuVariable",
    "HardwareProfile",
    "Ledger",
    "compile_kernel",
]
