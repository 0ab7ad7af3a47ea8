"""Deterministic inputs of the workloads, written once into a folder and found again there."""

from __future__ import annotations

import gzip
import lzma
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from support.errors import InputError
from support.files import atomic_path
from tracegen.suite import contents


def _library() -> bytes:
    for candidate in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6"):
        if Path(candidate).exists():
            return Path(candidate).read_bytes()
    raise InputError("no C library found under /lib; the workloads nm and objdump need one")


_MAKERS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "text": ("text.txt", contents.text),
    "text_xz": ("text.txt.xz", lambda: lzma.compress(contents.text(), preset=6)),
    "tcl_program": ("program.tcl", contents.tcl_program),
    "gp_program": (
        "program.gp",
        lambda: b"s=0;for(n=1,3000,s+=sigma(n^2+1));print(s,factor(2^101-1),polroots(x^24-3*x+1)[1]);quit\n",
    ),
    "text_gz": ("text.txt.gz", lambda: gzip.compress(contents.text(), 6, mtime=0)),
    "records": ("records.csv", contents.records),
    "records_changed": ("records-changed.csv", lambda: contents.records(True)),
    "json": ("records.json", contents.json_rows),
    "noise": ("noise.bin", contents.noise),
    "source": ("source.c", contents.source),
    "pi": ("pi.bc", lambda: b"scale=300\n4*a(1)\nfor (i = 1; i < 400; i++) { s += e(1/i)*l(i+1) }\ns\n"),
    "library": ("libc.so.6", _library),
    "xml": ("catalogue.xml", contents.xml),
    "stylesheet": ("catalogue.xsl", contents.stylesheet),
    "wave": ("sound.wav", contents.wave),
    "ppm": ("picture.ppm", contents.ppm),
    "png": ("picture.png", contents.png),
    "video": ("video.y4m", contents.video),
    "genome": ("genome.fa", contents.genome),
    "reads": ("reads.fa", contents.fasta),
    "sam": ("reads.sam", contents.sam),
    "protein": ("protein.fa", contents.protein),
    "query": ("query.fa", contents.query),
    "clauses": ("clauses.cnf", contents.clauses),
    "integer_program": ("knapsack.lp", contents.integer_program),
    "constraints": ("constraints.smt2", contents.constraints),
    "graph": ("graph.dot", contents.graph),
    "vectors": ("vectors.svm", contents.vectors),
    "points": ("points.txt", contents.points),
    "scene": ("scene.dat", contents.scene),
    "circuit": ("ring.cir", contents.circuit),
    "grammar": ("grammar.y", contents.grammar),
    "lexer": ("lexer.l", contents.lexer),
    "assembler": ("loop.asm", contents.assembler),
    "postscript": ("page.ps", contents.postscript),
    "manual": ("manual.ms", contents.manual),
    "markdown": ("text.md", contents.markdown),
    "chess_moves": ("moves.xboard", lambda: b"xboard\nnew\nsd 8\nst 60\ngo\nquit\n"),
    "go_moves": ("moves.gtp", lambda: b"boardsize 9\nclear_board\n" + b"genmove b\ngenmove w\n" * 20 + b"quit\n"),
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
    with atomic_path(output) as temporary, tempfile.TemporaryDirectory(prefix="perfvec-") as scratch:
        made = Path(scratch) / output.name
        command = [compiler, "-O2", *options, "-o", str(made), str(source), "-lm"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            lines = result.stderr.strip().splitlines() or ["no message"]
            said = next((line for line in lines if "error" in line), lines[0])
            raise InputError(f"compiling {source} failed: {said}")
        temporary.write_bytes(made.read_bytes())
        temporary.chmod(0o755)
