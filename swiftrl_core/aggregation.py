"""How the host combines the cores' tables into the one they all go on from.

`mean` is the paper's: every core counts the same, also for pairs its chunk does not hold, where it can only hand back
what it was given. With many cores that is most of them, so a round moves a pair by a fraction of what was learned.

`visited` is the mean over the cores whose chunk holds the pair: sum of Q_k / their number.
`count` weighs each core by how often its chunk holds the pair: sum of n_k Q_k / sum of n_k.
Both keep the old value of a pair that no chunk holds. Who saw more counts for more, as in importance averaging (Woo,
Joshi, Chi: arXiv 2305.10697). There a weight grows exponentially with a core's visits, at the rate at which its table
forgets; here it grows with the visits themselves, so that the mean over cores is one over transitions.

In SEQ, STR and REV a round visits a pair exactly episodes times occurrences often, and the factor cancels. In RAN
visits are drawn; there n_k is the expected number, which is the same: known beforehand, and without a round's noise.
"""

import numpy as np


def mean(tables: np.ndarray) -> np.ndarray:
    """Return the plain mean of all tables, the paper's aggregation.

    FP32: summed in float64 in core order, divided, rounded once to float32. Fixed point: summed in int64, divided,
    rounded to the nearest integer, ties away from zero. Both are the same on every backend and for any number of
    threads, because the order and the rounding are part of the definition.

    Parameters
    ----------
    tables : float32 or int32 array (cores, entries)

    Returns
    -------
    array (entries,), the tables' dtype
    """
    cores = len(tables)
    if tables.dtype == np.float32:
        total = np.zeros(tables.shape[1:], np.float64)
        for table in tables:
            total += table
    else:
        total = tables.sum(axis=0, dtype=np.int64)
    return _divided(total, cores, tables.dtype)


def weighted(tables: np.ndarray, weights: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Return the mean of all tables, each entry weighted; where no core has weight, the old entry.

    FP32: each product of weight and entry is exact in float64 (weights below 2^29), and products are summed in core
    order, divided by the sum of the weights, rounded once to float32. Fixed point: summed in int64, divided, rounded to
    the nearest integer, ties away from zero.

    Parameters
    ----------
    tables : float32 or int32 array (cores, entries)
    weights : int array (cores, entries)
        At least 0.
    old : array (entries,), the tables' dtype

    Returns
    -------
    array (entries,), the tables' dtype
    """
    total = np.zeros(tables.shape[1:], np.float64 if tables.dtype == np.float32 else np.int64)
    for table, weight in zip(tables, weights, strict=True):
        total += table.astype(total.dtype) * weight
    weight = weights.sum(axis=0, dtype=np.int64)
    return np.where(weight > 0, _divided(total, np.maximum(weight, 1), tables.dtype), old)


def _divided(total: np.ndarray, by: int | np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return total / by, rounded once: float64 to float32, int64 to the nearest int32, ties away from zero."""
    if dtype == np.float32:
        return (total / by).astype(np.float32)
    magnitude = (2 * np.abs(total) + by) // (2 * by)
    return (np.sign(total) * magnitude).astype(dtype)
