"""Runs that misbehave, for the tests of executors; in their own module so that worker processes can import them."""

import os
import signal
import time
from pathlib import Path


class OddRun:
    """Has of a job what an executor needs; it misbehaves in the process that runs it."""

    hardware = False

    def __init__(
        self,
        config_hash: str,
        *,
        dies: int = 0,
        seconds: float = 0.0,
        marks: str = "",
        device: str | None = None,
    ) -> None:
        self.config_hash, self.dies, self.seconds, self.marks = config_hash, dies, seconds, marks
        self.device = device

    def run(self, workers: int = 1) -> dict:
        """Leave a mark, then die, or fail after a while."""
        mark = Path(self.marks) / f"{self.config_hash}.{time.monotonic_ns()}"
        mark.write_text(str(os.getpid()))
        if self.dies > 0 and len(list(mark.parent.glob(f"{self.config_hash}.*"))) <= self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        raise ValueError("odd")
