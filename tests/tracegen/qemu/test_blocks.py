"""The table of translated blocks, read from windows that the plugin fills while they are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tracegen.qemu import blocks
from tracegen.qemu.blocks import BlockTable

PART = 4096  # the plugin's are larger; the rules are the same
FULL = (169, 1)  # instructions of blocks that fill a part to the last byte: 2·16 + 170·24


@pytest.fixture(scope="module")
def folder_factory(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", PART)
        yield lambda: tmp_path_factory.mktemp("blocks")


def parts_of(counts):
    """The file after each block, as plugin.c's `place` fills it; addresses number the instructions."""
    data, used, address = bytearray(), PART, 0
    for number, count in enumerate(counts):
        words = [number + 1, count]
        for _ in range(count):
            words += [address, 0x90, 0]
            address += 1
        descriptor = np.array(words, "<u8").tobytes()
        if used + len(descriptor) > PART:
            data += bytes(-len(data) % PART + PART)
            used = 0
        begin = len(data) - PART + used
        data[begin : begin + len(descriptor)] = descriptor
        used += len(descriptor)
        yield bytes(data)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 169), st.booleans()), min_size=1, max_size=40))
@example([(count, False) for count in 3 * FULL])  # all three before the first look
@example([(count, True) for count in 3 * FULL])
def test_blocks_are_read_whenever_one_looks(folder_factory, steps):
    folder = folder_factory()
    table = BlockTable(folder, "x86-64")
    counts = [count for count, _ in steps]
    for written, ((_, look), data) in enumerate(zip(steps, parts_of(counts), strict=True), 1):
        if look or written == len(counts):
            (folder / "blocks").write_bytes(data)
            assert table.update()
            assert np.diff(table.kernel.begin).tolist() == counts[:written]
            assert table.kernel.address.tolist() == list(range(sum(counts[:written])))
    assert not table.update()
