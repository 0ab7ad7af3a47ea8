"""The cycles in which a cache has room for one more miss, by hand."""

from uarch.timing._core import parts


def booked(mshrs, *misses):
    file = parts.MshrFile(mshrs)
    for begin, end in misses:
        file.book(begin, end)
    return file


def test_a_miss_is_under_way_from_its_first_cycle_to_before_its_last():
    two = booked(2, (10, 30), (20, 40))
    assert [two.occupied(cycle) for cycle in (9, 10, 19, 20, 29, 30, 39, 40)] == [0, 1, 1, 2, 2, 1, 1, 0]


def test_the_next_miss_waits_until_one_is_free():
    two = booked(2, (10, 30), (20, 40))
    assert two.free_from(15) == 15
    assert two.free_from(20) == 30
    assert two.free_from(15, most=1) == 40  # none may be taken


def test_a_miss_that_comes_earlier_does_not_displace_one_that_comes_later():
    two = booked(2, (100, 120), (101, 121), (10, 30), (11, 31))
    assert two.occupied(110) == 2
    assert two.occupied(20) == 2


def test_an_earlier_miss_makes_a_later_one_hold_its_mshr_later():
    two = booked(2, (100, 120), (101, 121), (90, 110))
    assert [two.occupied(cycle) for cycle in (95, 100, 109, 110, 119, 120, 129, 130)] == [1, 2, 2, 2, 2, 1, 1, 0]
    one_after_another = booked(2, (100, 120), (120, 140), (90, 190))  # never more than one other at a time
    assert [one_after_another.occupied(cycle) for cycle in (95, 110, 130, 150)] == [1, 2, 2, 1]


def test_taking_the_last_one_tells_when_the_first_is_free_again():
    file = parts.MshrFile(2)
    assert file.book(10, 30) == 0
    assert file.book(20, 40) == 30


def test_no_miss_goes_where_a_forgotten_one_was():
    file, cycle = parts.MshrFile(1), 0
    for _ in range(3 * parts.MshrFile.EARLIER):  # all are wanted in cycle 0, and there is one MSHR
        begin = file.free_from(0)
        assert begin == cycle
        cycle += 100
        file.book(begin, cycle)
