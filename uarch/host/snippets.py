"""Snippets of assembly that the micro-benchmarks repeat: chains, throughputs, windows, branches, jumps, calls.

A snippet is the body of a loop with what comes before it. Registers there: rdi and rsi hold two pointers, rcx a mask or
a pointer to scratch memory, r15 counts. The first snippet is the reference chain of `probes.c`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from support.errors import InputError

CHAIN = 200  # additions of the reference chain an iteration; REFERENCE_CHAIN of probes.c
REPEATED = 64  # a chain's or a throughput's instructions an iteration
WINDOW_SIZES = (*range(16, 128, 8), *range(128, 720, 16))
JUMPS = (128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
RENAMED = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48)  # stores that a load may take its register from
RENAMED_CHAIN = 24  # multiplications of a round
DEPTHS = (4, 8, 12, 14, 15, 16, 17, 18, 20, 24, 28, 30, 31, 32, 33, 34, 36, 40, 48, 64)
JUMP_DISTANCE = 16  # bytes between jumps
INDIRECT_ORDER = "an order of 64"
SET_LINES, SET_STRIDE = 64, 4096  # lines that an L1D of up to 4 KiB a way has in one set, and their distance
LOOP_SIZES = tuple(range(2, 17))  # micro-operations of a loop, its branch with them


@dataclass(frozen=True)
class Snippet:
    """`name` finds it; an iteration of `body` does `count` of what is measured."""

    name: str
    body: str
    count: int = 1
    before: str = ""
    needs: str = ""  # a feature of the processor, as /proc/cpuinfo names it
    behind: str = ""  # functions that it calls


_VALUES = """
    mov rax, 0x3ff123456789abcd
    movq xmm1, rax
    mov rax, 0x3ff0000000000123
    movq xmm0, rax
    movddup xmm1, xmm1
    movddup xmm0, xmm0
"""
_WHOLE = "rax rbx rdx rbp r8 r9 r10 r11".split()


def _chain(name: str, instructions: str, before: str = "", needs: str = "") -> Snippet:
    return Snippet(f"latency {name}", f".rept {REPEATED}\n{instructions}\n.endr", REPEATED, before, needs)


def _side_by_side(name: str, instructions: Iterable[str], before: str = "", needs: str = "") -> Snippet:
    lines = list(instructions)
    rounds = 96 // len(lines)
    body = f".rept {rounds}\n" + "\n".join(lines) + "\n.endr"
    return Snippet(f"throughput {name}", body, rounds * len(lines), before, needs)


def _latencies() -> list[Snippet]:
    again = "and rax, 0\nadd rax, r9"  # so that the next one waits and has the same operands; two cycles
    divide = "xor edx, edx\ndiv {}\n" + again
    return [
        _chain("add", "add rax, r8"),
        _chain("multiply", "imul rax, r8"),
        _chain("divide 32", divide.format("r10d"), "mov r10, 7\nmov r9, 1000000007\nmov rax, r9"),
        _chain("divide 64", divide.format("r10"), "mov r10, 7\nmov r9, 1000000000000000003\nmov rax, r9"),
        _chain("load", "mov rdi, [rdi]", "mov [rdi], rdi"),
        _chain("store to load", "mov [rdi], rax\nmov rax, [rdi]"),
        _chain("store to load of a byte", "mov [rdi], al\nmovzx eax, byte ptr [rdi]"),
        _chain("fp add", "addsd xmm0, xmm1", _VALUES),
        _chain("fp multiply", "mulsd xmm0, xmm2", _VALUES + "mov rax, 0x3ff0000000000000\nmovq xmm2, rax\n"),
        _chain("fp divide", "divsd xmm0, xmm1\nmulsd xmm0, xmm1", _VALUES),
        _chain("fp root", "sqrtsd xmm0, xmm0", _VALUES),
        _chain("fp multiply-add", "vfmadd231sd xmm0, xmm1, xmm2", _VALUES + "pxor xmm2, xmm2\n", "fma"),
        _chain("vector add", "paddd xmm0, xmm1", _VALUES),
    ]


def _throughputs() -> list[Snippet]:
    vectors = [f"xmm{k}" for k in range(8)]
    return [
        _side_by_side("nop", ["nop"]),
        _side_by_side("add", [f"add {register}, r12" for register in _WHOLE]),
        _side_by_side("multiply", [f"imul {register}, r12" for register in _WHOLE]),
        _side_by_side("load", [f"mov {register}, [rdi + {8 * k}]" for k, register in enumerate(_WHOLE)]),
        _side_by_side("store", [f"mov [rdi + {8 * k}], r12" for k in range(8)]),
        _side_by_side("store to another line", [f"mov [rdi + {64 * k}], r12" for k in range(8)]),
        _side_by_side("fp add", [f"addpd {v}, xmm9" for v in vectors]),
        _side_by_side("fp multiply", [f"mulpd {v}, xmm9" for v in vectors]),
        _side_by_side("vector add", [f"paddd {v}, xmm9" for v in vectors]),
        _side_by_side("copy", [f"mov {register}, r12" for register in _WHOLE]),
        _side_by_side("zero", [f"xor {register}, {register}" for register in ("eax", "ebx", "edx", "r8d", "r9d")]),
        _side_by_side("compare and branch", ["cmp rax, rbx\njne 9f"], "mov rbx, rax"),
    ]


def _one_set() -> list[Snippet]:
    """More lines than a set of L1D has ways, read or written in order by one instruction, as a column's are."""
    onward = f"add r9, {SET_STRIDE}\nand r9, {SET_LINES * SET_STRIDE - 1}"
    accesses = {"set reads": "mov rax, [rdi + r9]", "set writes": "mov [rdi + r9], r12"}
    return [Snippet(name, f"{access}\n{onward}", before="xor r9d, r9d") for name, access in accesses.items()]


