"""Every model: learns, is saved and read, is updated, and says in one line what does not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from perfvec.tensor import model_file
from perfvec.tensor.contract import Budget
from perfvec.tensor.metrics import mape, pairwise_accuracy
from perfvec.tensor.model_file import SHIPPED, describe, load_model, save_model
from perfvec.tensor.models import MODELS, make
from perfvec.tensor.models.boosted import log_sum, summed_gradient
from perfvec.tensor.models.pooled import rows_of, work
from perfvec.tensor.records import FeatureGroup, measurements
from support.errors import InputError
from tests.perfvec.tensor.conftest import WIDTH, made_up
from tracegen.tensor import compact_ast
from tracegen.tensor.dataset import Device, Rows

SMALL = {
    "atformer": {"width": 32, "feed": 64, "layers": 1, "training": {"batch": 64, "learning_rate": 2e-3}},
    "atformer-m": {"width": 32, "feed": 64, "layers": 1, "training": {"batch": 64, "learning_rate": 2e-3}},
    "cdmpp": {"width": 32, "feed": 64, "layers": 1, "hidden": 32, "training": {"batch": 64, "learning_rate": 2e-3}},
    "attention-tuner": {"features": "statements", "width": 32, "training": {"batch": 64, "learning_rate": 2e-3}},
    "blend": {"trees": {"leaves": 15}, "network": {"width": 32, "training": {"batch": 64}}},
    "additive": {"width": 32, "training": {"batch": 64}},
    "xgboost": {"depth": 4},
    "lightgbm": {"leaves": 15},
    "mlp": {"width": 32, "training": {"batch": 64, "learning_rate": 2e-3}},
    "lstm": {"width": 32, "training": {"batch": 64, "learning_rate": 5e-3}},
    "attention": {"width": 32, "heads": 4, "training": {"batch": 64, "learning_rate": 2e-3}},
    "tabnet": {"training": {"batch": 64, "learning_rate": 2e-2}},
    "mean": {},
}
BUDGET = Budget(epochs=20)
LEARNING = [name for name in MODELS if name != "mean"]


@pytest.fixture(scope="module")
def trained(records):
    torch.set_num_threads(1)
    models = {}
    for name in MODELS:
        models[name] = make(name, SMALL[name])
        models[name].fit(records, budget=BUDGET)
    return models


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNING)
def test_a_short_training_orders_most_pairs(name, trained, records):
    found = pairwise_accuracy(trained[name].score_records(records), records.seconds, records.group)
    assert found > (0.6 if name == "tabnet" else 0.75)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LEARNING if name not in ("atformer", "atformer-m", "tabnet")])
def test_latencies_are_nearer_than_the_mean(name, trained, records):
    base = mape(trained["mean"].to_seconds(trained["mean"].score_records(records)), records.seconds)
    assert mape(trained[name].to_seconds(trained[name].score_records(records)), records.seconds) < 0.7 * base


def test_a_model_of_scores_has_no_latencies(trained, records):
    model = trained["atformer"]
    assert np.isnan(model.seconds(records.features(model.kind).rows, "d0")).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_predicts_the_same_and_goes_on_learning(name, trained, records, tmp_path):
    path = tmp_path / "m.safetensors"
    save_model(trained[name], path, {"seed": 0})
    again = load_model(path)
    assert np.array_equal(again.score_records(records), trained[name].score_records(records))
    assert describe(path)["provenance"] == {"seed": 0}
    again.update(records.take(np.arange(50)), budget=Budget(epochs=1))
    assert np.isfinite(again.score_records(records)).all()


@pytest.mark.parametrize(
    ("name", "rows"),
    [(name, None) for name in MODELS]
    + [(name, rows) for name in ("xgboost", "lightgbm") for rows in ("packed", "summed")],
)
def test_a_record_or_several_of_equal_programs_are_learned_from_without_harm(name, rows, trained, records):
    """A search's first round may find one candidate, or measure programs that no feature tells apart."""
    if rows is None:
        model = trained[name].copy()
    else:
        model = make(name, {**SMALL.get(name, {}), "rows": rows})
        model.fit(records, budget=Budget(epochs=1))
    for few in ([7], [7, 7, 7]):
        model.update(records.take(few), budget=Budget(epochs=2))
        assert np.isfinite(model.score_records(records)).all()


