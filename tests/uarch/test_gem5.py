"""Machines to and from gem5, without gem5: an exported script runs on `gem5_stand_in`; what gem5 wrote is in `data`."""

import contextlib
import copy
import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import gem5_stand_in
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import InputError
from tests.command import perfvec
from tests.errors import message
from uarch.configuration import field_names, get_field, machine_from_dict, replace_field, replace_fields
from uarch.gem5.config import import_config, machine_from_config
from uarch.gem5.script import gem5_script
from uarch.gem5.simulated import as_read_back, as_simulated, digest
from uarch.gem5.table import plainest
from uarch.machine_files import load_machine, preset_names
from uarch.space import sample

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[2]
PRESETS = [load_machine(name) for name in preset_names()]
MACHINES = [*PRESETS, *sample(25, seed=11), *sample(25, seed=11, space="embedded")]
O3 = json.loads((DATA / "gem5-o3.config.json").read_text())
MINOR = json.loads((DATA / "gem5-minor.config.json").read_text())


def configuration(machine, isa="x86-64", arguments=("--", "true"), version="v24") -> dict:
    """Return what config.json would hold of a run of the machine's script."""
    with contextlib.redirect_stdout(None):
        document, _ = gem5_stand_in.run_script(
            gem5_script(machine, isa), list(arguments), version=gem5_stand_in.VERSIONS[version]
        )
    return json.loads(json.dumps(document))


def objects(document) -> dict:
    """The objects of a document by their paths."""
    found, pending = {}, [document]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if isinstance(item.get("path"), str):
                found[item["path"]] = item
            pending += item.values()
        elif isinstance(item, list):
            pending += item
    return found


# What gem5 wrote


@pytest.mark.parametrize("name", ["o3", "minor"])
def test_gem5s_own_configuration_is_the_machine_that_ran(name):
    wanted = json.loads((DATA / f"gem5-{name}.machine.json").read_text())
    machine, _ = import_config(DATA / f"gem5-{name}.config.json", name=wanted["name"])
    assert machine.to_dict() == wanted


@pytest.mark.parametrize("name", ["o3", "minor"])
def test_gem5s_unreduced_configuration_is_the_machine_that_ran(name, tmp_path):
    wanted = json.loads((DATA / f"gem5-{name}.machine.json").read_text())
    (tmp_path / "config.json").write_bytes(gzip.decompress((DATA / f"gem5-{name}.unreduced.json.gz").read_bytes()))
    machine, notes = import_config(tmp_path / "config.json", name=wanted["name"])
    assert machine.to_dict() == wanted
    assert len(notes) == 1


# Export


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_an_exported_machine_comes_back_from_its_configuration(machine):
    for arguments in (["--", "true"], ["--fast-forward", "9", "--", "true"]):
        found, _ = machine_from_config(configuration(machine, arguments=arguments), machine.name)
        assert found == as_read_back(machine)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_with_its_base_an_exported_machine_comes_back_exactly(machine):
    found, _ = machine_from_config(configuration(machine), machine.name, machine)
    assert found == machine


def test_replacement_policies_are_gem5s():
    policies = {"l1i": "tree-plru", "l1d": "random", "l2": "srrip", "l3": "lru"}
    machine = replace_fields(load_machine("zen4"), {f"{level}.replacement": kind for level, kind in policies.items()})
    document = configuration(machine)
    found = {level: objects(document)[f"system.{level}"].get("replacement_policy") for level in policies}
    assert found["l1i"]["type"] == "TreePLRURP" and found["l1d"]["type"] == "RandomRP" and found["l3"] is None
    srrip = found["l2"]
    assert (srrip["type"], srrip["btp"], srrip["hit_priority"]) == ("BRRIPRP", 100, True)
    assert machine_from_config(document, "zen4", machine)[0] == machine


