"""Small loops with known mechanisms, timed on this computer and simulated: cycles of a round of each, as a table.

python benchmarks/uarch/host_loops.py host.yaml [--loops NAME…] [--set FIELD=VALUE…] [--stack]

Each loop is there for one mechanism: a dependence through memory, a unit, a predictor, a prefetcher. What it shows of a
processor may change the simulator; the programs that a machine is judged by may not.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace
from uarch.configuration import Machine, parse_value, replace_fields
from uarch.host.probe import Probe
from uarch.host.snippets import Snippet, assembly
from uarch.host.told import told
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation, new_stack
from uarch.timing.stack import CAUSES

_MAIN = """
#include <stdlib.h>
#include <string.h>
typedef struct { void *a, *b; } pointers;
typedef pointers (*snippet)(void *, void *, long, long);
extern const snippet snippets[];
int main(int argc, char **argv) {
    long which = atol(argv[1]), rounds = atol(argv[2]), bytes = atol(argv[3]);
    char *a = aligned_alloc(1 << 21, bytes + (1 << 21)), *b = aligned_alloc(1 << 21, bytes + (1 << 21));
    memset(a, 0, bytes), memset(b, 0, bytes);
    snippets[which](a, b, rounds, 0);
    snippets[which](a, b, rounds, 0);
    return 0;
}
"""


@dataclass(frozen=True)
class Loop:
    """`body` runs `rounds` times on two buffers of `size` bytes; a round does `count` of what is of interest."""

    name: str
    body: str
    count: int = 1
    before: str = ""
    size: int = 1 << 16
    rounds: int = 2000

    @property
    def longer(self) -> int:
        """Times as many rounds on this computer, whose clock is read in 2,000 cycles; a walk takes long enough."""
        return 20 if self.size <= 1 << 16 else 1

    @property
    def snippet(self) -> Snippet:
        return Snippet(self.name, self.body, self.count, self.before)


def _eight(name: str, text: str, before: str = "") -> Loop:
    """Eight of `text` side by side, with other registers and places each."""
    registers = ("rax", "rbx", "rdx", "r8", "r9", "r10", "r11", "r14")
    lines = [text.format(k=k, r=register, at=64 * k) for k, register in enumerate(registers)]
    return Loop(name, "\n".join(lines), len(lines), before)


_NINE = "mov rax, 0x3ff123456789abcd\nmovq xmm9, rax\nmovq xmm8, rax"  # a double beyond one in xmm8 and xmm9


def _through_memory() -> list[Loop]:
    """Loads behind stores, to the same place and to others."""
    add = "movsd xmm0, [r14]\nmulsd xmm0, xmm1\naddsd xmm0, [rbx]\nmovsd [rbx], xmm0\nadd rbx, 8\nadd r14, 8"
    sums = [
        Loop(
            f"sums in memory, again after {n}",
            f"mov rbx, rdi\nlea rdx, [rdi + {8 * n}]\nmov r14, rsi\n2:\n{add}\ncmp rbx, rdx\njne 2b",
            n,
            "pxor xmm1, xmm1",
            rounds=4000 // n * 4 + 8,
        )
        for n in (1, 2, 4, 8, 16, 48, 128)
    ]
    return [
        *sums,
        Loop("integer through memory", "mov [rdi], rax\nmov rax, [rdi]"),
        Loop("byte through memory", "mov [rdi], al\nmovzx eax, byte ptr [rdi]"),
        Loop("operand in memory", "mov [rdi], rax\nmov rax, r8\nimul rax, [rdi]"),
        Loop("additions in memory, the same registers", "add [rdi], r8"),
        Loop("additions in memory, other registers", "add [rdi], r8\nadd [rbx], r8", 2, "mov rbx, rdi"),
        Loop("double through memory", "movsd [rdi], xmm0\nmovsd xmm0, [rdi]"),
        Loop("half of what is stored", "mov [rdi], rax\nmov eax, [rdi + 4]"),
        Loop("two stores, one load", "mov [rdi], eax\nmov [rdi + 4], eax\nmov rax, [rdi]"),
        Loop("store beside a load", "imul rax, rax\nmov [rdi], rax\nmov rbx, [rdi + 8]\nadd rcx, rbx"),
        Loop("push and pop", "push rax\npush rbx\npop rbx\npop rax"),
        Loop("push and an addition to the stack pointer", "push rax\nadd rsp, 8"),
    ]


def _units() -> list[Loop]:
    """Dividers, ports of vectors."""
    divide = "mov rax, r13\nxor edx, edx\ndiv rbp"
    lea = "lea r9, [rdi + 1]\n"
    return [
        _eight("divisions of 46 bits side by side", divide, "mov rbp, 262144\nmov r13, 0x3f23456789abcdef"),
        _eight("divisions of 59 bits side by side", divide, "mov rbp, 7\nmov r13, 0x3f23456789abcdef"),
        _eight(
            "divisions of 32 bits side by side", "mov eax, r13d\nxor edx, edx\ndiv ebp", "mov ebp, 7\nmov r13d, 1 << 30"
        ),
        Loop("divisions in a chain", f"and rax, 0\nadd r13, rax\n{divide}", 1, "mov rbp, 262144\nmov r13, 1 << 61"),
        _eight("roots side by side", "sqrtsd xmm{k}, xmm9", _NINE),
        Loop("roots in a chain", "sqrtsd xmm9, xmm9", 1, _NINE),
        _eight("double divisions side by side", "movapd xmm{k}, xmm8\ndivsd xmm{k}, xmm9", _NINE),
        Loop("root and division by turns", "sqrtsd xmm0, xmm9\nmovapd xmm1, xmm8\ndivsd xmm1, xmm9", 1, _NINE),
        _eight("loads of registers", "mov {r}, [rdi + {at}]"),
        _eight("loads of vectors", "movups xmm{k}, [rdi + {at}]"),
        _eight("loads of vectors, unaligned", "movups xmm{k}, [rdi + {at} + 1]"),
        _eight("loads of vectors across lines", "movups xmm{k}, [rdi + {at} + 56]"),
        _eight("stores of vectors", "movups [rdi + {at}], xmm{k}"),
        _eight("stores of vectors, unaligned", "movups [rdi + {at} + 1], xmm{k}"),
        _eight("stores of vectors across lines", "movups [rdi + {at} + 56], xmm{k}"),
        Loop("two stores to a line", "mov [rdi], rax\nmov [rdi + 8], rbx"),
        Loop("two stores to two lines", "mov [rdi], rax\nmov [rdi + 64], rbx"),
        *_chained_loads(),
        *_there_and_back(),
        _eight("shifts", "shl {r}, 3"),
        _eight("moves to vector registers", "movq xmm{k}, rdi"),
        Loop("a chain of additions beside three others", "add rbx, 1\n" + lea * 3, 1),
        Loop("three chains of additions", "add rbx, 1\nadd rdx, 1\nadd r8, 1"),
        Loop("eight bytes loaded and added", "movzx ecx, byte ptr [rdi]\n" + "add cl, [rdi + 1]\n" * 8),
        _eight("bytes added", "paddb xmm{k}, xmm9"),
        _eight("shuffles", "pshufd xmm{k}, xmm9, 3"),
        _eight("lea of three parts", "lea {r}, [rdi + rsi + 5]"),
        _eight("conditional moves", "cmove {r}, rdi"),
    ]


def _there_and_back() -> list[Loop]:
    """Chains from a general register to a vector register and back."""
    kinds = {
        "by moves": "movq xmm0, rax\nmovq rax, xmm0",
        "by a conversion from an integer": "cvtsi2sd xmm0, rax\nmovq rax, xmm0",
        "by a conversion to an integer": "movq xmm0, rax\ncvttsd2si rax, xmm0",
        "by a mask": "movq xmm0, rax\npmovmskb eax, xmm0",
        "by a mask of 32 bytes": "vmovq xmm0, rax\nvpmovmskb eax, ymm0",
        "by a comparison": "movq xmm0, rax\ncomisd xmm0, xmm1\nsbb rax, rax",
        "by a test": "movq xmm0, rax\nptest xmm0, xmm1\nsetb al",
        "by an element put in": "pinsrq xmm0, rax, 0\nmovq rax, xmm0",
        "by an element taken out": "movq xmm0, rax\npextrq rax, xmm0, 1",
    }
    return [Loop(f"there and back {kind}", text) for kind, text in kinds.items()]


def _chained_loads() -> list[Loop]:
    """Loads that wait for one another, by the form of the address and what is done to the number."""
    again = "and eax, 0\n"  # one cycle
    kinds = {
        "base and index": "mov eax, [rdi + rax]",
        "base and scaled index": "mov eax, [rdi + 4*rax]",
        "base, index and constant": "mov eax, [rdi + rax + 64]",
        "zeros in front": "movzx eax, byte ptr [rdi + rax]",
        "signs in front": "movsx eax, byte ptr [rdi + rax]",
    }
    return [Loop(f"load and a cycle: {kind}", again + text) for kind, text in kinds.items()]


def _branches() -> list[Loop]:
    """Jumps near one another; branches and indirect jumps on random bits that come again after so many."""
    draw = "lea r8, [r8 + 4*r8 + 13]\nand r8, {mask}\nmov rax, r8\nimul rax, r12\n"
    go = "lea rdx, [rip + 7f]\nmovsxd rax, dword ptr [rdx + 4*rax]\nadd rax, rdx\njmp rax\n"
    go += "".join(f"{k + 3}: add rbx, {k}\njmp 8f\n" for k in range(4))
    go += ".balign 4\n7: " + "".join(f".long {k + 3}b - 7b\n" for k in range(4)) + "8:"
    kinds = {
        "branches": "shr rax, 63\njz 2f\nadd rbx, 1\n2:",
        "jumps of four targets": "shr rax, 62\n" + go,
        "jumps that a branch foretells": "shr rax, 63\njz 2f\nadd rbx, 1\n2:\n" + go,
    }
    before = "mov r12, 0x9E3779B97F4A7C15\nxor r8d, r8d"
    random = [
        Loop(f"{kind} of {period}", draw.format(mask=period - 1) + body, 1, before, rounds=3 * max(period, 8192))
        for kind, body in kinds.items()
        for period in (4, 16, 64, 256, 4096, 16384)
    ]
    jumps = [Loop(f"jumps every {step} bytes", f"jmp 2f\n.balign {step}\n2:\n" * 32, 32) for step in (4, 8, 16, 64)]
    adds = "\n".join(f"add {register}, rdi" for register in ("rax", "rbx", "rdx", "r8"))
    fused = [
        Loop("four additions, a compare and a branch", f"{adds}\ncmp rdi, 0\njz 2f\n2:"),
        Loop("a shift by cl and another of its flags", "shl rax, cl\nand rdx, rax\nand edx, 1", 1, "mov ecx, 1"),
    ]
    calls = [
        Loop("calls and returns", "call 3f\njmp 4f\n3: ret\n4:"),
        Loop("four calls and returns", "call 3f\n" * 4 + "jmp 4f\n3: ret\n4:"),
    ]
    return [*jumps, *fused, *calls, *random]


def _walks() -> list[Loop]:
    """Walks through a buffer, over and over, of loads that wait for one another and that do not, and of stores."""
    kinds = (
        ("loads of lines", 64, "mov rax, [rbx]"),
        ("loads of lines that wait", 64, "add rbx, [rbx]"),
        ("loads of every other line that wait", 128, "add rbx, [rbx]"),
        ("loads of 32 bytes", 32, "vmovups ymm0, [rbx]"),
        ("stores of 32 bytes", 32, "vmovups [rbx], ymm1"),
    )
    return [
        Loop(
            f"{kind}, {level}",
            f"mov rbx, rdi\nlea rdx, [rdi + {size}]\n2:\n{access}\nadd rbx, {step}\ncmp rbx, rdx\njb 2b",
            size // step,
            "vpxor xmm1, xmm1, xmm1",
            size,
            max(1, (1 << 21) // size),
        )
        for level, size in (("L2", 1 << 18), ("L3", 1 << 20), ("4 MiB", 1 << 22), ("64 MiB", 1 << 26))
        for kind, step, access in kinds
    ]


def all_loops() -> list[Loop]:
    """The loops of all mechanisms."""
    return [*_through_memory(), *_units(), *_branches(), *_walks()]


@dataclass(frozen=True)
class Traces:
    """The program of all loops, for QEMU."""

    program: Path
    loops: Sequence[Loop]

    @classmethod
    def built(cls, loops: Sequence[Loop], folder: Path) -> Traces:
        text, main, program = folder / "loops.s", folder / "main.c", folder / "loops"
        text.write_text(assembly([loop.snippet for loop in loops], platform.machine()))
        main.write_text(_MAIN)
        subprocess.run(["cc", "-O2", "-static", "-no-pie", "-o", str(program), str(main), str(text)], check=True)
        return cls(program, loops)

    def simulated(self, loop: Loop, machines: Sequence[Machine], folder: Path) -> list[tuple[float, dict[str, float]]]:
        """Cycles of one of what a round does on each machine, and its stack: of the second call, after the first."""
        path = folder / "loop.trace.h5"
        place = self.loops.index(loop)
        trace(Execution([str(self.program), str(place), str(loop.rounds), str(loop.size)]), path, progress=False)
        with Trace(path) as file:
            static = file.static
            entry = np.searchsorted(file.address, self._entry(place))
            ids = np.concatenate([chunk.static_id for chunk in file.chunks()])
            first, second = np.flatnonzero(ids == entry)
            found = []
            for machine in machines:
                simulation = Simulation(machine, static)
                for chunk in file.chunks(1 << 18, 0, int(first)):
                    simulation.warm(chunk)
                for chunk in file.chunks(1 << 18, int(first), int(second)):
                    simulation.run(chunk)
                simulation.reset_counters()
                stack = new_stack(1)
                end = 2 * int(second) - int(first)
                for chunk in file.chunks(1 << 18, int(second), end):
                    rows = np.zeros(len(chunk.static_id), np.uint32)
                    simulation.run_with_stacks(chunk, [(stack, rows)])
                each = loop.rounds * loop.count
                causes = {cause: float(value) / each for cause, value in zip(CAUSES, stack[0], strict=True)}
                found.append((simulation.counters["cycles"] / each, causes))
        path.unlink()
        return found

    def _entry(self, place: int) -> int:
        """The address that snippet `place` begins at."""
        with self.program.open("rb") as stream:
            symbols = ELFFile(stream).get_section_by_name(".symtab")
            return int(symbols.get_symbol_by_name(f"snippet_{place}")[0]["st_value"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("machines", nargs="*")
    parser.add_argument("--loops", nargs="*", default=[], help="parts of names")
    parser.add_argument("--set", nargs="*", default=[], dest="fields", help="FIELD=VALUE of all machines")
    parser.add_argument("--stack", action="store_true")
    parser.add_argument("--no-native", action="store_true")
    options = parser.parse_args(arguments)
    values = {field: parse_value(field, value) for field, _, value in (each.partition("=") for each in options.fields)}
    machines = [replace_fields(load_machine(name), values) for name in options.machines]
    loops = [loop for loop in all_loops() if not options.loops or any(part in loop.name for part in options.loops)]
    native = {}
    if not options.no_native:
        with Probe(told().features, more=[loop.snippet for loop in loops]) as probe:
            native = {loop.name: probe.cycles(loop.name, loop.rounds * loop.longer, loop.size) for loop in loops}
    with tempfile.TemporaryDirectory(prefix="perfvec-") as name:
        traces = Traces.built(loops, Path(name))
        for loop in loops:
            here = native.get(loop.name, float("nan"))
            found = traces.simulated(loop, machines, Path(name)) if machines else []
            cells = [f"{cycles:.2f} ({cycles / here - 1:+.0%})" for cycles, _ in found]
            print(f"{loop.name} | {here:.2f} | {' | '.join(cells)}", flush=True)
            if options.stack:
                for _, stack in found:
                    parts = sorted(stack.items(), key=lambda part: -part[1])[:6]
                    print("   ", ", ".join(f"{cause} {value:.2f}" for cause, value in parts if value > 0.01))
    return 0


if __name__ == "__main__":
    sys.exit(main())
