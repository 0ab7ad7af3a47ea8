"""Schedules that a dataset holds, measured on other devices: the same tasks and schedules, nothing twice."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.errors import InputError
from tests.tracegen.tensor.conftest import OPERATORS
from tracegen.tensor.dataset import Dataset, DatasetWriter, Device, Outcome, Task
from tracegen.tensor.replay import read_replay

if sys.platform != "linux":
    pytest.skip("processes are pinned as Linux does it", allow_module_level=True)


pytestmark = pytest.mark.slow  # TVM compiles and measures


def write(path: Path) -> Path:
    """Six tasks of 0, 10, … FLOPs with four schedules each, but the first (one) and the last, of a log."""
    with DatasetWriter(path, provenance={}) as writer:
        device = writer.device(Device("cpu", {"cores": 2}))
        for number in range(6):
            networks = {"operator:matmul:8x8x8": 1} if number % 2 else {"resnet18": 2, "operator:matmul:8x8x8": 1}
            networks = {} if number == 5 else networks
            task = writer.task(Task(f"{number:016x}", f"t{number}", "dense", None, 10.0 * number, networks))
            for at in range(1 if number == 0 else 4):
                schedule = writer.schedule(task, f"[{number},{at}]", kind="metaschedule", origin="replay-trace")
                failed = at == 0 and number == 2
                writer.record(schedule, device, 1.0, outcome=Outcome.TIMEOUT if failed else Outcome.OK)
        writer.schedule(task, "[[]]", kind="ansor", origin="log")
    return path


def taken(path: Path, **wanted) -> dict[int, list[str]]:
    found = read_replay(path, **wanted).candidates
    return {int(key, 16): [candidate.trace for candidate in candidates] for key, candidates in found.items()}


def test_all_that_ran_and_can_be_made_again(tmp_path: Path):
    path = write(tmp_path / "d.tensor.h5")
    assert taken(path) == {
        0: ["[0,0]"],
        1: [f"[1,{k}]" for k in range(4)],
        2: [f"[2,{k}]" for k in (1, 2, 3)],
        3: [f"[3,{k}]" for k in range(4)],
        4: [f"[4,{k}]" for k in range(4)],
    }
    replay = read_replay(path)
    assert replay.left_out == (
        "1 of its 6 tasks name no network or operator to make them again from",
        "1 of its 22 schedules are no traces of MetaSchedule",
    )
    assert (replay.networks, replay.operators) == (("resnet18",), ("matmul:8x8x8",))


def test_some_tasks_by_size_with_some_of_their_schedules(tmp_path: Path):
    path = write(tmp_path / "d.tensor.h5")
    assert taken(path, tasks=2, schedules=2) == {2: ["[2,1]", "[2,3]"], 4: ["[4,1]", "[4,3]"]}
    assert taken(path, tasks=9, schedules=1, max_flops=25.0) == {0: ["[0,0]"], 1: ["[1,2]"], 2: ["[2,2]"]}
    assert read_replay(path, tasks=1, schedules=1).networks == ("resnet18",)  # needs no operator


def test_a_log_cannot_be_replayed(tmp_path: Path):
    with DatasetWriter(tmp_path / "log.tensor.h5", provenance={}) as writer:
        writer.schedule(writer.task(Task("k", "k")), [["SP"]], kind="ansor", origin="log")
    with pytest.raises(InputError, match=r"no schedule can be replayed: 1 of its 1 tasks name no network .*; 1 of its"):
        read_replay(tmp_path / "log.tensor.h5")


# --- with TVM ---


@pytest.fixture
def run(capfd):
    """`perfvec tensor …` as (exit status, what it wrote to stderr)."""
    from analysis.cli.main import main

    def run(*arguments: str | Path) -> tuple[int, str]:
        status: object = 0
        try:
            main(["tensor", *map(str, arguments)])
        except SystemExit as end:
            status = end.code or 0
        return int(str(status)), capfd.readouterr().err

    return run


def test_replayed_schedules_join_the_dataset(collected: Path, tmp_path: Path, run):
    second, both = tmp_path / "second.tensor.h5", tmp_path / "both.tensor.h5"
    command = [
        "collect",
        "--schedules-of",
        collected,
        "--schedules",
        "2",
        "--device",
        "x86-64-v2@other",
        "--again",
        "0.5",
        "--budget",
        "0.02",
        "--no-features",
        "-o",
        second,
    ]
    for _ in range(2):  # the second call finds all done
        assert run(*command) == (0, f"{second}: 4 records\n")
    with Dataset(second) as data:
        assert data.devices["name"].tolist() == ["x86-64-v2@other"]
        assert data.devices["parameters"][0]["vector_bytes"] == 16
        assert data.provenance["compared"]["records"] == 4 and data.provenance["again"]["pairs"] == 2
        session = data.provenance["sessions"][0]
        with Dataset(collected) as first:
            assert session["replayed"] == {"file": collected.name, "digest": first.digest}
            assert set(data.steps()) < set(first.steps())
            count = first.schedule_count
    assert run("merge", collected, second, "-o", both)[0] == 0
    with Dataset(both) as data:
        assert data.schedule_count == count and len(data.tasks) == 2  # no schedule is new
        devices = data.records().groupby("schedule")["device"].apply(sorted)
        assert devices.tolist().count([0, 1]) == 4
        assert (data.table()["seconds"] < 0.1).all()


def test_on_machines_that_are_simulated(collected: Path, tmp_path: Path, run):
    from tracegen.tensor.simulated import require_simulated

    try:
        require_simulated("x86-64")
    except InputError as error:
        pytest.skip(str(error))
    output = tmp_path / "simulated.tensor.h5"
    command = ["collect", "--schedules-of", collected, "--tasks", "1", "--schedules", "2", "--max-instructions"]
    assert run(*command, "1000000", "--device", "sim:zen4", "--device", "sim:cortex-a53", "-o", output)[0] == 0
    with Dataset(output) as data:
        assert data.devices["name"].tolist() == ["sim:zen4", "sim:cortex-a53"]
        assert len(data.table()) == 4 and data.schedule_count == 2
        assert (data.features("ast").length > 0).all()


def test_a_task_that_its_network_no_longer_gives_is_left_out(collected: Path, tmp_path: Path, run):
    other = tmp_path / "other.tensor.h5"
    with Dataset(collected) as data, DatasetWriter(other, provenance={}) as writer:
        for index, row in enumerate(data.tasks.to_dict("records")):
            key = row["key"] if index == 0 else "0" * 16  # as of another version of TVM
            task = writer.task(Task(**{**row, "key": key}))
            for schedule in range(data.schedule_count):
                if data.task_of[schedule] == index:
                    writer.schedule(task, data.steps([schedule])[0], kind="metaschedule", origin="replay-trace")
    output = tmp_path / "out.tensor.h5"
    command = ["collect", "--schedules-of", other, "--schedules", "1", "--device", "x86-64-v2", "--budget", "0.02"]
    status, text = run(*command, "--no-features", "-o", output)
    assert status == 0
    assert "other.tensor.h5: 1 tasks are not what their networks give here (softmax_8x8); left out\n" in text
    with Dataset(output) as data:
        assert data.tasks["name"].tolist() == ["matmul_16x16x16"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "3"], "name it with --schedules-of"),
        (["--schedules-of", "tiny.tensor.h5", "--operators", "matmul"], "leave --network and --operators out"),
        (["--schedules-of", "missing.tensor.h5"], "missing.tensor.h5"),
        (["--operators", "matmul", "--device", "x86-64-v2@a b"], "'a b' is no name of a computer"),
        (["--operators", "matmul", "--device", "x86-65@a"], "no device 'x86-65@a'"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(collected: Path, monkeypatch, run, arguments: list[str], message: str):
    monkeypatch.chdir(collected.parent)
    status, text = run("collect", *arguments, "-o", "x.tensor.h5")
    assert status == 2 and message in text and len(text.splitlines()) == 1


def test_another_computer_needs_a_name_of_its_own(collected: Path, tmp_path: Path):
    from tracegen.tensor.collect import collect, work_file
    from tracegen.tensor.plan import Plan

    output = tmp_path / "moved.tensor.h5"
    place = work_file(output)
    place.parent.mkdir()
    lines = work_file(collected).read_text().splitlines()
    changed = [json.loads(line) for line in lines]
    for document in changed:
        if "parameters" in document:
            document["parameters"]["l2_kib"] = 7
    place.write_text("".join(json.dumps(document) + "\n" for document in changed))
    plan = Plan(operators=OPERATORS, devices=("x86-64-v2",), schedules=4, evolutionary=0, again=0)
    with pytest.raises(
        InputError, match=r"x86-64-v2 was another computer .*l2_kib 7, here .* call this one x86-64-v2@"
    ):
        collect(plan, output, progress=False)


def test_without_avx512_its_device_is_refused(monkeypatch):
    from tracegen.tensor.build import require_device

    monkeypatch.setattr(Path, "read_text", lambda _: "processor : 0\nflags\t\t: fpu sse4_2 avx2 fma avx512f\n")
    require_device("x86-64-v3")
    for name in ("x86-64-v4", "x86-64-v4@zen3"):
        with pytest.raises(InputError) as refused:
            require_device(name)
        assert str(refused.value) == (
            f"{name}: this machine's processor lacks avx512vl, avx512bw; leave the device out"
        )
