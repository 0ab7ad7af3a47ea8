"""Stubs of procedure linkage tables: named after what they call, as binutils name them, and as long as they are."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest

from tracegen.binary.elf import function_symbols
from tracegen.binary.source_lines import source_lines
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace

SOURCE = """\
#include <stdlib.h>
#include <string.h>

int main(int count, char **words)
{
    long sum = 0;
    for (int i = 0; i < 1000; i++) {
        sum += labs(-i) + (long)strlen(words[0] + (i & 1));
    }
    return (int)(sum & 1) * (count - 1);
}
"""
RESOLVER = {"": 16, "aarch64-linux-gnu-": 32, "riscv64-linux-gnu-": 32}  # bytes, the first entry of .plt


@pytest.fixture
def built(tmp_path):
    def build(tools, *flags):
        if shutil.which(f"{tools}gcc") is None:
            pytest.skip(f"{tools}gcc is not installed")
        (tmp_path / "p.c").write_text(SOURCE)
        command = [f"{tools}gcc", "-O1", "-fno-builtin", *flags, "-o", "p", "p.c"]
        subprocess.run(command, check=True, cwd=tmp_path)
        return tmp_path / "p"

    return build


@pytest.mark.parametrize(
    ("tools", "flags"),
    [
        ("", ()),
        ("", ("-no-pie", "-Wl,-z,now")),
        ("", ("-fcf-protection", "-Wl,-z,ibtplt")),
        ("", ("-static",)),
        ("aarch64-linux-gnu-", ()),
        ("aarch64-linux-gnu-", ("-no-pie", "-mbranch-protection=standard", "-Wl,-z,force-bti")),
        ("riscv64-linux-gnu-", ()),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_stubs_have_the_names_that_binutils_give_them(built, tools, flags):
    program = built(tools, *flags)
    listing = subprocess.run([f"{tools}objdump", "-d", program], check=True, capture_output=True, text=True).stdout
    expected = {
        name: int(place, 16) for place, name in re.findall(r"^([0-9a-f]+) <(\w+@plt)>:$", listing, re.MULTILINE)
    }
    symbols = function_symbols(program)
    found = dict(zip(symbols.name, symbols.address.tolist(), strict=True))
    size = dict(zip(symbols.name, symbols.size.tolist(), strict=True))
    assert {name: found.get(name) for name in expected} == expected
    if "-static" in flags:  # the C library chooses a strlen for the computer
        assert any(re.fullmatch(r"strlen\w*@plt", name) for name in found)
        return
    assert {"labs@plt", "strlen@plt"} <= expected.keys()
    assert abs(found["labs@plt"] - found["strlen@plt"]) % size["labs@plt"] == 0
    assert size["labs@plt"] == size["strlen@plt"] == (24 if "-Wl,-z,force-bti" in flags and "-no-pie" in flags else 16)
    if "-Wl,-z,ibtplt" not in flags:
        assert size[".plt"] == RESOLVER[tools]


def test_calls_through_stubs_are_not_the_initialisation(built, tmp_path):
    program = built("", "-Wl,-z,now")
    result = trace(Execution([str(program)]), tmp_path / "t.trace.h5", progress=False)
    with Trace(result.path) as file:
        functions = source_lines(file).function.to_numpy()
        runs = np.zeros(len(functions), np.int64)
        for chunk in file.chunks():
            runs += np.bincount(chunk.static_id, minlength=len(functions))
    assert runs[functions == "labs@plt"].tolist() == [1000]
    assert runs[functions == "strlen@plt"].tolist() == [1000]
    # The program's own _init and that of each library run once.
    assert runs[functions == "_init"].max() <= 3
