"""Progress of a training run: a CSV with one row a step, and TensorBoard's files where asked for."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

from support.errors import InputError
from support.files import atomic_path

COLUMNS = (
    "step",
    "instructions",
    "loss",
    "learning_rate",
    "validation_error",
    "instructions_per_second",
    "instructions_per_processor_second",
)


class Metrics:
    """Rows after step `first` of an earlier, interrupted run are replaced by the new ones.

    `write` buffers, `flush` puts on disk: call it before a checkpoint, whose steps must not be missing here.
    """

    def __init__(self, path: str | os.PathLike[str], first: int, tensorboard: Path | None = None) -> None:
        rows = _rows_until(Path(path), first) if first else []
        with atomic_path(path) as temporary, temporary.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
        self._file = Path(path).open("a", newline="")  # noqa: SIM115 (closed by `close`)
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._board = _board(tensorboard, first) if tensorboard else None

    def write(self, row: dict[str, float]) -> None:
        """One step's numbers, by COLUMNS; what is missing stays empty."""
        self._writer.writerow([_text(row[name]) if name in row else "" for name in COLUMNS])
        if self._board is not None:
            for name, value in row.items():
                if name != "step":
                    self._board.add_scalar(name, value, int(row["step"]))

    def flush(self) -> None:
        self._file.flush()
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def require_tensorboard() -> None:
    """Raise InputError unless TensorBoard is installed."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError as error:
        raise InputError("TensorBoard is not installed; pip install 'perfvec-toolkit[train]'") from error


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _board(folder: Path, first: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=first + 1)


def _rows_until(path: Path, step: int) -> list[list[str]]:
    """The rows of at most this step; none where the file is missing or of another kind."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        head, *rows = list(csv.reader(file)) or [[]]
    if tuple(head) != COLUMNS:
        return []
    return [row for row in rows if len(row) == len(COLUMNS) and row[0].isdecimal() and int(row[0]) <= step]
