"""Presets mean what they say: loops whose answers are known from a preset's own fields and comments."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from benchmarks.uarch.gem5_loops import COMPILE, LOOPS
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace
from uarch.configuration import Machine, replace_field
from uarch.instructions import LAST, Chunk, StaticInstructions
from uarch.machine_files import PRESETS, load_machine, preset_names
from uarch.timing.simulation import Simulation

MACHINES = [load_machine(name) for name in preset_names()]
OUT_OF_ORDER = [machine for machine in MACHINES if machine.core == "out-of-order"]
WARM, MEASURED = 4000, 16000
needs_qemu = pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 is not installed")
of_each = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


@dataclass(frozen=True)
class Loop:
    before: str
    body: str  # instructions by semicolons
    times: int  # of the body in a round


LOOPS_OF = {
    "add": Loop("", "add $1, %rax", 32),
    "multiply": Loop("mov $3, %ebx", "imul %rbx, %rax", 16),
    "divide 32": Loop("mov $1, %ecx; mov $0x7fffffff, %eax", "xor %edx, %edx; div %ecx", 8),
    "divide 64": Loop("mov $1, %ecx; mov $0x7fffffffffffffff, %rax", "xor %edx, %edx; div %rcx", 8),
    "divide signed": Loop("mov $1, %ecx; mov $0x7fffffff, %eax", "cltd; idiv %ecx", 8),
    "float add": Loop("", "addsd %xmm1, %xmm0", 16),
    "float multiply": Loop("", "mulsd %xmm1, %xmm0", 16),
    "float divide": Loop("", "divsd %xmm1, %xmm0", 8),
    "store and load": Loop("lea -64(%rsp), %rbx", "mov %rax, (%rbx); mov (%rbx), %rax", 8),
    "adds": Loop("", "; ".join(f"add %rbx, %r{8 + k % 7}" for k in range(14)), 4),
    "loads": Loop("lea -256(%rsp), %rbx", "; ".join(f"mov {8 * k}(%rbx), %r{8 + k % 7}" for k in range(8)), 8),
    "float adds": Loop("", "; ".join(f"addsd %xmm15, %xmm{k}" for k in range(12)), 4),
}
RANDOM = "RANDOM\n test %r13, %rax\n jz 2f\n add $1, %r8\n2:"


@cache
def traced(source: str) -> tuple[StaticInstructions, Chunk, Chunk]:
    """Instructions of a loop, what warms the machine up, and what is measured."""
    with TemporaryDirectory() as name:
        program, path = Path(name) / "loop", Path(name) / "loop.trace.h5"
        command = [*COMPILE, f"-I{LOOPS}", "-x", "assembler-with-cpp", "-", "-o", str(program)]
        subprocess.run(command, input=f'#include "loop.inc"\n{source}\n', text=True, check=True)
        trace(Execution([str(program), "1000000"], max_instructions=WARM + MEASURED), path, progress=False)
        with Trace(path) as file:
            (warm,), (window,) = file.chunks(WARM, 0, WARM), file.chunks(MEASURED, WARM, WARM + MEASURED)
            return decode(file.address, file.code, file.isa), warm, window


def cycles(loop: Loop, machine: Machine) -> float:
    """Return the cycles of one execution of the body; two more instructions close a round."""
    source = f"{loop.before}\n.p2align 6\n1: .rept {loop.times}\n{loop.body}\n.endr\nAGAIN"
    instructions, warm, window = traced(source)
    simulation = Simulation(machine, instructions)
    simulation.run(warm)
    executed = MEASURED / ((loop.body.count(";") + 1) * loop.times + 2) * loop.times
    return float(simulation.run(window).sum(dtype=np.int64)) / executed


@pytest.mark.slow
@needs_qemu
@of_each
def test_chains_take_the_latencies_of_the_fields(machine):
    units, minor = machine.functional_units, machine.core == "in-order"
    # gem5's multiply leaves its upper half in a second micro-operation; Minor does scalars in the vector unit.
    expected = {
        "add": 1,
        "multiply": units.mul_latency + 1,
        "float add": units.fp_add_latency,
        "float multiply": units.fp_add_latency if minor else units.fp_mul_latency,
        "float divide": units.fp_add_latency if minor else units.fp_div_latency,
    }
    found = {name: cycles(LOOPS_OF[name], machine) for name in expected}
    if machine.name == "neoverse-n1":
        assert found["multiply"] == pytest.approx(3, abs=0.1)  # its silicon: 3 of 64 bits
    assert found == {name: pytest.approx(value, rel=0.1) for name, value in expected.items()}


@pytest.mark.slow
@needs_qemu
@of_each
def test_a_division_takes_what_the_comment_says(machine):
    """Seven steps of gem5's microcode: of x86-64 cores as their silicon's of 32 bits (sources: comments)."""
    text = (PRESETS / f"{machine.name}.yaml").read_text()
    (said,) = re.findall(r"div_step_latency: .*: (\d+) cycles a division", text)
    step = machine.functional_units.div_step_latency
    assert int(said) == 7 * step + (5 if machine.core == "in-order" else 2)
    for name in ("divide 32", "divide 64"):
        assert cycles(LOOPS_OF[name], machine) == pytest.approx(int(said), abs=0.5)
    signed = cycles(LOOPS_OF["divide signed"], machine)
    assert int(said) + 5 <= signed <= int(said) + 18  # gem5 takes signs off and puts them on again
    silicon = {"zen4": (8, 18), "zen2": (8, 24), "skylake-sp": (22, 29), "haswell": (22, 29), "golden-cove": (9, 15)}
    low, high = silicon.get(machine.name, (4, 20))
    assert low <= int(said) <= high


@pytest.mark.parametrize(
    ("isa", "code", "names"),
    [
        ("aarch64", "0008c11a", ("cortex-a53", "cortex-a55", "cortex-a72", "neoverse-n1", "apple-firestorm")),
        ("riscv64", "3b45b502", ("boom-large", "sifive-u74")),
    ],
)
def test_a_division_is_one_operation_elsewhere(isa, code, names):
    """udiv w0, w0, w1; divw a0, a0, a1: div_latency each."""
    static = of_code(isa, [code] * 8)
    for name in names:
        machine = load_machine(name)
        latency = Simulation(machine, static).run(executed(np.arange(1600) % 8))
        assert latency[800:].mean() == pytest.approx(machine.functional_units.div_latency, abs=0.1)


@pytest.mark.parametrize("machine", [*MACHINES, load_machine("zen5-native")], ids=lambda machine: machine.name)
def test_loads_take_what_the_comment_says(machine):
    """A chain of loads over lines in random order: of L1D, L2 and L3 (without L2's prefetcher, which would help, and
    without translation).
    """
    (line,) = re.findall(r"^# They are (.*)\.$", (PRESETS / f"{machine.name}.yaml").read_text(), re.MULTILINE)
    said = [int(cycles) for cycles in re.findall(r"(\d+) cycles", line)]
    machine = replace(replace_field(machine, "l2.prefetcher", "none"), tlb=None)
    sizes = [machine.l1d.size_kib // 4, min(2 * machine.l1d.size_kib, machine.l2.size_kib * 3 // 4)]
    sizes += [2 * machine.l2.size_kib] if machine.l3 is not None else []
    static = of_code("x86-64", ["488b00"] * 16)  # mov (%rax), %rax
    found = []
    for size in sizes:
        lines = np.random.default_rng(1).permutation(size * 16).astype(np.uint64)
        addresses = np.uint64(1 << 28) + np.uint64(64) * np.tile(lines, 3)
        latency = Simulation(machine, static).run(executed(np.arange(len(addresses)) % 16, addresses))
        found.append(float(latency[-len(lines) :].mean()))
    assert found == [pytest.approx(value, abs=0.3) for value in said]


@needs_qemu
@of_each
def test_a_load_gets_what_was_just_stored(machine):
    """Out of order no sooner than from L1D or in three cycles; in order from the store buffer, in two to three."""
    found = cycles(LOOPS_OF["store and load"], machine)
    if machine.core == "in-order":
        assert 2 <= found <= 3
    else:
        assert found == pytest.approx(max(machine.l1d.latency, 3), abs=0.1)


@needs_qemu
@pytest.mark.parametrize("machine", OUT_OF_ORDER, ids=lambda machine: machine.name)
def test_rates_are_those_of_units_and_widths(machine):
    """Instructions that do not depend on each other; a scalar of SSE goes to a vector unit, as in gem5."""
    units, narrowest = machine.functional_units, min(machine.pipeline.rename_width, machine.pipeline.commit_width)
    for name, count in (("adds", units.int_alu), ("loads", units.load_ports), ("float adds", units.simd)):
        loop = LOOPS_OF[name]
        least = (loop.body.count(";") + 1) / min(count, narrowest)
        assert least * 0.99 <= cycles(loop, machine) <= least * 1.25


@needs_qemu
@of_each
def test_a_misprediction_costs_the_depth_and_the_chain(machine):
    """A branch by a random number: the way from fetch to issue, the multiplication and addition of the next number, and
    the test, to within some cycles of squashing.
    """
    pipeline, found = machine.pipeline, []
    for condition in (RANDOM, RANDOM.replace("%r13, %rax", "%r15, %r15")):  # the second is never taken
        instructions, warm, window = traced(f"SEED\n.p2align 6\n1: {condition} AGAIN")
        simulation = Simulation(machine, instructions)
        simulation.run(warm)
        before = simulation.statistics["mispredictions"]
        spent = float(simulation.run(window).sum(dtype=np.int64))
        found.append((spent, simulation.statistics["mispredictions"] - before))
    (spent, missed), (plain, never) = found
    assert never < 20 < 1000 < missed
    depth = 3 + pipeline.frontend_delay + getattr(pipeline, "dispatch_delay", 0)
    assert (spent - plain) / missed == pytest.approx(depth + machine.functional_units.mul_latency + 4, abs=3.5)


def of_code(isa: str, codes: list[str]) -> StaticInstructions:
    encoded = [bytes.fromhex(code) for code in codes]
    table = np.zeros((len(encoded), 16), np.uint8)
    for row, code in zip(table, encoded, strict=True):
        row[: len(code)] = list(code)
    lengths = [len(code) for code in encoded]
    return decode((0x400000 + np.cumsum([0, *lengths[:-1]])).astype(np.uint64), table, isa)


def executed(ids: np.ndarray, addresses: np.ndarray | None = None) -> Chunk:
    """Executions of instructions, each of which loads from its address, if any."""
    loads = len(ids) if addresses is not None else 0
    ids = ids.astype(np.uint32)
    return Chunk(
        start=0,
        static_id=ids,
        next_static_id=np.append(ids[1:], LAST).astype(np.uint32),
        access_offset=np.minimum(np.arange(len(ids) + 1), loads).astype(np.int64),
        address=np.zeros(0, np.uint64) if addresses is None else addresses,
        size=np.full(loads, 8, np.uint8),
        is_store=np.zeros(loads, np.uint8),
    )
