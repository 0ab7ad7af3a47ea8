"""Programs of random phases: each one a point of the product of what makes code fast or slow, drawn evenly.

A phase is a loop, or one long body of code, with a number of independent chains of operations, a mix of operations, a
share of loads and stores, a pattern of their addresses over a working set, a number of pointers that are followed side
by side, and a kind of branch. Each of these is drawn by itself, so that the extremes meet, as they do in kernels and
seldom in whole programs: a cipher of thousands of instructions without a branch, a stream with nothing to compute, a
chase through memory. The same seed gives the same text everywhere.

Long phases (`long_source`) last until they are in a steady state: their code, of up to a hundred KiB, and their data
have been used before, and stay in caches of some sizes. A fifth of them computes with vectors.

The program's argument, 1 without it, is how often each phase runs before the next: from the second time on its data
have been used before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from tracegen.suite.random_main import main_text

PHASES = 24
INSTRUCTIONS = 40_000  # of a phase, roughly
LOG_MEMORY = 24
_LONGEST = 600  # statements of a body
LONG_PHASES = 4
_LONG_INSTRUCTIONS = 450_000
_LONG_LONGEST = 8000

_HEAD = """/* Random phases; seed {seed}. */
#include <stdio.h>
#include <stdlib.h>

static char *memory;
#define AT(type, offset) (*(type *)(memory + (offset)))
#define ROTATE(value, by) ((value) << (by) | (value) >> (64 - (by)))
typedef unsigned long word;
typedef word words __attribute__((vector_size(16)));
typedef double doubles __attribute__((vector_size(16)));
"""


def source(seed: int) -> str:
    """The C text of the program of this seed."""
    draw = Random(seed)
    return _text(draw, seed, [Phase.drawn(draw) for _ in range(PHASES)], INSTRUCTIONS)


def long_source(seed: int) -> str:
    """The C text of the program of long phases of this seed."""
    draw = Random(seed)
    phases = [
        replace(Phase.drawn(draw, _LONG_LONGEST), vectors=draw.random() < 0.2, heavy=draw.choice((0.0, 0.0, 0.1, 0.5)))
        for _ in range(LONG_PHASES)
    ]
    return _text(draw, seed, phases, _LONG_INSTRUCTIONS)


def _text(draw: Random, seed: int, phases: Sequence[Phase], instructions: int) -> str:
    functions = [phase.text(draw, number) for number, phase in enumerate(phases)]
    calls = (f"sum += phase_{number}({phase.iterations(instructions)});" for number, phase in enumerate(phases))
    return _HEAD.format(seed=seed) + "\n".join(functions) + main_text(calls, LOG_MEMORY)


@dataclass(frozen=True)
class Phase:
    """Describe a phase. Each field is drawn by itself."""

    floating: bool
    chains: int  # of operations that depend on each other
    heavy: float  # share of multiplications, and a tenth of it of divisions
    loads: float  # share of statements that load
    stores: float
    pattern: str  # sequential, strided, random or chase
    stride: int  # bytes
    pointers: int  # that are moved side by side
    log_size: int  # of the working set in bytes
    branches: float  # share of statements under a branch
    bias: int  # of 256 that a random branch is taken; 0: the branch follows the loop's counter
    body: int  # statements
    vectors: bool = False  # of two operands

    @staticmethod
    def drawn(draw: Random, longest: int = _LONGEST) -> Phase:
        return Phase(
            floating=draw.random() < 0.4,
            chains=draw.choice((1, 2, 3, 4, 6, 8, 12)),
            heavy=draw.choice((0.0, 0.0, 0.1, 0.3, 0.8)),
            loads=draw.choice((0.0, 0.1, 0.3, 0.5, 0.8)),
            stores=draw.choice((0.0, 0.0, 0.1, 0.4)),
            pattern=draw.choice(("sequential", "strided", "random", "chase")),
            stride=draw.choice((16, 64, 128, 320, 1024, 4160)),
            pointers=draw.choice((1, 1, 2, 4, 8)),
            log_size=draw.randint(10, LOG_MEMORY),
            branches=draw.choice((0.0, 0.0, 0.05, 0.2)),
            bias=draw.choice((0, 8, 40, 128)),
            body=round(longest ** draw.random()),
        )

    @property
    def kind(self) -> str:
        """The C type of its operands."""
        return ("double" if self.floating else "word") + ("s" if self.vectors else "")

    def iterations(self, instructions: int) -> int:
        """Rounds of its body that execute roughly so many instructions."""
        return max(2, instructions // (4 * self.body + 2 * self.pointers))

    def text(self, draw: Random, number: int) -> str:
        """The C function `phase_number(n)`."""
        size = (1 << self.log_size) - (16 if self.vectors else 8)
        start = draw.randrange(0, (1 << LOG_MEMORY) - size, 64)
        pointers = ", ".join(f"p{k} = {draw.randrange(0, size, 8)}" for k in range(self.pointers))
        first = f"({self.kind}){{}} + ({self.kind.rstrip('s')})n" if self.vectors else "n"
        chains = ", ".join(f"c{k} = {first} + {k}" for k in range(self.chains))
        lines = [f"static __attribute__((noinline)) double phase_{number}(long n) {{"]
        lines += [f"    word {pointers}, r = n;", f"    {self.kind} {chains};", "    for (long i = 0; i < n; i++) {"]
        for index in range(self.body):
            lines += [f"        {line}" for line in self.statement(draw, index, start, size)]
        chains = " + ".join(f"c{k}" for k in range(self.chains))
        result = f"({chains}){'[0]' if self.vectors else ''}"
        used = " + ".join(["r", *(f"p{k}" for k in range(self.pointers))])
        return "\n".join([*lines, "    }", f"    return (double){result} + (double)({used});", "}", ""])

    def statement(self, draw: Random, index: int, start: int, size: int) -> list[str]:
        chain, pointer = f"c{index % self.chains}", f"p{draw.randrange(self.pointers)}"
        place = f"AT({self.kind}, {start} + {pointer})"
        lines = []
        operand = draw.choice((chain, f"c{draw.randrange(self.chains)}", str(draw.randint(3, 1 << 20))))
        if draw.random() < self.loads:
            lines.append(self.moved(draw, pointer, start, size))
            operand = place
        if draw.random() < self.stores:
            lines += [self.moved(draw, pointer, start, size), f"{place} = {chain};"]
        lines.append(self.operation(draw, chain, operand))
        if draw.random() < self.branches:
            lines[-1] = f"if ({self.condition(draw)}) {lines[-1]} else {chain} -= 3;"
            if self.bias:
                lines.insert(0, "r = r * 6364136223846793005UL + 1442695040888963407UL;")
        return lines

    def moved(self, draw: Random, pointer: str, start: int, size: int) -> str:
        """A statement that moves a pointer to its next place."""
        if self.pattern in ("sequential", "strided"):
            return f"{pointer} = ({pointer} + {8 if self.pattern == 'sequential' else self.stride}) & {size};"
        step = f"{pointer} * {draw.randrange(5, 1 << 20, 8)} + {draw.randrange(8, 4096, 16)}"
        loaded = f" + AT(word, {start} + {pointer})" if self.pattern == "chase" else ""
        return f"{pointer} = ({step}{loaded}) & {size};"

    def operation(self, draw: Random, chain: str, operand: str) -> str:
        if draw.random() < self.heavy:
            if draw.random() < 0.1 and not self.vectors:
                return (
                    f"{chain} = {chain} / ({operand} + 3.5);" if self.floating else f"{chain} /= ({operand} & 63) + 3;"
                )
            return f"{chain} = {chain} * 0.5 + {operand};" if self.floating else f"{chain} *= {operand};"
        if self.floating:
            return f"{chain} {draw.choice(('+=', '-='))} {operand};"
        if draw.random() < 0.25:
            return f"{chain} = ROTATE({chain}, {draw.randint(1, 63)});"
        return f"{chain} {draw.choice(('+=', '^=', '-=', '|=', '&='))} {operand};"

    def condition(self, draw: Random) -> str:
        if not self.bias:
            return f"i % {draw.randint(2, 24)} < {draw.randint(1, 6)}"
        return f"(r >> {draw.randint(24, 56)} & 255) < {self.bias}"