def _renaming() -> list[Snippet]:
    """A load and a store of its place with others between, in a chain that takes longer than all of them."""
    chain = "imul rax, r8\n" * RENAMED_CHAIN
    found = []
    for count in RENAMED:
        others = "".join(f"mov [rdi + {64 + 8 * k}], r9\n" for k in range(count - 1))
        found.append(Snippet(f"stores {count}", f"mov [rdi], rax\n{others}mov rax, [rdi]\n{chain}"))
    return found


# What fills the window between two misses (Wong, "Measuring Reorder Buffer Capacity", 2013): each takes an entry of
# what it is named after, and of the reorder buffer. Zero idioms take nothing else; nops are joined in pairs by Zen 4.
_FILLERS = {
    "reorder buffer": [f"xor r{k}d, r{k}d" for k in range(8, 15)],
    "integer registers": [f"lea r{k}, [rcx + 1]" for k in range(8, 15)],
    "vector registers": [f"paddd xmm{k}, xmm8" for k in range(8)],
    "load queue": [f"mov r{k}d, [rcx]" for k in range(8, 15)],
    "store queue": ["mov [rcx], r8d"],
    "integer scheduler": [f"lea r{k}, [rdi + 1]" for k in range(8, 15)],
    "vector scheduler": [f"paddd xmm{k}, xmm9" for k in range(8)],
}
STRUCTURES = tuple(_FILLERS)  # each bounds the window


def _windows() -> list[Snippet]:
    found = []
    for name, instructions in _FILLERS.items():
        waits = "movq xmm9, rdi\n" if name == "vector scheduler" else ""
        for size in WINDOW_SIZES:
            fill = "\n".join(instructions[k % len(instructions)] for k in range(size))
            body = f"mov rdi, [rdi]\n{waits}{fill}\nmov rsi, [rsi]\n{fill.replace('rdi', 'rsi')}"
            if waits:
                body = body.replace(f"mov rsi, [rsi]\n{fill}", f"mov rsi, [rsi]\nmovq xmm9, rsi\n{fill}")
            found.append(Snippet(f"{name} {size}", body))
    return found


def order_of_jumps() -> list[int]:
    """The targets, 0 to 3, of 64 jumps, after which the order begins again."""
    random = Random(1)
    return [random.randrange(4) for _ in range(64)]


