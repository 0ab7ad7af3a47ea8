"""Computations of a GPU, on the processor: features from tables, many sequences; and the weights of both precisions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from perfvec.model import FoundationModel, load_model
from perfvec.precision import Rounded, rounded
from perfvec.representation import represent as representing
from perfvec.representation.device_features import DeviceFeatures
from perfvec.representation.represent import Pass, represent, sequence_sums
from tests.precision import with_bf16_lstm
from tracegen.decode import decode
from tracegen.features import get_schema
from tracegen.formats.trace import Trace
from tracegen.suite import run

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["default", "perfvec-51"])
def test_features_are_those_of_the_schema(data, name):
    schema = get_schema(name)
    with Trace(data.traces / "qsort.trace.h5") as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        chunk = next(trace.chunks(5000))
    static, stored = schema.static(instructions), schema.extractor(instructions).extract(chunk)
    row = np.random.default_rng(0).integers(0, 5000, (7, 300))
    there = DeviceFeatures(schema, static, CPU)
    there.load(chunk.static_id, stored)
    assert np.array_equal(there.expand(row).numpy(), schema.expand(static, chunk.static_id[row], stored[row]))


@pytest.mark.parametrize("bf16", [False, pytest.param(True, marks=with_bf16_lstm)])
def test_sequences_with_features_of_the_device(data, bf16):
    with Trace(data.traces / "qsort.trace.h5") as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        chunk = next(trace.chunks(10_000))
    schema, foundation = data.model.schema, rounded(data.model.foundation)
    static, stored = schema.static(instructions), schema.extractor(instructions).extract(chunk)
    there = DeviceFeatures(schema, static, CPU)
    given = (foundation, static, chunk.static_id, stored, 100)
    assert np.array_equal(sequence_sums(*given, bf16=bf16), sequence_sums(*given, bf16=bf16, on_device=there))


@pytest.mark.slow
def test_chunks_side_by_side_are_those_one_by_one(data, monkeypatch):
    """The whole pass as a GPU makes it: chunks' sequences in one product, features from tables."""
    monkeypatch.setattr(representing, "INTERVAL", 8192)
    with Trace(data.traces / "qsort.trace.h5") as trace:
        alone = represent(data.model, trace, progress=False)
        instructions = decode(trace.address, trace.code, trace.isa)
        chunks = list(trace.chunks(8192))
    running = Pass(data.model, instructions, device_features=True)
    found = running.sums([running.take(chunk) for chunk in chunks[:5]])
    assert found.shape == (5, data.model.foundation.width)
    table = data.model.table()
    assert np.allclose(table @ found.T, table @ alone.interval_vectors[:5].T, rtol=1e-4)
    after = running.add(chunks[5])  # goes on where the five ended
    assert np.allclose(table @ after, table @ alone.interval_vectors[5], rtol=1e-4)
    assert len(running.lead_id) == 256


@torch.no_grad()
@pytest.mark.parametrize("architecture", ["lstm", "convolution", "mlp"])
def test_a_rounded_model_differs_by_the_rounding_of_its_weights(data, architecture):
    trained = data.model.foundation
    if architecture != trained.shape["architecture"]:
        torch.manual_seed(1)
        other = FoundationModel(trained.schema, 3, architecture=architecture, width=32, layers=3)
        other.mean.copy_(trained.mean)
        other.scale.copy_(trained.scale)
        trained = other.eval()
    made = rounded(trained)
    assert isinstance(made, Rounded)
    for weight in made.architecture.parameters():
        assert torch.equal(weight, weight.bfloat16().float())
    x = trained.mean + torch.randn(50, 3, trained.schema.width) / trained.scale.clamp(1, 10)
    one, other = trained(x)[0], made(x)[0]
    assert not torch.equal(one, other)
    assert (one - other).abs().max() < 0.05 * max(1.0, float(one.abs().max()))


def test_what_cannot_take_unnormalised_features_is_left_as_it_is(data):
    trained = FoundationModel(data.model.schema, 3, width=16, layers=1, architecture="linear")
    assert rounded(trained) is trained


@with_bf16_lstm
@torch.no_grad()
def test_bfloat16_predicts_what_float32_does_of_a_recurring_loop(tmp_path):
    """Rounding does not average out where a program repeats a few instructions."""
    run(["k_chase"], tmp_path, 65_536, progress=False)
    model = load_model()
    foundation = rounded(model.foundation)
    with Trace(tmp_path / "k_chase.trace.h5") as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        chunk = next(trace.chunks(65_536))
    static, stored = model.schema.static(instructions), model.schema.extractor(instructions).extract(chunk)
    exact, half = (
        model.table() @ sequence_sums(foundation, static, chunk.static_id, stored, 0, bf16=bf16).sum(axis=0)
        for bf16 in (False, True)
    )
    assert 0 < np.abs(half / exact - 1).max() < 0.001
