"""ELF headers and symbols."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from support.errors import InputError
from tracegen.binary import elf
from tracegen.binary.dwarf import file_lines
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace

SOURCE = "__attribute__((noinline)) int twice(int x) { return 2 * x; }\nint main(void) { return twice(0); }\n"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elf")
    (folder / "p.c").write_text(SOURCE)

    def build(*flags):
        program = folder / f"p{''.join(flags)}"
        subprocess.run(["gcc", "-O1", *flags, "-o", str(program), str(folder / "p.c")], check=True)
        return program

    return build


def test_dynamic_program(compiled):
    found = elf.inspect(compiled("-pie"))
    assert found.isa == "x86-64"
    assert found.interpreter is not None and Path(found.interpreter).name.startswith("ld-linux")


def test_static_program(compiled):
    found = elf.inspect(compiled("-static", "-no-pie"))
    assert (found.isa, found.interpreter) == ("x86-64", None)


def test_object_file_is_refused(compiled):
    with pytest.raises(InputError, match="not executable"):
        elf.inspect(compiled("-c"))


def test_other_file_is_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InputError, match="not an ELF program"):
        elf.inspect(tmp_path / "text")


def test_function_symbols_are_sorted_and_sized(compiled):
    symbols = elf.function_symbols(compiled("-no-pie"))
    assert np.all(np.diff(symbols.address.astype(np.int64)) > 0)
    assert symbols.size[symbols.name.index("twice")] > 0


def test_stripped_program_has_no_own_functions(compiled):
    assert "twice" not in elf.function_symbols(compiled("-s")).name


def test_of_aliases_the_least_decorated_names_the_function(tmp_path):
    """Within the C library a function's own name is one with __GI_ before it."""
    pairs = [("__GI___first", "__first"), ("__second", "__GI___second"), ("third", "__third")]
    source = "".join(f'void {a}(void) {{}}\nvoid {b}(void) __attribute__((alias("{a}")));\n' for a, b in pairs)
    (tmp_path / "p.c").write_text(source + "int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-O1", "-o", str(tmp_path / "p"), str(tmp_path / "p.c")], check=True)
    names = elf.function_symbols(tmp_path / "p").name
    assert [name for name in names if name.strip("_GI") in ("first", "second", "third")] == [
        "__first",
        "__second",
        "third",
    ]


def test_a_symbol_without_a_size_reaches_to_the_next_one_or_to_its_sections_end(tmp_path):
    source = """\
    .globl main, first, second
    .type main, @function
    .type first, @function
    .type second, @function
    .section one, "ax", @progbits
    first: .skip 24, 0x90
    second: .skip 40, 0x90
    .section two, "ax", @progbits
    main: .skip 8, 0x90
    """
    (tmp_path / "p.s").write_text(source)
    subprocess.run(["gcc", "-o", str(tmp_path / "p"), str(tmp_path / "p.s")], check=True)
    symbols = elf.function_symbols(tmp_path / "p")
    size = dict(zip(symbols.name, symbols.size.tolist(), strict=True))
    assert (size["first"], size["second"], size["main"]) == (24, 40, 8)
    with (tmp_path / "p").open("rb") as stream:
        assert size["_init"] == ELFFile(stream).get_section_by_name(".init")["sh_size"]


def test_symbols_of_a_mapping_are_shifted(compiled):
    program = compiled("-pie")
    symbols = elf.function_symbols(program)
    at = symbols.name.index("main")
    base = 0x7F0000000000
    mapping = elf.Mapping(base, base + 0x10000, 0, str(program))
    executed = np.array([base + int(symbols.address[at])], np.uint64)
    shifted = elf.symbols_at_run_time([mapping, mapping], executed)
    assert shifted.address[shifted.name.index("main")] == executed[0]
    assert len(shifted.name) == len(symbols.name)


BASE = 0x4000000000
LLD = [  # offset, address, size, flags: segments of rustc's linker, which share pages of the file
    (0x0, 0x0, 0x1301C, 4),
    (0x13020, 0x14020, 0x3D9E0, 5),
    (0x50A00, 0x52A00, 0x2788, 6),
    (0x53188, 0x56188, 0x9C0, 6),
]


@pytest.fixture
def with_segments(tmp_path):
    def write(segments):
        ident = b"\x7fELF\2\1\1" + bytes(9)
        header = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 64, 0, 0)
        table = [
            struct.pack("<IIQQQQQQ", 1, flags, offset, address, address, size, size, 4096)
            for offset, address, size, flags in segments
        ]
        (tmp_path / "program").write_bytes(ident + header + b"".join(table))
        return tmp_path / "program"

    return write


@pytest.mark.parametrize(
    ("offset", "address"),
    [(0, 0), (0x13000, 0x14000), (0x50000, 0x52000), (0x53000, 0x56000), (0x5000, 0x5000), (0x20000, 0x21000)],
    ids=["R", "RX", "RELRO", "RW", "rest of R", "rest of RX"],
)
def test_mappings_of_segments_that_share_a_page_have_one_bias(with_segments, offset, address):
    mapping = elf.Mapping(BASE + address, BASE + address + 0x1000, offset, str(with_segments(LLD)))
    assert elf.load_bias(Path(mapping.path), mapping) == BASE


