"""No import runs up: each floor imports itself and those below it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = ("support", "uarch", "tracegen", "perfvec", "analysis")  # from the ground
NOT_BELOW = ("tests", "benchmarks")
# The public API, which loads what is above when a name of it is first used, and `python -m perfvec`.
DOORS = {Path("perfvec/__init__.py"), Path("perfvec/__main__.py")}


def imported(path: Path) -> set[str]:
    """Return the top packages that a file imports anywhere in it, also by a call of `import_module`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the whole name of a module"
            found.add(str(node.module).split(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            found |= {argument.value.split(".")[0] for argument in node.args if isinstance(argument, ast.Constant)}
    return found


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_point_down(floor):
    forbidden = {*FLOORS[FLOORS.index(floor) + 1 :], *NOT_BELOW}
    files = sorted((ROOT / floor).rglob("*.py"))
    assert files
    up = {
        str(path.relative_to(ROOT)): wrong
        for path in files
        if path.relative_to(ROOT) not in DOORS and (wrong := imported(path) & forbidden)
    }
    assert not up, f"{floor} imports what is above it: {up}"


def test_an_import_that_runs_up_is_seen(tmp_path):
    for text in ("def f():\n    import analysis.sweep", "from analysis import cli", "import_module('analysis.cli')"):
        (tmp_path / "m.py").write_text(text)
        assert imported(tmp_path / "m.py") == {"analysis"}
