"""Columns read in order by blocks, and iterators run ahead: the same as without."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.ahead import ahead
from support.errors import InputError
from tracegen.formats.column import ColumnReader

LENGTH = 1000
STORED = {
    "as a trace": {"chunks": (64,), "compression": "lzf", "shuffle": True},
    "with gzip": {"chunks": (64,), "compression": "gzip"},
    "in one part": {},
}


@pytest.fixture(scope="module")
def columns(tmp_path_factory):
    values = np.random.default_rng(3).integers(0, 1 << 40, LENGTH, dtype=np.uint64)
    with h5py.File(tmp_path_factory.mktemp("column") / "c.h5", "w") as file:
        yield values, {name: file.create_dataset(name, data=values, **how) for name, how in STORED.items()}


@settings(max_examples=60)
@given(cuts=st.lists(st.integers(0, LENGTH), min_size=2, max_size=12), overlap=st.integers(0, 70), how=st.data())
def test_ranges_are_the_columns(cuts, overlap, how, columns):
    values, stored = columns
    cuts = sorted(cuts)
    with ThreadPoolExecutor(2) as pool:
        reader = ColumnReader(stored[how.draw(st.sampled_from(list(STORED)))], cuts[-1], pool)
        for begin, end in pairwise(cuts):
            end = min(end + overlap, cuts[-1])
            assert np.array_equal(reader.read(begin, end), values[begin:end])


def test_a_block_that_is_no_lzf_is_named(tmp_path):
    with h5py.File(tmp_path / "c.h5", "w") as file, ThreadPoolExecutor(1) as pool:
        column = file.create_dataset("memory/address", (128,), "<u8", chunks=(64,), compression="lzf", shuffle=True)
        for begin in (0, 64):
            column.id.write_direct_chunk((begin,), b"\xff" * 40)
        with pytest.raises(InputError, match=r"c\.h5: /memory/address cannot be read; the file is damaged"):
            ColumnReader(column, 128, pool).read(0, 100)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_what_runs_ahead_comes_in_order(count):
    assert list(ahead(iter(range(count)))) == list(range(count))


def test_it_is_at_most_so_many_items_ahead():
    made = []
    items = ahead((made.append(number) or number for number in range(100)), depth=3)
    assert [next(items) for _ in range(4)] == [0, 1, 2, 3]
    items.close()
    assert len(made) <= 4 + 3


def test_an_error_comes_in_its_place():
    def items():
        yield 1
        raise InputError("the second is bad")

    running = ahead(items())
    assert next(running) == 1
    with pytest.raises(InputError, match="the second is bad"):
        next(running)