def test_too_few_records_make_no_trees(records):
    with pytest.raises(InputError, match="1 rows of features, or all alike, make no tree; train on at least"):
        make("lightgbm", {"rows": "pooled"}).fit(records.take([7]), budget=Budget(epochs=1))


@pytest.mark.slow
def test_saved_models_predict_the_same_in_another_process(trained, records, tmp_path):
    rows = records.features("ast").rows
    np.savez(tmp_path / "rows.npz", values=rows.values, offset=rows.offset, position=rows.position)
    expected = {}
    for name in ("cdmpp", "xgboost", "lightgbm", "tabnet"):
        save_model(trained[name], tmp_path / f"{name}.safetensors")
        expected[name] = trained[name].score(rows, "d0").tolist()
    program = (
        "import json, sys, numpy as np, torch; torch.set_num_threads(1)\n"
        "from perfvec.tensor.model_file import load_model\n"
        "from tracegen.tensor.dataset import Rows\n"
        "rows = Rows(**np.load(sys.argv[1] + '/rows.npz'))\n"
        "names = sys.argv[2:]\n"
        "print(json.dumps({n: load_model(f'{sys.argv[1]}/{n}.safetensors').score(rows, 'd0').tolist() for n in names}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), *expected], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == expected


def test_a_seed_repeats_a_training(records):
    scores = []
    for _ in range(2):
        model = make("mlp", SMALL["mlp"])
        model.fit(records, budget=Budget(epochs=2), seed=5)
        scores.append(model.score_records(records))
    assert np.array_equal(*scores)


def test_a_new_device_gets_a_head_of_its_own(trained, records, tmp_path):
    two = made_up(devices=2)
    save_model(trained["attention-tuner"], tmp_path / "m.safetensors")
    model = load_model(tmp_path / "m.safetensors")
    new = two.take(two.device == 1)
    before = mape(model.to_seconds(model.score_records(new, zero_shot=True)), new.seconds)
    model.update(new.take(np.arange(0, len(new), 3)), budget=Budget(epochs=20))
    assert [device.name for device in model.devices] == ["d0", "d1"]
    assert mape(model.to_seconds(model.score_records(new)), new.seconds) < before


def test_adapting_heads_leaves_the_encoder(records):
    model = make("attention-tuner", {**SMALL["attention-tuner"], "adapt": "heads"})
    model.fit(records, budget=Budget(epochs=1))
    before = {name: value.clone() for name, value in model.network.state_dict().items()}
    model.update(records, budget=Budget(epochs=1))
    changed = {name for name, value in model.network.named_parameters() if not torch.equal(value, before[name])}
    assert changed and all(name.startswith("network.heads.0.") for name in changed)


def test_padding_does_not_change_a_masked_models_scores(trained, records):
    for name in ("atformer", "atformer-m", "attention-tuner", "attention", "lstm", "mlp"):
        rows = records.features(trained[name].kind).rows
        short = np.flatnonzero(rows.length == 1)[:3]
        alone = Rows(rows.values[rows.offset[short]], np.arange(len(short) + 1))
        together = trained[name].score(rows, "d0")[short]
        assert trained[name].score(alone, "d0") == pytest.approx(together, abs=1e-5)


def test_unlabelled_candidates_enter_by_the_discrepancy(records):
    half = records.take(records.task < 3)
    scores = []
    for other in (None, records.take(records.task >= 3)):
        model = make("cdmpp", SMALL["cdmpp"])
        model.fit(half, budget=Budget(epochs=1), unlabelled=other)
        scores.append(model.score_records(half))
    assert not np.array_equal(*scores)


@pytest.mark.parametrize("name", ["mlp", "xgboost"])
def test_a_search_scores_a_batch_and_learns_from_what_it_measured(name, records):
    group = records.features("statements")
    device = Device("d0", {"kind": "cpu", "clock_ghz": 1.0})
    some = np.arange(40, 80)  # the second task's candidates
    rows = Rows(
        group.rows.values[group.rows.offset[40] : group.rows.offset[80]],
        group.rows.offset[40:81] - group.rows.offset[40],
    )
    measured = measurements(FeatureGroup("statements", "s1", rows), [*records.seconds[some][:-1], np.nan], device)
    model = make(name, SMALL[name])
    model.update(measured, budget=Budget(epochs=5))  # from nothing
    model.update(measured, budget=Budget(epochs=30))
    score = model.score(rows, device)
    assert pairwise_accuracy(score, records.seconds[some], np.zeros(40, np.int64)) > 0.8


def test_packed_boosting_learns_a_sum_over_statements(records):
    for name in ("xgboost", "lightgbm"):
        model = make(name, {**SMALL[name], "rows": "packed"})
        model.fit(records, budget=BUDGET)
        assert pairwise_accuracy(model.score_records(records), records.seconds, records.group) > 0.7


def test_what_does_not_fit_is_said_in_one_line(trained, records, tmp_path):
    model = trained["mlp"]
    group = records.features("statements")
    narrow = Rows(group.rows.values[:, :5], group.rows.offset)
    with pytest.raises(InputError, match=f"reads {WIDTH} statements features a row; these rows have 5"):
        model.score(narrow, "d0")
    with pytest.raises(InputError, match=r"device 'gpu' did not train this mlp model \(it knows d0\)"):
        model.score(group.rows, Device("gpu"))
    assert len(model.score(group.rows, Device("gpu"), zero_shot=True)) == len(group.rows)
    other = replace(records, groups={"statements": FeatureGroup("statements", "s2", group.rows)})
    with pytest.raises(InputError, match="of version 's1'; these are of version 's2'"):
        model.score_records(other)
    with pytest.raises(InputError, match="no records to learn from"):
        make("mlp").fit(records.take(np.zeros(0, np.int64)))
    with pytest.raises(InputError, match="all 240 records failed"):
        make("mlp").fit(replace(records, seconds=np.full(len(records), np.nan)))
    with pytest.raises(InputError, match=r"has no features 'primitives' \(there: statements, ast\)"):
        make("mlp", {"features": "primitives"}).fit(records)
    with pytest.raises(InputError, match="no model 'gpt'"):
        make("gpt")
    with pytest.raises(InputError, match="no parameter 'wdith'; there are features, width"):
        make("mlp", {"wdith": 3})
    with pytest.raises(InputError, match="width is int"):
        make("mlp", {"width": "wide"})


def test_foreign_and_damaged_model_files(trained, tmp_path):
    path = tmp_path / "m.safetensors"
    with pytest.raises(InputError, match="no such file"):
        load_model(path)
    path.write_bytes(b"not one")
    with pytest.raises(InputError, match="truncated, or not a safetensors file"):
        load_model(path)
    save_model(trained["mlp"], path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="truncated"):
        load_model(path)


def test_a_damaged_model_is_refused_before_any_library_parses_it(tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "make", lambda *_, **__: pytest.fail("parsed"))
    path, whole = tmp_path / "m.safetensors", SHIPPED.read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    for at in (begin, begin + 1000, (begin + len(whole)) // 2, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InputError, match="another digest than it says"):
            load_model(path)
    path.write_bytes(whole.replace(b'"seed', b'"sead', 1).replace(b'\\"seed', b'\\"sead', 1))
    for read in (load_model, model_file.describe):
        with pytest.raises(InputError, match="another digest than it says"):
            read(path)


@pytest.mark.parametrize("name", ["mlp", "xgboost"])
def test_a_budget_in_seconds_ends_a_training(name, records):
    import time

    model = make(name)
    began = time.process_time()
    model.fit(records, budget=Budget(epochs=100_000, seconds=0.3))
    assert time.process_time() - began < 5.0


def test_trees_over_rows_learn_the_logarithm_of_a_sum():
    """Candidates of the rows {0, 1} and {2}, of logs ln 1, ln 3 and ln 2: sums 4 and 2; wanted are e·4 and 2."""
    logs, owner = np.log([1.0, 3.0, 2.0]), np.array([0, 0, 1])
    assert log_sum(logs, owner, 2) == pytest.approx(np.log([4.0, 2.0]))
    target = np.log([4.0, 2.0]) + np.array([1.0, 0.0])
    gradient, second = summed_gradient(logs, owner, target)
    assert gradient == pytest.approx([-0.25, -0.75, 0.0])  # each row its share of the latency
    assert second == pytest.approx([0.26, 0.76, 1.01])


def test_executions_of_vectors_are_those_that_the_device_needs():
    """64 executions in vectors of 8 floats: 8 of 32 bytes, 16 of 16 bytes; of elements where no width is known, or less
    than an element's.
    """
    values = np.zeros((1, compact_ast.WIDTH), np.float32)
    for name, count in (("executions", 64), ("vectorized_product", 8), ("access0_element_bytes", 4)):
        values[0, compact_ast.COLUMNS.index(name)] = np.log2(1 + count)
    found = [np.expm1(work("ast", values, np.array([width]))[0]) for width in (64.0, 32.0, 16.0, 2.0, float("nan"))]
    assert found == pytest.approx([8, 8, 16, 64, 64], rel=1e-4)
    assert work("primitives", values, np.array([32.0])).tolist() == [0.0]


def test_rows_of_candidates_in_any_order_and_of_none():
    rows = Rows(np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 2, 2, 3]))
    values, owner = rows_of(rows, np.array([2, 1, 0]))
    assert values.tolist() == [[4, 5], [0, 0], [0, 1], [2, 3]]
    assert owner.tolist() == [0, 1, 2, 2]


