"""Means over seeds with intervals: Student's t, or the range where there are few values."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

LEVEL = 0.95
FEWEST = 5
"""Values below which an interval is their range: with three, one at 95 % is 2.5 standard deviations wide each way."""


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of a few values and its interval.

    From `FEWEST` values on, the interval holds the expected value in 95 % of all cases, by Student's t: exactly so for
    normal values. Of fewer values it is the range from the smallest to the largest, which promises no level.

    Returns
    -------
    mean, low, high : float
        NaN where a value is.
    """
    values = np.asarray(values, np.float64)
    mean, count = float(values.mean()), len(values)
    if count < FEWEST:
        return mean, float(values.min()), float(values.max())
    half = student_t(count - 1) * float(values.std(ddof=1)) / math.sqrt(count)
    return mean, mean - half, mean + half


def student_t(freedom: int, level: float = LEVEL) -> float:
    """Return t such that Student's distribution has `level` of its mass from -t to t.

    The mass is a finite sum in the angle atan(t / sqrt(freedom)) (Abramowitz and Stegun 26.7.3 and 26.7.4), which
    bisection inverts.

    Parameters
    ----------
    freedom : int
        Degrees of freedom, at least 1.
    level : float
        From 0 to 1, both excluded.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _central_mass(middle, freedom) < level else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _central_mass(angle: float, freedom: int) -> float:
    odd, cosine = freedom % 2, math.cos(angle)
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= k / (k + 1) * cosine**2
    return (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total


def means_over(table: pd.DataFrame) -> str:
    """Return how many data sets the means of a table are over, and what its bars are; for a caption.

    Parameters
    ----------
    table : DataFrame
        With the column seeds of `over_seeds`.
    """
    least, most = int(table["seeds"].min()), int(table["seeds"].max())
    if most == 1:
        return "one data set"
    exact = f"{LEVEL:.0%} intervals by Student's t".replace("%", " %")
    if least >= FEWEST:
        bars = exact
    elif most < FEWEST:
        bars = f"the range of {most}"
    else:
        bars = f"{exact}, of fewer than {FEWEST} data sets the range"
    return f"means over {most} data sets; bars: {bars}"


def over_seeds(rows: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return a row for each group, in the order of their first rows, with the mean and interval of some columns.

    Returns
    -------
    DataFrame
        The columns `by`, seeds (rows of the group), and for each of `columns` NAME, NAME_low, NAME_high.
    """
    found = []
    for key, group in rows.groupby(list(by), sort=False, dropna=False):
        entry = dict(zip(by, key, strict=True)) | {"seeds": len(group)}
        for name in columns:
            mean, low, high = interval(group[name])
            entry |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        found.append(entry)
    return pd.DataFrame(found)


def bars_of(table: pd.DataFrame, name: str, factor: float = 1.0) -> np.ndarray:
    """Return a column's error bars for matplotlib: distances down and up, (2, rows)."""
    middle = table[name].to_numpy()
    edges = [middle - table[f"{name}_low"], table[f"{name}_high"] - middle]
    return np.maximum(np.array(edges, np.float64), 0.0) * factor  # a mean can round past its interval's edge


def on_most_cores(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the largest number of cores of each environment."""
    return table[table["cores"] == table.groupby("environment")["cores"].transform("max")]
