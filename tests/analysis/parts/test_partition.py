"""Parts of programs whose functions, loops and calls can be counted by hand."""

import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.parts.partition import functions_of, tail_calls, without_clone
from analysis.parts.simulated_parts import collect
from tracegen.qemu import Execution, trace
from uarch.machine_files import load_machine

CATCHES = """
#include <cstdio>
__attribute__((noinline)) int risky(int i) { if (i % 4 == 0) throw i; return i * 3; }
__attribute__((noinline)) long work(int n) {
    long sum = 0;
    for (int i = 0; i < n; i++) {
        try { sum += risky(i); }
        catch (int e) { sum -= e; }
    }
    return sum;
}
int main() { std::printf("%ld", work(100)); }
"""

COPIES = """
#include <stdio.h>
#include <string.h>
char a[4096], b[4096];
__attribute__((noinline)) void inner(int n) { for (int i = 0; i < n; i++) memcpy(a, b + (i & 7), 200 + (i & 63)); }
__attribute__((noinline)) long outer(int m) {
    long sum = 0;
    for (int i = 0; i < m; i++) { inner(5); sum += a[i]; }
    return sum;
}
int main(void) { return printf("%ld\\n", outer(20)) < 0; }
"""

SUMS = """
static __attribute__((noinline)) long helper(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += i * 3;
    return sum;
}
long fx(long n) { return helper(n) + 1; }
"""
HASHES = """
static __attribute__((noinline)) long helper(long n) {
    long sum = 1;
    for (long i = 0; i < n; i++) sum ^= sum * i + (sum >> 3);
    return sum;
}
__attribute__((noinline)) long fy(long n) { return helper(n) + 1; }
long fx(long n);
int main(void) { return fx(100) == fy(30) + fy(40); }
"""


def parts_of(folder, source, *flags, compiler="gcc"):
    """Compile a program, trace it, and take it apart."""
    suffix = {"gcc": "c", "g++": "cpp"}[compiler]
    (folder / f"program.{suffix}").write_text(source)
    program = folder / "program"
    subprocess.run([compiler, "-g", *flags, "-o", program, folder / f"program.{suffix}"], check=True)
    execution = Execution([str(program)], stdout=2)
    return collect(
        trace(execution, folder / "program.trace.h5", progress=False).path, [load_machine("base")], progress=False
    )[0]


def table(parts, by):
    partition = parts.by(by)
    return partition.labels.assign(instructions=partition.sums.instructions)


@pytest.mark.parametrize(
    ("name", "whole", "function"),
    [
        ("f.cold", "f", "f"),
        ("f.cold.3", "f", "f"),
        ("f.constprop.0", "f.constprop.0", "f"),
        ("f.isra.0.part.1.lto_priv.2", "f.isra.0.part.1.lto_priv.2", "f"),
        ("f.constprop.0.cold", "f.constprop.0", "f"),
        ("work(int) [clone .cold]", "work(int)", "work(int)"),
        ("work(int) [clone .isra.0] [clone .cold]", "work(int) [clone .isra.0]", "work(int)"),
        (
            "work(int) [clone .llvm.123] [clone .lto_priv.0]",
            "work(int) [clone .llvm.123] [clone .lto_priv.0]",
            "work(int)",
        ),
        ("f.cold (2)", "f (2)", "f (2)"),
        ("f.constprop.0 (2)", "f.constprop.0 (2)", "f (2)"),
        ("cold", "cold", "cold"),
    ],
)
def test_clones_are_of_their_function(name, whole, function):
    assert functions_of(pd.DataFrame({"function": [name]}))[1] == ["[unknown]", whole]
    assert without_clone(name) == function


def test_the_cold_part_of_a_function_is_part_of_it(tmp_path):
    parts = parts_of(tmp_path, CATCHES, "-O2", compiler="g++")
    assert parts.lines["function"].eq("work(int) [clone .cold]").any()
    assert table(parts, "function")["name"].str.contains("work").sum() == 1
    contexts = table(parts, "context")["name"]
    assert contexts[contexts.str.endswith("work(int)")].str.count("work").eq(1).all()


def test_calls_of_a_stripped_library_keep_their_callers(tmp_path):
    parts = parts_of(tmp_path, COPIES, "-O1", "-fno-builtin", "-fno-optimize-sibling-calls")
    stacks = table(parts, "context").query("name.str.contains('inner')")["name"].str.partition(";main;")
    assert not stacks[2].eq("").any()
    assert stacks[2].str.startswith("outer;inner").all()
    assert stacks[2].nunique() > 1  # and what it calls


def test_a_jump_to_a_function_or_to_code_without_symbols_is_a_tail_call():
    address = np.arange(10, 70, 10).astype(np.uint64)
    lines = pd.DataFrame({"function": ["f", "f", "f.cold", "[libc.so.6]", "[libc.so.6]", ""]})
    found = tail_calls(address, lines, np.array([10, 30, 40], np.uint64), ["f", "f.cold", "[libc.so.6]"])
    assert found.tolist() == [True, False, False, True, True, True]


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_a_loop_that_catches_exceptions_is_one(level, tmp_path):
    parts = parts_of(tmp_path, CATCHES, level, compiler="g++")
    loops = table(parts, "loop").query("function == 'work(int)' and depth > 0")
    assert loops[["depth", "entries"]].to_numpy().tolist() == [[1, 1]]
    assert loops["iterations"].item() == 100 + (level == "-O0")  # the test at its head
    catch = parts.lines[parts.lines["line"].eq(CATCHES.splitlines().index("        catch (int e) { sum -= e; }") + 1)]
    assert len(catch) and (parts.loops.innermost[catch.index] >= 0).all()


def test_functions_of_one_name_are_told_apart(tmp_path):
    (tmp_path / "sums.c").write_text(SUMS)
    parts = parts_of(tmp_path, HASHES, "-O1", tmp_path / "sums.c")
    loops = table(parts, "loop").query("depth > 0").set_index("function")
    assert [Path(loops.loc[name, "file"]).name for name in ("helper", "helper (2)")] == ["sums.c", "program.c"]
    assert loops.loc["helper", ["iterations", "entries"]].tolist() == [100, 1]
    assert loops.loc["helper (2)", ["iterations", "entries"]].tolist() == [70, 2]
    assert {"helper", "helper (2)"} <= set(table(parts, "function")["name"])
    stacks = table(parts, "context")["name"]
    assert stacks.str.endswith(";fx;helper").sum() == stacks.str.endswith(";fy;helper (2)").sum() == 1
    assert "helper (2)+0x0" in set(table(parts, "instruction")["name"])
