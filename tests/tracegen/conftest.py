"""Programs that tests trace, compiled once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
COMPILERS = {"x86-64": "gcc", "aarch64": "aarch64-linux-gnu-gcc", "riscv64": "riscv64-linux-gnu-gcc"}


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """build(source, *flags, isa=): the path of the compiled program; skips where a cross compiler is missing."""
    folder = tmp_path_factory.mktemp("programs")
    built: dict[tuple, Path] = {}

    def compile_program(source, *flags, isa="x86-64"):
        key = (source, flags, isa)
        if key not in built:
            compiler = shutil.which(COMPILERS[isa])
            if compiler is None:
                assert isa != "x86-64", "gcc is needed"
                pytest.skip(f"{COMPILERS[isa]} is not installed")
            built[key] = folder / f"{source}-{len(built)}"
            command = [compiler, "-O1", "-g", *flags, "-o", str(built[key]), str(PROGRAMS / f"{source}.c"), "-pthread"]
            subprocess.run(command, check=True)
        return built[key]

    return compile_program
