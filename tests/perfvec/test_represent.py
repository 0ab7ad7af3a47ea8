"""Representation: sequences with overlap against one sequential pass; parts add up; files of vectors and models."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from perfvec.model import FoundationModel, load_model, save_model
from perfvec.representation import represent as representing
from perfvec.representation.contexts import context_sums
from perfvec.representation.represent import represent, sequence_sums
from perfvec.representation.vector import load_vector
from support.errors import InputError
from tests.precision import with_bf16_lstm
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from uarch.configuration import replace_field
from uarch.machine_files import load_machine


def features(data):
    with Trace(data.traces / "qsort.trace.h5") as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        chunk = next(trace.chunks())
        schema = data.model.schema
        return schema.static(instructions), chunk.static_id, schema.extractor(instructions).extract(chunk)


@torch.no_grad()
def test_sequences_add_up_to_the_sequential_pass(data):
    static, ids, stored = features(data)
    foundation = data.model.foundation
    x = torch.from_numpy(data.model.schema.expand(static, ids[:, None], stored[:, None]))
    exact = foundation(x)[0].double().sum(dim=(0, 1)).numpy()
    alone = sequence_sums(foundation, static, ids, stored, 0, batch=1).sum(axis=0)
    assert np.allclose(alone, exact, rtol=1e-4, atol=1e-2)
    many = sequence_sums(foundation, static, ids, stored, 0, batch=32).sum(axis=0)
    table = data.model.table()
    assert np.allclose(table @ many, table @ exact, rtol=0.005)  # the overlap forgets a little


@torch.no_grad()
def test_a_sum_of_contexts_is_of_every_one_by_itself(data):
    static, ids, stored = features(data)
    foundation, context, lead, n = data.model.foundation, 16, 5, 150  # more contexts than run side by side
    x = torch.from_numpy(data.model.schema.expand(static, ids[: lead + n, None], stored[: lead + n, None]))
    x = torch.cat([foundation.mean.expand(context, 1, -1), x])  # before the first instruction, the mean
    ends = range(context + lead + 1, context + lead + n + 1)
    exact = sum(foundation(x[end - context : end])[0][-1, 0].double() for end in ends).numpy()
    sums = context_sums(foundation, static, ids[: lead + n], stored[: lead + n], lead, context=context)
    assert np.allclose(sums, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_windowed_vector_differs_by_what_the_state_carries_only(data):
    trace = data.traces / "qsort.trace.h5"
    reference = represent(data.model, trace, max_instructions=1500, windowed=True, progress=False)
    stateful = represent(data.model, trace, max_instructions=1500, progress=False)
    assert reference.interval_instructions.tolist() == [1024, 476]
    assert not (reference.vector == stateful.vector).all()
    table = data.model.table()
    assert np.allclose(table @ reference.vector, table @ stateful.vector, rtol=0.02)


@with_bf16_lstm
@torch.no_grad()
@pytest.mark.parametrize("layers", [1, 2])
def test_bfloat16_predicts_what_float32_does(data, layers):
    static, ids, stored = features(data)
    torch.manual_seed(0)
    foundation = data.model.foundation if layers == 1 else FoundationModel(data.model.schema, 4, width=32, layers=2)
    part = (static, ids[:6000], stored[:6000], 0)
    exact, rounded = (sequence_sums(foundation, *part, bf16=bf16) for bf16 in (False, True))
    head = np.abs(foundation.head.weight.double().numpy())  # so that no prediction is near zero by cancelling
    assert not (exact == rounded).all()
    assert np.allclose(head @ np.abs(rounded.sum(axis=0)), head @ np.abs(exact.sum(axis=0)), rtol=0.005)


def test_every_instruction_counts_once(data):
    """The sum of a constant representation is the number of instructions, whatever the sequences and the lead."""
    static, ids, stored = features(data)

    class Constant(torch.nn.Module):
        schema, width, architecture = data.model.schema, 1, data.model.foundation.architecture
        mean, scale = data.model.foundation.mean, data.model.foundation.scale

        def forward(self, x, state=None, *, bf16=False):
            return torch.ones(*x.shape[:2], 1), state

    for batch in (1, 7, 64):
        for lead in (0, 5, 300):
            sums = sequence_sums(Constant(), static, ids[:5000], stored[:5000], lead, batch=batch)
            assert sums.sum() == 5000 - lead


def test_intervals_add_up_and_a_file_round_trips(data, tmp_path, monkeypatch):
    monkeypatch.setattr(representing, "INTERVAL", 9000)
    vector = represent(data.model, data.traces / "matmul.trace.h5", progress=False)
    assert vector.interval_instructions.sum() == vector.instructions == 60_000
    assert np.allclose(vector.interval_vectors.sum(axis=0), vector.vector)
    vector.save(tmp_path / "v.vector.npz")
    again = load_vector(tmp_path / "v.vector.npz")
    assert (again.program, again.model, again.instructions) == ("matmul", data.model.digest, 60_000)
    assert (again.vector == vector.vector).all()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"not a vector"])
def test_a_broken_vector_is_one_line(tmp_path, content):
    path = tmp_path / "v.vector.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"v\.vector\.npz"):
        load_vector(path)


def test_a_model_round_trips(data, tmp_path):
    save_model(data.model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    assert again.machines == data.model.machines
    assert again.programs == data.model.programs
    assert (again.table() == data.model.table()).all()
    machine = replace_field(load_machine("zen2"), "l2.size_kib", 256)
    assert (again.encoder.vectors([machine]) == data.model.encoder.vectors([machine])).all()


def test_seen_machines_come_from_the_table_whatever_their_name(data):
    renamed = replace(data.machines[1], name="another-name")
    vectors, origin = data.model.machine_vectors([renamed, load_machine("zen4")])
    assert origin == ["table", "encoder"]
    assert (vectors[0] == data.model.table()[1]).all()


@pytest.mark.parametrize(
    ("key", "value"), [("schema", "other/1"), ("schema", "default/99"), ("version", "9"), ("format", "x")]
)
def test_a_model_of_another_kind_is_one_line(data, tmp_path, key, value):
    from safetensors import safe_open

    with safe_open(data.model_file, framework="pt") as file:
        metadata = dict(file.metadata())
    metadata[key] = value
    path = tmp_path / "m.safetensors"
    save_file(load_file(data.model_file), path, metadata)
    with pytest.raises(InputError) as error:
        load_model(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_model_is_bound_to_its_weights(data, tmp_path):
    path = tmp_path / "m.safetensors"
    content = bytearray(data.model_file.read_bytes())
    tensors = 8 + int.from_bytes(content[:8], "little")
    for place in np.random.default_rng(1).integers(tensors, len(content), 20).tolist():
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"m\.safetensors: damaged"):
            load_model(path)


def test_the_digest_is_of_the_content_however_it_lies_in_the_file(data, tmp_path):
    digests = set()
    for number in range(4):  # the order of the metadata in the file is another each time
        save_model(data.model, tmp_path / f"{number}.safetensors")
        digests.add(load_model(tmp_path / f"{number}.safetensors").digest)
    assert len(digests) == 1


def test_a_calibration_of_other_weights_is_told(tmp_path):
    shipped = load_model()
    other = replace(shipped, recipe={"another": 1})  # whose calibration says that it is of the shipped one
    save_model(other, tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="the calibration is of other weights"):
        load_model(tmp_path / "m.safetensors")


def test_weights_that_are_no_numbers_are_told(data, tmp_path):
    foundation = copy.deepcopy(data.model.foundation)
    with torch.no_grad():
        next(foundation.parameters()).view(-1)[0] = float("nan")
    save_model(replace(data.model, foundation=foundation), tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="not all finite numbers"):
        load_model(tmp_path / "m.safetensors")


def test_a_truncated_model_is_one_line(data, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(data.model_file.read_bytes()[:1000])
    with pytest.raises(InputError, match="truncated"):
        load_model(path)
