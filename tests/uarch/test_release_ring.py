"""Rings of release cycles against a list of all releases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uarch.timing._core import parts


def same_as_a_list(entries, booked):
    """Book (count, cycle) pairs; after each the ring must know of its latest `entries` entries what a list does."""
    ring, all_releases = parts.ReleaseRing(entries, -2), [-2] * entries
    for count, cycle in booked:
        ring.book(count, cycle)
        all_releases += [cycle] * count
        assert ring.handed_out == len(all_releases) - entries
        latest = all_releases[-entries:]
        assert [ring.released(wanted) for wanted in range(1, entries + 1)] == latest
        assert ring.released(entries + 5) == latest[-1]  # no more than all


def test_a_ring_keeps_the_releases_of_as_many_entries_as_the_structure_has():
    # Four entries: the fifth waits for the first one's release, however many are booked at a time.
    same_as_a_list(4, [(1, 10), (3, 20), (1, 30), (2, 40), (0, 99), (4, 50), (1, 60), (3, 70)])


@pytest.mark.parametrize("spare", [4, 16])
def test_more_than_the_spare_entries_can_be_booked_at_once(spare):
    ring = parts.ReleaseRing(3 * spare, 0)
    ring.book(2 * spare, 7)
    ring.book(spare, 8)
    assert ring.handed_out == 3 * spare
    assert [ring.released(k) for k in (1, 2 * spare, 2 * spare + 1, 3 * spare)] == [7, 7, 8, 8]


@given(st.integers(1, 40), st.lists(st.integers(0, 90), max_size=60))
def test_a_ring_slides_along_its_memory_and_forgets_nothing(entries, counts):
    same_as_a_list(entries, [(count, cycle) for cycle, count in enumerate(counts)])
