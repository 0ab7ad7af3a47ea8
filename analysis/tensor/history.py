"""The work folder of a search: `search.json` says what is searched, `history.jsonl` has a line for every round.

Beside them lies MetaSchedule's own database, `database_workload.json` and `database_tuning_record.json`.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.results.result import Result, of_table, table_text
from support.errors import InputError
from support.files import write_text
from support.text import parse_json

HEADER, ROUNDS = "search.json", "history.jsonl"


@dataclass(frozen=True)
class Round:
    """One round of a task: `trials` candidates measured, `failed` of them in vain; best seconds of the task after it
    (None where nothing ran yet); seconds of wall time spent on finding candidates, on building and measuring them, and
    on updating the model."""

    task: str
    trials: int
    failed: int
    best_s: float | None
    search_s: float
    measure_s: float
    update_s: float
    exhausted: bool = False

    @property
    def elapsed_s(self) -> float:
        return self.search_s + self.measure_s + self.update_s


@dataclass(frozen=True)
class History:
    """A search as far as it has come. `header`: the network, model, device, seed, and its tasks with their weights."""

    folder: Path
    header: dict[str, Any]
    rounds: list[Round]

    @property
    def trials(self) -> int:
        return sum(found.trials for found in self.rounds)

    @property
    def elapsed_s(self) -> float:
        return sum(found.elapsed_s for found in self.rounds)

    def best(self) -> dict[str, float]:
        """{task: best seconds}."""
        return {found.task: found.best_s for found in self.rounds if found.best_s is not None}

    def curve(self) -> pd.DataFrame:
        """A row for every round: trials and elapsed_s up to its end, and latency_s, the sum of all tasks' best times
        weighted by their calls; NaN until every task has run."""
        weights = {task["key"]: task["weight"] for task in self.header["tasks"]}
        best: dict[str, float] = {}
        rows, trials, elapsed = [], 0, 0.0
        for found in self.rounds:
            trials, elapsed = trials + found.trials, elapsed + found.elapsed_s
            if found.best_s is not None:
                best[found.task] = found.best_s
            whole = best.keys() >= weights.keys()
            latency = sum(weights[key] * best[key] for key in weights) if whole else float("nan")
            rows.append((trials, elapsed, latency))
        return pd.DataFrame(rows, columns=["trials", "elapsed_s", "latency_s"])

    def tasks(self) -> pd.DataFrame:
        """A row for every task: name, key, calls, trials, failed, best_s (NaN where nothing ran)."""
        best = self.best()
        frame = pd.DataFrame(self.header["tasks"]).rename(columns={"weight": "calls"})
        for name in ("trials", "failed"):
            frame[name] = [
                sum(getattr(found, name) for found in self.rounds if found.task == key) for key in frame["key"]
            ]
        frame["best_s"] = [best.get(key, float("nan")) for key in frame["key"]]
        return frame

    def to_json(self) -> dict[str, Any]:
        """Return {"search", "trials", "elapsed_s", "latency_s" (null until every task ran), "tasks", "curve"}."""
        curve = json.loads(self.curve().to_json(orient="records"))
        return {
            "search": {name: value for name, value in self.header.items() if name != "tasks"},
            "trials": self.trials,
            "elapsed_s": self.elapsed_s,
            "latency_s": curve[-1]["latency_s"] if curve else None,
            "tasks": json.loads(self.tasks().to_json(orient="records")),
            "curve": curve,
        }

    def result(self) -> Result:
        """Answer how fast the network is now; the table is that of `tasks`."""
        tasks, document = self.tasks(), self.to_json()
        seconds = document["latency_s"]
        latency = "unknown, some task never ran" if seconds is None else f"{1e3 * seconds:.3f} ms"
        text = (
            f"{table_text(tasks.drop(columns='key'))}\nestimated latency {latency}; {self.trials} trials, "
            f"{self.elapsed_s:.0f} s; database: {self.folder}"
        )
        return of_table(f"Search of {self.header['network']}", tasks, lambda: document, lambda: text)

    def add(self, found: Round) -> None:
        """Append a finished round; a kill loses at most it."""
        self.rounds.append(found)
        with (self.folder / ROUNDS).open("a") as stream:
            stream.write(json.dumps(asdict(found)) + "\n")


def begin(folder: Path, header: dict[str, Any]) -> History:
    """Start a search in a folder, or go on with the one that is there, which must be of the same header."""
    path = folder / HEADER
    if path.exists():
        there = read(folder, mend=True)
        for name, value in header.items():
            if there.header.get(name) != value:
                shown = there.header.get(name) if name != "tasks" else "other tasks"
                raise InputError(
                    f"{folder}: holds a search with {name} {shown}; go on with that, or name another folder"
                )
        return there
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(header, indent=1) + "\n")
    return History(folder, header, [])


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder's search. Raises InputError where another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as file:  # let go when the file is closed, also by the process's end
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{folder}: another search is at work here; wait for it or choose another -o") from error
        yield


def read(folder: Path, *, mend: bool = False) -> History:
    """The search in a folder; a torn last line is passed over, and cut off to `mend` it.

    Raises InputError where there is none, or it is damaged.
    """
    try:
        header = parse_json((folder / HEADER).read_text())
        assert isinstance(header["tasks"], list) and header["tasks"]
    except OSError as error:
        raise InputError(f"{folder}: no search is there (no {HEADER}); make one with perfvec tensor tune") from error
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise InputError(f"{folder / HEADER}: is no header of a search; it is damaged") from error
    rounds: list[Round] = []
    path = folder / ROUNDS
    lines: Iterable[bytes] = path.read_bytes().splitlines(keepends=True) if path.exists() else ()
    kept = 0
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            if mend:
                with path.open("r+b") as stream:
                    stream.truncate(kept)
            break
        try:
            rounds.append(Round(**parse_json(line)))
        except (ValueError, TypeError) as error:
            raise InputError(f"{path}: line {number} is no round of a search; it is damaged") from error
        kept += len(line)
    return History(folder, header, rounds)
