"""A family's table: micro-operations, latency and reciprocal throughput by an instruction's form."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from support.errors import InputError
from support.files import write_text
from support.text import nearest
from tracegen.decode.native.x86_64_form import SAME, of_registers
from uarch.constraints import FAMILIES

_FOLDER = Path(__file__).parent


class Cost(NamedTuple):
    """Micro-operations as the front end counts them, latency and reciprocal throughput in cycles, without its loads.

    One that `forwards` has its result a cycle earlier for the next one that does.
    """

    micro_operations: int
    latency: int
    throughput: float
    forwards: bool = False


class Accesses(NamedTuple):
    """Forms that tell the time of accesses: a load into a general and into a vector register, a store from one."""

    load: str
    vector_load: str
    vector_store: str


_ACCESSES = {
    "x86-64": Accesses("mov r64,m64", "movups x,m128", "movups m128,x"),
    "aarch64": Accesses("ldr x,[x]", "ldr q,[x]", "str q,[x]"),
}


@dataclass(frozen=True)
class NativeTable:
    """`forms` as the model has them, loads included; `cost` takes loads out, whose time is the caches'."""

    family: str
    source: str
    date: str
    forms: MappingProxyType[str, Cost]

    @property
    def _accesses(self) -> Accesses:
        return _ACCESSES[FAMILIES.get(self.family, "x86-64")]

    @property
    def load_latency(self) -> int:
        """Latency of a load into a general register."""
        return self.forms[self._accesses.load].latency

    @property
    def vector_load(self) -> int:
        """Cycles that a load into a vector register takes longer than one into a general register."""
        return max(self.forms[self._accesses.vector_load].latency - self.load_latency, 0)

    @property
    def vector_cycles(self) -> tuple[float, float]:
        """Reciprocal throughput of loads into vector registers, and of stores from them."""
        return self.forms[self._accesses.vector_load].throughput, self.forms[self._accesses.vector_store].throughput

    def _known(self, form: str) -> Cost | None:
        """The form, or else it with other, or the same, registers as sources; one that renaming does is no example."""
        found = self.forms.get(form)
        if found is None:
            found = self.forms.get(form.removesuffix(SAME) if form.endswith(SAME) else form + SAME)
            return found if found is not None and found.latency > 0 else None
        return found

    def cost(self, form: str) -> Cost | None:
        """The cost of an instruction's form; None where the table does not have it."""
        found = self._known(form)
        kinds = form.removesuffix(SAME).partition(" ")[2].split(",")
        if form.startswith("lea ") or not any(kind[:1] == "m" for kind in kinds):
            return found
        own = next((own for name in of_registers(form) if (own := self._known(name)) is not None), None)
        if own is not None:
            return own._replace(micro_operations=(found or own).micro_operations)
        if found is None:
            return None
        vector = any(kind in ("x", "y", "z") for kind in kinds)
        load = self.forms.get("movups x,m128" if vector else "mov r64,m64", Cost(1, 5, 0.5))
        return found._replace(latency=max(found.latency - load.latency, 1))


def families() -> tuple[str, ...]:
    """The families that there are tables of."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))


def table_path(family: str) -> Path:
    """The file of a family's table."""
    return _FOLDER / f"{family}.json"


def write_table(path: Path, source: str, forms: Mapping[str, Cost]) -> None:
    """Write a family's table, of today."""
    rows = ((form, [*cost[:3], *([1] if cost.forwards else [])]) for form, cost in sorted(forms.items()))
    head = {
        "source": source,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "columns": [
            "micro-operations",
            "latency",
            "reciprocal throughput",
            "cycles earlier for the next that forwards",
        ],
    }
    lines = [f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items()]
    body = ",\n".join(f"{json.dumps(form)}: {json.dumps(row)}" for form, row in rows)
    write_text(path, f'{{{"".join(lines)}"forms": {{\n{body}\n}}}}\n')


@cache
def native_table(family: str) -> NativeTable:
    """The table of a family. Raises InputError for an unknown one."""
    if family not in families():
        raise InputError(f"no table of micro-operations of {family}{nearest(family, families())}")
    values = json.loads(table_path(family).read_text())
    forms = {
        form: Cost(int(one[0]), int(one[1]), float(one[2]), bool(one[3:])) for form, one in values["forms"].items()
    }
    return NativeTable(family, values["source"], values["date"], MappingProxyType(forms))
