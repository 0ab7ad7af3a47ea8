"""Summary of a dataset, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tracegen.tensor.dataset.format import Outcome
from tracegen.tensor.dataset.reader import Dataset


def summary(dataset: Dataset) -> tuple[dict[str, Any], pd.DataFrame]:
    """(counts and versions as JSON may hold them, a frame with a row a device: records, failures, tasks, latencies)."""
    frame = dataset.table(failed=True)
    rows = []
    for index, name in enumerate(dataset.devices["name"]):
        mine = frame[frame["device"] == index]
        ok = mine[mine["error"] == Outcome.OK]
        repeated = ok.loc[ok["repeats"] > 1, "spread"]
        quantiles = ok["seconds"].quantile([0, 0.5, 1]).tolist() if len(ok) else [None] * 3
        rows.append(
            {
                "device": name,
                "tasks": int(mine["task"].nunique()),
                "records": len(mine),
                "failed": len(mine) - len(ok),
                "fastest_s": quantiles[0],
                "median_s": quantiles[1],
                "slowest_s": quantiles[2],
                "median_spread": float(repeated.median()) if len(repeated) else None,
            }
        )
    document = {
        "file": str(dataset.path),
        "digest": dataset.digest,
        "tasks": len(dataset.tasks),
        "schedules": dataset.schedule_count,
        "records": dataset.record_count,
        "operators": dataset.tasks["operator"].value_counts().to_dict(),
        "failures": {
            Outcome(int(code)).name.lower(): int(count)
            for code, count in zip(*np.unique(frame["error"], return_counts=True), strict=True)
            if code != Outcome.OK
        },
        "features": dataset.groups,
        "devices": rows,
    }
    return document, pd.DataFrame(rows)
