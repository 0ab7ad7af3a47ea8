"""The readers of files: how a small file of each kind is made, and what reading it gives."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import torch

from analysis.questions.attribute import IDEAL, load_ideal
from analysis.tensor.history import HEADER, read
from perfvec.machines.encoder import MachineEncoder
from perfvec.machines.machine_vector import MachineVector, load_machine_vector
from perfvec.machines.times import read_times
from perfvec.model import FoundationModel, Model, TrainingProgram, load_model, save_model
from perfvec.representation.library import load_library, save_library
from perfvec.representation.vector import ProgramVector, Sampling, load_vector
from perfvec.tensor import model_file
from perfvec.tensor.configuration import FOLDER, read_entries
from support.unsealed import ALLOWED
from tests.fuzz.reader import Reader
from tracegen.binary import elf
from tracegen.binary.dwarf import file_lines
from tracegen.decode import decode
from tracegen.features import SCHEMAS
from tracegen.features.file import FeaturesFile, extract
from tracegen.formats import trace as trace_module
from tracegen.formats.champsim import import_champsim
from tracegen.formats.latency import LatencyFile, LatencyWriter
from tracegen.formats.trace import Trace, TraceWriter
from tracegen.gem5.reader import import_gem5
from tracegen.live_points import record
from tracegen.live_points.live_points import UNIT, load, save
from tracegen.live_points.simulate import LivePointsSimulator
from tracegen.tensor.ansor import read_log
from tracegen.tensor.dataset import Dataset, DatasetWriter, Device, Task
from uarch.devices import DEVICES, load_device
from uarch.gem5.config import import_config
from uarch.machine_files import PRESETS, load_machine
from uarch.space import SPACES, load_space
from uarch.timing.simulations import simulated_cycles

INSTRUCTIONS = 3000
TOUCH = Path(__file__).parents[1] / "tracegen" / "data" / "gem5"


def trace(path: Path, instructions: int = INSTRUCTIONS) -> None:
    """A small trace with everything in it, of small blocks so that reading it is quick."""
    numbers = np.random.default_rng(1)
    whole, trace_module.BLOCK = trace_module.BLOCK, 1024
    try:
        with TraceWriter(path, isa="x86-64", program="p", command=["p", "x y"], source="qemu") as writer:
            writer.static(np.arange(50, dtype=np.uint64) * 4, numbers.integers(0, 255, (50, 16)).astype(np.uint8))
            owners = np.sort(numbers.integers(0, instructions, 2000)).astype(np.uint64)
            writer.append(
                numbers.integers(0, 50, instructions).astype(np.uint32),
                owners,
                numbers.integers(0, 1 << 40, 2000, np.uint64),
                np.full(2000, 8, np.uint8),
                (owners % 2).astype(np.uint8),
            )
            calls = np.arange(5, instructions, 100, dtype=np.uint64)
            writer.append_system_calls(calls, numbers.integers(0, 300, len(calls)).astype(np.uint16))
            writer.append_divisions(calls + np.uint64(2), numbers.integers(1, 68, len(calls)).astype(np.uint8))
            writer.symbols(np.array([0, 64], np.uint64), np.array([64, 64], np.uint64), ["first", "second"])
            writer.lines(np.arange(9, dtype=np.uint64) * 4, *np.zeros((2, 9), np.uint32), ["p.c"])
    finally:
        trace_module.BLOCK = whole


def trace_content(path: Path) -> object:
    with Trace(path) as file:
        arrays = [file.address, file.code, *file.symbols()[:2], *file.lines()[:3]]
        for chunk in file.chunks(1000):
            arrays += [chunk.static_id, chunk.next_static_id, chunk.access_offset, chunk.address, chunk.size]
            arrays += [chunk.is_store, chunk.call_instruction, chunk.call_number]
            arrays += [chunk.division_instruction, chunk.division_steps]
        texts = (file.isa, file.program, file.command, file.source, file.digest, file.symbols()[2], file.lines()[3])
        return texts, [array.tobytes() for array in arrays]


def trace_used(path: Path) -> object:
    """Its content, its features, and its cycles on a machine: what native code sees of it."""
    content, output = trace_content(path), path.with_name("used.features.h5")
    with Trace(path) as file:
        extract(file, SCHEMAS["default"], output, progress=False)
        simulated_cycles([load_machine("base")], decode(file.address, file.code, file.isa), file.chunks(), threads=1)
    return content, features_content(output)


def live_points(path: Path) -> None:
    """Six units of forty, with what lies between them."""
    source = path.with_name("t.trace.h5")
    trace(source, 40 * UNIT)
    least, record.LEAST_UNITS = record.LEAST_UNITS, 4
    try:
        save(record.of_trace(source, units=6, progress=False), path)
    finally:
        record.LEAST_UNITS = least
        source.unlink()


def live_points_content(path: Path) -> object:
    points = load(path)
    found = LivePointsSimulator(points).simulate([load_machine("cortex-a53")], 1)
    texts = (points.program, points.isa, points.source, points.command, points.digest, points.summary)
    return texts, points.code.tobytes(), points.symbols()[2], points.lines()[3], found.cycles.tobytes()


def latency(path: Path) -> None:
    machines = [load_machine("base"), load_machine("cortex-a53")]
    with LatencyWriter(path, machines=machines, trace="t", trace_digest="0", start=7, simulator="embedded") as writer:
        writer.append(np.random.default_rng(2).integers(0, 9, (2, 2000)).astype(np.uint16))


def latency_content(path: Path) -> object:
    with LatencyFile(path) as file:
        texts = (file.trace, file.trace_digest, file.start, file.simulator, [m.to_dict() for m in file.machines])
        return texts, [file.read(0, len(file)).tobytes(), file.cycles().tobytes(), file.counters()[1]]


def without_seal(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Write the file as another program would."""

    def made(path: Path) -> None:
        sealed = path.with_name("sealed.h5")
        make(sealed)
        with h5py.File(sealed) as source, h5py.File(path, "w") as target:
            for name in source:
                source.copy(name, target)
            target.attrs.update(source.attrs)
        sealed.unlink()

    return made


