"""Contents of the generated inputs: every function gives the same bytes each time (its own seed), sized for a few
hundred million instructions at most.
"""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_WORDS = 4000
_SYLLABLES = (
    "ba be bi bo bu da de di do du fa fi fo ga go ka ke ki la le li lo ma me mi mo na ne ni no pa pe qui ra re ri ro "
    "sa se si so ta te ti to va ve vi zu ing ed er"
).split()


def vocabulary(rng: np.random.Generator) -> list[str]:
    """4,000 pronounceable words."""
    return ["".join(rng.choice(_SYLLABLES, rng.integers(1, 5))) for _ in range(_WORDS)]


def text() -> bytes:
    """Words with Zipf's frequencies, 1.5 MB."""
    rng = np.random.default_rng(1)
    words = np.array(vocabulary(rng))
    drawn = words[np.minimum(rng.zipf(1.3, 260_000), _WORDS) - 1].tolist()
    lines = [" ".join(drawn[i : i + 12]) for i in range(0, len(drawn), 12)]
    return ("\n".join(lines) + "\n").encode()


def records(changed: bool = False) -> bytes:
    """Comma-separated number, word, number; `changed` alters every fiftieth line."""
    rng = np.random.default_rng(2)
    words = vocabulary(rng)
    lines = []
    for index in range(20_000):
        word, value = words[rng.integers(0, 500)], rng.integers(0, 100_000)
        lines.append(f"{index},{word},{value + (changed and index % 50 == 0)}")
    return ("\n".join(lines) + "\n").encode()


def json_rows() -> bytes:
    rng = np.random.default_rng(3)
    words = vocabulary(rng)
    rows = [{"name": words[rng.integers(0, 60)], "values": rng.integers(0, 999, 6).tolist()} for _ in range(3000)]
    return json.dumps(rows).encode()


def noise() -> bytes:
    """Half compressible bytes, 1 MB."""
    rng = np.random.default_rng(4)
    noise = rng.integers(0, 256, 1 << 20, dtype=np.uint8)
    noise[rng.random(1 << 20) < 0.5] = 0
    return noise.tobytes()


def source() -> bytes:
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


def xml() -> bytes:
    """A catalogue of 1,500 entries with attributes, text and nesting."""
    rng = np.random.default_rng(5)
    words = vocabulary(rng)
    rows = []
    for index in range(1500):
        name, text = words[rng.integers(0, 300)], " ".join(words[n] for n in rng.integers(0, 900, 8))
        rows.append(
            f'<item id="i{index}" kind="{name}"><price currency="x">{rng.integers(1, 9999) / 100}</price>'
            f"<note>{text}</note><sub><part n='{index % 7}'/><part n='{index % 11}'/></sub></item>"
        )
    return ("<?xml version='1.0'?>\n<catalogue>\n" + "\n".join(rows) + "\n</catalogue>\n").encode()


def stylesheet() -> bytes:
    return (
        b"<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'><xsl:template match='/'><t>"
        b"<xsl:for-each select='//item'><xsl:sort select='price' data-type='number'/><r k='{@kind}'><xsl:value-of "
        b"select='concat(price, substring(note, 1, 9), count(preceding-sibling::item[@kind = current()/@kind]))'/></r>"
        b"</xsl:for-each></t></xsl:template></xsl:stylesheet>\n"
    )


def wave() -> bytes:
    """Two channels of 16 bits at 44.1 kHz, 3 s: decaying tones and a little noise."""
    rng = np.random.default_rng(6)
    time = np.arange(3 * 44_100) / 44_100
    sound = np.zeros((len(time), 2))
    for pitch in (220, 277.2, 329.6, 440, 1318.5):
        for channel in range(2):
            beat = (time + rng.random()) % (0.2 + rng.random() / 2)
            sound[:, channel] += np.sin(2 * np.pi * pitch * time) * np.exp(-6 * beat)
    samples = (4000 * sound + 60 * rng.standard_normal(sound.shape)).astype("<i2").tobytes()
    head = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 2, 44_100, 176_400, 4, 16) + b"data"
    return b"RIFF" + struct.pack("<I", len(head) + 4 + len(samples)) + head + struct.pack("<I", len(samples)) + samples


