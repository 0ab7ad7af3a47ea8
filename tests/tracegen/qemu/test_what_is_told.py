"""Lines on a traced program that a signal ended, and on threads and children without a record."""

import pytest

from tests.command import perfvec

_ILLEGAL = "ended by signal 4 (illegal instruction) after "


@pytest.mark.parametrize("command", ["trace", "features"])
def test_a_signal_that_ends_the_program_is_one_line(build, tmp_path, command):
    done = perfvec(command, "-o", tmp_path / "t.h5", "--", build("behave"), "illegal")
    assert done.returncode == 128 + 4
    (line,) = (line for line in done.stderr.splitlines() if _ILLEGAL in line)
    assert line.startswith(f"{build('behave').name}: ") and "-mavx2 at most" in line


def test_a_simulation_of_what_a_signal_cut_short_has_a_note(build, tmp_path):
    perfvec("trace", "-o", tmp_path / "t.trace.h5", "--", build("behave"), "illegal")
    for words in ([tmp_path / "t.trace.h5"], ["--", build("behave"), "illegal"]):
        done = perfvec("simulate", "--uarch", "base", *words)
        assert done.returncode == 0 and done.stderr.count(_ILLEGAL) == 1


def test_children_without_a_record_are_counted(build, tmp_path):
    for words in (["trace", "-o", tmp_path / "t.trace.h5"], ["simulate", "--uarch", "base"]):
        done = perfvec(*words, "--", build("behave"), "fork")
        assert done.returncode == 0
        assert done.stderr.count(f"{build('behave').name}: child processes that are not recorded: 1 (trace") == 1
