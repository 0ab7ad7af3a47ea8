"""The loop: a killed run continues bit for bit, several processes are one, what is held out does not train."""

import csv
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from perfvec.evaluate import evaluate, summary
from perfvec.model import load_model
from perfvec.training import data as training_data
from perfvec.training import encoder_training, objective, optimizer
from perfvec.training import train as training
from perfvec.training.data import Labels, Rows, Shard, batch, prepare
from perfvec.training.metrics import require_tensorboard
from perfvec.training.ranks import device_of
from perfvec.training.recipe import Recipe, parse_numbers
from perfvec.training.split import Division, Split, fold_of, folds
from perfvec.training.train import fit, validation_error
from support.errors import InputError
from support.seal import seal
from tests.command import perfvec
from tests.conftest import Data
from tests.latency_files import as_version_1
from tracegen.features import get_schema

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BATCH_SIZE, STEPS = 4, 24
RECIPE = Recipe(
    width=8,
    layers=1,
    batch_size=BATCH_SIZE,
    instructions=BATCH_SIZE * 288 * STEPS,
    ema_decay=0.9,
    validate_every=5,
    patience=3,
    seed=4,
)
VALIDATING = Split(validate_programs=("qsort",))


def divide(traces, latencies, work, split=VALIDATING) -> Division:
    return split.divide(prepare(Path(traces), Path(latencies), get_schema("default"), Path(work), progress=False))


@pytest.fixture(scope="module")
def labels(data: Data, tmp_path_factory) -> Labels:
    work = tmp_path_factory.mktemp("work")
    return prepare(data.traces, data.latencies, get_schema("default"), work, progress=False)


def run(division, folder: Path, recipe: Recipe = RECIPE):
    return fit(
        division,
        get_schema("default"),
        recipe,
        folder / "checkpoint.pt",
        metrics=folder / "metrics.csv",
        progress=False,
    )


def child(traces, latencies, folder) -> None:
    """`run` in a process of its own that writes a checkpoint after every step."""
    training.CHECKPOINT_SECONDS = -1.0
    run(divide(traces, latencies, Path(folder) / "work"), Path(folder))
    (Path(folder) / "ended").touch()


def rows(path: Path) -> list[dict[str, str]]:
    """The metrics, without what depends on the clock."""
    with path.open() as file:
        found = list(csv.DictReader(file))
    for row in found:
        del row["instructions_per_second"], row["instructions_per_processor_second"]
    return found


