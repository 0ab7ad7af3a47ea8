"""NPZ files of the toolkit: what is no such file is refused in one line and in little memory."""

import io
import resource
import zipfile

import numpy as np
import pytest

from perfvec.machines.machine_vector import MachineVector, load_machine_vector
from perfvec.representation.library import load_library, save_library
from perfvec.representation.vector import ProgramVector, Sampling, load_vector
from support.arrays import LIMIT, digest, load_arrays, save_arrays
from support.errors import InputError

KINDS = {"name": "U0", "count": "i0", "rows": "f2"}
VALUES = {"name": "täst", "count": 3, "rows": np.arange(6.0).reshape(2, 3)}


def load(path):
    return load_arrays(path, "test/1", KINDS, what="a test file")


def member(shape="(2, 3)", descr="<f8", data=bytes(48)):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + data


def archive(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members:
            file.writestr(name, data)


def test_a_file_round_trips(tmp_path):
    save_arrays(tmp_path / "a.npz", "test/1", VALUES | {"rows": VALUES["rows"].T.copy().T})
    found = load(tmp_path / "a.npz")
    assert found["name"].item() == "täst" and found["count"].item() == 3
    assert (found["rows"] == VALUES["rows"]).all() and found.keys() == KINDS.keys()
    save_arrays(tmp_path / "a.npz", "test/1", VALUES | {"rows": np.empty((0, 3))})
    assert load(tmp_path / "a.npz")["rows"].shape == (0, 3)


HOSTILE = {
    "an array of another size": [("rows.npy", member("(2, 4)"))],
    "an array without end": [("rows.npy", member("(999999999999, 999999999999)"))],
    "a shape that is code": [("rows.npy", member("(__import__('os').getpid(),)"))],
    "objects": [("rows.npy", member("(6,)", "|O"))],
    "complex numbers": [("rows.npy", member("(3,)", "<c16"))],
    "a type of no width": [("rows.npy", member("(16,)", "<f3"))],
    "texts of no characters": [("rows.npy", member("(12,)", "<U1", b"\xff" * 48))],
    "a name twice": [("rows.npy", member())] * 2,
    "many members": [(f"{number}.npy", member()) for number in range(99)],
    "no array": [("rows.npy", b"rows")],
    "an old one": [("rows.npy", member())],
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_archive_is_one_line(tmp_path, what):
    archive(tmp_path / "a.npz", HOSTILE[what])
    with pytest.raises(InputError, match=r"a\.npz: .*expected a test file") as raised:
        load(tmp_path / "a.npz")
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    zeros = np.lib.format.magic(1, 0)
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("rows.npy", "w", force_zip64=True) as stream,
    ):
        stream.write(zeros)
        for _ in range(LIMIT // (32 << 20) + 1):
            stream.write(bytes(32 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="truncated or foreign"):
        load(tmp_path / "a.npz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10  # KiB
    with pytest.raises(InputError, match="at most"):
        save_arrays(tmp_path / "b.npz", "test/1", {"rows": np.broadcast_to(0.0, (LIMIT >> 3, 2))})


def test_a_directory_that_is_lost_or_changed_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    save_arrays(path, "test/1", VALUES)
    data = path.read_bytes()
    for name in (b"rows", b"count"):  # a name in the directory alone
        at = data.rindex(name)
        path.write_bytes(data[:at] + b"R" + data[at + 1 :])
        with pytest.raises(InputError):
            load(path)
    for cut in (0, 5, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(InputError, match="truncated or foreign"):
            load(path)
    path.write_bytes(data + b"\0" * 30)
    with pytest.raises(InputError, match="truncated or foreign"):
        load(path)


def rewritten(path, **changes):
    """The file with other arrays and their right digest; None leaves one out."""
    with np.load(path) as file:
        values = {name: file[name] for name in file.files} | {n: np.asarray(v) for n, v in changes.items()}
    values = {name: value for name, value in values.items() if changes.get(name, 0) is not None}
    values["digest"] = np.asarray(digest(values))
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **values)
    path.write_bytes(stream.getvalue())


def vector(**options):
    return ProgramVector("p", "x86-64", "m", "t", 9, np.ones(4), np.array([4, 5]), np.ones((2, 4)), **options)


SAMPLING = Sampling(10, 50, 20, np.ones((3, 4), np.float32), np.array([0, 1, 1], np.int32), np.array([2.0, 3.0]))
VECTORS = [
    {"instructions": 0},
    {"instructions": 2.0},
    {"vector": np.full(4, np.nan)},
    {"vector": np.ones(4, complex)},
    {"vector": np.ones((4, 1))},
    {"interval_vectors": np.ones((2, 3))},
    {"interval_vectors": np.full((2, 4), np.inf)},
    {"interval_instructions": np.array([-1, 5])},
    {"sampling_factors": None},
    {"sampling_units": 3},
    {"sampling_unit": 0},
    {"sampling_factor_stratum": np.array([0, 1, 2])},
    {"sampling_freedom": np.array([0.5, 1])},
    {"sampling_factors": np.full((3, 4), np.nan)},
    {"extra": 1},
    {"program": None},
]
MACHINES = [
    {"noise": -3.0},
    {"noise": np.nan},
    {"noise": 1j},
    {"frequency_ghz": 0.0},
    {"frequency_ghz": np.inf},
    {"factor": np.ones((4, 3))},
    {"factor": np.full((4, 4), np.inf)},
    {"vector": np.empty(0)},
    {"provenance": "[" * 9999},
    {"provenance": "[]"},
    {"name": 5},
    {"noise": None},
]
LIBRARIES = [
    {"vector": np.ones((1, 4), np.float32)},
    {"vector": np.full((2, 4), np.nan)},
    {"vector": np.ones((2, 0))},
    {"instructions": np.array([9, -9])},
    {"program": np.array(["p"])},
    {"isa": None},
]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *(("vector", one) for one in VECTORS),
        *(("machine", one) for one in MACHINES),
        *(("library", one) for one in LIBRARIES),
    ],
)
def test_arrays_of_another_shape_type_or_range_are_refused(tmp_path, kind, changes):
    path = tmp_path / "a.npz"
    if kind == "vector":
        vector(sampling=SAMPLING).save(path)
        read = load_vector
    elif kind == "machine":
        MachineVector("m", 2.0, "d", np.ones(4), np.eye(4), 0.1).save(path)
        read = load_machine_vector
    else:
        save_library([vector(), vector()], path)
        read = load_library
    read(path)
    rewritten(path)
    read(path)
    rewritten(path, **changes)
    with pytest.raises(InputError, match=r"a\.npz: ") as raised:
        read(path)
    assert "\n" not in str(raised.value)


def test_a_vector_that_lost_its_sampling_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    vector(sampling=SAMPLING).save(path)
    with np.load(path) as file:
        values = {name: file[name] for name in file.files if not name.startswith("sampling_")}
    np.savez(path, **values)
    with pytest.raises(InputError, match="another digest"):
        load_vector(path)