@pytest.mark.parametrize("isa", ["aarch64", "riscv64"])
def test_other_instruction_sets_have_their_own_cores_and_predict_in_order(isa):
    machine = load_machine("cortex-a53")
    text = gem5_script(machine, isa)
    assert ("ArmMinorCPU" if isa == "aarch64" else "RiscvMinorCPU") in text
    assert "interrupts[0]" not in text
    found, notes = machine_from_config(configuration(machine, isa), machine.name)
    assert found == as_read_back(machine, isa)
    assert found.functional_units.div_latency == machine.functional_units.div_latency
    assert notes == []
    blind = load_machine("cortex-a53").to_dict()
    blind["branch_predictor"] = {"kind": "none", "entries": 0, "btb_entries": 0, "ras_entries": 0}
    assert "branch_predictor.kind = none" in message(lambda: gem5_script(machine_from_dict(blind), isa))
    assert "x86-64, aarch64, riscv64" in message(lambda: gem5_script(machine, "mips"))


@pytest.mark.slow
@pytest.mark.parametrize("version", gem5_stand_in.VERSIONS)
@pytest.mark.parametrize("isa", ["x86-64", "aarch64", "riscv64"])
def test_one_script_is_right_for_all_versions(version, isa):
    """v23.0 has no objects for tables of targets, v25 none for what v24's core holds, v23 other names of operations."""
    for machine in PRESETS:
        if isa != "x86-64" and machine.branch_predictor.kind == "none":
            continue
        found, notes = machine_from_config(configuration(machine, isa, version=version), machine.name, machine)
        assert found == machine
        assert notes == machine_from_config(configuration(machine, isa), machine.name, machine)[1]


def test_the_versions_differ_where_gem5_does():
    cpus = {
        name: objects(configuration(load_machine("zen4"), version=name))["system.cpu"]
        for name in gem5_stand_in.VERSIONS
    }
    assert cpus["v23.0"]["branchPred"]["BTBEntries"] == cpus["v24"]["branchPred"]["btb"]["numEntries"] == 8192
    assert cpus["v23.0"]["branchPred"]["RASSize"] == cpus["v24"]["branchPred"]["ras"]["numEntries"]
    assert cpus["v25"]["branchPred"]["type"] == "BranchPredictor"
    assert cpus["v25"]["branchPred"]["conditionalBranchPred"]["type"] == cpus["v24"]["branchPred"]["type"]
    (queue,) = cpus["v25"]["instQueues"]
    assert queue["numEntries"] == cpus["v24"]["numIQEntries"]
    pools = {"v25": queue["fuPool"]} | {name: cpus[name]["fuPool"] for name in ("v23.0", "v23.1", "v24")}
    done = {name: {one["opClass"] for unit in pool["FUList"] for one in unit["opList"]} for name, pool in pools.items()}
    assert done["v23.0"] == done["v23.1"] and done["v24"] == done["v25"]
    assert "VectorUnitStrideLoad" in done["v23.0"] - done["v24"]
    assert "SimdUnitStrideLoad" in done["v24"] - done["v23.0"]


def test_the_script_names_the_machine_and_what_gem5_does_otherwise():
    machine = load_machine("apple-firestorm")
    text = gem5_script(machine)
    assert "The machine apple-firestorm" in text
    assert digest(machine) in text
    for note in as_simulated(machine)[1]:
        assert note in text
    assert digest(machine) == digest(replace_field(machine, "name", "other"))
    assert digest(machine) != digest(replace_field(machine, "l1d.latency", 4))


def test_what_gem5_does_not_have_is_left_out_and_said():
    plain = load_machine("zen4")
    fields = {
        "microcode": "zen4",
        "branch_predictor.indirect": "ittage",
        "first_touch": "cache",
        "indirect_delay": 3,
        "call_delay": 1,
        "frames": "drawn",
    }
    fields |= {"forward_latency": 5}
    values = replace_fields(plain, fields).to_dict()
    values["system_calls"] = {"default": 100, "read": 900}
    values["tlb"] = {"entries": 64, "l2_entries": 2048, "l2_latency": 8, "walk_latency": 30}
    simulated, notes = as_simulated(machine_from_dict(values))
    expected, few = as_simulated(plain)
    assert simulated == expected
    left_out = [note.partition(" = ")[0] for note in notes if "is left out" in note]
    assert sorted(left_out) == sorted([*fields, "tlb", "system_calls"]) and notes[len(left_out) :] == few
    assert "tlb = entries 64, l2_entries 2048" in " ".join(notes)


def test_a_machines_name_cannot_become_code():
    machine = replace_field(load_machine("base"), "name", '"""\\"; import socket #')
    compile(gem5_script(machine), "machine.py", "exec")
    assert "import socket" not in [line.strip() for line in gem5_script(machine).splitlines()]
    configuration(machine)


