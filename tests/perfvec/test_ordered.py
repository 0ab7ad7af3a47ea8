"""Pairs of machines of which the second is not slower, and what an encoder says against them."""

import numpy as np
import pytest
import torch

from perfvec.training.ordered import SIZES, better, excess, not_slower
from tests.analysis.vectors import shipped
from uarch.configuration import flatten
from uarch.machine_files import load_machine, preset_names
from uarch.space import sample


def changes(machine, other):
    before, after = flatten(machine.to_dict()), flatten(other.to_dict())
    return {field: (before[field], after[field]) for field in before if before[field] != after[field]}


@pytest.mark.parametrize("fields", [None, SIZES, ["l2.latency"]])
def test_one_field_is_better(fields):
    generator = np.random.default_rng(1)
    seen = set()
    for machine in [*sample(60, 5), *map(load_machine, preset_names())]:
        other = better(machine, generator, fields)
        if other is None:  # an L2 of one cycle
            assert fields == ["l2.latency"] and machine.l2.latency == 1
            continue
        ((field, (before, after)),) = changes(machine, other).items()
        waiting = "latency" in field or "delay" in field
        assert after == (type(before)(before / 2) if waiting else 2 * before), field
        seen.add(field)
    assert seen == set(fields) if fields is not None else len(seen) > 20
    assert not any("frequency" in field or "associativity" in field for field in seen)


def test_a_machine_that_cannot_be_better_is_left_out():
    little = load_machine("cortex-a53")  # without an L3
    assert better(little, np.random.default_rng(1), ["l3.size_kib"]) is None
    assert better(little, np.random.default_rng(1), ["core", "frequency_ghz"]) is None
    pairs = not_slower(40, 3, ["l3.size_kib"])
    with_l3 = sum(machine.l3 is not None for machine in sample(40, 3))
    assert 0 < len(pairs) == with_l3 < 40
    assert torch.equal(not_slower(40, 3, ["l3.size_kib"]), pairs)


def test_excess_is_the_share_of_the_time_that_is_too_much():
    pairs = torch.tensor([[[1.0, 2.0], [1.5, 1.0]], [[0.0, 1.0], [0.01, 1.0]]])
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    found = excess(torch.nn.Identity(), pairs, vectors)
    torch.testing.assert_close(found, torch.tensor([[0.5, 0.0], [0.2, 0.0]]))  # of 0.05 cycles at least


def test_the_shipped_encoder_has_few_better_machines_much_slower():
    model = shipped()
    vectors = torch.from_numpy(model.program_vectors[model.program_vectors.any(axis=1)]).float()
    with torch.no_grad():
        found = excess(model.encoder, not_slower(200, 77, SIZES), vectors)
    assert (found > 0.01).float().mean() < 0.05
    assert (found > 0.1).float().mean() < 0.005
