"""Padding and batches."""

from __future__ import annotations

import numpy as np
import pytest

from perfvec.tensor.batches import pad, prediction_batches, training_batches
from perfvec.tensor.devices import fit_devices
from perfvec.tensor.models.pooled import pooled
from tracegen.tensor.dataset import Device, Rows

ROWS = Rows(np.arange(10, dtype=np.float32).reshape(5, 2), np.array([0, 2, 2, 5]), np.array([3, 7, 1, 4, 9], np.int32))


def test_pad_keeps_rows_in_order_and_zeroes_the_rest():
    x, mask, position = pad(ROWS, np.array([2, 0]), 64)
    assert x.tolist() == [[[4, 5], [6, 7], [8, 9]], [[0, 1], [2, 3], [0, 0]]]
    assert mask.tolist() == [[True, True, True], [True, True, False]]
    assert position.tolist() == [[1, 4, 9], [3, 7, 0]]


def test_pad_cuts_long_candidates_and_gives_empty_ones_a_row():
    x, mask, _ = pad(ROWS, np.array([2, 1]), 2)
    assert x.tolist() == [[[4, 5], [6, 7]], [[0, 0], [0, 0]]]
    assert mask.tolist() == [[True, True], [True, False]]


def test_positions_count_rows_where_the_group_has_none():
    assert pad(Rows(ROWS.values, ROWS.offset), np.array([2]), 64)[2].tolist() == [[0, 1, 2]]


def test_training_batches_have_every_record_once_and_company_for_each():
    group = np.repeat(np.arange(7), 30)
    batches = list(training_batches(group, np.ones(210, np.int64), 40, 10, np.random.default_rng(0)))
    assert sorted(np.concatenate(batches).tolist()) == list(range(210))
    for batch in batches:
        assert np.bincount(group[batch])[np.unique(group[batch])].min() >= 10


def test_prediction_batches_put_like_lengths_together():
    batches = list(prediction_batches(np.array([5, 1, 5, 1]), 2))
    assert [batch.tolist() for batch in batches] == [[1, 3], [0, 2]]


def test_pooled_by_hand():
    scale = fit_devices([Device("a", {"cores": 1}), Device("b", {"cores": 3})])
    found = pooled(ROWS, np.array([2, 1, 0]), scale, [Device("b", {"cores": 3})], np.zeros(3, np.int64))
    assert found[0].tolist() == pytest.approx([18, 21, 6, 7, 8, 9, 4, 5, 3, 1.0])
    assert found[1].tolist() == pytest.approx([0] * 9 + [1.0])
    assert found[2].tolist() == pytest.approx([2, 4, 1, 2, 2, 3, 0, 1, 2, 1.0])


def test_device_vectors_are_standard_and_shared_or_missing_parameters_say_nothing():
    devices = [Device("a", {"cores": 1, "l1": 32, "name": "x"}), Device("b", {"cores": 3, "l1": 32})]
    scale = fit_devices(devices)
    assert scale.names == ("cores",)
    assert scale.vectors([*devices, Device("c", {})])[:, 0].tolist() == pytest.approx([-1.0, 1.0, 0.0])
