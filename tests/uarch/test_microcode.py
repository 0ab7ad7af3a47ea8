"""Micro-operations that gem5's x86-64 microcode makes of some instructions: known answers."""

from dataclasses import replace

import numpy as np
import pytest
from programs import Program, simulate

from tracegen.decode import decode
from tracegen.features.timed import TIMED
from uarch.configuration import Machine, replace_field, replace_fields
from uarch.instructions import NO_REGISTER, Flag, Temporary
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation
from uarch.timing.static import SOURCES, SOURCES_AT, static_rows

BASE = load_machine("base")
MINOR = replace_field(load_machine("cortex-a53"), "branch_predictor.kind", "none")
RAX, RCX, RDI, XMM0 = 0, 1, 7, 32
ADD, JUMP = "4883c001", "ebfe"  # add rax, 1; a jump back


def x86(*texts: str):
    code = np.zeros((len(texts), 16), np.uint8)
    address, addresses = 0x400000, []
    for row, text in enumerate(texts):
        raw = bytes.fromhex(text)
        code[row, : len(raw)] = list(raw)
        addresses.append(address)
        address += len(raw)
    return decode(np.array(addresses, np.uint64), code, "x86-64")


def cycles_a_round(machine: Machine, texts: list[str], rounds: int = 400, accesses=lambda number, k: []) -> float:
    """Return the cycles a round of `texts` and a jump back, once it repeats; `accesses(k, round)` are the k-th's."""
    static = x86(*texts, JUMP)
    program = Program([])
    for number in range(rounds):
        for k in range(len(texts) + 1):
            program.execute(k, *accesses(k, number))
    latency, _ = simulate(machine, static, [program.chunk()])
    return latency[len(latency) // 2 :].sum() / (rounds // 2)


def sources(machine: Machine, text: str) -> set[int]:
    row = static_rows(machine, x86(text))[0]
    return set(row[SOURCES_AT : SOURCES_AT + SOURCES].tolist())


@pytest.mark.parametrize(
    ("text", "register"),
    [("31c0", RAX), ("660fefc0", XMM0), ("660f6ec0", XMM0), ("660f38 1cc1".replace(" ", ""), XMM0), ("0f5bc1", XMM0)],
    ids=["xor eax, eax", "pxor xmm0, xmm0", "movd xmm0, eax", "pabsb xmm0, xmm1", "cvtdq2ps xmm0, xmm1"],
)
def test_what_is_written_is_read(text, register):
    assert register in sources(BASE, text)
    assert register not in x86(text).sources[0][x86(text).sources[0] != NO_REGISTER]  # it is not of the instruction set


def test_a_move_between_vector_registers_reads_only_one():
    assert XMM0 not in sources(BASE, "f30f7ec1")  # movq xmm0, xmm1


def test_rounds_that_clear_a_register_do_not_overlap():
    """A chain of 6 additions in each round begins with `xor eax, eax`: as long as without it."""
    assert cycles_a_round(BASE, ["31c0", *[ADD] * 6]) == pytest.approx(7, abs=0.1)


def test_products_of_pairs_go_one_after_another():
    """Two stages, of two products each in a unit that takes one a cycle: the second of either comes a cycle later."""
    machine = replace_field(replace_field(BASE, "functional_units.fp_mul_latency", 6), "functional_units.simd", 1)
    texts = ["660ff5c1", "660ff5d3", "660ff5e5"]  # pmaddwd of different registers
    assert cycles_a_round(machine, texts) == pytest.approx(3 * 2 * (6 + 1), abs=0.5)


def string_of(words, is_store=1):
    def accesses(k, number):
        return [(0x10000000 + 8 * word, 8, is_store) for word in range(words(number))] if k == 0 else []

    return accesses


def test_in_order_each_round_of_a_string_is_a_redirection():
    short, long = (cycles_a_round(MINOR, ["f348ab"], 200, string_of(lambda _, n=n: n)) for n in (8, 24))
    jump = cycles_a_round(MINOR, [ADD], 200)  # issued, committed and fetched again once
    assert (long - short) / 16 >= jump - 3


def test_the_end_of_a_string_is_predicted():
    """Strings are of 4 words each time, or of 2 or 6 by chance, whose end nothing can foresee."""
    draws = np.random.default_rng(1).integers(2, size=400) * 4 + 2
    load = "f348ad"  # rep lodsq
    same = cycles_a_round(BASE, [load, ADD], 400, string_of(lambda _: 4, 0))
    by_chance = cycles_a_round(BASE, [load, ADD], 400, string_of(lambda number: int(draws[number]), 0))
    assert by_chance > same + 3


def test_a_byte_shift_is_all_its_microcode_on_a_path_not_taken():
    """Behind a taken branch decode goes through 17 micro-operations of `psrldq`, of which 8 are executed."""

    def behind(text: str) -> float:
        static = x86("4883c001", "eb20", *[text] * 8)
        program = Program([])
        for _ in range(400):
            program.execute(0)
            program.execute(1)
        latency, _ = simulate(MINOR, static, [program.chunk()])
        return latency[400:].sum() / 200

    assert behind("660f73d804") > behind("660fd4c1") + 2  # paddq


def test_divides_of_many_steps_are_redirected_in_order():
    static = x86("4889ca", "48f7f6")  # mov rdx, rcx; div rsi
    assert static.compute_operations[1] == 35
    assert Flag.BRANCH not in Flag(int(static.flags[1]))
    few, many = (cycles_a_round(MINOR, [front, "48f7f6"], 100) for front in ("31d2", "4889ca"))
    step = MINOR.functional_units.div_latency
    assert many - few > (35 - 7) * step + 7 * 5


def as_gem5(machine: Machine) -> Machine:
    """Return it with gem5's divider: a step takes `div_latency`."""
    return replace(machine, functional_units=replace(machine.functional_units, div_step_latency=None))


AS_GEM5 = [as_gem5(machine) for machine in (BASE, MINOR)]


def divided(machine: Machine, texts: list[str], steps: int, rounds: int = 200) -> float:
    """Return the cycles a round of `texts`, whose last one divides in so many steps (0: as many as are assumed)."""
    static = x86(*texts, JUMP)
    program = Program([])
    for _ in range(rounds):
        for k in range(len(texts) + 1):
            program.execute(k)
    chunk = program.chunk()
    which = (np.arange(rounds) * (len(texts) + 1) + len(texts) - 1).astype(np.uint64)
    if steps:
        chunk = replace(chunk, division_instruction=which, division_steps=np.full(rounds, steps, np.uint8))
    simulation = Simulation(machine, static)
    latency = np.concatenate([simulation.run(part) for part in (chunk.part(0, 101), chunk.part(101, len(chunk)))])
    return latency[len(latency) // 2 :].sum() / (rounds // 2)


@pytest.mark.parametrize("machine", AS_GEM5, ids=lambda machine: machine.core)
@pytest.mark.parametrize(("front", "assumed"), [("31d2", 7), ("4889ca", 35)])  # xor edx, edx; mov rdx, rcx
@pytest.mark.parametrize("divide", ["48f7f6", "48f7fe", "48f737"], ids=["div", "idiv", "div [rdi]"])
def test_told_steps_are_as_those_that_are_assumed(machine, front, assumed, divide):
    texts = [front, divide]
    assert divided(machine, texts, assumed if divide != "48f7fe" or assumed == 7 else 35) == divided(machine, texts, 0)


@pytest.mark.parametrize("machine", AS_GEM5, ids=lambda machine: machine.core)
def test_each_step_takes_the_divide_latency(machine):
    step = machine.functional_units.div_latency
    cycles = {steps: divided(machine, ["31d2", "48f7f6"], steps) for steps in (5, 7, 9, 19, 35, 67)}
    for steps in (5, 9):  # of byte divisions: one round, too
        assert cycles[steps] - cycles[7] == pytest.approx((steps - 7) * step, abs=2)
    for steps in (19, 35, 67):
        rounds = (steps - 7) // 4
        more = cycles[steps] - cycles[7] - (steps - 7) * step
        assert 0 <= more <= rounds * (0.5 if machine.core == "out-of-order" else 20)


@pytest.mark.parametrize("name", ["base", "cortex-a53", "zen4", "zen4-native"])
def test_silicon_divides_in_its_own_time(name):
    """Its dividers take no more of gem5's steps than are assumed."""
    machine = load_machine(name)
    if machine.microcode == "gem5":
        assert machine.functional_units.div_step_latency is not None
    assert divided(machine, ["31d2", "48f7f6"], 67) == divided(machine, ["31d2", "48f7f6"], 0)


@pytest.mark.parametrize("name", ["base", "cortex-a53", "zen4"])
def test_a_dividend_that_is_told_to_be_short_is_not_taken_for_a_wide_one(name):
    """Wherever its upper half was cleared."""
    machine = load_machine(name)
    short, wide = (divided(machine, ["4889ca", "48f7f6"], steps) for steps in (7, 0))  # mov rdx, rcx
    assert short == pytest.approx(divided(machine, ["31d2", "48f7f6"], 7), abs=1)
    assert wide > 2 * short


def test_features_see_steps():
    machine, static = AS_GEM5[0], x86("31d2", "48f7f6", JUMP)
    program = Program([])
    for k in [0, 1, 2] * 50:
        program.execute(k)
    chunk = program.chunk()
    told = replace(
        chunk, division_instruction=np.arange(1, 150, 3).astype(np.uint64), division_steps=np.full(50, 67, np.uint8)
    )
    assert (Simulation(machine, static).run(told) != Simulation(machine, static).run(chunk)).any()
    assert (TIMED.extractor(static).extract(told) != TIMED.extractor(static).extract(chunk)).any()


FAR = 0x28040  # from one access to the next
PREFETCHES = ["0f180f", "0f0d0f"]  # prefetchnta [rdi], prefetchw [rdi]
OF_ALL_KINDS = [BASE, MINOR, load_machine("zen4-native")]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("0fb607", Temporary.LOADED | Temporary.MERGED),  # movzx eax, byte [rdi]
        ("803f05", Temporary.LOADED | Temporary.MERGED),  # cmp byte [rdi], 5
        ("0307", Temporary.LOADED),  # add eax, [rdi]
        ("58", Temporary.LOADED),  # pop rax
        ("c3", Temporary.LOADED),  # ret
        ("ff37", Temporary.LOADED),  # push [rdi]
        ("0107", Temporary.COMPUTED),  # add [rdi], eax
        ("d027", Temporary.COMPUTED | Temporary.MERGED),  # shl byte [rdi], 1
        ("0fb6c0", Temporary.COMPUTED | Temporary.MERGED),  # movzx eax, al
        ("0f9407", Temporary.COMPUTED | Temporary.MERGED),  # sete byte [rdi]
        ("f7f1", Temporary.COMPUTED),  # div ecx
        ("83f805", Temporary.AT_ONCE),  # cmp eax, 5
        ("7400", Temporary.AT_ONCE),  # je
        ("6b0705", Temporary.AT_ONCE),  # imul eax, [rdi], 5
        ("660feb07", Temporary.AT_ONCE),  # por xmm0, [rdi]
        ("3c05", Temporary.AT_ONCE | Temporary.MERGED),  # cmp al, 5
        ("c60701", Temporary.AT_ONCE | Temporary.MERGED),  # mov byte [rdi], 1
        ("0fbf07", Temporary.MERGES_LOADED),  # movsx eax, word [rdi]
        ("8a07", Temporary.MERGES_LOADED),  # mov al, [rdi]
        ("8b07", Temporary(0)),  # mov eax, [rdi]
        ("0fb7c0", Temporary(0)),  # movzx eax, ax
        ("b001", Temporary(0)),  # mov al, 1
        ("ffe0", Temporary(0)),  # jmp rax
        ("0f94c0", Temporary(0)),  # sete al
        ("d0e0", Temporary(0)),  # shl al, 1
    ],
)
def test_what_goes_through_the_temporary_register(code, expected):
    temporary = x86(code).temporary
    assert temporary is not None and temporary.tolist() == [expected]


