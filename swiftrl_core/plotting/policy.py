"""The greedy policy of a Q-table, tile by tile, for a map."""

import numpy as np
import pandas as pd

from swiftrl_core.data.environments import Environment, resolve
from swiftrl_core.data.evaluation import check_shape, greedy_policy
from swiftrl_core.util.errors import SwiftRLError


def policy_on_map(environment: str | Environment, q: np.ndarray) -> pd.DataFrame:
    """Return the greedy policy tile by tile, for an environment whose states are the tiles of a letter map.

    Parameters
    ----------
    environment : str or Environment
        FrozenLake of any size: `desc` holds its map, a letter a tile.
    q : (S, A) numbers
        The Q-table.

    Returns
    -------
    DataFrame
        One row a state: row, column, tile (a letter), action (greedy, lowest of equals), value (its Q).

    Raises
    ------
    SwiftRLError
        If the environment has no map with a tile for each state, or the table does not fit.
    """
    environment = resolve(environment)
    check_shape(environment, q, "Q-table")
    tiles = getattr(environment.make().unwrapped, "desc", None)
    if tiles is None or np.size(tiles) != environment.n_states:
        raise SwiftRLError(f"{environment.env_id} has no map with one tile a state; use FrozenLake")
    row, column = np.divmod(np.arange(environment.n_states), np.shape(tiles)[1])
    letters = [tile.decode() for tile in np.ravel(tiles)]
    action = greedy_policy(q).argmax(axis=1)
    return pd.DataFrame(
        {"row": row, "column": column, "tile": letters, "action": action, "value": np.max(q, axis=1)}
    )
