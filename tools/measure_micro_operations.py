"""Measure latencies and throughputs of x86-64 instructions on this computer, as a family's table of micro-operations.

python tools/measure_micro_operations.py zen5 --like zen4      # quiet; minutes

Writes tracegen/decode/native/FAMILY.json. Forms, micro-operations and what cannot be measured are those of the family
that it is like. A form without a memory operand is timed as a loop (benchmarks/uarch/time_blocks.c):

- throughput: eight or twelve of them on different registers; of branches, that are not taken;
- latency: a chain through each of its operands, the longest; to the next instruction of its own kind, and to a shuffle.
  Where the shuffle has to wait a cycle longer, the form forwards;
- between general and vector registers: a chain there and back, less what goes back. Which way of a move there and back
  takes how much, a load tells that comes back through a vector register: loads into one take as much longer than into a
  general register as the other family's.

Two runs on a Zen 5 differed in 29 of 1,256 forms, all by one port more or less of operations that any unit does.
"""

from __future__ import annotations

import argparse
import math
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from tqdm import tqdm

from tracegen.decode.native.table import Cost, families, native_table, table_path, write_table
from tracegen.decode.native.x86_64_form import SAME
from uarch.constraints import FAMILIES
from uarch.host.told import told

TIMER = Path(__file__).parents[1] / "benchmarks" / "uarch" / "time_blocks.c"
ROUNDS = 400  # of a block's loop, whose end is mispredicted
COPIES = 10  # of a block one behind another, and four times as many
CHAINED = 4  # links of a chain in a round
DIVIDES = ("div", "idiv")
# Operands that are not written, or an effect beyond registers and flags; moves that renaming does, zero idioms.
LEFT_OUT = frozenset(
    "mul div idiv cqo cdq cdqe cwde cbw call ret retf retfq jmp jrcxz loop push pop leave enter xchg xadd cmpxchg nop "
    "lfence mfence sfence cpuid rdtsc rdtscp rdpmc xgetbv syscall sysenter hlt int int1 int3 ud2 in out cli sti cld "
    "std clc stc cmc lahf sahf pause endbr64 vzeroupper vzeroall emms fwait rdrand rdseed movsb stosb lodsb scasb "
    "prefetchw data16 rdsspq incsspq sldt str smsw".split()
)
GENERAL = ("rax", "rbx", "rdx", "rsi", "rdi", "r8", "r9", "r10")
SOURCES = {"general": ("r12", "r13", "r14"), "vector": ("13", "14", "15")}
_LOW = {"rax": "al", "rbx": "bl", "rdx": "dl", "rsi": "sil", "rdi": "dil"}
_VECTORS = 12
_DISTURBED = 0.15  # a cycle's: so many more are no further port
_SETUP = """
    mov r14, 0x3ff123456789abcd
    movq xmm15, r14
    movddup xmm15, xmm15
    movapd xmm14, xmm15
    movapd xmm13, xmm15
"""  # Results go on from one copy of a block to the next, and upper halves stay zero, as in code without AVX.
_BACK = {"general": "vmovq xmm0, rax", "vector": "vmovq rax, xmm0"}  # by what is computed
_SHUFFLES = {"x": "pshufd xmm0, xmm0, 0xe4", "y": "vpshufd ymm0, ymm0, 0xe4"}
_DIVIDE = "and {a}, 0\nadd r13{d}, {a}\nmov {a}, r13{d}\nxor edx, edx\n{name} r12{d}"  # two cycles more


def register(kind: str, name: str) -> str:
    """The register as an operand of the kind: `name` is rax, …, or a vector register's number."""
    if kind in ("x", "y"):
        return f"{kind}mm{name}"
    if kind == "r64":
        return name
    extended = name[1:].isdigit()
    if kind == "r8":
        return f"{name}b" if extended else _LOW[name]
    return name + kind.replace("r32", "d").replace("r16", "w") if extended else name.replace("r", "e" * (kind == "r32"))


def _class(kind: str) -> str:
    return "vector" if kind in ("x", "y") else "general" if kind[:1] == "r" and kind[1:].isdigit() else ""


