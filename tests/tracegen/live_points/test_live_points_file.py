"""The file: read as written; of damaged ones none is read."""

from __future__ import annotations

from dataclasses import replace

import h5py
import numpy as np
import pytest

from support.errors import InputError
from support.seal import seal
from tracegen.binary.source_lines import source_lines
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import load, save


def test_a_file_is_read_as_it_was_written(points, tmp_path):
    path = tmp_path / "x.livepoints.h5"
    save(points, path)
    again = load(path)
    assert (again.program, again.digest, again.units) == (points.program, points.digest, points.units)
    assert len(points.divisions.static_id)
    assert points.in_flight == again.in_flight
    for group in ("pieces", "sample", "static", "system_calls", "divisions"):
        for name, value in vars(getattr(points, group)).items():
            if isinstance(value, np.ndarray):
                assert np.array_equal(value, getattr(getattr(again, group), name)), name
    assert path.stat().st_size < 20_000 * len(points.pieces)


DAMAGE = {
    "static_id": ("pieces/static_id", lambda d: d.__setitem__(5, 1 << 30)),
    "line_offset": ("pieces/line_offset", lambda d: d.__setitem__(1, -4)),
    "miss": ("pieces/miss_place", lambda d: d.__setitem__(0, 1 << 31)),
    "branch": ("pieces/branch_following", lambda d: d.__setitem__(0, 1 << 31)),
    "accesses": ("pieces/accesses", lambda d: d.__setitem__(0, 77)),
    "unit": ("pieces/unit", lambda d: d.__setitem__(0, 1 << 40)),
    "weight": ("sample/weight", lambda d: d.__setitem__(0, np.nan)),
    "constant": ("sample/signature", lambda d: d.__setitem__((0, 0), 0)),
    "signature": ("sample/signature", lambda d: d.__setitem__((0, 1), 1e30)),
    "stratum": ("sample/stratum", lambda d: d.__setitem__(0, 1 << 20)),
    "is_store": ("pieces/is_store", lambda d: d.__setitem__(0, 2)),
    "operation": ("static/operation", lambda d: d.__setitem__(slice(None), 255)),
    "address_sources": ("static/address_sources", lambda d: d.__setitem__(0, 9)),
    "system call": ("system_calls/static_id", lambda d: d.__setitem__(0, 1 << 30)),
    "no system call": ("system_calls/static_id", lambda d: d.__setitem__(0, 0)),
    "calls": ("system_calls/count", lambda d: d.__setitem__(0, 1 << 62)),
    "no instruction divides": ("divisions/static_id", lambda d: d.__setitem__(0, 1 << 30)),
    "no step": ("divisions/steps", lambda d: d.__setitem__(0, 0)),
    "more steps than there are": ("divisions/steps", lambda d: d.__setitem__(0, 68)),
    "fewer steps": ("divisions/steps", lambda d: d.resize(len(d) - 1, axis=0)),
    "cut at its end": ("pieces/accesses", lambda d: d.resize(len(d) - 1, axis=0)),
    "load": ("pieces/near_load", lambda d: d.__setitem__(0, 1 << 30)),
    "store": ("pieces/near_store", lambda d: d.__setitem__(0, 1 << 30)),
    "loads": ("pieces/near_offset", lambda d: d.__setitem__(1, 1 << 40)),
    "fewer reads": ("pieces/near_times", lambda d: d.resize(len(d) - 1, axis=0)),
    "register": ("static/sources", lambda d: d.__setitem__((0, 0), 200)),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", DAMAGE)
def test_a_file_that_does_not_fit_together_is_refused(points, tmp_path, what):
    path = tmp_path / "x.livepoints.h5"
    save(points, path)
    name, change = DAMAGE[what]
    with h5py.File(path, "r+") as file:
        change(file[name])
    seal(path)
    with pytest.raises(InputError, match=r"x\.livepoints\.h5: .*damaged"):
        load(path)


@pytest.mark.parametrize("in_flight", [0.0, -1.0, np.inf, np.nan])
def test_a_sample_without_instructions_in_flight_is_refused(points, tmp_path, in_flight):
    save(replace(points, in_flight=in_flight), tmp_path / "x.livepoints.h5")
    with pytest.raises(InputError, match="in_flight is no number of instructions"):
        load(tmp_path / "x.livepoints.h5")


def test_a_file_says_which_code_it_is_of(points, traced, tmp_path):
    path = tmp_path / "x.livepoints.h5"
    save(points, path)
    again = load(path)
    with Trace(traced) as opened:
        assert np.array_equal(again.address, opened.address) and np.array_equal(again.code, opened.code)
        assert source_lines(again).equals(source_lines(opened))
    assert "main" in again.symbols()[-1]


def test_other_versions_and_cut_files_are_refused(points, tmp_path):
    path = tmp_path / "x.livepoints.h5"
    save(points, path)
    with h5py.File(path, "r+") as file:
        file.attrs["version"] = 99
    seal(path)
    with pytest.raises(InputError, match="version 99"):
        load(path)
    save(points, path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="SHA-256"):
        load(path)
