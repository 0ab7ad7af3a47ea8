"""Source file and line of a trace's instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class Located(Protocol):
    """A trace, or live-points."""

    @property
    def address(self) -> NDArray[np.uint64]:
        """[S] of the static instructions."""

    def symbols(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], Sequence[str]]:
        """Address, size and name of functions."""

    def lines(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32], Sequence[str]]:
        """Address, file and line of instructions, and the files."""


def source_lines(trace: Located) -> pd.DataFrame:
    """Function, source file and line of each static instruction of a trace or of live-points.

    A row a static instruction, in the order of `static_id`; columns `address`, `function` (the symbol that covers it,
    at run time the innermost that is not inlined), `file` and `line` (of inlined code, where that was written). Empty
    strings and line 0 where it is not known: symbols need a program that is not stripped, lines one compiled with -g.
    """
    start, size, names = trace.symbols()
    function = np.full(len(trace.address), "", object)
    if len(start):
        covering = np.searchsorted(start, trace.address, "right") - 1
        candidate = np.maximum(covering, 0)
        following = np.append(start[1:], np.uint64(2**64 - 1))
        # A symbol without a size, as of assembly code, reaches to the next one.
        end = np.where(size > 0, start + size, following)
        inside = (covering >= 0) & (trace.address < end[candidate])
        function[inside] = np.array(names, object)[candidate[inside]]
    address, file, line, files = trace.lines()
    known = np.isin(trace.address, address, assume_unique=True)
    row = np.searchsorted(address, trace.address[known])
    found_file = np.full(len(trace.address), "", object)
    found_line = np.zeros(len(trace.address), np.uint32)
    if len(files):
        found_file[known] = np.array(files, object)[file[row]]
        found_line[known] = line[row]
    return pd.DataFrame({"address": trace.address, "function": function, "file": found_file, "line": found_line})