def test_a_run_killed_while_it_trains_continues_bit_for_bit(data, labels, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    expected = run(VALIDATING.divide(labels), whole).state_dict()
    command = [
        sys.executable,
        "-c",
        "import sys; from tests.perfvec.test_training_loop import child; child(*sys.argv[1:])",
        str(data.traces),
        str(data.latencies),
        str(cut),
    ]
    process = subprocess.Popen(command, cwd=ROOT)
    deadline = time.monotonic() + 120
    while not (cut / "checkpoint.pt").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (cut / "ended").exists()
    step = torch.load(cut / "checkpoint.pt", weights_only=True)["step"]
    assert 1 <= step < STEPS
    weights = run(divide(data.traces, data.latencies, cut / "work"), cut).state_dict()
    for name, value in expected.items():
        assert torch.equal(weights[name], value), name
    assert rows(cut / "metrics.csv") == rows(whole / "metrics.csv")


@pytest.mark.parametrize("size", [0, 100, -100])
def test_a_truncated_checkpoint_is_told_and_training_starts_anew(labels, tmp_path, capsys, size):
    recipe = replace(RECIPE, instructions=BATCH_SIZE * 288 * 2)
    expected = run(VALIDATING.divide(labels), tmp_path, recipe).state_dict()
    checkpoint = tmp_path / "checkpoint.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:size])
    again = run(VALIDATING.divide(labels), tmp_path, recipe).state_dict()
    said = capsys.readouterr().err
    assert "checkpoint.pt: the checkpoint cannot be read" in said
    assert said.count("\n") == 1
    assert all(torch.equal(again[name], value) for name, value in expected.items())


def test_a_checkpoint_of_another_recipe_is_not_continued(labels, tmp_path, capsys):
    run(VALIDATING.divide(labels), tmp_path, replace(RECIPE, instructions=BATCH_SIZE * 288))
    run(VALIDATING.divide(labels), tmp_path, replace(RECIPE, instructions=BATCH_SIZE * 288, seed=5))
    assert "of another recipe or other data" in capsys.readouterr().err


STEADY = """
import sys
from analysis.cli.main import main
from perfvec.training import optimizer, train
optimizer.EPSILON = float(sys.argv.pop(1))
train.native_bf16 = lambda device=None: False
main()
"""


def test_two_processes_train_as_one(data, labels, tmp_path, monkeypatch):
    """The loss curve under torchrun (gloo) is that of one process, and the first process writes the model.

    Adam trains: Muon makes the smallest directions of a gradient, which are its rounding, as large as the others. So
    does Adam with single weights, unless its epsilon is larger than that; in float32, as bfloat16 rounds half a batch's
    gradient otherwise than a whole one's.
    """
    epsilon = 1e-3
    monkeypatch.setattr(optimizer, "EPSILON", epsilon)
    monkeypatch.setattr(training, "native_bf16", lambda device=None: False)
    split = Split(validate_fraction=0.5)
    recipe = replace(RECIPE, instructions=BATCH_SIZE * 288 * 8, patience=0, optimizer="adam")
    run(split.divide(labels), tmp_path, recipe)
    output, script = tmp_path / "m.safetensors", tmp_path / "steady.py"
    script.write_text(STEADY)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(script),
        str(epsilon),
        *["train", "--traces", str(data.traces), "--latencies", str(data.latencies), "-o", str(output)],
        *f"--device cpu --width 8 --layers 1 --batch-size {BATCH_SIZE} --instructions {recipe.instructions}".split(),
        *"--ema-decay 0.9 --validate-every 5 --validate-fraction 0.5 --seed 4 --optimizer adam --no-encoder".split(),
    ]
    told = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=told)
    alone, together = rows(tmp_path / "metrics.csv"), rows(tmp_path / "m.safetensors.metrics.csv")
    assert len(alone) == len(together) == 8
    for name in ("loss", "validation_error"):
        one, two = ([float(row[name] or 0) for row in curve] for curve in (alone, together))
        np.testing.assert_allclose(two, one, rtol=1e-5)
    assert load_model(output).recipe["validation_programs"] == list(split.divide(labels).validation.programs)


def test_metrics_have_every_step_and_the_validations(labels, tmp_path):
    run(VALIDATING.divide(labels), tmp_path, replace(RECIPE, patience=0))
    found = rows(tmp_path / "metrics.csv")
    assert [int(row["step"]) for row in found] == list(range(1, STEPS + 1))
    assert [int(row["step"]) for row in found if row["validation_error"]] == [5, 10, 15, 20, 24]
    assert int(found[-1]["instructions"]) == RECIPE.instructions


def test_the_best_validated_weights_are_kept(labels, tmp_path):
    """A learning rate that is far too large makes later weights worse than earlier ones."""
    division = VALIDATING.divide(labels)
    recipe = replace(RECIPE, learning_rate=0.5, patience=0, ema_decay=0.0, validate_every=4)
    foundation = run(division, tmp_path, recipe)
    errors = [float(row["validation_error"]) for row in rows(tmp_path / "metrics.csv") if row["validation_error"]]
    ones = torch.ones(len(division.validation.machines))
    bf16 = training.native_bf16()
    assert validation_error(foundation, ones, division.validation, bf16=bf16) == pytest.approx(min(errors), rel=1e-3)
    assert min(errors) < max(errors)


def test_training_stops_where_validation_does_not_improve(labels, tmp_path):
    run(
        VALIDATING.divide(labels),
        tmp_path,
        replace(RECIPE, learning_rate=1.0, ema_decay=0.0, patience=1, validate_every=2),
    )
    found = rows(tmp_path / "metrics.csv")
    errors = [float(row["validation_error"]) for row in found if row["validation_error"]]
    assert len(found) < STEPS
    assert errors[-1] >= min(errors[:-1])
    assert len(found) == 2 * len(errors)  # at the first that was no better


