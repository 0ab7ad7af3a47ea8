"""Regions: recording begins where the program reaches one place, and ends at another or where a function returns.

A place is `SYMBOL`, `SYMBOL+OFFSET` (a function of the executable or of any library that the program loads, early or
late) or `0xADDRESS` (in the executable, as its symbol table counts, wherever it is loaded). The plugin asks for
run-time addresses whenever the program has mapped a file with code, before any of it runs.
"""

from __future__ import annotations

import contextlib
import difflib
import mmap
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from support.errors import InputError
from tracegen.binary import elf
from tracegen.qemu.mappings import read_mappings

_MAX_SITES = 255  # as in plugin.c
_ASKED, _ANSWERED, _FROM_COUNT, _TO_COUNT, _FROM = range(5)  # struct sites
_TO = _FROM + _MAX_SITES
_WORDS = _TO + _MAX_SITES


@dataclass(frozen=True)
class Place:
    """An instruction: `offset` bytes after a symbol, or where there is none, at that address in the executable."""

    symbol: str | None
    offset: int

    def __str__(self) -> str:
        if self.symbol is None:
            return f"{self.offset:#x}"
        return f"{self.symbol}+{self.offset:#x}" if self.offset else self.symbol


def parse_place(text: str) -> Place:
    """`SYMBOL`, `SYMBOL+OFFSET` or `0xADDRESS`; offsets are decimal or 0x…"""
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", text):
        return Place(None, int(text, 16))
    symbol, plus, offset = text.rpartition("+")
    if plus and re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18}", offset) and symbol:
        return Place(symbol, int(offset, 16 if offset[:2] in ("0x", "0X") else 10))
    if not text or text[0].isdigit() or text[0] == "+" or any(character.isspace() for character in text):
        raise InputError(f"{text!r} is no place in a program; write SYMBOL, SYMBOL+OFFSET or 0xADDRESS")
    return Place(text, 0)


@dataclass(frozen=True)
class Region:
    """Part of a run that is recorded: from `start` (None: the program's start) to `stop` (None: its end), each time or
    `times` times.

    With `returns` it is a function, from `start` until that returns; what it calls is in it, and its own recursion.
    """

    start: Place | None = None
    stop: Place | None = None
    returns: bool = False
    times: int | None = None

    def __post_init__(self) -> None:
        if self.start is None and self.stop is None:
            raise InputError("a region needs a place where it begins or ends")
        if self.returns and (self.start is None or self.stop is not None):
            raise InputError("a function is a region of its own; it does not go with --from or --to")
        if self.times is not None and self.times < 1:
            raise InputError(f"times is {self.times}; at least 1 is needed")

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(place for place in (self.start, self.stop) if place is not None)

    def plugin_options(self) -> dict[str, object]:
        """The plugin's arguments (plugin.c)."""
        options: dict[str, object] = {"region": "function" if self.returns else "between", "times": self.times or 0}
        if self.start is None:
            options["from-start"] = "on"
            options["times"] = self.times or 1
        return options

    def require_symbols(
        self, executable: elf.Executable, emulator: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Raise InputError for a symbol that neither the program nor its libraries have, unless it may load more."""
        missing = [place.symbol for place in self.places if place.symbol is not None]
        missing = [name for name in missing if name not in elf.function_addresses(executable.path)]
        if not missing:
            return
        libraries = _libraries(executable, emulator, environment)
        if libraries is None or any(_loads_more(path) for path in (executable.path, *libraries)):
            return
        for name in missing:
            if not any(name in elf.function_addresses(path) for path in libraries):
                raise _no_symbol(name, [executable.path, *libraries])


def _libraries(
    executable: elf.Executable, emulator: Sequence[str], environment: Mapping[str, str]
) -> list[Path] | None:
    """The libraries that the GNU dynamic linker loads at the start; None where it cannot be asked."""
    if executable.interpreter is None:
        return []
    if not Path(executable.interpreter).name.startswith("ld-linux"):
        return None  # others do not know this question, and would run the program
    command = [*emulator, "-E", "LD_TRACE_LOADED_OBJECTS=1", str(executable.path)]
    answer = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment,
        check=False,
    )
    return [Path(found) for found in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", answer.stdout, re.MULTILINE)]


def _loads_more(path: Path) -> bool:
    """Return whether the file asks the dynamic linker for more libraries while it runs (the C library itself may
    always).
    """
    imported = elf.imported_names(path)
    return "dlopen" in imported or "dlmopen" in imported


def _no_symbol(name: str, paths: Iterable[Path]) -> InputError:
    known: dict[str, None] = {}
    files = []
    for path in paths:
        names = elf.function_addresses(path)
        if names:
            files.append(Path(path).name)
            known.update(dict.fromkeys(names))
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; nm -D and nm list the names there are"
    return InputError(f"no function {name!r} in {', '.join(files) or 'the program (it has no symbols)'}{hint}")


class Sites:
    """The plugin's file `sites`, in which it asks for the region's run-time addresses."""

    def __init__(self, folder: Path, region: Region, executable: Path) -> None:
        self._maps = folder / "maps"
        self._region = region
        self._executable = executable.resolve()
        self._found: dict[Place, set[int]] = {place: set() for place in region.places}
        self._seen: set[tuple[str, int]] = set()
        path = folder / "sites"
        path.write_bytes(bytes(8 * _WORDS))
        with path.open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), 0)
        self._words = np.frombuffer(self._map, "<u8")

    def answer(self) -> None:
        """Look the places up in files that were mapped since the last time, if the plugin asks."""
        asked = int(self._words[_ASKED])
        if asked == int(self._words[_ANSWERED]):
            return
        for mapping in read_mappings(self._maps):
            self._look_into(mapping)
        for place, count, first in ((self._region.start, _FROM_COUNT, _FROM), (self._region.stop, _TO_COUNT, _TO)):
            if place is not None:
                addresses = sorted(self._found[place])[:_MAX_SITES]
                self._words[first : first + len(addresses)] = np.array(addresses, np.uint64)
                self._words[count] = len(addresses)
        self._words[_ANSWERED] = asked

    def _look_into(self, mapping: elf.Mapping) -> None:
        path = Path(mapping.path)
        bias = elf.load_bias(path, mapping)
        if bias is None or (mapping.path, bias) in self._seen:
            return
        self._seen.add((mapping.path, bias))
        is_executable = path == self._executable
        for place in self._region.places:
            if place.symbol is None:
                found = [place.offset] if is_executable else []
            else:
                found = [address + place.offset for address in elf.function_addresses(path).get(place.symbol, ())]
            self._found[place].update((address + bias) % 2**64 for address in found)

    def never_reached(self, mappings: Sequence[elf.Mapping]) -> InputError:
        """Return why nothing was recorded."""
        for place in self._region.places:
            if place.symbol is not None and not self._found[place]:
                return _no_symbol(place.symbol, [Path(path) for path in dict.fromkeys(m.path for m in mappings)])
        start = self._region.start
        if start is None:
            return InputError(f"nothing was recorded: the program reached {self._region.stop} at once")
        return InputError(f"nothing was recorded: the program ended and never reached {start}")

    def close(self) -> None:
        """Let go of the file."""
        del self._words
        with contextlib.suppress(BufferError):
            self._map.close()