@dataclass(frozen=True)
class Form:
    """A mnemonic and the kinds of its operands, all registers, constants, `cl` or, of `lea`, an address."""

    mnemonic: str
    kinds: tuple[str, ...]

    def text(self, names: Sequence[str]) -> str:
        """The instruction, whose k-th operand is in register `names[k]`."""
        return f"{self.mnemonic} " + ", ".join(self._operand(*one) for one in zip(self.kinds, names, strict=True))

    def _operand(self, kind: str, name: str) -> str:
        if kind == "i":
            return "0" if "pinsr" in self.mnemonic else "1"
        if kind == "cl":
            return "cl"
        if self.mnemonic == "lea" and kind[0] == "m":
            return f"[{name}" + " + r13" * (kind >= "m2") + " + 8" * (kind == "m3") + "]"
        return register(kind, name)

    def class_of(self, place: int) -> str:
        """`general` or `vector`; of neither: empty."""
        kind = self.kinds[place]
        return "general" if self.mnemonic == "lea" and kind[0] == "m" else _class(kind)

    def assigned(self, chained: int | None, result: str) -> list[str]:
        """Registers by operand: the first is `result`, and so is number `chained`; others are never written."""
        spare = {name: iter(names) for name, names in SOURCES.items()}
        names = [next(spare[self.class_of(k)], "r12") if self.class_of(k) else "" for k in range(len(self.kinds))]
        names[0] = result
        if chained is not None:
            names[chained] = result
        return names

    def chains(self) -> Iterator[list[str]]:
        """Blocks of one instruction each that waits for the one before, through one operand each."""
        first = self.class_of(0)
        for place in range(len(self.kinds)):
            if self.class_of(place) == first:
                yield [self.text(self.assigned(place, "rax" if first == "general" else "0"))]

    def there_and_back(self) -> list[str] | None:
        """A chain through a register of the other class; None where there is no operand of it."""
        first = self.class_of(0)
        other = next((k for k in range(1, len(self.kinds)) if self.class_of(k) not in ("", first)), None)
        if other is None:
            return None
        names = self.assigned(None, "rax" if first == "general" else "0")
        names[other] = "0" if first == "general" else "rax"
        return [self.text(names), _BACK[first]]

    def side_by_side(self) -> list[str]:
        """Independent copies of the instruction, as many as there are registers."""
        results = GENERAL if self.class_of(0) == "general" else [str(k) for k in range(_VECTORS)]
        return [self.text(self.assigned(None, name)) for name in results]


def measurable(name: str) -> Form | None:
    """The form, if it can be timed."""
    mnemonic, _, rest = name.removesuffix(SAME).partition(" ")
    form = Form(mnemonic, tuple(rest.split(",")))
    known = all(form.class_of(k) or kind in ("i", "cl") for k, kind in enumerate(form.kinds))
    if mnemonic in LEFT_OUT or mnemonic[0] == "j" or not rest or not known or not form.class_of(0):
        return None
    if form.kinds[0] == "cl" or mnemonic in ("cmp", "test", "bt") or "comis" in mnemonic or "ptest" in mnemonic:
        return None  # what they write cannot be waited for by themselves
    return form


def assembled(blocks: Sequence[Sequence[str]], folder: Path) -> list[bytes | None]:
    """The code of each block as a loop of ROUNDS; None where the assembler does not know an instruction."""
    found: list[bytes | None] = []
    source, binary = folder / "blocks.s", folder / "blocks.o"
    for lines in blocks:
        body = "\n".join(lines)
        source.write_text(
            f".intel_syntax noprefix\n{_SETUP}mov r12, 7\nmov r13, 0x3f23456789abcdef\nmov ecx, 3\nmov r15d, {ROUNDS}\n"
            f".p2align 5\n1:\n{body}\ndec r15d\njnz 1b\n"
        )
        done = subprocess.run(["as", "-o", binary, source], capture_output=True, check=False)
        if done.returncode:
            found.append(None)
            continue
        with binary.open("rb") as stream:
            section = ELFFile(stream).get_section_by_name(".text")
            found.append(None if section is None else section.data())
    return found


