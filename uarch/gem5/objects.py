"""The objects of a `config.json` of gem5: found by path, their parameters checked, their ports followed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from support.errors import InputError
from support.text import show

# Objects that requests pass on their way from a cache to the next.
_PASSED = ("CoherentXBar", "NoncoherentXBar", "CommMonitor", "Bridge")


class Configuration:
    """Every object of a configuration by its path, and the notes that its reader takes."""

    def __init__(self, document: Any) -> None:
        if not isinstance(document, Mapping) or document.get("type") != "Root":
            raise InputError('not gem5\'s config.json, whose outermost object has "type": "Root"')
        self.objects: dict[str, Mapping[str, Any]] = {}
        self.notes: list[str] = []
        pending: list[Any] = [document]
        while pending:
            item = pending.pop()
            if isinstance(item, Mapping):
                if isinstance(item.get("type"), str) and isinstance(item.get("path"), str):
                    self.objects[item["path"]] = item
                pending.extend(item.values())
            elif isinstance(item, list):
                pending.extend(item)

    def note(self, what: str, why: str) -> None:
        """One line, once."""
        line = " ".join(f"{what}: {why}".split())
        if line not in self.notes:
            self.notes.append(line)

    def part(self, item: Mapping[str, Any] | None, name: str) -> Mapping[str, Any] | None:
        """The object under a parameter, where it is written out or named by its path; the first of several."""
        value = item.get(name) if item is not None else None
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, str):
            value = self.objects.get(value)
        return value if isinstance(value, Mapping) else None

    def parts(self, item: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
        """The objects under a parameter that holds several."""
        value = item.get(name)
        value = value if isinstance(value, list) else [value]
        found = [self.objects.get(one) if isinstance(one, str) else one for one in value]
        return [one for one in found if isinstance(one, Mapping)]

    def number(self, item: Mapping[str, Any], name: str) -> float:
        """A parameter, at least 0; the first of several. Raises InputError."""
        where = f"{item.get('path', '?')}.{name}"
        if name not in item:
            raise InputError(f"{where} is missing; a {item.get('type')} of gem5 has it")
        value = item[name]
        if isinstance(value, list) and len(value) >= 1:
            value = value[0]
        try:
            number = float(value) if not isinstance(value, bool) else math.nan
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number) or number < 0:
            raise InputError(f"{where} = {show(value)} must be a number of at least 0")
        return number

    def whole(self, item: Mapping[str, Any], name: str) -> int:
        """A parameter that is a whole number, at least 0. Raises InputError."""
        number = self.number(item, name)
        if number != int(number):
            raise InputError(f"{item.get('path', '?')}.{name} = {show(item[name])} must be a whole number")
        return int(number)

    def peers(self, item: Mapping[str, Any], port: str) -> list[Mapping[str, Any]]:
        """The objects at the other end of a port, in order."""
        value = item.get(port)
        peers = value.get("peer") if isinstance(value, Mapping) else None
        peers = peers if isinstance(peers, list) else [peers]
        found = [self.objects.get(peer.rpartition(".")[0]) for peer in peers if isinstance(peer, str)]
        return [one for one in found if one is not None]

    def behind(self, item: Mapping[str, Any], port: str, types: tuple[str, ...]) -> list[Mapping[str, Any]]:
        """The nearest objects of `types` that requests through `port` can reach, buses passed."""
        reached, seen, found = self.peers(item, port), set(), []
        while reached:
            one = reached.pop(0)
            if one["path"] in seen:
                continue
            seen.add(one["path"])
            if one["type"] in types:
                found.append(one)
            elif one["type"] in _PASSED:
                for name, value in one.items():
                    if isinstance(value, Mapping) and str(value.get("role", "")).endswith("REQUESTOR"):
                        reached += self.peers(one, name)
        return found
