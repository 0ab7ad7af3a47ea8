"""Check the documentation's prose: proselint, and the house style in one file.

python tools/check_prose.py [FILE…]. Without files: README.md, the other texts of the root, and all of docs/. A sentence
has at most 35 words, a table's cell at most 12; no phrase of `PHRASES`, and nothing that proselint finds (clichés,
redundancy, hedging, misused words). Code, links' targets and generated pages are left out. Prints FILE:LINE: what, and
exits with 1 where something was found.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from proselint.checks import __register__ as CHECKS
from proselint.config import DEFAULT, Config
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS = 35
MOST_CELL_WORDS = 12
GENERATED = ("<!-- Written by", "<!-- Generated")
# Quotes and signs are Markdown's and the site's.
PROSELINT = Config(max_errors=DEFAULT["max_errors"], checks={**DEFAULT["checks"], "typography": False})
CheckRegistry().register_many(CHECKS)
# What to write instead stands behind the phrase.
PHRASES = {
    r"answers? the pointer": "interactive",
    r"come back to": "re-read",
    r"as many as a hand holds": "a number",
    r"\bsought and not reached\b": "the target is missed: say by how much",
    r"\bin the commands' words\b": "gives the command's error",
    r"\bwhat is no\b": "an invalid …",
    r"\bso many\b": "N",
    r"\bis told\b|\bare told\b": "is reported",
    r"\bin order to\b": "to",
    r"\butili[sz]e": "use",
    r"\bleverag(e|es|ing) (the|our|a)\b": "use",
    r"\bplease note\b|\bnote that\b": "say it",
    r"\bobviously\b|\bsimply\b|\bof course\b": "leave it out",
    r"\bvery\b": "leave it out, or a number",
    r"\bstate[- ]of[- ]the[- ]art\b": "name it",
    r"\bpowerful\b|\bseamless": "say what it does",
}


def texts() -> list[Path]:
    """The files that a reader may meet."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def findings(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, what is wrong) of a page in Markdown."""
    if text.startswith(GENERATED):
        return
    pieces = list(_pieces(text))
    prose = [(line, words) for line, kind, words in pieces if kind == "prose"]
    if prose:
        page = LintFile("page", "\n".join(words for _, words in prose))
        for result in page.lint(PROSELINT):
            before = page.content.count("\n", 0, result.check_result.span[1] - 1)  # the first line is empty
            yield prose[before - 1][0], result.check_result.message
    for line, kind, words in pieces:
        for pattern, instead in PHRASES.items():
            if found := re.search(pattern, words, re.IGNORECASE):
                yield line, f"{found.group(0)!r}: write {instead!r}"
        if kind == "cell":
            if (count := _count(words)) > MOST_CELL_WORDS:
                yield line, f"a table's cell of {count} words (at most {MOST_CELL_WORDS}): {words[:60]}"
            continue
        for sentence in re.split(r"(?<=[.!?:])\)?\s+(?=[A-Z*`\[(≤]|$)", words):
            if (count := _count(sentence)) > MOST_WORDS:
                yield line, f"a sentence of {count} words (at most {MOST_WORDS}): {sentence[:70]}…"


def _pieces(text: str) -> Iterator[tuple[int, str, str]]:
    """Paragraphs and table cells, each with the line that it begins at."""
    text = re.sub(r"<!--.*?-->", lambda found: "\n" * found.group(0).count("\n"), text, flags=re.DOTALL)
    fenced = False
    paragraph: list[str] = []
    began = 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        indented = line.startswith("    ") and not paragraph
        item = re.match(r"\s*([-*]|\d+\.)\s+", line)
        table = line.lstrip().startswith("|")
        if fenced or not line.strip() or indented or item or table or line.startswith(("#", ":::", "<", "---")):
            if paragraph:
                yield began, "prose", _plain(" ".join(paragraph))
            paragraph = []
        if fenced or indented or not line.strip() or line.startswith(("#", ":::", "<", "---")):
            continue
        if table:
            for cell in line.strip().strip("|").split("|"):
                yield number, "cell", _plain(cell)
            continue
        if not paragraph:
            began = number
        paragraph.append(line[item.end() :] if item else line.strip())


def _plain(text: str) -> str:
    number = count(1)
    text = re.sub(r"`[^`]*`", lambda _: f"X{next(number)}", text)  # code is one word, and none is like another
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\b(e\.g|i\.e|et al|vs|ch|cf|Fig)\.", r"\1", text).replace("**", "").strip()


def _count(text: str) -> int:
    return sum(1 for word in text.split() if re.search(r"[^\W\d_]", word))  # numbers and signs are no words


def main() -> None:
    """Check files and print what was found."""
    parser = argparse.ArgumentParser(description="Check the documentation's prose.")
    parser.add_argument("files", nargs="*", type=Path)
    found = 0
    for path in parser.parse_args().files or texts():
        for line, what in findings(path.read_text()):
            print(f"{path.relative_to(ROOT) if path.is_absolute() else path}:{line}: {what}")
            found += 1
    if found:
        print(f"{found} findings", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
