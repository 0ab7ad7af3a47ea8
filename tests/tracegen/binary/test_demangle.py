"""Names of C++."""

import subprocess

import pytest

from tests.command import perfvec
from tracegen.binary.demangle import demangled, without_parameters
from tracegen.binary.elf import function_addresses, function_symbols

SOURCE = """
#include <cstdio>
namespace room {
struct Table { long sum = 0; __attribute__((noinline)) void put(long key) { sum = sum * 31 + key; } };
template <typename T> __attribute__((noinline)) T fold(T from, int times) {
    Table table;
    for (int k = 0; k < times; ++k) table.put(from + k);
    return table.sum;
}
}
int main() { return std::printf("%ld", room::fold(3L, 5000)) < 0; }
"""


@pytest.mark.parametrize(
    ("symbol", "name", "short"),
    [
        ("_Z3runl", "run(long)", "run"),
        ("_ZN1A1bEv", "A::b()", "A::b"),
        ("_ZN1r4util3sum17h0123456789abcdefE", "r::util::sum", "r::util::sum"),
        (
            "_ZN47_$LT$r..Sq$u20$as$u20$r..Shape$LT$$RF$T$GT$$GT$4area17hfedcba9876543210E",
            "<r::Sq as r::Shape<&T>>::area",
            "<r::Sq as r::Shape<&T>>::area",
        ),
        ("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()", "(anonymous namespace)::f"),
        ("_ZN1AclEi", "A::operator()(int)", "A::operator()(int)"),
        ("_ZSt4swapIiEvRT_S1_", "void std::swap<int>(int&, int&)", "void std::swap<int>"),
        ("main", "main", "main"),
        ("_Z", "_Z", "_Z"),
        ("_Z3é", "_Z3é", "_Z3é"),
        ("_Z" + "P" * 100_000 + "i", "_Z" + "P" * 100_000 + "i", "_Z" + "P" * 100_000 + "i"),
    ],
)
def test_names(symbol, name, short):
    assert demangled(symbol) == name
    assert without_parameters(name) == short


def test_functions_have_the_names_of_their_source_and_regions_any_of_them(tmp_path):
    (tmp_path / "x.cpp").write_text(SOURCE)
    subprocess.run(["g++", "-O1", "-g", "-o", tmp_path / "x", tmp_path / "x.cpp"], check=True)
    assert "room::Table::put(long)" in function_symbols(tmp_path / "x").name
    addresses = function_addresses(tmp_path / "x")
    assert addresses["room::Table::put"] == addresses["room::Table::put(long)"] == addresses["_ZN4room5Table3putEl"]
    trace = tmp_path / "x.trace.h5"
    done = perfvec("trace", "-o", trace, "--region", "room::Table::put", "--", tmp_path / "x")
    assert done.returncode == 0, done.stderr
    done = perfvec("profile", trace, "--uarch", "base", "--simulate", "--json")
    assert "room::Table::put" in done.stdout, done.stdout + done.stderr
