"""Digests of what trained a model, a short one of each task on each device, in the provenance of the model's file.

So a judged record can be told from one that the model has seen. Tasks and devices are told by the dataset's keys and
names, not by their places, so the digests outlive merging and selecting.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from perfvec.tensor.records import Records

_DIGITS = 12  # of a digest: 48 bits, so that a million digests rarely have two alike


def task_digests(records: Records) -> set[str]:
    """A digest of each task and device that has one of these records."""
    return set(_digest_of(records).values())


def share_trained_on(records: Records, provenance: Mapping[str, Any]) -> float:
    """The share of records whose task trained the model of this provenance on the same device, or said when to stop.

    NaN where the provenance, or that of a model that was fine-tuned, does not say.
    """
    seen = _seen(provenance)
    if seen is None:
        return float("nan")
    known = [group for group, digest in _digest_of(records).items() if digest in seen]
    return float(np.isin(records.group, known).mean())


def _digest_of(records: Records) -> dict[int, str]:
    """{group: digest of its task and device}."""
    found = {}
    for group in np.unique(records.group).tolist():
        task, device = divmod(group, len(records.devices))
        text = f"{records.tasks[task].key}\n{records.devices[device].name}"
        found[group] = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return found


def _seen(provenance: Mapping[str, Any]) -> set[str] | None:
    """The digests of a provenance and of those before it; None where one does not say."""
    if "trained_on" not in provenance:
        return None
    seen = set(provenance["trained_on"])
    for before in provenance.get("before", []):
        earlier = _seen(before)
        if earlier is None:
            return None
        seen |= earlier
    return seen
