"""Readers of files and of the plugin's records on damaged input: one clear line or the right content, nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tracegen import trace as trace_module
from tracegen.latency import LatencyFile, LatencyWriter
from tracegen.trace import Trace, TraceWriter
from uarch.configuration import load_machine
from uarch.errors import InputError

MUTATIONS = 10_000
N = 3000  # executed instructions


@pytest.fixture(scope="module")
def trace_bytes(tmp_path_factory):
    """A small trace with everything in it, of small blocks so that reading it is quick."""
    path = tmp_path_factory.mktemp("damage") / "t.trace.h5"
    numbers = np.random.default_rng(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_module, "_BLOCK", 1024)
        with TraceWriter(path, isa="x86-64", program="p", command=["p", "x y"], source="qemu") as writer:
            writer.static(np.arange(50, dtype=np.uint64) * 4, numbers.integers(0, 255, (50, 16)).astype(np.uint8))
            owners = np.sort(numbers.integers(0, N, 2000)).astype(np.uint64)
            writer.append(
                numbers.integers(0, 50, N).astype(np.uint32), owners, numbers.integers(0, 1 << 40, 2000, np.uint64),
                np.full(2000, 8, np.uint8), (owners % 2).astype(np.uint8),
            )  # fmt: skip
            writer.symbols(np.array([0, 64], np.uint64), np.array([64, 64], np.uint64), ["first", "second"])
            writer.lines(np.arange(9, dtype=np.uint64) * 4, *np.zeros((2, 9), np.uint32), ["p.c"])
    return path.read_bytes()


@pytest.fixture(scope="module")
def latency_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "t.latency.h5"
    machines = [load_machine("base"), load_machine("cortex-a53")]
    with LatencyWriter(path, machines=machines, trace="t", trace_digest="0", start=7, simulator="embedded") as writer:
        writer.append(np.random.default_rng(2).integers(0, 9, (2, 2000)).astype(np.uint16))
    return path.read_bytes()


def trace_content(path):
    with Trace(path) as file:
        chunks = list(file.chunks(1000))
        arrays = [file.address, file.code, *file.symbols()[:2], *file.lines()[:3]]
        for chunk in chunks:
            arrays += [chunk.static_id, chunk.next_static_id, chunk.access_offset, chunk.address, chunk.size]
            arrays.append(chunk.is_store)
        texts = (file.isa, file.program, file.command, file.source, file.digest, file.symbols()[2], file.lines()[3])
        return texts, [array.tobytes() for array in arrays]


def latency_content(path):
    with LatencyFile(path) as file:
        texts = (file.trace, file.trace_digest, file.start, file.simulator, [m.to_dict() for m in file.machines])
        return texts, [file.read(0, len(file)).tobytes()]


def mutated(data, random):
    """Changed bytes, a piece cut out, moved, doubled or zeroed, or the end missing."""
    kind = random.randrange(8)
    data = bytearray(data)
    at, length = random.randrange(len(data)), random.choice((1, 2, 8, 64, 500))
    if kind < 4:
        for _ in range(random.choice((1, 1, 1, 3, 20))):
            data[random.randrange(len(data))] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
    elif kind == 4:
        del data[at : at + length]
    elif kind == 5:
        piece = data[at : at + length]
        place = random.randrange(len(data))
        data[place : place + (0 if random.random() < 0.5 else len(piece))] = piece
    elif kind == 6:
        data[at : at + length] = bytes(len(data[at : at + length]))
    else:
        del data[at:]
    return bytes(data)


@pytest.mark.parametrize("kind", ["trace", "latency"])
def test_a_damaged_file_is_an_error_or_unharmed(kind, trace_bytes, latency_bytes, tmp_path):
    data, content = {"trace": (trace_bytes, trace_content), "latency": (latency_bytes, latency_content)}[kind]
    path = tmp_path / f"t.{kind}.h5"
    path.write_bytes(data)
    expected = content(path)
    dice = random.Random(3)
    refused = 0
    for number in range(MUTATIONS):
        path.write_bytes(mutated(data, dice))
        try:
            found = content(path)
        except InputError as error:
            refused += 1
            assert str(path) in str(error) and "\n" not in str(error), str(error)
            continue
        assert found == expected, f"mutation {number} changed what is read"
    assert refused > MUTATIONS // 3
