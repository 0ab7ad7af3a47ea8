"""Distances as bytes: the tables agree with the formula."""

import numpy as np
from numba import njit

from tracegen.statistics.quantise import FIRST, Codes, code_of, code_tables, quantise


@njit
def coded(distances: np.ndarray, codes: Codes, out: np.ndarray) -> None:
    for index in range(len(distances)):
        out[index] = code_of(distances[index], codes)


def test_tables_give_what_the_formula_gives():
    rng = np.random.default_rng(2)
    codes = code_tables()
    edges = (codes.least[1:FIRST, None] + np.arange(-2, 3)).ravel()
    distances = np.concatenate([np.arange(20_000), edges, 2 ** rng.uniform(0, 40, 20_000)]).astype(np.int64)
    distances = distances[distances >= 0]
    out = np.empty(len(distances), np.uint8)
    coded(distances, codes, out)
    assert (out == quantise(distances)).all()
    coded(np.array([-1]), codes, out[:1])
    assert out[0] == FIRST


def test_quantisation_resolves_nine_per_cent():
    distances = np.array([0, 1, 2, 3, 7, 100, 5000, 10**6])
    codes = quantise(distances)
    assert codes[:2].tolist() == [1, 9]
    assert quantise(np.array([-1]))[0] == 0
    middle = np.exp2((codes - 1.0) / 8)  # of the distances + 1 that have this code
    assert np.allclose(middle, distances + 1, rtol=0.046)  # half a step of 2^(1/8)
