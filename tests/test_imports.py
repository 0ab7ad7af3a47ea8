"""No import runs up: each floor imports itself and those below it."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("results", "programs", "parts", "budget", "designs", "questions", "real_computers", "experiments")
FLOORS = (  # from the ground; those of the last two parts of `analysis` are its own files and the command line
    "support",
    "uarch",
    "tracegen",
    "perfvec",
    *(f"analysis.{folder}" for folder in FOLDERS),
    "analysis",
    "analysis.cli",
)
NOT_BELOW = ("tests", "benchmarks")
# The public API, which loads what is above when a name of it is first used, and `python -m perfvec`.
DOORS = {Path("perfvec/__init__.py"), Path("perfvec/__main__.py")}


@cache
def parsed(path: Path) -> list[ast.AST]:
    """Return all nodes of a file."""
    return list(ast.walk(ast.parse(path.read_text())))


def called(node: ast.Call) -> str:
    """Return the last part of what is called."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def floor_of(module: str) -> str:
    """Return the floor that a module lies on, or its top package where it is on none."""
    on = [floor for floor in FLOORS if f"{module}.".startswith(f"{floor}.")]
    return max(on, key=len, default=module.split(".")[0])


def imported(path: Path) -> set[str]:
    """Return the floors that a file imports anywhere in it, also by a call of `import_module`."""
    found = set()
    for node in parsed(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the whole name of a module"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            found |= {str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)}
    return {floor_of(module) for module in found}


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_point_down(floor):
    forbidden = {*FLOORS[FLOORS.index(floor) + 1 :], *NOT_BELOW}
    paths = sorted((ROOT / floor.replace(".", "/")).rglob("*.py"))
    files = [path for path in paths if floor_of(".".join(path.relative_to(ROOT).parts[:-1])) == floor]
    assert files
    up = {
        str(path.relative_to(ROOT)): wrong
        for path in files
        if path.relative_to(ROOT) not in DOORS and (wrong := imported(path) & forbidden)
    }
    assert not up, f"{floor} imports what is above it: {up}"


def test_an_import_that_runs_up_is_seen(tmp_path):
    texts = {
        "def f():\n    import analysis.designs.sweep": "analysis.designs",
        "from analysis import api": "analysis",
        "from analysis import cli": "analysis.cli",
        "from analysis.cli.output import render": "analysis.cli",
        "import_module('analysis.cli')": "analysis.cli",
    }
    for number, (text, floor) in enumerate(texts.items()):
        (path := tmp_path / f"{number}.py").write_text(text)
        assert imported(path) == {floor}


def test_only_the_command_line_knows_the_tensor_half():
    halves = {f"{floor}.tensor" for floor in FLOORS}
    knowing = [
        name
        for name, nodes in modules().items()
        if not name.startswith((*halves, "analysis.cli."))
        for node in nodes
        if isinstance(node, ast.ImportFrom) and ".".join(str(node.module).split(".")[:2]) in halves
    ]
    assert knowing == []


def modules() -> dict[str, list[ast.AST]]:
    """Return the nodes of all modules of all floors by their names, without those that only hand names on."""
    paths = [path for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): parsed(path)
        for path in paths
        if path.relative_to(ROOT) not in DOORS and path.name != "__init__.py"
    }


def circle(known: dict[str, list[ast.AST]]) -> list[str]:
    """Return a circle of modules that import each other, also inside functions, but not for type checkers alone."""
    to: dict[str, set[str]] = {}
    for name, nodes in known.items():
        checked = [node for node in nodes if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
        hidden = {id(inner) for node in checked for inner in ast.walk(node)}
        named = set()
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and id(node) not in hidden:
                named |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
        to[name] = (named & known.keys()) - {name}
    try:
        TopologicalSorter(to).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other():
    assert circle(modules()) == []


def test_a_circle_is_seen():
    texts = {"a": "import b", "b": "def f():\n    from c import g", "c": "import a", "d": "import a"}
    assert set(circle({name: list(ast.walk(ast.parse(text))) for name, text in texts.items()})) == set("abc")


def private_uses(path: Path) -> set[str]:
    """Return the private names of our packages that a test imports, patches, or reads of another object."""
    found = set()
    for node in parsed(path):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in FLOORS:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and called(node) == "setattr":
            given = (argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant))
            found |= {value.split(".")[-1] for value in given if isinstance(value, str)}
    compiled = {"_core"}  # the C++ modules, as setup.py names them
    return {name for name in found if name.startswith("_") and not name.endswith("_")} - compiled - {"_exit"}


def test_tests_hold_by_public_names():
    paths = sorted((ROOT / "tests").rglob("*.py"))
    assert {str(path.relative_to(ROOT)): names for path in paths if (names := private_uses(path))} == {}


def test_a_private_name_is_seen(tmp_path):
    for number, text in enumerate(
        ("from uarch.space import _draw", "space._draw()", "patch.setattr(space, '_draw', 1)")
    ):
        (path := tmp_path / f"{number}.py").write_text(text)
        assert private_uses(path) == {"_draw"}