def allowed(read_content: Callable[[Path], object]) -> Callable[[Path], object]:
    def content(path: Path) -> object:
        os.environ[ALLOWED] = "1"
        return read_content(path)

    return content


def features(path: Path) -> None:
    source = path.with_name("t.trace.h5")
    trace(source)
    with Trace(source) as opened:
        extract(opened, SCHEMAS["default"], path, progress=False)
    source.unlink()


def features_content(path: Path) -> object:
    file = FeaturesFile(path)
    ids, stored = file.read(0, len(file))
    return file.schema.identity, file.trace, file.trace_digest, [a.tobytes() for a in (file.static, ids, stored)]


def dataset(path: Path) -> None:
    with DatasetWriter(path, provenance={"by": "test"}, features={"statements": "s1", "ast": "a1"}) as writer:
        device = writer.device(Device("d", {"cores": 2}))
        for name in ("a", "b"):
            task = writer.task(Task(name, f"task {name}", "dense", [[1, 2]], 8.0, {"net": 3}))
            for row in range(1, 6):
                values = np.full((row, 3), row, np.float32)
                given = {"statements": values, "ast": (values[:, :2], np.arange(row))}
                schedule = writer.schedule(task, [["SP", name, row]], kind="ansor", origin="log", features=given)
                writer.record(schedule, device, 1e-3 * row, spread=0.5, repeats=4)


def dataset_content(path: Path) -> object:
    with Dataset(path) as file:
        tables = [file.tasks, file.devices, file.schedules(), file.records(), file.table(failed=True)]
        rows = [file.features(group) for group in file.groups]
        return file.steps(), [one.to_csv() for one in tables], [(r.values.tobytes(), r.offset.tobytes()) for r in rows]


