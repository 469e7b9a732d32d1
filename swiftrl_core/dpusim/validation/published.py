"""Numbers that others measured on UPMEM hardware, each with its source. Nothing here is ours.

PrIM: Gomez-Luna et al., "Benchmarking a New Paradigm: An Experimental Characterization of a Real
Processing-in-Memory System", arXiv 2105.03814.
"""

from collections.abc import Mapping
from types import MappingProxyType

OPERATORS = "+-*/"
THROUGHPUT_MOPS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "int32_t": (58.56, 58.45, 10.27, 11.27),
        "int64_t": (50.16, 50.14, 2.56, 1.40),
        "float": (4.91, 4.59, 1.91, 0.34),
        "double": (3.32, 3.11, 0.53, 0.16),
    }
)
"""Million operations a second of a DPU, 11 or more tasklets, 350 MHz, in the order of `OPERATORS` (PrIM, figure 4)."""

SATURATING_TASKLETS = 11
"""Tasklets from which the throughput of an arithmetic loop grows no more (PrIM, section 3.1.2)."""

MRAM_READ_MB_S: Mapping[int, float] = MappingProxyType({2048: 628.0})
"""Measured MRAM read bandwidth, MB/s (10^6 bytes) by transfer size in bytes (PrIM, section 3.2.1)."""

DMA_SETUP_CYCLES: Mapping[str, int] = MappingProxyType({"read": 77, "write": 61})
DMA_BYTES_PER_CYCLE = 2
"""Latency of a DMA of n bytes is set-up + n / 2 cycles (PrIM's fit to its own measurements, section 3.2.1)."""

HOST_GB_S: Mapping[tuple[str, str], float] = MappingProxyType(
    {
        ("to_dpu", "parallel"): 6.68,
        ("from_dpu", "parallel"): 4.74,
        ("to_dpu", "broadcast"): 16.88,
        ("to_dpu", "serial"): 0.33,
        ("from_dpu", "serial"): 0.12,
    }
)
"""Host transfers with the 64 DPUs of one rank, large buffers, GB/s (10^9 bytes; PrIM, figure 10)."""

HOST_BYTES_PER_DPU = 32 << 20
"""Buffer of those transfers."""
