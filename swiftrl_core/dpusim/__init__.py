"""A simulator of UPMEM DPUs behind the API of the SDK's Python binding. It knows nothing of learning."""

from swiftrl_core.dpusim.allocation import Ledger
from swiftrl_core.dpusim.compile import compile_kernel
from swiftrl_core.dpusim.dpu_set import ALLOCATE_ALL, DpuSet
from swiftrl_core.dpusim.symbols import DpuError, DpuProgram, DpuSymbol, DpuVariable
from swiftrl_core.dpusim.timing import MODEL_VERSION, PROFILES, HardwareProfile

__all__ = [
    "ALLOCATE_ALL",
    "MODEL_VERSION",
    "PROFILES",
    "DpuError",
    "DpuProgram",
    "DpuSet",
    "DpuSymbol",
    "DpuVariable",
    "HardwareProfile",
    "Ledger",
    "compile_kernel",
]
