"""Write the drawing of imports, the walks and the table of lines into docs/appendix/structure.md.

python tools/write_structure.py [BEFORE]
"""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "appendix" / "structure.md"
PICTURES = ROOT / "docs" / "images"
BEFORE = "43575aa66e4028fa017c387c3dcddbd3d6325303"  # the last commit with four floors and the command line in perfvec
FLOORS = ("support", "uarch", "tracegen", "perfvec", "perfvec/commands", "analysis", "analysis/cli")  # from the ground
FOLDERS = ("results", "programs", "parts", "budget", "designs", "questions", "real_computers", "experiments", "cli")


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


def folder(path: str) -> str:
    """Return the folder of `analysis` that a file or a module (with slashes) lies in, `api` for the files in none, and
    nothing for what is drawn elsewhere.
    """
    top, *rest = path.removesuffix(".py").split("/")
    if top != "analysis" or not rest or rest[0] == "tensor":
        return ""
    return rest[0] if rest[0] in FOLDERS else "api"


def arrows(files: dict[str, str], room: Callable[[str], str] = room) -> Counter[tuple[str, str]]:
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
            found.update((room(path), one) for one in to if one != room(path) and one and room(path))
    return found


def drawing(found: Counter[tuple[str, str]], order: Sequence[str] = FLOORS) -> str:
    """Return the rooms by floors, the tensor half on the right, and their imports as an SVG; what runs up is red."""
    rooms = {one for pair in found for one in pair}
    floors = [floor for floor in order if floor in rooms]
    place = {one: (one.endswith("/tensor"), floors.index(one.removesuffix("/tensor"))) for one in rooms}
    height = 90 * len(floors)
    width = 700 if any(tensor for tensor, _ in place.values()) else 360
    x = {one: 560 if tensor else 250 for one, (tensor, _) in place.items()}
    y = {one: height - 45 - 90 * floor for one, (_, floor) in place.items()}
    look = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {look}>']
    parts.append('<rect width="100%" height="100%" fill="white"/>')
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


def sizes(files: dict[str, str]) -> tuple[Counter[str], Counter[str]]:
    """Return the lines and the statements of each room, and of all."""
    lines: Counter[str] = Counter()
    statements: Counter[str] = Counter()
    for path, text in files.items():
        name = room(path) if path.split("/")[0] in FLOORS else path.split("/")[0]
        count = sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))
        for one in (name, "all"):
            lines[one] += text.count("\n")
            statements[one] += count
    return lines, statements


@cache
def floor_file(name: str) -> str | None:
    """Return a source file as the drawing names it, or None where it is none of the floors'."""
    path = Path(name)
    if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in FLOORS:
        return path.relative_to(ROOT).as_posix()
    return None


def calls(question: Callable[[], object]) -> Counter[tuple[str, str]]:
    """Return the calls from file to file while the question is answered; those through a library count as its
    caller's.
    """
    found: Counter[tuple[str, str]] = Counter()

    def file_of(frame: FrameType | None) -> str | None:
        while frame is not None:
            if (found_file := floor_file(frame.f_code.co_filename)) is not None:
                return found_file
            frame = frame.f_back
        return None

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            called, caller = file_of(frame), file_of(frame.f_back)
            if called is not None and caller is not None and called != caller:
                found[caller, called] += 1

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        question()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def climbs(found: Counter[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the calls of a function that lies on a higher floor than its caller."""
    floor = {one: FLOORS.index(room(one).removesuffix("/tensor")) for pair in found for one in pair}
    return sorted(pair for pair in found if floor[pair[1]] > floor[pair[0]])


def walks() -> str:
    """Return a table of the files of each floor that two questions enter, and the climbs on their way."""
    import perfvec as pv

    floors = ("analysis", "perfvec", "tracegen", "uarch", "support")
    lines = [f"| question | {' | '.join(f'`{one}`' for one in floors)} | climbs |", "|---|--:|--:|--:|--:|--:|---|"]
    with TemporaryDirectory() as name:
        trace = pv.trace(["true"], f"{name}/true.trace.h5", max_instructions=20_000)
        questions: dict[str, Callable[[], object]] = {
            "represent(trace)": lambda: pv.represent(trace),
            "report(programs)": lambda: pv.report(trace, "zen4", budget=0).to_html(f"{name}/o.html"),
        }
        for title, question in questions.items():
            found = calls(question)
            entered = Counter(one.split("/")[0] for one in {one for pair in found for one in pair})
            told = [f"`{a}` calls `{b}`" for a, b in climbs(found)]
            counts = " | ".join(str(entered[one]) for one in floors)
            lines.append(f"| `{title}` | {counts} | {'; '.join(told) or 'none'} |")
    return "\n".join(lines)


def main() -> None:
    before, after = sources(sys.argv[1] if len(sys.argv) > 1 else BEFORE), sources(None)
    columns = [column for pair in zip(sizes(before), sizes(after), strict=True) for column in pair]
    rows = [
        f"| `{one}` | " + " | ".join(f"{column[one]:,}" for column in columns) + " |"
        for one in [*sorted({*columns[0], *columns[1]} - {"all", "setup.py"}), "all"]
    ]
    (PICTURES / "structure-before.svg").write_text(drawing(arrows(before)))
    (PICTURES / "structure-after.svg").write_text(drawing(arrows(after)))
    (PICTURES / "structure-analysis.svg").write_text(drawing(arrows(after, folder), (*FOLDERS[:-1], "api", "cli")))
    head = ["| folder | lines before | after | statements before | after |", "|---|--:|--:|--:|--:|"]
    table = "\n".join([*head, *rows])
    page = PAGE.read_text()
    for part, text in (("walks", walks()), ("lines", table)):
        begin, rest = page.split(f"<!-- {part} -->\n")
        page = f"{begin}<!-- {part} -->\n\n{text}\n\n<!-- end {part} -->" + rest.split(f"<!-- end {part} -->", 1)[1]
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
