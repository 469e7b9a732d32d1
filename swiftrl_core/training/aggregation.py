"""Aggregate the cores' tables into the one from which all of them continue.

`mean` is the paper's: every core has the same weight, also for pairs that its chunk does not hold, whose value it can
only return as it was. With many cores these are most pairs, so a round moves a pair by a fraction of what was learned.

`visited` is the mean over the cores whose chunk holds the pair: sum of Q_k / their number.
`count` weighs each core by how often its chunk holds the pair: sum of n_k Q_k / sum of n_k.
Both keep the old value of a pair that no chunk holds. A core that saw a pair more often has more weight, as in
importance averaging (Woo, Joshi, Chi: arXiv 2305.10697). There the weight grows exponentially with a core's visits, at
the rate at which its table forgets; here it is the number of visits, so that the mean over cores is one over
transitions.

In SEQ, STR and REV a round visits a pair exactly episodes times occurrences often, and the factor cancels. In RAN
visits are random; there n_k is proportional to the expected number, known beforehand and free of a round's noise.
"""

import ctypes
import functools
from pathlib import Path
from types import MappingProxyType

import numpy as np

from swiftrl_core.util.toolchain import INT64, POINTER, load_library

SOURCE = Path(__file__).parent / "aggregation.c"
_SUMS = MappingProxyType({np.dtype(np.float32): np.float64, np.dtype(np.int32): np.int64})


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
    total = np.zeros(tables.shape[1], _SUMS[tables.dtype])
    tables = np.ascontiguousarray(tables)
    compile_sums(tables.dtype).sum(tables.ctypes.data, *tables.shape, total.ctypes.data)
    return _divided(total, len(tables), tables.dtype)


def weighted(tables: np.ndarray, weights: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Return the mean of all tables, each entry weighted; where no core has weight, the old entry.

    FP32: each product of weight and entry is exact in float64 (weights below 2^29), and products are summed in core
    order, divided by the sum of the weights, rounded once to float32. Fixed point: summed in int64, divided, rounded to
    the nearest integer, ties away from zero.

    Parameters
    ----------
    tables : float32 or int32 array (cores, entries)
    weights : int32 array (cores, entries)
        At least 0.
    old : array (entries,), the tables' dtype

    Returns
    -------
    array (entries,), the tables' dtype
    """
    total, weight = np.zeros(tables.shape[1], _SUMS[tables.dtype]), np.zeros(tables.shape[1], np.int64)
    tables, weights = np.ascontiguousarray(tables), np.ascontiguousarray(weights, np.int32)
    compile_sums(tables.dtype).weighted_sum(
        tables.ctypes.data, weights.ctypes.data, *tables.shape, total.ctypes.data, weight.ctypes.data
    )
    return np.where(weight > 0, _divided(total, np.maximum(weight, 1), tables.dtype), old)


def _divided(total: np.ndarray, by: int | np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return total / by, rounded once: float64 to float32, int64 to the nearest int32, ties away from zero."""
    if dtype == np.float32:
        return (total / by).astype(np.float32)
    magnitude = (2 * np.abs(total) + by) // (2 * by)
    return (np.sign(total) * magnitude).astype(dtype)


@functools.cache
def compile_sums(dtype: np.dtype) -> ctypes.CDLL:
    """Return aggregation.c for tables of a type, compiled once; call it before you time an aggregation."""
    value, total = ("float", "double") if dtype == np.float32 else ("int32_t", "int64_t")
    functions = {
        "sum": (None, [POINTER, INT64, INT64, POINTER]),
        "weighted_sum": (None, [POINTER, POINTER, INT64, INT64, POINTER, POINTER]),
    }
    return load_library([SOURCE], functions, defines={"VALUE": value, "SUM": total})
