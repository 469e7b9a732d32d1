"""The settings of runs: a learner's, taken from `Learner`, and the checks that bring a value to its plain form."""

import json
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import field, fields, make_dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from swiftrl_core.learner import SOMETIMES_IGNORED, Learner
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError

Check = Callable[[str, Any], Any]

ARROW = MappingProxyType({str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()})
"""Type of a setting to the type of its column; a choice, a `StrEnum`, is a string."""

FROM_THE_DATA = "reward_range"
"""The field of `Learner` that a run takes from its data."""

NO_SETTINGS = (FROM_THE_DATA, "units")
"""The fields of `Learner` that are no setting of a run."""


def _learner_settings() -> dict[str, type]:
    """Return a learner's settings with their types: its choices, then its numbers."""
    hints = typing.get_type_hints(Learner)
    found = {entry.name: hints[entry.name] for entry in fields(Learner) if entry.name not in NO_SETTINGS}
    return dict(sorted(found.items(), key=lambda setting: not issubclass(setting[1], StrEnum)))


LEARNER = MappingProxyType(_learner_settings())
"""The settings of a learner, name to type; the fields of `Learner` are the only place where they are spelled."""

LearnerSettings = make_dataclass(
    "LearnerSettings",
    [
        (name, kind | None if name in SOMETIMES_IGNORED else kind, field(default=getattr(Learner, name)))
        for name, kind in LEARNER.items()
    ],
    namespace={
        "__module__": __name__,
        "__doc__": "The fields of `Learner` that a run sets, with their defaults; see there.",
    },
    frozen=True,
    kw_only=True,
)


def plain(hint: Any) -> tuple[type, bool]:
    """Return a setting's type from its annotation, and whether None is allowed."""
    if isinstance(hint, types.UnionType):
        kind = next(each for each in typing.get_args(hint) if each is not types.NoneType)
        return plain(kind)[0], types.NoneType in typing.get_args(hint)
    return typing.get_origin(hint) or hint, False


def checked(default: Any, check: Check) -> Any:
    """Return a dataclass field whose values take another check than its type's."""
    return field(default=default, metadata={"check": check})


def checks(settings: type) -> dict[str, Check]:
    """Return the check of each field of a dataclass, by its type if it was not made by `checked`.

    A check takes the name and the value of a setting and returns the value in its plain form: NumPy's scalars and whole
    floats as Python's own types, options as JSON values. It raises `SwiftRLError`.
    """
    hints = typing.get_type_hints(settings)
    return {entry.name: _check(*plain(hints[entry.name]), **entry.metadata) for entry in fields(settings)}


def whole(least: int) -> Check:
    """Return the check of a whole number of at least `least`."""
    return lambda name, value: whole_number(value, name, least, 2**63 - 1)


def one_of(*values: str) -> Check:
    """Return the check of a choice."""

    def check(name: str, value: Any) -> str:
        if value not in values:
            raise SwiftRLError(f"{name} is {value!r}: choose {' or '.join(values)}")
        return value

    return check


def path(name: str, value: Any) -> str:
    """Return the path of a file as text."""
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise SwiftRLError(f"{name} is {value!r}: give the path of a file")
    return str(value)


def to_json(value: Any, name: str = "the configuration") -> str:
    """Return a value as JSON with sorted keys, in its shortest form.

    Raises
    ------
    SwiftRLError
        If `name` holds anything else than plain JSON values.
    """
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise SwiftRLError(f"{name} must hold plain JSON values: {error}") from error


def _check(kind: type, optional: bool, check: Check | None = None) -> Check:
    own = check or (_text if issubclass(kind, StrEnum) else _CHECKS[kind])
    return lambda name, value: None if optional and value is None else own(name, value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise SwiftRLError(f"{name} is {value!r}: give a name")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        if isinstance(value, str) and _is_number(value):
            raise SwiftRLError(f"{name} is the text {value!r}: write the number {float(value)!r}")
        raise SwiftRLError(f"{name} is {value!r}: give a number")
    if not math.isfinite(value):
        raise SwiftRLError(f"{name} is {value!r}: give a finite number")
    return float(value)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise SwiftRLError(f"{name} is {value!r}: give true or false")
    return bool(value)


def _options(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise SwiftRLError(f"{name} is {value!r}: give options by name")
    return json.loads(to_json(dict(value), name))


_CHECKS = MappingProxyType({str: _text, int: whole(0), float: _number, bool: _flag, Mapping: _options})
