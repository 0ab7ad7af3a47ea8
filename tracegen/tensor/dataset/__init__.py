"""The dataset of tensor programs, `*.tensor.h5`: `format.py` says what it holds."""

from tracegen.tensor.dataset.format import (
    FORMAT,
    GROUPS,
    KINDS,
    OPERATORS,
    VERSION,
    Device,
    Outcome,
    Rows,
    Task,
    latency,
)
from tracegen.tensor.dataset.merge import copy, history, merge
from tracegen.tensor.dataset.reader import Dataset
from tracegen.tensor.dataset.summary import summary
from tracegen.tensor.dataset.writer import DatasetWriter

__all__ = [
    "FORMAT",
    "GROUPS",
    "KINDS",
    "OPERATORS",
    "VERSION",
    "Dataset",
    "DatasetWriter",
    "Device",
    "Outcome",
    "Rows",
    "Task",
    "copy",
    "history",
    "latency",
    "merge",
    "summary",
]
