"""A running program as a stream: the same as its trace, chunk by chunk, and the same features."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.errors import InputError
from tracegen.decode import decode
from tracegen.features import SCHEMAS
from tracegen.features.file import FeaturesFile, extract, extract_stream
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, Region, parse_place, stream, trace
from uarch.instructions import LAST, StaticInstructions

COMMAND = ["sh", "-c", "i=0; while [ $i -lt 60 ]; do i=$((i+1)); case $i in *7) j=$j$i;; esac; done; printf %s $j"]
ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "sh.trace.h5"
    trace(Execution(COMMAND, stdout=subprocess.DEVNULL, env=ENVIRONMENT), path, progress=False)
    return path


def running(**options):
    return stream(Execution(COMMAND, stdout=subprocess.DEVNULL, env=ENVIRONMENT, **options))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1 << 18, 997, 16])
def test_chunks_are_those_of_the_trace(recorded, size):
    stop = 20_000 if size == 16 else None
    with Trace(recorded) as file, running(max_instructions=stop) as program:
        instructions = decode(file.address, file.code, file.isa)
        for expected, found in zip(file.chunks(size, stop=stop), program.chunks(size), strict=True):
            assert (expected.start, len(expected)) == (found.start, len(found))
            assert np.array_equal(file.address[expected.static_id], program.address[found.static_id])
            ends = found.next_static_id == LAST
            if found.start + len(found) == stop:  # the record ends here, the trace does not
                ends[-1] = False
                assert found.next_static_id[-1] == LAST
                expected.next_static_id[-1] = found.next_static_id[-1] = 0
                expected.static_id[-1] = found.static_id[-1] = 0
            else:
                assert np.array_equal(expected.taken(instructions), found.taken(program.instructions))
            assert np.array_equal(expected.next_static_id == LAST, ends)
            calls, divisions = ("call_instruction", "call_number"), ("division_instruction", "division_steps")
            for name in ("access_offset", "address", "size", "is_store", *calls, *divisions):
                assert np.array_equal(getattr(expected, name), getattr(found, name)), name
        assert program.outcome is not None
        assert program.outcome.stopped == (stop is not None)
        if stop is None:
            order = np.argsort(program.address)
            assert np.array_equal(program.address[order], file.address)
            assert np.array_equal(program.code[order], file.code)
            assert program.instructions.isa == instructions.isa
            for name in StaticInstructions.__dataclass_fields__.keys() - {"isa", "native"}:
                assert np.array_equal(getattr(program.instructions, name)[order], getattr(instructions, name)), name


@pytest.mark.slow
def test_the_digest_does_not_depend_on_the_chunks():
    digests = []
    for size in (1000, 77_777):
        with running() as program:
            for _ in program.chunks(size):
                pass
            digests.append(program.digest)
    assert digests[0] == digests[1]


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_features_are_those_of_the_trace(recorded, tmp_path, schema):
    with Trace(recorded) as file:
        extract(file, schema, tmp_path / "a.features.h5", progress=False)
    with running() as program:
        count = extract_stream(program, schema, tmp_path / "b.features.h5", progress=False)
    one, other = (FeaturesFile(tmp_path / f"{name}.features.h5") for name in "ab")
    assert count == len(one) == len(other)
    (id_a, stored_a), (id_b, stored_b) = (file.read(0, count) for file in (one, other))
    assert np.array_equal(stored_a, stored_b)
    assert np.array_equal(one.static[id_a], other.static[id_b])


def test_a_region_streams(build):
    program = build("counted", "-nostdlib", "-nostartfiles", "-static", "-no-pie")
    with stream(Execution([str(program)], region=Region(start=parse_place("_start")))) as run:
        assert sum(len(chunk) for chunk in run.chunks()) == 5005


def test_leaving_early_ends_the_program(build):
    with stream(Execution([str(build("behave")), "wait"])) as program:
        first = next(program.chunks(1000))
        folder = program.run.folder
        assert len(first) == 1000 and folder.exists()
    assert not Path(folder).exists()
    assert program.run.process.returncode == -9


def test_nothing_recorded_is_an_error():
    with pytest.raises(InputError, match="nothing was recorded"), running(skip=10**9) as program:
        list(program.chunks())
