"""Logged experience: transitions in columns, checked when they are put together.

A transition is (state, action, reward, next_state, terminated). Two more columns, `truncated` and `episode`, mark where
an episode ended and why: a truncated transition bootstraps, a terminated one does not, and the next state is always the
one that was observed, never the first state of the next episode.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from swiftrl_core.data.environments import Environment, base_id
from swiftrl_core.util.checks import whole_number
from swiftrl_core.util.errors import SwiftRLError

COLUMNS = {
    "state": np.int32,
    "action": np.int32,
    "reward": np.float32,
    "next_state": np.int32,
    "terminated": np.bool_,
    "truncated": np.bool_,
    "episode": np.int32,
}
LEARNED_FROM = ("state", "action", "reward", "next_state", "terminated")
LARGEST_REWARD = float(np.finfo(np.float32).max)
MOST_STATES = 2**31 - 1  # states and actions are int32


@dataclass(frozen=True, eq=False)
class Dataset:
    """Transitions in the order they were logged, one array per column.

    The arrays are checked when the data set is made, and read-only from then on.

    Attributes
    ----------
    state, action, next_state : (n,) int32
    reward : (n,) float32
    terminated : (n,) bool
        The environment ended the episode here: no bootstrap.
    truncated : (n,) bool
        The step limit ended the episode here, without termination: bootstrap. Gymnasium sets both flags when an
        episode terminates on its very last step; here that is only a termination.
    episode : (n,) int32
        Number of the episode, from 0.
    n_states, n_actions : int
        Sizes of the Q-table.
    metadata : dict
        JSON values: ``environment``, ``env_id``, ``kwargs``, ``gymnasium_version``, ``step_limit``, ``reward_range``,
        ``terminal_states``, ``policy``, ``seed``, ``source``; empty for data of unknown origin.

    Raises
    ------
    SwiftRLError
        If a column has the wrong type or length, a value is out of range (the error names the first such row, counted
        from 0), or a terminal state of the environment occurs as `state`.

    Examples
    --------
    >>> from swiftrl_core import collect
    >>> lake = collect("frozenlake", 500, seed=1)
    >>> int(lake.terminated.sum()), lake.reward_range, lake.metadata["env_id"]
    (75, (0.0, 1.0), 'FrozenLake-v1')
    >>> lake.rows(0, 3).state
    array([0, 0, 1], dtype=int32)
    """

    state: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_state: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    episode: np.ndarray
    n_states: int
    n_actions: int
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_columns(self)
        _check_values(self)
        for name in COLUMNS:
            view = getattr(self, name).view()
            view.setflags(write=False)
            object.__setattr__(self, name, view)

    @classmethod
    def logged_in(
        cls,
        environment: Environment,
        columns: dict[str, np.ndarray],
        *,
        source: str,
        policy: str = "unknown",
        seed: int | None = None,
    ) -> "Dataset":
        """Return a data set whose metadata describe the environment it was logged in.

        Parameters
        ----------
        environment : Environment
        columns : dict of arrays (n,)
            Those of `COLUMNS`.
        source : str
            Where the rows come from: `collected`, a file's name, `minari:ID`.
        policy : str
            What chose the actions.
        seed : int, optional
            The seed that decided every row.

        Raises
        ------
        SwiftRLError
            As for `Dataset`.
        """
        metadata = {
            "environment": environment.name,
            "env_id": environment.env_id,
            "kwargs": environment.kwargs,
            "gymnasium_version": environment.gymnasium_version,
            "step_limit": environment.step_limit,
            "reward_range": list(environment.reward_range),
            "terminal_states": np.flatnonzero(environment.terminal).tolist(),
            "policy": policy,
            "seed": seed,
            "source": source,
        }
        return cls(
            **columns, n_states=environment.n_states, n_actions=environment.n_actions, metadata=metadata
        )

    def __len__(self) -> int:
        return len(self.state)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The columns by name, in the order of `COLUMNS`."""
        return {name: getattr(self, name) for name in COLUMNS}

    @property
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest reward: the environment's where it is known, else those of the data."""
        known = self.metadata.get("reward_range")
        low, high = known or (self.reward.min(), self.reward.max())
        return float(low), float(high)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the columns' names, types and little-endian bytes, in hexadecimal."""
        digest = hashlib.sha256()
        for name, dtype in COLUMNS.items():
            little = np.dtype(dtype).newbyteorder("<")
            digest.update(f"{name}:{little.str};".encode())
            digest.update(np.ascontiguousarray(getattr(self, name), little).data)
        return digest.hexdigest()

    def rows(self, start: int, stop: int) -> "Dataset":
        """Return rows start, ..., stop - 1 as a data set that shares this one's memory.

        Raises
        ------
        SwiftRLError
            Unless 0 <= start < stop <= len(self).
        """
        if not 0 <= start < stop <= len(self):
            raise SwiftRLError(f"rows {start} to {stop} do not exist; the data set has rows 0 to {len(self)}")
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        return Dataset(**columns, n_states=self.n_states, n_actions=self.n_actions, metadata=self.metadata)


