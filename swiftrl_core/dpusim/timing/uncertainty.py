"""The stated uncertainty of simulated kernel times, and the measurements it comes from.

Three sources of error add up: code generation (the DPU's compiler against the RISC-V proxy), the pipeline and DMA
model, and for whole runs the host transfers. The intervals are for the time of a kernel without launch latency;
`swiftrl validate` checks them against measurements.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Uncertainty:
    """An interval for hardware time as a multiple of simulated time.

    Attributes
    ----------
    description : str
        The kernels it is for; continues "kernels that ...".
    low, high : float
        Hardware time / simulated time lies between them.
    source : str
        The measurements it comes from.
    """

    description: str
    low: float
    high: float
    source: str

    def covers(self, ratio: float) -> bool:
        """Whether hardware time / simulated time lies in the interval."""
        return self.low <= ratio <= self.high

    def __str__(self) -> str:
        return f"{self.description}: hardware takes {self.low:.2f} to {self.high:.2f} times as long ({self.source})"


STATED: Mapping[str, Uncertainty] = MappingProxyType(
    {
        "integer_learning": Uncertainty(
            "learn in integers",
            0.97,
            1.06,
            "instruction counts of the vendor's tools on 33 learning loops: 3 %, and 6 % where a table's row size is "
            "no power of two; no hardware time of a learner is available",
        ),
        "float_learning": Uncertainty(
            "learn in floating point",
            0.94,
            1.06,
            "the same counts, and PrIM's throughput of floating-point operations: 6 %",
        ),
        "compute": Uncertainty(
            "compute much for each byte",
            0.95,
            1.20,
            "GEMV and HST-S on 4 DPUs: 1.09 to 1.12; a histogram on another server: 1.00",
        ),
        "streaming": Uncertainty(
            "do a few instructions for each element from MRAM",
            0.85,
            1.40,
            "VA and RED on 4 DPUs: 1.25 to 1.33; such loops on another server: 0.88 to 1.00 with transfers of 512 "
            "bytes or more, but down to 0.6 with transfers of 32 by 16 tasklets",
        ),
    }
)
"""By kind of kernel."""