def test_the_average_of_the_weights_by_hand(labels, tmp_path, monkeypatch):
    """Each step moves the average by 1 − decay, where decay is (1 + step) / (10 + step) at first."""
    states = []
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(
        training,
        "save_checkpoint",
        lambda path, identity, state: states.append((clone(state.weights), clone(state.ema))),
    )
    division = replace(VALIDATING.divide(labels), validation=None)
    saved = run(division, tmp_path, replace(RECIPE, instructions=BATCH_SIZE * 288 * 2))
    (_, before), (weights, after) = states[:2]
    for name in ("head.weight", "architecture.lstm.weight_hh_l0"):
        torch.testing.assert_close(after[name], 2 / 11 * before[name] + 9 / 11 * weights[name])
    name = "architecture.lstm.weight_hh_l0"
    assert torch.equal(saved.state_dict()[name], after[name])


def clone(weights):
    return {name: value.clone() for name, value in weights.items()}


def test_held_out_programs_and_machines_do_not_enter_the_model(labels, tmp_path):
    split = Split(fold="1/2", hold_machines=2, machine_seed=3)
    division = split.divide(labels)
    recipe = replace(RECIPE, instructions=BATCH_SIZE * 288)
    model = training.trained_model(
        run(division, tmp_path, recipe), division, split, recipe, training.taught_by(division, None, ())
    )
    (held,) = folds(["matmul", "qsort"], 2)[0]
    assert {program.name for program in model.programs} == {"matmul", "qsort"} - {held}
    assert model.recipe["held_programs"] == [held]
    assert len(model.machines) == len(labels.machines) - 2 == len(model.table())
    assert set(model.recipe["held_machines"]) == {m.name for m in labels.machines} - {m.name for m in model.machines}


def test_one_run_and_one_evaluation_judge_programs_and_machines_that_were_held_out(data, tmp_path):
    """Seen and unseen programs on machines of the table, fitted to the seen programs' labels, and by configuration."""
    recipe = replace(RECIPE, instructions=BATCH_SIZE * 288 * 60)
    split = Split(fold="1/2", hold_machines=2, machine_seed=3)
    training.train(
        data.traces,
        data.latencies,
        tmp_path / "m.safetensors",
        recipe=recipe,
        split=split,
        encoder_latencies=data.encoder_latencies,
        progress=False,
    )
    model = load_model(tmp_path / "m.safetensors")
    pairs = evaluate(model, data.traces, data.latencies, progress=False)
    (unseen,), held = folds(["matmul", "qsort"], 2)[0], set(model.recipe["held_machines"])
    assert len(held) == 2
    for (programs, ways), group in pairs.groupby(["programs", "uarchs"]):
        assert (set(group["program"]) == {unseen}) == (programs == "unseen")
        assert (set(group["uarch"]) == held) == (ways != "seen")
    table = summary(pairs)
    kinds = [(programs, way) for programs in ("seen", "unseen") for way in ("fitted", "seen", "zero-shot")]
    assert list(zip(table["programs"], table["uarchs"], strict=True)) == kinds
    assert table["machine_count"].tolist() == 2 * [2, len(data.machines) - 2, 2]


def test_held_machines_take_their_labels_along(labels):
    kept, held = labels.hold_machines(2, 7)
    names = [machine.name for machine in labels.machines]
    columns = [names.index(machine.name) for machine in kept.machines]
    assert sorted(columns + [names.index(machine.name) for machine in held]) == list(range(len(names)))
    for all_of, some in zip(labels.shards, kept.shards, strict=True):
        assert (some.latency[10:20] == all_of.latency[10:20][:, columns]).all()
        assert (some.mean == all_of.mean[columns]).all()
    assert labels.hold_machines(2, 7)[1] == held


def test_rates_are_told_by_the_clock_and_by_processor_time(labels, tmp_path):
    run(VALIDATING.divide(labels), tmp_path, replace(RECIPE, instructions=BATCH_SIZE * 288 * 3))
    with (tmp_path / "metrics.csv").open() as file:
        found = list(csv.DictReader(file))
    counted = np.array([float(row["instructions"]) for row in found])
    for name in ("instructions_per_second", "instructions_per_processor_second"):
        seconds = counted / [float(row[name]) for row in found]  # from the first step on
        assert (np.diff(seconds, prepend=0.0) > 0).all()


