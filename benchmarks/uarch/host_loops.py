"""Small loops with known mechanisms, timed on this computer and simulated: cycles of a round of each, as a table.

python benchmarks/uarch/host_loops.py host.yaml [--loops NAME…] [--set FIELD=VALUE…] [--stack]

Each loop is there for one mechanism: a dependence through memory, a prefetcher, a unit. What it shows of a processor may
change the simulator; programs that a machine is judged by may not.
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

from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.qemu import trace
from uarch.configuration import Machine, load_machine, parse_value, replace_fields
from uarch.host.probe import Probe
from uarch.host.snippets import Snippet, assembly
from uarch.host.told import told
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
    mechanism: str
    body: str
    count: int = 1
    before: str = ""
    size: int = 1 << 16
    rounds: int = 2000

    @property
    def snippet(self) -> Snippet:
        return Snippet(self.name, self.body, self.count, self.before)


def _walk(step: int, size: int, access: str) -> tuple[str, int]:
    """Body and count of a walk through a buffer, over and over: a round passes all of it."""
    body = f"mov rbx, rdi\nlea rdx, [rdi + {size}]\n2:\n{access}\nadd rbx, {step}\ncmp rbx, rdx\njb 2b"
    return body, size // step


def _walks() -> list[Loop]:
    loops = []
    for name, size in (("L2", 1 << 18), ("L3", 1 << 20), ("L3 far", 1 << 22), ("memory", 1 << 26)):
        for kind, step, access in (
            ("loads of lines", 64, "mov rax, [rbx]"),
            ("loads of lines that wait", 64, "add rbx, [rbx]"),
            ("loads of lines that wait, back", -64, "add rbx, [rbx]"),
            ("loads of every other line that wait", 128, "add rbx, [rbx]"),
            ("loads of every fourth line that wait", 256, "add rbx, [rbx]"),
            ("loads of 32 bytes", 32, "vmovups ymm0, [rbx]"),
            ("stores of 32 bytes", 32, "vmovups [rbx], ymm1"),
        ):
            if step < 0:
                body = f"lea rbx, [rdi + {size} - 64]\n2:\n{access}\nadd rbx, {step}\ncmp rbx, rdi\njae 2b"
                count = size // -step
            else:
                body, count = _walk(step, size, access)
            loops.append(Loop(f"{kind}, {name}", "prefetchers", body, count, "vpxor xmm1, xmm1, xmm1", size, max(1, (1 << 19) // size * 4)))
    return loops


def _rounds_of_array(elements: int, body: str) -> str:
    return f"mov rbx, rdi\nlea rdx, [rdi + {8 * elements}]\nmov r14, rsi\n2:\n{body}\nadd rbx, 8\nadd r14, 8\ncmp rbx, rdx\njne 2b"


def _random_branches() -> list[Loop]:
    """Branches and indirect jumps on random bits that come again after so many."""
    draw = "lea r8, [r8 + 4*r8 + 13]\nand r8, {mask}\nmov rax, r8\nimul rax, r12\n"
    branch = "shr rax, 63\njz 2f\nadd rbx, 1\n2:"
    jump = "shr rax, 62\nlea rdx, [rip + 7f]\nmovsxd rax, dword ptr [rdx + 4*rax]\nadd rax, rdx\njmp rax\n"
    jump += "".join(f"{k + 3}: add rbx, {k}\njmp 8f\n" for k in range(4))
    jump += ".balign 4\n7: " + "".join(f".long {k + 3}b - 7b\n" for k in range(4)) + "8:"
    foretold = "shr rax, 63\nmov r9, rax\njz 5f\nadd rbx, 1\n5:\nlea rdx, [rip + 7f]\nmovsxd rax, dword ptr [rdx + 4*r9]\n"
    foretold += "add rax, rdx\njmp rax\n3: add rbx, 1\njmp 8f\n4: add rbx, 2\njmp 8f\n"
    foretold += ".balign 4\n7: .long 3b - 7b\n.long 4b - 7b\n8:"
    before = "mov r12, 0x9E3779B97F4A7C15\nxor r8d, r8d"
    return [
        Loop(f"{name} of {period}", "branch predictor", draw.format(mask=period - 1) + body, 1, before, rounds=3 * max(period, 8192))
        for name, body in (
            ("branches", branch),
            ("jumps of four targets", jump),
            ("jumps that a branch foretells", foretold),
        )
        for period in (4, 8, 16, 32, 64, 256, 1024, 4096, 16384)
    ]


def all_loops() -> list[Loop]:
    """Of all mechanisms."""
    add_to_memory = "movsd xmm0, [r14]\nmulsd xmm0, xmm1\naddsd xmm0, [rbx]\nmovsd [rbx], xmm0"
    found = [
        Loop(f"sums in memory, again after {n}", "store to load", _rounds_of_array(n, add_to_memory), n, "pxor xmm1, xmm1", rounds=4000 // n * 4 + 8)
        for n in (1, 2, 4, 8, 16, 24, 32, 48, 64, 128)
    ]
    found += [
        Loop("integer through memory", "store to load", "mov [rdi], rax\nmov rax, [rdi]"),
        Loop("integer through memory, counted", "store to load", "add qword ptr [rdi], 1"),
        Loop("double through memory", "store to load", "movsd [rdi], xmm0\nmovsd xmm0, [rdi]"),
        Loop("double through memory, added to", "store to load", "addsd xmm0, [rdi]\nmovsd [rdi], xmm0", before="pxor xmm0, xmm0"),
        Loop("half of what is stored", "store to load", "mov [rdi], rax\nmov eax, [rdi + 4]"),
        Loop("two stores, one load", "store to load", "mov [rdi], eax\nmov [rdi + 4], eax\nmov rax, [rdi]"),
        Loop("store beside a load", "store to load", "mov [rdi], rax\nmov rbx, [rdi + 8]\nadd rax, 1"),
        Loop("load of a late store's neighbour", "store to load", "imul rax, rax\nimul rax, rax\nmov [rdi], rax\nmov rbx, [rdi + 8]\nadd rcx, rbx"),
        Loop("push and pop", "stack pointer", "push rax\npush rbx\npop rbx\npop rax"),
        Loop("load after load", "latency", "mov rdi, [rdi]", before="mov [rdi], rdi"),
        Loop("double load to add", "latency", "movsd xmm1, [rdi]\naddsd xmm0, xmm1", before="pxor xmm0, xmm0"),
        Loop("divisions of 64 bits side by side", "divider", "\n".join("mov rax, r13\nxor edx, edx\ndiv rbp" for _ in range(8)), 8, "mov rbp, 262144\nmov r13, 0x3f23456789abcdef"),
        Loop("divisions of 64 bits by 7 side by side", "divider", "\n".join("mov rax, r13\nxor edx, edx\ndiv rbp" for _ in range(8)), 8, "mov rbp, 7\nmov r13, 0x3f23456789abcdef"),
        Loop("divisions of 32 bits side by side", "divider", "\n".join("mov eax, r13d\nxor edx, edx\ndiv ebp" for _ in range(8)), 8, "mov ebp, 7\nmov r13d, 1000000007"),
        Loop("divisions of 64 bits in a chain", "divider", "and rax, 0\nadd rax, r13\nxor edx, edx\ndiv rbp", 1, "mov rbp, 262144\nmov r13, 0x3f23456789abcdef"),
        Loop("square roots side by side", "divider", "\n".join(f"sqrtsd xmm{k}, xmm9" for k in range(8)), 8, "mov rax, 0x3ff123456789abcd\nmovq xmm9, rax"),
        Loop("square roots in a chain", "divider", "sqrtsd xmm0, xmm0", 1, "mov rax, 0x3ff123456789abcd\nmovq xmm0, rax"),
        Loop("double divisions side by side", "divider", "\n".join(f"movapd xmm{k}, xmm8\ndivsd xmm{k}, xmm9" for k in range(8)), 8, "mov rax, 0x3ff123456789abcd\nmovq xmm9, rax\nmovq xmm8, rax"),
        Loop("root and division by turns", "divider", "sqrtsd xmm0, xmm9\nmovapd xmm1, xmm8\ndivsd xmm1, xmm9", 1, "mov rax, 0x3ff123456789abcd\nmovq xmm9, rax\nmovq xmm8, rax"),
        Loop("sqrt's test and root", "units", "ucomisd xmm9, xmm8\njp 9f\nsqrtsd xmm0, xmm9", 1, "mov rax, 0x3ff123456789abcd\nmovq xmm9, rax\npxor xmm8, xmm8"),
        Loop("calls and returns", "branches", "call 3f\njmp 4f\n3: ret\n4:"),
        Loop("shifts", "ports", "\n".join(f"shl {r}, 3" for r in ("rax", "rbx", "rdx", "r8", "r9", "r10")), 6),
        Loop("lea of three parts", "ports", "\n".join(f"lea {r}, [rdi + rsi + 5]" for r in ("rax", "rbx", "rdx", "r8", "r9", "r10")), 6),
        Loop("conditional moves", "ports", "\n".join(f"cmove {r}, rdi" for r in ("rax", "rbx", "rdx", "r8", "r9", "r10")), 6),
        Loop("sete", "ports", "\n".join(f"sete {r}" for r in ("al", "bl", "dl", "r8b", "r9b", "r10b")), 6),
        Loop("untaken branches", "ports", "test rdi, rdi\n" + "jz 9f\n" * 8, 8),
        *(
            Loop(f"jumps every {step} bytes", "branches", f"jmp 2f\n.balign {step}\n2:\n" * 32, 32, ".balign 64")
            for step in (4, 8, 16, 32, 64)
        ),
        *(
            Loop(f"jumps through a register every {step} bytes", "branches", f"lea rax, [rip + 2f]\njmp rax\n.balign {step}\n2:\n" * 16, 16)
            for step in (16, 32, 64)
        ),
        *(
            Loop(f"untaken and taken branches every {step} bytes", "branches", f"jz 9f\njmp 2f\n.balign {step}\n2:\n" * 16, 16, "test rdi, rdi")
            for step in (8, 16, 32, 64)
        ),
        Loop("loop of three", "branches", "mov ebx, 8\n2:\nadd rax, 1\ndec ebx\njnz 2b", 8),
        Loop("loads of vectors", "ports", "\n".join(f"movups xmm{k}, [rdi + {16 * k}]" for k in range(8)), 8),
        Loop("loads of vectors across lines", "ports", "\n".join(f"movups xmm{k}, [rdi + {64 * k + 56}]" for k in range(8)), 8),
        Loop("unaligned loads of vectors", "ports", "\n".join(f"movups xmm{k}, [rdi + {64 * k + 1}]" for k in range(8)), 8),
        Loop("stores of vectors", "ports", "\n".join(f"movups [rdi + {16 * k}], xmm{k}" for k in range(8)), 8),
        Loop("unaligned stores of vectors", "ports", "\n".join(f"movups [rdi + {64 * k + 1}], xmm{k}" for k in range(8)), 8),
        Loop("stores of vectors across lines", "ports", "\n".join(f"movups [rdi + {64 * k + 56}], xmm{k}" for k in range(8)), 8),
        Loop("bytes added", "ports", "\n".join(f"paddb xmm{k}, xmm9" for k in range(8)), 8),
        Loop("bytes compared", "ports", "\n".join(f"pcmpeqb xmm{k}, xmm9" for k in range(8)), 8),
        Loop("shuffles", "ports", "\n".join(f"pshufd xmm{k}, xmm9, 3" for k in range(8)), 8),
        Loop("unpacks", "ports", "\n".join(f"punpcklbw xmm{k}, xmm9" for k in range(8)), 8),
        Loop("packed multiplies", "ports", "\n".join(f"pmullw xmm{k}, xmm9" for k in range(8)), 8),
        Loop("vector shifts", "ports", "\n".join(f"psrlw xmm{k}, 3" for k in range(8)), 8),
        Loop("integers to doubles", "ports", "\n".join(f"pxor xmm{k}, xmm{k}\ncvtsi2sd xmm{k}, eax" for k in range(8)), 8),
        Loop("doubles multiplied and added", "ports", "\n".join(f"mulsd xmm{k}, xmm9\naddsd xmm{k + 4}, xmm9" for k in range(4)), 8, "pxor xmm9, xmm9"),
        *_random_branches(),
        *_walks(),
    ]
    return found


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
        trace([str(self.program), str(place), str(loop.rounds), str(loop.size)], path, progress=False)
        with Trace(path) as file:
            static = decode(file.address, file.code, file.isa)
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
            native = {loop.name: probe.cycles(loop.name, loop.rounds, loop.size) for loop in loops}
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
