"""A stand-in for the UPMEM SDK's Python package: what it allows, refuses and records as strictly as the real one.

Kernels run in the simulator's machine, so memory is real; everything else is written apart from `swiftrl_core.dpusim`.
A test puts this folder's parent on `sys.path` and reads `dpu.recorder`.
"""

from dpu.driver import ALLOCATE_ALL, DpuError, DpuSet, DpuSymbol

__all__ = ["ALLOCATE_ALL", "DpuError", "DpuSet", "DpuSymbol"]
