"""Workloads run on this computer, whole and untraced, to fit a machine to their times."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from support.errors import InputError
from tracegen.suite.host_time import host_time
from tracegen.suite.workloads import select


def time_workloads(
    names: Sequence[str], inputs: Path, *, repeats: int = 11, progress: bool = True
) -> tuple[pd.DataFrame, dict[str, str]]:
    """A row a workload: `program`, `seconds` (median of user mode), `uncertainty` (its standard error), `least`,
    `most`, `system` (median, kernel mode), `repeats`; and why others have none. Raises InputError for an unknown name.
    """
    rows, failures = [], {}
    for workload in tqdm(select(names), desc="time", unit="program", disable=None if progress else True):
        with tempfile.TemporaryDirectory(prefix="perfvec-") as scratch:
            try:
                command, stdin = workload.prepare(inputs, Path(scratch))
                found = host_time(
                    command, repeats=repeats, stdin=stdin, env={**os.environ, **workload.env}, status=workload.status
                )
                if found.seconds <= 0:  # the kernel divides a run's time as its ticks fell, and a short run has few
                    raise InputError(f"{command[0]} is too short for the kernel's clock: most runs took no time at all")
                if found.children:
                    raise InputError(f"{command[0]} starts others, whose time is in its own, but not in its vector")
            except InputError as error:
                failures[workload.name] = str(error)
                continue
        rows.append(
            {
                "program": workload.name,
                "seconds": found.seconds,
                "uncertainty": found.uncertainty,
                "least": min(found.user),
                "most": max(found.user),
                "system": sorted(found.system)[repeats // 2],
                "repeats": repeats,
            }
        )
    return pd.DataFrame(rows), failures
