"""The package as it is shipped: an sdist, the wheel made of it, and the wheel in an environment without the checkout.

`make package` installs the dependencies too, into an empty environment; here they are those of the tests, so that no
gigabyte is installed again, and the cores are compiled without optimisation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMOKE = """
import analysis, perfvec, uarch, tracegen, support
from pathlib import Path
for module in (analysis, perfvec, uarch, tracegen, support):
    assert "site-packages" in module.__file__, module.__file__
assert not (Path(uarch.__file__).parent / "timing" / "core").is_dir()
import uarch.timing._core
assert not hasattr(uarch.timing._core, "parts")
import perfvec as pv
trace = pv.trace(["/bin/true"], max_instructions=20_000)
assert pv.simulate(trace, "zen4").table["cycles"].item() > 0
assert pv.load_model().encoder is not None
assert pv.predict(trace, "zen4").to_html().startswith("<!doctype html>")
"""


def _run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _built(folder: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that was made of it."""
    compiler = folder / "fast-g++"
    compiler.write_text('#!/bin/sh\nexec g++ "$@" -O0 -w\n')
    compiler.chmod(0o755)
    environment = {**os.environ, "CXX": str(compiler), "PYTHONPATH": ""}
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, env=environment)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.mark.slow
def test_sdist_and_wheel_hold_what_they_should_and_work_without_the_checkout(tmp_path):
    pytest.importorskip("build")
    sdist, wheel = _built(tmp_path)
    with tarfile.open(sdist) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        binary = set(archive.namelist())
    assert {"setup.py", "pyproject.toml", "LICENSE", "uarch/timing/core/stack.hpp"} <= source
    shown = {"results/page.html", "results/sections.js", "parts/flame.html", "questions/explore.js"}
    read = {"budget/usual_hyperparameters.json", "questions/ideal.yaml"}
    assert {"perfvec/weights/default.safetensors", *(f"analysis/{name}" for name in shown | read)} <= binary
    assert {f"{package}/py.typed" for package in ("support", "uarch", "tracegen", "perfvec", "analysis")} <= binary
    assert any(name.startswith("uarch/timing/_core") for name in binary)
    assert not [name for name in binary if name.endswith((".cpp", ".hpp"))]

    _run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    site = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(
        sysconfig.get_path("purelib") + "\n"
    )  # but no .pth of there: not the checkout
    _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", site, wheel)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    _run(python, "-c", SMOKE, cwd=tmp_path, env=environment)
    version = _run(python, "-m", "analysis.cli", "--version", cwd=tmp_path, env=environment)
    assert version.startswith("perfvec ")
