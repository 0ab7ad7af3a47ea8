"""Programs of random loops: more kinds of loop than programs have, to train a model that shall know any.

A program is a C text drawn from a seed: functions of one loop each, over arrays of random type and size, indexed
forwards, backwards, at a stride, at random, through a table or by what was loaded before; sums and chains of random
arithmetic between a few variables; branches that follow a period, a table of random numbers or a result; short inner
loops and calls. The same seed gives the same text everywhere.

The program's argument, 1 without it, is how often each group of one to three loops is run before the next group: from
the second time on their data have been used before, so caches of some sizes hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tracegen.suite.random_main import main_text

LOOPS = 60
TABLE = 4096  # random numbers, for indices and branches
LOG_MEMORY = 23
_INTEGERS = ("long", "int", "unsigned", "short", "unsigned char")
_FLOATS = ("double", "float")
_BYTES = {"long": 8, "int": 4, "unsigned": 4, "short": 2, "unsigned char": 1, "double": 8, "float": 4}

_AGAIN = '__asm__ volatile("" ::: "memory");'  # a round cannot take its sums from the one before

_HEAD = """/* Random loops; seed {seed}. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static char *memory;
static unsigned table[{table}];

__attribute__((noinline)) static long twist(long x) {{ return x * 5 ^ x >> 3; }}
__attribute__((noinline)) static double bend(double x) {{ return x * 0.5 + 1.0; }}
"""

_FILL_TABLE = """\
    unsigned long state = {seed}UL * 2654435761UL + 88172645463325252UL;
    for (int i = 0; i < {table}; i++) {{
        state ^= state << 13; state ^= state >> 7; state ^= state << 17;
        table[i] = state >> 16;
    }}
"""


def source(seed: int) -> str:
    """The C text of the program of this seed."""
    draw = Random(seed)
    functions = [_Function(draw, number).text() for number in range(LOOPS)]
    calls = [f"sum += loop_{number}({draw.choice((60, 150, 300, 600, 1000))});" for number in range(LOOPS)]
    groups = []
    while calls:
        size = draw.randint(1, 3)
        groups.append(f"{{ {' '.join(calls[:size])} {_AGAIN} }}")
        calls = calls[size:]
    main = main_text(groups, LOG_MEMORY, _FILL_TABLE.format(seed=seed, table=TABLE))
    return _HEAD.format(seed=seed, table=TABLE) + "\n".join(functions) + main


class _Function:
    """One function `loop_N(n)`: its arrays, its variables, the statements of its loop."""

    def __init__(self, draw: Random, number: int) -> None:
        self.draw, self.number = draw, number
        self.type = draw.choice(_FLOATS if draw.random() < 0.4 else _INTEGERS[:3])
        self.floating = self.type in _FLOATS
        self.variables = [f"v{k}" for k in range(draw.choice((1, 1, 2, 3, 4, 6)))]
        self.arrays = []
        for k in range(draw.choice((1, 1, 2, 2, 3))):
            of = draw.choice(_FLOATS if self.floating else _INTEGERS)
            log = draw.randint(10, LOG_MEMORY - 1)  # each size as likely
            self.arrays.append((f"a{k}", of, (1 << log) // _BYTES[of] - 1))

    def text(self) -> str:
        draw = self.draw
        lines = [f"static double loop_{self.number}(long n) {{"]
        for name, of, mask in self.arrays:
            offset = draw.randrange(0, (1 << LOG_MEMORY) - (mask + 1) * _BYTES[of] + 1, 64)
            lines.append(f"    {of} *{name} = ({of} *)(memory + {offset});")
        values = ", ".join(f"{name} = {k + 1}" for k, name in enumerate(self.variables))
        lines += [f"    {self.type} {values};", "    long at = 1;", "    for (long i = 0; i < n; i++) {"]
        lines += [f"        {self.statement()}" for _ in range(draw.choice((1, 1, 2, 2, 3, 4, 6)))]
        lines += ["    }", f"    return (double)({' + '.join(self.variables)}) + at;", "}", ""]
        return "\n".join(lines)

    def statement(self) -> str:
        draw = self.draw
        target = draw.choice(self.variables)
        match self._weighted({"sum": 8, "store": 4, "branch": 3, "inner": 1.5, "call": 1, "chase": 2, "swap": 1}):
            case "store":
                return f"{self.element()} = {self.expression(draw.randint(0, 3))};"
            case "branch":
                other = f" else {draw.choice(self.variables)} {self.assign()}" if draw.random() < 0.5 else ""
                return f"if ({self.condition()}) {target} {self.assign()}{other}"
            case "inner":
                count = draw.choice((2, 4, 8, 16))
                name, _, mask = draw.choice(self.arrays)
                return f"for (long j = 0; j < {count}; j++) {target} += {name}[(i * {count} + j) & {mask}];"
            case "call":
                return f"{target} = {'bend' if self.floating else 'twist'}({target});"
            case "chase":
                name, _, mask = draw.choice(self.arrays)
                factor, step = draw.randrange(5, 1 << 16, 8), draw.randrange(1, 99, 2)
                return f"at = (at * {factor} + (long){name}[at & {mask}] + {step}) & {mask};"
            case "swap":
                first, second = self.element(), self.element()
                return f"{{ {self.type} kept = {first}; {first} = {second}; {second} = kept; }}"
        return f"{target} {self.assign()}"

    def assign(self) -> str:
        operator = self.draw.choice(("+=", "+=", "-=", "*=") if self.floating else ("+=", "+=", "^=", "-=", "|=", "*="))
        return f"{operator} {self.expression(self.draw.randint(0, 4))};"

    def expression(self, depth: int) -> str:
        draw = self.draw
        if depth == 0:
            return self._weighted(
                {self.element(): 5, draw.choice(self.variables): 3, str(draw.randint(2, 99)): 1, "i": 1}
            )
        left, right = self.expression(depth - 1), self.expression(draw.randrange(depth))
        kind = self._weighted({"arithmetic": 12, "choice": 1.5, "slow": 0.7})
        if kind == "choice":
            return f"({left} < {right} ? {left} : {draw.choice(self.variables)})"
        if self.floating:
            if kind == "slow":
                return f"sqrt({left} * {left} + 1)" if draw.random() < 0.4 else f"({left} / ({right} + 3))"
            return f"({left} {draw.choice('+-**+')} {right})"
        if kind == "slow":
            return f"({left} {draw.choice('/%')} (({right} & 1023) + 3))"
        if draw.random() < 0.3:
            return f"({left} {draw.choice(('<<', '>>'))} {draw.randint(1, 7)})"
        return f"({left} {draw.choice('+-*^&|+')} {right})"

    def element(self) -> str:
        draw = self.draw
        name, _, mask = draw.choice(self.arrays)
        index = self._weighted(
            {
                "i": 6,
                "n - i": 1.5,
                "i - 1": 1.5,
                "at": 1.5,
                f"i + {draw.randint(1, 64)}": 3,
                f"i * {1 << draw.randint(1, 9)}": 3,
                f"i * {draw.randint(3, 300)}": 2,
                f"i >> {draw.randint(1, 5)}": 1,
                str(draw.randint(0, 60)): 1,
                f"table[i & {TABLE - 1}]": 2.5,
                f"i * {draw.randrange(1 << 20, 1 << 30) | 1} >> {draw.randint(3, 12)}": 1.5,
            }
        )
        return f"{name}[({index}) & {mask}]"

    def condition(self) -> str:
        draw = self.draw
        return self._weighted(
            {
                f"(table[i & {TABLE - 1}] & 255) < {draw.choice((3, 13, 26, 64, 128, 128, 200, 250))}": 4,
                f"i % {draw.randint(2, 40)} < {draw.randint(1, 10)}": 3,
                f"({draw.choice(self.variables)} {'< i' if self.floating else '& 4'})": 2,
                f"({self.element()} > 0)": 1,
            }
        )

    def _weighted(self, choices: dict[str, float]) -> str:
        names: Sequence[str] = list(choices)
        return self.draw.choices(names, list(choices.values()))[0]
