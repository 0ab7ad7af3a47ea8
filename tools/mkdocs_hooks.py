"""MkDocs' hooks: links from pages to source files, which are not part of the site."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Point links that leave docs/ at the repository. Keep their text alone where no `repo_url` is set."""
    del files
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def moved(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found.group(2)))
        if path.startswith("docs/"):
            return found.group(0)
        text, fragment = found.group(1), found.group(3) or ""
        return f"[{text}]({config.repo_url}/blob/main/{path}{fragment})" if config.repo_url else text

    return _LINK.sub(moved, markdown)
