"""The start of each core's random generator (`dpu_src/lcg.h`)."""

import numpy as np

from swiftrl_core.util.errors import SwiftRLError


def random_states(seed: int, cores: np.ndarray) -> np.ndarray:
    """Return the start of each core's generator: distinct for distinct cores, a function of (seed, core) alone.

    The seed is hashed to 32 bits (NumPy's SeedSequence); core number times an odd constant is added and the sum
    scrambled by the finaliser of MurmurHash3. Every step after the hash is one to one in the core number, so no two
    cores of a run start alike.

    Parameters
    ----------
    seed : int
        At least 0.
    cores : int array (n,)
        The cores' numbers.

    Returns
    -------
    uint32 array (n,)

    Raises
    ------
    SwiftRLError
        If the seed is negative.
    """
    if seed < 0:
        raise SwiftRLError(f"seed is {seed}: give a whole number of at least 0")
    base = np.random.SeedSequence(seed).generate_state(1)[0]
    x = base + np.asarray(cores, np.uint32) * np.uint32(0x9E3779B9)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(16))
