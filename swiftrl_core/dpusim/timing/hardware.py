"""Hardware profiles: the numbers of the UPMEM servers that the simulator can stand for.

Each number comes from a published measurement, which is named next to it. Sources, in short:

* PrIM: Gomez-Luna et al., "Benchmarking a New Paradigm", arXiv 2105.03814: a server of 2,556 DPUs at 350 MHz.
* uPIMulator rows: milliseconds measured on another UPMEM server (13 PrIM kernels, 1 to 64 DPUs), published
  with uPIMulator (Hyun et al., HPCA 2024).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from swiftrl_core.util.errors import SwiftRLError


@dataclass(frozen=True)
class BandwidthCurve:
    """Bandwidth of one transfer to or from n DPUs of one rank: a straight line in log-log between points.

    Parameters
    ----------
    points : tuple of (int, float)
        DPUs used in the rank (ascending, the first is 1) and bandwidth in GB/s (10^9 bytes). Between two
        points the bandwidth grows no faster than the number of DPUs, so more data never takes less time.
    """

    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        counts = [count for count, _ in self.points]
        rates = [rate for _, rate in self.points]
        if not counts or counts[0] != 1 or any(b <= a for a, b in pairwise(counts)):
            raise SwiftRLError(
                f"bandwidth points {self.points} must have ascending DPU counts that start at 1"
            )
        if min(rates) <= 0:
            raise SwiftRLError(f"bandwidth points {self.points} must have positive bandwidths in GB/s")
        for (n0, r0), (n1, r1) in pairwise(self.points):
            if not r0 <= r1 <= r0 * n1 / n0:
                raise SwiftRLError(
                    f"bandwidth may neither fall nor grow faster than the DPUs from {n0} to {n1} DPUs; "
                    f"it goes from {r0} to {r1} GB/s"
                )

    def bytes_per_second(self, n_dpus: float) -> float:
        """Return the bandwidth with `n_dpus` DPUs in the rank, held constant beyond the last point."""
        log_counts = [math.log(count) for count, _ in self.points]
        log_rates = [math.log(rate) for _, rate in self.points]
        return 1e9 * math.exp(float(np.interp(math.log(n_dpus), log_counts, log_rates)))


@dataclass(frozen=True)
class DmaTiming:
    """Latency of a DMA between MRAM and WRAM, in DPU cycles: a fixed part, and a part for each byte.

    Parameters
    ----------
    read_fixed, write_fixed : float
        Cycles of a transfer from and to MRAM on top of its bytes.
    cycles_per_byte : float
        Cycles of each byte.

    Notes
    -----
    The defaults are PrIM's fit to its server (arXiv 2105.03814, section 3.2.1). Another server is faster at small
    transfers by many tasklets: `validation.loops.second_server_dma`.
    """

    read_fixed: float = 77.0
    write_fixed: float = 61.0
    cycles_per_byte: float = 0.5

    def __post_init__(self) -> None:
        for field in ("read_fixed", "write_fixed", "cycles_per_byte"):
            if not 0 <= getattr(self, field) < math.inf:
                raise SwiftRLError(f"a DMA's {field} is 0 cycles or more, not {getattr(self, field)}")


@dataclass(frozen=True)
class HardwareProfile:
    """The numbers of one UPMEM server.

    Parameters
    ----------
    name : str
        Name of the profile, a column of every result row.
    clock_hz : float
        DPU clock in Hz.
    chip : {"v1A", "v1B"}
        Chip version: sizes of IRAM and WRAM and number of hardware threads.
    ranks, dpus_per_rank : int
        DPUs of the server. A rank is the unit of allocation and of parallel transfers.
    to_dpu, from_dpu, broadcast : BandwidthCurve
        Host transfers within one rank: one list copy in, one list copy out, the same buffer to all.
    serial_to_dpu, serial_from_dpu : float
        Copies one DPU at a time, GB/s.
    rank_exponent : float
        R ranks together reach R**rank_exponent times the bandwidth of one.
    transfer_fixed_s, transfer_fixed_per_rank_s : float
        Latency of any transfer: the first rank's, and what each further rank adds, seconds.
    launch_s : float
        Launch and wait for an empty kernel, seconds.
    dma : DmaTiming
        Latency of the DPU's own transfers.
    source : str
        Where the numbers come from and which of them are extrapolated.
    """

    name: str
    clock_hz: float
    chip: str
    ranks: int
    to_dpu: BandwidthCurve
    from_dpu: BandwidthCurve
    broadcast: BandwidthCurve
    serial_to_dpu: float
    serial_from_dpu: float
    source: str
    dpus_per_rank: int = 64
    rank_exponent: float = 0.16
    transfer_fixed_s: float = 0.12e-3
    transfer_fixed_per_rank_s: float = 0.05e-3
    launch_s: float = 0.15e-3
    dma: DmaTiming = DmaTiming()

    def __post_init__(self) -> None:
        if self.chip not in ("v1A", "v1B"):
            raise SwiftRLError(f"profile {self.name}: chip is v1A or v1B, not {self.chip!r}")
        positive = ("clock_hz", "ranks", "dpus_per_rank", "serial_to_dpu", "serial_from_dpu")
        for field in positive:
            if not getattr(self, field) > 0:
                raise SwiftRLError(
                    f"profile {self.name}: {field} must be positive, not {getattr(self, field)}"
                )
        for field in ("transfer_fixed_s", "transfer_fixed_per_rank_s", "launch_s"):
            if not getattr(self, field) >= 0:
                raise SwiftRLError(
                    f"profile {self.name}: {field} may not be negative ({getattr(self, field)})"
                )
        if not 0 <= self.rank_exponent <= 1:
            raise SwiftRLError(
                f"profile {self.name}: rank_exponent lies in 0..1, not at {self.rank_exponent}"
            )
        if self.dpus_per_rank % 8:
            raise SwiftRLError(f"profile {self.name}: dpus_per_rank is a multiple of 8 (the rank's chips)")

    @property
    def n_dpus(self) -> int:
        """Number of DPUs of the server."""
        return self.ranks * self.dpus_per_rank


_PRIM = HardwareProfile(
    name="upmem-2556",
    clock_hz=350e6,
    chip="v1A",
    ranks=40,
    # PrIM figure 10: 1 -> 64 DPUs of one rank; 6.68 * (n/64)**0.72 in, 4.74 * (n/64)**0.88 out.
    to_dpu=BandwidthCurve(((1, 6.68 / 64**0.72), (64, 6.68))),
    from_dpu=BandwidthCurve(((1, 4.74 / 64**0.88), (64, 4.74))),
    # PrIM: 16.88 GB/s at 64 DPUs; with one DPU a broadcast is a plain copy.
    broadcast=BandwidthCurve(((1, 6.68 / 64**0.72), (64, 16.88))),
    serial_to_dpu=0.33,
    serial_from_dpu=0.12,
    source=(
        "PrIM (arXiv 2105.03814): clock, DMA, bandwidths of one rank. The server has 40 ranks; four of its "
        "2,560 DPUs were faulty, the simulator has them all. Latencies and the growth over ranks are fitted "
        "to PrIM's and uPIMulator's rows, weakly known (factor 2-3 at many ranks), extrapolated beyond 8."
    ),
)

_UPIMULATOR = HardwareProfile(
    name="upimulator-server",
    clock_hz=350e6,
    chip="v1A",
    ranks=40,
    to_dpu=BandwidthCurve(((1, 0.58), (4, 1.80), (16, 3.06), (64, 5.21))),
    from_dpu=BandwidthCurve(((1, 0.11), (4, 0.40), (16, 0.75), (64, 1.69))),
    # Not in the rows: the parallel points times PrIM's ratio of broadcast to parallel,
    # (16.88 / 6.68)**(log n / log 64), and no more than one DPU's rate per DPU.
    broadcast=BandwidthCurve(((1, 0.58), (4, 2.32), (16, 5.67), (64, 13.16))),
    serial_to_dpu=0.58,
    serial_from_dpu=0.11,
    # Median intercept of lines through the rows of five kernels (0.21 ms); dpusim/validation/hardware.py fits it.
    launch_s=0.21e-3,
    source=(
        "Bandwidths and launch latency fitted to the hardware rows published with uPIMulator (1, 4, 16, 64 DPUs; "
        "16 tasklets). "
        "The rows stop at one rank: the number of ranks, the growth over ranks and broadcast are assumed as "
        "in PrIM."
    ),
)

_V1B = HardwareProfile(
    name="upmem-v1b",
    clock_hz=400e6,
    chip="v1B",
    ranks=40,
    to_dpu=_PRIM.to_dpu,
    from_dpu=_PRIM.from_dpu,
    broadcast=_PRIM.broadcast,
    serial_to_dpu=_PRIM.serial_to_dpu,
    serial_from_dpu=_PRIM.serial_from_dpu,
    source=(
        "Vendor documentation 2025.1: v1B chips at 400 MHz with 16 hardware threads. DMA cycles, transfers "
        "and latencies have no published v1B numbers: PrIM's v1A ones stand in."
    ),
)

HARDWARE_PROFILES: Mapping[str, HardwareProfile] = MappingProxyType(
    {profile.name: profile for profile in (_PRIM, _UPIMULATOR, _V1B)}
)
"""The named hardware profiles."""

DEFAULT_HARDWARE = _PRIM.name


def resolve_hardware(hardware: str | HardwareProfile | None) -> HardwareProfile:
    """Return a profile: itself, by name, or the default for None.

    Raises
    ------
    SwiftRLError
        If no profile has that name.
    """
    if isinstance(hardware, HardwareProfile):
        return hardware
    name = DEFAULT_HARDWARE if hardware is None else hardware
    if name not in HARDWARE_PROFILES:
        raise SwiftRLError(
            f"{name!r} is not a hardware profile; choose one of {', '.join(HARDWARE_PROFILES)}"
        )
    return HARDWARE_PROFILES[name]