def test_shards_are_the_labels_and_their_mean(data, labels):
    from tracegen.formats.latency import LatencyFile

    for shard in labels.shards:
        with LatencyFile(shard.latency_file) as file:
            expected = file.read(0, len(file))
            assert (expected == shard.latency[0 : len(shard)].T).all()
            np.testing.assert_allclose(shard.mean, expected.mean(axis=1, dtype=np.float64))


def test_shards_expand_to_the_traces_features(data, labels):
    from tracegen.decode import decode
    from tracegen.formats.trace import Trace

    schema = get_schema("default")
    for shard in labels.shards:
        with Trace(data.traces / f"{shard.program}.trace.h5") as trace:
            instructions = decode(trace.address, trace.code, trace.isa)
            chunk = next(trace.chunks())
            stored = schema.extractor(instructions).extract(chunk)
            expected = schema.expand(schema.static(instructions), chunk.static_id[:500], stored[:500])
        assert (schema.expand(shard.static, shard.static_id[0:500], shard.stored[0:500]) == expected).all()


def test_a_batch_begins_as_long_before_its_labels_as_the_trace_allows(tmp_path):
    for name, dtype in (("number", "<u4"), ("latency", "<u2")):
        np.arange(6).astype(dtype).tofile(tmp_path / name)
    number, latency = Rows(tmp_path / "number", "<u4", 6), Rows(tmp_path / "latency", "<u2", 4, (1,))
    shard = Shard("p", "", "", 2, np.zeros((6, 1), np.float32), number, number, latency, np.ones(1))
    schema: Any = SimpleNamespace(width=1, expand=lambda static, ids, stored: ids[:, None])
    x, y, present = batch([shard], schema, np.array([0, 0]), np.array([0, 1]), 3, 2)
    assert x[:, :, 0].T.tolist() == [[0, 0, 1, 2, 3], [0, 1, 2, 3, 4]]
    assert present.T.tolist() == [[False, True, True, True, True], [True] * 5]
    assert y[:, :, 0].T.tolist() == [[0, 1], [1, 2]]


def test_rows_are_read_as_an_array_is(tmp_path):
    array = np.arange(60, dtype="<u2").reshape(20, 3)
    (tmp_path / "rows").write_bytes(array.tobytes())
    some = Rows(tmp_path / "rows", "<u2", 20, (3,))
    assert some.shape == (20, 3)
    for rows_of in (slice(0, 20), slice(5, 9), slice(18, 40), slice(7, 7)):
        assert (some[rows_of] == array[rows_of]).all()
    assert (replace(some, columns=(2, 0))[4:6] == array[4:6][:, [2, 0]]).all()


@pytest.mark.parametrize(("fraction", "count"), [(0.01, 1), (0.35, 2), (0.4, 2), (0.5, 3)])
def test_a_fraction_of_the_programs_validates(labels, fraction, count):
    six = Labels(labels.machines, tuple(replace(labels.shards[0], program=name) for name in "abcdef"))
    found = Split(validate_fraction=fraction).divide(six)
    assert found.validation.programs == tuple(sorted(folds("abcdef", 1)[0][:count]))
    with pytest.raises(InputError, match="one of the two"):
        Split(validate_fraction=fraction, validate_programs=("a",))


def test_what_validates_has_chosen_the_weights(labels):
    division = VALIDATING.divide(labels)
    assert {program.name for program in training.taught_by(division, None, ())} == {"matmul", "qsort"}


def test_held_machines_do_not_teach_the_encoder(data, tmp_path, monkeypatch):
    taught = []
    learn = encoder_training.learn
    monkeypatch.setattr(
        encoder_training,
        "learn",
        lambda features, *rest, **more: taught.append(len(features)) or learn(features, *rest, **more),
    )
    recipe = replace(RECIPE, instructions=BATCH_SIZE * 288)
    split, output = Split(hold_machines=2, machine_seed=3), tmp_path / "m.safetensors"

    def run_on(labels, **options):
        training.train(
            data.traces, labels, output, recipe=recipe, encoder_latencies=data.latencies, progress=False, **options
        )

    run_on(data.latencies, split=split)
    assert taught == [len(data.machines) - 2]
    with pytest.raises(InputError, match="is held out, but the initial model has learned from it"):
        run_on(data.latencies, split=split, initial=data.model)
    with pytest.raises(InputError, match="leave --no-encoder out"):
        run_on(data.latencies, encoder=False)
    with pytest.raises(InputError, match="seed is -1"):
        replace(recipe, seed=-1)


