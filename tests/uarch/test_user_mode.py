"""Fields of a machine that user mode leaves out: translation, pages just zeroed; and how a real family stores."""

from dataclasses import replace

import numpy as np
import pytest

from support.errors import InputError
from tests.uarch.programs import Instruction, Program
from uarch.configuration import load_machine, machine_from_dict, replace_fields
from uarch.instructions import Flag, NativeInstructions, Operation
from uarch.timing.simulation import Simulation

BASE = replace_fields(load_machine("zen2"), {"l1d.prefetcher": "none", "l2.prefetcher": "none"})
TLB = {"entries": 64, "l2_entries": 2048, "l2_latency": 7, "walk_latency": 90}
PAGE = 4096


def chase(machine, pages):
    """Cycles of a load, each of which waits for the one before, one line a page."""
    program = Program([Instruction(Operation.NONE, (7,), (7,), Flag.LOAD, 1)])
    order = np.random.default_rng(0).permutation(pages)
    for page in np.resize(order, 2 * pages):
        program.execute(0, (0x10000000 + PAGE * int(page) + 64 * (int(page) % 64), 8, 0))
    simulation = Simulation(machine, program.static())
    simulation.run(program.chunk(0, pages))
    simulation.reset_counters()
    simulation.run(program.chunk(pages))
    return simulation.counters["cycles"] / pages


@pytest.mark.parametrize(("pages", "added"), [(32, 0), (512, 7), (8192, 97)])
def test_misses_of_both_levels_cost_what_the_machine_says(pages, added):
    translating = replace_fields(BASE, {"tlb": TLB})
    assert chase(translating, pages) - chase(BASE, pages) == pytest.approx(added, abs=0.05 * added + 0.1)


def stores(machine, native=False):
    """The simulation of stores to every line of 64 pages, never touched before."""
    program = Program([Instruction(Operation.NONE, (7,), (), Flag.STORE, 1)])
    for line in range(64 * 64):
        program.execute(0, (0x10000000 + 64 * line, 8, 1))
    static = program.static()
    if native:
        size = len(static)
        own = replace(static, micro_operations=np.ones(size, np.uint8), compute_operations=np.zeros(size, np.uint8))
        found = NativeInstructions(own, np.full(size, -1, np.int16), np.zeros(size, np.float32), 1, 1)
        static = replace(static, native=lambda family: found)
    simulation = Simulation(machine, static)
    simulation.run(program.chunk())
    return simulation.counters


def test_stores_find_a_page_just_zeroed_in_the_cache():
    without, zeroed = stores(BASE), stores(replace_fields(BASE, {"first_touch": "cache"}))
    assert without["l1d_misses"] > 4000
    assert zeroed["l1d_misses"] == 0
    assert zeroed["cycles"] < without["cycles"] / 4


def test_a_real_familys_stores_pass_through_the_cache_one_behind_another():
    zeroed = replace_fields(BASE, {"first_touch": "cache"})
    native = stores(replace_fields(zeroed, {"microcode": "zen3"}), native=True)
    assert native["cycles"] / 4096 == pytest.approx(1, abs=0.3)  # one port
    assert stores(zeroed)["cycles"] / 4096 >= BASE.l1d.latency


def test_the_fields_are_optional_and_kept():
    machine = replace_fields(BASE, {"tlb": TLB, "first_touch": "cache", "forward_latency": 5})
    assert machine_from_dict(machine.to_dict()) == machine
    assert not {"tlb", "first_touch", "forward_latency"} & set(BASE.to_dict())
    with pytest.raises(InputError, match=r"tlb\.l2_entries"):
        replace_fields(BASE, {"tlb": TLB | {"l2_entries": 1000}})
    with pytest.raises(InputError, match=r"tlb\.walk_latency is missing"):
        replace_fields(BASE, {"tlb": {name: TLB[name] for name in ("entries", "l2_entries", "l2_latency")}})
