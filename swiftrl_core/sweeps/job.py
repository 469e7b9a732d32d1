"""What a sweep knows of a run: what it needs to order runs, hand them out, and keep one row of each.

`Run`, a training run, and `Probe`, anything else, are such runs.
"""

import contextlib
import fcntl
import importlib.util
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa


class Job(Protocol):
    """One run as data: its settings give it its name, `run` gives it its row."""

    kind_of_run: ClassVar[str]
    """What is run, such as `training`; a stored row keeps its name when the class that made it is renamed."""
    columns: ClassVar[pa.Schema]
    """Of its row; all runs of a table have the same."""

    @property
    def config(self) -> dict[str, Any]:
        """The settings as the row's columns."""

    @property
    def config_hash(self) -> str:
        """The run's name: 20 hexadecimal digits, the same for the same `config`."""

    @property
    def label(self) -> str:
        """What a person needs to tell the run from its neighbours."""

    @property
    def group(self) -> tuple[str, str]:
        """Environment and backend; empty where the run has none."""

    @property
    def seed(self) -> int:
        """Runs with a smaller seed come first."""

    @property
    def data_key(self) -> tuple:
        """What the data set depends on; runs with the same key follow each other."""

    @property
    def rows_to_collect(self) -> int:
        """Transitions that are collected for it, once for all runs with its `data_key`."""

    @property
    def updates(self) -> int:
        """What it costs, counted in updates; a guess that serves to weigh runs against each other."""

    @property
    def device(self) -> str | None:
        """What it runs on, if not on the host's own processor: `gpu`, `pim`, or None."""

    @property
    def hardware(self) -> bool:
        """Whether `pim` has to be UPMEM hardware."""

    def missing(self) -> str | None:
        """Return why it cannot run on this host, as a sentence, or None."""

    def small(self, times: int) -> "Job":
        """Return the job with so many times the least work, or itself where that is more."""

    def run(self, workers: int = 1) -> dict[str, Any]:
        """Do it and return its row; `workers` are the runs under way on this host at once, which the row records."""


def taken_alone(run: Job) -> str | None:
    """Return the device of this host that the run must not share: `gpu`, `pim`, or None.

    The simulator can be shared. Where the vendor's SDK is installed, `pim` counts as hardware: a set of DPUs that
    another job holds must be waited for, not replaced by the simulator.
    """
    if run.device == "pim" and importlib.util.find_spec("dpu") is None:
        return None
    return run.device


@contextlib.contextmanager
def alone_on(device: str | None) -> Iterator[None]:
    """Hold a device of this host for one job at a time, whoever started it; the lock ends with the process."""
    if device is None:
        yield
        return
    handle = os.open(Path(tempfile.gettempdir()) / f"swiftrl-{device}.lock", os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def missing(runs: Iterable[Job]) -> dict[str, str]:
    """Return the backends that some runs need and this host lacks, each with the reason."""
    kinds = {(type(run), run.group, run.hardware): run for run in runs}
    return {run.group[1]: reason for run in kinds.values() if (reason := run.missing())}
