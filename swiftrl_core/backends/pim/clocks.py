"""The clocks of a set of DPUs: the system's for hardware, the ledger of simulated seconds for the simulator."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from swiftrl_core import dpusim


@dataclass(frozen=True)
class PimTimes:
    """Seconds a set has spent since it was opened.

    Attributes
    ----------
    to_dpu_s, from_dpu_s : float
        Copies to the DPUs and back.
    kernel_s : float
        Launches, from the call to the last DPU's end.
    launches : int
        How many launches.
    """

    to_dpu_s: float = 0.0
    from_dpu_s: float = 0.0
    kernel_s: float = 0.0
    launches: int = 0

    @property
    def total_s(self) -> float:
        """All seconds together."""
        return self.to_dpu_s + self.from_dpu_s + self.kernel_s


@dataclass
class Stopwatch:
    """Seconds between two points of a program, on the set's own clock.

    Attributes
    ----------
    seconds : float
        Of the finished block; 0 until it ends.
    """

    seconds: float = 0.0


class WallClock:
    """Measures calls of the SDK with the system's clock."""

    evidence = "measured"

    def __init__(self, _: Any) -> None:
        self._spent = asdict(PimTimes())

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        """Charge the seconds of a `with` block to `kind`, a field of `PimTimes`."""
        start = time.perf_counter()
        yield
        self._spent[kind] += time.perf_counter() - start
        self._spent["launches"] += kind == "kernel_s"

    def times(self) -> PimTimes:
        """Return the seconds spent so far."""
        return PimTimes(**self._spent)

    def last_run(self) -> None:
        """Return None: hardware counts nothing."""
        return None

    def describe(self) -> dict[str, Any]:
        """Return what the seconds depend on, for a manifest."""
        return {"hardware": "UPMEM"}


class SimulatedClock:
    """Reads the simulator's ledger."""

    evidence = "simulated"

    def __init__(self, dpu_set: dpusim.DpuSet) -> None:
        self._set = dpu_set

    @contextmanager
    def timed(self, _: str) -> Iterator[None]:
        """Do nothing: the simulator charges its own ledger."""
        yield

    def times(self) -> PimTimes:
        """Return the seconds spent so far."""
        ledger = self._set.simulated
        return PimTimes(ledger.to_dpu_s, ledger.from_dpu_s, ledger.kernel_s, ledger.launches)

    def last_run(self) -> list | None:
        """Return the `RunStats` of each DPU in the last launch, None before the first."""
        runs = self._set.last_run
        return None if runs[0] is None else runs

    def describe(self) -> dict[str, Any]:
        """Return what the seconds depend on, for a manifest."""
        return {"hardware": self._set.simulated.hardware, "model_version": dpusim.MODEL_VERSION}


Clock = WallClock | SimulatedClock
