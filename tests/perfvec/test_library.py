"""A library of program vectors: estimates, the file, the shipped one."""

from dataclasses import replace

import numpy as np
import pytest

from perfvec.model import load_model
from perfvec.representation import library
from perfvec.representation.pool import Listed, Pool
from perfvec.representation.represent import represent
from support.errors import InputError
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT


@pytest.mark.slow
def test_an_estimate_is_the_mean_of_units_at_equal_distances(data):
    path = data.traces / "matmul.trace.h5"
    with Trace(path) as trace:
        exact = represent(data.model, path, progress=False)
        assert np.allclose(library.estimate(data.model, trace, 1000).vector, exact.vector)  # it has only 58 units
        some = library.estimate(data.model, trace, 29)
        pool = Pool(data.model, decode(trace.address, trace.code, trace.isa), Listed(np.arange(len(trace) // UNIT)))
        for chunk in trace.chunks():
            pool.observe(chunk)
        every = pool.represent(np.arange(len(trace) // UNIT))
        expected = every[1::2].mean(axis=0) * len(trace) / UNIT
    assert some.instructions == exact.instructions == len(trace)
    assert np.allclose(some.vector, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    whole = every.sum(axis=0) + pool.represent_remainder()
    assert np.linalg.norm(whole - exact.vector) < 0.01 * np.linalg.norm(exact.vector)


@pytest.mark.slow
def test_a_library_is_made_once(data, tmp_path, monkeypatch):
    traces, path = sorted(data.traces.iterdir()), tmp_path / "a.library.npz"
    made = library.represent_library(data.model, traces[:1], path, units=8, progress=False)
    calls = []
    original = library.estimate
    monkeypatch.setattr(library, "estimate", lambda *of: calls.append(of[1].name) or original(*of))
    library.represent_library(data.model, traces, path, units=8, progress=False)
    assert calls == ["qsort"]
    found = library.load_library(path, data.model)
    assert [one.program for one in found] == ["matmul", "qsort"]
    assert np.allclose(found[0].vector, made[0].vector, rtol=1e-6)
    assert found[0].trace_digest == made[0].trace_digest
    with pytest.raises(InputError, match="make it again"):
        library.load_library(path, replace(data.model, digest="other"))


def test_what_is_no_library(data, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        library.load_library(tmp_path / "a.library.npz")
    (tmp_path / "b.library.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="truncated or foreign"):
        library.load_library(tmp_path / "b.library.npz")
    with pytest.raises(InputError, match=r"name the library \*\.library\.npz"):
        library.represent_library(data.model, [], tmp_path / "c.npz")
    with pytest.raises(InputError, match="all of one model"):
        library.save_library([], tmp_path / "d.library.npz")


def test_the_shipped_library_is_of_the_shipped_model():
    found = library.load_library(None, load_model())
    assert len({one.program for one in found}) == len(found) > 20
    assert library.SHIPPED.stat().st_size < 1 << 20


@pytest.mark.slow
def test_a_run_that_is_stopped_loses_no_vector(data, tmp_path, monkeypatch):
    traces, path = sorted(data.traces.iterdir()), tmp_path / "a.library.npz"
    library.represent_library(data.model, traces[1:], path, units=8, progress=False)

    def saved(vectors, output, original=library.save_library):
        original(vectors, output)
        raise KeyboardInterrupt

    monkeypatch.setattr(library, "save_library", saved)
    with pytest.raises(KeyboardInterrupt):
        library.represent_library(data.model, traces, path, units=8, progress=False)
    assert {one.program for one in library.load_library(path, data.model)} == {"matmul", "qsort"}
