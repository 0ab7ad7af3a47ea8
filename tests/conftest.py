"""One small data set for the whole suite: a kernel traced by QEMU, labelled on a few machines, and a model of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfvec.model import Model
from perfvec.training.recipe import Recipe
from perfvec.training.train import train
from support.unsealed import ALLOWED
from tracegen.formats.trace import Trace
from tracegen.label import label
from tracegen.qemu.runner import trace
from tracegen.suite.inputs import compile_c
from uarch.configuration import Machine, load_machine
from uarch.space import sample

KERNELS = Path(__file__).parents[1] / "tracegen" / "suite" / "kernels"
INSTRUCTIONS = 60_000


@dataclass(frozen=True)
class Data:
    """Folders with traces and latency files, the machines of the labels, and a model trained on them."""

    traces: Path
    latencies: Path
    encoder_latencies: Path
    machines: Sequence[Machine]
    model_file: Path
    recipe: Recipe
    model: Model


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    folder = tmp_path_factory.mktemp("data")
    traces = folder / "traces"
    traces.mkdir()
    for name, argument in (("qsort", "3000"), ("matmul", "24")):
        compile_c(KERNELS / f"{name}.c", folder / name, ["-static"])
        trace(
            [str(folder / name), argument],
            traces / f"{name}.trace.h5",
            stdout=2,
            max_instructions=INSTRUCTIONS,
            progress=False,
        )
    machines = [load_machine("base"), load_machine("cortex-a53"), *sample(3, seed=5)]
    files = sorted(traces.iterdir())
    label(files, machines, folder / "latencies", workers=1, progress=False)
    label(files, sample(4, seed=6), folder / "more", workers=1, progress=False)
    recipe = Recipe(width=32, layers=1, instructions=3_000_000, batch_size=16, learning_rate=1e-2, seed=3)
    model_file = folder / "model.safetensors"
    train(traces, folder / "latencies", model_file, recipe=recipe, encoder_latencies=folder / "more", progress=False)
    from perfvec.model import load_model

    assert [Trace(path).isa for path in files] == ["x86-64", "x86-64"]
    return Data(traces, folder / "latencies", folder / "more", machines, model_file, recipe, load_model(model_file))


@pytest.fixture
def unsealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without a seal are read, as with --unsealed."""
    monkeypatch.setenv(ALLOWED, "1")