def vector(path: Path) -> None:
    numbers = np.random.default_rng(3)
    sampling = Sampling(
        1000,
        90,
        20,
        numbers.normal(size=(6, 8)).astype(np.float32),
        np.arange(6, dtype=np.int32) % 2,
        np.array([3.0, 2.0]),
    )
    parts = numbers.normal(size=(4, 8))
    ProgramVector("p", "x86-64", "m" * 64, "t" * 64, 400, parts.sum(axis=0), np.full(4, 100), parts, sampling).save(
        path
    )


def vector_content(path: Path) -> object:
    found = load_vector(path)
    arrays = [found.vector, found.interval_instructions, found.interval_vectors]
    texts = [found.program, found.isa, found.model, found.trace_digest, found.instructions, found.sampling is None]
    if found.sampling is not None:
        arrays += [found.sampling.factors, found.sampling.freedom, found.sampling.half_width(np.ones((1, 8)))]
    return texts, [array.tobytes() for array in arrays]


def library(path: Path) -> None:
    one = np.arange(8.0)
    vectors = [ProgramVector(n, "x86-64", "m" * 64, n * 9, 7, one, np.array([7]), one[None]) for n in ("a", "b")]
    save_library(vectors, path)


def machine_vector(path: Path) -> None:
    MachineVector("m", 2.5, "m" * 64, np.arange(8.0), np.eye(8), 0.1, {"times": "t.csv"}).save(path)


def model(path: Path) -> None:
    torch.manual_seed(1)
    machines = (load_machine("base"), load_machine("cortex-a53"))
    foundation = FoundationModel(SCHEMAS["default"], len(machines), width=4, layers=1)
    encoder = MachineEncoder(4, hidden=2)
    save_model(Model(foundation, machines, (TrainingProgram("p", "d"),), encoder, {"seed": 1}), path)


def model_content(path: Path) -> object:
    return load_model(path).digest


def tensor_model(path: Path) -> None:
    shutil.copyfile(model_file.SHIPPED, path)


def tensor_model_content(path: Path) -> object:
    made = model_file.load_model(path)
    return made.NAME, model_file.describe(path), [(n, a.tobytes()) for n, a in made.state().arrays.items()]


def copied(source: Path) -> Callable[[Path], object]:
    return lambda path: shutil.copyfile(source, path)


def machine_json(path: Path) -> None:
    path.write_text(json.dumps(load_machine("zen4").to_dict(), indent=1))


def times_csv(path: Path) -> None:
    path.write_text("target,seconds,uncertainty\na.vector.npz,1.5,0.1\nb.vector.npz,2.5e-3,0\n")


def times_json(path: Path) -> None:
    path.write_text(
        json.dumps([{"target": "a.vector.npz", "cycles": 15}, {"target": "b", "cycles": 2.5, "trace": "t"}])
    )


def search(path: Path) -> None:
    path.write_text(
        json.dumps({"tasks": ["a", "b"], "model": "m", "seed": 1, "device": {"name": "d", "cores": 2}}, indent=1)
    )


def search_content(path: Path) -> object:
    folder = path.with_name("search")
    folder.mkdir(exist_ok=True)
    shutil.copyfile(path, folder / HEADER)
    return read(folder).header


def log(path: Path) -> None:
    key = json.dumps(["d7b65649a4dd54becea0a52aabbc5af5", 1, 1000, 1, 1000])
    steps = [
        ["SP", 3, 1, 1000, [50], 1],
        ["RE", 3, [0, 2, 1]],
        ["AN", 1, 0, 3],
        ["PR", 1, 0, "auto_unroll_max_step$16"],
    ]
    task = [key, "llvm -keys=cpu -mcpu=core-avx2", [8, 64, 64, 0, 0, 0, 0, 0], "", 2]
    line = json.dumps({"i": [task, [[], steps]], "r": [[1e-5, 3e-5], 0, 0.2, 1606960872], "v": "v0.5"})
    path.write_text("# a comment\n" + f"{line}\n" * 3)