def test_folds_are_every_program_once_and_stay_as_they_are():
    names = [f"program-{k}" for k in range(12)]
    dealt = folds(reversed(names), 5)
    assert sorted(sum(dealt, ())) == sorted(names)
    assert [len(fold) for fold in dealt] == [3, 3, 2, 2, 2]
    assert dealt == folds(names + names, 5)
    assert folds("abcde", 2) == [("c", "d", "b"), ("e", "a")]
    assert fold_of(names, "2/5") == dealt[1]


@pytest.mark.parametrize("text", ["7/5", "0/5", "1", "a/b", "-1/5", "1/1", "1/99", ""])
def test_impossible_folds_are_refused(text):
    with pytest.raises(InputError, match="fold"):
        fold_of(["a", "b", "c", "d", "e", "f"], text)


@pytest.mark.parametrize("name", ["cuda", "cuda:7"])
def test_a_gpu_that_is_not_there_is_named(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(InputError, match=f"device '{name}': PyTorch sees 0 GPUs"):
        device_of(name)


@pytest.mark.parametrize("name", ["gpu", "tpu", "meta", "cuda:x"])
def test_unknown_devices_are_named(name):
    with pytest.raises(InputError, match="expected auto, cpu, cuda"):
        device_of(name)


def test_wrong_options_are_a_line_each(data, tmp_path):
    folders = ["--traces", data.traces, "--latencies", data.latencies, "-o", tmp_path / "m.safetensors"]
    done = perfvec("train", *folders, "--width", 8, "--instructions", 1, "--fold", "7/5")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "perfvec: fold '7/5' is not K/N with K from 1 to N, as 2/5"
    assert "Traceback" not in done.stderr


def test_wrong_numbers_and_recipes_are_named():
    with pytest.raises(InputError, match="'window' is not NAME=VALUE"):
        parse_numbers(["window"])
    with pytest.raises(InputError, match="ema_decay is 1"):
        Recipe(ema_decay=1.0)
    with pytest.raises(InputError, match="no number 'window'"):
        Recipe(numbers={"window": 3})


def test_validating_on_every_program_leaves_nothing(labels):
    with pytest.raises(InputError, match="fold '7/5'"):
        Split(fold="7/5")  # told before any trace is read
    with pytest.raises(InputError, match="nothing is left"):
        Split(validate_programs=("qsort", "matmul")).divide(labels)
    with pytest.raises(InputError, match="at least must stay"):
        Split(hold_machines=5).divide(labels)


def test_batches_that_cannot_be_shared_are_refused(labels, tmp_path):
    from perfvec.training.ranks import Ranks

    with pytest.raises(InputError, match="a batch of 4 cannot be shared evenly by 3 processes"):
        fit(VALIDATING.divide(labels), get_schema("default"), RECIPE, tmp_path / "c.pt", ranks=Ranks(0, 3))


def damaged(data, folder: Path, change) -> None:
    """The data with the latencies of qsort changed by `change(file)`."""
    import shutil

    for path in (*data.traces.iterdir(), *data.latencies.iterdir()):
        shutil.copy(path, folder)
    with h5py.File(folder / "qsort.latency.h5", "r+") as file:
        change(file)
    seal(folder / "qsort.latency.h5")


def test_saturated_labels_of_a_machine_are_named(data, tmp_path):
    def saturate(file):
        file["latency"][2, :500] = 65535

    damaged(data, tmp_path, saturate)
    as_version_1(tmp_path / "qsort.latency.h5")
    with pytest.raises(InputError, match=r"qsort\.latency\.h5: 0\.8% of the latencies of machine .* are saturated"):
        prepare(tmp_path, tmp_path, get_schema("default"), tmp_path / "work", progress=False)


def test_a_machine_given_twice_is_named(data, tmp_path):
    def double(file):
        file["uarch"][3] = file["uarch"][0]

    damaged(data, tmp_path, double)
    (tmp_path / "matmul.latency.h5").unlink()
    with pytest.raises(InputError, match="rows 0 and 3 are the same machine"):
        prepare(tmp_path, tmp_path, get_schema("default"), tmp_path / "work", progress=False)


def test_runs_that_share_shards_make_each_once_also_at_the_same_time(data, tmp_path, monkeypatch):
    def shards(name: str = "default") -> set[Path]:
        labels = prepare(data.traces, data.latencies, get_schema(name), tmp_path, progress=False)
        return {shard.static_id.path.parent for shard in labels.shards}

    make, made = training_data.make_shards, []

    def counted(trace_path: Path, *arguments: Any) -> None:
        made.append(trace_path)
        make(trace_path, *arguments)

    monkeypatch.setattr(training_data, "make_shards", counted)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: shards(), range(3)))
    assert found[0] == found[1] == found[2] == set(tmp_path.iterdir())  # nothing else is left there
    assert len(made) == len(set(made)) == len(found[0])
    monkeypatch.setattr(training_data, "make_shards", None)  # all is there, whichever columns are hidden
    assert shards("default~load") == found[0]