def test_twice_the_same_rows_take_twice_as_long(trained, records):
    """The purpose of `additive`: latencies of rows add up, however many there are."""
    rows = records.features("ast").rows
    first = rows[0]
    once = Rows(first, np.array([0, len(first)]), np.arange(len(first), dtype=np.int32))
    twice = Rows(np.concatenate([first, first]), np.array([0, 2 * len(first)]), np.tile(once.position, 2))
    model = trained["additive"]
    log_once, log_twice = (np.log(model.seconds(part, "d0")[0]) for part in (once, twice))
    spread = float(model.network.network.log_spread.detach().exp()) / model.target.scale
    assert (log_twice - log_once) * spread == pytest.approx(np.log(2.0), rel=1e-3)


def test_a_blend_is_the_geometric_mean_of_its_members(trained, records):
    blend, rows = trained["blend"], records.features("ast").rows
    parts = [np.log(blend.members[name].seconds(rows, "d0")) for name in ("trees", "network")]
    share = blend.parameters.share
    assert np.log(blend.seconds(rows, "d0")) == pytest.approx(share * parts[0] + (1 - share) * parts[1], rel=1e-6)


def scattered(count: int = 60):
    """Records of as many groups, one each: nothing can be ordered."""
    return made_up(tasks=count, candidates=1)


