"""A call goes down the floors, or stays on one: what `represent` and `overview` do on real traces."""

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import perfvec as pv
from perfvec.model import load_model
from perfvec.representation.represent import represent
from tests.test_imports import FLOORS, ROOT
from tracegen.qemu.runner import trace

pytestmark = pytest.mark.slow


def floor(file: str) -> int | None:
    path = Path(file)
    part = path.relative_to(ROOT).parts[0] if path.is_relative_to(ROOT) else ""
    return FLOORS.index(part) if part in FLOORS else None


@contextmanager
def climbs():
    """The calls of a function by one of a lower floor, as (caller, callee)."""
    found: set[tuple[str, str]] = set()
    floors: dict[str, int | None] = {}

    def seen(frame, event, argument):
        if event != "call" or frame.f_back is None:
            return
        files = frame.f_back.f_code.co_filename, frame.f_code.co_filename
        for file in files:
            if file not in floors:
                floors[file] = floor(file)
        below, above = floors[files[0]], floors[files[1]]
        if below is not None and above is not None and above > below:
            names = frame.f_back.f_code.co_name, frame.f_code.co_name
            found.add(tuple(f"{Path(file).stem}.{name}" for file, name in zip(files, names, strict=True)))

    sys.setprofile(seen)
    try:
        yield found
    finally:
        sys.setprofile(None)


def made(place: str, text: str):
    """Return the function `f` of a module that lies there."""
    names: dict[str, object] = {}
    exec(compile(text, str(ROOT / place), "exec"), names)
    return names["f"]


def test_a_climb_is_seen():
    low, high = made("support/a.py", "def f(g):\n    g()"), made("analysis/b.py", "def f():\n    pass")
    with climbs() as found:
        low(high)
    assert found == {("a.f", "b.f")}


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walk")
    paths = [folder / f"{name}.trace.h5" for name in ("true", "ls")]
    for path, name in zip(paths, ("true", "ls"), strict=True):
        trace([name], path, stdout=2, max_instructions=20_000, progress=False)
    return paths


def test_represent_calls_downwards(traces):
    model = load_model()
    with climbs() as found:
        represent(model, traces[0], progress=False)
    assert found == set()


def test_overview_calls_downwards(traces):
    with climbs() as found:
        pv.overview(traces, ["base"], budget=0).to_html()
    assert found == set()