COUNT = 300
POINTER, BYTE, WORD = "488b3f", "440fb607", "448b07"  # mov rdi, [rdi]; movzx r8d, byte [rdi]; mov r8d, [rdi]
WHOLE, PART = "4183c101", "4180c101"  # add r9d, 1; add r9b, 1


def cycles_a_load(machine: Machine, *texts: str) -> float:
    """Return the cycles of `texts`, whose first loads from one place, among many alike."""

    def accesses(k: int, number: int) -> list[tuple[int, int, int]]:
        return [(0x10000000, 1, 0)] if k < COUNT * len(texts) and k % len(texts) == 0 else []

    return cycles_a_round(machine, [*texts] * COUNT, 6, accesses) / COUNT


@pytest.mark.parametrize("machine", [BASE, MINOR], ids=lambda machine: machine.name)
def test_loads_of_bytes_wait_for_each_other(machine):
    """They wait as loads do whose address is loaded; an immediate of a byte is one more in the chain."""
    chain = cycles_a_load(machine, POINTER)
    assert cycles_a_load(machine, BYTE) == pytest.approx(chain, rel=0.1)
    assert cycles_a_load(machine, BYTE, PART) >= chain + 0.5


def test_what_writes_the_whole_register_ends_the_chain():
    """Three micro-operations to retire, four of them a cycle; the chain is of four cycles."""
    assert cycles_a_load(BASE, WORD) < 1
    assert cycles_a_load(BASE, BYTE, WHOLE) < 0.5 * cycles_a_load(BASE, BYTE)
    assert cycles_a_load(BASE, BYTE, "448b0f", "440fb6c8") > 0.9 * cycles_a_load(BASE, BYTE)  # mov r9d, [rdi]: not it


