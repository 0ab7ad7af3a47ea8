"""Networks as the papers have them: masks, operator classes, maps per number of leaves, heads, tickets, both ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from perfvec.tensor import losses
from perfvec.tensor.batches import Batch
from perfvec.tensor.contract import Budget
from perfvec.tensor.loop import DROP, DROPS, Plateau, winning_weights
from perfvec.tensor.models import MODELS, make
from perfvec.tensor.models.atformer import ATFormerNetwork, ATFormerParameters, MaskedParameters
from perfvec.tensor.models.cdmpp import LeafEmbedding
from perfvec.tensor.models.lstm import LSTMNetwork, LSTMParameters
from perfvec.tensor.models.tabnet import TabNetNetwork, TabNetParameters
from perfvec.tensor.network import NetworkModel
from perfvec.tensor.records import FeatureGroup, derived
from support.errors import InputError
from tests.perfvec.tensor.conftest import WIDTH, made_up
from tests.perfvec.tensor.test_models import SMALL
from tracegen.tensor import compact_ast, loop_nest
from tracegen.tensor.dataset import OPERATORS, Rows

NETWORKS = [name for name, model in MODELS.items() if issubclass(model, NetworkModel)]


def batch(lengths, rows, inputs=WIDTH, seed=0):
    mask = torch.arange(rows)[None] < torch.tensor(lengths)[:, None]
    x = torch.randn(len(lengths), rows, inputs, generator=torch.Generator().manual_seed(seed)) * mask[..., None]
    position = torch.arange(rows).expand(len(lengths), rows).clone()
    return Batch(x, mask, position, torch.zeros(len(lengths), 1), torch.zeros(len(lengths), dtype=torch.int64))


def test_unmasked_attention_is_that_over_rows_of_padding():
    """One row that stands for all of the padding against the padding itself, row by row."""
    torch.manual_seed(0)
    network = ATFormerNetwork(WIDTH, 1, ATFormerParameters(width=32, feed=64, heads=4, padded=7)).eval()
    found = network(batch([1, 3, 7], 7))[0]
    whole = batch([1, 3, 7], 7)
    x = network.encoder(network.embed(whole.x) + network.device(whole.parameters)[:, None])
    expected = (network.decode(x).squeeze(-1) * whole.mask).sum(1)
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    with torch.inference_mode():  # as a model predicts
        assert network(batch([1, 3, 7], 7))[0].tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert torch.backends.mha.get_fastpath_enabled()
    network.train()
    assert network(whole)[0].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_padding_attends_in_atformer_and_not_in_atformer_m():
    assert (make("atformer").parameters.masked, make("atformer-m").parameters.masked) == (False, True)
    for parameters, same in ((ATFormerParameters, False), (MaskedParameters, True)):
        torch.manual_seed(0)
        made = parameters(width=32, feed=64, padded=9)
        network = ATFormerNetwork(WIDTH, 1, made).eval()
        torch.manual_seed(0)
        other = ATFormerNetwork(WIDTH, 1, replace(made, padded=4)).eval()
        short, long = network(batch([2, 3], 3))[0], other(batch([2, 3], 3))[0]
        assert torch.allclose(short, long, atol=1e-6) == same


def test_defaults_are_the_papers():
    sizes = {name: make(name).parameters for name in ("atformer", "attention", "lstm", "xgboost", "tabnet", "cdmpp")}
    assert (sizes["atformer"].width, sizes["atformer"].layers) == (512, 2)
    assert (sizes["attention"].width, sizes["attention"].heads) == (512, 4)
    assert sizes["lstm"].width == 1024
    assert (sizes["xgboost"].depth, sizes["xgboost"].learning_rate, sizes["xgboost"].gamma) == (10, 0.2, 0.001)
    assert make("xgboost", {"gamma": 0.5}).parameters.gamma == 0.5
    assert make("tabnet", {"gamma": 1.5}).parameters.gamma == 1.5
    assert sizes["cdmpp"].layers == 11


def test_the_operator_class_stands_one_hot_behind_every_statement():
    base = FeatureGroup("statements", "s1", Rows(np.ones((3, 2), np.float32), np.array([0, 2, 3])))
    found = derived("statements+operator", base, np.array([2, 0]))
    assert found.rows.values.shape == (3, 2 + len(OPERATORS))
    assert found.rows.values[:, 2:].argmax(1).tolist() == [2, 2, 0]
    assert found.rows.values[:, 2:].sum() == 3
    assert found.version != base.version


def test_records_say_the_class_of_each_candidates_task(records):
    found = records.features("statements+operator").rows
    classes = [OPERATORS.index(task.operator) for task in records.tasks]
    for candidate, task in zip(records.candidate, records.task, strict=True):
        assert set(found[candidate][:, WIDTH:].argmax(1).tolist()) == {classes[task]}


def test_the_published_tree_has_no_columns_of_our_own():
    values = np.arange(2 * compact_ast.WIDTH, dtype=np.float32).reshape(2, -1)
    base = FeatureGroup("ast", "a1", Rows(values, np.array([0, 2]), np.array([1, 2], np.int32)))
    found = derived("ast-published", base, np.zeros(1, np.int64))
    assert found.rows.values.shape[1] == compact_ast.WIDTH - len(loop_nest.COLUMNS) == 101
    assert np.array_equal(found.rows.values, values[:, :101])
    assert found.rows.position is base.rows.position


def test_every_number_of_leaves_has_a_map_of_its_own():
    torch.manual_seed(0)
    join = LeafEmbedding(3, 4, 5)
    join.seen[:] = True
    x = batch([1, 2, 3, 5], 5, inputs=4)
    found = join(x.x, x.mask)
    for row, count in enumerate((1, 2, 3)):
        assert torch.allclose(found[row], join.maps[count - 1](x.x[row, :count].flatten()), atol=1e-6)
    tail = torch.cat([x.x[3, 0], x.x[3, 1], x.x[3, 2:5].mean(0)])
    assert torch.allclose(found[3], join.maps[2](tail), atol=1e-6)


def test_a_number_of_leaves_that_never_trained_is_read_by_the_nearest_smaller_one():
    join = LeafEmbedding(6, 4, 5)
    join.seen[[1, 4]] = True
    seen = join.seen.numpy()
    assert [join.map_of(number, seen) for number in (1, 2, 3, 4, 5, 6, 9)] == [2, 2, 2, 2, 5, 5, 5]
    x = batch([1, 4], 4, inputs=4)
    found = join(x.x, x.mask)
    assert torch.allclose(found[0], join.maps[1](torch.cat([x.x[0, 0], torch.zeros(4)])), atol=1e-6)
    assert torch.allclose(found[1], join.maps[1](torch.cat([x.x[1, 0], x.x[1, 1:].mean(0)])), atol=1e-6)


def test_leaves_are_joined_candidate_by_candidate_in_any_order():
    torch.manual_seed(0)
    join = LeafEmbedding(4, 4, 5)
    join.seen[[0, 2]] = True
    x = batch([5, 1, 3, 1, 2], 5, inputs=4)
    found = join(x.x, x.mask)
    alone = torch.cat([join(x.x[row : row + 1], x.mask[row : row + 1]) for row in range(5)])
    assert torch.allclose(found, alone, atol=1e-6)
    found.sum().backward()
    assert [part.weight.grad is not None for part in join.maps] == [True, False, True, False]  # the others stay


def test_training_marks_the_numbers_of_leaves_that_train(records):
    model = make("cdmpp", {**SMALL["cdmpp"], "leaves": 8})
    some = records.take(records.features("ast").rows.length[records.candidate] != 3)
    model.fit(some, budget=Budget(epochs=1), unlabelled=records)
    assert torch.nonzero(model.network.network.join.seen).squeeze(1).tolist() == [0, 1, 3]


def test_the_discrepancy_of_fine_tuning_is_between_source_and_target():
    records = made_up(devices=2)
    source = records.take((records.device == 0) & (records.task >= 3))
    target = records.take((records.device == 1) & (records.task < 3))
    found = []
    for weight, other in ((0.5, None), (0.5, source), (0.5, target), (0.0, source), (0.0, None)):
        training = {"losses": {"mse": 1.0, "cmd": weight}, "batch": 64}
        model = make("cdmpp", {**SMALL["cdmpp"], "training": training})
        model.fit(source, budget=Budget(epochs=1))
        model.update(target, budget=Budget(epochs=1), source=other)
        found.append(model.score_records(target))
    assert not np.array_equal(found[0], found[1])
    assert not np.array_equal(found[1], found[2])
    assert np.array_equal(found[3], found[4])  # without its weight, nothing of the source enters


def test_both_ways_read_the_last_row_first():
    torch.manual_seed(0)
    network = LSTMNetwork(WIDTH, 1, LSTMParameters(width=8, both=True)).eval()
    whole = batch([2, 4], 4)
    for row, count in enumerate((2, 4)):
        turned = network.embed(whole.x[row : row + 1, :count].flip(1)) + network.device(whole.parameters[:1])[:, None]
        straight = network.embed(whole.x[row : row + 1, :count]) + network.device(whole.parameters[:1])[:, None]
        z = torch.cat([network.lstm(straight)[0][:, -1], network.back(turned)[0][:, -1]], 1)
        assert network.decode(z).item() == pytest.approx(network(whole)[0][row].item(), abs=1e-5)


def test_the_entropy_of_tabnets_masks_is_in_its_loss():
    pytest.importorskip("pytorch_tabnet")
    torch.manual_seed(0)
    network, seen = TabNetNetwork(WIDTH, 1, TabNetParameters(sparsity=0.5)), []
    network.tabnet.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network(batch([1, 4, 3, 2], 4))
    _, masks = network.tabnet.forward_masks(seen[0])
    entropies = [-(mask * torch.log(mask + 1e-15)).sum(1).mean() for mask in masks.values()]
    expected = 0.5 * float(torch.stack(entropies).mean().detach())
    assert len(entropies) == 3 and expected > 0
    assert float(network.take_penalty().detach()) == pytest.approx(expected, rel=1e-5)


def test_what_a_network_adds_to_its_loss_is_learned_from(records):
    pytest.importorskip("pytorch_tabnet")
    found = []
    for sparsity in (0.0, 1e4):
        model = make("tabnet", {"sparsity": sparsity})
        model.fit(records, budget=Budget(epochs=3))
        assert model.network.take_penalty() is None
        found.append(model.learned.loss)
    assert found[1] > found[0]


def test_the_root_of_the_squared_error():
    assert losses.rmse(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.0])).item() == pytest.approx(np.sqrt(4.5))


def test_fine_tuning_keeps_the_statistics_of_batch_normalisation(records):
    model = make("attention-tuner", SMALL["attention-tuner"])
    model.fit(records, budget=Budget(epochs=1))
    before = {name: value.clone() for name, value in model.network.state_dict().items() if "running" in name}
    model.update(records, budget=Budget(epochs=2))
    after = model.network.state_dict()
    assert before and all(torch.equal(after[name], value) for name, value in before.items())


def test_tickets_are_the_weights_that_the_loss_would_miss_most():
    first, second = torch.nn.Parameter(torch.tensor([1.0, -2.0])), torch.nn.Parameter(torch.tensor([0.5, 4.0]))
    first.grad, second.grad = torch.tensor([3.0, 0.1]), torch.tensor([2.0, -1.0])  # |w·g| = 3, 0.2, 1, 4
    assert [mask.tolist() for mask in winning_weights([first, second], 0.5)] == [[1, 0], [0, 1]]
    assert [mask.tolist() for mask in winning_weights([first, second], 1.0)] == [[1, 1], [1, 1]]
    assert [mask.tolist() for mask in winning_weights([first, second], 1e-9)] == [[0, 0], [0, 1]]
    many = torch.nn.Parameter(torch.ones(10))
    many.grad = torch.tensor([1.0, 2.0] + [0.0] * 8)  # the heads of other devices have none
    assert [mask.tolist() for mask in winning_weights([many], 0.5)] == [[1, 1] + [0] * 8]


@pytest.mark.parametrize("trained", [(3,), (2, 5), (7,)])
def test_a_map_that_is_seen_first_says_what_was_said_before(trained):
    torch.manual_seed(0)
    join = LeafEmbedding(8, 4, 6)
    begun = [value.clone() for value in join.parameters()]
    join.see(trained)
    assert all(map(torch.equal, begun, join.parameters()))  # a first training begins as the network was made
    for number in (4, 1, 8, 5):
        inputs = batch([number] * 3, 8, 4)
        before = join(inputs.x, inputs.mask)
        join.see([number])
        assert torch.allclose(join(inputs.x, inputs.mask), before, atol=1e-5), number


def test_an_update_without_a_pass_changes_no_prediction(records):
    model = make("cdmpp", SMALL["cdmpp"])
    length = records.features("ast").rows.length[records.candidate]
    shortest, others = length == length.min(), length > length.min()
    assert shortest.any() and others.any()
    model.fit(records.take(shortest), budget=Budget(epochs=2))
    before = model.record_latencies(records)
    model.update(records.take(others), budget=Budget(epochs=0))
    assert model.record_latencies(records) == pytest.approx(before, rel=1e-6)


def test_fine_tuning_by_tickets_leaves_the_other_weights(records):
    model = make("attention-tuner", {**SMALL["attention-tuner"], "features": "statements", "adapt": "tickets"})
    model.fit(records, budget=Budget(epochs=1))
    before = torch.cat([value.detach().clone().flatten() for value in model.network.parameters()])
    model.update(records, budget=Budget(epochs=1))
    after = torch.cat([value.detach().flatten() for value in model.network.parameters()])
    assert 0.1 < float((before != after).float().mean()) <= 0.51


def test_the_plateau_lowers_the_rate_and_returns_to_the_best_weights():
    network = torch.nn.Linear(1, 1, bias=False)
    plateau = Plateau(network, patience=2)

    def see(weight, shortfall):
        network.weight.data.fill_(weight)
        return plateau.see(shortfall)

    assert not see(1.0, 0.5) and not see(2.0, 0.4) and not see(3.0, 0.6)
    assert not see(4.0, 0.7) and plateau.rate == DROP and network.weight.item() == 2.0
    ends = [see(5.0, 0.9) for _ in range(2 * DROPS)]
    assert ends == [False] * (2 * DROPS - 1) + [True]


@pytest.mark.parametrize("name", ["mlp", "lightgbm"])
def test_validation_records_end_a_training_at_its_best(name, records):
    train_on, held = records.take(records.task < 4), records.take(records.task >= 4)
    model = make(name, SMALL[name])
    model.fit(train_on, budget=Budget(epochs=60, patience=2), validation=held)
    seen = [row["shortfall"] for row in model.curve]
    assert len(seen) < (60 if name == "mlp" else 30)
    assert model.shortfall(held) == pytest.approx(min(seen))
    assert all(row["rmse_ms"] > 0 for row in model.curve)


def test_a_pass_predicts_the_validation_records_once(records, monkeypatch):
    predicted = []
    score = NetworkModel.score_records
    monkeypatch.setattr(NetworkModel, "score_records", lambda *a, **k: predicted.append(1) or score(*a, **k))
    model = make("mlp", SMALL["mlp"])
    model.fit(records.take(records.task < 4), budget=Budget(epochs=3), validation=records.take(records.task >= 4))
    assert len(predicted) == len(model.curve) == 3


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in ("cdmpp", "tabnet")])
def test_a_network_makes_no_tensor_beside_its_batch(name):
    """Tensors made on the processor would not mix with those of the `meta` device, as on a GPU."""
    with torch.device("meta"):
        network = MODELS[name].NETWORK(WIDTH, 1, make(name, SMALL.get(name, SMALL["atformer"])).parameters)
        network.set_devices(1)
    output, latent = network(batch([1, 2], 3).to("meta"))
    assert output.device.type == latent.device.type == "meta"
    assert output.shape == (2,)


def test_losses_make_no_tensor_beside_their_arguments():
    values, group = torch.zeros(4, device="meta"), torch.zeros(4, dtype=torch.int64, device="meta")
    assert losses.pairwise_rank(values, values, group).device.type == "meta"


def test_a_device_that_pytorch_does_not_have_is_one_line(records):
    model = make("mlp", SMALL["mlp"])
    for name in ("cuda:99", "warp"):
        with pytest.raises(InputError, match=f"device '{name}': PyTorch does not have it here"):
            model.use(name)
    model.use("cpu")
    model.fit(records, budget=Budget(epochs=1))
    assert next(model.network.parameters()).device.type == "cpu"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("atformer", {"heads": 6}, "width 512 is not a multiple of heads 6"),
        ("cdmpp", {"heads": 7}, "width 256 is not a multiple of heads 7"),
        ("attention-tuner", {"adapt": "some"}, "adapt is one of all, heads, tickets"),
        ("mlp", {"width": 0}, "width is at least 1, not 0"),
        ("lstm", {"layers": -2}, "layers is at least 1, not -2"),
        ("mlp", {"training": {"target": "speed"}}, "target 'speed': expected one of score"),
        ("mlp", {"training": {"batch": 0}}, "batch is at least 1"),
        ("mlp", {"training": {"losses": {"mse": -1}}}, "a table of numbers of at least 0"),
        ("mlp", {"training": {"losses": {"mse": 0}}}, "at least one needs a weight above 0"),
        ("mlp", {"training": {"losses": {"best": 1}}}, "loss 'best': expected some of"),
        ("mlp", {"training": {"learning_rate": float("nan")}}, "learning_rate is a number of at least 0"),
        ("atformer", {"dropout": 1.0}, "dropout is a share below 1"),
        ("xgboost", {"rows": "all"}, "rows is one of pooled, packed, summed"),
        ("xgboost", {"subsample": 0.0}, "subsample and columns are shares above 0"),
        ("xgboost", {"gamma": -1.0}, "gamma is a number of at least 0"),
        ("lightgbm", {"leaves": 1}, "leaves is at least 2"),
        ("blend", {"trees": {"leaves": 1}}, "leaves is at least 2"),
        ("cdmpp", {"leaves": 100_000_000}, "leaves is at most 1,024, not 100000000"),
        ("lightgbm", {"leaves": 100_000_000}, "leaves is at most 1,024"),
        ("xgboost", {"depth": 1000}, "depth is at most 64"),
        ("mlp", {"width": 10**6}, "width is at most 8,192"),
        ("lstm", {"layers": 10**5000}, "layers is at most 64, not an enormous number"),
        ("mlp", {"training": {"batch": 10**9}}, "batch is at most 65,536"),
        ("mlp", {"training": {"learning_rate": -1.0}}, "learning_rate is above 0 and below 10, not -1.0"),
        ("mlp", {"training": {"learning_rate": 1e6}}, "learning_rate is above 0 and below 10, not 1000000.0"),
        ("mlp", {"training": {"clip": 0.0}}, "clip is above 0, not 0.0"),
        ("mlp", {"training": {"weight_decay": -1.0}}, "weight_decay is a number of at least 0, not -1.0"),
        ("lightgbm", {"columns": 0.0}, "shares above 0, at most 1; columns is 0.0"),
        ("lightgbm", {"rows": "summed", "features": "primitives"}, "rows summed adds up the times of loop nests"),
        ("mlp", {"features": "nosuch"}, "no features 'nosuch'; there are statements, ast, primitives, statements"),
        ("blend", {"share": 3.0}, "share is the weight of the trees, 0 to 1, not 3.0"),
        ("blend", {"trees": {"rows": "packed"}}, "trees: rows packed only rank"),
        ("blend", {"network": {"training": {"target": "score"}}}, "network: the target score only ranks"),
        ("blend", {"trees": {"features": "statements"}}, "features 'statements': set features beside trees"),
        ("blend", {"network": {"features": "ast"}}, "features 'ast': set features beside network"),
        ("blend", {"features": "primitives"}, "trees: rows summed adds up the times of loop nests"),
        ("blend", {"trees": {"rows": "some"}}, "trees: rows is one of pooled"),
    ],
)
def test_a_configuration_that_makes_no_model_is_one_line(name, parameters, message):
    with pytest.raises(InputError, match=message) as error:
        make(name, parameters)
    assert str(error.value).startswith(name) and "\n" not in str(error.value)


def test_what_a_training_is_judged_by(records):
    """The mean orders no pair, and is as far from every latency as the logarithms say."""
    model = make("mean", SMALL["mean"])
    model.fit(records.take(records.task < 2))
    distance = np.abs(np.log(np.exp(model.logs["d0"]) / records.seconds)).mean()
    assert model.shortfall(records, "pairwise") == pytest.approx(0.5)
    assert model.shortfall(records, "latency") == pytest.approx(distance)
    assert model.shortfall(records) == pytest.approx(0.5 + 0.25 * distance)
    ranks = make("xgboost", {"rows": "packed", "depth": 3})
    ranks.fit(records, budget=Budget(epochs=1))
    assert ranks.shortfall(records) == ranks.shortfall(records, "latency") == ranks.shortfall(records, "pairwise")


def test_a_budget_judges_by_a_criterion_that_there_is():
    with pytest.raises(InputError, match="criterion 'mape': expected one of both, pairwise, latency"):
        Budget(criterion="mape")
