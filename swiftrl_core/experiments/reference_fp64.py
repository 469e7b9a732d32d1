"""Q-learning in double precision, in the shape of the code that the paper's authors released; not a backend.

The error of other number formats is measured against it, and the speed of the engine (`reference_fp64.c` has the loop).
"""

import ctypes
import functools
from pathlib import Path

import numpy as np

from swiftrl_core.data import Dataset
from swiftrl_core.learner.chunks import lengths
from swiftrl_core.util.toolchain import FLOAT64, INT64, POINTER, load_library

SOURCE = Path(__file__).parent / "reference_fp64.c"
RECORD = np.dtype(
    [("state", "<i4"), ("action", "<i4"), ("reward", "<f8"), ("next_state", "<i4"), ("terminated", "<i4")]
)
"""A transition in 24 bytes, with a reward in double precision."""


def records(dataset: Dataset) -> np.ndarray:
    """Return a data set's transitions, (rows,) `RECORD`."""
    found = np.empty(len(dataset), RECORD)
    for name in RECORD.names:
        found[name] = getattr(dataset, name)
    return found


def learn(q: np.ndarray, rows: np.ndarray, alpha: float, gamma: float) -> None:
    """Update the table with every row, one after the other.

    Parameters
    ----------
    q : float64 array (states, actions)
        Changed in place.
    rows : (rows,) `RECORD`
        Contiguous.
    alpha, gamma : float
    """
    library().learn_doubles(q.ctypes.data, rows.ctypes.data, len(rows), q.shape[1], alpha, gamma)


def train(
    dataset: Dataset, cores: int, episodes: int, tau: int, alpha: float = 0.1, gamma: float = 0.95
) -> np.ndarray:
    """Train SEQ Q-learning on several cores as `training.train` does, in double precision.

    Parameters
    ----------
    dataset : Dataset
    cores : int
        Each learns from a contiguous chunk.
    episodes, tau : int
        Passes over each chunk, in all and between synchronisations.
    alpha, gamma : float

    Returns
    -------
    float64 array (states, actions)
    """
    chunks = np.split(records(dataset), np.cumsum(lengths(len(dataset), cores))[:-1])
    q = np.zeros((dataset.n_states, dataset.n_actions))
    for start in range(0, episodes, tau):
        tables = np.repeat(q[np.newaxis], cores, axis=0)
        for table, chunk in zip(tables, chunks, strict=True):
            for _ in range(min(tau, episodes - start)):
                learn(table, chunk, alpha, gamma)
        q = tables.mean(axis=0)
    return q


@functools.cache
def library() -> ctypes.CDLL:
    """Return `reference_fp64.c`, compiled as the authors' release would be: -O2."""
    functions = {
        "learn_doubles": (None, [POINTER, POINTER, INT64, INT64, FLOAT64, FLOAT64]),
        "store_only": (None, [POINTER, INT64]),
    }
    return load_library([SOURCE], functions, flags=["-O2"])
