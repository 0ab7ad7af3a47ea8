"""C that ships as source: compiled on first use with the machine's compiler, kept in the user's cache.

A library ends with the SHA-256 of what is before, which loaders pass over: one that was cut short is compiled again.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support.cache import cache_folders
from support.errors import InputError

_SUM = hashlib.sha256().digest_size
_FLAGS = ("-g0", "-shared", "-fPIC", "-fvisibility=hidden")


def compiled(source: Path, flags: Sequence[str], what: str, headers: Sequence[Path] = ()) -> Path:
    """The shared library that the C compiler makes of `source` with `flags`; from the cache where it is there.

    `what` names it in messages; `headers` are those that it includes. Raises InputError where there is no compiler, it
    refuses, or nothing can be written.
    """
    compiler, flags = c_compiler(what), [*_FLAGS, *flags]
    key = hashlib.sha256()
    contents = [path.read_bytes() for path in (source, *headers)]
    for part in (*contents, " ".join([*compiler, *flags]).encode(), _identity(compiler)):
        key.update(hashlib.sha256(part).digest())
    name = f"{source.stem}-{key.hexdigest()[:24]}.so"
    for folder in cache_folders():
        library = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if folder.stat().st_uid != os.getuid():
                continue  # what lies there is somebody else's program
            if _is_whole(library):
                return library
            handle, temporary = tempfile.mkstemp(prefix=f".{source.stem}-", suffix=".so", dir=folder)
        except OSError:
            continue
        os.close(handle)
        try:
            command = [*compiler, *flags, "-o", temporary, str(source)]
            run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            if run.returncode != 0:
                said = run.stderr.strip()[:200] or f"exit status {run.returncode}"
                line = next((line for line in run.stderr.splitlines() if "error" in line), said)
                raise InputError(f"{what} does not compile with {shlex.join(compiler)}: {line}")
            with Path(temporary).open("r+b") as file:
                file.write(hashlib.sha256(file.read()).digest())
            Path(temporary).chmod(0o755)
            Path(temporary).replace(library)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return library
    raise InputError(f"no writable folder for {what}, compiled; set XDG_CACHE_HOME to one")


def _is_whole(library: Path) -> bool:
    if not library.is_file():
        return False
    content = library.read_bytes()
    return content[-_SUM:] == hashlib.sha256(content[:-_SUM]).digest()


def c_compiler(what: str) -> list[str]:
    """Return the words that start the C compiler: CC, else the first of cc, gcc, clang.

    Raises InputError where there is none; `what` is what would be compiled.
    """
    try:
        chosen = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise InputError(f"CC is {os.environ['CC']!r}: {error}; name a compiler and its options") from None
    for command in ([chosen] if chosen else []) + [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    raise InputError(f"no C compiler: {what} is compiled on first use (apt install gcc, or set CC)")


def _identity(compiler: list[str]) -> bytes:
    path = Path(shutil.which(compiler[0]) or compiler[0]).resolve()
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}".encode()
