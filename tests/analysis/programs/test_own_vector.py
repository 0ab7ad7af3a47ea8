"""Vectors that traces make of themselves: kept, found again, made anew."""

from dataclasses import replace

import numpy as np
import pytest

from perfvec.representation import own
from perfvec.representation.represent import represent
from support import cache

COUNT = 3_000


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """The cache's folder of vectors; traces count as long enough."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(own, "LEAST_KEPT", COUNT)
    return tmp_path / "perfvec" / "vectors"


def test_a_vector_is_made_once(small_model, traces, kept, monkeypatch):
    made = own.own_vector(small_model, traces[0], max_instructions=COUNT, progress=False)
    assert np.array_equal(made.vector, represent(small_model, traces[0], max_instructions=COUNT, progress=False).vector)
    (file,) = kept.iterdir()
    monkeypatch.setattr(own, "represent", lambda *_, **__: pytest.fail("it was there"))
    again = own.own_vector(small_model, traces[0], max_instructions=COUNT)
    assert np.array_equal(again.vector, made.vector)
    assert again.interval_vectors.shape == made.interval_vectors.shape
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept.parents[1]))
    file.write_bytes(file.read_bytes()[:-9])
    assert own.kept_vector(small_model, traces[0], max_instructions=COUNT) is None
    assert np.array_equal(own.own_vector(small_model, traces[0], max_instructions=COUNT).vector, made.vector)


def test_of_another_length_model_or_trace_there_is_none(small_model, traces, kept):
    own.own_vector(small_model, traces[0], max_instructions=COUNT, progress=False)
    assert own.kept_vector(small_model, traces[0], max_instructions=COUNT) is not None
    assert own.kept_vector(small_model, traces[0], max_instructions=COUNT + 1) is None
    assert own.kept_vector(small_model, traces[1], max_instructions=COUNT) is None
    assert own.kept_vector(replace(small_model, digest="0" * 64), traces[0], max_instructions=COUNT) is None


def test_short_ones_and_those_without_a_place_are_not_kept(small_model, traces, kept, monkeypatch):
    own.own_vector(small_model, traces[0], max_instructions=COUNT - 1, progress=False)
    assert not kept.exists() or not list(kept.iterdir())
    monkeypatch.setattr(cache, "cache_folders", list)
    assert own.own_vector(small_model, traces[0], max_instructions=COUNT, progress=False).instructions == COUNT
