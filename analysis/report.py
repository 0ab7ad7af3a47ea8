"""Pictures and tables in one self-contained HTML page that opens offline, in light and dark mode."""

from __future__ import annotations

import html
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from tracegen.files import atomic_path
from uarch.errors import InputError

PICTURES = (".png", ".svg", ".pdf")
_CSS = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0; }
th, td { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th { font-weight: 600; } summary { cursor: pointer; } .scroll { max-height: 28rem; overflow: auto; }
"""


@dataclass(frozen=True)
class Section:
    """One part of the page: a heading, a paragraph, a picture and its numbers (either may be absent)."""

    title: str
    text: str = ""
    figure: Figure | None = None
    table: pd.DataFrame | None = None


def write_report(path: str | os.PathLike[str], title: str, sections: Sequence[Section]) -> Path:
    """Write the page atomically; nothing in it is loaded from elsewhere."""
    body = "".join(_section(section) for section in sections)
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_CSS}</style></head>'
        f"<body><h1>{html.escape(title)}</h1>{body}</body></html>\n"
    )
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return Path(path)


def _section(section: Section) -> str:
    parts = [f"<section><h2>{html.escape(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{html.escape(section.text)}</p>")
    if section.figure is not None:
        parts.append(f'<figure role="img" aria-label="{html.escape(section.title)}">{_svg(section.figure)}</figure>')
    if section.table is not None:
        table = section.table.to_html(
            index=not isinstance(section.table.index, pd.RangeIndex), border=0, float_format="{:.6g}".format
        )
        parts.append(f'<details><summary>Numbers</summary><div class="scroll">{table}</div></details>')
    parts.append("</section>")
    return "".join(parts)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def write_picture(path: str | os.PathLike[str], figure: Figure) -> Path:
    """Save a figure as PNG, SVG or PDF by its suffix, atomically."""
    suffix = Path(path).suffix
    if suffix not in PICTURES:
        raise InputError(f"{path}: a picture must end in {', '.join(PICTURES)}")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], dpi=150)
    return Path(path)
