"""Files that are whole or absent: what killed writers leave is removed, what living ones write is not."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from support.errors import InputError
from support.executor import settle
from support.files import atomic_path, open_h5, sealed_h5
from tracegen.suite.inputs import compile_c

_WRITER = """
import signal, sys
from support.files import atomic_path
with atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("of another")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """Another process that writes `tmp_path / "x.json"` until its standard input ends."""
    command = [sys.executable, "-c", _WRITER, str(tmp_path / "x.json")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        yield process
        process.kill()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_next_writer_removes_what_a_killed_one_left(writer, tmp_path):
    (tmp_path / ".y.json.abc.part").write_text("of another file")
    writer.kill()
    assert writer.wait() == -signal.SIGKILL and len(names(tmp_path)) == 2
    with atomic_path(tmp_path / "x.json") as temporary:
        temporary.write_text("ours")
        assert names(tmp_path) == sorted([".y.json.abc.part", temporary.name])
    assert names(tmp_path) == [".y.json.abc.part", "x.json"]


def test_what_a_living_writer_writes_stays(writer, tmp_path):
    with atomic_path(tmp_path / "x.json") as temporary:
        temporary.write_text("ours")
        assert len(names(tmp_path)) == 2
    assert len(names(tmp_path)) == 2 and (tmp_path / "x.json").read_text() == "ours"
    writer.communicate("")
    assert names(tmp_path) == ["x.json"] and (tmp_path / "x.json").read_text() == "of another"


def test_of_two_runs_the_first_to_end_leaves_what_the_other_writes(writer, tmp_path):
    (tmp_path / "x.json").write_text("ours")
    settle(tmp_path / "x.json")
    assert len(names(tmp_path)) == 2
    writer.kill()
    writer.wait()
    settle(tmp_path / "x.json")
    assert names(tmp_path) == ["x.json"]


def test_links_and_pipes_called_like_one_do_no_harm(tmp_path):
    (tmp_path / "kept").write_text("kept")
    (tmp_path / ".x.json.a.part").symlink_to(tmp_path / "kept")
    with atomic_path(tmp_path / "x.json") as temporary:
        temporary.write_text("ours")
    assert (tmp_path / "kept").read_text() == "kept" and (tmp_path / "x.json").read_text() == "ours"


def test_two_write_the_same_hdf5_file_at_once(tmp_path):
    with sealed_h5(tmp_path / "x.h5") as one:
        with sealed_h5(tmp_path / "x.h5") as other:
            other.attrs["a"] = 1
        one.attrs["a"] = 2
    assert names(tmp_path) == ["x.h5"]


def test_a_compiled_program_is_written_into_the_locked_file(tmp_path):
    (tmp_path / "a.c").write_text("int main(void) { return 0; }")
    compile_c(tmp_path / "a.c", tmp_path / "a", [])
    assert subprocess.run([str(tmp_path / "a")], check=False).returncode == 0
    assert names(tmp_path) == ["a", "a.c"]


def test_an_error_while_a_file_is_written_is_told_as_it_is(tmp_path):
    for error in (ValueError("ours"), OSError(errno.ENOSPC, "full")):
        with pytest.raises(ValueError, match=r"ours|the disk is full"), sealed_h5(tmp_path / "x.h5") as file:
            file.create_dataset("a", data=range(9999), chunks=(64,), compression="gzip")
            raise error
        assert names(tmp_path) == []


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    for text in ("first", "second"):
        with atomic_path(tmp_path / "link") as temporary:
            temporary.write_text(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "there" / "file").read_text() == text


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: is a device or a pipe; name a file"), atomic_path(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_in_which_nobody_creates_a_file_is_named_with_the_file():
    with pytest.raises(InputError, match=r"^/proc/x: cannot be created \(No such file"), atomic_path("/proc/x"):
        pass


def test_a_program_in_place_of_its_trace_is_told():
    with pytest.raises(InputError, match=r"is a program; trace it first"), open_h5(sys.executable, "perfvec-trace", 1):
        pass
