"""Live-points of a trace or of a running program, in one pass over it."""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, replace
from typing import Any

import numpy as np

from support.errors import InputError
from support.progress import instruction_bar
from tracegen.formats.trace import Trace
from tracegen.live_points import LEAST_UNITS, UNITS, _core
from tracegen.live_points.divisions import DivisionCounter, DivisionSteps
from tracegen.live_points.live_points import LivePoints, Pieces
from tracegen.live_points.origins import Origins
from tracegen.live_points.sampling import Drawn, Sample, draw
from tracegen.live_points.simulate import MEASURED_ON, LivePointsSimulator
from tracegen.live_points.system_calls import SystemCallCounter, SystemCallCounts
from tracegen.qemu.stream import ProgramStream
from uarch.instructions import LAST, Chunk, Operation, StaticInstructions
from uarch.machine_files import load_machine

_POOL = 1536  # units that are held of a run, at least; up to twice as many
_SIGNATURES = 1 << 16  # units that are known by what they are like, at least
_BRANCHES = 49152  # for a unit, at most
AHEAD = 4  # chunks that are read before they are recorded
# Cycles of a simple machine's operations; one where none is named. They tell units apart and are in no result.
_LATENCY = {
    Operation.INT_MUL: 3,
    Operation.INT_DIV: 12,
    Operation.FP_ADD: 4,
    Operation.FP_MUL: 4,
    Operation.FP_FMA: 4,
    Operation.FP_DIV: 13,
    Operation.FP_SQRT: 16,
    Operation.FP_MISC: 20,
    Operation.SIMD_MUL: 4,
    Operation.SIMD_FP_ADD: 4,
    Operation.SIMD_FP_MUL: 4,
    Operation.SIMD_FP_FMA: 4,
    Operation.SIMD_FP_DIV: 13,
    Operation.SIMD_FP_SQRT: 16,
    Operation.CRYPTO: 3,
}


def of_trace(
    trace: str | os.PathLike[str],
    *,
    units: int = UNITS,
    seed: int = 0,
    max_instructions: int | None = None,
    progress: bool = True,
) -> LivePoints:
    """Return the live-points of a trace (or of its first `max_instructions`), about so many `units` of them.

    Raises InputError for a bad trace, too few units, or a run without an instruction.
    """
    with Trace(trace) as opened:
        instructions = opened.static
        total = len(opened) if max_instructions is None else min(max_instructions, len(opened))
        recorder, calls, divisions = _recorder(units, seed), SystemCallCounter(), DivisionCounter()
        _pass(
            recorder,
            calls,
            divisions,
            ((instructions, chunk) for chunk in opened.chunks(stop=total)),
            opened.name,
            total,
            progress,
        )
        return _live_points(
            recorder,
            calls.counts(),
            divisions.steps(),
            instructions,
            Origins.of(opened, opened.code),
            units,
            seed,
            program=opened.name,
            isa=opened.isa,
            source=opened.source,
            command=json.dumps(opened.command),
            digest=opened.digest,
        )


def of_stream(
    stream: ProgramStream,
    *,
    units: int = UNITS,
    seed: int = 0,
    progress: bool = True,
    observe: Callable[[StaticInstructions, Chunk], object] | None = None,
) -> LivePoints:
    """Return the live-points of a program while it runs; nothing else is written. As `of_trace`.

    `observe` is called with each chunk, and the static instructions so far, while it is recorded.
    """
    recorder, calls, divisions = _recorder(units, seed), SystemCallCounter(), DivisionCounter()

    def pairs() -> Iterator[tuple[StaticInstructions, Chunk]]:
        for chunk in stream.chunks():
            instructions = stream.instructions
            yield instructions, chunk
            if observe is not None:
                observe(instructions, chunk)

    _pass(recorder, calls, divisions, pairs(), stream.program, None, progress)
    return _live_points(
        recorder,
        calls.counts(),
        divisions.steps(),
        stream.instructions,
        Origins.of(stream, stream.code),
        units,
        seed,
        program=stream.program,
        isa=stream.isa,
        source="qemu",
        command=json.dumps(stream.command),
        digest=stream.digest,
    )


def _recorder(units: int, seed: int) -> _core.Recorder:
    if units < LEAST_UNITS:
        raise InputError(f"{units} units are too few to tell a run by; at least {LEAST_UNITS}, by default {UNITS}")
    pool = max(_POOL, 4 * units)
    signatures = max(_SIGNATURES, pool)  # every unit of the pool has one
    return _core.Recorder(capacity=pool, signatures=signatures, branches=_BRANCHES, seed=mixed(seed))


def mixed(seed: int) -> int:
    """Return where the stream of units' keys begins."""
    return int(np.random.SeedSequence([seed, 0]).generate_state(1, np.uint64)[0])


