"""From a trace to its program vector: a stateful pass over parallel lanes with overlap.

A stretch of instructions is cut into consecutive lanes that run side by side through the LSTM, each after OVERLAP
instructions of its predecessor that only fill the state. So every instruction costs one step of the recurrence, the
lanes' sums add up to the stretch's, and memory is bounded by the stretch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.architectures import State
from perfvec.model import FoundationModel, Model
from perfvec.precision import forward, native_bf16
from perfvec.vector import ProgramVector
from tracegen.decode import decode
from tracegen.trace import Trace

LANES = 64
OVERLAP = 128  # as long as the longest warm-up in training
STRETCH = LANES * 4096  # instructions a stretch, and an interval of the program vector
_STEPS = 128  # steps whose inputs are expanded at once


@torch.no_grad()
def lane_sums(
    foundation: FoundationModel,
    static: NDArray[np.float32],
    static_id: NDArray[np.uint32],
    stored: NDArray,
    lead: int,
    *,
    lanes: int = LANES,
    bf16: bool = False,
) -> NDArray[np.float64]:
    """[lanes, d] sums of the representations of consecutive lanes of the instructions from `lead` on.

    `static` [S, static width], `static_id` [lead+n], `stored` [lead+n, columns]. The last lane may be shorter.
    """
    count = len(static_id) - lead
    length = -(-count // lanes)
    schema, device = foundation.schema, foundation.mean.device
    state: State | None = None
    sums = np.zeros((lanes, foundation.width))
    lane_begin = np.arange(lanes) * length
    overlap = min(OVERLAP, lead + length * (lanes - 1))
    for begin in range(-overlap, length, _STEPS):
        steps = np.arange(begin, min(begin + _STEPS, length))
        position = lane_begin[None, :] + steps[:, None]  # [T, lanes], counted from the first instruction that counts
        present = (position >= -lead) & (position < count)
        row = np.clip(position + lead, 0, len(static_id) - 1)
        x = torch.from_numpy(schema.expand(static, static_id[row], stored[row])).to(device)
        if not present.all():  # as in training: before the trace's start the input is its mean
            x = torch.where(torch.from_numpy(present).to(device)[..., None], x, foundation.mean)
        representation, state = forward(foundation, x, state, bf16)
        counted = torch.from_numpy(present & (steps[:, None] >= 0)).float().to(device)
        sums += torch.einsum("tbd,tb->bd", representation, counted).double().cpu().numpy()
    return sums


def stretches(model: Model, trace: Trace, *, stop: int | None = None) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """(number of instructions, [d] sum of their representations) of each stretch of the trace, in order."""
    instructions = decode(trace.address, trace.code, trace.isa)
    schema = model.schema
    extractor = schema.extractor(instructions)
    static = schema.static(instructions)
    bf16 = native_bf16()
    lead_id = np.empty(0, np.uint32)
    lead_stored = np.empty((0, len(schema.columns)), schema.dtype)
    for chunk in trace.chunks(STRETCH, stop=stop):
        static_id = np.concatenate([lead_id, chunk.static_id])
        stored = np.concatenate([lead_stored, extractor.extract(chunk)])
        sums = lane_sums(model.foundation, static, static_id, stored, len(lead_id), bf16=bf16)
        yield len(chunk), sums.sum(axis=0)
        lead_id, lead_stored = static_id[-OVERLAP:], stored[-OVERLAP:]


def represent(
    model: Model, trace: Trace | str | os.PathLike[str], *, max_instructions: int | None = None, progress: bool = True
) -> ProgramVector:
    """The vector of a whole trace (or of its first `max_instructions`), with one vector per interval."""
    if not isinstance(trace, Trace):
        with Trace(trace) as opened:
            return represent(model, opened, max_instructions=max_instructions, progress=progress)
    total = len(trace) if max_instructions is None else min(max_instructions, len(trace))
    intervals, counts = [], []
    bar = tqdm(
        total=total, unit="instr", unit_scale=True, desc=f"represent {trace.name}", disable=None if progress else True
    )
    with bar:
        for count, vector in stretches(model, trace, stop=total):
            intervals.append(vector)
            counts.append(count)
            bar.update(count)
    return ProgramVector(
        program=trace.name,
        isa=trace.isa,
        model=model.digest,
        trace_digest=trace.digest,
        instructions=sum(counts),
        vector=np.sum(intervals, axis=0),
        interval_instructions=np.array(counts, np.int64),
        interval_vectors=np.array(intervals),
    )
