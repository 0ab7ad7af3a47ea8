"""Chunks that h5py reads and writes alike."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracegen.formats import lzf

N = 4096
RANDOM = np.random.default_rng(0)
CONTENTS = {
    "constant": np.full(N, 7),
    "noise": RANDOM.integers(0, 2**63, N, np.uint64),
    "ascending": np.cumsum(RANDOM.integers(0, 9, N)),
    "periodic": np.tile(RANDOM.integers(0, 2**40, 64), N // 64),
    "sparse": np.where(RANDOM.random(N) < 0.01, 255, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["u1", "<u4", "<u8"])
@pytest.mark.parametrize("content", CONTENTS)
def test_h5py_reads_our_chunks_and_we_read_its(tmp_path, content, dtype):
    values = CONTENTS[content].astype(dtype)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        options = {"shape": (N,), "chunks": (N,), "dtype": dtype, "compression": "lzf", "shuffle": True}
        ours = file.create_dataset("ours", **options)
        ours.id.write_direct_chunk((0,), lzf.encode(values))
        theirs = file.create_dataset("theirs", **options)
        theirs[:] = values
        assert np.array_equal(ours[:], values)
        file.flush()
        mask, stored = theirs.id.read_direct_chunk((0,))
    assert np.array_equal(lzf.decode(stored, mask, dtype, N), values)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=900), st.sampled_from(["u1", "<u4", "<u8"]))
def test_round_trip(numbers, dtype):
    values = np.array(numbers, dtype)
    assert np.array_equal(lzf.decode(lzf.encode(values), 0, dtype, len(values)), values)


@pytest.mark.parametrize("period", [*range(1, 40), 300, 8191])
def test_what_repeats_at_any_distance_is_read(tmp_path, period):
    values = np.tile(RANDOM.integers(0, 256, period, np.uint8), 20_000 // period)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        theirs = file.create_dataset("t", data=values, chunks=values.shape, compression="lzf", shuffle=True)
        file.flush()
        mask, stored = theirs.id.read_direct_chunk((0,))
    assert np.array_equal(lzf.decode(stored, mask, "u1", len(values)), values)
    assert np.array_equal(lzf.decode(lzf.encode(values), 0, "u1", len(values)), values)


@given(st.binary(max_size=200))
def test_damage_is_an_error_not_a_crash(stored):
    try:
        assert len(lzf.decode(stored, 0, "<u8", 16)) == 16
    except ValueError as error:
        assert "damaged" in str(error)
