"""Tasks and schedules that simulated machines get; and the machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.errors import InputError
from tracegen.tensor.candidates import Candidate
from tracegen.tensor.journal import Journal, Record
from tracegen.tensor.simulated import isa_of, require_simulated, simulated_devices
from tracegen.tensor.subset import spread, subset
from tracegen.tensor.tasks import Task
from uarch.machine_files import load_machine
from uarch.space import sample

SIM = ("sim:a", "sim:b")


def test_even_distances():
    assert spread("abcdef", 3) == ["b", "d", "f"]
    assert spread("abcdef", 1) == ["d"]
    assert spread("abc", 7) == ["a", "b", "c"]
    assert spread("abc", 0) == []


@pytest.fixture
def journal(tmp_path: Path):
    """Five tasks of 10, 20, … FLOPs with four schedules each (the first with one); each one's first failed on a CPU."""
    with Journal(tmp_path / "journal.jsonl") as journal:
        tasks = [Task(str(number), f"t{number}", (), 10.0 * (number + 1), "") for number in range(5)]
        journal.network("n", tasks)
        for task in tasks:
            for at in range(1 if task.key == "0" else 4):
                number = journal.schedule(task.key, Candidate(f"{task.key}{at}", "replay-trace"))
                failed = at == 0 and task.key != "0"
                journal.record(Record(number, "cpu", None if failed else 1.0, None, 1, "timeout" if failed else ""))
        yield journal


def chosen(journal, tasks=None, schedules=None, flops=1e9):
    found = subset(
        journal,
        list(journal.tasks.values()),
        tasks_wanted=tasks,
        schedules_wanted=schedules,
        devices=SIM,
        max_flops=flops,
    )
    return {key: [journal.schedules[number][1].trace for number in numbers] for key, numbers in found.items()}


def test_all_by_default_and_those_that_ran_where_some_are_wanted(journal):
    assert chosen(journal) == {"0": ["00"], **{key: [f"{key}{at}" for at in range(4)] for key in "1234"}}
    assert chosen(journal, schedules=9) == {"0": ["00"], **{key: [f"{key}{at}" for at in (1, 2, 3)] for key in "1234"}}


def test_some_tasks_with_enough_schedules_by_flops(journal):
    assert chosen(journal, tasks=2, schedules=2) == {"2": ["21", "23"], "4": ["41", "43"]}
    assert set(chosen(journal, tasks=2, schedules=2, flops=35)) == {"1", "2"}
    assert set(chosen(journal, tasks=9, schedules=2, flops=35)) == {"0", "1", "2"}


def test_what_was_begun_goes_on(journal):
    begun = journal.of_task["3"][1]
    journal.record(Record(begun, "sim:a", 1.0, None, 1))
    assert chosen(journal, tasks=1, schedules=1) == {"3": ["31"]}
    assert chosen(journal, tasks=2, schedules=2) == {"3": ["31", "33"], "2": ["21", "23"]}


def test_what_failed_in_simulation_is_not_replaced(journal):
    for device in SIM:
        journal.record(Record(journal.of_task["3"][1], device, None, None, 0, "too long"))
    assert chosen(journal, tasks=1, schedules=1) == {"3": ["31"]}


def test_a_device_stays_the_machine_that_it_was(journal):
    for _ in range(2):
        journal.machine("sim:a", {"name": "a", "frequency_ghz": 2.0}, "embedded 5")
    with pytest.raises(InputError, match="sim:a was another machine"):
        journal.machine("sim:a", {"name": "a", "frequency_ghz": 3.0}, "embedded 5")
    with pytest.raises(InputError, match="sim:a was timed by embedded 5 when it was first used, this is embedded 6"):
        journal.machine("sim:a", {"name": "a", "frequency_ghz": 2.0}, "embedded 6")
    with Journal(journal.path, writable=False) as read:
        assert read.machines == {"sim:a": {"name": "a", "frequency_ghz": 2.0}}
        assert read.simulators == {"sim:a": "embedded 5"}


@pytest.fixture
def tools():
    try:
        require_simulated("x86-64")
    except InputError as error:
        pytest.skip(str(error))


def test_machines_of_a_design_space(tools):
    found = simulated_devices("sim:embedded:3", "x86-64")
    machines = sample(3, space="embedded")
    assert found == {f"sim:{machine.name}": machine for machine in machines}
    assert simulated_devices("sim:zen4", "x86-64") == {"sim:zen4": load_machine("zen4")}


def test_unknown_machines_and_isas_are_named(tools):
    with pytest.raises(InputError, match="neither a preset"):
        simulated_devices("sim:pentium", "x86-64")
    with pytest.raises(InputError, match="unknown design space vast"):
        simulated_devices("sim:vast:3", "x86-64")
    with pytest.raises(InputError, match="known are x86-64, aarch64"):
        simulated_devices("sim:zen4", "sparc")


def test_the_isa_is_in_the_name():
    assert isa_of("sim:zen4") == "x86-64"
    assert isa_of("sim:cortex-a72@aarch64") == "aarch64"