def test_the_script_is_ascii_as_v23_needs_it():
    machine = replace_field(load_machine("base"), "name", "Zürich™")
    assert gem5_script(machine).isascii()
    document = configuration(machine)
    assert machine_from_config(document, machine.name, machine)[0] == machine
    assert (ROOT / "tracegen" / "gem5" / "run_se.py").read_bytes().isascii()


def test_a_machines_file_is_utf8_in_a_python_of_another_encoding(tmp_path):
    """The Python in gem5 v23 reads text as ASCII, whatever LANG says."""
    (tmp_path / "m.yaml").write_text("# Zürich\n" + (ROOT / "uarch" / "presets" / "base.yaml").read_text(), "utf-8")
    code = "import sys; from uarch.machine_files import load_machine; print(load_machine(sys.argv[1]).name)"
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", code, tmp_path / "m.yaml"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == "base", done.stderr


def test_fields_set_gem5s_parameters():
    """Values by hand, from the table in the project's data notes, for one machine of each core."""
    found = objects(configuration(load_machine("zen4")))
    cpu = found["system.cpu"]
    assert (cpu["type"], cpu["fetchWidth"], cpu["issueWidth"], cpu["dispatchWidth"]) == ("BaseO3CPU", 8, 12, 12)
    assert (cpu["wbWidth"], cpu["squashWidth"], cpu["numPhysIntRegs"], cpu["numPhysFloatRegs"]) == (8, 8, 288, 256)
    assert cpu["branchPred"]["type"] == "TAGE_SC_L_64KB"
    for isa, latency in (("x86-64", 1), ("aarch64", 14)):  # a step of the microcode, or the instruction
        assert f'("IntDiv", {latency}, False)' in gem5_script(load_machine("zen4"), isa)
    assert found["system.clk_domain"]["clock"] == [200]
    cache = found["system.l2"]
    assert [cache[name] for name in ("tag_latency", "data_latency", "response_latency", "mshrs")] == [7, 7, 3, 48]
    assert (cache["tgts_per_mshr"], cache["write_buffers"], cache["size"]) == (16, 8, 1 << 20)
    assert cache["prefetcher"]["type"] == "TaggedPrefetcher"
    assert found["system.l1i"]["response_latency"] == 1
    pool = cpu["fuPool"]["FUList"]
    operations = {one["opClass"]: (one["opLat"], one["pipelined"]) for unit in pool for one in unit["opList"]}
    assert operations["IntDiv"] == (1, False)
    assert operations["FloatSqrt"] == (26, False)
    assert operations["FloatMultAcc"] == (4, True)
    assert operations["SimdFloatDiv"] == (13, True)
    assert found["system.l3"]["mem_side"]["peer"].startswith("system.membus.")

    cpu = objects(configuration(load_machine("cortex-a53")))["system.cpu"]
    assert cpu["type"] == "BaseMinorCPU"
    names = ("decodeInputWidth", "executeInputWidth", "executeIssueLimit", "executeCommitLimit")
    assert [cpu[name] for name in names] == [2] * 4
    assert (cpu["executeMemoryIssueLimit"], cpu["executeMemoryCommitLimit"]) == (1, 1)
    assert "fetch1ToFetch2ForwardDelay" not in cpu
    units = cpu["executeFuncUnits"]["funcUnits"]
    assert [unit["timings"][0]["srcRegsRelativeLats"] for unit in units[:3]] == [[2], [2], [0]]


def test_a_delay_beyond_gem5s_time_buffers_widens_them():
    machine = replace_field(load_machine("base"), "pipeline.frontend_delay", 9)
    cpu = objects(configuration(machine))["system.cpu"]
    assert (cpu["fetchToDecodeDelay"], cpu["backComSize"], cpu["forwardComSize"]) == (9, 9, 9)


