"""A simulator of UPMEM DPUs behind the API of the SDK's Python binding. It knows nothing of learning."""

from swiftrl_core.dpusim.allocation import Ledger
from swiftrl_core.dpusim.compile import compile_kernel
from swiftrl_core.dpusim.dpu_set import ALLOCATE_ALL, DpuSet
from swiftrl_core.dpusim.model import MODEL_VERSION
from swiftrl_core.dpusim.symbols import DpuError, DpuProgram, DpuSymbol, DpuVariable
from swiftrl_core.dpusim.timing import PROFILES, DmaTiming, HardwareProfile

__all__ = [
    "ALLOCATE_ALL",
    "MODEL_VERSION",
    "PROFILES",
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