def picture(phase: float = 0.0, width: int = 352, height: int = 288) -> NDArray[np.uint8]:
    """u8 [height, width, 3]: waves, a moving disc and grain."""
    y, x = np.mgrid[:height, :width] / 32.0
    red = 128 + 90 * np.sin(x + phase) * np.cos(y)
    green = 128 + 90 * np.sin(x * y / 4 - phase)
    blue = np.where(np.hypot(x - 4 - 3 * np.cos(phase), y - 4 - 2 * np.sin(phase)) < 2, 230, 40 + 8 * y)
    grain = np.random.default_rng(int(1000 * phase) + 8).normal(0, 4, (height, width, 3))
    return np.clip(np.stack([red, green, blue], axis=2) + grain, 0, 255).astype(np.uint8)


def ppm() -> bytes:
    image = picture()
    return b"P6 %d %d 255\n" % (image.shape[1], image.shape[0]) + image.tobytes()


def png() -> bytes:
    image = picture()
    rows = np.concatenate([np.zeros((len(image), 1), np.uint8), image.reshape(len(image), -1)], axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 2, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def video() -> bytes:
    """YUV4MPEG2, 176 × 144, 16 frames."""
    frames = [b"YUV4MPEG2 W176 H144 F25:1 Ip A1:1 C420jpeg\n"]
    for number in range(16):
        rgb = picture(number / 6, 176, 144).astype(np.float64)
        luma = rgb @ np.array([0.299, 0.587, 0.114])
        planes = [luma, *((rgb[::2, ::2, c] - luma[::2, ::2]) * 0.56 + 128 for c in (2, 0))]
        frames.append(b"FRAME\n" + b"".join(np.clip(p, 0, 255).astype(np.uint8).tobytes() for p in planes))
    return b"".join(frames)


def bases(seed: int, count: int) -> str:
    return "".join(np.array(list("ACGT"))[np.random.default_rng(seed).integers(0, 4, count)])


def genome() -> bytes:
    """One sequence of 60,000 bases with a few copied stretches."""
    text = bases(9, 60_000)
    text = text[:20_000] + text[5_000:6_000] + text[21_000:]
    return (">genome\n" + "\n".join(text[i : i + 70] for i in range(0, len(text), 70)) + "\n").encode()


def reads() -> list[tuple[int, str]]:
    """Places and letters of 800 stretches of 100 bases, a hundredth of the letters wrong."""
    rng = np.random.default_rng(10)
    whole = np.array(list("".join(genome().decode().split()[1:])))
    reads = []
    for place in rng.integers(0, len(whole) - 100, 800):
        read = whole[place : place + 100].copy()
        read[rng.random(100) < 0.01] = "A"
        reads.append((int(place), "".join(read)))
    return reads


def fasta() -> bytes:
    return "".join(f">r{n}\n{read}\n" for n, (_, read) in enumerate(reads())).encode()


def sam() -> bytes:
    lines = ["@HD\tVN:1.6\tSO:unsorted", f"@SQ\tSN:genome\tLN:{len(''.join(genome().decode().split()[1:]))}"]
    for number, (place, read) in enumerate(reads() * 6):
        lines.append(f"r{number}\t0\tgenome\t{place + 1}\t60\t100M\t*\t0\t0\t{read}\t{'I' * 100}")
    return ("\n".join(lines) + "\n").encode()


def protein() -> bytes:
    """300 chains of 200 amino acids; every tenth a distant relative of the first."""
    rng = np.random.default_rng(11)
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
    first = rng.integers(0, 20, 200)
    chains = []
    for number in range(300):
        chain = np.where(rng.random(200) < 0.5, first, rng.integers(0, 20, 200)) if number % 10 == 0 else None
        chains.append(f">p{number}\n{''.join(letters[rng.integers(0, 20, 200) if chain is None else chain])}\n")
    return "".join(chains).encode()


def clauses() -> bytes:
    """A random 3-SAT formula at 4.26 clauses a variable, where they are hard."""
    rng = np.random.default_rng(12)
    variables, clauses = 220, 937
    rows = [rng.choice(variables, 3, replace=False) + 1 for _ in range(clauses)]
    signs = rng.choice([-1, 1], (clauses, 3))
    text = "\n".join(" ".join(map(str, row * sign)) + " 0" for row, sign in zip(rows, signs, strict=True))
    return f"p cnf {variables} {clauses}\n{text}\n".encode()


def integer_program() -> bytes:
    """A knapsack of 60 things under 6 limits, in CPLEX's LP format."""
    rng = np.random.default_rng(13)
    worth, weight = rng.integers(20, 99, 60), rng.integers(5, 60, (6, 60))

    def total(factors: NDArray[np.int64]) -> str:
        terms = [f"{factor} x{n}" for n, factor in enumerate(factors)]
        return " +\n ".join(" + ".join(terms[i : i + 10]) for i in range(0, 60, 10))

    limits = "\n".join(f" c{n}: {total(row)} <= {row.sum() // 3}" for n, row in enumerate(weight))
    names = " ".join(f"x{n}" for n in range(60))
    return f"Maximize\n obj: {total(worth)}\nSubject To\n{limits}\nBinary\n {names}\nEnd\n".encode()


def constraints() -> bytes:
    """Eight queens and a sum of products over bit-vectors, as SMT-LIB."""
    lines = ["(set-logic QF_BV)"]
    lines += [f"(declare-const q{n} (_ BitVec 8))" for n in range(9)]
    lines += [f"(assert (bvult q{n} #x09))" for n in range(9)]
    for a in range(9):
        for b in range(a):
            step = f"#x{a - b:02x}"
            diagonals = f"(distinct (bvadd q{a} {step}) q{b}) (distinct q{a} (bvadd q{b} {step}))"
            lines.append(f"(assert (and (distinct q{a} q{b}) {diagonals}))")
    lines.append("(assert (= (bvadd (bvmul q0 q1) (bvmul q2 q3)) (bvadd (bvmul q4 q5) #x07)))")
    return "\n".join([*lines, "(check-sat)", ""]).encode()


def graph() -> bytes:
    """A directed graph of 120 nodes and 220 edges for a layout program."""
    rng = np.random.default_rng(14)
    edges = "".join(f"n{a} -> n{b};" for a, b in np.sort(rng.integers(0, 120, (220, 2)), axis=1) if a != b)
    return f"digraph g {{ {edges} }}\n".encode()


def vectors() -> bytes:
    """400 labelled points of 12 dimensions, in svmlight's format."""
    rng = np.random.default_rng(15)
    points = rng.normal(size=(400, 12))
    labels = np.where((points[:, :3] ** 2).sum(axis=1) + rng.normal(0, 0.5, 400) > 3, 1, -1)
    rows = (" ".join(f"{n + 1}:{value:.5f}" for n, value in enumerate(point)) for point in points)
    return "".join(f"{label} {row}\n" for label, row in zip(labels, rows, strict=True)).encode()


def points() -> bytes:
    rng = np.random.default_rng(16)
    points = rng.normal(size=(4000, 3))
    return ("3\n4000\n" + "\n".join(" ".join(f"{v:.6f}" for v in point) for point in points) + "\n").encode()


def scene() -> bytes:
    """Mirroring balls over a checkered plane, in Tachyon's format."""
    rng = np.random.default_rng(17)
    finish = "TEXTURE AMBIENT 0.1 DIFFUSE 0.6 SPECULAR 0.4 OPACITY 1.0 COLOR"
    balls = "\n".join(
        f"SPHERE CENTER {x:.2f} {y:.2f} {z:.2f} RAD 0.6 {finish} 1.0 {g:.2f} 0.2 TEXFUNC 0"
        for x, y, z, g in zip(*(rng.uniform(-3, 3, 24) for _ in range(3)), rng.random(24), strict=True)
    )
    return (
        "BEGIN_SCENE\nRESOLUTION 200 150\nCAMERA\nZOOM 1.0\nASPECTRATIO 1.0\nANTIALIASING 1\nRAYDEPTH 5\n"
        "CENTER 0.0 0.0 -8.0\nVIEWDIR 0 0 1\nUPDIR 0 1 0\nEND_CAMERA\n"
        "LIGHT CENTER 5.0 9.0 -9.0 RAD 0.1 COLOR 1.0 1.0 1.0\n"
        f"PLANE CENTER 0 -3.5 0 NORMAL 0 1 0 {finish} 1 1 1 TEXFUNC 1 CENTER 0 0 0 ROTATE 0 0 0 SCALE 1 1 1\n"
        f"{balls}\nEND_SCENE\n"
    ).encode()


def circuit() -> bytes:
    """A ring of nine inverters, for a circuit simulator."""
    stages = "\n".join(
        f"mn{n} s{(n + 1) % 9} s{n} 0 0 nm\nmp{n} s{(n + 1) % 9} s{n} vdd vdd pm\nc{n} s{n} 0 10f" for n in range(9)
    )
    return (
        f"ring\nvdd vdd 0 3\n{stages}\n.model nm nmos level=1 vto=0.7 kp=100u\n.model pm pmos level=1 vto=-0.7 kp=40u\n"
        ".ic v(s0)=0 v(s1)=3\n.tran 0.05n 60n uic\n.print tran v(s0)\n.end\n"
    ).encode()


def grammar() -> bytes:
    """An expression grammar with 40 kinds of statements, for a parser generator."""
    kinds = "".join(f"  | K{n} expr ';' | K{n} '(' list ')' block\n" for n in range(40))
    tokens = " ".join(f"K{n}" for n in range(40))
    operators = "".join(f"%left OP{n}\n" for n in range(12))
    expressions = "".join(f"  | expr OP{n} expr\n" for n in range(12))
    return (
        f"%token NUM ID {tokens}\n{operators}%%\nprogram: %empty | program statement;\nblock: '{{' program '}}';\n"
        f"statement: expr ';'\n{kinds};\nlist: expr | list ',' expr;\n"
        f"expr: NUM | ID | '(' expr ')' | ID '(' list ')'\n{expressions};\n%%\n"
    ).encode()


def lexer() -> bytes:
    rng = np.random.default_rng(18)
    rules = "".join(f'"{word}" return {n};\n' for n, word in enumerate(dict.fromkeys(vocabulary(rng)[:150])))
    return (
        "%option noyywrap\n%%\n" + rules + "[a-z]+ return 900;\n[0-9]+(\\.[0-9]*)? return 901;\n.|\\n ;\n%%\n"
    ).encode()


def assembler() -> bytes:
    rows = [
        f"l{n}: mov rax, [rbx + {n % 64} * 8]\n add rcx, rax\n cmp rcx, {n}\n jle l{max(n - 9, 0)}" for n in range(6000)
    ]
    return ("bits 64\nsection .text\n" + "\n".join(rows) + "\n ret\n").encode()


def postscript() -> bytes:
    return (
        b"%!PS\n/Helvetica findfont 9 scalefont setfont\n"
        b"0 4 700 { dup 100 mod 10 add exch moveto (turning text) show } for\n"
        b"0 1 400 { /n exch def gsave 300 400 translate n 3 mul rotate n 255 div 1 n 400 div sub 0.5 setrgbcolor "
        b"newpath 0 0 moveto n 0.6 mul 40 n 20 n 2 div 90 curveto closepath fill grestore } for\nshowpage\n"
    )


def manual() -> bytes:
    rng = np.random.default_rng(19)
    words = np.array(vocabulary(rng))
    text = [f".SH\n{words[n]}\n.PP\n" + " ".join(words[rng.integers(0, 2000, 120)]) + "\n" for n in range(60)]
    return ("".join(text)).encode()


def markdown() -> bytes:
    rng = np.random.default_rng(20)
    words = np.array(vocabulary(rng))
    text = []
    for n in range(700):
        line = " ".join(words[rng.integers(0, 2000, 30)])
        text.append(
            f"## {words[n]} *{words[n + 1]}*\n\n- {line} [`{words[n + 2]}`](http://x/{n})\n- **{line}**\n\n> {line}\n\n"
        )
    return "".join(text).encode()


def tcl_program() -> bytes:
    return (
        b"proc fib n { if {$n < 2} { return $n }; expr {[fib [expr {$n-1}]] + [fib [expr {$n-2}]]} }\nputs [fib 15]\n"
        b"for {set i 0} {$i < 20000} {incr i} {\n"
        b"  incr c([expr {$i * 7919 % 997}]); lappend l [string range key$i 1 4]\n}\n"
        b"puts [llength [lsort -unique $l]]; puts [array size c]; puts [regsub -all {y(\\d)} [join $l] {<\\1>} x]\n"
    )


def query() -> bytes:
    """The first of the proteins."""
    return b"".join(protein().splitlines(keepends=True)[:2])