def test_the_run_fast_forwards_warms_up_and_measures():
    arguments = ["--fast-forward", "1000", "--warmup", "50", "--max-instructions", "200", "--", "true", "-x"]
    with contextlib.redirect_stdout(None):
        document, phases = gem5_stand_in.run_script(gem5_script(load_machine("base")), arguments)
    assert phases == [
        "instantiate",
        (1000, "fast-forward"),
        "system.fast_cpu to system.cpu",
        (50, "warm-up"),
        "reset",
        (200, "measurement"),
    ]
    found = objects(document)
    assert found["system.fast_cpu"]["cpu_id"] == found["system.cpu"]["cpu_id"] == 0
    assert found["system"]["mem_mode"] == "atomic"
    assert found["system.fast_cpu"]["icache_port"]["peer"].startswith("system.l1i.")
    assert found["system.cpu"]["switched_out"] is True
    assert found["system.fast_cpu.workload"]["cmd"] == ["true", "-x"]


def test_instructions_are_traced_where_the_machines_own_core_begins():
    words = ["--fast-forward", "1000", "--max-instructions", "200"]
    flags = ("ExecEnable", "O3PipeView")
    for more, wanted in ((["--", "true"], True), (["--trace-fast-forward", "--", "true"], False)):
        _, phases = gem5_stand_in.run_script(gem5_script(load_machine("base")), words + more, flags=flags)
        switch = phases.index("system.fast_cpu to system.cpu")
        assert (phases[:2] == ["ExecEnable off", "O3PipeView off"]) is wanted
        assert (phases[switch + 1 : switch + 3] == ["ExecEnable on", "O3PipeView on"]) is wanted
        assert phases[-2:] == ["dump", "drain"]  # so that what has retired leaves the pipeline and is told of
    _, phases = gem5_stand_in.run_script(gem5_script(load_machine("base")), [*words, "--", "true"])
    assert "drain" not in phases and "ExecEnable on" not in phases


