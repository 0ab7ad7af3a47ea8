"""Representation: from a trace to its program vector, a stateful pass over parallel sequences with overlap.

A chunk is cut into consecutive sequences that run side by side through the model as one batch, each after OVERLAP
instructions of its predecessor that only fill the state. So every instruction costs one step of the model, the
sequences' sums add up to the chunk's, and memory is bounded by the chunk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from perfvec.architectures import State
from perfvec.model import FoundationModel, Model
from perfvec.precision import Rounded, native_bf16, rounded
from perfvec.representation.contexts import PERFVEC_CONTEXT, context_sums
from perfvec.representation.device_features import DeviceFeatures
from perfvec.representation.kept_intervals import KeptIntervals
from perfvec.representation.memory import keep_freed_memory
from perfvec.representation.spread import spread
from perfvec.representation.vector import ProgramVector
from support.ahead import ahead
from support.progress import instruction_bar
from tracegen.formats.trace import Trace
from tracegen.qemu.stream import ProgramStream
from uarch.instructions import Chunk, StaticInstructions

INTERVAL = 1 << 18  # instructions of an interval of a program vector, which is a chunk of the pass
OVERLAP = 256  # as far as four convolutions of four taps look back; recurrent states forget sooner
TOGETHER = 32  # chunks side by side on a GPU, which the sequences of one do not fill
_RUNNING = 12  # chunks of a running program at once, at most: 75 MB each, and 2 GiB are there for all
_ROWS, _GPU_ROWS = 1 << 13, 1 << 19  # steps of all sequences whose inputs are made at once


@torch.inference_mode()
def representations(
    foundation: FoundationModel,
    static: NDArray[np.float32],
    static_id: NDArray[np.uint32],
    stored: NDArray,
    lead: int,
    *,
    batch: int | None = None,
    counted: int | None = None,
    bf16: bool = False,
    on_device: DeviceFeatures | None = None,
) -> Iterator[tuple[Tensor, NDArray[np.int64]]]:
    """Representations [T, batch, d] of the instructions from `lead` on, and which one each is [T, batch].

    They are numbered from 0 at `lead`; each comes once, and what only fills the state is -1. `static` [S, static
    width], `static_id` [lead+n], `stored` [lead+n, columns]. `batch`: sequences side by side, the architecture's number
    by default; the last one may be shorter. `counted`: only so many first instructions of each, all by default; what
    follows only fills the state of the next one. `on_device` expands the features where the model is; by default only
    a GPU does that. A rounded model on a processor needs no expanded features where it has a `projection`.
    """
    keep_freed_memory()
    schema, device = foundation.schema, foundation.mean.device
    batch = foundation.architecture.BATCH if batch is None else batch
    count = len(static_id) - lead
    length = -(-count // batch)
    if on_device is None and device.type != "cpu":
        on_device = DeviceFeatures(schema, static, device)
    if on_device is not None:
        on_device.load(static_id, stored)
    projected = None
    if on_device is None and isinstance(foundation, Rounded) and foundation.projection is not None:
        projected = foundation.projection.of(static, static_id, stored)
    run = length if counted is None else min(counted, length)
    state: State | None = None
    sequence_begin = np.arange(batch) * length
    overlap = min(OVERLAP, lead + length * (batch - 1)) if foundation.architecture.MEMORY else 0
    together = max(1, (_ROWS if device.type == "cpu" else _GPU_ROWS) // batch)
    for begin in range(-overlap, run, together):
        steps = np.arange(begin, min(begin + together, run))
        position = sequence_begin[None, :] + steps[:, None]
        present = (position >= -lead) & (position < count)
        counts = np.where(present & (steps[:, None] >= 0), position, -1)
        if projected is not None and isinstance(foundation, Rounded):
            entered = projected(np.where(present, position + lead, -1))
            representation, state = foundation.behind_first(entered, state, bf16=bf16)
            yield representation, counts
            continue
        row = np.clip(position + lead, 0, len(static_id) - 1)
        x = (
            torch.from_numpy(schema.expand(static, static_id[row], stored[row]))
            if on_device is None
            else on_device.expand(row)
        )
        if not present.all():  # as in training: before the trace's start the input is its mean
            x = torch.where(torch.from_numpy(present).to(device)[..., None], x, foundation.mean)
        representation, state = foundation(x, state, bf16=bf16)
        yield representation, counts


@torch.inference_mode()
def sequence_sums(
    foundation: FoundationModel,
    static: NDArray[np.float32],
    static_id: NDArray[np.uint32],
    stored: NDArray,
    lead: int,
    *,
    batch: int | None = None,
    counted: int | None = None,
    bf16: bool = False,
    on_device: DeviceFeatures | None = None,
) -> NDArray[np.float64]:
    """[batch, d] sums of the representations of consecutive sequences; arguments as of `representations`."""
    batch = foundation.architecture.BATCH if batch is None else batch
    sums = torch.zeros(batch, foundation.width, dtype=torch.float64, device=foundation.mean.device)
    for representation, position in representations(
        foundation, static, static_id, stored, lead, batch=batch, counted=counted, bf16=bf16, on_device=on_device
    ):
        counts = position >= 0
        if not counts.all():
            representation = representation * torch.from_numpy(counts).to(representation.device)[..., None]
        sums += representation.sum(dim=0).double()
    return sums.cpu().numpy()  # a GPU is waited for here, once


@dataclass(frozen=True)
class ChunkFeatures:
    """A chunk behind `lead` instructions that only fill the state: `static_id` [lead+n], `stored` [lead+n, columns]."""

    static_id: NDArray[np.uint32]
    stored: NDArray
    lead: int

    @property
    def count(self) -> int:
        return len(self.static_id) - self.lead


class Pass:
    """The stateful pass over a run's consecutive chunks: `add` gives the sum of a chunk's representations.

    It is `sums` of what `take` took in, which alone goes at the rate of feature extraction. Results depend on where
    chunks are cut. `windowed`: by `context_sums` instead, the slow reference.
    """

    def __init__(
        self,
        model: Model,
        instructions: StaticInstructions,
        *,
        windowed: bool = False,
        device_features: bool | None = None,
    ) -> None:
        self._foundation, self._schema = rounded(model.foundation), model.schema
        self._extractor = self._schema.extractor(instructions)
        self._static = self._schema.static(instructions)
        self.lead_id = np.empty(0, np.uint32)
        self._lead = np.empty((0, len(self._schema.columns)), self._schema.dtype)
        self._windowed = windowed
        self._before = PERFVEC_CONTEXT - 1 if windowed else OVERLAP  # instructions kept of what went by
        device = self._foundation.mean.device
        self._bf16 = native_bf16(device)
        self._expand_there = device.type != "cpu" if device_features is None else device_features
        self._on_device: DeviceFeatures | None = None

    def grow(self, instructions: StaticInstructions) -> None:
        """Go on with more static instructions, of which the ones so far are the first, unchanged."""
        if len(instructions) != len(self._static):
            self._extractor.grow(instructions)
            self._static = self._schema.static(instructions)
            self._on_device = None

    def add(self, chunk: Chunk) -> NDArray[np.float64]:
        """[d] of the next chunk."""
        return np.asarray(self.sums([self.take(chunk)])[0])

    def take(self, chunk: Chunk) -> ChunkFeatures:
        """The next chunk's features, for `sums`; where its sum is not wanted, at the rate of their extraction."""
        static_id = np.concatenate([self.lead_id, chunk.static_id])
        stored = np.concatenate([self._lead, self._extractor.extract(chunk)])
        self.lead_id, self._lead = static_id[-self._before :], stored[-self._before :]
        return ChunkFeatures(static_id, stored, len(static_id) - len(chunk))

    def sums(self, taken: Sequence[ChunkFeatures]) -> NDArray[np.float64]:
        """[chunks, d] of chunks that were taken: by a thread each, on a GPU with all their sequences side by side."""
        out = np.empty((len(taken), self._foundation.width))
        if self._expand_there and not self._windowed:
            # all but a run's last one
            alike = [index for index, one in enumerate(taken) if one.count == taken[0].count]
            out[alike] = self._side_by_side([taken[index] for index in alike])
            for index in sorted(set(range(len(taken))) - set(alike)):
                out[index] = self._side_by_side([taken[index]])[0]
            return out

        def one(index: int) -> None:
            ids, stored, lead = taken[index].static_id, taken[index].stored, taken[index].lead
            sums = context_sums if self._windowed else sequence_sums
            found = sums(self._foundation, self._static, ids, stored, lead, bf16=self._bf16)
            out[index] = found if self._windowed else found.sum(axis=0)

        spread(one, range(len(taken)))
        return out

    def _side_by_side(self, taken: Sequence[ChunkFeatures]) -> NDArray[np.float64]:
        """[chunks, d] of consecutive chunks of one length."""
        if self._on_device is None:
            self._on_device = DeviceFeatures(self._schema, self._static, self._foundation.mean.device)
        first, *more = taken
        static_id = np.concatenate([first.static_id, *(one.static_id[one.lead :] for one in more)])
        stored = np.concatenate([first.stored, *(one.stored[one.lead :] for one in more)])
        batch = self._foundation.architecture.BATCH
        sums = sequence_sums(
            self._foundation,
            self._static,
            static_id,
            stored,
            first.lead,
            batch=batch * len(taken),
            bf16=self._bf16,
            on_device=self._on_device,
        )
        return np.asarray(sums.reshape(len(taken), batch, -1).sum(axis=1))


