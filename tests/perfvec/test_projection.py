"""The first layer by tables against the layer on expanded features."""

import numpy as np
import pytest
import torch

from perfvec.model import FoundationModel
from perfvec.precision import Rounded
from perfvec.projection import Projection
from perfvec.representation.represent import sequence_sums
from tracegen.features import get_schema

SCHEMA = get_schema("default")
STATIC, COUNT = 40, 700


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(4)
    foundation = FoundationModel(SCHEMA, 2, architecture="convolution", width=16, layers=2)
    foundation.mean.uniform_(0, 1)
    foundation.scale.uniform_(0.5, 2)
    return Rounded(foundation)


@pytest.fixture(scope="module")
def instructions():
    """static, static ids of which some are not used, stored: any numbers."""
    random = np.random.default_rng(5)
    static = random.random((STATIC, SCHEMA.static_width), np.float32)
    ids = random.choice(np.arange(0, STATIC, 3), COUNT).astype(np.uint32)
    return static, ids, random.integers(0, 256, (COUNT, len(SCHEMA.columns))).astype(np.uint8)


@torch.no_grad()
@pytest.mark.parametrize("hidden", [(), ("load", "lag", "fetch")])
def test_tables_add_up_to_the_layer(model, instructions, hidden):
    static, ids, stored = instructions
    schema = SCHEMA.without(hidden)
    first = model.architecture.first
    rows = np.array([[0, 5, -1], [COUNT - 1, 17, 5]])
    found = Projection(schema, first, model.mean).of(static, ids, stored)(rows)
    wanted = first(torch.from_numpy(schema.expand(static, ids[rows], stored[rows])))
    wanted[0, 2] = first(model.mean)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_sequences_by_tables_are_those_by_features(model, instructions, monkeypatch):
    """Those that begin before the first instruction too."""
    by_tables = sequence_sums(model, *instructions, 20, batch=3)
    monkeypatch.setattr(model, "projection", None)
    np.testing.assert_allclose(by_tables, sequence_sums(model, *instructions, 20, batch=3), rtol=1e-4, atol=1e-3)


@torch.no_grad()
def test_a_skip_connection_enters_by_the_same_tables(instructions):
    torch.manual_seed(6)
    trained = FoundationModel(SCHEMA, 2, architecture="mlp", width=16, layers=2, skip_connection=True)
    trained.mean.uniform_(0, 1)
    trained.scale.uniform_(0.5, 2)
    trained.skip_connection.weight.uniform_(-1, 1)
    by_tables = sequence_sums(Rounded(trained), *instructions, 20, batch=3)
    model = Rounded(trained)
    model.projection = None
    np.testing.assert_allclose(by_tables, sequence_sums(model, *instructions, 20, batch=3), rtol=1e-4, atol=1e-2)
    exact = sequence_sums(trained, *instructions, 20, batch=3)  # with weights that are not rounded
    np.testing.assert_allclose(by_tables, exact, rtol=0.02, atol=0.02 * np.abs(exact).max())


def test_numbers_of_other_types_have_no_tables():
    assert Projection.fits(SCHEMA) and not Projection.fits(get_schema("perfvec-51"))