def test_the_run_leaves_a_record_of_what_it_ran(tmp_path):
    machine = load_machine("zen4")
    words = ["--fast-forward", "9", "--env", "A=b=c", "--cwd", "/tmp", "--stdin", "/dev/null", "--", "true", "-x"]
    document, _ = gem5_stand_in.run_script(gem5_script(machine), words, outdir=tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    assert machine_from_dict(run["machine"]) == machine
    assert (run["command"], run["cwd"], run["stdin"], run["period"]) == (["true", "-x"], "/tmp", "/dev/null", 200)
    assert (run["fast_forward"], run["core_begins"], run["traced"]) == (9, 1_000_000, "nothing")
    process = objects(document)["system.fast_cpu.workload"]
    assert process["env"] == ["PATH=/usr/bin:/bin", "LC_ALL=C", "A=b=c"]
    assert (process["cwd"], process["input"], process["executable"]) == ("/tmp", "/dev/null", shutil.which("true"))


def test_a_sysroot_has_the_loader_and_the_libraries(tmp_path):
    document, phases = gem5_stand_in.run_script(
        gem5_script(load_machine("base"), "aarch64"),
        ["--sysroot", "/usr/aarch64-linux-gnu", "--", "true"],
        outdir=tmp_path,
    )
    assert phases[0] == "loader below /usr/aarch64-linux-gnu"
    paths = objects(document)["system"]["redirect_paths"]
    assert {path["app_path"]: path["host_paths"] for path in paths}["/lib/"] == ["/usr/aarch64-linux-gnu/lib/", "/lib/"]
    assert json.loads((tmp_path / "run.json").read_text())["sysroot"] == "/usr/aarch64-linux-gnu"


def test_wrong_words_of_the_script_are_told(capsys):
    for words, told in ((["--", "/no/such"], "no such program"), (["--env", "A", "--", "true"], "NAME=VALUE")):
        with pytest.raises(SystemExit):
            gem5_stand_in.run_script(gem5_script(load_machine("base")), words)
        assert told in capsys.readouterr().err


# Import


_SMALL = {"path": "t", "nHistoryTables": 3}


def changed(document, path, **parameters) -> dict:
    document = copy.deepcopy(document)
    objects(document)[path].update(parameters)
    return document


@pytest.mark.parametrize(
    ("path", "parameters", "note", "field", "value"),
    [
        ("system.cpu", {"wbWidth": 12}, "system.cpu.wbWidth = 12", None, None),
        ("system.cpu", {"fetchBufferSize": 32}, "fetchBufferSize = 32", None, None),
        ("system.cpu", {"SSITSize": 2048}, "system.cpu.SSITSize = 2048", None, None),
        ("system.cpu", {"commitToIEWDelay": 3}, "commitToIEWDelay = 3", None, None),
        ("system.cpu.branchPred", {"requiresBTBHit": True}, "branchPred.requiresBTBHit = True", None, None),
        ("system.cpu.branchPred", {"indirectBranchPred": None}, "indirectBranchPred is none", None, None),
        ("system.l2", {"demand_mshr_reserve": 4}, "system.l2.demand_mshr_reserve = 4", None, None),
        ("system.cpu", {"dispatchWidth": 5}, "pipeline.issue_width = 5: the least of", "pipeline.issue_width", 5),
        ("system.cpu", {"cacheLoadPorts": 200}, "load_ports = 1: the least", "functional_units.load_ports", 1),
        ("system.cpu", {"numIQEntries": 90}, "pipeline.issue_queue_entries = 40", "pipeline.issue_queue_entries", 40),
        ("system.cpu", {"numPhysIntRegs": 70}, "pipeline.int_registers = 33", "pipeline.int_registers", 33),
        ("system.l2", {"tgts_per_mshr": 8}, "system.l2.tgts_per_mshr = 8", None, None),
        ("system.l2", {"data_latency": 9}, "l2.latency = 9: the most of", "l2.latency", 9),
        ("system.l2", {"clusivity": "mostly_excl"}, "clusivity", None, None),
        ("system.l2.replacement_policy", {"type": "FIFORP"}, "FIFORP", None, None),
        ("system.l2.replacement_policy", {"type": "BRRIPRP", "btp": 3}, "BRRIPRP (btp 3)", None, None),
        ("system.l2.replacement_policy", {"type": "TreePLRURP"}, "", "l2.replacement", "tree-plru"),
        ("system.l2", {"prefetcher": {"type": "BOPPrefetcher", "path": "p"}}, "BOPPrefetcher", "l2.prefetcher", "none"),
        ("system.cpu.branchPred", {"type": "GshareBP"}, "GshareBP", "branch_predictor.kind", "tage"),
        ("system.cpu.branchPred.btb", {"numEntries": 3000}, "no power of two", "branch_predictor.btb_entries", 2048),
        ("system.cpu.mmu.dtb", {"size": 512}, "system.cpu.mmu.dtb.size = 512", None, None),
        ("system", {"cache_line_size": 128}, "cache_line_size = 128", None, None),
        ("system.mem.dram", {"tCL": 25000}, "memory.model = HBM_1000_4H_1x64", "memory.model", "HBM_1000_4H_1x64"),
        ("system.clk_domain", {"clock": [500]}, "", "frequency_ghz", 2.0),
        ("system.l1d", {"size": (1 << 17) + 5}, "l1d.size_kib = 128", "l1d.size_kib", 128),
        ("system.cpu", {"needsTSO": False}, "system.cpu.needsTSO = False", None, None),
        ("system.l2bus", {"frontend_latency": 20}, "system.l2bus.frontend_latency = 20", None, None),
        ("system.membus", {"width": 64}, "system.membus.width = 64", None, None),
        ("system.mem", {"static_frontend_latency": 100_000}, "system.mem.static_frontend_latency", None, None),
        ("system.mem.dram", {"page_policy": "close"}, "page_policy = 'close'", None, None),
        ("system.mem.dram", {"addr_mapping": "RoCoRaBaCh"}, "addr_mapping = 'RoCoRaBaCh'", None, None),
        ("system.cpu.branchPred", {"type": "LTAGE", "tage": _SMALL}, "t.nHistoryTables = 3", None, None),
    ],
)
def test_what_has_no_counterpart_is_a_note(path, parameters, note, field, value):
    machine, notes = machine_from_config(changed(O3, path, **parameters), "u")
    assert not note or [line for line in notes if note in line], notes
    assert all("\n" not in line for line in notes)
    if field is not None:
        assert get_field(machine, field) == value


def test_a_cache_of_another_clock_has_the_cores_cycles():
    slow = {
        "type": "SrcClockDomain",
        "path": "system.slow",
        "clock": [4 * objects(O3)["system.clk_domain"]["clock"][0]],
    }
    before = machine_from_config(O3, "u")[0].l2.latency
    machine, notes = machine_from_config(changed(O3, "system.l2", clk_domain=slow), "u")
    assert machine.l2.latency == 4 * before
    assert [line for line in notes if line.startswith("system.l2.clk_domain: ")]
    _, notes = machine_from_config(changed(O3, "system.membus", clk_domain=slow), "u")
    assert [line for line in notes if line.startswith("system.membus.clk_domain: ")]


def test_units_that_fields_share_are_told():
    document = copy.deepcopy(O3)
    pool = objects(document)["system.cpu.fuPool"]["FUList"]
    load = next(one for one in pool if any(op["opClass"] == "MemRead" for op in one["opList"]))
    store = next(one for one in pool if any(op["opClass"] == "MemWrite" for op in one["opList"]))
    load["opList"] = load["opList"] + store["opList"]
    _, notes = machine_from_config(document, "u")
    assert "load, store units: 1 of gem5's are shared by these; counted for each" in notes


@pytest.mark.parametrize(
    ("document", "parts"),
    [
        ([], ["Root"]),
        ({"type": "Root", "path": "root"}, ["no O3 or Minor core"]),
        (changed(O3, "system.cpu", type="BaseTimingSimpleCPU"), ["system.cpu is BaseTimingSimpleCPU"]),
        (changed(O3, "system.l2bus", type="RubySystem"), ["Ruby", "system.l2bus"]),
        (
            changed(O3, "system", cpu=[O3["system"]["cpu"], O3["system"]["cpu"] | {"path": "system.cpu1"}]),
            ["2 detailed"],
        ),
        (changed(O3, "system.l1d", mem_side={"peer": "system.membus.x"}), ["system.l1d.mem_side", "needs l2"]),
        (changed(O3, "system.cpu", dcache_port={}), ["dcache_port"]),
        (changed(O3, "system.cpu", icache_port={"peer": "system.membus.x"}), ["icache_port", "needs l1i"]),
        (changed(O3, "system.cpu", fetchWidth="four"), ["system.cpu.fetchWidth = 'four'", "number"]),
        (changed(O3, "system.cpu", fetchWidth=2.5), ["system.cpu.fetchWidth = 2.5", "whole number"]),
        (changed(O3, "system.cpu", fetchWidth=-1), ["system.cpu.fetchWidth = -1", "at least 0"]),
        (changed(O3, "system.cpu", fuPool=None), ["system.cpu.fuPool is missing"]),
        (changed(O3, "system.cpu", branchPred=None), ["system.cpu.branchPred is missing"]),
        (changed(O3, "system.cpu", isa=[{"type": "SparcISA"}]), ["SparcISA", "X86ISA"]),
        (changed(O3, "system.clk_domain", clock=[0]), ["system.clk_domain.clock = 0", "from 50"]),
        (changed(O3, "system.mem", dram={"type": "NVMInterface", "path": "n"}), ["NVMInterface"]),
        (changed(O3, "system.l1d", size=3 << 14), ["l1d.size_kib = 48", "power of two"]),
    ],
)
def test_a_configuration_that_is_no_machine_is_one_line(document, parts):
    text = message(lambda: machine_from_config(document, "u"))
    for part in parts:
        assert part in text


def test_absent_parameters_are_named():
    document = copy.deepcopy(MINOR)
    del document["system"]["cpu"]["executeIssueLimit"]
    assert "system.cpu.executeIssueLimit is missing" in message(lambda: machine_from_config(document, "u"))


def test_unreadable_files_are_one_line(tmp_path):
    text = (DATA / "gem5-o3.config.json").read_text()
    (tmp_path / "cut.json").write_text(text[: len(text) // 2])
    assert "is not JSON" in message(lambda: import_config(tmp_path / "cut.json"))
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    assert "not a text file" in message(lambda: import_config(tmp_path / "bytes.json"))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    message(lambda: import_config(tmp_path / "deep.json"))
    assert "cannot read" in message(lambda: import_config(tmp_path / "none.json"))
    assert "cannot read" in message(lambda: import_config(tmp_path))
    (tmp_path / "other.json").write_text('{"name": "zen4"}')
    assert "other.json" in message(lambda: import_config(tmp_path / "other.json"))
    assert "cortex-a53" in message(lambda: machine_from_config(O3, "u", load_machine("cortex-a53")))


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.lists(st.integers(0, 9), max_size=2),
    st.sampled_from(["system.l1d", "system.cpu", "system.clk_domain", [], {}, {"type": "Cache", "path": "system.l2"}]),
)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.sampled_from([O3, MINOR]), st.data())
def test_any_change_of_a_configuration_is_read_or_told_in_one_line(document, data):
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        found = {path: item for path, item in objects(document).items() if item}
        if not found:
            break  # what came before took the root away
        item = found[data.draw(st.sampled_from(sorted(found)))]
        name = data.draw(st.sampled_from(sorted(item)))
        if data.draw(st.booleans()):
            del item[name]
        else:
            item[name] = copy.deepcopy(data.draw(VALUES))  # else an object could come to hold itself
    try:
        machine, notes = machine_from_config(document, "u")
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert machine_from_dict(machine.to_dict()) == machine
        assert all("\n" not in note for note in notes)


@settings(max_examples=100)
@given(
    st.recursive(
        VALUES,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "path", "cpu", "system", "isa", "icache_port"]), inner, max_size=4
            )
        ),
        max_leaves=8,
    )
)
def test_any_json_is_told_in_one_line(document):
    message(lambda: machine_from_config(document, "u"))
    message(lambda: machine_from_config({"type": "Root", "path": "root", "system": document}, "u"))