Place = tuple[str, int]
ROW, LINE = ("row", 0), ("line", 1)
"""How an error names a transition: rows count from 0, lines from 1."""


def refuse_first(wrong: np.ndarray, place: Place, complaint: str, *values: np.ndarray) -> None:
    """Raise `SwiftRLError` if any element is True, naming the first; `complaint` is formatted with its values."""
    index = int(np.argmax(wrong))
    if wrong[index]:
        (unit, first), found = place, (value[index] for value in values)
        raise SwiftRLError(f"{unit} {first + index}: {complaint.format(*found)}")


def _check_columns(dataset: Dataset) -> None:
    """Check types, shapes and sizes, before any value is looked at."""
    whole_number(dataset.n_states, "n_states", 1, MOST_STATES)
    whole_number(dataset.n_actions, "n_actions", 1, MOST_STATES)
    rows = len(dataset.state) if isinstance(dataset.state, np.ndarray) and dataset.state.ndim == 1 else -1
    if rows == 0:
        raise SwiftRLError("the data set holds no transitions; at least one is needed")
    for name, dtype in COLUMNS.items():
        column = getattr(dataset, name)
        is_array = isinstance(column, np.ndarray)
        if not is_array or column.dtype != dtype or column.shape != (rows,):
            found = f"{column.dtype} {column.shape}" if is_array else type(column).__name__
            length = "n" if rows < 0 else rows
            raise SwiftRLError(f"column {name} is {found}, expected an array {np.dtype(dtype)} ({length},)")
    if not isinstance(dataset.metadata, dict):
        raise SwiftRLError(f"metadata is {type(dataset.metadata).__name__}, expected a dict of JSON values")
    _check_metadata(dataset)


def _check_metadata(dataset: Dataset) -> None:
    """Check the metadata that this package reads; the file they come from may be damaged, or written by others."""
    known = dataset.metadata
    if (rewards := known.get("reward_range")) is not None:
        numbers = isinstance(rewards, list | tuple) and [x for x in rewards if isinstance(x, int | float)]
        if not numbers or len(numbers) != 2 or len(rewards) != 2 or not np.isfinite(numbers).all():
            raise SwiftRLError(f"the metadata's reward_range is {rewards!r}, expected two finite numbers")
    terminal = known.get("terminal_states") or []
    if not isinstance(terminal, list | tuple):
        raise SwiftRLError(f"the metadata's terminal_states is {terminal!r}, expected a list of states")
    for state in terminal:
        whole_number(state, "a terminal state of the metadata", 0, dataset.n_states - 1)
    if not isinstance(known.get("env_id", ""), str):
        raise SwiftRLError(f"the metadata's env_id is {known['env_id']!r}, expected the environment's name")


