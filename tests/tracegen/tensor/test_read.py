"""Logs and databases to datasets: real logs whole, every other line counted with its place, never a number."""

from __future__ import annotations

import gzip
import json
import math
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from support.errors import InputError
from tracegen.tensor import ansor, database, lines
from tracegen.tensor.ansor import device_name, read_log, task_of
from tracegen.tensor.dataset import Dataset, Outcome
from tracegen.tensor.lines import Problem, RecordError, document
from tracegen.tensor.read import read
from tracegen.tensor.tenset import find

LOGS = Path(__file__).parent / "data" / "ansor-logs"  # of Apache TVM's and Ansor's authors

KEY = json.dumps(["d7b65649a4dd54becea0a52aabbc5af5", 1, 1000, 1, 1000])
TARGET = "llvm -keys=cpu -link-params=0 -mcpu=core-avx2"
STEPS = [["SP", 3, 1, 1000, [50], 1], ["RE", 3, [0, 2, 1]], ["AN", 1, 0, 3], ["PR", 1, 0, "auto_unroll_max_step$16"]]


def line(steps=STEPS, costs=(1e-5, 3e-5, 2e-5), error=0, key=KEY, target=TARGET, hardware=(8, 64, 64, 0, 0, 0, 0, 0)):
    return json.dumps(
        {
            "i": [[key, target, list(hardware), "", 2], [[], steps]],
            "r": [list(costs), error, 0.2, 1606960872],
            "v": "v0.5",
        }
    )


def write(path, *texts):
    path.write_text("# a comment\n\n" + "\n".join(texts) + "\n")
    return path


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.json")), ids=lambda path: path.stem)
def test_every_line_of_the_real_logs_is_a_record(path):
    found = [record for _, record in read_log(path)]
    wanted = sum(not text.startswith("#") and text.strip() != "" for text in path.read_text().splitlines())
    assert len(found) == wanted > 0
    assert all(isinstance(record, ansor.Record) and record.outcome == Outcome.OK for record in found)
    assert all(0 < cost < 1 for record in found for cost in record.costs)


def test_the_real_logs_as_a_dataset(tmp_path):
    tally = read([LOGS], tmp_path / "d.tensor.h5", progress=False)
    assert (tally.records, tally.schedules, tally.tasks, tally.problems) == (53, 53, 50, {})
    with Dataset(tmp_path / "d.tensor.h5") as data:
        table = data.table()
        flops = data.tasks["flops"].to_numpy()[table["task"]]
        known = ~np.isnan(flops)
        assert known.sum() >= 30
        rate = flops[known] / table["seconds"][known] / 1e9
        assert rate.min() > 1 and rate.max() < 16_000  # GFLOP/s of a CPU, and of a GPU of 2020
        avx2 = data.devices[data.devices["name"] == "core-avx2"].iloc[0]["parameters"]
        assert avx2 == {"kind": "cpu", "cores": 8, "vector_bytes": 64, "cache_line_bytes": 64}
        assert (data.features("primitives").length > 0).all()
        first = next(json.loads(text) for text in (LOGS / "matmul.json").read_text().splitlines() if text[0] == "{")
        assert first["i"][1][1] in [json.loads(steps) for steps in data.steps()]


def test_times_are_the_median_and_failures_have_none(tmp_path):
    log = write(
        tmp_path / "a.json",
        line(),
        line([["CI", 1]], (1e10,), 1),
        line([["CI", 2]], (1e10,), 7),
        line([["CI", 3]], (1e10,), 0),
        line([["CI", 4]], (1e10,), 5),
    )
    tally = read([log], tmp_path / "d.tensor.h5", progress=False)
    with Dataset(tmp_path / "d.tensor.h5") as data:
        records = data.records()
        assert records["seconds"][0] == 2e-5 and records["repeats"][0] == 3
        assert records["spread"][0] == pytest.approx(0.5)
        assert records["error"].tolist() == [
            Outcome.OK,
            Outcome.BUILD_FAILED,
            Outcome.TIMEOUT,
            Outcome.UNKNOWN,
            Outcome.INVALID,
        ]
        assert records["seconds"][1:].isna().all()
    assert [note.split(":")[0] for note in tally.notes()] == [
        "1 measurements failed (build failed)",
        "1 measurements failed (timeout)",
        "1 measurements failed (invalid)",
        "1 measurements failed (unknown)",
    ]


