"""A described computer as a machine file: YAML whose comments name the origin of every field.

Readers of machines ignore comments, so the file is a machine like any other. `origins` reads them back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from support.errors import InputError
from uarch.host.describe import ORIGINS, Field, Host

_ORIGIN = re.compile(rf"^(\s*)(\w+):.*?# ({'|'.join(ORIGINS)})(?:: (.*))?$")
_SECTION = re.compile(r"^(\w+):\s*(?:#.*)?$")


def machine_file(host: Host) -> str:
    """The YAML text: a head that says what was measured and when, and a comment on every field."""
    told = host.told
    counts = {origin: sum(field.origin == origin for field in host.fields.values()) for origin in ORIGINS}
    refused = host.measurements.refusal
    lines = [
        f"# {told.model_name} ({told.family}; {told.vendor}, family {told.numbers[0]}, model {told.numbers[1]}), "
        f"{'virtual machine, ' if told.virtual else ''}described {host.date} by perfvec uarch host",
        "#",
        f"# Of {sum(counts.values())} fields: "
        + ", ".join(f"{count} {origin}" for origin, count in counts.items() if count),
        *([f"# Measured by time: no counter of cycles ({refused})"] if refused else []),
        f"# Repeats differ by {host.measurements.spread:.1%}"
        + (": the machine was busy" if host.measurements.busy else ""),
        *(
            [f"# The first touch of a page takes {touch:,.0f} cycles in the kernel, which no field has"]
            if (touch := host.measurements.numbers.get("first_touch"))
            else []
        ),
        "",
        *_lines(host.machine.to_dict(), host.fields, "", 0),
        "",
    ]
    return "\n".join(lines)


def _lines(values: Mapping[str, Any], fields: Mapping[str, Field], prefix: str, depth: int) -> list[str]:
    found = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += ["", f"{name}:", *_lines(value, fields, f"{prefix}{name}.", depth + 1)]
            continue
        text = "null" if value is None else _scalar(value)
        comment = fields.get(prefix + name)
        found.append(f"{'  ' * depth}{name}: {text}" + (f"  # {comment}" if comment is not None else ""))
    return found


def _scalar(value: Any) -> str:
    return str(value) if not isinstance(value, str) or re.fullmatch(r"[\w.-]+", value) else repr(value)


def origins(text: str) -> dict[str, Field]:
    """The origins that a machine file's comments name, by dotted field. Raises InputError where there are none."""
    found: dict[str, Field] = {}
    section = ""
    for line in text.splitlines():
        if (head := _SECTION.match(line)) is not None:
            section = head[1]
        elif (match := _ORIGIN.match(line)) is not None:
            prefix = f"{section}." if match[1] else ""
            found[prefix + match[2]] = Field(match[3], match[4] or "")
    if not found:
        raise InputError("no comment says which fields were measured; make the file with perfvec uarch host")
    return found
