"""From instructions and bytes to seconds: the closed form of the pipeline, host transfers, launches.

Every second made here is `simulated` evidence. Formulas and numbers come from published measurements; each is
named where it stands. Sources, in short:

* PrIM: Gomez-Luna et al., "Benchmarking a New Paradigm", arXiv 2105.03814: a server of 2,556 DPUs at 350 MHz.
* uPIMulator rows: milliseconds measured on another UPMEM server (13 PrIM kernels, 1 to 64 DPUs), published
  with uPIMulator (Hyun et al., HPCA 2024).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

import numpy as np

from swiftrl_core.errors import SwiftRLError

MODEL_VERSION = "1"
"""Changes with every change of a formula or number that alters simulated seconds."""

ISSUE_INTERVAL = 11
"""Cycles between two instructions of one tasklet, at least (PrIM, section 3.1.1)."""

Direction = Literal["to_dpu", "from_dpu"]
Kind = Literal["parallel", "broadcast", "serial"]


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
class HardwareProfile:
    """The numbers of one UPMEM server.

    Parameters
    ----------
    name : str
        Name of the profile; stands in every result row.
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
    launch_s=0.2e-3,
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

PROFILES: Mapping[str, HardwareProfile] = MappingProxyType(
    {profile.name: profile for profile in (_PRIM, _UPIMULATOR, _V1B)}
)
"""The named hardware profiles."""

DEFAULT_PROFILE = _PRIM.name


def resolve_profile(hardware: str | HardwareProfile | None) -> HardwareProfile:
    """Return a profile: itself, by name, or the default for None.

    Raises
    ------
    SwiftRLError
        If no profile has that name.
    """
    if isinstance(hardware, HardwareProfile):
        return hardware
    name = DEFAULT_PROFILE if hardware is None else hardware
    if name not in PROFILES:
        raise SwiftRLError(f"no hardware profile is called {name!r}; choose one of {', '.join(PROFILES)}")
    return PROFILES[name]


def pipeline_cycles(instructions: np.ndarray, dma_cycles: np.ndarray) -> np.ndarray | float:
    """Return the cycles of one barrier phase by the closed form.

    With I_t instructions and D_t cycles of DMA latency of tasklet t, T tasklets that issue anything in the phase,
    and J the ascending values of I_t + D_t / max(11, T), J_0 = 0::

        cycles = max( sum_i (J_i - J_(i-1)) * max(11, T - i + 1),  sum of all D,  sum of all I )

    The first term lets the tasklets that still run share the pipeline: each issues at most once in 11 cycles
    and the DPU once in a cycle. The others say that the DMA engine serves one request at a time and the
    pipeline issues one instruction per cycle. With one tasklet the result is 11 I + D. Against exact
    interleaving it stays within 1.2 % on learning kernels for 1 to 24 tasklets.

    This is the reference for the interpreter's own copy, which rounds to whole cycles.

    Parameters
    ----------
    instructions : (..., T) array
        Instructions each tasklet issues in the phase.
    dma_cycles : (..., T) array
        DMA latency of each tasklet in the phase, cycles.

    Returns
    -------
    (...) array of float, or float
        Cycles of the phase. A launch takes the sum over its phases.

    Raises
    ------
    SwiftRLError
        If the shapes differ, no tasklet is given, a count is negative, or a DMA comes without an instruction.
    """
    issued = np.asarray(instructions, dtype=np.float64)
    waited = np.asarray(dma_cycles, dtype=np.float64)
    if issued.shape != waited.shape or issued.ndim == 0 or issued.shape[-1] == 0:
        raise SwiftRLError(
            f"instructions {issued.shape} and DMA cycles {waited.shape} must have one same number per tasklet"
        )
    if (issued < 0).any() or (waited < 0).any():
        raise SwiftRLError("instructions and DMA cycles may not be negative")
    if (waited[issued == 0] > 0).any():
        raise SwiftRLError("a tasklet has DMA cycles but no instruction, yet a DMA takes one")
    active = np.count_nonzero(issued, axis=-1)
    interval = np.maximum(ISSUE_INTERVAL, active)[..., np.newaxis]
    work = np.sort(issued + waited / interval, axis=-1)  # the idle come first and take no time
    steps = np.diff(work, axis=-1, prepend=0.0)
    still_running = np.arange(issued.shape[-1], 0, -1)
    shared = (steps * np.maximum(ISSUE_INTERVAL, still_running)).sum(axis=-1)
    cycles = np.maximum(shared, np.maximum(waited.sum(axis=-1), issued.sum(axis=-1)))
    return float(cycles) if cycles.ndim == 0 else cycles


