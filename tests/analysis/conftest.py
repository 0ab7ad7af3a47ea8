"""Two builds of one program as parts, and a small model with random weights: sums add up whatever the weights are."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from analysis.parts.partition import Parts
from analysis.parts.predicted_parts import collect
from perfvec.machines.encoder import HINGES, MachineEncoder
from perfvec.machines.features import features_of_machines
from perfvec.model import FoundationModel, Model
from perfvec.representation.represent import represent
from perfvec.representation.vector import ProgramVector
from tests.browser import Browser, chromium
from tests.environment import environment
from tracegen.features import get_schema
from tracegen.qemu import Execution, trace
from uarch.machine_files import load_machine

PROGRAM = Path(__file__).parent / "parts.c"
VARIABLES = 60  # a run longer than the 64 units of a sample


@pytest.fixture(scope="session")
def small_model() -> Model:
    """Table of two machines, base and cortex-a53, and an encoder."""
    torch.manual_seed(4)
    machines = (load_machine("base"), load_machine("cortex-a53"))
    foundation = FoundationModel(get_schema("default"), 2, width=16, layers=1).eval()
    encoder = MachineEncoder(16, features=features_of_machines(machines).shape[1], coordinates=4, hinges=HINGES)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    encoder.basis.normal_()
    encoder.basis_mean.normal_()
    encoder.low.fill_(0.0)
    return Model(foundation, machines, (), encoder)


def _traced(folder: Path, name: str, *flags: str) -> Path:
    command = ["gcc", "-O1", "-g", "-static", *flags, "-o", str(folder / name), str(PROGRAM)]
    subprocess.run(command, check=True)
    execution = Execution([str(folder / name)], env=environment(VARIABLES))
    return trace(execution, folder / f"{name}.trace.h5", progress=False).path


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program, and a version of it that has one function more."""
    folder = tmp_path_factory.mktemp("parts")
    return _traced(folder, "old"), _traced(folder, "new", "-DMORE")


@pytest.fixture(scope="session")
def wholes(small_model: Model, traces: tuple[Path, Path]) -> tuple[ProgramVector, ProgramVector]:
    """Their vectors, as every other command has them."""
    old, new = (represent(small_model, path, progress=False) for path in traces)
    return old, new


@pytest.fixture(scope="session")
def both(small_model: Model, traces: tuple[Path, Path]) -> tuple[Parts, Parts]:
    old, new = (collect(small_model, path, progress=False) for path in traces)
    return old, new


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for all tests; they skip where there is no Chromium."""
    with chromium(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened
