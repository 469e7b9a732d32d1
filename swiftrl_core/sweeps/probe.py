"""Probes, the jobs that are not one training run: a roofline, a population of agents, a number format's error.

A kind of probe is a frozen dataclass: its fields are the settings, `found` are the columns of its results, and
`measure` returns their values. A sweep, a store and an experiment need nothing else::

    @dataclass(frozen=True, kw_only=True)
    class Latency(
        Probe,
        kind_of_run="latency",
        found=pa.schema([column("seconds", pa.float64()), column("evidence", pa.string())]),
    ):
        dpus: int

        def measure(self) -> dict:
            return {"seconds": ..., "evidence": "simulated"}
"""

import hashlib
import json
import time
import typing
from abc import ABC, abstractmethod
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar, Self

import pyarrow as pa

from swiftrl_core.sweeps import manifest, results
from swiftrl_core.sweeps.job import alone_on, taken_alone
from swiftrl_core.sweeps.results import column
from swiftrl_core.sweeps.settings import ARROW, plain
from swiftrl_core.util.errors import SwiftRLError

_NAMES = (column("schema_version", pa.int32()), column("config_hash", pa.string()))
_ORIGIN = tuple(
    results.COLUMNS.field(name)
    for name in ("wall_seconds", "workers", "created", "host", "git_commit", "versions")
)


class Probe(ABC):
    """The base of all kinds of probe; see `job.Job` for the meaning of its members.

    A setting is a `str`, `int`, `float` or `bool`, or None if its annotation allows that.

    Raises
    ------
    SwiftRLError
        If a setting is of another type.
    """

    kind_of_run: ClassVar[str]
    columns: ClassVar[pa.Schema]
    seed: ClassVar[int] = 0
    device: ClassVar[str | None] = None
    hardware: ClassVar[bool] = False
    _settings: ClassVar[dict[str, tuple[type, bool]]]

    def __init_subclass__(cls, *, kind_of_run: str, found: pa.Schema) -> None:
        cls.kind_of_run = kind_of_run
        hints = {name: hint for name, hint in cls.__annotations__.items() if not _is_class_variable(hint)}
        cls._settings = {name: plain(hint) for name, hint in hints.items()}
        settings = [column(name, ARROW[kind], nullable=may) for name, (kind, may) in cls._settings.items()]
        cls.columns = pa.schema([*_NAMES, *settings, *found, *_ORIGIN])

    def __post_init__(self) -> None:
        for name, (kind, optional) in self._settings.items():
            value = getattr(self, name)
            if (value is not None or not optional) and type(value) is not kind:
                raise SwiftRLError(f"{name} is {value!r}: give a value of type {kind.__name__}")

    @cached_property
    def config(self) -> dict[str, Any]:
        """The kind of probe and its settings."""
        return {"measurement": self.kind_of_run} | self._values

    @cached_property
    def config_hash(self) -> str:
        """The first 20 hexadecimal digits of the SHA-256 of `config`."""
        return hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest()[:20]

    @property
    def label(self) -> str:
        """The kind and its settings that are not None."""
        given = (f"{name} {value}" for name, value in self._values.items() if value is not None)
        return f"{self.kind_of_run.lower()}: {', '.join(given)}"

    @property
    def group(self) -> tuple[str, str]:
        """Environment and backend, if the kind has such settings."""
        return self._values.get("environment") or "", self._values.get("backend") or ""

    @property
    def data_key(self) -> tuple:
        """All that the data set depends on."""
        return tuple(self._values.get(name) for name in ("environment", "transitions", "seed"))

    @property
    def updates(self) -> int:
        """Updates to make; by default none."""
        return 0

    def small(self, times: int) -> Self:
        """Return the probe with so many times the least work, for an estimate; by default itself."""
        return self

    def missing(self) -> str | None:
        """Return why it cannot run on this host; by default it can."""
        return None

    @abstractmethod
    def measure(self) -> dict[str, Any]:
        """Return the values of the columns that are neither settings nor origin."""

    def run(self, workers: int = 1) -> dict[str, Any]:
        """Measure and return the row, with every column of `columns`.

        Raises
        ------
        SwiftRLError
            If it cannot run here.
        """
        with alone_on(taken_alone(self)):
            if reason := self.missing():
                raise SwiftRLError(reason)
            start = time.perf_counter()
            found = self.measure()
            wall_seconds = time.perf_counter() - start
        origin = {"config_hash": self.config_hash, "wall_seconds": wall_seconds, "workers": workers}
        return self._values | found | origin | manifest.provenance()

    @cached_property
    def _values(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


def _is_class_variable(hint: Any) -> bool:
    return typing.get_origin(hint) is ClassVar
