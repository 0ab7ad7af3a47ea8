"""Labels: a window of a trace timed on many machines, as a latency file.

The trace is read and decoded once and each chunk of it runs on every machine, on threads. Before the labelled window
the machines are warmed as gem5's fast-forward does it: caches and TLBs by everything before, pipeline and predictor by
`warmup` instructions. Several traces are labelled side by side in processes; a latency file that is already there, of
the same trace, window and machines, is kept, so a run that was killed continues. On a cluster a task is a trace on a
few machines, and its labels a file in a folder beside the output until all are there.

The timing model is the embedded one, or gem5 (`tracegen.gem5.label`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from support.errors import InputError
from support.executor import Executor, Local, settle
from support.files import require_writable
from tracegen.control_flow.straight_line import LINE_BITS, lines_of
from tracegen.formats.latency import LatencyFile, LatencyWriter, join
from tracegen.formats.trace import Trace
from uarch.configuration import Machine
from uarch.instructions import StaticInstructions
from uarch.timing.simulation import COUNTERS, SIMULATOR, touches_of
from uarch.timing.simulations import Simulations

# What files say whose caches were warmed by touches; 1: releases of 2026-11-29 and 30, whose caches held other lines.
_TOUCHED = 2
WARMUP = 50_000  # instructions that warm the pipeline and the predictor
BLOCK = 8  # machines of a task on a cluster: each reads, decodes and warms up for itself


def label(
    traces: Sequence[str | os.PathLike[str]],
    machines: Sequence[Machine],
    folder: str | os.PathLike[str],
    *,
    start: int = 0,
    count: int | None = None,
    warmup: int = WARMUP,
    workers: int = 2,
    cluster: Executor | None = None,
    touches: bool = False,
    simulator: str = "embedded",
    gem5: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> list[Path]:
    """Write `NAME.latency.h5` (`NAME-START.latency.h5` where `start` > 0) of every trace into `folder`.

    `count` instructions are labelled from `start` on, to the trace's end where it is None or larger. A trace that ends
    before `start` is left out. `touches`: as of `label_one`, of the embedded simulator. So many `workers` run here, or
    those of a `cluster`. `simulator` is `embedded` or `gem5`, whose binary is `gem5` or the environment's GEM5; what
    gem5 cannot simulate is told on stderr and left out. Raises InputError for bad traces, no machines or an unwritable
    folder.
    """
    if not machines:
        raise InputError("no machine to label for; name some with --uarch or --sample")
    names = [machine.name for machine in machines]
    if len(set(names)) != len(names):
        raise InputError(f"two machines are called {max(names, key=names.count)!r}; give each a name of its own")
    folder = Path(folder)
    if simulator == "gem5":
        if cluster is not None:
            raise InputError(
                "gem5 labels on one machine; leave --scheduler and --cluster out, or give each node its traces"
            )
        from tracegen.gem5.label import label as label_by_gem5

        outputs, failed = label_by_gem5(
            traces,
            machines,
            folder,
            gem5=gem5,
            start=start,
            count=count,
            warmup=warmup,
            workers=workers,
            progress=progress,
        )
        for what, reason in failed.items():
            print(f"{what}: {reason}", file=sys.stderr)
        return outputs
    if simulator != "embedded":
        raise InputError(f"simulator {simulator!r} must be one of embedded, gem5")
    labels: list[_Labels] = []
    outputs = []
    short: list[Path] = []
    for path in traces:
        with Trace(path) as trace:
            stop = len(trace) if count is None else min(start + count, len(trace))
            if start >= stop:
                short.append(trace.path)
                continue
            output = folder / f"{trace.name}{f'-{start}' if start else ''}.latency.h5"
            if output in outputs:
                raise InputError(f"two traces are called {trace.name!r}; label them into two folders")
            outputs.append(output)
            if not _already(output, trace, machines, start, stop, warmup, touches=touches):
                labels.append(
                    _Labels(
                        trace.path.absolute(),
                        trace.digest,
                        tuple(machines),
                        output.absolute(),
                        start,
                        stop,
                        warmup,
                        touches=touches,
                    )
                )
    if not outputs:
        raise InputError(f"every trace ends before instruction {start}; nothing to label")
    folder.mkdir(parents=True, exist_ok=True)
    for output in outputs:
        require_writable(output)
    for path in short:
        print(f"{path}: ends before instruction {start}; left out", file=sys.stderr)
    if cluster is None:
        processes = max(1, min(workers, len(labels)))
        shared = [replace(item, threads=max(1, workers // processes)) for item in labels]
        _run(Local(processes, threads=processes == 1), shared, "trace", progress)
        return outputs
    parts = [part for whole in labels for part in whole.parts(BLOCK)]
    _run(cluster, [part for part in parts if not part.output.exists()], "task", progress)
    for whole in labels:
        join([part.output for part in whole.parts(BLOCK)], whole.output)
        shutil.rmtree(whole.folder_of_parts)
    return outputs


@dataclass(frozen=True)
class _Labels:
    """A latency file to make."""

    trace: Path
    digest: str
    machines: tuple[Machine, ...]
    output: Path
    start: int
    stop: int
    warmup: int
    threads: int = 1
    touches: bool = False
    simulator: str = SIMULATOR

    @property
    def folder_of_parts(self) -> Path:
        """Named by what is made, so that nothing else is taken for it."""
        machines = [machine.to_dict() for machine in self.machines]
        what = [self.digest, self.start, self.stop, self.warmup, self.touches, self.simulator, machines]
        key = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]
        return self.output.with_name(f".{self.output.name}.{key}.parts")

    def parts(self, machines: int) -> list[_Labels]:
        """The same of so many machines each, as files of a folder that is made."""
        folder = self.folder_of_parts
        folder.mkdir(exist_ok=True)
        return [
            replace(self, machines=self.machines[k : k + machines], output=folder / f"{k}.latency.h5")
            for k in range(0, len(self.machines), machines)
        ]


def _run(executor: Executor, labels: Sequence[_Labels], unit: str, progress: bool) -> None:
    done = executor.map(_label, labels, lambda item: [item.trace, item.output.parent])
    for number, _ in tqdm(done, total=len(labels), desc="label", unit=unit, disable=None if progress else True):
        settle(labels[number].output)


def _label(given: _Labels) -> None:
    if given.simulator != SIMULATOR:  # as another machine's release may
        raise InputError(f"a worker has {SIMULATOR}, the caller {given.simulator}; install the same release everywhere")
    label_one(
        given.trace,
        given.machines,
        given.output,
        given.start,
        given.stop,
        given.warmup,
        given.threads,
        touches=given.touches,
    )


def _already(
    output: Path, trace: Trace, machines: Sequence[Machine], start: int, stop: int, warmup: int, *, touches: bool
) -> bool:
    if not output.exists():
        return False
    with LatencyFile(output) as file:
        same = (file.trace_digest, file.start, len(file)) == (trace.digest, start, stop - start)
        touched = _TOUCHED if touches else 0
        same = same and (file.attribute("warmup", 0), file.attribute("touches", touched)) == (
            min(start, warmup),
            touched,
        )
        if same and list(file.machines) == list(machines) and file.simulator == SIMULATOR:
            return not file.any_cut()  # which are then labelled anew
    raise InputError(
        f"{output}: holds other labels (another trace, window, warm-up or machines); move it away or choose another "
        "folder"
    )


def last_touches(trace: Trace, instructions: StaticInstructions, stop: int) -> NDArray[np.uint64]:
    """The lines of code and data that the first `stop` instructions touch, in the order of the last touch, as
    `Simulation.touch` takes them: what a cache of any size holds afterwards, but for what prefetchers bring.
    """
    keys, times, dirty = (np.empty(0, kind) for kind in (np.uint64, np.int64, np.uint64))
    code, code_end = lines_of(instructions).T
    one = np.uint64(1)
    for chunk in trace.chunks(stop=stop):
        when = np.arange(chunk.start, chunk.start + len(chunk))
        of_access = np.repeat(when, np.diff(chunk.access_offset))
        size = np.maximum(chunk.size, 1).astype(np.uint64)
        lines = [chunk.address >> np.uint64(LINE_BITS), (chunk.address + size - one) >> np.uint64(LINE_BITS)]
        fetched = [code[chunk.static_id], code_end[chunk.static_id]]
        stores = chunk.is_store.astype(np.uint64)
        keys = np.concatenate([keys, *(line << one | one for line in fetched), *(line << one for line in lines)])
        times = np.concatenate([times, when, when, of_access, of_access])
        none = np.zeros(2 * len(chunk), np.uint64)
        dirty = np.concatenate([dirty, none, stores, stores])
        order = np.lexsort((times, keys))
        keys, times, dirty = keys[order], times[order], dirty[order]
        ends = np.flatnonzero(np.append(keys[1:] != keys[:-1], True))
        begins = np.append(0, ends[:-1] + 1)
        keys, times, dirty = keys[ends], times[ends], np.maximum.reduceat(dirty, begins)
    order = np.argsort(times, kind="stable")
    keys, dirty = keys[order], dirty[order]
    return touches_of(np.asarray(keys >> one, np.uint64), keys & one != 0, dirty != 0)


def label_one(
    path: Path,
    machines: Sequence[Machine],
    output: Path,
    start: int,
    stop: int,
    warmup: int = WARMUP,
    threads: int = 1,
    *,
    touches: bool = False,
) -> None:
    """Label instructions [start, stop) of one trace on these machines. `touches`: caches are warmed by the lines that
    were touched before, in the order of the last touch, which takes a hundredth of the time.
    """
    with Trace(path) as trace, ExitStack() as stack:
        instructions = trace.static
        running = stack.enter_context(Simulations(machines, instructions, threads))
        timed = max(0, start - warmup)
        if touches:
            lines = last_touches(trace, instructions, timed)
            for simulation in running.each:
                simulation.touch(lines)
        else:
            for chunk in trace.chunks(stop=timed):
                running.warm(chunk)
        for chunk in trace.chunks(start=timed, stop=start):
            running.run(chunk)
        running.reset_counters()
        writer = LatencyWriter(
            output,
            machines=machines,
            trace=trace.name,
            trace_digest=trace.digest,
            start=start,
            simulator=SIMULATOR,
            attributes={"warmup": start - timed, "touches": _TOUCHED if touches else 0},
        )
        with writer:
            for chunk in trace.chunks(start=start, stop=stop):
                writer.append(running.run(chunk))
            values = np.array([[simulation.counters[name] for name in COUNTERS] for simulation in running.each])
            writer.counters(values, COUNTERS)
