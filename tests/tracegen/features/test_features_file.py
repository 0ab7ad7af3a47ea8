"""The features file: what is written is read, and damage of any kind is a single line, not a wrong number."""

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from support.errors import InputError
from support.seal import BLOCK, check_seal, seal
from tests.fuzz import CASES
from tracegen.decode import decode
from tracegen.features import SCHEMAS
from tracegen.features.file import FORMAT, FeaturesFile, extract
from tracegen.formats.trace import Trace, TraceWriter

# A loop: mov rax, [rdi]; add rax, rbx; mov [rsi], rax; dec rcx; jne; behind it a ret.
LOOP = ["488b07", "4801d8", "488906", "48ffc9", "75f2", "c3"]


def write_trace(path, iterations=9000):
    code = np.zeros((len(LOOP), 16), np.uint8)
    lengths = []
    for row, text in enumerate(LOOP):
        raw = bytes.fromhex(text)
        code[row, : len(raw)] = list(raw)
        lengths.append(len(raw))
    static_id = np.append(np.tile(np.arange(5, dtype=np.uint32), iterations), np.uint32(5))
    count = len(static_id)
    loads = np.arange(0, count - 1, 5, dtype=np.uint64)
    who = np.sort(np.concatenate([loads, loads + np.uint64(2), [np.uint64(count - 1)]]))
    address = np.random.default_rng(1).integers(0x10000, 0x90000, len(who)).astype(np.uint64)
    with TraceWriter(path, isa="x86-64", program="loop", command=["loop"], source="test") as writer:
        writer.static(0x1000 + np.cumsum([0, *lengths[:-1]]).astype(np.uint64), code)
        writer.append(static_id, who, address, np.full(len(who), 8, np.uint8), (who % 5 == 2).astype(np.uint8))
    return path


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    return write_trace(tmp_path_factory.mktemp("trace") / "loop.trace.h5", iterations=60_000)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A file of few bytes, and what it holds."""
    folder = tmp_path_factory.mktemp("features")
    with Trace(write_trace(folder / "loop.trace.h5", iterations=60)) as trace:
        path = extract(trace, SCHEMAS["default"], folder / "loop.features.h5", progress=False)
    file = FeaturesFile(path)
    return path, file.static, file.read(0, len(file))


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_what_is_written_is_read(schema, trace_file, tmp_path):
    with Trace(trace_file) as trace:
        extract(trace, schema, tmp_path / "loop.features.h5", progress=False)
        chunks = list(trace.chunks())
        extractor = schema.extractor(decode(trace.address, trace.code, trace.isa))
        expected = np.concatenate([extractor.extract(chunk) for chunk in chunks])
        ids = np.concatenate([chunk.static_id for chunk in chunks])
    file = FeaturesFile(tmp_path / "loop.features.h5")
    for begin, end in ((0, len(file)), (131_070, 131_080), (100, 100), (200_000, 300_001)):
        static_id, stored = file.read(begin, end)
        assert (static_id == ids[begin:end]).all()
        assert (stored == expected[begin:end]).all()
    assert len(file) == len(ids)


def test_a_file_is_small(trace_file, tmp_path):
    with Trace(trace_file) as trace:
        path = extract(trace, SCHEMAS["default"], tmp_path / "loop.features.h5", progress=False)
        count = len(trace)
    with h5py.File(path) as file:
        sizes = []
        file.visititems(lambda _, item: sizes.append(item.nbytes) if isinstance(item, h5py.Dataset) else None)
    assert sum(sizes) <= 14 * count
    assert path.stat().st_size <= 4 * count


def mutate(raw, rng):
    """`raw` with one kind of damage."""
    kind = rng.integers(8)
    at, other = (int(rng.integers(len(raw))) for _ in range(2))
    size = int(rng.integers(1, 64))
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[:at] + bytes([raw[at] ^ 1 << int(rng.integers(8))]) + raw[at + 1 :]
    if kind == 2:
        return raw[:at] + rng.bytes(size) + raw[at + size :]
    if kind == 3:
        return raw[:at] + raw[at + size :]
    if kind == 4:
        return raw[:at] + rng.bytes(size) + raw[at:]
    if kind == 5:
        return raw[:at] + bytes(size) + raw[at + size :]
    if kind == 6:
        return raw[:at] + raw[other : other + size] + raw[at + size :]
    return raw + rng.bytes(size)


@pytest.mark.slow
def test_no_damage_gives_a_wrong_number(small):
    path, static, (static_id, stored) = small
    raw = path.read_bytes()
    rng = np.random.default_rng(7)
    memory = os.memfd_create("damaged.features.h5")  # a file without a disk
    damaged = Path(f"/proc/self/fd/{memory}")
    refused = 0
    for _ in range(CASES):
        changed = mutate(raw, rng)
        os.ftruncate(memory, 0)
        os.pwrite(memory, changed, 0)
        try:
            file = FeaturesFile(damaged)
        except InputError as error:
            refused += 1
            assert str(damaged) in str(error) and "\n" not in str(error)
            continue
        assert changed == raw
        found = file.read(0, len(file))
        assert (file.static == static).all() and (found[0] == static_id).all() and (found[1] == stored).all()
    os.close(memory)
    assert refused > CASES * 0.9


def test_damage_after_opening_is_found(small, tmp_path):
    copy = tmp_path / "copy.features.h5"
    copy.write_bytes(small[0].read_bytes())
    file = FeaturesFile(copy)
    raw = bytearray(copy.read_bytes())
    raw[-3] ^= 255
    copy.write_bytes(raw)
    os.utime(copy, (1, 1))
    with pytest.raises(InputError, match=r"copy\.features\.h5"):
        file.read(0, 10)


def replace(file, name, **arguments):
    del file[name]
    file.create_dataset(name, **arguments)


HOSTILE = {
    "no schema": lambda f: f.attrs.pop("schema"),
    "a schema that is a table": lambda f: f.attrs.update(schema=np.zeros((3, 3))),
    "another schema": lambda f: f.attrs.update(schema="default/99"),
    "no length": lambda f: f.attrs.pop("instructions"),
    "a length without end": lambda f: f.attrs.update(instructions=2**62),
    "a negative length": lambda f: f.attrs.update(instructions=-5),
    "a length that is text": lambda f: f.attrs.update(instructions="many"),
    "a version that is text": lambda f: f.attrs.update(version="two"),
    "a version that is a row": lambda f: f.attrs.update(version=[2, 2]),
    "another format": lambda f: f.attrs.update(format="perfvec-trace"),
    "no index": lambda f: f.pop("index"),
    "an index of text": lambda f: replace(f, "index", data=[b"a"]),
    "an index of another shape": lambda f: replace(f, "index", data=np.zeros((2, 3), "<i8")),
    "an index that descends": lambda f: f["index"].__setitem__((1, 3), -1),
    "an index that ends elsewhere": lambda f: f["index"].__setitem__((1, 3), 10**12),
    "a column missing": lambda f: f.pop("dynamic/lag"),
    "a column of floats": lambda f: replace(f, "dynamic/lag", data=np.zeros(301)),
    "a column too short": lambda f: replace(f, "dynamic/lag", data=np.zeros(300, "u1")),
    "a folder for a column": lambda f: (f.pop("dynamic/lag"), f.create_group("dynamic/lag")),
    "a link to nowhere": lambda f: (f.pop("dynamic/lag"), f.__setitem__("dynamic/lag", h5py.SoftLink("/nowhere"))),
    "static features of another width": lambda f: replace(f, "static/features", data=np.zeros((6, 3), "<f4")),
    "static features without end": lambda f: replace(
        f, "static/features", shape=(2**34, 43), dtype="<f4", chunks=(1024, 43)
    ),
    "runs of unknown instructions": lambda f: f["runs/first"].__setitem__(0, 2**31),
    "runs of no instruction": lambda f: f["runs/length"].__setitem__(0, 0),
    "runs too long": lambda f: f["runs/length"].__setitem__(0, 2**32 - 1),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_sealed_file_must_hold_what_its_schema_says(change, small, tmp_path):
    copy = tmp_path / "hostile.features.h5"
    copy.write_bytes(small[0].read_bytes())
    with h5py.File(copy, "r+") as file:
        change(file)
    seal(copy)
    with pytest.raises(InputError, match=r"hostile\.features\.h5|feature schema"):
        opened = FeaturesFile(copy)
        opened.read(0, len(opened))


@pytest.mark.parametrize(
    "content",
    [b"", b"x" * 10, bytes(BLOCK), b"\x89HDF\r\n\x1a\n" + bytes(600)],
    ids=["empty", "short", "zeros", "HDF5"],
)
def test_foreign_files_are_named(content, tmp_path):
    (tmp_path / "foreign.h5").write_bytes(content)
    with pytest.raises(InputError, match=rf"foreign\.h5.*{FORMAT}"):
        FeaturesFile(tmp_path / "foreign.h5")


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.h5: no such file; expected a perfvec-features file"):
        FeaturesFile(tmp_path / "absent.h5")


def test_reading_does_not_hash_the_file_again(small, tmp_path, monkeypatch):
    path = tmp_path / "copy.features.h5"
    path.write_bytes(small[0].read_bytes())
    file, checked = FeaturesFile(path), []
    monkeypatch.setattr("support.seal.check_seal", lambda *what: checked.append(path) or check_seal(*what))
    file.read(0, 10)
    assert checked == []
    path.write_bytes(small[0].read_bytes())  # another file in its place
    os.utime(path, ns=(1, 1))
    file.read(0, 10)
    assert checked == [path]