def test_of_records_without_a_pair_latencies_say_when_to_stop():
    model = make("mlp", SMALL["mlp"])
    records = scattered()
    fresh = make("mlp", SMALL["mlp"])
    fresh.fit(records, budget=Budget(epochs=1, patience=0), seed=0)
    model.fit(records, budget=Budget(epochs=6, patience=2), seed=0, validation=scattered(20))
    assert all(np.isfinite(row["shortfall"]) for row in model.curve)
    assert model.shortfall(records) < make_untrained(records).shortfall(records)
    ranks = make("mlp", {**SMALL["mlp"], "training": {"target": "score", "losses": {"rank": 1.0}}})
    with pytest.raises(InputError, match="no two of a task and device"):
        ranks.fit(records, budget=Budget(epochs=2, patience=1), seed=0, validation=scattered(20))


def make_untrained(records):
    model = make("mlp", {**SMALL["mlp"], "training": {"learning_rate": 1e-9}})
    model.fit(records, budget=Budget(epochs=1), seed=0)
    return model


def test_all_passes_are_made_where_tasks_have_few_records():
    records = scattered(300)
    model = make("mlp", {**SMALL["mlp"], "training": {"batch": 32, "chunk": 4}})
    model.fit(records, budget=Budget(epochs=10), seed=0)
    assert [row["pass"] for row in model.curve] == list(range(1, 11))


def test_a_training_that_learned_nothing_is_an_error():
    with pytest.raises(InputError, match="batch is at least 2"):
        make("mlp", {**SMALL["mlp"], "training": {"batch": 1}})
    with pytest.raises(InputError, match="no latency comes out of these"):
        make("mlp", {**SMALL["mlp"], "training": {"target": "log", "losses": {"rank": 1.0}}})