def sizes(sized: Dataset | Environment) -> dict[str, int]:
    """Return how many values each column of states or actions can take."""
    return {"state": sized.n_states, "action": sized.n_actions, "next_state": sized.n_states}


def check_range(name: str, column: np.ndarray, size: int, place: Place) -> None:
    """Raise `SwiftRLError` unless a column (n,) is in 0..size - 1, naming the first row that is not."""
    refuse_first((column < 0) | (column >= size), place, f"{name} {{}} is not in 0..{size - 1}", column)


def _check_values(dataset: Dataset) -> None:
    """Check every value against the sizes and the environment that the metadata describe."""
    for name, size in sizes(dataset).items():
        check_range(name, getattr(dataset, name), size, ROW)
    reward, both = dataset.reward, dataset.terminated & dataset.truncated
    refuse_first(~np.isfinite(reward), ROW, "reward {} is not a finite number", reward)
    refuse_first(both, ROW, "both terminated and truncated, expected at most one")
    refuse_first(dataset.episode < 0, ROW, "episode {} is negative", dataset.episode)
    if (known := dataset.metadata.get("reward_range")) is not None:
        low, high = np.clip(known, -LARGEST_REWARD, LARGEST_REWARD).astype(np.float32)
        outside = (reward < low) | (reward > high)
        refuse_first(outside, ROW, f"reward {{}} is not in the environment's range {low:g}..{high:g}", reward)
    if terminal := dataset.metadata.get("terminal_states"):
        is_terminal = np.zeros(dataset.n_states, bool)
        is_terminal[terminal] = True
        _check_terminal(is_terminal, dataset.state, ROW)


def _check_terminal(is_terminal: np.ndarray, state: np.ndarray, place: Place) -> None:
    """Refuse an episode that continues after its end: bootstrapping and the exact evaluation assume there is none."""
    refuse_first(
        is_terminal[state],
        place,
        "state {} is terminal, so no transition can start there; drop the rows logged after an episode's end",
        state,
    )


def check_environment(dataset: Dataset, environment: Environment) -> None:
    """Raise `SwiftRLError` if a data set was logged in another environment; versions may differ."""
    env_id, kwargs = (dataset.metadata.get(name) for name in ("env_id", "kwargs"))
    if env_id is None or (base_id(env_id), kwargs) == (base_id(environment.env_id), environment.kwargs):
        return
    stored, given = (
        f"{name} with {options}" if options else name
        for name, options in ((env_id, kwargs), (environment.env_id, environment.kwargs))
    )
    raise SwiftRLError(
        f"the data was logged in {stored}, not in {given}; name the environment it comes from, or none"
    )


def check_possible(columns: dict[str, np.ndarray], environment: Environment, place: Place = ROW) -> None:
    """Check that the environment can produce every transition, flag included, where ``P`` is exact.

    Raises
    ------
    SwiftRLError
        Naming the first transition that it cannot.
    """
    for name, size in sizes(environment).items():
        check_range(name, columns[name], size, place)
    state, action, reward, next_state, terminated = (columns[name] for name in LEARNED_FROM)
    _check_terminal(environment.terminal, state, place)
    if environment.inexact:
        return
    outcomes = environment.probability.shape[2]
    first = (state.astype(np.int64) * environment.n_actions + action) * outcomes
    possible = np.zeros(len(state), bool)
    for outcome in (first + k for k in range(outcomes)):
        follows = environment.next_state.ravel()[outcome] == next_state
        pays = environment.reward.ravel()[outcome].astype(np.float32) == reward
        ends = environment.terminated.ravel()[outcome] == terminated
        possible |= follows & pays & ends & (environment.probability.ravel()[outcome] > 0)
    refuse_first(
        ~possible,
        place,
        f"{environment.env_id} cannot go from state {{}} by action {{}} with reward {{:g}} to state {{}}, "
        "terminated {}; name the environment and arguments the data comes from",
        *(columns[name] for name in LEARNED_FROM),
    )