def champsim(path: Path) -> None:
    records = np.zeros((300, 8), "<u8")
    records[:, 0] = 0x400000 + 4 * (np.arange(300) % 40)
    records.view(np.uint8)[:, 10:16] = 3, 0, 4, 5, 0, 0
    records[::3, 4] = 0x7000 + 8 * np.arange(100)
    path.write_bytes(records.tobytes())


def champsim_content(path: Path) -> object:
    output = path.with_name("out.trace.h5")
    import_champsim(path, output, progress=False)
    return trace_content(output)


def gem5_text(path: Path) -> None:
    text = gzip.decompress((TOUCH / "minor" / "trace.out.gz").read_bytes()).splitlines(keepends=True)
    path.write_bytes(b"".join(text[:400]))


def gem5_content(path: Path) -> object:
    output = path.with_name("out.trace.h5")
    import_gem5([path, TOUCH / "minor" / "config.json"], output, program=TOUCH / "touch")
    return trace_content(output)


def gem5_statistics(path: Path) -> object:
    output = path.with_name("out.trace.h5")
    import_gem5(
        [TOUCH / "minor" / "trace.out.gz", TOUCH / "minor" / "config.json", path], output, program=TOUCH / "touch"
    )
    return trace_content(output)


def program_content(path: Path) -> object:
    """Symbols and lines are left out with a warning where they are damaged: no trace is lost by them."""
    found = elf.inspect(path)
    symbols = elf.function_symbols(path)
    elf.read_symbol_table.cache_clear()
    executed = symbols.address if len(symbols.address) else np.zeros(1, np.uint64)
    return found.isa, found.interpreter, symbols.name, list(file_lines(path, np.sort(executed)))


READERS = {
    reader.name: reader
    for reader in (
        Reader("t.trace.h5", trace, trace_content, sealed=True),
        Reader("t.latency.h5", latency, latency_content, sealed=True),
        Reader("t.features.h5", features, features_content, sealed=True),
        Reader("d.tensor.h5", dataset, dataset_content, sealed=True),
        Reader("p.livepoints.h5", live_points, live_points_content, sealed=True),
        Reader("unsealed.trace.h5", without_seal(trace), allowed(trace_used), values=True),
        Reader("unsealed.latency.h5", without_seal(latency), allowed(latency_content), values=True),
        Reader("unsealed.tensor.h5", without_seal(dataset), allowed(dataset_content), values=True),
        Reader("unsealed.livepoints.h5", without_seal(live_points), allowed(live_points_content), values=True),
        Reader("p.vector.npz", vector, vector_content, sealed=True),
        Reader("s.library.npz", library, load_library, sealed=True),
        Reader("m.machine.npz", machine_vector, load_machine_vector, sealed=True),
        Reader("m.safetensors", model, model_content, sealed=True),
        Reader("tensor.safetensors", tensor_model, tensor_model_content, sealed=True),
        Reader("machine.yaml", copied(PRESETS / "zen4.yaml"), load_machine, text=True),
        Reader("machine.json", machine_json, load_machine, text=True),
        Reader("space.yaml", copied(SPACES / "default.yaml"), load_space, text=True),
        Reader("device.yaml", copied(DEVICES / "a100.yaml"), load_device, text=True),
        Reader("ideal.yaml", copied(IDEAL), lambda path: load_ideal(path, load_machine("base")), text=True),
        Reader("models.yaml", copied(FOLDER / "two-cores.yaml"), read_entries, text=True),
        Reader("config.json", copied(TOUCH / "o3" / "config.json"), import_config, text=True),
        Reader("times.csv", times_csv, read_times, text=True),
        Reader("times.json", times_json, read_times, text=True),
        Reader("search.json", search, search_content, text=True),
        Reader("log.json", log, lambda path: list(read_log(path)), text=True),
        Reader("gem5.out", gem5_text, gem5_content, text=True),
        Reader("stats.txt", copied(TOUCH / "minor" / "stats.txt"), gem5_statistics, text=True),
        Reader("p.champsim", champsim, champsim_content),
        Reader("program", copied(TOUCH / "touch"), program_content),
    )
}
