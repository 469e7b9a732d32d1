"""A data set as the kernels read it: packed 8-byte records, cut into one contiguous chunk for each core."""

from dataclasses import dataclass

import numpy as np

from swiftrl_core.data import Dataset
from swiftrl_core.learner import Learner, Sampling
from swiftrl_core.learner.layout import constant, struct
from swiftrl_core.util.errors import SwiftRLError


@dataclass(frozen=True, eq=False)
class Chunks:
    """Every core's share of the data.

    Attributes
    ----------
    records : structured array (n,)
        `struct transition` of layout.h, 8 bytes each, in the data set's order; in REV each chunk from its end.
    starts : int64 array (cores + 1,)
        Chunk i is records[starts[i]:starts[i + 1]].
    numbers : int64 array (cores,)
        The number of the core that owns chunk i, which seeds its random generator.
    """

    records: np.ndarray
    starts: np.ndarray
    numbers: np.ndarray

    @property
    def cores(self) -> int:
        """Number of chunks."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Rows in each chunk, int64 (cores,)."""
        return np.diff(self.starts)

    def chunk(self, core: int) -> np.ndarray:
        """Return one core's records."""
        return self.records[self.starts[core] : self.starts[core + 1]]


def lengths(rows: int, cores: int) -> np.ndarray:
    """Return the rows of each core's chunk, int64 (cores,): the first (rows mod cores) chunks hold one row more."""
    short, longer = divmod(rows, cores)
    return np.where(np.arange(cores) < longer, short + 1, short)


def split(dataset: Dataset, learner: Learner, cores: int) -> Chunks:
    """Pack a data set and cut it into contiguous chunks, of the lengths that `lengths` gives.

    Parameters
    ----------
    dataset : Dataset
    learner : Learner
        Its number format is that of the records' rewards; in REV each chunk is reversed.
    cores : int
        Number of chunks, from 1 to the number of rows.

    Raises
    ------
    SwiftRLError
        If there are more cores than transitions, a reward lies outside the learner's range, or the states and
        actions are too many for a record.
    """
    rows = len(dataset)
    if not 1 <= cores <= rows:
        raise SwiftRLError(
            f"{cores} cores for {rows:,} transitions: use from 1 to {rows:,} cores, so that each has a transition"
        )
    starts = np.concatenate(([0], np.cumsum(lengths(rows, cores))))
    records = pack(dataset, learner)
    if learner.sampling == Sampling.REV:
        records = _reversed(records, starts)
    return Chunks(records, starts, np.arange(cores))


def _reversed(records: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the records with those of each chunk in reverse order, so that SEQ over them is REV over the data."""
    mirrored = np.repeat(starts[:-1] + starts[1:] - 1, np.diff(starts))
    return records[mirrored - np.arange(len(records))]


def pack(dataset: Dataset, learner: Learner) -> np.ndarray:
    """Return the data set as records of `struct transition`, shape (n,); errors as for `split`."""
    _check_fits(dataset, learner)
    records = np.empty(len(dataset), struct("transition", learner.dtype))
    pair = dataset.state.astype(np.uint32) * np.uint32(dataset.n_actions) + dataset.action.astype(np.uint32)
    next_state = dataset.next_state.astype(np.uint32) << np.uint32(16)
    records["step"] = pair | next_state | dataset.terminated.astype(np.uint32) << np.uint32(31)
    records["reward"] = learner.to_raw(dataset.reward)
    return records


def _check_fits(dataset: Dataset, learner: Learner) -> None:
    pairs, states = dataset.n_states * dataset.n_actions, dataset.n_states
    if pairs > constant("PAIR_LIMIT") or states > constant("STATE_LIMIT"):
        raise SwiftRLError(
            f"{states:,} states x {dataset.n_actions} actions do not fit an 8-byte record: it holds up to "
            f"{constant('STATE_LIMIT'):,} states and {constant('PAIR_LIMIT'):,} pairs; use a smaller environment"
        )
    low, high = dataset.reward_range
    if not (learner.reward_range[0] <= low and high <= learner.reward_range[1]):
        raise SwiftRLError(
            f"the data set's rewards run from {low:g} to {high:g}, outside the learner's reward_range "
            f"{learner.reward_range}: make the learner with reward_range=dataset.reward_range"
        )
