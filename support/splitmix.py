"""SplitMix64 (Steele, Lea & Flood, OOPSLA 2014), whose random numbers need none of those before them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def splitmix(step: NDArray[np.uint64], seed: NDArray[Any] | np.uint64 = np.uint64(0)) -> NDArray[np.uint64]:
    """Return the generator's number so many steps from the seed, for each of an array of any shape."""
    state = seed + step * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))
