"""Kernels as programs: each becomes an executable, is traced, and represented by the foundation model.

A kernel's vector is that of one warm call, so it may stand in every sweep, table and report beside other programs, and
predicts the kernel's time on every machine of `uarch/`. Vectors add up: that of the whole network is the sum of its
calls. `kernels.json` keeps the execution graph, from which the network is replayed without TVM.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tqdm import tqdm

from analysis.programs.targets import check_model
from analysis.questions.predict import predict
from analysis.results.result import Result, of_table, table_text
from analysis.results.runs import legible
from analysis.tensor.graph import Call, Graph
from analysis.tensor.streams import levels, list_schedule
from perfvec.model import Model
from perfvec.representation.represent import INTERVAL, Pass
from perfvec.representation.vector import ProgramVector, load_vector
from support.errors import InputError
from support.files import write_text
from support.text import parse_json
from tracegen.formats.trace import Trace
from uarch.configuration import Machine

if TYPE_CHECKING:
    from analysis.tensor.replay import Kernel
    from perfvec.machines.machine_vector import MachineVector

INDEX = "kernels.json"
NETWORK = "network.vector.npz"


@dataclass(frozen=True)
class Exported:
    """A folder of kernels' vectors: the network, its calls, and {task key: name of its vector's file}."""

    network: str
    isa: str
    calls: tuple[Call, ...]
    vectors: dict[str, str]


def export(
    graph: Graph,
    kernels: Sequence[Kernel],
    model: Model,
    folder: Path,
    *,
    isa: str = "x86-64",
    max_instructions: int = 50_000_000,
    progress: bool = True,
) -> Exported:
    """Write a vector for every kernel, the network's own, and the index, into `folder`.

    A kernel whose vector is there is not traced again, so a killed export goes on. Raises InputError where the tools of
    the ISA are missing, for kernels that cannot be built for it, and for one call of more than `max_instructions`.
    """
    from tracegen.tensor.simulated import executable

    folder.mkdir(parents=True, exist_ok=True)
    vectors: dict[str, str] = {}
    loaded: dict[str, ProgramVector] = {}
    with TemporaryDirectory(prefix="perfvec-kernels-") as temporary:
        for kernel in tqdm(kernels, desc="kernels", disable=None if progress else True):
            task = kernel.task
            made = sha256(f"{isa} {kernel.schedule.mod.script()}".encode()).hexdigest()[:8]  # another schedule, or ISA
            name = f"{re.sub(r'[^A-Za-z0-9_]', '_', task.name)}-{task.key[:8]}-{made}.vector.npz"
            path = folder / name
            if path.exists():
                found = check_model(load_vector(path), model, str(path))
            else:
                program = Path(temporary) / task.key
                executable(kernel.schedule.mod, task.arguments, program, isa)
                found = replace(represent_kernel(model, program, max_instructions), program=task.name)
                found.save(path)
            vectors[task.key], loaded[task.key] = name, found
    exported = Exported(graph.network, isa, graph.calls, vectors)
    whole(exported, loaded).save(folder / NETWORK)
    write_text(folder / INDEX, json.dumps(asdict(exported), indent=1) + "\n")
    return exported


def represent_kernel(model: Model, program: Path, max_instructions: int) -> ProgramVector:
    """The vector of the second, warm call of `kernel` in an executable of `tracegen.tensor.simulated`.

    Features and representations run through both calls; only the second one's are summed. Raises InputError where a
    call executes more than `max_instructions`.
    """
    from tracegen.qemu import Execution, trace
    from tracegen.qemu.region import Region, parse_place
    from tracegen.tensor.simulated import second_call

    region = Region(start=parse_place("kernel"), returns=True, times=2)
    with TemporaryDirectory(prefix="perfvec-kernel-") as folder:
        path = Path(folder) / "kernel.trace.h5"
        limit = 2 * max_instructions + 1
        execution = Execution([str(program)], region=region, max_instructions=limit, stdout=subprocess.DEVNULL)
        done = trace(execution, path, progress=False)
        if done.instructions == limit:
            raise InputError(
                f"{program.name}: a call executes more than {max_instructions:,} instructions; allow more with "
                "--max-instructions"
            )
        with Trace(path) as opened:
            running = Pass(model, opened.static)
            second = second_call(opened)
            for chunk in opened.chunks(INTERVAL, stop=second):
                running.take(chunk)
            intervals, counts = [], []
            for chunk in opened.chunks(INTERVAL, start=second):
                intervals.append(running.add(chunk))
                counts.append(len(chunk))
            return ProgramVector(
                program=program.name,
                isa=opened.isa,
                model=model.digest,
                trace_digest=opened.digest,
                instructions=sum(counts),
                vector=np.sum(intervals, axis=0),
                interval_instructions=np.array(counts, np.int64),
                interval_vectors=np.array(intervals),
            )


def whole(exported: Exported, vectors: Mapping[str, ProgramVector]) -> ProgramVector:
    """Return the network as one program; it keeps its calls, in program order, where others keep intervals."""
    called = [vectors[call.task] for call in exported.calls if call.task is not None]
    first = called[0]
    rows = np.array([vector.vector for vector in called])
    counts = np.array([vector.instructions for vector in called], np.int64)
    return replace(
        first,
        program=exported.network,
        trace_digest="",
        instructions=int(counts.sum()),
        vector=rows.sum(axis=0),
        interval_instructions=counts,
        interval_vectors=rows,
    )


def read(folder: Path) -> Exported:
    """The index of an export. Raises InputError where there is none, or it is damaged."""
    path = folder / INDEX
    try:
        document = parse_json(path.read_text())
        calls = tuple(
            Call(str(call["name"]), call["task"], tuple(int(other) for other in call["predecessors"]))
            for call in document["calls"]
        )
        exported = Exported(
            str(document["network"]),
            str(document["isa"]),
            calls,
            {str(key): Path(str(name)).name for key, name in document["vectors"].items()},
        )
    except OSError as error:
        raise InputError(f"{folder}: has no {INDEX}; make it with perfvec tensor export-kernels") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: is no index of exported kernels; it is damaged") from error
    if not any(call.task for call in calls) or any(call.task and call.task not in exported.vectors for call in calls):
        raise InputError(f"{path}: calls kernels that it has no vectors of; it is damaged")
    return exported


def replay_machines(
    folder: Path, model: Model, machines: Sequence[Machine | MachineVector], streams: Sequence[int]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(kernels, network): predicted seconds of an exported network's kernels on machines, and of its replay.

    `kernels`: a row for every kernel and machine (name, calls, uarch, instructions, cycles, seconds of a call, share of
    the network's time). `network`: a row for every machine and number of streams (uarch, streams, seconds,
    critical_path_s).
    """
    exported = read(folder)
    keys = list(exported.vectors)
    vectors = [check_model(load_vector(folder / exported.vectors[key]), model, exported.vectors[key]) for key in keys]
    named = [replace(vector, program=key) for key, vector in zip(keys, vectors, strict=True)]
    frame = predict(model, named, machines)
    count = {key: sum(call.task == key for call in exported.calls) for key in keys}
    names = {key: vector.program for key, vector in zip(keys, vectors, strict=True)}
    frame = frame.assign(name=frame["program"].map(names), calls=frame["program"].map(count))
    before = [call.predecessors for call in exported.calls]
    rows = []
    for machine, part in frame.groupby("uarch", sort=False):
        seconds = dict(zip(part["program"], part["seconds"].clip(lower=0.0), strict=True))
        taken = [0.0 if call.task is None else float(seconds[call.task]) for call in exported.calls]
        frame.loc[part.index, "share"] = part["seconds"] * part["calls"] / sum(taken)
        for number in streams:
            makespan = list_schedule(taken, before, number).makespan
            longest = float(levels(taken, before).max())
            rows.append({"uarch": machine, "streams": number, "seconds": makespan, "critical_path_s": longest})
    kernels = frame[["name", "calls", "uarch", "instructions", "cycles", "seconds", "share"]]
    return kernels, pd.DataFrame(rows)


def ask(
    network: str, folder: Path, model: Model, machines: Sequence[Machine | MachineVector], streams: Sequence[int]
) -> Result:
    """Answer how long an inference takes on machines; the table is `replay_machines`' first.

    Raises InputError where the folder holds another network's kernels.
    """
    exported = read(folder)
    if exported.network != network:
        raise InputError(f"{folder}: holds the kernels of {exported.network}, not of {network}")
    kernels, whole = replay_machines(folder, model, machines, streams)
    return of_table(
        f"Replay of {network}",
        kernels,
        lambda: {"kernels": kernels.to_dict("records"), "network": whole.to_dict("records")},
        lambda: f"{table_text(legible(kernels))}\n{table_text(whole)}",
    )
