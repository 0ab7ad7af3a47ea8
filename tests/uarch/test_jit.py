"""Kernels are compiled by one process and read by the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Each process tells how often it compiled: what is read from the disk is not saved again.
_PROGRAM = """
import sys
import numba.core.caching as caching
from uarch.jit import kernel

saved = []
save = caching.Cache.save_overload
caching.Cache.save_overload = lambda cache, *parts: (saved.append(parts), save(cache, *parts))[1]


@kernel
def total(count: int) -> int:
    value = 0
    for k in range(count):
        value += k
    return value


print("ready", flush=True)
sys.stdin.readline()
print(total(1000), total(10), len(saved), flush=True)
"""


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(_PROGRAM)
    environment = os.environ | {"TMPDIR": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    processes = [
        subprocess.Popen(
            [sys.executable, script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    lines = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [line[:2] for line in lines] == [["499500", "45"]] * 3
    assert sorted(int(line[2]) for line in lines) == [0, 0, 1]


_NO_CACHE = """
from numba.core.caching import CacheImpl

CacheImpl._locator_classes = []  # an installation that cannot be written, and no home folder
from uarch.jit import cached, kernel


@cached(nogil=True)
def twice(value):
    return 2 * value


@kernel
def total(count: int) -> int:
    value = 0
    for k in range(count):
        value += k
    return value


print(twice(21), total(1000))
"""


def test_without_a_place_for_compiled_code_it_is_compiled_again(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(_NO_CACHE)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout == "42 499500\n"
    assert len(done.stderr.splitlines()) == 1 and "set NUMBA_CACHE_DIR" in done.stderr


def test_every_function_that_is_kept_can_do_without() -> None:
    """None asks numba itself to keep it, which raises where there is no place."""
    root = Path(__file__).parents[2]
    packages = ("perfvec", "tracegen", "uarch", "analysis")
    sources = [path for package in packages for path in (root / package).rglob("*.py")]
    asking = [path.relative_to(root) for path in sources if "cache=True" in path.read_text()]
    assert asking == [Path("uarch/jit.py")]
