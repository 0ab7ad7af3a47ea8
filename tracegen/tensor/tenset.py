"""TenSet's folder (Zheng et al., NeurIPS 2021 Datasets and Benchmarks) as it is downloaded, and its logs' devices.

| path | what is read |
|---|---|
| `measure_records/DEVICE/*.json` | all of them, as Ansor's logs; the folder names the device |
| `network_info/*.pkl`, `to_measure_programs/*.pkl`, `*.task.pkl` | nothing: unpickling executes what a file says |
| anything else | nothing |

What the pickles would tell (task weights of networks, compute graphs) is left out; task shapes, and FLOPs where shapes
tell them, come from the records' workload keys (`tracegen.tensor.ansor.task_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from support.errors import InputError

LOGS = (".json", ".json.gz", ".log", ".log.gz")
PICKLES = (".pkl", ".pickle")


@dataclass(frozen=True)
class Source:
    """A log to read, and its device where its folder names it."""

    path: Path
    device: str | None


def find(paths: Iterable[Path]) -> tuple[list[Source], int]:
    """(logs, pickles that are not read) of files and folders; logs of one task on several devices come together.

    A folder that holds `measure_records` is TenSet's; of others every log below is read. Raises InputError where there
    is nothing to read, and for a pickle that is named itself.
    """
    sources: list[Source] = []
    pickles = 0
    for path in paths:
        if path.is_file() and path.suffix in PICKLES:
            raise InputError(f"{path}: a pickle; it is not read, because unpickling executes what the file says")
        if not path.is_dir():
            sources.append(Source(path, _folder_device(path)))
            continue
        files = sorted(_files(path))
        pickles += sum(file.suffix in PICKLES for file in files)
        records = path / "measure_records"
        top = records if records.is_dir() else path
        logs = [file for file in files if file.is_relative_to(top) and file.name.endswith(LOGS)]
        if not logs:
            raise InputError(f"{path}: holds no log ({', '.join(LOGS)}); TenSet's lie in measure_records/DEVICE")
        sources += [Source(file, _folder_device(file)) for file in logs]
    sources.sort(key=lambda source: (source.path.name, source.path))
    return sources, pickles


def _files(folder: Path) -> Iterator[Path]:
    """Files below a folder; links out of it are not followed."""
    for path in folder.iterdir():
        if path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def _folder_device(path: Path) -> str | None:
    return path.parent.name if path.parent.parent.name == "measure_records" else None
