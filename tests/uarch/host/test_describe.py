"""A computer described: what is told, how curves are read, where every field comes from."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from analysis.real_computers import host as answers
from support.errors import InputError
from tests.uarch.programs import Instruction, Program
from tracegen.decode import decode
from uarch.configuration import SystemCalls, flatten, machine_from_dict, replace_fields
from uarch.constraints import FAMILIES, SYSTEM_CALLS
from uarch.host import describe as descriptions
from uarch.host.describe import ASSUMED, MEASURED, TOLD, describe, loop_of_one_group, seen_size
from uarch.host.machine_file import machine_file, origins
from uarch.host.measure import Measurements, level_latencies, measure, read_tlb, step_at, window_end
from uarch.host.probe import Probe
from uarch.host.snippets import LOOP_SIZES, WINDOW_SIZES, all_snippets, assembly, order_of_jumps
from uarch.host.told import Told, ToldCache, microarchitecture, told
from uarch.instructions import Flag, NativeInstructions, Operation
from uarch.machine_files import load_machine
from uarch.timing._core import parts
from uarch.timing.simulation import Simulation

CACHES = {
    "l1i": ToldCache(32, 8, 64),
    "l1d": ToldCache(32, 8, 64),
    "l2": ToldCache(512, 8, 64),
    "l3": ToldCache(32768, 16, 64),
}
ZEN3 = Told("AuthenticAMD", "AMD EPYC", "zen3", "zen2", CACHES, frozenset(("fma", "avx2")), (25, 1, 1), True, 2)


def made_up(memory: float = 400.0, l3: float = 50.0) -> Measurements:
    """Measurements of a computer that has exactly these latencies: 4, 12, `l3` and `memory` cycles."""
    found = Measurements(3.0)
    sizes = [4.0 * 2 ** (k / 2) for k in range(33)]
    steps = [4.0 if s <= 32 else 12.0 if s <= 512 else l3 if s <= 8192 else memory for s in sizes]
    found.curves["latency"] = {"huge pages": (sizes, steps), "4 KiB pages": (sizes, steps)}
    names = "add,multiply,divide 32,divide 64,load,fp add,fp multiply,fp divide"
    found.latency = dict.fromkeys(names.split(","), 3.0) | {"divide 32": 16.0, "retargeted jump": 3.1}
    found.per_cycle = dict.fromkeys(
        "nop,copy,zero,add,multiply,load,store,fp add,fp multiply,vector add".split(","), 1.98
    ) | {"copy": 5.6, "nop": 10.2}  # nops in pairs
    found.curves["loops"] = {
        "cycles a round": ([float(size) for size in LOOP_SIZES], [max(size / 6, 1 + (size > 8)) for size in LOOP_SIZES])
    }
    found.windows = {
        "reorder buffer": 248,
        "integer registers": 168,
        "vector registers": 136,
        "load queue": 116,
        "store queue": 64,
        "integer scheduler": 92,
        "vector scheduler": 120,
    }
    found.numbers = {"bandwidth_gbs": 20.0, "btb_entries": 4096.0, "ras_entries": 32.0, "misses_in_flight": 22.1}
    found.misprediction = 18.5
    level_latencies(ZEN3, found)
    return found


@pytest.mark.parametrize(
    ("vendor", "family", "model", "name"),
    [
        ("AuthenticAMD", 25, 1, "zen3"),
        ("AuthenticAMD", 25, 0x61, "zen4"),
        ("AuthenticAMD", 26, 0x02, "zen5"),
        ("AuthenticAMD", 26, 0x50, "zen6"),
        ("AuthenticAMD", 23, 0x50, "zen"),
        ("AuthenticAMD", 23, 0x31, "zen2"),
        ("GenuineIntel", 6, 0x8F, "golden-cove"),
        ("GenuineIntel", 6, 0x55, "skylake"),
        ("GenuineIntel", 6, 0x3F, "haswell"),
        ("Somebody", 1, 1, "unknown"),
    ],
)
def test_microarchitectures_by_their_numbers(vendor, family, model, name):
    found, preset = microarchitecture(vendor, family, model)
    assert found == name
    assert load_machine(preset)


def test_what_a_computer_tells_is_read_from_its_files(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nstepping\t: 1\n"
        "flags\t\t: fpu avx2 hypervisor\n\nprocessor\t: 1\n"
    )
    index = tmp_path / "sys/devices/system/cpu/cpu0/cache/index2"
    index.mkdir(parents=True)
    for name, value in (
        ("level", 2),
        ("type", "Unified"),
        ("size", "1M"),
        ("ways_of_associativity", 8),
        ("coherency_line_size", 64),
    ):
        (index / name).write_text(f"{value}\n")
    found = told(tmp_path)
    assert (found.family, found.virtual, found.numbers) == ("zen3", True, (25, 1, 1))
    assert found.caches == {"l2": ToldCache(1024, 8, 64)}
    with pytest.raises(InputError, match="tells nothing"):
        told(tmp_path / "nowhere")


def test_levels_are_read_from_the_curve():
    found = made_up()
    assert [found.latency[level] for level in ("l1d", "l2", "l3", "memory")] == [4.0, 12.0, 50.0, 400.0]
    assert seen_size(found, "l3") == 8192
    assert seen_size(found, "l2") == 512


def test_a_loop_larger_than_a_group_of_fetch_takes_two_cycles():
    assert loop_of_one_group(made_up(), 6) == 8
    machine = describe(ZEN3, made_up(), "2026-11-25").machine
    assert (machine.pipeline.fetch_width, machine.pipeline.rename_width) == (8, 6)
    assert machine.indirect_delay == 3


@pytest.mark.parametrize(
    "family, preset, microcode, origin",
    [
        ("zen3", "zen2", "zen3", "told"),
        ("zen5", "zen4", "zen5", "told"),
        ("zen5", "zen5-native", "zen5", "told"),
        ("broadwell", "haswell", "haswell", "assumed"),
        ("unknown", "base", "gem5", None),
    ],
)
def test_a_family_without_tables_has_the_nearest_ones(family, preset, microcode, origin):
    host = describe(replace(ZEN3, family=family, preset=preset), made_up(), "2026-11-27")
    assert host.machine.microcode == microcode
    field = host.fields.get("microcode")
    assert (field and field.origin) == origin


@pytest.mark.parametrize("indirect, share", [("target-table", 0.8), ("ittage", 0.0)])
def test_an_order_of_jumps_tells_predictors_apart(indirect, share):
    unit, missed = parts.BranchUnit("tage-sc-l", indirect=indirect), []
    for target in order_of_jumps() * 60:
        to = 0x401000 + 8 * target
        for pc, there, flags in ((0x400000, to, Flag.INDIRECT), (to, 0x402000, 0), (0x402000, 0x400000, 0)):
            missed.append(unit.fetch(pc, pc + 4, there, int(Flag.BRANCH | flags)))
    wrong = [one == parts.Redirect.EXECUTE for one in missed[::3]][len(missed) // 6 :]
    assert np.mean(wrong) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("share, indirect", [(0.2, "ittage"), (0.7, "target-table")])
def test_a_computer_has_histories_of_jumps_where_few_are_missed(share, indirect):
    found = made_up()
    found.numbers["mispredicted_jumps"] = share
    assert describe(ZEN3, found, "2026-11-25").machine.branch_predictor.indirect == indirect


def test_what_is_measured_replaces_what_the_nearest_preset_has():
    zen5, found = replace(ZEN3, family="zen5", preset="zen5-native"), made_up()
    machine = describe(zen5, found, "2026-11-27").machine
    assert (machine.l1d.set_fill_cycles, machine.l2.fill_cycles, machine.store_refetch) == (7, 2, 33)
    assert (machine.branch_predictor.indirect, machine.tlb.l2_entries) == ("ittage", 4096)
    found.numbers |= {"mispredicted_jumps": 0.8, "set reads": 1.0, "set writes": 1.0}
    found.curves["bandwidth"] = {"reads": ([768.0, 1024.0], [64.0, 64.0])}  # a line a cycle
    host = describe(zen5, found, "2026-11-27")
    machine = host.machine
    assert (machine.l1d.set_fill_cycles, machine.l2.fill_cycles, machine.store_refetch) == (1, 1, 0)
    assert machine.branch_predictor.indirect == "target-table"
    assert "set_fill_cycles" not in machine_file(host)  # as in machines without it


def test_no_queue_is_longer_than_a_reorder_buffer_that_a_busy_computer_shows():
    found = made_up()
    found.windows = {"reorder buffer": 40, "load queue": 116}  # the preset's issue queue has 92 entries
    host = describe(ZEN3, found, "2026-11-25")
    pipeline = host.machine.pipeline
    assert pipeline.rob_entries == pipeline.issue_queue_entries == pipeline.load_queue_entries == 41
    assert host.fields["pipeline.issue_queue_entries"].origin == ASSUMED
    assert host.fields["pipeline.load_queue_entries"].origin == MEASURED


def test_steps_of_curves():
    assert step_at([1, 2, 4, 8], [0, 5, 0, 5], 3) == 4
    assert step_at([1, 2, 4, 8], [0, 0, 0, 0], 3) is None
    times = [500.0 + (k % 3) for k in range(20)] + [1000.0] * (len(WINDOW_SIZES) - 20)
    times[5] = 2000.0  # a disturbed point
    assert window_end(WINDOW_SIZES, times) == (WINDOW_SIZES[19] + WINDOW_SIZES[20]) // 2
    assert window_end(WINDOW_SIZES, [500.0] * len(WINDOW_SIZES)) is None


def test_tlbs_are_read_from_the_curve():
    found = made_up()
    counts = [16, 32, 64, 72, 128, 256, 1024, 1536, 2048, 3072]
    times = [4, 4, 4, 11, 11, 11, 19, 19, 130, 132]
    found.curves["TLB"] = {"4 KiB pages": ([float(c) for c in counts], [float(t) for t in times])}
    read_tlb(ZEN3, found)
    assert (found.numbers["tlb_entries"], found.numbers["tlb2_entries"]) == (64, 1536)
    assert (found.numbers["tlb2_latency"], found.numbers["walk"]) == (7.0, 120.0)
    machine = describe(ZEN3, found, "2026-11-25").machine
    assert (machine.tlb.walk, machine.tlb.walk_latency) == ("caches", 101)  # 12 cycles read the entry


def test_every_field_has_an_origin():
    host = describe(ZEN3, made_up(), "2026-11-25")
    assert set(host.fields) == set(flatten(host.machine.to_dict()))
    origin = {field: each.origin for field, each in host.fields.items()}
    assert origin["frequency_ghz"] == origin["pipeline.rob_entries"] == origin["l2.latency"] == MEASURED
    assert origin["l2.size_kib"] == TOLD
    assert origin["branch_predictor.kind"] == ASSUMED
    assert host.machine.l3.size_kib == 8192  # of the 32 MiB told, others have the rest
    assert host.fields["l3.size_kib"].origin == MEASURED


def chase(machine, kib):
    """Cycles of a load along a random cycle of `kib`, simulated."""
    program = Program([Instruction(Operation.NONE, (7,), (7,), Flag.LOAD, 1)])
    lines = np.random.default_rng(0).permutation(kib * 16)
    for line in np.resize(lines, 2 * len(lines)):
        program.execute(0, (0x10000000 + 64 * int(line), 8, 0))
    simulation = Simulation(machine, as_native(program.static()))
    simulation.run(program.chunk(0, len(lines)))
    simulation.reset_counters()
    simulation.run(program.chunk(len(lines)))
    return simulation.counters["cycles"] / len(lines)


def test_the_machine_has_the_measured_latencies():
    machine = describe(ZEN3, made_up(memory=380.0), "2026-11-25").machine
    alone = {"l1d.prefetcher": "none", "l2.prefetcher": "none", "l3.size_kib": 1024, "frames": "virtual"}
    machine = replace_fields(machine, alone)
    assert chase(machine, 16) == pytest.approx(4, abs=0.1)
    assert chase(machine, 256) == pytest.approx(12, abs=1)
    assert chase(machine, 800) == pytest.approx(50, abs=3)
    assert chase(machine, 4096) == pytest.approx(380, abs=12)


@pytest.mark.parametrize(("frames", "most"), [("in-order", 0.1), ("drawn", 1.1)])
def test_the_order_of_pages_is_read_from_a_chase_through_most_of_the_last_cache(frames, most):
    """Simulated with either; pages that are drawn miss as often as they are expected to."""
    found = made_up(memory=380.0)
    machine = describe(ZEN3, found, "2026-11-25").machine
    machine = replace_fields(machine, {"l1d.prefetcher": "none", "l2.prefetcher": "none", "frames": frames})
    sizes = [5793.0, 6888.0]  # of 8 MiB that are seen
    found.curves["latency"]["4 KiB pages"] = (sizes, [chase(machine, int(size)) for size in sizes])
    host = describe(ZEN3, found, "2026-11-25")
    field = host.fields["frames"]
    share = float(re.search(r"misses (-?\d+)%", field.note).group(1)) / 100
    assert host.machine.frames == frames and field.origin == MEASURED
    assert most - 0.3 < share < most


def test_walks_are_no_misses_of_the_last_cache():
    """A chase through 5,793 and 6,888 KiB is a hundred cycles longer by translation, where the TLBs reach 4 MiB."""
    found = made_up(memory=380.0)
    found.numbers |= {"tlb_entries": 64.0, "tlb2_latency": 10.0, "tlb2_entries": 1024.0, "walk": 300.0}
    translated = [10 * (1 - 256 / size) + 290 * (1 - 4096 / size) for size in (5793, 6888)]
    found.curves["latency"]["4 KiB pages"] = ([5793.0, 6888.0], [50 + cycles for cycles in translated])
    field = describe(ZEN3, found, "2026-11-25").fields["frames"]
    assert describe(ZEN3, found, "2026-11-25").machine.frames == "in-order" and "misses 0%" in field.note


def test_without_a_chase_in_small_pages_their_order_is_assumed():
    found = made_up()
    del found.curves["latency"]["4 KiB pages"]
    assert describe(ZEN3, found, "2026-11-25").fields["frames"].origin == ASSUMED


def as_native(static):
    """A made-up program as if a real family took each instruction as one micro-operation, loads as no other."""
    size = len(static)
    computes = ((static.flags & Flag.LOAD) == 0).astype(np.uint8)
    cracked = replace(static, micro_operations=np.ones(size, np.uint8), compute_operations=computes)
    own = NativeInstructions(
        cracked, np.full(size, -1, np.int16), np.zeros(size, np.float32), np.zeros(size, np.uint8), 0.0, 0.0
    )
    return replace(static, native=lambda family: own)


@pytest.mark.parametrize("family", ["zen3", "zen"])  # of one there are micro-operations
def test_the_machine_mispredicts_at_the_measured_cost(family):
    """The loop `pattern` of the probes, of which half the branches are mispredicted."""
    rax, rcx, rsi, r8, r9, r15 = 0, 1, 6, 8, 9, 15
    loop = [
        Instruction(Operation.NONE, (rsi, r8), (rax,), Flag.LOAD, 2),
        Instruction(sources=(r8,), destinations=(r8,)),
        Instruction(sources=(r8, rcx), destinations=(r8,)),
        Instruction(sources=(rax,), destinations=(64,)),
        Instruction(Operation.BRANCH, (64,), (), Flag.BRANCH | Flag.CONDITIONAL),
        Instruction(sources=(r9,), destinations=(r9,)),
        Instruction(sources=(r15,), destinations=(r15, 64)),
        Instruction(Operation.BRANCH, (64,), (), Flag.BRANCH | Flag.CONDITIONAL),
    ]

    def cycles(bits):
        program = Program(loop)
        for k, bit in enumerate(bits):
            for number in (0, 1, 2, 3, 4, *([5] if bit else []), 6, 7):
                program.execute(number, *([(0x10000000 + k % 4096, 1, 0)] if number == 0 else []))
        simulation = Simulation(machine, as_native(program.static()))
        simulation.run(program.chunk())
        return simulation.counters["cycles"] / len(bits)

    machine = describe(replace(ZEN3, family=family), made_up(), "2026-11-25").machine
    even = (cycles([0] * 4000) + cycles([1] * 4000)) / 2
    random = cycles(np.random.default_rng(1).integers(0, 2, 8000).tolist())
    assert 2 * (random - even) == pytest.approx(18.5, rel=0.2)


def test_what_renaming_takes_from_stores_is_told_from_what_the_store_queue_forwards():
    found = made_up()
    found.latency |= {"store to load": 1.0, "store to load of a byte": 6.2}
    found.numbers["renamed_stores"] = 16.0
    told_by = describe(ZEN3, found, "2026-11-26")
    assert (told_by.machine.forward_latency, told_by.machine.memory_renaming) == (5, 16)
    assert {told_by.fields[field].origin for field in ("forward_latency", "memory_renaming")} == {MEASURED}
    del found.numbers["renamed_stores"]
    machine = describe(ZEN3, found, "2026-11-26").machine
    assert (machine.forward_latency, machine.memory_renaming) == (1, None)


@pytest.mark.parametrize(
    "jump, stores, taken, lines", [(0.54, 1.98, 2, 2), (0.67, 1.6, 2, 2), (0.98, 0.97, 1, 1), (0.1, 0.2, 4, 1)]
)
def test_what_fetch_follows_and_stores_reach_in_a_cycle_is_measured(jump, stores, taken, lines):
    found = made_up()
    assert describe(ZEN3, found, "2026-11-27").machine.taken_branches is None
    found.curves["jumps"] = {"cycles a jump": ([128.0, 256.0], [jump, 9.0])}
    found.per_cycle["store to another line"] = stores
    machine = describe(ZEN3, found, "2026-11-27").machine
    assert (machine.taken_branches, machine.store_lines) == (taken, lines)


@pytest.mark.parametrize("least, delay", [(1.9, 0), (2.9, 0), (4.06, 1), (5.9, 2)])
def test_what_a_call_and_its_return_cost_is_measured(least, delay):
    found = made_up()
    found.curves["calls"] = {"cycles a call": ([4.0, 32.0, 64.0], [least + 1, least, 12.3])}
    assert describe(ZEN3, found, "2026-11-28").machine.call_delay == delay


@pytest.mark.parametrize("reads, writes, fill, again", [(7.4, 34.1, 7, 34), (1.2, 1.4, 1, None), (7.4, 9.0, 7, None)])
def test_what_many_lines_of_one_set_cost_is_measured(reads, writes, fill, again):
    found = made_up()
    found.numbers |= {"set reads": reads, "set writes": writes}
    host = describe(ZEN3, found, "2026-11-27")
    assert (host.machine.l1d.set_fill_cycles, host.machine.store_refetch) == (fill, again)
    assert ("l1d.set_fill_cycles" in host.fields) == (fill > 1) and ("store_refetch" in host.fields) == (
        again is not None
    )


def test_how_fast_a_cache_is_filled_is_read_from_the_bandwidth():
    """Its lines of 64 bytes come from L2, of 512 KiB, in 1.3 cycles at best, from L3 in 2.1; memory's are not asked."""
    found = made_up()
    rates = {32: 64.0, 64: 40.0, 128: 50.0, 256: 48.0, 512: 70.0, 1024: 30.0, 4096: 29.0, 1 << 15: 70.0}
    found.curves["bandwidth"] = {"reads": ([float(size) for size in rates], list(rates.values()))}
    machine = describe(ZEN3, found, "2026-11-27").machine
    assert (machine.l1d.fill_cycles, machine.l2.fill_cycles, machine.l3.fill_cycles) == (1, 2, 1)


