"""A chunk dealt out to the tasklets of a DPU, by state-action pairs: what `dpu_src/tasklet_learner.c` reads.

Each pair's transitions go to one tasklet, in the chunk's order, as a run (`struct run` of layout.h): its head, then its
outcomes, 8 bytes each. Pairs go out by longest processing time first: the one with the most transitions to the tasklet
with the least to do so far, then the next. The busiest tasklet then has at most 4/3 of the least possible (Graham,
SIAM J. Appl. Math. 17, 1969). The result of learning does not depend on how pairs are dealt, the time does.
"""

from dataclasses import dataclass

import numpy as np

from swiftrl_core.chunks import Chunks
from swiftrl_core.layout import constant, struct


@dataclass(frozen=True, eq=False)
class Dealt:
    """Every core's chunk as its tasklets read it.

    Attributes
    ----------
    words : structured array (n,)
        Heads and outcomes, 8 bytes each, as `struct outcome`; core by core, tasklet by tasklet, pair by pair.
    starts : int64 array (cores + 1,)
        Core i's words are words[starts[i]:starts[i + 1]].
    shares : uint32 array (cores, tasklets + 1)
        Tasklet t of core i has words shares[i, t] up to shares[i, t + 1], exclusive, of its core's.
    """

    words: np.ndarray
    starts: np.ndarray
    shares: np.ndarray

    def core(self, core: int) -> np.ndarray:
        """Return one core's words."""
        return self.words[self.starts[core] : self.starts[core + 1]]


def deal(chunks: Chunks, n_states: int, tasklets: int) -> Dealt:
    """Deal every chunk out to the tasklets of its DPU.

    Parameters
    ----------
    chunks : Chunks
    n_states : int
        Where an episode terminated, the next state is this number.
    tasklets : int
        At least 1; one without a pair gets an empty share.

    Returns
    -------
    Dealt
    """
    step = chunks.records["step"]
    core, pair, run_of, sizes = _runs(chunks)
    tasklet = _longest_first(core, sizes + 1, chunks.cores, tasklets)

    order = np.lexsort((pair, tasklet, core))  # of the runs, in the words
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    rows = np.argsort(place[run_of], kind="stable")  # of the records, a run's in the chunk's order

    words = np.empty(len(step) + len(order), struct("outcome", chunks.records.dtype["reward"]))
    outcomes = np.arange(len(rows)) + place[run_of[rows]] + 1  # a head before each run, its own included
    terminated = step[rows] >> 31 != 0
    words["next"][outcomes] = np.where(terminated, n_states, step[rows] >> 16 & 0x7FFF)
    words["reward"][outcomes] = chunks.records["reward"][rows]
    ends = np.cumsum(sizes[order] + 1)
    heads = words.view(struct("run", words.dtype["reward"]))
    heads["pair"][ends - sizes[order] - 1] = pair[order]
    heads["transitions"][ends - sizes[order] - 1] = sizes[order]

    lengths = np.bincount(core * tasklets + tasklet, sizes + 1, chunks.cores * tasklets).astype(np.int64)
    shares = np.zeros((chunks.cores, tasklets + 1), np.int64)
    np.cumsum(lengths.reshape(-1, tasklets), axis=1, out=shares[:, 1:])
    starts = np.concatenate(([0], np.cumsum(shares[:, -1])))
    return Dealt(words, starts, shares.astype(np.uint32))


def words_of(chunks: Chunks) -> np.ndarray:
    """Return how many words each chunk becomes, int64 (cores,): a transition each, and a pair each."""
    core, *_ = _runs(chunks)
    return chunks.lengths + np.bincount(core, minlength=chunks.cores)


def _runs(chunks: Chunks) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return each run's core and pair, int64 (runs,), the run of each record (n,), and how many each has (runs,)."""
    pairs = constant("PAIR_LIMIT")
    core = np.repeat(np.arange(chunks.cores), chunks.lengths)
    key = core * pairs + chunks.records["step"] % pairs
    found, run_of, sizes = np.unique(key, return_inverse=True, return_counts=True)
    return *np.divmod(found, pairs), run_of, sizes


def _longest_first(core: np.ndarray, words: np.ndarray, cores: int, tasklets: int) -> np.ndarray:
    """Return the tasklet of each run, int64 (runs,): the longest first, to whom has least; of equals the first.

    Runs come sorted by core and pair. All cores deal at once: their longest runs, then their second longest, ...
    """
    order = np.lexsort((-words, core))
    first = np.concatenate(([0], np.cumsum(np.bincount(core, minlength=cores))))
    rank = np.arange(len(order)) - first[core[order]]
    tasklet = np.empty(len(order), np.int64)
    load = np.zeros((cores, tasklets), np.int64)
    by_rank = order[np.argsort(rank, kind="stable")]
    for runs in np.split(by_rank, np.cumsum(np.bincount(rank))[:-1]):
        least = load[core[runs]].argmin(axis=1)
        tasklet[runs] = least
        load[core[runs], least] += words[runs]
    return tasklet
