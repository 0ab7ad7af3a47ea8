"""Write the tables of native micro-operations (tracegen/decode/native/*.json) from LLVM's scheduling models.

python tools/write_native_micro_operations.py [--llvm-mca llvm-mca-19] [--family zen3] [FILE…]

Divisions of Zen 3 and 4, of which LLVM's models know one time for all operands, are measured instead (MEASURED). What
LLVM's model of a family is known not to have is left out (LEFT_OUT): a machine's own latencies stand there.

Forms are those of the instructions in the executables FILE (by default programs and libraries of this system); a form
that a table has stays where no file has it, and so does a family of whose instruction set there is no file. llvm-mca
tells the micro-operations, latency and reciprocal throughput of one example of each form.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import capstone
from elftools.elf.elffile import ELFFile

from tracegen.decode.disassembler import disassembler
from tracegen.decode.native.crack import RULES
from tracegen.decode.native.table import Cost, families, native_table, table_path, write_table
from tracegen.decode.native.x86_64_form import SAME
from uarch.constraints import FAMILIES

# Family → LLVM's name of it, and the oldest of Debian's llvm-mca that has its model.
CPUS = {
    "zen2": ("znver2", "llvm-mca-14"),
    "zen3": ("znver3", "llvm-mca-14"),
    "zen4": ("znver4", "llvm-mca-19"),
    "haswell": ("haswell", "llvm-mca-14"),
    "skylake": ("skylake", "llvm-mca-14"),
    "icelake": ("icelake-server", "llvm-mca-14"),
    "golden-cove": ("sapphirerapids", "llvm-mca-19"),
    "cortex-a53": ("cortex-a53", "llvm-mca-19"),
    "cortex-a72": ("cortex-a72", "llvm-mca-19"),
    "neoverse-n1": ("neoverse-n1", "llvm-mca-19"),
}
TRIPLES = {"x86-64": "x86_64", "aarch64": "aarch64"}
_MACHINES = {"EM_X86_64": "x86-64", "EM_AARCH64": "aarch64"}
_LIBRARIES = ("libc.so.6", "libm.so.6", "libcrypto.so.3", "libsqlite3.so.0", "liblzma.so.5", "libzstd.so.1")
DEFAULT = [
    *(f"/usr/bin/{name}" for name in ("gzip", "perl", "python3", "lz4", "mawk", "sort", "sed", "od", "jq", "openssl")),
    *(f"/lib/x86_64-linux-gnu/{name}" for name in _LIBRARIES),
]
# By benchmarks/uarch/host_loops.py on EPYCs of Zen 3 (2026-11-25) and Zen 4 (2026-11-26), which agree, with quotients
# of 28 to 59 bits: 64 bits take 14 to 15 cycles in a chain and 6.7 to 9 side by side, 32 bits 11.4 and 6. AMD's do with
# and without sign alike.
_DIVISIONS = {
    f"{name} {kind}": cost for name in ("div", "idiv") for kind, cost in (("r64", (2, 15, 8.0)), ("r32", (2, 11, 6.0)))
}
# By the same on the Zen 4: there and back between general and vector registers takes 7 cycles; with a conversion to an
# integer 10.5, from one 9; with a mask of signs 7.2, of 32 bytes 8; with a comparison's flags 9; with an element in or
# out 7 or 8. Which way takes how much is an estimate. LLVM's model has one cycle for most of these, and two
# micro-operations or more for counts of bits that Zen 4 finds in one.
_GENERAL = ("r32", "r64")
_CONDITIONS = "a ae b be e g ge l le ne no np ns o p s".split()
_ZEN4 = {
    **{f"{v}mov{q} x,r{bits}": (1, 3, 1.0) for v in ("", "v") for q, bits in (("d", 32), ("q", 64))},
    **{f"{v}mov{q} r{bits},x": (1, 4, 1.0) for v in ("", "v") for q, bits in (("d", 32), ("q", 64))},
    **{f"{v}cvt{t}s{f}2si {r},x": (2, 7, 1.0) for v in ("", "v") for t in ("", "t") for f in "sd" for r in _GENERAL},
    **{f"{v}{name} r32,x": (1, 4, 1.0) for v in ("", "v") for name in ("pmovmskb", "movmskpd", "movmskps")},
    **{f"v{name} r32,y": (1, 5, 1.0) for name in ("pmovmskb", "movmskpd", "movmskps")},
    **{f"{v}{u}comis{f} x,x": (2, 5, 1.0) for v in ("", "v") for u in ("", "u") for f in "sd"},
    **{f"{v}ptest {x},{x}": (2, 6, 1.0) for v, x in (("", "x"), ("v", "x"), ("v", "y"))},
    **{f"pinsr{q} x,{r},i": (2, 3, 1.0) for q, r in (("w", "r32"), ("d", "r32"), ("q", "r64"))},
    **{f"vpinsr{q} x,x,{r},i": (2, 3, 1.0) for q, r in (("w", "r32"), ("d", "r32"), ("q", "r64"))},
    **{f"{v}pextr{q} {r},x,i": (2, 5, 1.0) for v in ("", "v") for q, r in (("w", "r32"), ("d", "r32"), ("q", "r64"))},
    **{f"{name} {r},{r}": (1, 1, 0.25) for name in ("tzcnt", "lzcnt", "popcnt", "bsf", "bsr") for r in _GENERAL},
    **{f"set{condition} {r}": (1, 1, 0.5) for condition in _CONDITIONS for r in ("r8", "cl")},
    **{f"lea {r},m{k}": (1, 1, 0.5 if k == 3 else 0.25) for r in _GENERAL for k in (1, 2, 3)},
}
MEASURED: dict[str, dict[str, tuple[int, int, float]]] = {"zen3": _DIVISIONS, "zen4": _DIVISIONS | _ZEN4}
# LLVM has Cortex-A57's model for Cortex-A72, whose divisions, roots and scalar additions and products are quicker: the
# preset has them, by its head from Arm's guide UAN 0016.
# Of Cortex-A53 it has the quickest division for all; scalar additions and products take 6 cycles there, but 4 by the
# preset's source, and by later LLVM.
LEFT_OUT = {
    "cortex-a53": (
        re.compile(r"[su]div |(fadd|fsub|fn?mul) [sd],"),
        "without integer divisions, scalar sums and products",
    ),
    "cortex-a72": (
        re.compile(r"[su]div |fdiv |fsqrt |(fadd|fsub|fn?mul|fn?m(add|sub)) [sd],"),
        "of Cortex-A57, without divisions, roots, scalar sums and products",
    ),
}
_MOST = 150_000  # instructions of a file
_AT_ONCE = 250
_SECONDS = 5


def examples(files: Sequence[Path]) -> dict[str, dict[str, str]]:
    """Instruction set → form → text, as assemblers take it, of the first instruction that has it."""
    found: dict[str, dict[str, str]] = {}
    for path in files:
        with path.open("rb") as stream:
            file = ELFFile(stream)
            section = file.get_section_by_name(".text")
            if section is None or file["e_machine"] not in _MACHINES:
                raise SystemExit(f"{path}: no code of {' or '.join(RULES)}")
            isa, code = _MACHINES[file["e_machine"]], section.data()
        rules, known = RULES[isa], found.setdefault(isa, {})
        engine, other = disassembler(isa), disassembler(isa, detail=False)
        if isa == "x86-64":
            other.syntax = capstone.CS_OPT_SYNTAX_ATT
        at = left = 0
        while at < len(code) and left < _MOST:
            before = at
            for instruction in engine.disasm(code[at : at + 65536], at):
                at = instruction.address + instruction.size
                left += 1
                name = rules.form(instruction)
                if name not in known:
                    _, _, mnemonic, operands = next(other.disasm_lite(bytes(instruction.bytes), 0, 1))
                    known[name] = f"{mnemonic} {operands}"
            at += (at == before) * (1 if isa == "x86-64" else 4)  # what capstone does not know
    return found


def costs(tool: str, triple: str, cpu: str, known: dict[str, str]) -> dict[str, Cost]:
    """Form → micro-operations, latency, reciprocal throughput; forms that the tool does not know are left out."""
    found: dict[str, Cost] = {}
    names = list(known)
    waiting = [names[k : k + _AT_ONCE] for k in range(0, len(names), _AT_ONCE)]
    while waiting:
        part = waiting.pop()
        text = "\n".join(known[name] for name in part) + "\n"
        command = [tool, f"-mtriple={triple}", f"-mcpu={cpu}", "-iterations=1", "--instruction-info", "--json"]
        values = None
        try:
            run = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=_SECONDS)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pass  # LLVM 19 never ends on some instructions of Golden Cove
        else:
            values = json.loads(run.stdout)["CodeRegions"][0]["InstructionInfoView"]["InstructionList"]
        if values is None or len(values) != len(part):
            if len(part) > 1:
                waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
            continue
        for name, value in zip(part, values, strict=True):
            found[name] = Cost(value["NumMicroOpcodes"], value["Latency"], round(value["RThroughput"], 3))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--llvm-mca", help="by default the oldest one that has the family's model")
    parser.add_argument("--family", choices=CPUS, action="append")
    options = parser.parse_args(arguments)
    files = options.files or [path for path in map(Path, DEFAULT) if path.exists()]
    of_isa = examples(files)
    for family in options.family or CPUS:
        if (known := of_isa.get(FAMILIES[family])) is None:
            continue
        triple = TRIPLES[FAMILIES[family]]
        cpu, tool = CPUS[family]
        tool = options.llvm_mca or tool
        version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
        release = next(line.strip() for line in version.splitlines() if "version" in line)
        forms = dict(native_table(family).forms) if family in families() else {}
        forms |= costs(tool, triple, cpu, known)
        measured = {name: Cost(*cost) for name, cost in MEASURED.get(family, {}).items()}
        forms |= measured | {name + SAME: cost for name, cost in measured.items() if name + SAME in forms}
        source = f"llvm-mca -mcpu={cpu} of {release}, by tools/write_native_micro_operations.py"
        source += "; some measured (MEASURED)" if family in MEASURED else ""
        if family in LEFT_OUT:
            pattern, words = LEFT_OUT[family]
            forms = {name: cost for name, cost in forms.items() if not pattern.match(name)}
            source += f"; {words}"
        write_table(table_path(family), source, forms)
        print(f"{family}: {len(forms)} forms, of {len(known)} looked for", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
