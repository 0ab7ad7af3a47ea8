"""A short form of `make fuzz`: mutated files of every kind are refused in one line, or read as what they are."""

import random

import pytest

from tests.fuzz.mutate import mutated
from tests.fuzz.readers import READERS
from tests.fuzz.run import fuzz

pytestmark = pytest.mark.slow

SLOW = [name for name in READERS if name.startswith(("unsealed.", "gem5.", "stats.", "ideal."))]


@pytest.mark.parametrize(("names", "each"), [(SLOW, 2), ([name for name in READERS if name not in SLOW], 20)])
def test_mutated_files_are_refused_in_a_line_or_read(tmp_path, names, each):
    found, told = fuzz(names, each * len(names), seed=7, folder=tmp_path)
    assert told == [] and found.total() == each * len(names)


def test_a_case_is_always_the_same():
    data = bytes(range(256)) * 4
    assert len({mutated(data, random.Random("x 1 2")) for _ in range(3)}) == 1
    assert len({mutated(data, random.Random(f"x 1 {case}")) for case in range(50)}) > 45


def test_what_a_reader_does_wrong_is_found(tmp_path):
    """A process that ends, hangs or takes memory, an exception, an unclear line, other content of a sealed file."""
    found, told = fuzz(["selftest"], 6, seed=1, folder=tmp_path, cpu_s=1.0)
    assert dict(found) == dict.fromkeys(("crash", "hang", "memory", "traceback", "unclear", "silent"), 1)
    assert len(told) == 6 and told[0].startswith("selftest 1:0 crash: ")
