"""State by reference, and rings of release cycles."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uarch.jit import compiled, out_of_line
from uarch.timing.reference import by_reference
from uarch.timing.rings import SPARE, book, new_ring, released

Array = NDArray[np.int64]


@by_reference
class Inner(NamedTuple):
    ring: Array
    table: Array  # [n, 3]


@by_reference
class Outer(NamedTuple):
    inner: Inner
    last: NDArray[np.int8]


def _work(state: Outer, times: int) -> int:
    total = 0
    for k in range(times):
        state.inner.ring[k & (len(state.inner.ring) - 1)] += k
        row = state.inner.table[k & 1]
        row[1] += 1
        total += row[2] + state.last[-1]
    return total


def test_compiled_code_sees_and_changes_the_fields_whatever_their_sizes():
    work = njit(_nrt=False)(_work)
    for entries in (8, 16):
        states = [
            Outer(Inner(np.zeros(entries, np.int64), np.arange(6).reshape(2, 3)), np.array([1, 3], np.int8))
            for _ in range(2)
        ]
        assert work(states[0], 20) == _work(states[1], 20)
        assert (states[0].inner.ring == states[1].inner.ring).all()
        assert (states[0].inner.table == states[1].inner.table).all()
    assert len(work.signatures) == 1  # compiled once


def test_a_ring_keeps_the_releases_of_as_many_entries_as_the_structure_has():
    # Four entries: the fifth waits for the first one's release, however many are booked at a time.
    entries, booked = 4, [(1, 10), (3, 20), (1, 30), (2, 40), (0, 99), (4, 50), (1, 60), (3, 70)]
    ring, all_releases, handed_out = new_ring(entries, -2), [-2] * entries, 0
    for count, cycle in booked:
        handed_out = book(ring, handed_out, count, cycle)
        all_releases += [cycle] * count
        for wanted in range(1, entries + 1):
            assert released(ring, handed_out, wanted, entries) == all_releases[len(all_releases) - entries + wanted - 1]


def test_more_than_the_spare_entries_can_be_booked_at_once():
    ring = new_ring(3 * SPARE, 0)
    assert book(ring, book(ring, 0, 2 * SPARE, 7), SPARE, 8) == 3 * SPARE
    assert [released(ring, 3 * SPARE, k, 3 * SPARE) for k in (1, 2 * SPARE, 2 * SPARE + 1, 3 * SPARE)] == [7, 7, 8, 8]


def test_what_is_rare_is_not_copied_into_what_calls_it():
    """numba's own default, for a function first compiled for one that is always copied into its caller."""
    rare = out_of_line(lambda values: values.sum() + 3)
    hot = compiled(lambda values: rare(values))
    calls = out_of_line(lambda values: hot(values))
    assert calls(np.arange(4)) == 9
    assert rare.overloads and hot.overloads
    assert not any(result.fndesc.inline for result in rare.overloads.values())
    assert all(result.fndesc.inline for result in hot.overloads.values())