def test_derived_clocks_divide_one_after_another():
    machine = load_machine("base")
    document = copy.deepcopy(configuration(machine))
    core = next(item for item in objects(document).values() if "icache_port" in item)
    for divider in (2, 3):
        clock = {"type": "DerivedClockDomain", "clk_divider": divider, "clk_domain": core["clk_domain"]}
        core["clk_domain"] = clock | {"path": f"divided_by_{divider}"}
    found, _ = machine_from_config(document, "u")
    assert found.frequency_ghz == pytest.approx(machine.frequency_ghz / 6, rel=0.01)


def test_at_one_cycle_pipelining_makes_no_difference():
    machine = load_machine("base")
    document = configuration(machine)
    told = machine_from_config(document, "u")[1]
    for changed_class, lines in (("IntAlu", 0), ("FloatMult", 1)):
        other = copy.deepcopy(document)
        for item in objects(other).values():
            if item.get("opClass") == changed_class:
                item["pipelined"] = False
        notes = machine_from_config(other, "u")[1]
        assert len(notes) - len(told) == lines


def test_the_plainest_number():
    assert plainest(12.758, lambda value: 12.67 < value < 12.85) in (12.7, 12.8)
    assert plainest(3.1949, lambda value: 3.1898 < value <= 3.2) == 3.2
    assert plainest(0.0501, lambda value: 0.0495 < value < 0.0505) == 0.05


