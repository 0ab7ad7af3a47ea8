"""The example program of these tests, and the simulation of every instruction, which judges."""

from __future__ import annotations

import subprocess

import numpy as np

from tests.environment import environment
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace
from tracegen.suite.inputs import compile_c
from uarch.timing.simulations import simulated_cycles

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static unsigned long state = 1;
static unsigned next(void) { return state = state * 6364136223846793005ul + 1442695040888963407ul, state >> 40; }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    static int table[1 << 16], few[1 << 10];
    unsigned long sum = 0;
    for (int round = 0; round < 6; ++round) {
        for (int k = 0; k < 40000; ++k) sum += table[next() & 0xFFFF] + k;
        for (int k = 0; k < 1 << 10; ++k) few[k] = next();
        qsort(few, 1 << 10, sizeof *few, compare);
        for (int k = 0; k < 60000; ++k) table[k & 0xFFFF] ^= k * 3;
        for (int k = 0; k < 30000; ++k) if (few[k & 1023] & 64) sum += k; else sum ^= few[(k * 7) & 1023];
    }
    return printf("%lu\\n", sum) < 0;
}
"""


MACHINES = ("base", "zen4", "cortex-a53", "haswell")


def execution(program):
    """Its execution, the same in any folder: where the stack lies decides which units are drawn."""
    return Execution([f"./{program.name}"], stdout=subprocess.DEVNULL, cwd=program.parent, env=environment(24))


def traced_c(program, source):
    """The trace of a C program."""
    program.with_suffix(".c").write_text(source)
    compile_c(program.with_suffix(".c"), program, ["-O1", "-static"])
    path = program.with_suffix(".trace.h5")
    trace(execution(program), path, progress=False)
    return path


def cycles_of(path, machines):
    """Cycles of a trace by the simulation of every instruction."""
    with Trace(path) as opened:
        return simulated_cycles(machines, decode(opened.address, opened.code, opened.isa), opened.chunks())


def columns(static):
    latency = np.ones(len(static), np.uint8)
    return static.address, static.length, latency, static.flags, static.sources, static.destinations