def test_other_labels_of_the_same_machines_have_shards_of_their_own(data, tmp_path):
    folder = tmp_path / "labels"
    folder.mkdir()
    path = folder / min(data.latencies.glob("*.latency.h5")).name
    copyfile(data.latencies / path.name, path)
    name = get_schema("default")
    (before,) = prepare(data.traces, folder, name, tmp_path / "shards", progress=False).shards
    (again,) = prepare(data.traces, folder, name, tmp_path / "shards", progress=False).shards
    with h5py.File(path, "r+", locking=False) as file:
        file["latency"][:, :100] += 1
    seal(path)
    (other,) = prepare(data.traces, folder, name, tmp_path / "shards", progress=False).shards
    assert again.static_id.path == before.static_id.path != other.static_id.path
    np.testing.assert_allclose((other.mean - before.mean) * len(before.latency), 100)


_KILLED = """
import os, sys
from pathlib import Path
from perfvec.training import data
from tracegen.features import get_schema

def killed(trace_path, files, schema, folders):
    folders[0].mkdir()
    (folders[0] / "latency").write_bytes(b"half")
    os._exit(9)

data.make_shards = killed
data.prepare(Path(sys.argv[1]), Path(sys.argv[2]), get_schema("default"), Path(sys.argv[3]), progress=False)
"""


def test_what_a_killed_run_left_of_a_shard_is_cleared(data, tmp_path):
    left = subprocess.run([sys.executable, "-c", _KILLED, data.traces, data.latencies, tmp_path], check=False)
    assert left.returncode == 9
    assert len(list(tmp_path.glob(".*.part"))) == len(list(tmp_path.glob(".*.lock"))) == 1
    labels = prepare(data.traces, data.latencies, get_schema("default"), tmp_path, progress=False)
    assert {shard.static_id.path.parent for shard in labels.shards} == set(tmp_path.iterdir())


def test_a_diverging_run_is_told(labels, tmp_path, monkeypatch):
    monkeypatch.setattr(objective, "averaged_loss", lambda error: error.sum() * float("nan"))
    with pytest.raises(InputError, match="training diverged: the loss of step 1 is nan"):
        run(VALIDATING.divide(labels), tmp_path)


def test_tensorboard_has_the_curve(labels, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    fit(
        VALIDATING.divide(labels),
        get_schema("default"),
        replace(RECIPE, instructions=2 * BATCH_SIZE * 288),
        tmp_path / "c.pt",
        metrics=tmp_path / "m.csv",
        tensorboard=tmp_path / "board",
        progress=False,
    )
    board = accumulator.EventAccumulator(str(tmp_path / "board")).Reload()
    table = [(int(row["step"]), float(row["loss"])) for row in rows(tmp_path / "m.csv")]
    assert len(table) == 2
    assert [(event.step, pytest.approx(event.value)) for event in board.Scalars("loss")] == table


def test_tensorboard_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"pip install 'perfvec-toolkit\[train\]'"):
        require_tensorboard()