BAD = [
    ("{", "no JSON"),
    ("[1, 2]", "no record"),
    ('{"i": 1, "r": 2}', "no record"),
    (line().replace("1e-05", "NaN"), "no JSON"),
    (line([["XX", 1]]), "step XX"),
    (line([["SP", 1]]), "step SP"),
    (line(key="[1]"), "workload key"),
    (line(key="{"), "workload key"),
    (line(costs=(-1.0,)), "costs"),
    (line(costs=()), "costs"),
    (line(costs=("1",)), "costs"),
    (line(costs=(1e-3, True)), "costs"),
    (line(error=99), "error number"),
    (line(hardware=(1, 2)), "no record"),
    ("[" * 100_000, "no JSON"),
    ("\x00\xff", "no JSON"),
]


@pytest.mark.parametrize(("text", "reason"), BAD)
def test_a_bad_line_is_counted_with_its_place_or_refused(tmp_path, text, reason):
    log = write(tmp_path / "a.json", line(), text, line([["CI", 1]]))
    tally = read([log], tmp_path / "d.tensor.h5", progress=False)
    assert tally.records == 2 and tally.problems == {reason: 1}
    (note,) = tally.notes()
    assert note.startswith(f"1 line skipped ({reason}); the first: {log}:4: ") and "\n" not in note and len(note) < 400
    with pytest.raises(InputError, match=f"{log}:4: "):
        read([log], tmp_path / "s.tensor.h5", strict=True, progress=False)
    assert not (tmp_path / "s.tensor.h5").exists()


def test_a_line_without_end_is_skipped_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE", 2000)
    monkeypatch.setattr(lines.read_lines, "__defaults__", (2000,))
    log = write(tmp_path / "a.json", line(), '{"i": "' + "x" * 9000 + '"}', line([["CI", 1]]))
    found = list(read_log(log))
    assert [number for number, _ in found] == [3, 4, 5]
    assert isinstance(found[1][1], Problem) and found[1][1].reason == "too long"


def test_gzip_and_its_damage(tmp_path):
    packed = gzip.compress(("\n".join([line()] + [line([["CI", k]]) for k in range(300)]) + "\n").encode())
    (tmp_path / "whole.json.gz").write_bytes(packed)
    assert read([tmp_path / "whole.json.gz"], tmp_path / "d.tensor.h5", progress=False).records == 301
    (tmp_path / "cut.json.gz").write_bytes(packed[:-40])
    tally = read([tmp_path / "cut.json.gz"], tmp_path / "e.tensor.h5", progress=False)
    assert 0 < tally.records < 301 and tally.problems == {"unreadable": 1}