def test_a_system_call_takes_what_is_measured_beyond_its_instruction(tmp_path):
    found = made_up()
    found.system_calls = dict.fromkeys(SYSTEM_CALLS, 900.0) | {"read": 1700.4, "clock": 90.0}
    found.numbers["first_touch"] = 6000.0
    host = describe(ZEN3, found, "2026-11-26")
    assert host.machine.system_calls == SystemCalls(**dict.fromkeys(SYSTEM_CALLS, 750) | {"read": 1550, "clock": 0})
    assert {host.fields[f"system_calls.{kind}"].origin for kind in SYSTEM_CALLS} == {MEASURED}
    text = machine_file(host)
    assert "read: 1550  # measured: 1,700 cycles, 4 KiB" in text and "takes 6,000 cycles in the kernel" in text
    (tmp_path / "host.yaml").write_text(text)
    assert load_machine(tmp_path / "host.yaml") == host.machine


@pytest.mark.parametrize("family", ["gem5", *(name for name, isa in FAMILIES.items() if isa == "x86-64")])
def test_what_the_simulator_takes_for_the_instruction_of_a_call(family):
    """The loop of the probes: the number, syscall, one less, again."""
    code = [bytes.fromhex(text) for text in ("b86e000000", "0f05", "ffcd", "75f5")]
    address = 0x400000 + np.cumsum([0, *(len(each) for each in code[:-1])]).astype(np.uint64)
    static = decode(address, np.array([list(each.ljust(16, b"\0")) for each in code], np.uint8), "x86-64")
    program = Program([Instruction()] * 4)
    for number in range(4000):
        program.execute(number % 4)
    simulation = Simulation(replace_fields(load_machine("zen4"), {"microcode": family}), static)
    simulation.run(program.chunk())
    taken = descriptions.CALL_CYCLES.get(family, descriptions.GEM5_CALL_CYCLES)
    assert simulation.counters["cycles"] / 1000 == pytest.approx(taken, abs=9)


