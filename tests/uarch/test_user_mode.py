"""Fields of a machine that user mode leaves out: translation, pages just zeroed; and how a real family stores."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from support.errors import InputError
from tests.uarch.programs import Instruction, Program
from uarch.configuration import SystemCalls, machine_from_dict, replace_fields
from uarch.constraints import SYSTEM_CALLS
from uarch.instructions import Flag, NativeInstructions, Operation
from uarch.machine_files import load_machine
from uarch.system_calls import UNKNOWN, cycles_by_number, kinds
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


def test_huge_pages_need_few_translations():
    huge = replace_fields(BASE, {"tlb": TLB | {"page_kib": 2048}})  # 8,192 lines lie in 16 of them
    assert chase(huge, 8192) - chase(BASE, 8192) == pytest.approx(0, abs=0.1)


def test_a_walk_reads_the_page_table_through_the_caches():
    # The entries of 8,192 pages are 1,024 lines, which are in L2 by the second round.
    program = [replace_fields(BASE, {"tlb": TLB | {"walk_latency": 0, "walk": walk}}) for walk in ("fixed", "caches")]
    fixed, through = (chase(machine, 8192) for machine in program)
    in_l2 = BASE.l1d.latency + BASE.l2.latency
    assert in_l2 <= through - fixed <= 3 * in_l2
    none, few = (chase(machine, 256) for machine in program)
    assert few == none  # the second level knows them


def counters_of(machine, addresses):
    """Counters of loads of these addresses, the second time."""
    program = Program([Instruction(Operation.NONE, (7,), (), Flag.LOAD, 1)])
    for address in [*addresses, *addresses]:
        program.execute(0, (int(address), 8, 0))
    simulation = Simulation(machine, program.static())
    simulation.run(program.chunk(0, len(addresses)))
    simulation.reset_counters()
    simulation.run(program.chunk(len(addresses)))
    return simulation.counters


@pytest.mark.parametrize("frames", ["in-order", "drawn"])
def test_frames_undo_what_virtual_addresses_have_in_common(frames):
    # Twice as many pages as L2 has ways, all of which are one set's in virtual addresses.
    way = BASE.l2.size_kib // BASE.l2.associativity << 10
    addresses = 0x10000000 + way * np.arange(2 * BASE.l2.associativity)
    conflicting = counters_of(BASE, addresses)
    spread = counters_of(replace_fields(BASE, {"frames": frames}), addresses)
    assert conflicting["l2_misses"] == len(addresses)
    assert spread["l2_misses"] <= len(addresses) // 4


def test_frames_in_order_are_those_of_the_first_touch():
    # Pages of every second set of L2 fill half of it, where frames follow each other all of it.
    pages = BASE.l2.size_kib // 4
    addresses = 0x10000000 + 2 * PAGE * np.arange(pages)[:, None] + 64 * np.arange(64)
    assert counters_of(BASE, addresses.ravel())["l2_misses"] == addresses.size
    assert counters_of(replace_fields(BASE, {"frames": "in-order"}), addresses.ravel())["l2_misses"] == 0


def test_code_and_data_of_one_page_are_in_one_frame():
    # Constants lie beside the code that reads them: whatever the frames, the fetch brought their line into L2.
    program = Program([Instruction(Operation.NONE, (7,), (), Flag.LOAD, 1)])
    for _ in range(50):
        program.execute(0, (int(program.static().address[0]), 8, 0))
    for frames in ("virtual", "in-order", "drawn"):
        simulation = Simulation(replace_fields(BASE, {"frames": frames}), program.static())
        simulation.run(program.chunk())
        assert simulation.counters["l2_misses"] == 1, frames


def stores(machine, native=False):
    """The simulation of stores to every line of 64 pages, never touched before."""
    program = Program([Instruction(Operation.NONE, (7,), (), Flag.STORE, 1)])
    for line in range(64 * 64):
        program.execute(0, (0x10000000 + 64 * line, 8, 1))
    static = program.static()
    if native:
        size = len(static)
        own = replace(static, micro_operations=np.ones(size, np.uint8), compute_operations=np.zeros(size, np.uint8))
        found = NativeInstructions(
            own, np.full(size, -1, np.int16), np.zeros(size, np.float32), np.zeros(size, np.uint8), 0.0, 0.0
        )
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
    tlb = TLB | {"page_kib": 2048, "walk": "caches"}
    machine = replace_fields(BASE, {"tlb": tlb, "frames": "drawn", "first_touch": "cache", "forward_latency": 5})
    assert machine_from_dict(machine.to_dict()) == machine
    assert replace_fields(BASE, {"tlb": TLB}).to_dict()["tlb"] == TLB
    assert not {"tlb", "frames", "first_touch", "forward_latency"} & set(BASE.to_dict())
    with pytest.raises(InputError, match=r"tlb\.l2_entries"):
        replace_fields(BASE, {"tlb": TLB | {"l2_entries": 1000}})
    with pytest.raises(InputError, match=r"tlb\.walk_latency is missing"):
        replace_fields(BASE, {"tlb": {name: TLB[name] for name in ("entries", "l2_entries", "l2_latency")}})


def as_native(static, latency=-1, busy=0.0, vector=0.0):
    """A program as if a real family took each instruction as one micro-operation."""
    size = len(static)
    moves = (static.flags & (Flag.LOAD | Flag.STORE)) != 0
    own = replace(static, micro_operations=np.ones(size, np.uint8), compute_operations=(~moves).astype(np.uint8))
    costs = np.full(size, latency, np.int16), np.full(size, busy, np.float32)
    return replace(
        static, native=lambda family: NativeInstructions(own, *costs, np.zeros(size, np.uint8), vector, vector)
    )


def native_cycles(program, rounds, **costs):
    """Cycles of a round on a real family's micro-operations, two ports for loads and two for stores."""
    fields = {"microcode": "zen3", "functional_units.load_ports": 2, "functional_units.store_ports": 2}
    simulation = Simulation(replace_fields(BASE, fields), as_native(program.static(), **costs))
    simulation.run(program.chunk())
    simulation.reset_counters()
    simulation.run(program.chunk())
    return simulation.counters["cycles"] / rounds


