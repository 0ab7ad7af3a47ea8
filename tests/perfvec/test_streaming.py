"""Representation of a running program; checkpoints of a long one; the command around both."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from perfvec.representation import kept_intervals
from perfvec.representation import represent as representing
from perfvec.representation.represent import represent, represent_file, represent_stream
from perfvec.representation.vector import load_vector
from support.arrays import save_arrays
from tracegen.qemu import Execution, stream, trace

LOOP = "i=0; while :; do i=$((i+1)); if [ $i = 100 ]; then : > started; fi; done"


def command(data, output, *words):
    return [sys.executable, "-m", "perfvec", "represent", "--model", str(data.model_file), "-o", str(output), *words]


@pytest.mark.slow
def test_a_running_program_has_the_vector_of_its_trace(data, tmp_path, monkeypatch):
    monkeypatch.setattr(representing, "INTERVAL", 16_384)
    program = [str(data.traces.parent / "qsort"), "3000"]
    execution = Execution(program, stdout=subprocess.DEVNULL, max_instructions=60_000)
    trace(execution, tmp_path / "q.trace.h5", progress=False)
    with stream(execution) as running:
        streamed = represent_stream(data.model, running, progress=False)
    traced = represent(data.model, tmp_path / "q.trace.h5", progress=False)
    assert streamed.instructions == 60_000 and len(streamed.interval_vectors) == 4
    assert np.array_equal(streamed.vector, traced.vector)


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--sample", "auto", "--half-width", "50%"]])
def test_ctrl_c_keeps_what_was_seen(data, tmp_path, words):
    output = tmp_path / "v.vector.npz"
    words = [*words, "--cwd", str(tmp_path), "--", "sh", "-c", LOOP]
    process = subprocess.Popen(command(data, output, *words), stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=120)
    assert process.returncode == 130, messages
    assert load_vector(output).instructions > 100_000
    assert {path.name for path in tmp_path.iterdir()} == {"started", "v.vector.npz"}


@pytest.mark.slow
def test_the_programs_status_is_passed_on(data, tmp_path):
    output = tmp_path / "v.vector.npz"
    done = subprocess.run(command(data, output, "--", "sh", "-c", "exit 5"), capture_output=True, text=True)
    assert done.returncode == 5, done.stderr
    assert load_vector(output).program == "sh"


KILLED = """
import os, signal, sys, torch
from perfvec.representation import kept_intervals, represent
from perfvec.model import load_model
kept_intervals.EVERY_S, represent.INTERVAL = 0.0, 8192
sums, calls = represent.Pass.sums, []
def fatal(self, taken):
    calls.extend(taken)
    if len(calls) >= 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return sums(self, taken)
represent.Pass.sums = fatal
torch.set_num_threads(int(sys.argv[4]))
represent.represent_file(load_model(sys.argv[1]), sys.argv[2], sys.argv[3])
"""


@pytest.mark.slow
def test_a_killed_representation_continues_to_the_same_vector(data, tmp_path, monkeypatch):
    """SIGKILL in the fourth chunk; the second run represents only what is missing."""
    path, output = data.traces / "matmul.trace.h5", tmp_path / "v.vector.npz"
    together = torch.get_num_threads()
    words = [str(data.model_file), str(path), str(output), str(together)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *words])
    assert killed.returncode == -signal.SIGKILL and not output.exists()
    monkeypatch.setattr(representing, "INTERVAL", 8192)
    whole = represent(data.model, path, progress=False)
    sums, represented = representing.Pass.sums, []

    def noted(self, taken):
        represented.extend(one.count for one in taken)
        return sums(self, taken)

    monkeypatch.setattr(representing.Pass, "sums", noted)
    found = represent_file(data.model, path, output)
    done = 3 // together * together  # whole groups of chunks, of which the one with the fourth was killed
    assert sum(represented) == 60_000 - done * 8192 and len(represented) == 8 - done
    assert np.array_equal(found.vector, whole.vector) and np.array_equal(found.interval_vectors, whole.interval_vectors)
    assert [path.name for path in tmp_path.iterdir()] == ["v.vector.npz"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", None])
def test_a_foreign_checkpoint_is_not_used(data, tmp_path, content):
    path = tmp_path / "c"
    if content is None:
        save_arrays(
            path, kept_intervals.FORMAT, {"work": "other work", "vectors": np.ones((3, 32)), "counts": [1, 2, 3]}
        )
    else:
        path.write_bytes(content)
    kept = kept_intervals.KeptIntervals(path, "this work")
    assert kept.read() == ([], [])