def test_a_byte_is_extended_in_two_steps():
    """`movzx eax, al`; of a word in one."""
    assert cycles_a_round(BASE, ["0fb6c0"] * 50) == pytest.approx(100, rel=0.05)
    assert cycles_a_round(BASE, ["0fb7c0"] * 50) == pytest.approx(50, rel=0.05)


def test_a_load_into_a_part_of_a_register_waits_for_the_register():
    chain = cycles_a_load(BASE, POINTER)
    assert cycles_a_load(BASE, "448a07") == pytest.approx(chain, rel=0.05)  # mov r8b, [rdi]
    assert cycles_a_load(BASE, "440fbf07") == pytest.approx(chain + 1, rel=0.05)  # movsx r8d, word [rdi]


def test_silicon_has_no_such_register():
    native = load_machine("zen4-native")
    assert cycles_a_load(native, BYTE) == pytest.approx(cycles_a_load(native, WORD), abs=0.1)


def without_prefetchers(machine: Machine) -> Machine:
    return replace_fields(machine, {"l1d.prefetcher": "none", "l2.prefetcher": "none"})


@pytest.mark.parametrize("text", PREFETCHES)
@pytest.mark.parametrize("machine", OF_ALL_KINDS, ids=lambda machine: machine.name)
def test_a_prefetched_line_is_there_when_it_is_loaded(machine, text):
    """mov rbx, [rax] waits for a chain that begins with the one before; its line was prefetched 20 rounds ago."""
    texts, machine = [text, "488b18", "4801d8", *[ADD] * 20], without_prefetchers(machine)

    def cycles(known: bool) -> float:
        def accesses(k: int, number: int) -> list[tuple[int, int, int]]:
            far = [(0x10000000 + (number + 20) * FAR, 1, 0)] if known else []
            return {0: far, 1: [(0x10000000 + number * FAR, 8, 0)]}.get(k, [])

        return cycles_a_round(machine, texts, 400, accesses)

    assert cycles(known=True) < 0.6 * cycles(known=False)