def test_nothing_to_read_is_one_line(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read([tmp_path / "none.json"], tmp_path / "d.tensor.h5", progress=False)
    with pytest.raises(InputError, match=r"no record was found; .*no record"):
        read([write(tmp_path / "a.json", "{}")], tmp_path / "d.tensor.h5", progress=False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no log"):
        read([tmp_path / "empty"], tmp_path / "d.tensor.h5", progress=False)


class Trap:
    """Unpickling this creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_tensets_folder_is_read_without_its_pickles(tmp_path):
    root = tmp_path / "dataset"
    for device in ("e5-2673", "t4"):
        folder = root / "measure_records" / device
        folder.mkdir(parents=True)
        target = TARGET if device == "e5-2673" else "cuda -keys=cuda,gpu -max_num_threads=1024 -thread_warp_size=32"
        write(folder / "([d7b6,1,1000],llvm).json", line(target=target), line([["CI", 1]], target=target))
    (root / "network_info").mkdir()
    sprung = tmp_path / "sprung"
    (root / "network_info" / "all_tasks.pkl").write_bytes(pickle.dumps(Trap(sprung)))
    (root / "network_info" / "not-a-log.json").write_text("{}")
    tally = read([root], tmp_path / "d.tensor.h5", progress=False)
    assert not sprung.exists()
    assert (tally.records, tally.schedules, tally.pickles, tally.problems) == (4, 2, 1, {})
    assert "1 pickles not read" in tally.notes()[0]
    with Dataset(tmp_path / "d.tensor.h5") as data:
        assert data.devices["name"].tolist() == ["e5-2673", "t4"]
        parameters = data.devices["parameters"]
        assert parameters[0]["cores"] == 8 and parameters[0]["l2_kib"] == 256  # of the log, and of the device's file
        assert parameters[1]["kind"] == "gpu" and parameters[1]["lanes_per_core"] == 64
    with pytest.raises(InputError, match="a pickle; it is not read"):
        find([root / "network_info" / "all_tasks.pkl"])


@pytest.mark.parametrize(
    ("key", "operator", "flops"),
    [
        ([1, 512, 1000, 512, 1000, 1, 1000], "dense", 2 * 512 * 1000),
        ([[16, 64], [32, 64], [16, 32]], "dense", 2 * 16 * 64 * 32),
        ([1, 7, 7, 512, 3, 3, 512, 512, 1, 1, 1, 512, 1, 7, 7, 512], "conv", 2 * 49 * 512 * 9 * 512),
        ([[1, 56, 56, 64], [1, 1, 64, 128], [1, 28, 28, 128]], "conv", 2 * 28 * 28 * 128 * 64),
        ([[1, 56, 56, 64], [3, 3, 64, 1], [1, 56, 56, 64]], "depthwise_conv", 2 * 56 * 56 * 64 * 9),
        (
            [1, 14, 14, 256, 6, 6, 256, 256, 1, 1, 1, 256, 1, 14, 14, 256],
            "other",
            None,
        ),  # Winograd's transformed weights
        ([1, 1000, 1, 1000], "other", None),
        ([], "other", None),
        (["float32"], "other", None),
    ],
)
def test_operator_and_flops_of_a_key_only_where_shapes_tell_them(key, operator, flops):
    task = task_of(json.dumps(["d7b65649a4dd54becea0a52aabbc5af5", *key]))
    assert task.operator == operator
    assert math.isnan(task.flops) if flops is None else task.flops == flops


def test_a_named_workload_names_its_operator():
    assert task_of('["matmul_add", 1024, 1024, 1024, "float32"]').operator == "dense"
    assert task_of('["conv2d_layer", 1, 7]').operator == "conv"
    assert task_of('["dwt"]').operator == "other"


def test_the_device_of_a_target():
    assert device_name("llvm -keys=cpu -mcpu=core-avx2 -model=e5-2673") == "e5-2673"
    assert device_name(TARGET) == "core-avx2"
    assert device_name("cuda -model=unknown") == "cuda"


def test_mutations_of_real_lines_are_records_or_problems():
    """Bytes changed, cut out or doubled: a finite positive time, a failure, or one line that says why."""
    texts = [text for path in LOGS.glob("*.json") for text in path.read_bytes().splitlines() if text[:1] == b"{"]
    numbers = random.Random(5)
    read_whole = 0
    for _ in range(1000):
        data = bytearray(numbers.choice(texts))
        for _ in range(numbers.choice((1, 1, 2, 8))):
            at, kind = numbers.randrange(len(data)), numbers.randrange(4)
            if kind == 0:
                data[at] = numbers.randrange(256)
            elif kind == 1:
                data[at] = numbers.choice(b'[]{}",:-0123456789eE. ')
            elif kind == 2:
                del data[at : at + numbers.choice((1, 3, 40))]
            else:
                data[at:at] = data[at : at + numbers.choice((1, 9, 90))]
        try:
            record = ansor.parse(bytes(data))
        except RecordError as error:
            assert "\n" not in str(error) and error.reason
            continue
        read_whole += 1
        assert (record.outcome == Outcome.OK) == bool(record.costs)
        assert all(math.isfinite(cost) and cost > 0 for cost in record.costs)
        task_of(record.workload_key)
    assert 0 < read_whole < 1000


# --- MetaSchedule ---

TRACE = [
    [
        ["GetSBlock", [], ["matmul", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["SamplePerfectTile", ["l1"], [2, 64], ["v3", "v4"]],
        ["Split", ["l1", "v3", "v4"], [True, False], ["l5", "l6"]],
    ],
    [[2, [8, 4]]],
]
X86 = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2, "keys": ["cpu"]}
SHAPE = [["TENSOR", "float32", [32, 32]], ["TENSOR", "float32", [32, 32]]]


def make_database(folder, *records):
    folder.mkdir()
    (folder / database.WORKLOADS).write_text(json.dumps(["123", "e30="]) + "\n" + json.dumps(["456", "e30="]) + "\n")
    (folder / database.RECORDS).write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def test_a_database_is_read_without_tvm(tmp_path):
    folder = make_database(
        tmp_path / "db",
        [0, [TRACE, [1e-3, 3e-3], X86, SHAPE]],
        [1, [TRACE, [1e10], X86, SHAPE]],
        [0, [TRACE, [2e-3], {**X86, "mcpu": "x86-64-v3"}, SHAPE]],
    )
    tally = read([folder], tmp_path / "d.tensor.h5", progress=False)
    assert (tally.records, tally.schedules, tally.tasks) == (3, 2, 2)
    with Dataset(tmp_path / "d.tensor.h5") as data:
        assert data.tasks["key"].tolist() == [f"{123:016x}", f"{456:016x}"]
        assert data.tasks["shape"][0] == [["float32", [32, 32]]] * 2
        assert data.records()["error"].tolist() == [Outcome.OK, Outcome.UNKNOWN, Outcome.OK]
        assert data.records()["seconds"][0] == 2e-3
        assert data.devices["name"].tolist() == ["znver4", "x86-64-v3"]
        assert data.devices["parameters"][1] == {"kind": "cpu", "cores": 2}  # this computer's caches are not its
        assert json.loads(data.steps([0])[0]) == TRACE


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ([7, [TRACE, [1e-3], X86, SHAPE]], "workload"),
        ([0, [TRACE, [0.0], X86, SHAPE]], "run_secs"),
        ([0, [TRACE, [1e-3], {"mcpu": "x"}, SHAPE]], "target"),
        ([0, [TRACE, [1e-3], X86, [["TENSOR", "float32", [-1]]]]], "args_info"),
        ([0, [[[["Teleport", [], [], []]], []], [1e-3], X86, SHAPE]], "instruction Teleport"),
        ([0, [TRACE, [1e-3], X86]], "no record"),
    ],
)
def test_a_bad_record_of_a_database_is_counted(tmp_path, record, reason):
    folder = make_database(tmp_path / "db", [0, [TRACE, [1e-3], X86, SHAPE]], record)
    tally = read([folder / database.RECORDS], tmp_path / "d.tensor.h5", progress=False)
    assert tally.records == 1 and tally.problems == {reason: 1}
    assert f"{database.RECORDS}:2: " in tally.notes()[0]


def test_a_damaged_workload_refuses_the_database(tmp_path):
    folder = make_database(tmp_path / "db")
    (folder / database.WORKLOADS).write_text('["123"]\n')
    with pytest.raises(InputError, match=f"{database.WORKLOADS}:1: no workload"):
        read([folder], tmp_path / "d.tensor.h5", progress=False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b'{"i": ["\\u0000"]}', "a text has a NUL"),
        (b'{"a\\u0000": 1}', "a text has a NUL"),
        (b'["\\ud800"]', "a text has half a character"),
        (b"[1e400]", "1e400 is beyond a float"),
        (b"[NaN]", "NaN is no number of JSON"),
    ],
)
def test_what_no_file_can_hold_is_refused(text, told):
    for given in (text, text.decode()):
        with pytest.raises(RecordError, match=told):
            document(given)
    assert document(b'["\\u00e9\\ud83d\\ude00", 1e300]') == ["é😀", 1e300]