def test_where_segments_begin_in_one_page_the_mapping_is_of_that_with_code(with_segments):
    program = with_segments([(0x0, 0x0, 0x5D0, 4), (0x5D0, 0x15D0, 0x120, 5), (0x6F0, 0x26F0, 0x200, 6)])
    assert elf.load_bias(program, elf.Mapping(BASE + 0x1000, BASE + 0x2000, 0, str(program))) == BASE
    assert elf.load_bias(program, elf.Mapping(BASE, BASE + 0x1000, 0x1000, str(program))) is None


def test_mappings_without_executed_code_give_no_symbols(compiled):
    mapping = elf.Mapping(0x1000, 0x2000, 0, sys.executable)
    assert elf.symbols_at_run_time([mapping], np.array([0x5000], np.uint64)).name == []


def test_a_program_with_damaged_sections_keeps_its_trace(compiled, tmp_path, capsys):
    """Linux runs it: symbols and source lines, whose sections claim a size that no file has, are left out with a line
    each.
    """
    program = tmp_path / "damaged"
    data = bytearray(compiled("-static", "-no-pie", "-g").read_bytes())
    with compiled("-static", "-no-pie", "-g").open("rb") as stream:
        file = ELFFile(stream)
        for name in (".symtab", ".debug_line"):
            header = file["e_shoff"] + file.get_section_index(name) * file["e_shentsize"]
            struct.pack_into("<Q", data, header + 32, 1 << 63)  # sh_size; OverflowError, MemoryError where less
    program.write_bytes(data)
    program.chmod(0o755)
    result = trace(Execution([str(program)]), tmp_path / "t.trace.h5")
    with Trace(tmp_path / "t.trace.h5") as traced:
        assert len(traced) == result.instructions > 1000
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    for line, part in zip(said, ("its symbols", "its source lines"), strict=True):
        assert line.startswith(f"perfvec: {program}: {part} cannot be read, and are left out")


@pytest.mark.slow
@pytest.mark.parametrize("field", ["sh_size", "sh_offset", "sh_name", "e_shoff"])
def test_a_program_whose_sections_are_all_damaged_keeps_its_trace(compiled, tmp_path, capsys, field):
    """Even the table of the sections' names cannot be read: Linux does not look at any of them."""
    program, source = tmp_path / "damaged", compiled("-g")
    data = bytearray(source.read_bytes())
    with source.open("rb") as stream:
        file = ELFFile(stream)
        first, entry, count = file["e_shoff"], file["e_shentsize"], file["e_shnum"]
    if field == "e_shoff":
        struct.pack_into("<Q", data, 40, 1 << 62)
    for number in range(1, count):
        if field == "sh_name":
            struct.pack_into("<I", data, first + entry * number, 0xFFFFFFFF)
        elif field != "e_shoff":
            struct.pack_into("<Q", data, first + entry * number + {"sh_size": 32, "sh_offset": 24}[field], 1 << 40)
    program.write_bytes(data)
    program.chmod(0o755)
    assert elf.inspect(program) == elf.Executable(program, "x86-64", elf.inspect(source).interpreter)
    result = trace(Execution([str(program)]), tmp_path / "t.trace.h5")
    with Trace(tmp_path / "t.trace.h5") as traced:
        assert len(traced) == result.instructions > 1000
    said = capsys.readouterr().err.splitlines()
    assert said or field == "sh_name"
    assert all("cannot be read, and are left out" in line for line in said if str(program) in line)


def test_lines_whose_names_are_missing_are_left_out(compiled, tmp_path, capsys):
    program = tmp_path / "damaged"
    data = bytearray(compiled("-static", "-no-pie", "-g").read_bytes())
    with compiled("-static", "-no-pie", "-g").open("rb") as stream:
        file = ELFFile(stream)
        header = file["e_shoff"] + file.get_section_index(".debug_line_str") * file["e_shentsize"]
        struct.pack_into("<I", data, header, 0)  # sh_name
    program.write_bytes(data)
    addresses = elf.function_symbols(program).address
    assert list(file_lines(program, addresses)) == []
    assert "its source lines cannot be read" in capsys.readouterr().err


def test_impossible_program_headers_are_refused(compiled, tmp_path):
    data = bytearray(compiled("-static", "-no-pie").read_bytes())
    struct.pack_into("<Q", data, 0x20, 1 << 62)  # e_phoff
    (tmp_path / "p").write_bytes(data)
    with pytest.raises(InputError, match="not an ELF program"):
        elf.inspect(tmp_path / "p")


def test_code_without_symbols_has_its_files_name(compiled):
    """Executed code between two symbols is one piece, and so is that before the first."""
    program = compiled("-pie")
    symbols = elf.function_symbols(program)
    base, at = 0x7F0000000000, symbols.name.index("twice")
    begin, size = int(symbols.address[at]), int(symbols.size[at])
    mappings = [elf.Mapping(0x1000, 0x2000, 0, sys.executable), elf.Mapping(base, base + 0x10000, 0, str(program))]
    uncovered = [1, 5, begin - 1] if begin - 1 not in symbols.address.tolist() else [1, 5]
    executed = np.array(sorted({0x1800, *(base + place for place in (*uncovered, begin, begin + size - 1))}), np.uint64)
    found = elf.symbols_at_run_time(mappings, executed)
    named = [(int(a), int(s), n) for a, s, n in zip(*found, strict=True) if n.startswith("[")]
    assert named[0] == (0x1800, 1, "[program]")
    assert named[1][0] == base + 1 and named[1][1] >= 5
    assert {name for _, _, name in named[1:]} == {f"[{program.name}]"}
    assert (np.diff(found.address.astype(np.int64)) > 0).all()
