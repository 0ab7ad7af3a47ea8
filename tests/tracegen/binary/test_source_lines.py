"""Source lines at run-time addresses: executables anywhere, a library, separate debug files, both DWARF versions."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from tests.digests import trace_digest
from tracegen.binary import debug_files
from tracegen.binary.dwarf import file_lines
from tracegen.binary.elf import function_symbols
from tracegen.binary.source_lines import source_lines
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace

MAIN = """\
long far(long n);

static inline __attribute__((always_inline)) long inlined(long n)
{
    return n * 7919;
}

__attribute__((noinline)) long near(long n)
{
    return inlined(n) ^ 3;
}

int main(void)
{
    return (int)((near(5) + far(6)) & 1);
}
"""
LIBRARY = """\
long far(long n)
{
    long sum = 0;
    for (long i = 0; i < n; i++) {
        sum += i * 3;
    }
    return sum;
}
"""


@pytest.fixture
def traced(tmp_path):
    """traced(*flags, after=): the folder, and source_lines of the program; `after` may change the compiled files."""

    def run(*flags, after=lambda folder: None, name="program"):
        (tmp_path / "source").mkdir(exist_ok=True)
        (tmp_path / "source" / "main.c").write_text(MAIN)
        (tmp_path / "library.c").write_text(LIBRARY)
        for command in (
            ["-shared", "-fPIC", "-o", "libfar.so", "library.c"],
            ["-o", name, "source/main.c", "-L.", "-lfar", f"-Wl,-rpath,{tmp_path}"],
        ):
            subprocess.run(["gcc", "-O2", "-g", *flags, *command], check=True, cwd=tmp_path)
        after(tmp_path)
        result = trace(Execution([str(tmp_path / name)]), tmp_path / "t.trace.h5", progress=False)
        with Trace(result.path) as file:
            assert file.digest == trace_digest(file.path)
            return tmp_path, source_lines(file)

    return run


def lines_of(frame, function):
    rows = frame[(frame.function == function) & (frame.line > 0)]
    return set(rows.file), set(rows.line)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ("-gdwarf-5",),
        ("-gdwarf-4",),
        ("-gdwarf-5", "-gz"),
        ("-gdwarf-5", "-no-pie"),
        ("-gdwarf-5", "-gdwarf64", "-gno-as-loc-support"),  # the compiler writes the table, in 64 bits
        ("-gdwarf-4", "-gdwarf64", "-gno-as-loc-support"),
    ],
    ids=" ".join,
)
def test_lines_of_a_program_and_its_library(traced, flags):
    folder, frame = traced(*flags)
    files, lines = lines_of(frame, "near")
    assert files == {str(folder / "source" / "main.c")}
    assert {5, 10, 11} <= lines <= {5, 9, 10, 11}  # 5: the inlined line is the innermost
    files, lines = lines_of(frame, "far")
    assert files == {str(folder / "library.c")}
    assert {4, 5} <= lines <= set(range(2, 9))
    assert frame.address.is_monotonic_increasing


def test_lines_agree_with_addr2line(traced):
    folder, frame = traced("-no-pie")
    rows = frame[frame.file.str.endswith("main.c")]
    assert len(rows) > 8
    asked = subprocess.run(
        ["addr2line", "-e", folder / "program", *map(hex, rows.address)], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    found = [f"{file}:{line}" for file, line in zip(rows.file, rows.line, strict=True)]
    assert found == [line.split(" (")[0] for line in asked if line]


def split(folder, link, strip="--strip-debug"):
    """Move the debug information of the program into a file of its own."""
    subprocess.run(["objcopy", "--only-keep-debug", "program", "program.debug"], check=True, cwd=folder)
    subprocess.run(["strip", strip, "program"], check=True, cwd=folder)
    if link:
        subprocess.run(["objcopy", "--add-gnu-debuglink=program.debug", "program"], check=True, cwd=folder)


@pytest.mark.slow
def test_a_separate_file_is_found_by_its_link_and_refused_where_it_does_not_fit(traced):
    _, frame = traced("-Wl,--build-id=none", after=lambda folder: split(folder, link=True))
    assert 10 in lines_of(frame, "near")[1]

    def changed(folder):
        split(folder, link=True)
        with (folder / "program.debug").open("ab") as file:
            file.write(b"\0")

    _, frame = traced("-Wl,--build-id=none", after=changed)
    assert lines_of(frame, "near") == (set(), set())


def test_a_separate_file_is_found_by_build_identifier(traced, tmp_path, monkeypatch):
    def after(folder):
        split(folder, link=False)
        notes = subprocess.run(["readelf", "-n", "program"], capture_output=True, text=True, check=True, cwd=folder)
        identifier = notes.stdout.split("Build ID: ")[1].split()[0]
        place = folder / "debug" / ".build-id" / identifier[:2]
        place.mkdir(parents=True)
        (folder / "program.debug").rename(place / f"{identifier[2:]}.debug")

    monkeypatch.setattr(debug_files, "DEBUG_FOLDER", tmp_path / "debug")
    _, frame = traced("-Wl,--build-id=sha1", after=after)
    assert 10 in lines_of(frame, "near")[1]


def test_functions_of_a_stripped_program_are_those_of_its_separate_file(tmp_path):
    (tmp_path / "main.c").write_text(MAIN.replace("far(6)", "6"))
    subprocess.run(["gcc", "-O2", "-g", "-Wl,--build-id=none", "-o", "program", "main.c"], check=True, cwd=tmp_path)
    before = function_symbols(tmp_path / "program")
    split(tmp_path, link=True, strip="--strip-all")
    after = function_symbols(tmp_path / "program")
    assert "near" in after.name
    assert after.name == before.name
    assert after.address.tolist() == before.address.tolist()
    assert after.size.tolist() == before.size.tolist()
    with (tmp_path / "program.debug").open("ab") as file:
        file.write(b"\0")
    assert "near" not in function_symbols(tmp_path / "program").name


@pytest.mark.slow
def test_without_debug_information_functions_are_known_and_lines_are_not(traced):
    _, frame = traced("-g0")
    assert (frame.line[frame.function == "near"] == 0).all()
    assert (frame.function == "near").any()
    _, frame = traced("-g0", "-s")
    assert not (frame.function == "near").any()


@pytest.mark.parametrize("layout", ["separate-code", "noseparate-code"])
def test_lines_of_discarded_code_are_not_those_of_what_is_there_instead(tmp_path, layout):
    """The linker leaves 0 for the address of an unused function, which is longer than the program."""
    (tmp_path / "main.c").write_text(MAIN.replace("far(6)", "6"))
    statements = "\n".join(f"    place = {number};" for number in range(1000))
    (tmp_path / "unused.c").write_text(f"volatile int place;\nvoid unused(void)\n{{\n{statements}\n}}\n")
    flags = ["-O2", "-g", "-pie", "-fPIE", "-ffunction-sections", "-Wl,--gc-sections", f"-Wl,-z,{layout}"]
    subprocess.run(["gcc", *flags, "-o", "program", "main.c", "unused.c"], check=True, cwd=tmp_path)
    symbols = function_symbols(tmp_path / "program")
    assert "unused" not in symbols.name
    place = symbols.name.index("near")
    found = list(file_lines(tmp_path / "program", symbols.address[place] + np.arange(symbols.size[place])))
    assert {file for _, file, _ in found} == {str(tmp_path / "main.c")}
    assert {5, 10, 11} <= {line for _, _, line in found} <= {5, 9, 10, 11}


def test_damaged_debug_information_is_none(traced):
    def damage(folder):
        data = bytearray((folder / "program").read_bytes())
        headers = subprocess.run(["readelf", "-SW", "program"], capture_output=True, text=True, check=True, cwd=folder)
        line = next(line for line in headers.stdout.splitlines() if " .debug_line " in line)
        offset, size = (int(word, 16) for word in line.split(".debug_line")[1].split()[2:4])
        data[offset : offset + size] = np.random.default_rng(0).bytes(size)
        (folder / "program").write_bytes(data)

    _, frame = traced(after=damage)
    assert (frame.function == "near").any()


def test_a_symbol_ends_where_its_size_says_and_without_one_at_the_next():
    nothing = np.empty(0, np.uint64)
    located = SimpleNamespace(
        address=np.array([15, 16, 19, 20, 32, 39, 40, 99], np.uint64),
        symbols=lambda: (np.array([16, 32, 40], np.uint64), np.array([4, 0, 8], np.uint64), ["f", "g", "h"]),
        lines=lambda: (nothing, nothing, nothing, []),
    )
    assert source_lines(located).function.tolist() == ["", "f", "f", "", "g", "g", "h", ""]
