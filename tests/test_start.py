"""The command starts fast, and says what matters."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_HEAVY = ("torch", "matplotlib", "plotly", "pandas", "numba", "scipy", "h5py", "tvm", "distributed")


def _run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "import perfvec",
        "from analysis.cli.main import main; main([])",
        "from analysis.cli.main import main; main(['--help'])",
        "from analysis.cli.main import main; main(['sweep', '--help'])",
        "from analysis.cli.main import main; main(['--version'])",
    ],
)
def test_heavy_modules_wait_until_they_are_used(script):
    told = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print([m for m in {_HEAVY} if m in sys.modules], file=sys.stderr))"
    )
    done = _run("-c", f"{told}\n{script}")
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().splitlines()[-1] == "[]"


@pytest.mark.slow
def test_what_the_model_has_no_part_in_does_without_pytorch(data, tmp_path):
    trace, points = str(data.traces / "qsort.trace.h5"), str(tmp_path / "q.livepoints.h5")
    commands = [
        ["profile", trace, "--uarch", "zen4"],
        ["diff", trace, trace, "--uarch", "zen4"],
        ["live-points", trace, "--no-vector", "-o", points],
        ["simulate", points, "--uarch", "zen4"],
    ]
    script = (
        "import sys\nfrom analysis.cli.main import main\n"
        f"for words in {commands}:\n"
        "    try: main(words)\n"
        "    except SystemExit as ended: assert not ended.code\n"
        "    assert 'torch' not in sys.modules, words"
    )
    done = _run("-c", script)
    assert done.returncode == 0, done.stderr


def test_perfvec_alone_prints_the_six_commands_that_matter():
    done = _run("-m", "analysis.cli")
    assert done.returncode == 0
    matter = ("trace", "predict", "simulate", "profile", "sweep", "compare")
    assert all(f"perfvec {name} " in done.stdout for name in matter)
    assert "perfvec --help" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_version_is_printed():
    done = _run("-m", "analysis.cli", "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("perfvec ")


def test_a_program_without_a_command_is_one_line():
    done = _run("-m", "analysis.cli", "--", "/bin/true")
    assert done.returncode == 2
    assert done.stderr.startswith("perfvec: a command is missing") and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_missing_optional_part_is_named_with_the_pip_line(tmp_path):
    """A module that raises ImportError stands for an absent Optuna."""
    (tmp_path / "optuna.py").write_text("raise ImportError('not here')")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from perfvec.tensor.autotune import autotune\nfrom support.errors import InputError\n"
        "from types import SimpleNamespace as Entry\n"
        "try: autotune('d', 'o.yaml', Entry(model='mlp'), trials=1, budget=None)\n"
        "except InputError as error: print(error)\n"
    )
    assert "pip install 'perfvec-toolkit[search]'" in _run("-c", script).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("si", "simulate"),
        ("predict --bud", "--budget"),
        ("predict --uarch cortex-a5", "cortex-a53\ncortex-a55\ncortex-a53-native"),
    ],
)
def test_the_shell_completes_commands_options_and_machines(words, expected):
    words = f"perfvec {words}"
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'perfvec'\nfrom analysis.cli.main import main; main([])"],
        env=os.environ
        | {"_PERFVEC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == expected
