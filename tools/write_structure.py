"""Write the drawing of imports and the table of lines, before and after, into docs/appendix/structure.md.

python tools/write_structure.py [BEFORE]
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "appendix" / "structure.md"
PICTURES = ROOT / "docs" / "images"
BEFORE = "43575aa66e4028fa017c387c3dcddbd3d6325303"  # the last commit with four floors and the command line in perfvec
FLOORS = ("support", "uarch", "tracegen", "perfvec", "perfvec/commands", "analysis", "analysis/cli")  # from the ground
OTHERS = ("tests", "benchmarks", "examples", "tools")


def sources(revision: str | None) -> dict[str, str]:
    """Return the Python files of a commit, or of the working tree, by their paths."""
    listed = ["ls-tree", "-r", "--name-only", revision] if revision else ["ls-files"]
    names = [name for name in git(*listed).splitlines() if name.endswith(".py")]
    if revision is None:
        return {name: (ROOT / name).read_text() for name in names}
    return {name: git("show", f"{revision}:{name}") for name in names}


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def room(path: str) -> str:
    """Return the part of the drawing that a file or a module (with slashes) belongs to: a floor, or its tensor half."""
    top, *rest = path.removesuffix(".py").split("/")
    if path.removesuffix(".py") == "perfvec/cli":
        return "perfvec/commands"
    inner = rest[0] if rest and rest[0] in ("tensor", "cli", "commands") else ""
    return f"{top}/{inner}" if inner else top


def arrows(files: dict[str, str]) -> Counter[tuple[str, str]]:
    """Return the number of imports from each room to each other one."""
    found: Counter[tuple[str, str]] = Counter()
    for path, text in files.items():
        if path.split("/")[0] not in FLOORS or path.endswith(("__init__.py", "__main__.py")):
            continue
        for node in ast.walk(ast.parse(text)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            to = {room(module.replace(".", "/")) for module in modules if module.split(".")[0] in FLOORS}
            found.update((room(path), one) for one in to if one != room(path))
    return found


def drawing(found: Counter[tuple[str, str]]) -> str:
    """Return the rooms by floors, the tensor half on the right, and their imports as an SVG; what runs up is red."""
    rooms = {one for pair in found for one in pair}
    floors = [floor for floor in FLOORS if floor in rooms]
    place = {one: (one.endswith("/tensor"), floors.index(one.removesuffix("/tensor"))) for one in rooms}
    height = 90 * len(floors)
    x = {one: 560 if tensor else 250 for one, (tensor, _) in place.items()}
    y = {one: height - 45 - 90 * floor for one, (_, floor) in place.items()}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {height}" font-family="sans-serif" font-size="13">'
    ]
    parts.append('<rect width="700" height="100%" fill="white"/>')
    for (a, b), count in sorted(found.items()):
        up = place[b][1] > place[a][1]
        bend = 0 if abs(y[a] - y[b]) == 90 or x[a] != x[b] else (40 + abs(y[a] - y[b]) // 2) * (1 if x[a] > 400 else -1)
        middle = (x[a] + x[b]) / 2 + bend, (y[a] + y[b]) / 2
        color = "#c00" if up else "#888"
        parts.append(f'<path d="M{x[a]} {y[a]} Q{middle[0]} {middle[1]} {x[b]} {y[b]}" fill="none" stroke="{color}"/>')
        near = [0.49 * p + 0.42 * q + 0.09 * r for p, q, r in zip((x[a], y[a]), middle, (x[b], y[b]), strict=True)]
        halo = 'font-size="11" stroke="white" stroke-width="3" paint-order="stroke"'
        parts.append(f'<text x="{near[0]:.0f}" y="{near[1]:.0f}" fill="{color}" {halo}>{count}</text>')
    for one in sorted(rooms):
        parts.append(
            f'<rect x="{x[one] - 65}" y="{y[one] - 15}" width="130" height="30" rx="4" fill="#eef" stroke="#446"/>'
        )
        parts.append(f'<text x="{x[one]}" y="{y[one] + 4}" text-anchor="middle">{one}</text>')
    return "\n".join([*parts, "</svg>\n"])


def lines_of(files: dict[str, str]) -> Counter[str]:
    """Return the lines of each room, and of all."""
    found: Counter[str] = Counter()
    for path, text in files.items():
        found[room(path) if path.split("/")[0] in FLOORS else path.split("/")[0]] += text.count("\n")
    found["all"] = sum(found.values())
    return found


def main() -> None:
    before, after = sources(sys.argv[1] if len(sys.argv) > 1 else BEFORE), sources(None)
    old, new = lines_of(before), lines_of(after)
    rows = [f"| `{one}` | {old[one]:,} | {new[one]:,} |" for one in sorted(({*old} | {*new}) - {"all", "setup.py"})]
    head = ["| folder | before | after |", "|---|--:|--:|"]
    (PICTURES / "structure-before.svg").write_text(drawing(arrows(before)))
    (PICTURES / "structure-after.svg").write_text(drawing(arrows(after)))
    table = "\n".join([*head, *rows, f"| all | {old['all']:,} | {new['all']:,} |"])
    begin, rest = PAGE.read_text().split("<!-- lines -->\n")
    page = f"{begin}<!-- lines -->\n\n{table}\n\n<!-- end -->{rest.split('<!-- end -->', 1)[1]}"
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