def _indirect() -> list[Snippet]:
    """An indirect jump to one target, to four by turns, and to four in an order that only a long history tells."""
    orders = {"one target": (0, [0, 1, 2, 3]), "four targets": (1, [0, 1, 2, 3]), INDIRECT_ORDER: (1, order_of_jumps())}
    found = []
    for name, (step, order) in orders.items():
        body = f"add r9, r10\nand r9, {len(order) - 1}\nmovsxd rax, dword ptr [rbp + 4*r9]\nadd rax, rbp\njmp rax\n"
        body += "".join(f"{k + 3}: add rbx, {k}\njmp 8f\n" for k in range(4))
        body += ".balign 4\n7: " + "".join(f".long {k + 3}b - 7b\n" for k in order) + "8:"
        before = f"lea rbp, [rip + 7f]\nxor r9d, r9d\nmov r10d, {step}"
        found.append(Snippet(f"indirect jump, {name}", body, before=before))
    return found


def _branches() -> list[Snippet]:
    pattern = "movzx eax, byte ptr [rsi + r8]\ninc r8\nand r8, rcx\ntest eax, eax\njz 2f\nadd r9, 1\n2:"
    jumps = [
        Snippet(f"jumps {count}", f".rept {count}\njmp 2f\n.balign {JUMP_DISTANCE}\n2:\n.endr", count)
        for count in JUMPS
    ]
    calls = []
    for depth in DEPTHS:
        functions = "".join(
            f".balign 32\nnested_{depth}_{k}:\n" + (f"call nested_{depth}_{k + 1}\n" if k + 1 < depth else "") + "ret\n"
            for k in range(depth)
        )
        calls.append(Snippet(f"calls {depth}", f"call nested_{depth}_0", depth, behind=functions))
    # No nops, which Zen 4 joins in pairs.
    fillers = [line for k in range(8) for line in (f"lea r{8 + k % 4}, [rdi + 1]", f"paddd xmm{k % 4}, xmm8")]
    loops = [Snippet(f"loop of {size}", "\n".join(fillers[: size - 1])) for size in LOOP_SIZES]
    return [*loops, Snippet("pattern", pattern, before="xor r8d, r8d"), *jumps, *calls]


def all_snippets() -> list[Snippet]:
    """The snippets of x86-64, the reference chain first."""
    reference = Snippet("reference", f".rept {CHAIN}\nadd rax, r8\n.endr", CHAIN)
    return [
        reference,
        *_latencies(),
        *_renaming(),
        *_throughputs(),
        *_one_set(),
        *_windows(),
        *_branches(),
        *_indirect(),
    ]


def assembly(snippets: list[Snippet], machine: str) -> str:
    """The table `snippets` and its functions as GNU assembly. Raises InputError for an architecture without any."""
    if machine not in ("x86_64", "AMD64"):
        raise InputError(
            f"this computer cannot be measured: there are no micro-benchmarks for {machine}, only for x86-64"
        )
    saved = ["rbx", "rbp", "r12", "r13", "r14", "r15"]
    push, pop = "\n".join(f"push {r}" for r in saved), "\n".join(f"pop {r}" for r in reversed(saved))
    lines = [".intel_syntax noprefix", ".text"]
    for k, snippet in enumerate(snippets):
        lines.append(
            f".balign 64\nsnippet_{k}:\n{push}\nmov r15, rdx\nxor eax, eax\nmov r8, 1\n{snippet.before}\n"
            f".balign 64\n1:\n{snippet.body}\ndec r15\njnz 1b\n9:\n"
            f"mov rax, rdi\nmov rdx, rsi\n{pop}\nret\n{snippet.behind}"
        )
    table = "\n".join(f".quad snippet_{k}" for k in range(len(snippets)))
    lines.append('.section .data.rel.ro,"aw"\n.balign 8\n.globl snippets\nsnippets:\n' + table)
    lines.append(f".balign 8\n.globl snippet_count\nsnippet_count:\n.long {len(snippets)}")
    lines.append('.section .note.GNU-stack,"",@progbits\n')
    return "\n".join(lines)