# The commands


def test_the_commands_export_and_import(tmp_path):
    done = perfvec("uarch", "export", "--gem5", "zen4", "-o", tmp_path / "zen4.py")
    assert (done.returncode, done.stdout) == (0, "")
    assert "pipeline.issue_width = 14 becomes 12" in done.stderr
    compile((tmp_path / "zen4.py").read_text(), "zen4.py", "exec")
    assert perfvec("uarch", "export", "zen4").returncode == 2
    (tmp_path / "config.json").write_text(json.dumps(configuration(load_machine("zen4"))))
    done = perfvec("uarch", "import", tmp_path / "config.json", "--base", "zen4", "-o", tmp_path / "again.yaml")
    assert done.returncode == 0
    again = load_machine(tmp_path / "again.yaml")
    assert {name: get_field(again, name) for name in field_names(again)} == {
        name: get_field(load_machine("zen4"), name) for name in field_names(again)
    }
    done = perfvec("uarch", "import", tmp_path / "zen4.py")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_tree_of_ways_that_gem5_cannot_have_is_told():
    machine = replace_field(load_machine("golden-cove"), "l1d.replacement", "tree-plru")
    assert machine.l1d.associativity == 12
    simulated, notes = as_simulated(machine)
    assert simulated.l1d.replacement == "lru"
    assert "l1d.replacement = tree-plru becomes lru: gem5's tree takes no 12 ways, only powers of two" in notes
    assert as_simulated(replace_field(load_machine("base"), "l1d.replacement", "tree-plru"))[0].l1d.replacement != "lru"
