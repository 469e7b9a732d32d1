"""Numbers that others measured on UPMEM hardware, each with its source. Nothing here is ours.

PrIM: Gomez-Luna et al., "Benchmarking a New Paradigm: An Experimental Characterization of a Real
Processing-in-Memory System", arXiv 2105.03814.

Second server: measurements committed with CoMoNM, a cost model of the compiler chair of TU Dresden
(github.com/tud-ccc/cnm-cost-model, folder UPMEM): one DPU at 350 MHz, SDK 2025.1, kernels compiled by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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

TRANSFER_CYCLES: Mapping[str, Mapping[int, float]] = MappingProxyType(
    {
        "read": MappingProxyType({8: 42.47, 16: 46.87, 32: 55.64, 64: 73.03}),
        "write": MappingProxyType({8: 32.85, 16: 37.33, 32: 46.00, 64: 63.53}),
    }
)
"""Cycles that 16 tasklets take for each further transfer, by its bytes (second server,
LUT/output/custom_dma_parsed.csv: 4 transfers of each tasklet less 1, by 48)."""


@dataclass(frozen=True)
class MeasuredLoop:
    """Kernel time of a loop over blocks in MRAM, for two numbers of blocks (second server).

    Attributes
    ----------
    name : {"ADD", "SUM", "COUNT"}
        c = a + b, the sum of all a + b, a histogram of a (Vecadd, ReduceOp, Hst).
    element : str
        C type of an element.
    tasklets, block : int
        Tasklets, and elements of a transfer.
    blocks : int
        Blocks of each tasklet that take `few_ms`; twice as many take `many_ms`.
    """

    name: str
    element: str
    tasklets: int
    block: int
    blocks: int
    few_ms: float
    many_ms: float

    @property
    def cycles(self) -> float:
        """Cycles an element of the DPU, launch aside."""
        return (self.many_ms - self.few_ms) * 350e3 / (self.blocks * self.block * self.tasklets)

    @property
    def transfer_bytes(self) -> int:
        """Bytes of a transfer."""
        return self.block * (8 if "64" in self.element else 4)


LOOPS = tuple(
    MeasuredLoop(*row)
    for row in (
        ("ADD", "uint32_t", 1, 8, 1024, 3.437, 6.819),
        ("ADD", "uint32_t", 1, 32, 1024, 10.843, 21.651333),
        ("ADD", "uint32_t", 1, 128, 1024, 40.442333, 80.778),
        ("ADD", "uint32_t", 16, 8, 1024, 7.696667, 15.306),
        ("ADD", "uint32_t", 16, 32, 1024, 14.961, 29.836667),
        ("ADD", "uint32_t", 16, 128, 1024, 55.089667, 110.101667),
        ("SUM", "uint32_t", 1, 8, 1024, 2.721667, 5.405),
        ("SUM", "uint32_t", 1, 32, 1024, 8.383, 16.712),
        ("SUM", "uint32_t", 1, 128, 1024, 31.263, 62.445),
        ("SUM", "uint32_t", 16, 8, 1024, 5.291333, 10.518333),
        ("SUM", "uint32_t", 16, 32, 1024, 11.363333, 22.644),
        ("SUM", "uint32_t", 16, 128, 1024, 42.916667, 85.713),
        ("SUM", "uint64_t", 1, 8, 1024, 3.559667, 7.049333),
        ("SUM", "uint64_t", 1, 32, 1024, 12.033333, 24.029667),
        ("SUM", "uint64_t", 1, 128, 1024, 45.102, 90.169),
        ("SUM", "uint64_t", 16, 8, 1024, 6.932, 13.776),
        ("SUM", "uint64_t", 16, 32, 1024, 16.732333, 33.39),
        ("SUM", "uint64_t", 16, 128, 512, 30.517, 60.891667),
        ("COUNT", "uint32_t", 1, 8, 1024, 7.291333, 14.499333),
        ("COUNT", "uint32_t", 1, 32, 1024, 27.559667, 55.04),
        ("COUNT", "uint32_t", 1, 128, 1024, 108.649667, 217.151),
        ("COUNT", "uint32_t", 16, 8, 1024, 10.393667, 20.687),
        ("COUNT", "uint32_t", 16, 32, 1024, 39.672667, 79.231667),
        ("COUNT", "uint32_t", 16, 128, 1024, 156.776333, 313.377),
    )
)
"""Loops in 32- and 64-bit integers, each with 1 and 16 tasklets and three sizes of a transfer (second server)."""