def dma_cycles(n_bytes: int, write: bool = False) -> float:
    """Return the cycles of a DMA of n bytes with MRAM: 77 + n/2 to read, 61 + n/2 to write (PrIM).

    The same on every profile: no other measurement is published. The interpreter's own copy is in `costs.h`.
    """
    return (61 if write else 77) + n_bytes / 2


def transfer_seconds(
    profile: HardwareProfile, direction: Direction, n_dpus: int, bytes_per_dpu: int, kind: Kind = "parallel"
) -> float:
    """Return the seconds of one host transfer.

    With n DPUs of b bytes on R = ceil(n / 64) ranks::

        parallel, broadcast   t = fixed + per_rank * (R - 1) + n * b / (BW(n / R) * R**0.16)
        serial                t = n * (fixed + b / BW_serial)

    BW is the curve of one rank (PrIM figure 10). A serial loop pays the latency once per DPU. Beyond 8 ranks
    all of it is extrapolation. WRAM and MRAM are charged alike: WRAM goes through the control interface,
    whose rate is not published; its transfers are tens of bytes, where the latency is all that counts.

    Parameters
    ----------
    direction : {"to_dpu", "from_dpu"}
        Way of the data.
    n_dpus : int
        DPUs that take part.
    bytes_per_dpu : int
        Bytes each of them gets or gives; 0 costs nothing.
    kind : {"parallel", "broadcast", "serial"}
        One list copy, one buffer to all, or a loop of copies.

    Raises
    ------
    SwiftRLError
        If a count is out of range, a word is unknown, or a broadcast goes from the DPUs.
    """
    if direction not in ("to_dpu", "from_dpu") or kind not in ("parallel", "broadcast", "serial"):
        raise SwiftRLError(f"no transfer is {direction!r} and {kind!r}; see transfer_seconds for the words")
    if kind == "broadcast" and direction == "from_dpu":
        raise SwiftRLError("a broadcast goes to the DPUs; use kind='parallel' to read them")
    if n_dpus < 1 or bytes_per_dpu < 0:
        raise SwiftRLError(
            f"a transfer has at least 1 DPU and 0 bytes, not {n_dpus} DPUs and {bytes_per_dpu} bytes"
        )
    if bytes_per_dpu == 0:
        return 0.0
    if kind == "serial":
        rate = profile.serial_to_dpu if direction == "to_dpu" else profile.serial_from_dpu
        return n_dpus * (profile.transfer_fixed_s + bytes_per_dpu / (rate * 1e9))
    curve = profile.broadcast if kind == "broadcast" else getattr(profile, direction)
    ranks = math.ceil(n_dpus / profile.dpus_per_rank)
    rate = curve.bytes_per_second(n_dpus / ranks) * ranks**profile.rank_exponent
    fixed = profile.transfer_fixed_s + profile.transfer_fixed_per_rank_s * (ranks - 1)
    return fixed + n_dpus * bytes_per_dpu / rate


def launch_seconds(profile: HardwareProfile, cycles: float) -> float:
    """Return the seconds of one launch whose slowest DPU takes `cycles`: launch latency + cycles / clock.

    The latency, 0.15 ms, is the smallest the uPIMulator rows allow (0.13 to 0.5 ms).
    """
    if cycles < 0:
        raise SwiftRLError(f"a launch takes at least 0 cycles, not {cycles}")
    return profile.launch_s + cycles / profile.clock_hz
