"""Means over seeds with bootstrap intervals, from the same random draws every time."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

RESAMPLES = 2000
LEVEL = 0.95


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of a few values, and the percentile interval of the means of resamples.

    With one value there is nothing to resample, and the interval is that value. With three, it can hardly be wider
    than from the smallest to the largest: read it as their spread.

    Returns
    -------
    mean, low, high : float
        NaN where a value is.
    """
    values = np.asarray(values, np.float64)
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    edge = (1 - LEVEL) / 2
    low, high = np.quantile(values[drawn].mean(axis=1), (edge, 1 - edge))
    return float(values.mean()), float(low), float(high)


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
