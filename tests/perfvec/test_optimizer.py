"""Muon's orthogonal steps, and Adam's against torch's."""

import pytest
import torch

from perfvec.model import FoundationModel
from perfvec.training.optimizer import Muon, optimizer_for, orthogonal
from perfvec.training.recipe import Recipe
from support.errors import InputError
from tracegen.features import get_schema


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 8, 40), (2, 40, 8)])
def test_orthogonal_matrices_have_singular_values_near_one_and_the_same_directions(shape):
    torch.manual_seed(0)
    given = torch.randn(shape)
    found = orthogonal(given)
    u, _, v = torch.linalg.svd(given, full_matrices=False)
    inside = u.transpose(1, 2) @ found @ v.transpose(1, 2)  # in the given matrices' own directions
    values = torch.diagonal(inside, dim1=1, dim2=2)
    assert (values > 0.5).all() and (values < 1.3).all()
    assert (inside - torch.diag_embed(values)).abs().max() < 1e-3


def test_stacked_matrices_are_made_orthogonal_one_by_one():
    weight = torch.nn.Parameter(torch.zeros(8, 4))
    optimizer = Muon([{"params": [weight], "peak": 1.0, "rows": 4}])
    weight.grad = torch.cat([torch.eye(4), 1e-3 * torch.eye(4)])  # the second would be lost beside the first
    optimizer.step()
    ratio = (weight[4:].diagonal() / weight[:4].diagonal()).tolist()
    assert ratio == pytest.approx([1.0] * 4, rel=1e-3)


def test_what_is_not_a_matrix_moves_as_by_torchs_adam():
    torch.manual_seed(1)
    ours, theirs = (torch.nn.Parameter(torch.arange(6.0)) for _ in range(2))
    one = Muon([{"params": [ours], "peak": 0.05, "rows": 0}])
    other = torch.optim.Adam([theirs], lr=0.05)
    for _ in range(20):
        ours.grad = theirs.grad = torch.randn(6)
        one.step()
        other.step()
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_only_the_architectures_matrices_are_muons():
    foundation = FoundationModel(get_schema("default"), 5, width=8, layers=2)
    optimizer = optimizer_for(foundation, "muon", rate=1e-3, muon_lr=1e-2, weight_decay=0.0)
    by_muon = {id(p) for group in optimizer.param_groups if group["rows"] for p in group["params"]}
    names = {name for name, p in foundation.named_parameters() if id(p) in by_muon}
    assert names == {f"architecture.lstm.weight_{way}_l{layer}" for way in ("ih", "hh") for layer in (0, 1)}
    assert [group["rows"] for group in optimizer.param_groups] == [0, 8]
    by_adam = optimizer_for(foundation, "adam", rate=1e-3, muon_lr=1e-2, weight_decay=0.0)
    assert [group["rows"] for group in by_adam.param_groups] == [0]


def test_an_unknown_optimizer_is_named():
    with pytest.raises(InputError, match="unknown optimizer 'sgd'; this release has muon, adam"):
        Recipe(optimizer="sgd")