@pytest.mark.parametrize("text", PREFETCHES)
@pytest.mark.parametrize("machine", OF_ALL_KINDS, ids=lambda machine: machine.name)
def test_a_prefetch_retires_without_its_line(machine, text):
    """Additions behind it are not held up, unlike behind a load (mov rcx, [rdi]) of the line."""

    def cycles(text: str, far: bool = True) -> float:
        def accesses(k: int, number: int) -> list[tuple[int, int, int]]:
            return [(0x10000000 + far * number * FAR, 1, 0)] if k == 0 else []

        return cycles_a_round(without_prefetchers(machine), [text, *[ADD] * 20], 400, accesses)

    assert cycles(text) == pytest.approx(cycles(text, far=False), abs=3)
    assert cycles("488b0f") > 1.2 * cycles(text)


@pytest.mark.parametrize("address", [0, 1 << 47, 1 << 63, 2**64 - 1])
@pytest.mark.parametrize("name", ["base", "cortex-a53", "zen4-native"])
def test_any_address_may_be_prefetched(name, address):
    static, program = x86("0f180f", ADD, JUMP), Program([])
    for _ in range(50):
        program.execute(0, (address, 1, 0))
        program.execute(1)
        program.execute(2)
    _, counters = simulate(load_machine(name), static, [program.chunk()])
    assert counters["l1d_misses"] + counters["l1d_merged"] <= 50 and counters["l1d_accesses"] >= 50


def test_a_prefetch_waits_for_its_address():
    """A register from a chain of multiplications, and one that is there at once: the line comes as much later."""
    machine = without_prefetchers(BASE)

    def accesses(k: int, number: int) -> list[tuple[int, int, int]]:
        return [(0x10000000 + number * FAR, 8, 0)] if k in (20, 21) else []

    # imul rax, rsi …; prefetcht0 [rax] or [rdi]; mov rbx, [rax]; add rax, rbx
    late, soon = (
        cycles_a_round(machine, [*["480fafc6"] * 20, text, "488b18", "4801d8"], 300, accesses)
        for text in ("0f1808", "0f180f")
    )
    assert late > soon + 20


def test_rows_that_machines_share_are_those_of_each_alone():
    texts = ["4883c001", "f20f58c1", "48f7f1", "660f6ec0", "f20f10c1", "488b07", "ebfe"]
    together = x86(*texts)
    slow = replace_field(BASE, "functional_units.fp_add_latency", 7)
    for machine in (BASE, MINOR, slow, BASE):
        assert np.array_equal(static_rows(machine, together), static_rows(machine, x86(*texts)))
    assert not np.array_equal(static_rows(slow, together), static_rows(BASE, together))
