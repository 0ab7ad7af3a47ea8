"""When a cache has room for one more miss, by hand."""

from uarch.timing.mshrs import EARLIER, book, free_from, new_mshrs, occupied


def booked(mshrs, *misses):
    bookings = new_mshrs()[0]
    for begin, end in misses:
        book(bookings, mshrs, begin, end)
    return bookings


def test_a_miss_is_under_way_from_its_first_cycle_to_before_its_last():
    two = booked(2, (10, 30), (20, 40))
    assert [occupied(two, 2, cycle) for cycle in (9, 10, 19, 20, 29, 30, 39, 40)] == [0, 1, 1, 2, 2, 1, 1, 0]


def test_the_next_miss_waits_until_one_is_free():
    two = booked(2, (10, 30), (20, 40))
    assert free_from(two, 2, 2, 15) == 15
    assert free_from(two, 2, 2, 20) == 30
    assert free_from(two, 2, 1, 15) == 40  # none may be taken


def test_a_miss_that_comes_earlier_does_not_displace_one_that_comes_later():
    two = booked(2, (100, 120), (101, 121), (10, 30), (11, 31))
    assert occupied(two, 2, 110) == 2
    assert occupied(two, 2, 20) == 2


def test_an_earlier_miss_makes_a_later_one_hold_its_mshr_later():
    two = booked(2, (100, 120), (101, 121), (90, 110))
    assert [occupied(two, 2, cycle) for cycle in (95, 100, 109, 110, 119, 120, 129, 130)] == [1, 2, 2, 2, 2, 1, 1, 0]
    one_after_another = booked(2, (100, 120), (120, 140), (90, 190))  # never more than one other at a time
    assert [occupied(one_after_another, 2, cycle) for cycle in (95, 110, 130, 150)] == [1, 2, 2, 1]


def test_taking_the_last_one_tells_when_the_first_is_free_again():
    bookings = new_mshrs()[0]
    assert book(bookings, 2, 10, 30) == 0
    assert book(bookings, 2, 20, 40) == 30


def test_no_miss_goes_where_a_forgotten_one_was():
    bookings, cycle = new_mshrs()[0], 0
    for _ in range(3 * EARLIER):  # all are wanted in cycle 0, and there is one MSHR
        begin = free_from(bookings, 1, 1, 0)
        assert begin == cycle
        cycle += 100
        book(bookings, 1, begin, cycle)
