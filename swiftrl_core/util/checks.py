"""Checks of plain arguments that several modules share."""

import operator
from typing import Any

from swiftrl_core.util.errors import SwiftRLError


def whole_number(value: Any, name: str, lowest: int, highest: int | None = None) -> int:
    """Return a whole number as an int, NumPy's integers included.

    Parameters
    ----------
    value : object
        What the caller passed.
    name : str
        What the value is, as the sentence should call it.
    lowest, highest : int
        Smallest and largest number allowed; by default there is no largest.

    Raises
    ------
    SwiftRLError
        If the value is not an integer (a bool is not) or out of range.
    """
    wanted = f"a whole number of at least {lowest}" + ("" if highest is None else f" and at most {highest}")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise SwiftRLError(f"{name} is {value!r}; expected {wanted}")
    number = operator.index(value)
    if number < lowest or (highest is not None and number > highest):
        raise SwiftRLError(f"{name} is {number}; expected {wanted}")
    return number
