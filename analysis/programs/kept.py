"""Simulated points that are kept: in a file, so that what was stopped goes on from where it was, or in memory."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.programs.simulable import Estimates, Simulable
from support.errors import InputError
from support.files import require_folder
from support.text import parse_json
from uarch.configuration import Machine, configuration_key
from uarch.timing.simulation import SIMULATOR

_Known = tuple[float, float, float, NDArray[np.float32]]  # cycles, low, high, and the deviations
_SAVED = 64  # points that are simulated before they are kept; more where there are many threads


class Kept:
    """A program whose simulations are kept in a folder, a line a machine; a line that was cut short is left out.

    The file's name has a digest of the program (`Simulable.identity`) and of the simulator. Without a folder they are
    kept as long as this is. Raises InputError where the folder cannot be written.
    """

    def __init__(self, of: Simulable, folder: str | os.PathLike[str] | None = None) -> None:
        self._of = of
        self._seconds, self._timed = 0.0, 0
        self.name, self.isa, self.identity = of.name, of.isa, of.identity
        self.instructions, self.work = of.instructions, of.work
        self._path: Path | None = None
        self._known: dict[str, _Known] = {}
        if folder is None:
            return
        require_folder(folder)
        key = hashlib.sha256(f"{of.identity} {SIMULATOR}".encode()).hexdigest()[:12]
        self._path = Path(folder) / f"{of.name}-{key}.points.jsonl"
        read = dict(_read(self._path))
        most = max((len(deviations) for *_, deviations in read.values()), default=0)
        self._known = {key: values for key, values in read.items() if len(values[3]) == most}

    @property
    def seconds_each(self) -> float:
        """Seconds that one of the machines simulated here took; 0 before the first."""
        return self._seconds / max(self._timed, 1)

    @property
    def count(self) -> int:
        """Machines that have been simulated."""
        return len(self._known)

    def keeps(self, machines: Sequence[Machine]) -> NDArray[np.bool_]:
        """Tell of each of the machines whether it has been simulated."""
        return np.array([_key(machine) in self._known for machine in machines], bool)

    def prepare(self) -> None:
        """Nothing: where all is known, nothing is simulated."""

    def simulate(self, machines: Sequence[Machine], threads: int | None = None) -> Estimates:
        """Return the cycles and intervals, as `Simulable` does."""
        keys = list(map(_key, machines))
        new = {key: machine for key, machine in zip(keys, machines, strict=True) if key not in self._known}
        together = max(_SAVED, 4 * (threads or 1))
        for first in range(0, len(new), together):
            some = dict(list(new.items())[first : first + together])
            began = time.perf_counter()
            found = self._of.simulate(list(some.values()), threads)
            self._seconds += time.perf_counter() - began
            self._timed += len(some)
            ends = (found.cycles.tolist(), found.low.tolist(), found.high.tolist())
            short = [[_short(one) for one in each] for each in found.deviations.tolist()]  # as they are read again
            values = zip(*ends, np.array(short, np.float32).reshape(found.deviations.shape), strict=True)
            self._append(dict(zip(some, values, strict=True)))
        if not keys:
            return Estimates.exact(np.zeros(0))
        cycles, low, high, deviations = zip(*(self._known[key] for key in keys), strict=True)
        return Estimates(np.array(cycles), np.array(low), np.array(high), np.stack(deviations).astype(np.float64))

    def _append(self, found: dict[str, _Known]) -> None:
        self._known |= found
        if self._path is None:
            return
        lines = "".join(
            f"\n{json.dumps([key, *ends, *map(_short, deviations.tolist())])}"
            for key, (*ends, deviations) in found.items()
        )
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{lines}\n")


def _key(machine: Machine) -> str:
    return hashlib.sha256(str(configuration_key(machine)).encode()).hexdigest()[:24]


def _short(deviation: float) -> float:
    return float(f"{deviation:.3g}")


def _read(path: Path) -> Iterator[tuple[str, _Known]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in filter(None, lines):
        try:
            key, *numbers = parse_json(line)
            cycles, low, high, *deviations = map(float, numbers)
        except (InputError, ValueError, TypeError):
            continue
        if isinstance(key, str) and all(map(math.isfinite, (cycles, low, high, *deviations))):
            yield key, (cycles, low, high, np.array(deviations, np.float32))