def test_the_file_is_a_machine_and_says_where_its_fields_come_from(tmp_path):
    host = describe(ZEN3, made_up(), "2026-11-25", "mine")
    path = tmp_path / "mine.yaml"
    path.write_text(machine_file(host))
    assert load_machine(path) == host.machine
    found = origins(path.read_text())
    assert {field: each.origin for field, each in found.items()} == {f: e.origin for f, e in host.fields.items()}
    with pytest.raises(InputError, match="no comment"):
        origins("name: x\n")


def test_a_cache_whose_sets_are_no_power_of_two_keeps_its_size():
    assert descriptions.geometry(1280, 20) == (1280, 20)
    assert descriptions.geometry(49152, 12) == (49152, 12)
    assert descriptions.geometry(32, 8) == (32, 8)
    assert descriptions.geometry(30720, 12) == (30720, 15)  # slices that are no power of two
    assert descriptions.geometry(36864, 12) == (36864, 9)
    assert descriptions.geometry(25600, 10) == (25600, 25)
    assert descriptions.geometry(107_520, 15) == (122_880, 15)  # 105 ways are too many


def test_a_cache_in_seven_slices_is_a_machine_that_says_what_is_assumed():
    told = replace(ZEN3, caches={**ZEN3.caches, "l3": ToldCache(107_520, 15, 64)})
    found = made_up()
    del found.latency["l3"]
    fields = describe(told, found, "2026-11-28").fields
    assert fields["l3.size_kib"] == descriptions.Field(
        descriptions.ASSUMED, "sysfs: 107520; the sets are a power of two"
    )
    assert fields["l3.associativity"].origin == descriptions.TOLD


