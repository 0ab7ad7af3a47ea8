"""One small data set for the whole suite: a kernel traced by QEMU, labelled on a few machines, and a model of it."""

from __future__ import annotations

import fcntl
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from perfvec.model import Model, load_model
from perfvec.training.recipe import Recipe
from perfvec.training.train import train
from support.unsealed import ALLOWED
from tests.environment import environment
from tracegen.label import label
from tracegen.qemu import Execution, trace
from tracegen.suite.inputs import compile_c
from uarch.configuration import Machine
from uarch.machine_files import load_machine
from uarch.space import sample

# As in `make test`: what is imported here, and by the many processes that tests start, is compiled once and kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How long an example takes says nothing where other processes run.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

SLOW_FIXTURES = {"browser", "dask", "tvm", "collected", "trained"}  # Chromium, processes, TVM, many models
LONGEST = (
    "test_collect.py",
    "test_package.py",
    "test_pages.py",
    "test_examples.py",
    "test_fuzz.py",
    "test_distributed.py",
    "test_walkthrough.py",
    "test_describe.py",
    "test_gem5.py",
    "test_space.py",
)
KERNELS = Path(__file__).parents[1] / "tracegen" / "suite" / "kernels"
INSTRUCTIONS = 60_000
VARIABLES = 24  # of the environment of what is traced
RECIPE = Recipe(width=32, layers=1, instructions=1_000_000, batch_size=16, learning_rate=1e-2, seed=3)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than the processor has cores: tests wait for programs, disks and the browser."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what needs a slow fixture; the longest files come first, so that none ends long after the others."""
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


# Files that share what takes long to make: TVM's programs, and the browser with what it shows.
TOGETHER = {
    "tvm": (
        "tests/tracegen/tensor/test_collect.py",
        "tests/tracegen/tensor/test_reference.py",
        "tests/tracegen/tensor/test_replay.py",
        "tests/tracegen/tensor/test_program_features.py",
        "tests/analysis/tensor/test_cost_model.py",
        "tests/analysis/tensor/test_programs.py",
        "tests/analysis/tensor/test_replay.py",
        "tests/analysis/tensor/test_tune.py",
    ),
    "pages": (
        "tests/analysis/questions/test_pages.py",
        "tests/analysis/questions/test_explore.py",
        "tests/analysis/questions/test_profile.py",
        "tests/analysis/questions/test_difference.py",
        "tests/analysis/questions/test_simulate.py",
        "tests/analysis/results/test_page.py",
        "tests/analysis/tensor/test_results.py",
        "tests/analysis/programs/test_live_points.py",
        "tests/analysis/programs/test_kept.py",
        "tests/analysis/programs/test_own_vector.py",
    ),
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep each of these groups in one process, as `--dist loadfile` does each other file."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    group_of = {file: group for group, files in TOGETHER.items() for file in files}

    class Grouped(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return group_of.get(file, file)

    return Grouped(config, log)


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


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` fills, once for all processes of a run: one does, the others wait."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, whole = root / f"made-{name}", root / f"made-{name}.whole"
    with (root / f"made-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            folder.mkdir()
            make(folder)
            whole.touch()
    return folder


def _make(folder: Path) -> None:
    """Traces, two folders of labels, and a model that is trained on them."""
    traces = folder / "traces"
    traces.mkdir()
    for name, argument in (("qsort", "3000"), ("matmul", "24")):
        compile_c(KERNELS / f"{name}.c", folder / name, ["-static"])
        command = [str(folder / name), argument]
        execution = Execution(command, stdout=2, env=environment(VARIABLES), max_instructions=INSTRUCTIONS)
        trace(execution, traces / f"{name}.trace.h5", progress=False)
    files = sorted(traces.iterdir())
    latencies, more = folder / "latencies", folder / "more"
    label(files, _machines(), latencies, workers=1, progress=False)
    label(files, sample(4, seed=6), more, workers=1, progress=False)
    train(traces, latencies, folder / "model.safetensors", recipe=RECIPE, encoder_latencies=more, progress=False)


def _machines() -> list[Machine]:
    return [load_machine("base"), load_machine("cortex-a53"), *sample(3, seed=5)]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    folder = made_once(tmp_path_factory, "data", _make)
    model = folder / "model.safetensors"
    return Data(folder / "traces", folder / "latencies", folder / "more", _machines(), model, RECIPE, load_model(model))


@pytest.fixture
def unsealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without a seal are read, as with --unsealed."""
    monkeypatch.setenv(ALLOWED, "1")


@pytest.fixture(scope="session")
def tvm() -> Any:
    """TVM without its table of tensor intrinsics, which takes seconds to load; skips where it is not installed."""
    pytest.importorskip("tvm", reason="TVM is not installed (pip install 'perfvec-toolkit[tensor]')")
    return importlib.import_module("tracegen.tensor.preload").tvm
