"""A pool of sampling units of a run: the units' signatures, and the features of some units drawn at random.

One pass over the run is enough, whatever its length: every unit has the same chance to be in the pool when the run
ends, and features are exact, as every instruction is seen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perfvec.model import Model
from perfvec.precision import native_bf16, rounded
from perfvec.representation.represent import OVERLAP, sequence_sums
from perfvec.representation.signatures import Reservoir, UnitSignatures
from perfvec.representation.spread import spread
from support.jit import cached
from tracegen.live_points._core import TakeAll
from tracegen.live_points.live_points import UNIT
from tracegen.live_points.recording import Recording
from uarch.instructions import Chunk, StaticInstructions

CAPACITY = 1 << 14  # units in the pool: 340 MB of features
SIMULATED = 3 << 10  # where they get features afterwards, from a simulation: 150 MB, and as much of what is simulated
_SEQUENCE = OVERLAP + UNIT
_TOGETHER = 16  # rows


@cached(nogil=True)
def _unit_means(stored: NDArray, unit: int, sums: NDArray[np.unsignedinteger], out: NDArray[np.float32]) -> None:
    """Mean of each column over each of consecutive units; `sums` are of some rows at once, a loop that vectorises."""
    columns, together = stored.shape[1], len(sums)
    flat = stored.reshape(-1)
    for k in range(len(out)):
        sums[:] = 0
        for begin in range(k * unit * columns, (k + 1) * unit * columns, together):
            rows = flat[begin : begin + together]
            for place in range(len(sums)):
                sums[place] += rows[place]
        for column in range(columns):
            total = np.int64(0)
            for place in range(column, together, columns):
                total += np.int64(sums[place])
            out[k, column] = total / unit


def unit_means(stored: NDArray) -> NDArray[np.float32]:
    """[n, columns] the mean of each column over each of the n whole units in `stored`."""
    out = np.empty((len(stored) // UNIT, stored.shape[1]), np.float32)
    # UNIT / _TOGETHER bytes add up to 16 bits at most: four times as many sums in a vector as of 64 bits
    sums = np.empty(_TOGETHER * stored.shape[1], np.uint16 if stored.dtype == np.uint8 else np.uint64)
    _unit_means(np.ascontiguousarray(stored), UNIT, sums, out)
    return out


class Listed:
    """Slots for units that are known beforehand, in ascending order."""

    def __init__(self, units: NDArray[np.int64]) -> None:
        self.units = units

    def slots(self, first: int, count: int) -> NDArray[np.int64]:
        """Slots, as of Reservoir."""
        slot = np.full(count, -1, np.int64)
        begin, end = np.searchsorted(self.units, [first, first + count])
        slot[self.units[begin:end] - first] = np.arange(begin, end)
        return slot


class Pool:
    """Fed with the chunks of one run in order (`observe`).

    `unit` [P] are the numbers of the units in the pool, unit u being instructions u·UNIT … ; what is left at the run's
    end is not a unit but `remainder` instructions. A pool without a Reservoir has no signatures. With one it also has
    the units with by far the most accesses (`take_all`), which no random sample stands for: one string operation takes
    as long as hundreds of other units.

    Where the schema gives columns only `afterwards`, units get them when the first one is represented: nothing can be
    observed from then on.
    """

    def __init__(
        self, model: Model, instructions: StaticInstructions, slots: Reservoir | Listed, *, signatures: bool = True
    ) -> None:
        self._foundation, self._schema = rounded(model.foundation), model.schema
        self._along = self._schema.along
        self.extractor = self._along.extractor(instructions)
        self._recording = None if self._along is self._schema else _recording(instructions, slots)
        self._instructions = instructions
        self.unit_signatures: UnitSignatures | None = None
        if signatures and isinstance(slots, Reservoir):
            self.unit_signatures = UnitSignatures(instructions, UNIT, slots.seed)
        self._static = self._schema.static(instructions)
        self._slots = slots
        self.ids = np.empty((0, _SEQUENCE), np.uint32)
        self.stored = np.empty((0, _SEQUENCE, len(self._schema.columns)), self._schema.dtype)
        self._unit = np.empty(0, np.int64)
        # What the next unit needs: the instructions before it and those of it that are there.
        self._tail_id = np.zeros(OVERLAP, np.uint32)
        self._tail = np.zeros((OVERLAP, len(self._along.columns)), self._schema.dtype)
        self._members = TakeAll()
        self._taken: dict[int, tuple[NDArray[np.uint32], NDArray]] = {}  # what slots hold of each
        self._accesses = 0  # of the open unit so far
        self.units = 0
        self.instructions = 0
        self._bf16 = native_bf16(self._foundation.mean.device)

    def grow(self, instructions: StaticInstructions) -> None:
        """Go on with more static instructions, of which the ones so far are the first, unchanged."""
        if len(instructions) != len(self._static):
            self.extractor.grow(instructions)
            self._static = self._schema.static(instructions)
            self._instructions = instructions
            if self._recording is not None:
                self._recording.grow(instructions)
            if self.unit_signatures is not None:
                self.unit_signatures.grow(instructions)

    @property
    def unit(self) -> NDArray[np.int64]:
        return self._unit[: self._filled]

    @property
    def take_all(self) -> NDArray[np.int64]:
        """[k] numbers of the units that are in the pool whatever is drawn, ascending."""
        return self._members.units()

    @property
    def remainder(self) -> int:
        return len(self._tail_id) - OVERLAP

    @property
    def _filled(self) -> int:
        return int((self._unit >= 0).sum())

    def observe(self, chunk: Chunk, stored: NDArray | None = None) -> None:
        """The next chunk (without gaps); `stored`: what `extractor` made of it, where that was called already."""
        if self._recording is not None:
            self._recording.observe(chunk)
        stored = self.extractor.extract(chunk) if stored is None else stored
        inside = self.remainder  # of the open unit, all in the tail
        count = (inside + len(chunk)) // UNIT
        # Only the first units, or what runs before them, reach back into the tail: the chunk itself is not copied.
        near = 2 * UNIT
        ids_near = np.concatenate([self._tail_id, chunk.static_id[:near]])
        stored_near = np.concatenate([self._tail, stored[:near]])
        if self.unit_signatures is not None:
            one = unit_means(stored_near[OVERLAP : OVERLAP + UNIT * min(count, 1)])
            others = unit_means(stored[UNIT - inside : max(count, 1) * UNIT - inside])
            self.unit_signatures.add(chunk, np.concatenate([one, others]))
        slots = self._slots.slots(self.units, count)
        self._reserve(int(slots.max(initial=-1)) + 1)
        before = len(self._tail_id)

        def sequence(k: int) -> tuple[NDArray[np.uint32], NDArray]:
            begin = k * UNIT
            if begin + _SEQUENCE <= len(ids_near):
                return ids_near[begin : begin + _SEQUENCE], stored_near[begin : begin + _SEQUENCE]
            part = slice(begin - before, begin - before + _SEQUENCE)
            return chunk.static_id[part], stored[part]

        for k in np.flatnonzero(slots >= 0).tolist():
            self._put(slots[k], self.units + k, *sequence(k))
        self._see(chunk, inside, count)
        members = self.take_all
        self._taken = {unit: self._taken[unit] for unit in self._taken if unit in members}
        for unit in members[members >= self.units].tolist():
            ids, numbers = sequence(unit - self.units)
            self._taken[unit] = ids.copy(), numbers.copy()
        begin = count * UNIT - before
        if begin >= 0:
            self._tail_id, self._tail = chunk.static_id[begin:].copy(), stored[begin:].copy()
        else:
            self._tail_id, self._tail = ids_near[count * UNIT :].copy(), stored_near[count * UNIT :].copy()
        self.units += count
        self.instructions += len(chunk)

    def _put(self, slot: int, unit: int, ids: NDArray[np.uint32], numbers: NDArray) -> None:
        self.ids[slot], self._unit[slot] = ids, unit
        self.stored[slot, :, : numbers.shape[1]] = numbers

    def _see(self, chunk: Chunk, inside: int, count: int) -> None:
        """Look for units with many accesses among the `count` that end in this chunk."""
        if isinstance(self._slots, Listed):
            return
        ends = chunk.access_offset[UNIT * np.arange(1, count + 1) - inside] - chunk.access_offset[0]
        accesses = np.diff(ends, prepend=-self._accesses)
        self._accesses += int(chunk.access_offset[-1] - chunk.access_offset[0] - accesses.sum())
        if self._recording is not None and inside and count:
            accesses[0] = 0  # the recorder looks for them in one chunk: it has none of two
        self._members.see(self.units, accesses)

    def _reserve(self, count: int) -> None:
        have = len(self._unit)
        if count <= have:
            return
        room = max(count, 8 * have)  # what was not written yet takes no memory
        for name in ("ids", "stored"):
            old = getattr(self, name)
            new = np.empty((room, *old.shape[1:]), old.dtype)
            new[:have] = old
            setattr(self, name, new)
        self._unit = np.append(self._unit, np.full(room - have, -1, np.int64))

    def signatures(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Numbers [m] of units, among them the pool's, and their signatures [m, p]: `UnitSignatures.table`."""
        assert self.unit_signatures is not None
        return self.unit_signatures.table(len(self._along.columns))

    @property
    def complete(self) -> bool:
        """Return whether units have all their features."""
        return self._recording is None

    def _complete(self) -> None:
        taken = [unit for unit in self._taken if unit not in self.unit]
        filled = self._filled
        self._reserve(filled + len(taken))
        for slot, unit in enumerate(taken, filled):
            self._put(slot, unit, *self._taken[unit])
        self._taken = {}
        recording, self._recording = self._recording, None
        if recording is None:
            return
        order = np.argsort(self.unit)
        pieces = recording.finish(self.unit[order])
        counted = np.flatnonzero(pieces.counted)
        # All that have their warm-up: not the run's first unit, nor the first of a chunk that is in whatever is drawn.
        led = (counted > 0) & (pieces.unit[counted - 1] + 1 == pieces.unit[counted])
        lead = min(OVERLAP, self.instructions - self.remainder)
        last = recording.last(lead + self.remainder)
        tail = np.zeros((len(self._tail), len(self._schema.columns)), self._schema.dtype)
        tail[:, : self._tail.shape[1]] = self._tail
        for first, numbers in self._schema.afterwards(self._instructions, pieces, last, recording.divisions()):
            columns = slice(first, first + numbers.shape[1])
            of_pieces = numbers[: len(numbers) - len(last)].reshape(len(pieces), UNIT, numbers.shape[1])
            self.stored[order, OVERLAP:, columns] = of_pieces[counted]
            self.stored[order[led], :OVERLAP, columns] = of_pieces[counted[led] - 1, -OVERLAP:]
            self.stored[order[~led], :OVERLAP, columns] = 0
            tail[OVERLAP - lead :, columns] = numbers[len(numbers) - len(last) :]
        self._tail = tail

    def represent(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """[n, d] vectors of the units in these slots of the pool, each after OVERLAP instructions of warm-up."""
        if not self.complete:
            self._complete()
        out = np.empty((len(slots), self._foundation.width))
        order = np.argsort(self._unit[slots], kind="stable")  # the run's first unit, which has no warm-up, comes first

        def together(rows: NDArray[np.int64]) -> None:
            ids, stored = self.ids[slots[rows]].reshape(-1), self.stored[slots[rows]]
            stored = stored.reshape(-1, stored.shape[-1])
            lead = OVERLAP
            if self._unit[slots[rows[0]]] == 0:
                ids, stored, lead = ids[OVERLAP:], stored[OVERLAP:], 0
            # What follows a sequence's unit is the next one's warm-up; behind the last one, anything.
            ids, stored = np.append(ids, ids[:OVERLAP]), np.append(stored, stored[:OVERLAP], axis=0)
            out[rows] = self._sequence_sums(ids, stored, lead, len(rows), UNIT)

        batch = self._foundation.architecture.BATCH
        spread(together, [order[begin : begin + batch] for begin in range(0, len(order), batch)])
        return out

    def represent_remainder(self) -> NDArray[np.float64]:
        """[d] of the instructions behind the last unit. Nothing is observed from then on; `unit` has `take_all` now."""
        self._complete()
        if self.remainder == 0:
            return np.zeros(self._foundation.width)
        lead = min(OVERLAP, self.instructions - self.remainder)
        begin = OVERLAP - lead
        return self._sequence_sums(self._tail_id[begin:], self._tail[begin:], lead, 1, None)[0]

    def _sequence_sums(
        self, ids: NDArray[np.uint32], stored: NDArray, lead: int, batch: int, counted: int | None
    ) -> NDArray[np.float64]:
        return sequence_sums(
            self._foundation, self._static, ids, stored, lead, batch=batch, counted=counted, bf16=self._bf16
        )


def _recording(instructions: StaticInstructions, slots: Reservoir | Listed) -> Recording:
    if isinstance(slots, Listed):
        return Recording(instructions, listed=slots.units.tolist())
    return Recording(instructions, capacity=slots.capacity, seed=slots.seed)
