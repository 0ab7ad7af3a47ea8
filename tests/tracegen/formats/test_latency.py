"""Latency files: latencies of any length; what version 1 cut is known as such."""

import h5py
import numpy as np
import pytest

from support.errors import InputError
from support.seal import seal
from tests.latency_files import as_version_1
from tracegen.formats.latency import LatencyFile, LatencyWriter, join
from uarch.machine_files import load_machine

LATENCY = np.array([[1, 65_534, 65_535, 65_536, 0], [3, 0, 15_000_000, 4_294_967_295, 1]], np.uint32)


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "t.latency.h5", ["base", "cortex-a53"], LATENCY)


def written(path, machines, latency):
    about = {"machines": [load_machine(name) for name in machines], "trace": "t", "trace_digest": "0"}
    with LatencyWriter(path, **about, start=7, simulator="embedded") as writer:
        writer.append(latency[:, :2])
        writer.append(latency[:, 2:])
        writer.counters(np.ones((len(machines), 1)), ["instructions"])
    return path


def test_a_latency_of_any_length_is_kept(path):
    with LatencyFile(path) as file:
        assert (file.read(0, 5) == LATENCY).all()
        assert (file.read(1, 4, rows=[1]) == LATENCY[1:, 1:4]).all()
        assert file.cycles().tolist() == LATENCY.sum(axis=1, dtype=np.int64).tolist()
        assert not file.cut(file.read(0, 5)).any()


def test_version_1_is_read_and_what_it_may_have_cut_is_known(path):
    as_version_1(path)
    with LatencyFile(path) as file:
        found = file.read(0, 5)
        assert (found == np.minimum(LATENCY, 65_535)).all()
        assert (file.cut(found) == (LATENCY >= 65_535)).all()


@pytest.mark.parametrize("version", [0, 3])
def test_another_version_is_refused(path, version):
    with h5py.File(path, "r+") as file:
        file.attrs["version"] = version
    seal(path)
    with pytest.raises(InputError, match=rf"version {version} of perfvec-latency; this release reads versions 1 to 2"):
        LatencyFile(path)


def test_the_type_is_that_of_the_version(path):
    with h5py.File(path, "r+") as file:
        file.attrs["version"] = 1
    seal(path)
    with pytest.raises(InputError, match="latency"):
        LatencyFile(path)


def test_files_of_one_window_become_one(path, tmp_path):
    other = written(tmp_path / "other.latency.h5", ["cortex-a72"], LATENCY[1:] // 2)
    join([path, other], tmp_path / "all.latency.h5")
    with LatencyFile(tmp_path / "all.latency.h5") as file:
        assert (file.read(0, 5) == np.concatenate([LATENCY, LATENCY[1:] // 2])).all()
        assert [machine.name for machine in file.machines] == ["base", "cortex-a53", "cortex-a72"]


def test_a_cut_latency_is_not_joined_with_whole_ones(path, tmp_path):
    other = written(tmp_path / "other.latency.h5", ["cortex-a72"], LATENCY[1:])
    as_version_1(other)
    with pytest.raises(
        InputError, match=r"other\.latency\.h5: is of version 1, which an older release made; remove it"
    ):
        join([path, other], tmp_path / "all.latency.h5")
    assert not (tmp_path / "all.latency.h5").exists()
