"""Errors of presets on processors of silicon, found by `perfvec validate`: a YAML a processor in presets/errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import yaml

from support.errors import InputError
from support.yaml_files import read_yaml
from uarch.machine_files import PRESETS

ERRORS = PRESETS / "errors"


@dataclass(frozen=True)
class StatedError:
    """Error of a preset's simulated cycles on one processor; errors are fractions, `programs` by program."""

    preset: str
    processor: str
    microarchitecture: str
    date: str
    median: float
    mean: float
    rank: float | None
    programs: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        rank = "" if self.rank is None else f", rank correlation {self.rank:.2f}"
        return (
            f"Error on {self.processor} ({self.microarchitecture}), {self.date}, {len(self.programs)} programs: "
            f"median {self.median:.0%}, mean {self.mean:.0%}{rank}"
        )


def stated_errors(preset: str) -> list[StatedError]:
    """The errors stated of a preset, by processor. Raises InputError for a damaged file."""
    found = []
    for path in sorted(ERRORS.glob("*.yaml")):
        values = read_yaml(path, "file of a stated error")
        try:
            stated = StatedError(**values)
        except TypeError:
            raise InputError(f"{path}: not a stated error; make it with perfvec validate --state") from None
        if stated.preset == preset:
            found.append(stated)
    return found


def stated_error_yaml(stated: StatedError) -> str:
    """The file's text."""
    head = f"# {stated.preset} on {stated.processor}: simulated over measured cycles - 1, by perfvec validate.\n"
    return head + yaml.safe_dump(asdict(stated), sort_keys=False, allow_unicode=True)
