"""The lock under which kernels are compiled: in the cache's folder, and never somebody else's."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

import support
from support.jit import one_at_a_time

_COMPILES = """
import numpy as np
from support.jit import kernel
@kernel
def two(values):
    values[0] = 2
values = np.zeros(1)
two(values)
assert values[0] == 2
"""
LOCK = ".perfvec-kernels.lock"


@pytest.mark.slow
def test_the_lock_lies_in_the_cache_and_not_in_the_shared_temporary_folder(tmp_path):
    temporary, cache = tmp_path / "temporary", tmp_path / "cache"
    temporary.mkdir()
    script = tmp_path / "kernels.py"
    script.write_text(_COMPILES)
    environment = os.environ | {"TMPDIR": str(temporary), "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, script], env=environment, check=True)
    assert list(temporary.iterdir()) == [] and len(list(cache.glob(f"*/{LOCK}"))) == 1


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    with one_at_a_time(tmp_path):
        assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_somebody_elses_lock_is_not_waited_for(tmp_path):
    with (tmp_path / LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        os.chown(tmp_path / LOCK, 12345, 12345)
        with one_at_a_time(tmp_path):
            pass


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path):
    with one_at_a_time(tmp_path / "absent"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut short", "of another release", "code cut short"])
def test_a_kept_function_that_cannot_be_read_is_compiled_again(tmp_path, damage):
    """A pickle of a module that is no more, as an upgrade leaves, or half a file: neither a traceback nor for ever."""
    script, cache = tmp_path / "kernels.py", tmp_path / "cache"
    script.write_text(_COMPILES)
    command = {"args": [sys.executable, script], "env": os.environ | {"NUMBA_CACHE_DIR": str(cache)}, "check": True}
    subprocess.run(**command)
    (index,), (code,) = list(cache.glob("*/*.nbi")), list(cache.glob("*/*.nbc"))
    sound = index.read_bytes(), code.read_bytes()
    if damage == "cut short":
        index.write_bytes(sound[0][: len(sound[0]) // 2])
    elif damage == "of another release":
        version = sound[0][: sound[0].index(b".") + 1]  # numba's, a pickle of its own
        index.write_bytes(version + b"cno.such.module\nName\n.")
    else:
        code.write_bytes(sound[1][: len(sound[1]) // 2])
    subprocess.run(**command)
    found = subprocess.run(**command, capture_output=True, text=True)
    assert found.stderr == "" and index.read_bytes() != b"" and len(list(cache.glob("*/*.nbc"))) == 1


@pytest.mark.slow
def test_a_kernel_is_compiled_again_where_what_it_imports_changed(tmp_path):
    root = tmp_path / "toolkit"
    copytree(Path(support.__file__).parent, root / "support", ignore=ignore_patterns("__pycache__"))
    for folder in ("low", "high"):
        (root / "tracegen" / folder).mkdir(parents=True)
    low = root / "tracegen" / "low" / "fan.py"
    (root / "tracegen" / "high" / "sum.py").write_text(
        "import numpy as np\nfrom support.jit import kernel\nfrom tracegen.low.fan import fan\n"
        "@kernel\ndef total(values):\n    values[0] = fan(values[0]) + 1\n"
        "values = np.array([3])\ntotal(values)\nprint(values[0])\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(root)}
    printed = []
    for times in (10, 1000):
        low.write_text(f"from support.jit import compiled\n@compiled\ndef fan(x):\n    return x * {times}\n")
        command = [sys.executable, "-P", "-m", "tracegen.high.sum"]
        printed.append(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    assert printed == ["31\n", "3001\n"]


@pytest.mark.slow
def test_a_function_that_cannot_be_kept_on_a_full_disk_runs(tmp_path):
    script, cache = tmp_path / "kernels.py", tmp_path / "cache"
    script.write_text(_COMPILES)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    words = ["sh", "-c", 'ulimit -f 1 && exec "$0" "$1"', sys.executable, script]
    done = subprocess.run(words, env=environment, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in cache.glob("*/*")] == [LOCK]


@pytest.mark.slow
def test_a_kept_function_is_compiled_again_where_a_file_beside_it_has_changed(tmp_path):
    """Numba looks at the function's own file alone, but the others' constants and functions are compiled into it."""
    (tmp_path / "kernels.py").write_text(
        _COMPILES.replace("] = 2", "] = values_of.TWO").replace("@", "import values_of\n@")
    )
    command = {"args": [sys.executable, tmp_path / "kernels.py"], "check": False}
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    for value in (2, 3):
        (tmp_path / "values_of.py").write_text(f"TWO = {value}\n")
        assert (subprocess.run(**command, env=environment, stderr=subprocess.DEVNULL).returncode == 0) == (value == 2)