def test_a_busy_machine_is_told():
    found = made_up()
    found.spread = 0.2
    assert "busy" in answers.busy_warning(found)
    assert answers.result(describe(ZEN3, found, "2026-11-25")).notes
    found.spread = 0.01
    assert not answers.busy_warning(found)


def test_the_answer_is_text_json_and_a_page():
    answer = answers.result(describe(ZEN3, made_up(), "2026-11-25"))
    first = answer.headline()
    assert "renames 6 instructions a cycle at 3.00 GHz" in first.sentence
    assert "after 4, 12, 50, 400 cycles" in first.sentence and "fields told" in first.source
    assert max(map(len, str(answer).splitlines())) <= 80
    document = json.loads(answer.to_json())
    assert machine_from_dict(document["machine"]).name == "host"
    assert document["fields"]["pipeline.rob_entries"]["origin"] == "measured"
    assert "Latency by size" in answer.to_html()


def test_no_probes_for_another_architecture():
    with pytest.raises(InputError, match="cannot be measured"):
        assembly(all_snippets(), "mips")


@pytest.mark.slow
def test_probes_measure_what_is_known_of_every_processor():
    """Additions take a cycle, multiplications more, divisions more still; larger working sets cost more."""
    with Probe(told().features, repeats=41) as probe:  # as other tests run beside this one
        assert 0.3 < 1 / probe.ask("clock", 5) < 10
        assert probe.cycles("latency add") == pytest.approx(1, rel=0.1)
        assert probe.cycles("latency add") < probe.cycles("latency multiply") < probe.cycles("latency divide 64")
        assert probe.cycles("throughput add") < 0.6
        near, far = (probe.ask("chase", kib << 10, 64, 1, 1 << 14, 5) for kib in (16, 16384))
        assert 2 < near < 8 < far
        assert probe.pattern(1 << 19, 0, 1 << 19) > probe.pattern(4096, 1) + 3  # random branches are mispredicted
        with pytest.raises(InputError, match="gave no answer"):
            probe.ask("nonsense")


@pytest.mark.slow
def test_this_computer_is_described():
    known = told()
    host = describe(known, measure(known, repeats=3), "2026-11-25")
    assert set(host.fields) == set(flatten(host.machine.to_dict()))
    assert 30 < host.machine.pipeline.rob_entries < 1200
    assert host.measurements.latency["l1d"] < host.measurements.latency["l2"] < host.measurements.latency["memory"]
    assert host.measurements.latency["divide 64"] > host.measurements.latency["multiply"]
    calls = host.machine.system_calls
    assert 0 < calls.default < calls.read and calls.clock < calls.stat < 1_000_000