def cycles(blocks: Sequence[Sequence[str]]) -> list[float]:
    """Cycles of a round of each block; NaN where it cannot be run."""
    with tempfile.TemporaryDirectory(prefix="perfvec-") as name:
        folder = Path(name)
        subprocess.run(["cc", "-O2", f"-DCOPIES={COPIES}", "-o", folder / "timer", TIMER], check=True)
        codes = assembled(blocks, folder)
        with subprocess.Popen([folder / "timer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as timer:
            assert timer.stdin and timer.stdout
            found = []
            for code in tqdm(codes, desc="timing", unit="blocks", disable=None):
                line = "-"
                if code is not None:
                    timer.stdin.write(code.hex() + "\n")
                    timer.stdin.flush()
                    line = timer.stdout.readline().strip()
                found.append(np.nan if line == "-" else float(line) / ROUNDS)
            timer.stdin.close()
    return found


def throughput(value: float) -> float:
    """Below a cycle the reciprocal of the fewest ports that can do so many."""
    return round(value, 1) if value > 0.95 else round(1 / math.ceil(1 / value - _DISTURBED), 3)


def divisions() -> dict[str, Cost]:
    """Divisions of long numbers by 7; with and without sign."""
    kinds = {"r64": ("rax", ""), "r32": ("eax", "d")}
    chains = {
        f"{name} {kind}": _DIVIDE.format(name=name, a=a, d=d).splitlines()
        for name in DIVIDES
        for kind, (a, d) in kinds.items()
    }
    times = cycles([CHAINED * lines for chain in chains.values() for lines in (chain, chain[2:])])
    pairs = zip(chains, times[::2], times[1::2], strict=True)
    return {name: Cost(2, round(chain / CHAINED - 2), throughput(many / CHAINED)) for name, chain, many in pairs}


def accesses(like: Mapping[str, Cost]) -> dict[str, Cost]:
    """Vectors loaded and stored, whose throughput alone is measured."""
    forms = {"movups x,m128": "movups xmm{k}, [rdi + {at}]", "movups m128,x": "movups [rdi + {at}], xmm{k}"}
    times = cycles([[text.format(k=k, at=64 * k) for k in range(8)] for text in forms.values()])
    return {name: like[name]._replace(throughput=throughput(t / 8)) for name, t in zip(forms, times, strict=True)}


def branches(like: Mapping[str, Cost]) -> dict[str, Cost]:
    """Direct jumps, by compares whose branches are not taken."""
    (time,) = cycles([["cmp r12, r13\nje 9f"] * 8 + ["9:"]])
    forms = [name for name in like if name[0] == "j" and name.endswith(" i")]
    return {name: like[name]._replace(throughput=throughput(time / 8)) for name in forms}


def measured(like: Mapping[str, Cost]) -> dict[str, Cost]:
    """The forms that can be timed, with micro-operations as in `like`."""
    plain = dict.fromkeys(name.removesuffix(SAME) for name in like)
    forms = {name: form for name in plain if (form := measurable(name)) is not None}
    first = [
        ["mov rax, [rax]"],
        ["vmovq xmm0, [rax]", _BACK["vector"]],
        [_BACK["general"], _BACK["vector"]],
        *([text] for text in _SHUFFLES.values()),
    ]
    blocks = [CHAINED * chain for chain in first]
    ranges: dict[str, slice] = {}
    for name, form in forms.items():
        back = form.there_and_back()
        chains = list(form.chains())
        chains = chains if back is None else [*chains[:1], back]
        shuffle = _SHUFFLES.get(form.kinds[0]) if back is None else None
        mixed = [[*chain, shuffle] for chain in chains] if shuffle else []
        ranges[name] = slice(len(blocks), len(blocks) + 1 + len(chains) + len(mixed))
        blocks += [form.side_by_side(), *(CHAINED * chain for chain in (*chains, *mixed))]
    times = cycles(blocks)
    load, through, both, *each = (time / CHAINED for time in times[: len(first)])
    out = through - load - (like["movups x,m128"].latency - like["mov r64,m64"].latency)
    way = {"general": both - out, "vector": out}  # back
    shuffles = dict(zip(_SHUFFLES, each, strict=True))
    found: dict[str, Cost] = {}
    for name, form in forms.items():
        many, *each = times[ranges[name]]
        of_many, alone = many / len(form.side_by_side()), [time / CHAINED for time in each]
        known = like.get(name) or like[name + SAME]
        if not np.isfinite(of_many) or known.latency == 0:
            continue
        forwards = False
        if form.there_and_back() is not None:
            latency = alone[-1] - way[form.class_of(0)]
        elif form.kinds[0] in _SHUFFLES:
            own, mixed = np.rint(np.reshape(alone, (2, -1)) - [[0], [shuffles[form.kinds[0]]]])
            forwards = bool((mixed == own + 1)[own > 1].any())
            latency = max(own.max(), mixed.max())
        else:
            latency = max(alone)
        found[name] = Cost(known.micro_operations, max(round(latency), 1), throughput(of_many), forwards)
    return found | divisions() | accesses(like) | branches(like)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("family", choices=[name for name, isa in FAMILIES.items() if isa == "x86-64"])
    parser.add_argument("--like", choices=families(), required=True)
    options = parser.parse_args(arguments)
    if platform.machine() != "x86_64":
        parser.error("instructions of x86-64 are measured on an x86-64 computer")
    here = told()
    if here.family != options.family:
        parser.error(f"this computer is of {here.family}, not of {options.family}")
    if "avx2" not in here.features:
        parser.error("this computer has no AVX2, whose moves other instructions are timed with")
    like = native_table(options.like)
    own = measured(like.forms)
    own |= {name: own[name.removesuffix(SAME)] for name in like.forms if _same_of(name, like.forms, own)}
    forms = {**like.forms, **own}
    print(f"{len(own)} of {len(forms)} forms measured", file=sys.stderr)
    source = f"measured on {here.model_name} ({options.family}) by tools/measure_micro_operations.py; "
    source += f"micro-operations, and what cannot be measured, as {options.like}'s"
    write_table(table_path(options.family), source, forms)
    return 0


def _same_of(name: str, like: Mapping[str, Cost], own: Mapping[str, Cost]) -> bool:
    """Return whether a form with one register twice is like the one with two, which has been measured."""
    plain = name.removesuffix(SAME)
    return name.endswith(SAME) and plain in own and like[name] == like.get(plain, like[name])


if __name__ == "__main__":
    sys.exit(main())
