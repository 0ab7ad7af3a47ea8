"""Collecting measured schedules: networks become tasks, tasks candidates, candidates records; nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from support.errors import InputError
from tests.command import INSTALLED, succeeding
from tests.tracegen.tensor.conftest import OPERATORS

if sys.platform != "linux":
    pytest.skip("processes are pinned as Linux does it", allow_module_level=True)

from tracegen.tensor import work
from tracegen.tensor.card import card
from tracegen.tensor.collect import collect, steps_of, work_file
from tracegen.tensor.dataset import Dataset, Outcome
from tracegen.tensor.finish import finish
from tracegen.tensor.journal import Journal
from tracegen.tensor.measure import arguments, enough, summary
from tracegen.tensor.networks import networks
from tracegen.tensor.plan import Plan
from tracegen.tensor.simulated import require_simulated
from tracegen.tensor.tasks import parse_network
from tracegen.tensor.worker import Failure, Worker
from uarch.timing.simulation import SIMULATOR

pytestmark = [  # TVM compiles and measures
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("tvm") is None, reason="TVM is not installed"),
]

TINY = Plan(operators=OPERATORS, devices=("x86-64-v2",), schedules=4, round=2, again=0.5, budget_s=0.02)
_TENSOR = (("float32", (4,)),)


@pytest.fixture
def copied(collected: Path, tmp_path: Path) -> Path:
    """The collected dataset with its work file, to go on with."""
    shutil.copytree(collected.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / collected.name


def test_dataset_holds_what_was_measured(collected: Path):
    with Dataset(collected) as data:
        assert data.tasks["name"].tolist() == ["matmul_16x16x16", "softmax_8x8"]
        assert data.tasks["operator"][0] == "dense"
        assert data.tasks["flops"][0] == 2 * 16**3
        schedules = data.schedules()
        assert sorted(schedules["origin"][schedules["task"] == 0]) == ["evolutionary"] * 2 + ["replay-trace"] * 2
        records = data.records()
        assert records["error"].tolist() == [Outcome.OK] * data.schedule_count
        assert (records["seconds"] > 0).all() and (records["seconds"] < 0.1).all()
        assert (records["repeats"] >= 3).all()
        assert data.provenance["compared"]["records"] == len(records) and data.provenance["compared"]["largest"] < 1e-5
        rows = data.features("statements")
        assert (rows.length > 0).all() and rows.values.shape[1] == 164
        assert (data.features("ast").length > 0).all()
        assert data.devices["parameters"][0]["vector_bytes"] == 16


def test_candidates_are_distinct(collected: Path):
    with Dataset(collected) as data:
        assert len(set(zip(data.task_of.tolist(), data.steps(), strict=True))) == data.schedule_count > 4


def test_some_records_are_measured_again(collected: Path):
    with Journal(work_file(collected), writable=False) as journal:
        assert len(journal.repeated) == round(len(journal.records) / 2)
        assert {(record.schedule, record.device) for record in journal.repeated} <= set(journal.records)


def test_card_tells_counts_noise_and_origin(collected: Path):
    with Dataset(collected) as data:
        text, count = card(data), data.schedule_count
    assert f"| 2 | {count} | {count} | none |" in text
    assert "replay-trace " in text and f"{round(count / 2)} records measured a second time" in text
    assert "TVM 0.27.0.post1" in text


@pytest.mark.slow
def test_tvm_reads_the_database_beside_it(collected: Path):
    code = (
        "import sys; from tracegen.tensor.installation import without_tensor_intrinsics as w; w()\n"
        "from tvm.s_tir.meta_schedule.database import JSONDatabase\n"
        "d = JSONDatabase(sys.argv[1] + '/database_workload.json', sys.argv[1] + '/database_tuning_record.json')\n"
        "print(len(d.get_all_tuning_records()))"
    )
    folder = collected.with_name("tiny.tvm") / "x86-64-v2"
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    with Dataset(collected) as data:
        assert done.stdout.split() == [str(data.schedule_count)]


def test_a_second_call_measures_nothing_twice(copied: Path):
    before = work_file(copied).read_text().splitlines()
    collect(TINY, copied, progress=False)
    added = work_file(copied).read_text().splitlines()[len(before) :]
    assert [next(iter(json.loads(line))) for line in added] == ["session"]


def test_a_machine_is_simulated(copied: Path):
    plan = Plan(operators=TINY.operators[:1], devices=("sim:zen4", "sim:cortex-a53"), schedules=4)
    collect(plan, copied, progress=False)
    finish(copied, progress=False)
    with Dataset(copied) as data:
        table = data.table().assign(device=lambda frame: data.devices["name"][frame["device"]].to_numpy())
    time_of = table.pivot(index="schedule", columns="device", values="seconds").dropna()
    assert len(time_of) == 4
    assert (time_of["sim:cortex-a53"] > time_of["sim:zen4"]).all()  # two-wide in order against four-wide out of order


def test_a_subset_is_simulated_on_machines_of_a_design_space(copied: Path):
    plan = Plan(devices=("sim:embedded:2", "sim:base"), schedules=0, simulated_tasks=1, simulated_schedules=2)
    for _ in range(2):  # the second finds all done
        journal = collect(plan, copied, progress=False)
        simulated = [key for key in journal.records if key[1] in plan.machines]
        assert len(simulated) == 6 and len({schedule for schedule, _ in simulated}) == 2
        assert all(journal.records[key].seconds for key in simulated)
    finish(copied, features=False, progress=False)
    with Dataset(copied) as data:
        assert data.devices["name"].tolist() == ["x86-64-v2", *plan.machines]
        assert data.devices["parameters"][1]["clock_ghz"] == plan.machines[data.devices["name"][1]].frequency_ghz
        assert data.devices["parameters"][1]["simulator"] == SIMULATOR
        assert data.record_count == data.schedule_count + 6


def test_aarch64_programs_are_simulated(copied: Path):
    try:
        require_simulated("aarch64")
    except InputError as error:
        pytest.skip(str(error))
    devices = ("sim:cortex-a53", "sim:cortex-a72")
    plan = Plan(devices=devices, isa="aarch64", schedules=0, simulated_tasks=1, simulated_schedules=1)
    journal = collect(plan, copied, progress=False)
    slow, fast = (record for record in journal.records.values() if record.device.endswith("@aarch64"))
    assert slow.schedule == fast.schedule and slow.seconds > fast.seconds > 0
    assert fast.deviation is not None and fast.deviation < 1e-5  # QEMU's result is the product too
    finish(copied, features=False, progress=False)
    with Dataset(copied) as data:
        assert [parameters["isa"] for parameters in data.devices["parameters"]] == ["x86-64", "aarch64", "aarch64"]


def test_without_tasks_there_is_nothing_to_collect(tmp_path: Path):
    with pytest.raises(InputError, match="nothing to collect"):
        collect(Plan(devices=("x86-64-v2",)), tmp_path / "none.tensor.h5", progress=False)


def test_what_executes_too_much_is_a_failure(copied: Path):
    plan = Plan(operators=TINY.operators[:1], devices=("sim:zen4",), schedules=4, max_instructions=100)
    collect(plan, copied, progress=False)
    with Journal(work_file(copied), writable=False) as journal:
        errors = [record.error for record in journal.records.values() if record.device == "sim:zen4"]
    assert errors == ["too long"] * 4


def test_a_run_past_its_limit_is_a_failure(tmp_path: Path):
    plan = Plan(operators=TINY.operators[:1], devices=("x86-64-v2",), schedules=1, evolutionary=0, run_limit_s=0.0)
    journal = collect(plan, tmp_path / "late.tensor.h5", progress=False)
    assert [record.error for record in journal.records.values()] == ["timeout"]


@pytest.mark.parametrize(
    ("body", "limit_s", "error", "message"),
    [("__builtin_trap();", 60.0, "crashed", "SIGILL"), ('for (;;) __asm__ volatile("");', 3.0, "timeout", "limit")],
)
def test_crashes_and_hangs_stay_in_the_runner(tmp_path: Path, body: str, limit_s: float, error: str, message: str):
    library = {}
    for name, content in (("bad", body), ("good", "")):
        source = tmp_path / f"{name}.c"
        source.write_text(f"int __tvm_ffi_main(void *a, void *b, int c, void *d) {{ {content} return 0; }}")
        library[name] = str(source.with_suffix(".so"))
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library[name], str(source)], check=True)
    runner = Worker(work.run)
    try:
        request = {"arguments": _TENSOR, "slow_s": 1.0, "budget_s": 0.01}
        with pytest.raises(Failure, match=message) as failed:
            runner.call({**request, "path": library["bad"]}, limit_s)
        assert failed.value.error == error
        assert runner.call({**request, "path": library["good"]}, 60.0).seconds < 0.1
    finally:
        runner.close()


@pytest.mark.slow
@pytest.mark.parametrize("steps", [100_000, 30_000_000])  # some 0.1 and 30 ms: repeats of many calls, and of one
def test_other_work_on_the_core_is_not_counted(tmp_path: Path, steps: int):
    source, library = tmp_path / "spin.c", tmp_path / "spin.so"
    body = f'for (long i = 0; i < {steps}; i++) __asm__ volatile("");'
    source.write_text(f"int __tvm_ffi_main(void *a, void *b, int c, void *d) {{ {body} return 0; }}")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    core = min(os.sched_getaffinity(0))
    runner = Worker(work.run, core)
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        request = {"arguments": _TENSOR, "slow_s": 10.0, "budget_s": 0.3, "path": str(library)}
        for hog in hogs:
            os.sched_setaffinity(hog.pid, {core})
        ratios = []
        for _ in range(5):  # in pairs: what else slows this machine down slows both
            seconds = []
            for change in (signal.SIGSTOP, signal.SIGCONT):
                for hog in hogs:
                    hog.send_signal(change)
                seconds.append(runner.call(request, 120.0).seconds)
            ratios.append(seconds[1] / seconds[0])
        assert statistics.median(ratios) < 1.6  # 3 by the wall clock
    finally:
        runner.close()
        for hog in hogs:
            hog.kill()
            hog.wait()


@pytest.mark.slow
def test_a_killed_collection_goes_on(tmp_path: Path):
    output = tmp_path / "killed.tensor.h5"
    words = "tensor collect --operators matmul:16x16x16 --device x86-64-v2 --schedules 8 --evolutionary 0 --budget 0.02"
    command = [*INSTALLED, *words.split(), "--no-features", "-o", str(output)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    first = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (work_file(output).exists() and b'"record"' in work_file(output).read_bytes()):
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    with work_file(output).open("ab") as journal:
        journal.write(b'{"record":{"schedule":0,"dev')  # as a kill in the middle of a write leaves it
    before = work_file(output).read_bytes().splitlines()[:-1]
    succeeding(*words.split(), "--no-features", "-o", output)
    lines = work_file(output).read_bytes().splitlines()
    assert lines[: len(before)] == before
    keys = [
        (entry["record"]["schedule"], entry["record"]["device"])
        for entry in map(json.loads, lines)
        if "record" in entry and not entry["record"]["again"]
    ]
    assert len(keys) == len(set(keys)) == 8
    with Dataset(output) as data:
        assert data.record_count == 8


def test_the_work_file_is_held(copied: Path):
    with Journal(work_file(copied)), pytest.raises(InputError, match="another collection"):
        Journal(work_file(copied))


def test_summary_by_hand():
    measured = summary([1.0, 1.0, 2.0, 3.0, 3.0])
    assert (measured.seconds, measured.spread, measured.repeats) == (2.0, 1.0, 5)


def test_summary_rejects_what_lies_above_the_fence():
    measured = summary([1.0, 1.1, 1.2, 1.3, 9.0, 9.0])  # quartiles 1.125 and 7.075: nothing is out
    assert measured.seconds == pytest.approx(1.25)
    measured = summary([1.0, 1.1, 1.2, 1.3, 9.0])  # quartiles 1.1 and 1.3: 9 is above 1.6
    assert measured.seconds == pytest.approx(1.15)
    assert measured.repeats == 5


@pytest.mark.parametrize(
    ("repeats", "budgets", "ends"),
    [
        ([1.0, 1.0], 9.0, False),  # three at least
        ([1.0, 1.0, 1.0, 1.0], 0.5, False),  # settled only with five
        ([1.0] * 5, 0.5, True),
        ([1.0, 1.1, 1.2, 1.0, 1.1], 0.5, False),
        ([1.0, 1.1, 1.2, 1.0, 1.1], 1.01, True),  # the budget is spent
        ([1.0, 1.5, 2.0, 1.0, 1.5], 1.01, False),  # and is spent again where repeats differ
        ([1.0, 1.5, 2.0, 1.0, 1.5], 3.01, True),
    ],
)
def test_noisy_programs_are_repeated_for_longer(repeats, budgets, ends):
    assert enough(repeats, repeats, budgets) == ends


def test_summary_of_a_single_run():
    assert summary([0.5]).spread is None


def test_indices_lie_within_the_table():
    table, indices, _ = arguments([("float32", (7, 3)), ("int32", (1000,)), ("float32", (1000, 3))])
    assert table.dtype == np.float32
    assert set(indices.tolist()) == set(range(7))


def test_steps_end_where_they_should():
    assert steps_of(0, 10, 4) == [4, 8, 10]
    assert steps_of(10, 10, 4) == []


@pytest.mark.slow
def test_networks_classify():
    import torch

    small = {
        "resnet18": 64,
        "mobilenet_v2": 64,
        "mobilenet_v3_small": 64,
        "squeezenet": 64,
        "shufflenet_v2": 64,
        "mlp_mixer_s16": 32,
        "vit_small": 32,
        "densenet121": 64,
        "inception_v3": 139,
        "alexnet": 64,
    }
    for name, size in small.items():
        network = networks()[name]
        with torch.no_grad():
            assert network.module(size)(network.example(2, size)).shape == (2, 1000), name


def test_networks_of_words():
    import torch

    known = networks()
    with torch.no_grad():
        assert known["bert_tiny"].module(16)(known["bert_tiny"].example(2, 16)).shape == (2, 16, 128)
        assert known["gpt2"].module(4)(known["gpt2"].example(1, 4)).shape == (1, 50257)


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("resnet18", 11.69),
        ("resnet50", 25.56),
        ("mobilenet_v2", 3.50),
        ("mobilenet_v3_large", 5.48),
        ("vgg16", 138.36),
        ("squeezenet", 1.24),
        ("densenet121", 7.98),
        ("shufflenet_v2", 2.28),
        ("alexnet", 61.10),
    ],
)
def test_networks_have_the_published_sizes(name: str, millions: float):
    module = networks()[name].shapes()
    assert sum(weight.numel() for weight in module.parameters()) / 1e6 == pytest.approx(millions, abs=0.006)


@pytest.mark.parametrize(
    ("name", "layers", "width", "heads"),
    [("bert_large", 24, 1024, 16), ("gpt2", 12, 768, 12), ("gpt2_large", 36, 1280, 20)],
)
def test_transformers_have_the_papers_layers(name, layers, width, heads):
    """A layer has 12 width² + 13 width weights: four square maps, two of four times the width, and two norms."""
    whole, fewer = networks()[name].shapes(), networks()[name].shapes(layers=layers - 1)
    count = [sum(weight.numel() for weight in module.parameters()) for module in (whole, fewer)]
    assert count[0] - count[1] == 12 * width**2 + 13 * width
    assert len(whole.blocks) == layers
    assert whole.blocks[0].attention.heads == heads


@pytest.mark.slow
def test_the_tasks_of_many_layers_are_those_of_all_of_them():
    """Three layers give the same tasks as extracting all five."""
    from tracegen.tensor import tasks

    text = "bert_tiny:size=8,layers=5"
    found, whole = tasks.network_tasks(text), tasks.whole_network_tasks(text)
    assert {task.key: task.networks[text] for task in found} == {task.key: task.networks[text] for task in whole}


def test_network_options():
    assert parse_network("bert_large:layers=2,size=32") == ("bert_large", 1, 32, 2)
    with pytest.raises(InputError, match="the layers of resnet18 differ"):
        parse_network("resnet18:layers=2")
    assert parse_network("resnet18:batch=4,size=128") == ("resnet18", 4, 128, None)
    with pytest.raises(InputError, match="did you mean 'resnet18'"):
        parse_network("resnet-18")
    with pytest.raises(InputError, match="'batch=0' is no option"):
        parse_network("resnet18:batch=0")


def test_unknown_devices_are_named():
    with pytest.raises(InputError, match="known are x86-64-v2"):
        Plan(operators=("matmul",), devices=("pentium",))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "tasks", "calls", "millions"),
    [("shufflenet_v2:size=64", 26, 76, 292 * (64 / 224) ** 2)],  # 146 million multiply-adds at 224
)
def test_networks_become_tasks(network: str, tasks: int, calls: int, millions: float):
    worker = Worker(work.build)
    try:
        found = worker.call({"do": "tasks", "network": network}, 600)
    finally:
        worker.close()
    assert len({task.key for task in found}) == len(found) == tasks
    assert sum(task.networks[network] for task in found) == calls
    flops = sum(task.flops * task.networks[network] for task in found)
    assert flops / 1e6 == pytest.approx(millions, rel=0.15)
