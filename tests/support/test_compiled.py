"""C that is compiled on first use: kept, made anew where anything differs, never taken from somebody else's folder."""

import ctypes
import os
import tempfile

import pytest

from support.compiled import compiled
from support.errors import InputError


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    path = tmp_path / "two.c"
    path.write_text('__attribute__((visibility("default"))) int two(void) { return NUMBER; }\n')
    return path


def test_a_compiler_that_is_no_command_is_named(source, monkeypatch):
    monkeypatch.setenv("CC", "gcc '")
    with pytest.raises(InputError, match=r"CC is .*No closing quotation"):
        compiled(source, ["-DNUMBER=2"], "two.c")


def test_what_was_compiled_is_kept(source):
    first = compiled(source, ["-DNUMBER=2"], "two.c")
    assert ctypes.CDLL(str(first)).two() == 2
    made = first.stat().st_mtime_ns
    assert compiled(source, ["-DNUMBER=2"], "two.c") == first and first.stat().st_mtime_ns == made
    other = compiled(source, ["-DNUMBER=3"], "two.c")
    assert other != first and ctypes.CDLL(str(other)).two() == 3


def test_another_text_is_compiled_anew(source):
    first = compiled(source, ["-DNUMBER=2"], "two.c")
    source.write_text(source.read_text().replace("NUMBER", "NUMBER + 1"))
    assert ctypes.CDLL(str(compiled(source, ["-DNUMBER=2"], "two.c"))).two() == 3
    assert ctypes.CDLL(str(first)).two() == 2


@pytest.mark.parametrize("left", [0, 40, -100, -1])
def test_one_that_was_cut_short_is_compiled_again(source, left):
    first = compiled(source, ["-DNUMBER=2"], "two.c")
    whole = first.read_bytes()
    first.unlink()  # not changed in place: it may be loaded
    first.write_bytes(whole[:left])
    assert compiled(source, ["-DNUMBER=2"], "two.c") == first and first.read_bytes() == whole
    assert ctypes.CDLL(str(first)).two() == 2


def test_what_does_not_compile_is_told_in_a_line_and_leaves_nothing(source, tmp_path):
    with pytest.raises(InputError, match=r"^two\.c does not compile with \S+: .*error.*$"):
        compiled(source, [], "two.c")
    assert list((tmp_path / "cache" / "perfvec").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_passed_over(source, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder would be")
    found = compiled(source, ["-DNUMBER=2"], "two.c")
    assert found.parent == tmp_path / "temporary" / f"perfvec-{os.getuid()}"
    assert ctypes.CDLL(str(found)).two() == 2


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_nothing_is_taken_from_somebody_elses_folder(source, tmp_path):
    ours = compiled(source, ["-DNUMBER=2"], "two.c")
    os.chown(ours.parent, 12345, 12345)
    assert compiled(source, ["-DNUMBER=2"], "two.c").parent != ours.parent
    os.chown(tmp_path / "temporary" / "perfvec-0", 12345, 12345)
    with pytest.raises(InputError, match="no writable folder"):
        compiled(source, ["-DNUMBER=2"], "two.c")
