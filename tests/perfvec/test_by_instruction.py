"""Sums of representations by group add up to the program vector, however the instructions are grouped."""

import numpy as np
import pytest
import torch

from perfvec.model import FoundationModel, Model
from perfvec.representation.by_instruction import GroupedSums
from perfvec.representation.represent import represent
from perfvec.representation.sums import Sums
from tests.conftest import KERNELS
from tracegen.decode import decode
from tracegen.features import get_schema
from tracegen.formats.trace import CHUNK, Trace
from tracegen.qemu import Execution, trace
from tracegen.suite.inputs import compile_c
from uarch.machine_files import load_machine


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A model with random weights, and a trace whose length no sequence divides."""
    folder = tmp_path_factory.mktemp("grouped")
    compile_c(KERNELS / "qsort.c", folder / "qsort", ["-static"])
    execution = Execution([str(folder / "qsort"), "300"], stdout=2, max_instructions=10_007)
    trace(execution, folder / "q.trace.h5", progress=False)
    torch.manual_seed(1)
    foundation = FoundationModel(get_schema("default"), 1, width=16, layers=1).eval()
    with Trace(folder / "q.trace.h5") as opened:
        yield Model(foundation, (load_machine("base"),), ()), opened, decode(opened.address, opened.code, opened.isa)


def by_static(chunk):
    return chunk.static_id.astype(np.int64)


def by_place(chunk):
    return np.arange(chunk.start, chunk.start + len(chunk))


def grouped_sums(case, *groupings, size=CHUNK, stop=None):
    model, opened, instructions = case
    adding = GroupedSums(model, instructions, len(groupings))
    for chunk in opened.chunks(size, stop=stop):
        adding.add(chunk, [grouping(chunk) for grouping in groupings])
    return adding.sums()


@pytest.mark.parametrize("chunk", [None, 3_000])
def test_groups_add_up_to_the_vector(case, chunk, monkeypatch):
    model, opened, _ = case
    if chunk:
        monkeypatch.setattr("perfvec.representation.represent.INTERVAL", chunk)
    whole = represent(model, opened, progress=False)
    statics, halves = grouped_sums(case, by_static, lambda chunk: by_place(chunk) // 5_000, size=chunk or CHUNK)
    np.testing.assert_allclose(statics.vectors.sum(axis=0), whole.vector, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(halves.vectors.sum(axis=0), whole.vector, rtol=1e-5, atol=1e-4)
    assert halves.instructions.tolist() == [5_000, 5_000, 7]


def test_each_instruction_is_in_its_group(case):
    _, opened, _ = case
    (statics,) = grouped_sums(case, by_static)
    executed = np.concatenate([chunk.static_id for chunk in opened.chunks()])
    counts = np.bincount(executed, minlength=len(statics.instructions))
    assert statics.instructions.tolist() == counts.tolist()
    assert not statics.vectors[counts == 0].any()

    # every instruction in a group of its own
    (each,) = grouped_sums(case, by_place)
    expected = np.zeros_like(statics.vectors)
    np.add.at(expected, executed, each.vectors)
    np.testing.assert_allclose(statics.vectors, expected, rtol=1e-9, atol=1e-9)


def test_only_the_first_instructions(case):
    model, opened, _ = case
    (sums,) = grouped_sums(case, by_static, stop=1_000)
    assert sums.instructions.sum() == 1_000
    whole = represent(model, opened, max_instructions=1_000, progress=False)
    np.testing.assert_allclose(sums.vectors.sum(axis=0), whole.vector, rtol=1e-5, atol=1e-4)


def test_merging_by_hand():
    merged = Sums(np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([1, 2, 3])).merge(np.array([2, 0, 2]), 4)
    assert merged.vectors.tolist() == [[3, 4], [0, 0], [6, 8], [0, 0]]
    assert merged.instructions.tolist() == [2, 0, 4, 0]
