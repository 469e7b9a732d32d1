"""From cycles and bytes to seconds: DMA, host transfers, launches. Their evidence is always `simulated`."""

import math
from typing import Literal

from swiftrl_core.dpusim.timing.hardware import DmaTiming, HardwareProfile
from swiftrl_core.util.errors import SwiftRLError

Direction = Literal["to_dpu", "from_dpu"]
Kind = Literal["parallel", "broadcast", "serial"]


def dma_cycles(n_bytes: int, write: bool = False, dma: DmaTiming | None = None) -> float:
    """Return the cycles of a DMA of n bytes with MRAM, by default PrIM's: 77 + n/2 to read, 61 + n/2 to write."""
    dma = DmaTiming() if dma is None else dma
    return (dma.write_fixed if write else dma.read_fixed) + n_bytes * dma.cycles_per_byte


def transfer_seconds(
    hardware: HardwareProfile, direction: Direction, n_dpus: int, bytes_per_dpu: int, kind: Kind = "parallel"
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
        rate = hardware.serial_to_dpu if direction == "to_dpu" else hardware.serial_from_dpu
        return n_dpus * (hardware.transfer_fixed_s + bytes_per_dpu / (rate * 1e9))
    curve = hardware.broadcast if kind == "broadcast" else getattr(hardware, direction)
    ranks = math.ceil(n_dpus / hardware.dpus_per_rank)
    rate = curve.bytes_per_second(n_dpus / ranks) * ranks**hardware.rank_exponent
    fixed = hardware.transfer_fixed_s + hardware.transfer_fixed_per_rank_s * (ranks - 1)
    return fixed + n_dpus * bytes_per_dpu / rate


def launch_seconds(hardware: HardwareProfile, cycles: float) -> float:
    """Return the seconds of one launch whose slowest DPU takes `cycles`: launch latency + cycles / clock.

    The latency, 0.15 ms, is the smallest the uPIMulator rows allow (0.13 to 0.5 ms).
    """
    if cycles < 0:
        raise SwiftRLError(f"a launch takes at least 0 cycles, not {cycles}")
    return hardware.launch_s + cycles / hardware.clock_hz
