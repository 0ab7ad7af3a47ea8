"""One vector of a fixed length per candidate and device, for models that read no sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfvec.tensor.devices import DeviceScale
from tracegen.tensor.dataset import Device, Rows


def pooled(
    rows: Rows, candidates: NDArray[np.int64], scale: DeviceScale, devices: Sequence[Device], device: NDArray[np.int64]
) -> NDArray[np.float32]:
    """[n, 4·F + 1 + P]: sum, mean, largest and smallest of each feature over a candidate's rows, their number, and the
    parameters of its device, `devices[device[i]]`.
    """
    distinct, at = np.unique(candidates, return_inverse=True)
    length = rows.length[distinct]
    width = rows.values.shape[1]
    result = np.zeros((len(distinct), 4 * width + 1), np.float32)
    filled = np.flatnonzero(length)
    if len(filled):
        starts = np.concatenate([[0], np.cumsum(length[filled])])[:-1]
        begin = rows.offset[distinct[filled]]
        index = np.arange(int(length[filled].sum())) - np.repeat(starts - begin, length[filled])
        values = rows.values[index]
        total = np.add.reduceat(values, starts)
        result[filled, :width] = total
        result[filled, width : 2 * width] = total / length[filled, None]
        result[filled, 2 * width : 3 * width] = np.maximum.reduceat(values, starts)
        result[filled, 3 * width : 4 * width] = np.minimum.reduceat(values, starts)
    result[:, -1] = length
    return np.concatenate([result[at], scale.vectors(devices)[device]], axis=1)