@pytest.mark.parametrize(
    ("register", "offset", "is_store", "cycles"),
    [(1, 0, 0, 0.5), (32, 0, 0, 1), (32, 56, 0, 2), (1, 0, 1, 0.5), (32, 0, 1, 1), (32, 56, 1, 2)],
)
def test_vectors_take_more_of_the_ports_and_all_again_for_a_second_line(register, offset, is_store, cycles):
    """Loads and stores of 16 bytes; those of vectors have a throughput of one a cycle."""
    one = Instruction(Operation.NONE, (7, register), (), Flag.STORE, 1)
    one = one if is_store else Instruction(Operation.NONE, (7,), (register,), Flag.LOAD, 1)
    program = Program([one] * 12 + [Instruction(Operation.BRANCH, flags=Flag.BRANCH)])
    for k in range(1300):
        line = 0x10000000 + 64 * (k % 13 // 2)  # two stores in a cycle go to one line
        program.execute(k % 13, *([(line + offset, 16, is_store)] if k % 13 < 12 else []))
    assert native_cycles(program, 1200, vector=1.0) == pytest.approx(cycles, rel=0.2)


@pytest.mark.parametrize(("busy", "cycles"), [(8.0, 8), (0.0, 15)])
def test_a_division_keeps_its_unit_as_long_as_its_throughput_says(busy, cycles):
    program = Program([Instruction(Operation.INT_DIV, (1,), (2 + k,)) for k in range(4)])
    for k in range(400):
        program.execute(k % 4)
    assert native_cycles(program, 400, latency=15, busy=busy) == pytest.approx(cycles, rel=0.05)


def test_a_load_waits_for_a_stores_address_not_for_its_data():
    """Both are once at one address, so that the load waits for the store from then on; the store's data is late."""
    program = Program(
        [
            Instruction(Operation.INT_MUL, (1,), (1,)),
            Instruction(Operation.NONE, (2, 1), (), Flag.STORE, 1),
            Instruction(Operation.NONE, (3,), (4,), Flag.LOAD, 1),
            Instruction(Operation.INT_ALU, (4, 5), (5,)),
            Instruction(Operation.INT_MUL, (5,), (3,)),
        ]
    )
    for k in range(2000):
        number = k % 5
        place = 0x10000000 + 64 * (k // 5 % 64)
        accesses = {1: [(place, 8, 1)], 2: [(place + (8 if k > 5 else 0), 8, 0)]}
        program.execute(number, *accesses.get(number, []))
    assert native_cycles(program, 400, latency=3) < 13  # the loads' own chain: 3, 4, 3 and not the store's too


def test_a_division_that_waits_does_not_hold_up_one_that_is_ready():
    """One division follows a chain of multiplications, the next needs nothing of it: the unit is free between."""
    program = Program(
        [
            Instruction(Operation.INT_MUL, (1,), (1,)),
            Instruction(Operation.INT_MUL, (1,), (1,)),
            Instruction(Operation.INT_DIV, (1,), (2,)),
            Instruction(Operation.INT_DIV, (3,), (4,)),
            Instruction(Operation.INT_MUL, (4,), (5,)),
        ]
    )
    for k in range(2000):
        program.execute(k % 5)
    assert native_cycles(program, 400, latency=5, busy=4.0) == pytest.approx(10, abs=0.5)  # the chain of two fives


def streamed(fields):
    """Cycles a line of loads that walk through 256 KiB, line by line, the second time."""
    program = Program([Instruction(Operation.NONE, (), (1,), Flag.LOAD, 1)])
    for k in range(4096):
        program.execute(0, (0x10000000 + 64 * k, 8, 0))
    simulation = Simulation(replace_fields(BASE, fields), as_native(program.static()))
    simulation.run(program.chunk())
    simulation.reset_counters()
    simulation.run(program.chunk())
    return simulation.counters["cycles"] / 4096


@pytest.mark.parametrize("level, beyond", [("l1d", 0), ("l2", 128)])
def test_lines_come_into_a_cache_one_behind_another(level, beyond):
    """A stream through L2, and one through L3, from which `beyond` KiB of L2 are too few."""
    fields = {"microcode": "zen3", "l1d.mshrs": 64, "l2.mshrs": 64, "pipeline.rob_entries": 512}
    fields |= {"pipeline.load_queue_entries": 512, "l2.prefetcher": "none"}
    if beyond:
        fields |= {"l2.size_kib": beyond}
    for cycles in (4, 8):
        assert streamed(fields | {f"{level}.fill_cycles": cycles}) == pytest.approx(cycles, rel=0.05)
    assert streamed(fields) == streamed(fields | {f"{level}.fill_cycles": 1}) < 4


def lines_apart(write, count, stride, fields):
    """Cycles an access to `count` lines so far apart, read or written again and again, in a cache of 64 sets of 8."""
    program = Program([Instruction(Operation.NONE, (), () if write else (1,), Flag.STORE if write else Flag.LOAD, 1)])
    for k in range(8192):
        program.execute(0, (0x10000000 + stride * (k % count), 8, write))
    always = {"microcode": "zen5", "l1d.size_kib": 32, "l1d.associativity": 8, "l1d.prefetcher": "none"}
    machine = replace_fields(BASE, always | {"pipeline.store_queue_entries": 64, "l2.prefetcher": "none"} | fields)
    simulation = Simulation(machine, as_native(program.static()))
    simulation.run(program.chunk(0, 4096))
    simulation.reset_counters()
    simulation.run(program.chunk(4096))
    return simulation.counters["cycles"] / 4096


@pytest.mark.parametrize("cycles", [4, 9])
def test_lines_come_into_a_set_one_behind_another(cycles):
    fields = {"l1d.set_fill_cycles": cycles}
    assert lines_apart(0, 32, 4096, fields) == pytest.approx(cycles, rel=0.02)
    assert lines_apart(0, 32, 2048, fields) == pytest.approx(cycles / 2, rel=0.1)  # in two sets
    for count, stride in ((8, 4096), (64, 64)):  # which stay there
        assert lines_apart(0, count, stride, fields) == lines_apart(0, count, stride, {}) < 1.5


def test_a_store_whose_line_others_displaced_waits_for_it_again():
    fields = {"store_refetch": 30}
    found = [lines_apart(1, count, 4096, fields) for count in (12, 16, 24, 32, 64)]
    assert found == sorted(found) and found[0] < 15
    assert found[-1] == pytest.approx(30 * (1 - (15 / 16) ** (63 - 4)), rel=0.05)
    for count, stride in ((8, 4096), (512, 64), (512, 320)):  # which stay there; which lie in all sets
        assert lines_apart(1, count, stride, fields) == lines_apart(1, count, stride, {})
    assert lines_apart(1, 256, 4096, fields | {"microcode": "gem5"}) == lines_apart(1, 256, 4096, {"microcode": "gem5"})


def jumps(targets, fields, apart=1):
    """Cycles a round of an indirect jump that goes to so many targets by turns, which the predictor knows; there are
    `apart` instructions from it, and from one target, to the next.
    """
    indirect = Instruction(Operation.BRANCH, (1,), (), Flag.BRANCH | Flag.INDIRECT)
    program = Program([indirect, *[Instruction(Operation.BRANCH, flags=Flag.BRANCH)] * (3 * apart)])
    for k in range(4000):
        program.execute(0)
        program.execute((1 + k % targets) * apart + (apart == 1))  # not behind it: that would be no jump
    simulation = Simulation(replace_fields(BASE, fields), as_native(program.static()))
    simulation.run(program.chunk())
    simulation.reset_counters()
    simulation.run(program.chunk())
    return simulation.counters["cycles"] / 4000


def returns(fields):
    """Cycles of a call and its return."""
    call = Instruction(Operation.BRANCH, (4, 4), (4,), Flag.BRANCH | Flag.CALL | Flag.STORE, 1)
    back = Instruction(Operation.BRANCH, (4,), (4,), Flag.BRANCH | Flag.INDIRECT | Flag.RETURN | Flag.LOAD, 1)
    program = Program([call, Instruction(Operation.BRANCH, flags=Flag.BRANCH), Instruction(), back])
    for _ in range(2000):
        program.execute(0, (0x10000000, 8, 1))
        program.execute(3, (0x10000000, 8, 0))
        program.execute(1)
    simulation = Simulation(replace_fields(BASE, fields), as_native(program.static()))
    simulation.run(program.chunk())
    simulation.reset_counters()
    simulation.run(program.chunk())
    return simulation.counters["cycles"] / 2000


def test_a_returns_target_is_found_later():
    delayed = {"microcode": "zen3", "indirect_delay": 3}
    assert returns(delayed) - returns({"microcode": "zen3"}) == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("fields", [{}, {"indirect_delay": 3}, {"taken_branches": 2}])
def test_a_call_and_its_return_each_put_fetch_off(fields):
    at_once = returns({"microcode": "zen3"} | {key: value for key, value in fields.items() if key != "indirect_delay"})
    for delay in (0, 1, 2):
        found = returns({"microcode": "zen3", "call_delay": delay} | fields)
        assert found - at_once == pytest.approx(2 * delay, abs=0.1)


def test_a_jump_to_another_target_than_the_last_is_found_later():
    delayed = {"microcode": "zen3", "indirect_delay": 3}
    assert jumps(1, delayed) == jumps(1, {"microcode": "zen3"})
    for apart in (1, 20):  # in the same line of code, in another
        added = jumps(2, delayed, apart) - jumps(2, {"microcode": "zen3"}, apart)
        assert added == pytest.approx(3, abs=0.1)


def two_jumps(fields):
    """Cycles of a round: a jump to another one, which goes back."""
    jump = Instruction(Operation.BRANCH, flags=Flag.BRANCH)
    program = Program([jump, Instruction(), jump])
    for k in range(4000):
        program.execute(k % 2 * 2)
    simulation = Simulation(replace_fields(BASE, fields), as_native(program.static()))
    simulation.run(program.chunk())
    simulation.reset_counters()
    simulation.run(program.chunk())
    return simulation.counters["cycles"] / 2000


def test_fetch_follows_several_taken_branches_in_a_cycle():
    one, two = ({"microcode": "zen3", "taken_branches": most} for most in (1, 2))
    assert two_jumps(one) == pytest.approx(2, abs=0.05)
    assert two_jumps(two) == pytest.approx(1, abs=0.05)
    assert jumps(1, one) - jumps(1, two) == pytest.approx(1, abs=0.05)  # one of the two jumps of a round is direct
    assert returns(one) - returns(two) == pytest.approx(1, abs=0.05)  # neither the call nor the return is followed
    program = Program([Instruction(Operation.BRANCH, flags=Flag.BRANCH), Instruction()])
    for _ in range(4000):
        program.execute(0)
    simulation = Simulation(replace_fields(BASE, two), as_native(program.static()))
    simulation.run(program.chunk())
    simulation.reset_counters()
    simulation.run(program.chunk())
    assert simulation.counters["cycles"] == pytest.approx(4000, rel=0.01)  # never the same one twice


@pytest.mark.parametrize("name", ["zen2", "cortex-a53"])
def test_a_system_call_takes_its_time_in_the_kernel(name):
    program = Program([Instruction(), Instruction(Operation.SYSTEM, flags=Flag.SYSCALL | Flag.SERIALIZING)])
    for k in range(2000):
        program.execute(k % 2)

    def cycles(fields):
        simulation = Simulation(replace_fields(load_machine(name), fields), program.static())
        simulation.run(program.chunk())
        return simulation.counters["cycles"] / 1000

    assert cycles({"system_calls.default": 600}) - cycles({}) == pytest.approx(600, abs=1)
    assert cycles({"system_calls.read": 600}) == cycles({"system_calls.default": 0}) == cycles({})
    assert "system_calls" not in load_machine(name).to_dict()
    with pytest.raises(InputError, match=r"system_calls\.default = -1 must be"):
        replace_fields(load_machine(name), {"system_calls.default": -1})


@pytest.mark.parametrize("name", ["zen2", "cortex-a53"])
def test_a_system_call_of_a_known_number_takes_the_time_of_its_kind(name):
    """Reads and writes by turns, in two chunks; of 99 calls no number is known, and nothing waits for the last one."""
    program = Program([Instruction(), Instruction(Operation.SYSTEM, flags=Flag.SYSCALL | Flag.SERIALIZING)])
    for k in range(2000):
        program.execute(k % 2)
    call = np.arange(900)
    known = {"call_instruction": (2 * call + 1).astype(np.uint64), "call_number": (call % 2).astype(np.uint16)}
    chunk = replace(program.chunk(), **known)

    def cycles(fields):
        simulation = Simulation(replace_fields(load_machine(name), fields), program.static())
        for part in (chunk.part(0, 777), chunk.part(777, 2000)):
            simulation.run(part)
        return simulation.counters["cycles"]

    fields = {"system_calls.default": 50, "system_calls.read": 1000, "system_calls.write": 300}
    assert cycles(fields) - cycles({}) == pytest.approx(450 * 1300 + 99 * 50, abs=3)


def test_the_kinds_of_system_calls_are_the_machines_fields():
    fields = tuple(field.name for field in dataclasses.fields(SystemCalls))
    assert fields == SYSTEM_CALLS == ("default", *kinds())
    numbers = [[names[0], names[1]] for of_kind in kinds().values() for names in of_kind.values()]
    for column in zip(*numbers, strict=True):
        told = [number for number in column if number is not None]
        assert len(told) == len(set(told)) and max(told) < UNKNOWN
    calls = SystemCalls(default=5, close=7)
    for isa, close in (("x86-64", 3), ("aarch64", 57), ("riscv64", 57)):
        cycles = cycles_by_number(calls, isa)
        assert cycles[close] == 7 and cycles.sum() == 7 + 5 * (len(cycles) - 1)
