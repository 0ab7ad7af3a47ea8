"""Vectors of whole windows, with the foundation model frozen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perfvec.model import FoundationModel
from perfvec.precision import native_bf16
from perfvec.representation.represent import sequence_sums
from perfvec.training.data import Shard

_LEAD = 128  # instructions before a window that fill the state, where there are any
_SEQUENCES = 8  # of a window: its warm-up is to be less than what counts


def window_vector(foundation: FoundationModel, shard: Shard, begin: int, count: int) -> NDArray[np.float64]:
    """Return the vector [d] of `count` instructions of a shard from `begin` on: the sum of theirs."""
    first = begin + shard.lead
    lead = min(first, _LEAD)
    rows = slice(first - lead, first + count)
    ids, stored = np.asarray(shard.static_id[rows]), np.asarray(shard.stored[rows])
    return sequence_sums(foundation, shard.static, ids, stored, lead, batch=_SEQUENCES, bf16=native_bf16()).sum(axis=0)
