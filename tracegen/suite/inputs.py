"""Deterministic inputs of the workloads, written once into a folder and found again there."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tracegen.files import atomic_path
from uarch.errors import InputError

_WORDS = 4000
_SYLLABLES = (
    "ba be bi bo bu da de di do du fa fi fo ga go ka ke ki la le li lo ma me mi mo na ne ni no pa pe qui ra re ri ro "
    "sa se si so ta te ti to va ve vi zu ing ed er"
).split()


def _words(rng: np.random.Generator) -> list[str]:
    return ["".join(rng.choice(_SYLLABLES, rng.integers(1, 5))) for _ in range(_WORDS)]


def _text() -> bytes:
    """Words with Zipf's frequencies, 1.5 MB."""
    rng = np.random.default_rng(1)
    words = np.array(_words(rng))
    drawn = words[np.minimum(rng.zipf(1.3, 260_000), _WORDS) - 1].tolist()
    lines = [" ".join(drawn[i : i + 12]) for i in range(0, len(drawn), 12)]
    return ("\n".join(lines) + "\n").encode()


def _records(changed: bool = False) -> bytes:
    """Comma-separated number, word, number; `changed` alters every fiftieth line."""
    rng = np.random.default_rng(2)
    words = _words(rng)
    lines = []
    for index in range(20_000):
        word, value = words[rng.integers(0, 500)], rng.integers(0, 100_000)
        lines.append(f"{index},{word},{value + (changed and index % 50 == 0)}")
    return ("\n".join(lines) + "\n").encode()


def _json() -> bytes:
    rng = np.random.default_rng(3)
    words = _words(rng)
    rows = [{"name": words[rng.integers(0, 60)], "values": rng.integers(0, 999, 6).tolist()} for _ in range(3000)]
    return json.dumps(rows).encode()


def _noise() -> bytes:
    """Half compressible bytes, 1 MB."""
    rng = np.random.default_rng(4)
    noise = rng.integers(0, 256, 1 << 20, dtype=np.uint8)
    noise[rng.random(1 << 20) < 0.5] = 0
    return noise.tobytes()


def _source() -> bytes:
    """A C file with many functions, so that a compiler has something to do."""
    functions = []
    for index in range(150):
        functions.append(
            f"static int f{index}(int a, int b) {{ int s = {index}; for (int i = 0; i < a; i++) "
            f"{{ if ((i ^ b) & {index % 7 + 1}) s += i * {index + 3}; else s -= b / (i + {index + 1}); }} return s; }}"
        )
    calls = " + ".join(f"f{index}(argc, {index})" for index in range(150))
    return (
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        + "\n".join(functions)
        + f'\nint main(int argc, char **argv) {{ printf("%d\\n", {calls}); return argv == 0; }}\n'
    ).encode()


def _library() -> bytes:
    for candidate in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6"):
        if Path(candidate).exists():
            return Path(candidate).read_bytes()
    raise InputError("no C library found under /lib; the workloads nm and objdump need one")


_MAKERS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "text": ("text.txt", _text),
    "text_gz": ("text.txt.gz", lambda: gzip.compress(_text(), 6, mtime=0)),
    "records": ("records.csv", _records),
    "records_changed": ("records-changed.csv", lambda: _records(True)),
    "json": ("records.json", _json),
    "noise": ("noise.bin", _noise),
    "source": ("source.c", _source),
    "pi": ("pi.bc", lambda: b"scale=300\n4*a(1)\nfor (i = 1; i < 400; i++) { s += e(1/i)*l(i+1) }\ns\n"),
    "library": ("libc.so.6", _library),
}
_COMPILED = {"assembly": ("source.s", "-S"), "object": ("source.o", "-c")}


def input_file(name: str, folder: Path) -> Path:
    """The input `name` in `folder`, made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    if name in _COMPILED:
        file_name, stage = _COMPILED[name]
        path = folder / file_name
        if not path.exists():
            compile_c(input_file("source", folder), path, [stage])
        return path
    if name not in _MAKERS:
        raise InputError(f"unknown input {name!r}; one of {', '.join([*_MAKERS, *_COMPILED])}")
    file_name, make = _MAKERS[name]
    path = folder / file_name
    if not path.exists():
        with atomic_path(path) as temporary:
            temporary.write_bytes(make())
    return path


def compile_c(source: Path, output: Path, options: list[str]) -> None:
    """Compile one C file with the system compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise InputError("no C compiler found (cc, gcc or clang); install one, for example Debian's gcc")
    with atomic_path(output) as temporary:
        command = [compiler, "-O2", *options, "-o", str(temporary), str(source), "-lm"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            first = (result.stderr.strip().splitlines() or ["no message"])[0]
            raise InputError(f"compiling {source} failed: {first}")
        temporary.chmod(0o755)