def chunk_sums(
    model: Model, trace: Trace, *, stop: int | None = None, skip: int = 0, windowed: bool = False
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """(number of instructions, [d] sum of their representations) of each chunk of the trace, in order.

    The first `skip` chunks are left out, at the rate of feature extraction.
    """
    running = Pass(model, trace.static, windowed=windowed)
    chunks = trace.chunks(interval_size(windowed), stop=stop)
    for chunk in islice(chunks, skip):
        running.take(chunk)
    taken = ahead(running.take(chunk) for chunk in chunks)
    while group := list(islice(taken, _together(model))):
        yield from zip([one.count for one in group], running.sums(group), strict=True)


def _together(model: Model) -> int:
    """Chunks that are worked on at once."""
    return torch.get_num_threads() if model.foundation.mean.device.type == "cpu" else TOGETHER


def interval_size(windowed: bool) -> int:
    """Instructions of an interval: about as many seconds of work with contexts of their own as without."""
    return INTERVAL // PERFVEC_CONTEXT if windowed else INTERVAL


def represent(
    model: Model,
    trace: Trace | str | os.PathLike[str],
    *,
    max_instructions: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    windowed: bool = False,
    progress: bool = True,
) -> ProgramVector:
    """The vector of a whole trace (or of its first `max_instructions`), with one vector per interval.

    `checkpoint` is a file that keeps the intervals while the work goes on: where it is there already, of the same trace
    and model, the work continues, with the result that it would have had, bit by bit. The caller removes it.
    `windowed`: PerfVec's own evaluation, some 300 times slower (perfvec.representation.contexts).
    """
    if not isinstance(trace, Trace):
        with Trace(trace) as opened:
            return represent(
                model,
                opened,
                max_instructions=max_instructions,
                checkpoint=checkpoint,
                windowed=windowed,
                progress=progress,
            )
    total = len(trace) if max_instructions is None else min(max_instructions, len(trace))
    work = work_of(trace.digest, model, total, windowed=windowed)
    kept = KeptIntervals(checkpoint, work) if checkpoint else None
    intervals, counts = kept.read() if kept else ([], [])
    with instruction_bar(f"represent {trace.name}", total, progress) as bar:
        bar.update(sum(counts))
        for count, vector in chunk_sums(model, trace, stop=total, skip=len(counts), windowed=windowed):
            intervals.append(vector)
            counts.append(count)
            if kept:
                kept.keep(intervals, counts)
            _advance(bar, model, count, intervals, counts)
    return whole_vector(model, trace.name, trace.isa, trace.digest, intervals, counts)


def represent_file(
    model: Model,
    trace: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    max_instructions: int | None = None,
    windowed: bool = False,
) -> ProgramVector:
    """Write the vector of a trace to `output`, beside which a checkpoint (`.NAME.checkpoint`) lies until then."""
    output = Path(output)
    checkpoint = output.with_name(f".{output.name}.checkpoint")
    vector = represent(model, trace, max_instructions=max_instructions, checkpoint=checkpoint, windowed=windowed)
    vector.save(output)
    checkpoint.unlink(missing_ok=True)
    return vector


def represent_stream(model: Model, stream: ProgramStream, *, progress: bool = True) -> ProgramVector:
    """The vector of a program while it runs; nothing is written, memory does not grow with its length.

    It is bit by bit that of the program's trace. After Ctrl-C it is that of what was represented until then, and
    `stream.outcome` is None.
    """
    running = Pass(model, stream.instructions)
    intervals: list[NDArray[np.float64]] = []
    counts: list[int] = []
    with instruction_bar(f"represent {stream.program}", None, progress) as bar:
        waiting: list[ChunkFeatures] = []

        def work_off() -> None:
            intervals.extend(running.sums(waiting))
            counts.extend(one.count for one in waiting)
            _advance(bar, model, sum(counts[len(counts) - len(waiting) :]), intervals, counts)
            waiting.clear()

        for chunk in stream.chunks(INTERVAL):
            running.grow(stream.instructions)
            waiting.append(running.take(chunk))
            if stream.interrupted:  # what waits to be read may take longer than the user is ready to wait
                break
            if len(waiting) == min(_together(model), _RUNNING):
                work_off()
        if waiting:
            work_off()
    return whole_vector(model, stream.program, stream.isa, stream.digest, intervals, counts)


def work_of(digest: str, model: Model, total: int, *, windowed: bool = False) -> str:
    """Return the identity of the work that kept intervals belong to."""
    return f"{digest} {model.digest} dithered {total} {interval_size(windowed)}{' windowed' if windowed else ''}"


def reference_machine(model: Model) -> tuple[str, NDArray[np.float64]]:
    """Name and vector [d] of the machine that progress is told for: `base` where the model knows it."""
    known = model.machines + model.fitted_machines
    chosen = next((machine for machine in known if machine.name == "base"), known[0])
    return chosen.name, model.machine_vectors([chosen])[0][0]


def _advance(bar: tqdm, model: Model, count: int, intervals: list[NDArray[np.float64]], counts: list[int]) -> None:
    if not bar.disable:
        name, vector = reference_machine(model)
        bar.set_postfix_str(f"CPI on {name} {np.sum(intervals, axis=0) @ vector / sum(counts):.3f}", refresh=False)
    bar.update(count)


def whole_vector(
    model: Model, name: str, isa: str, digest: str, intervals: list[NDArray[np.float64]], counts: list[int]
) -> ProgramVector:
    """The vector of a whole run from its intervals' sums and instructions."""
    return ProgramVector(
        program=name,
        isa=isa,
        model=model.digest,
        trace_digest=digest,
        instructions=sum(counts),
        vector=np.sum(intervals, axis=0),
        interval_instructions=np.array(counts, np.int64),
        interval_vectors=np.array(intervals),
    )
