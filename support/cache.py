"""Files that can be made again, kept in the user's cache for the next time."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from support.errors import InputError
from support.files import require_writable


def cache_folders() -> list[Path]:
    """Return the folders for what can be made again, the best first; they need not be there."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    home = os.environ.get("HOME") or ""
    folders = [Path(base) / "perfvec"] if base.startswith("/") else [Path(home) / ".cache" / "perfvec"] if home else []
    return [*folders, Path(tempfile.gettempdir()) / f"perfvec-{os.getuid()}"]


def cached_files(kind: str, key: str, suffix: str) -> Iterator[Path]:
    """Yield the files that hold what `key` stands for, the best first: in the folder `kind` of each cache folder."""
    name = hashlib.sha256(key.encode()).hexdigest()[:32] + suffix
    for folder in cache_folders():
        with suppress(PermissionError):  # of a home that is somebody else's
            if not folder.exists() or folder.stat().st_uid == os.getuid():  # not what somebody else put there
                yield folder / kind / name


def can_be_written(path: Path) -> bool:
    """Tell whether a file can be written there; makes its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        require_writable(path)
    except (InputError, OSError):
        return False
    return True
