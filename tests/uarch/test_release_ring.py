"""Rings of release cycles against a list of all releases; retirement and the cache's answers, by hand."""

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
        assert ring.free_at(cycle) == sum(release <= cycle for release in latest)
        assert ring.free_at(cycle - 1) == sum(release < cycle for release in latest)


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


def test_micro_operations_retire_in_order_and_so_many_a_cycle():
    buffer = parts.ReorderBuffer(8, 2)
    assert buffer.retire(10, 1) == 12
    assert buffer.retire(5, 1) == 12  # complete earlier, but behind the first one
    assert buffer.retire(5, 1) == 13
    assert buffer.retire(5, 4) == 15  # at 13, 14, 14, 15
    buffer.trap(20)
    assert buffer.retired == 20
    assert buffer.retire(5, 1) == 21


def test_of_several_answers_in_a_cycle_the_first_alone_comes_in_time():
    port = parts.ResponsePort(several=False)
    assert [port.answered(5), port.answered(5), port.answered(6)] == [5, 6, 6]
    assert port.taken(5) and not port.taken(7)
    port = parts.ResponsePort(several=True)
    assert [port.answered(5), port.answered(5)] == [5, 5] and not port.taken(5)
