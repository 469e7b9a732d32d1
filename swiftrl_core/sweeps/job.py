"""The protocol of jobs: all that a sweep needs to order runs, hand them out, and keep one row of each.

`Run`, a training run, and `Probe`, any other measurement, are jobs.
"""

import contextlib
import errno
import fcntl
import importlib.util
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa


class Job(Protocol):
    """A run as data: its name follows from its settings, and `run` returns its row."""

    kind_of_run: ClassVar[str]
    """The kind of run, such as `training`; the names of stored rows do not depend on the class."""
    columns: ClassVar[pa.Schema]
    """The columns of its row; all runs of a table have the same."""

    @property
    def config(self) -> dict[str, Any]:
        """The settings as the row's columns."""

    @property
    def config_hash(self) -> str:
        """The name of the run: 20 hexadecimal digits, the same for the same `config`."""

    @property
    def label(self) -> str:
        """A description for humans that distinguishes the run from its neighbours."""

    @property
    def group(self) -> tuple[str, str]:
        """Environment and backend; empty if the run has none."""

    @property
    def seed(self) -> int:
        """Runs with a smaller seed come first."""

    @property
    def data_key(self) -> tuple:
        """All that the data set depends on; runs with the same key follow each other."""

    @property
    def updates(self) -> int:
        """The approximate cost in updates, to weigh runs against each other."""

    @property
    def device(self) -> str | None:
        """The device it runs on, `gpu` or `pim`, or None for the host's processor."""

    @property
    def hardware(self) -> bool:
        """Whether `pim` must be UPMEM hardware."""

    def missing(self) -> str | None:
        """Return why it cannot run on this host, as a sentence, or None."""

    def small(self, times: int) -> "Job":
        """Return the run with `times` the least work, for an estimate, or itself if that is less."""

    def run(self, workers: int = 1) -> dict[str, Any]:
        """Execute the run and return its result row, which records `workers`, the number of concurrent runs here."""


def taken_alone(run: Job) -> str | None:
    """Return the device of this host that the run cannot share: `gpu`, `pim`, or None.

    The simulator can be shared. Where the vendor's SDK is installed, `pim` counts as hardware: a set of DPUs that
    another job holds must be waited for, not replaced by the simulator.
    """
    if run.device == "pim" and importlib.util.find_spec("dpu") is None:
        return None
    return run.device


@contextlib.contextmanager
def alone_on(device: str | None) -> Iterator[None]:
    """Hold a device of this host for one job at a time, of all processes; the lock ends with the process."""
    if device is None:
        yield
        return
    handle = _open_for_all(Path(tempfile.gettempdir()) / f"swiftrl-{device}.lock")
    try:
        lock_file(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def lock_file(handle: int, operation: int) -> None:
    """Lock an open file as `flock` does, or go on without the lock on a file system that has none."""
    try:
        fcntl.flock(handle, operation)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise


def _open_for_all(path: Path) -> int:
    """Open a file that any user of this host can lock; make it where it is absent.

    To lock a file it suffices to read it. The system may refuse to open another user's file for writing, or with
    `O_CREAT`, in a folder for temporary files.
    """
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY)
            os.fchmod(handle, 0o444)
            return handle
    return os.open(path, os.O_RDONLY)


def missing(runs: Iterable[Job]) -> dict[str, str]:
    """Return the backends that some jobs need and this host lacks, each with the reason."""
    kinds = {(type(run), run.group, run.hardware): run for run in runs}
    return {run.group[1]: reason for run in kinds.values() if (reason := run.missing())}