def observe_chunk(
    recorder: _core.Recorder, divisions: DivisionCounter, instructions: StaticInstructions, chunk: Chunk
) -> None:
    """Record the next chunk and its divisions; `instructions` are those known by then, the ones so far the first."""
    _grow(recorder, instructions)
    divisions.add(chunk)
    recorder.observe(
        chunk.static_id, chunk.next_static_id, chunk.access_offset, chunk.address, chunk.size, chunk.is_store
    )


def _grow(recorder: _core.Recorder, instructions: StaticInstructions) -> None:
    """Tell the recorder of static instructions, of which those that it has are the first."""
    if recorder.statics == len(instructions):
        return
    latency = np.ones(256, np.uint8)
    latency[[int(operation) for operation in _LATENCY]] = list(_LATENCY.values())
    recorder.grow(
        instructions.address,
        instructions.length,
        latency[instructions.operation],
        instructions.flags,
        instructions.sources,
        instructions.destinations,
    )


def _pass(
    recorder: _core.Recorder,
    calls: SystemCallCounter,
    divisions: DivisionCounter,
    chunks: Iterable[tuple[StaticInstructions, Chunk]],
    name: str,
    total: int | None,
    progress: bool,
) -> None:
    """Record each chunk, with the instructions known by then, in a thread while the next ones are read."""

    def record(instructions: StaticInstructions, chunk: Chunk) -> None:
        observe_chunk(recorder, divisions, instructions, chunk)
        calls.add(instructions, chunk)

    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(1) as thread, instruction_bar(f"live-points {name}", total, progress) as bar:
        for instructions, chunk in chunks:
            if len(waiting) == AHEAD:
                waiting.popleft().result()
            waiting.append(thread.submit(record, instructions, chunk))
            bar.update(len(chunk))
        for one in waiting:
            one.result()


def _live_points(
    recorder: _core.Recorder,
    calls: SystemCallCounts,
    divisions: DivisionSteps,
    instructions: StaticInstructions,
    origins: Origins,
    units: int,
    seed: int,
    *,
    program: str,
    isa: str,
    source: str,
    command: str,
    digest: str,
) -> LivePoints:
    if recorder.instructions == 0:
        raise InputError(f"{program}: it executed no instruction")
    numbers, signatures = recorder.signatures()
    held = recorder.held()
    population = recorder.units
    drawn = draw(numbers, signatures, held, population, min(units, len(held)), seed, recorder.take_all())
    if len(drawn.unit) == population and recorder.instructions > population * _core.UNIT:  # the end counts as a unit
        population += 1
        drawn = Drawn(np.append(drawn.unit, np.uint64(population - 1)), Sample.of_all(population))
    recorder.keep(drawn.unit.tolist())
    pieces = Pieces(**recorder.pieces())
    if not np.array_equal(pieces.unit[pieces.counted], drawn.unit):
        raise AssertionError("the recorder kept other units than were drawn")
    if population > len(drawn.unit) and len(held) < units:
        print(f"{program}: {len(held)} units are all that was held of the run", file=sys.stderr)
    points = LivePoints(
        program=program,
        isa=isa,
        source=source,
        command=command,
        digest=digest,
        seed=seed,
        instructions=recorder.instructions,
        units=population,
        sample=drawn.sample,
        **_by_address(instructions, origins, pieces, calls, divisions),
    )
    if points.whole:
        return points
    return replace(points, in_flight=LivePointsSimulator(points).in_flight(load_machine(MEASURED_ON)))


def _by_address(
    instructions: StaticInstructions,
    origins: Origins,
    pieces: Pieces,
    calls: SystemCallCounts,
    divisions: DivisionSteps,
) -> dict[str, Any]:
    """`static`, `origins`, `pieces`, `system_calls`, `divisions`, with static instructions numbered as in a trace."""
    order = np.argsort(instructions.address, kind="stable")
    number = np.empty(len(order) + 1, np.uint32)
    number[order], number[-1] = np.arange(len(order)), LAST
    columns: dict[str, Any] = {field.name: getattr(instructions, field.name) for field in fields(StaticInstructions)}
    ordered: dict[str, Any] = {
        name: value[order] if isinstance(value, np.ndarray) else value for name, value in columns.items()
    }
    ids = {
        name: number[np.minimum(getattr(pieces, name), len(order))]
        for name in (
            *("static_id", "next_static_id", "branch", "branch_following", "taken", "taken_following"),
            *("miss", "near_load", "near_store"),
        )
    }
    return {
        "static": StaticInstructions(**ordered),
        "origins": replace(origins, code=origins.code[order]),
        "pieces": replace(pieces, **ids),
        "system_calls": replace(calls, static_id=number[calls.static_id]),
        "divisions": replace(divisions, static_id=number[divisions.static_id]),
    }
