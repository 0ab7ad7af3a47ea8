"""The example program of these tests, its trace and its live-points."""

from __future__ import annotations

import pytest

from tests.tracegen.live_points.example import SOURCE, execution
from tracegen.live_points.record import of_trace
from tracegen.qemu import trace
from tracegen.suite.inputs import compile_c


@pytest.fixture(scope="package")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live-points")
    (folder / "mixture.c").write_text(SOURCE)
    compile_c(folder / "mixture.c", folder / "mixture", ["-O1", "-static"])
    return folder / "mixture"


@pytest.fixture(scope="package")
def traced(program):
    path = program.with_name("mixture.trace.h5")
    trace(execution(program), path, progress=False)
    return path


@pytest.fixture(scope="package")
def points(traced):
    return of_trace(traced, units=256, progress=False)
