"""The trace file: round trip, streaming, and what damaged or foreign files say."""

from itertools import pairwise

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import InputError
from support.seal import seal
from tests.digests import trace_digest
from tracegen.formats.trace import Trace, TraceWriter
from uarch.instructions import LAST


def write(path, ids, owners, parts=1, static=4):
    m = len(owners)
    columns = (
        np.array(owners, np.uint64),
        np.arange(m, dtype=np.uint64) * 8,
        np.full(m, 8, np.uint8),
        (np.arange(m) % 2).astype(np.uint8),
    )
    with TraceWriter(path, isa="x86-64", program="p", command=["p", "x y"], source="qemu") as writer:
        writer.static(np.arange(static, dtype=np.uint64) * 4, np.zeros((static, 16), np.uint8))
        bounds = np.linspace(0, len(ids), parts + 1).astype(int)
        for begin, end in pairwise(bounds):
            rows = (columns[0] >= begin) & (columns[0] < end)
            writer.append(np.array(ids[begin:end], np.uint32), *(column[rows] for column in columns))
    return path


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.data())
def test_round_trip_in_any_parts(tmp_path_factory, ids, data):
    folder = tmp_path_factory.mktemp("trace")
    owners = sorted(data.draw(st.lists(st.integers(0, len(ids) - 1), max_size=40)))
    first = write(folder / "a.trace.h5", ids, owners)
    second = write(folder / "b.trace.h5", ids, owners, parts=3)
    start = data.draw(st.integers(0, len(ids) - 1))
    with Trace(first) as one, Trace(second) as two:
        assert one.digest == two.digest
        assert one.digest == trace_digest(one.path)
        assert one.command == ["p", "x y"]
        chunks = list(one.chunks(data.draw(st.integers(1, 20)), start=start))
        assert np.concatenate([chunk.static_id for chunk in chunks]).tolist() == ids[start:]
        assert np.concatenate([chunk.next_static_id for chunk in chunks]).tolist() == [*ids[start + 1 :], int(LAST)]
        found = np.concatenate([np.repeat(np.arange(len(c)) + c.start, np.diff(c.access_offset)) for c in chunks])
        assert found.tolist() == [owner for owner in owners if owner >= start]


@pytest.mark.parametrize("size", [1, 4, 100])
def test_divisions_come_with_their_instructions(tmp_path, size):
    steps = {3: 7, 4: 35, 9: 67}
    write(tmp_path / "a.trace.h5", [0, 1] * 5, [2])
    with TraceWriter(tmp_path / "b.trace.h5", isa="x86-64", program="p", command=["p"], source="qemu") as writer:
        writer.static(np.arange(4, dtype=np.uint64) * 4, np.zeros((4, 16), np.uint8))
        writer.append_divisions(np.array([3], np.uint64), np.array([7], np.uint8))
        writer.append_static_ids(np.array([0, 1] * 5, np.uint32))
        writer.append_divisions(np.array([4, 9], np.uint64), np.array([35, 67], np.uint8))
    with Trace(tmp_path / "a.trace.h5") as without, Trace(tmp_path / "b.trace.h5") as file:
        assert file.digest == trace_digest(file.path)
        assert without.digest != file.digest
        assert all(len(chunk.division_steps) == 0 for chunk in without.chunks(size))
        found = {}
        for chunk in file.chunks(size, 1):
            inside = chunk.division_instruction - np.uint64(chunk.start)
            assert np.all(inside < len(chunk))
            found |= dict(zip(chunk.division_instruction.tolist(), chunk.division_steps.tolist(), strict=True))
            assert chunk.part(1, len(chunk)).division_steps.tolist() == chunk.division_steps[inside >= 1].tolist()
        assert found == steps


def test_nothing_recorded_leaves_no_file(tmp_path):
    with pytest.raises(InputError, match="nothing was recorded"):
        write(tmp_path / "t.trace.h5", [], [])
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_writing_leaves_no_file(tmp_path):
    with (
        pytest.raises(RuntimeError, match="stop"),
        TraceWriter(tmp_path / "t.trace.h5", isa="x86-64", program="p", command=["p"], source="qemu"),
    ):
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []


def broken(path, how):
    if how == "truncated":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif how == "text":
        path.write_text("not a trace")
    elif how == "absent":
        path.unlink()
    else:
        with h5py.File(path, "r+") as file:  # sealed again: what the reader itself checks
            if how == "foreign":
                file.attrs["format"] = "something-else"
            elif how == "version":
                file.attrs["version"] = 99
            elif how == "dataset":
                del file["memory/size"]
            elif how == "lengths":
                file["memory/size"].resize(1, axis=0)
            elif how == "isa":
                file.attrs["isa"] = "z80"
            elif how == "utf-8":
                file.attrs.create("program", b"/bin/\xff", dtype=h5py.string_dtype())
            elif how == "ids":
                file["dynamic/static_id"][1] = 77
            elif how == "order":
                file["memory/instruction"][0] = 3
        seal(path)


@pytest.mark.parametrize(
    "how", ["truncated", "text", "absent", "foreign", "version", "dataset", "lengths", "isa", "utf-8", "ids", "order"]
)
def test_damage_is_one_clear_line(tmp_path, how):
    path = write(tmp_path / "t.trace.h5", [0, 1, 2, 3, 1], [0, 1, 2])
    broken(path, how)
    with pytest.raises(InputError) as error, Trace(path) as trace:
        list(trace.chunks())
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_changed_value_breaks_the_seal(tmp_path):
    path = write(tmp_path / "t.trace.h5", [0, 1, 2, 3, 1], [0, 1, 2])
    with h5py.File(path, "r+") as file:
        file["memory/address"][1] = 12345
    with pytest.raises(InputError, match="not those that were written"):
        Trace(path)
