"""One self-contained HTML page: the answer in a number and a sentence, then sections of figures and their numbers.

It opens offline, in light and dark mode, on a phone and on paper: plotly.js, from the installed package, is inside
once, deflated, and a content security policy forbids the page every request.
"""

from __future__ import annotations

import html
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.results.figure import Figure
from analysis.results.figure_plotly import document, narrow, packed_library
from analysis.results.headline import Headline
from support.files import write_text

__all__ = ["Section", "fill", "head", "page", "table", "to_script", "write_page"]
HERE = Path(__file__).parent
MOST_ROWS = 2000  # of a table in the page
_CONTENTS_FROM = 5  # sections: a page of fewer has no list of them


@dataclass(frozen=True)
class Section:
    """One part of the page: a heading, a paragraph, a figure and its numbers (each but the heading may be absent).

    `fragment` is HTML of the module that draws something of its own, trusted as it is; `closed`: shown on a click.
    `source`: where the numbers come from, with their interval; by default as the page's headline says. `wide`: takes
    the width of the page where others stand two in a row.
    """

    title: str
    text: str = ""
    figure: Figure | None = None
    table: pd.DataFrame | None = None
    fragment: str = ""
    closed: bool = False
    source: str = ""
    wide: bool = False


def write_page(
    path: str | os.PathLike[str],
    title: str,
    sections: Sequence[Section],
    subtitle: str = "",
    headline: Headline | None = None,
) -> Path:
    """Write the page atomically; nothing in it is loaded from elsewhere."""
    text = page(title, sections, subtitle, headline)
    write_text(path, text)
    return Path(path)


def page(title: str, sections: Sequence[Section], subtitle: str = "", headline: Headline | None = None) -> str:
    """The page as text."""
    figures = [
        document(section.figure) | {"narrow": narrow(section.figure)}
        for section in sections
        if section.figure is not None
    ]
    numbers = iter(range(len(figures)))
    source = headline.source if headline is not None else ""
    parts = [
        _section(section, place, next(numbers) if section.figure else None, wide, source)
        for place, (section, wide) in enumerate(zip(sections, _widths(sections), strict=True))
    ]
    return fill(
        HERE / "page.html",
        {
            "TITLE": html.escape(title),
            "HEAD": head(title, subtitle, headline),
            "CONTENTS": _contents(sections),
            "STYLE": (HERE / "page.css").read_text(encoding="utf-8"),
            "SECTIONS": "\n".join(parts),
            "FIGURES": to_script(figures),
            "PLOTLY": packed_library() if figures else "",
            "COMMON": (HERE / "page.js").read_text(encoding="utf-8"),
            "SCRIPT": (HERE / "sections.js").read_text(encoding="utf-8"),
            "FOOTER": f"perfvec {version('perfvec-toolkit')}" + (f", plotly {version('plotly')}" if figures else ""),
        },
    )


def head(title: str, subtitle: str = "", headline: Headline | None = None) -> str:
    """The top of a page in HTML: the title, and the answer in a number and a sentence with its source."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    if headline is not None:
        parts.append(
            '<div class="answer">'
            f'<p class="big"><span id="big">{html.escape(headline.number)}</span> '
            f'<span class="unit" id="unit">{html.escape(headline.unit)}</span></p>'
            f'<div><p class="sentence" id="sentence">{html.escape(headline.sentence)}</p>'
            f'<p class="source" id="source">Source: {html.escape(headline.source)}</p></div></div>'
        )
    if subtitle:
        parts.append(f"<p>{html.escape(subtitle)}</p>")
    return "".join(parts)


def _contents(sections: Sequence[Section]) -> str:
    if len(sections) < _CONTENTS_FROM:
        return ""
    links = "".join(f'<a href="#section-{k}">{html.escape(one.title)}</a>' for k, one in enumerate(sections))
    return f'<nav aria-label="Contents">{links}</nav>'


def _widths(sections: Sequence[Section]) -> list[bool]:
    """Tell which take the whole row: those that want it, and those that would stand alone in a row of two."""
    wide = [one.wide or (one.figure is not None and one.figure.columns > 1) for one in sections]
    found = list(wide)
    alone = None  # the section at the left of a row that is not full
    for place, own in enumerate(wide):
        if own:
            if alone is not None:
                found[alone] = True
            alone = None
        else:
            alone = place if alone is None else None
    if alone is not None:
        found[alone] = True
    return found


def fill(template: Path, values: Mapping[str, str]) -> str:
    """The template's text with each `@NAME@` replaced; what is put in is not looked at again."""
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], template.read_text(encoding="utf-8"))


def to_script(value: Any) -> str:
    """JSON that may stand inside a script element, where `</script` ends it and `<!--` changes what ends it: without
    any `<`, which JSON has in texts alone. Raises ValueError for numbers that are not finite.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _section(section: Section, place: int, number: int | None, wide: bool, source: str) -> str:
    kind = "section wide" if wide else "section"
    parts = [f'<details class="{kind}" id="section-{place}"{"" if section.closed else " open"}>']
    parts.append(f"<summary><h2>{html.escape(section.title)}</h2></summary>")
    if section.text:
        parts.append(f"<p>{html.escape(section.text)}</p>")
    if section.figure is not None:
        size = f"min-height:{section.figure.height * 96:.0f}px"
        label = html.escape(section.title)
        parts.append(f'<figure role="img" aria-label="{label}" data-figure="{number}" style="{size}"></figure>')
    parts.append(section.fragment)
    if section.table is not None:
        state = " open" if section.figure is None and not section.fragment else ""
        parts.append(f'<details class="numbers"{state}><summary>Numbers</summary>{table(section.table)}</details>')
    if told := section.source or source:
        parts.append(f'<p class="source">Source: {html.escape(told)}</p>')
    parts.append("</details>")
    return "".join(parts)


def table(frame: pd.DataFrame) -> str:
    """A scrolling table that a click on a heading sorts; the first MOST_ROWS rows, and a line where there are more."""
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(names=frame.index.name or "")
    shown = frame.head(MOST_ROWS)
    text = [not pd.api.types.is_numeric_dtype(frame[name].dropna().infer_objects()) for name in frame.columns]
    style = [' class="text"' if is_text else "" for is_text in text]
    heads = "".join(
        f'<th{s} tabindex="0">{html.escape(str(name))}</th>' for name, s in zip(frame.columns, style, strict=True)
    )
    rows = []
    for row in shown.itertuples(index=False):
        cells = (_cell(value, s) for value, s in zip(row, style, strict=True))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    more = f"<p>The first {MOST_ROWS:,} of {len(frame):,} rows.</p>" if len(frame) > MOST_ROWS else ""
    body = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'{more}<div class="scroll" tabindex="0" role="region" aria-label="table">{body}</div>'


def _cell(value: Any, style: str) -> str:
    if value is None or value is pd.NA:
        return f"<td{style}></td>"
    if isinstance(value, bool | np.bool_):
        return f"<td{style}>{'yes' if value else ''}</td>"
    if isinstance(value, int | float | np.number):
        number = float(value)
        if math.isnan(number):
            return f"<td{style}></td>"
        whole = isinstance(value, int | np.integer) or abs(number) >= 1e5
        return f'<td{style} data-value="{number:.10g}">{f"{number:,.0f}" if whole else f"{number:.5g}"}</td>'
    return f"<td{style}>{html.escape(str(value))}</td>"
