"""How the host combines the cores' tables into the one they all go on from."""

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
        return (total / cores).astype(np.float32)
    total = tables.sum(axis=0, dtype=np.int64)
    magnitude = (2 * np.abs(total) + cores) // (2 * cores)
    return (np.sign(total) * magnitude).astype(tables.dtype)
