"""A docstring begins with a verb, or with the noun of what a class, a module or a value is."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = ("support", "uarch", "tracegen", "perfvec", "analysis", "benchmarks", "tests", "tools", "examples")
NEITHER = {
    *("Of", "What", "How", "Whether", "Where", "That", "Into", "Why", "Which"),
    *("As", "By", "In", "When", "With", "Without", "Until", "On", "Over", "Under"),
}


def wrong(path: Path) -> list[str]:
    """Return the places of docstrings in a file that begin with another word."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)) and text.split()[0].strip(",:") in NEITHER:
            found.append(f"{path}:{node.body[0].lineno}: {text.splitlines()[0]}")
    return found


def test_docstrings_begin_with_a_verb_or_a_noun():
    files = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
    assert len(files) > 300
    assert not [place for path in files for place in wrong(path)]


def test_another_word_is_seen(tmp_path):
    (tmp_path / "m.py").write_text('"""Files."""\n\n\ndef f():\n    """Whether it is."""\n')
    assert len(wrong(tmp_path / "m.py")) == 1
