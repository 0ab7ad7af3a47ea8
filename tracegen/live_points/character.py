"""The character of a run from its live-points alone: counted units, weighted, behind what lies between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegen.live_points import _core
from tracegen.live_points.live_points import LivePoints
from tracegen.statistics.characterise import Characteriser, Counts
from uarch.instructions import Flag

_CODE, _SHIFT = np.uint64(_core.CODE), np.uint64(_core.LINE_SHIFT)


def character(points: LivePoints) -> dict[str, Any]:
    """Return the estimated profile, as `tracegen.statistics.characterise.characterise` of the whole trace.

    Stack distances are exact in each unit. Footprints are of the run until its last counted unit. Entropies are of the
    branches that are kept, so that rare histories are seen less often than in the run. Producers in memory are left
    out: stores between units are kept by line, not by word.
    """
    running, pieces = Characteriser(points.static), points.pieces
    total: Counts | None = None
    weights = iter(points.sample.weight.tolist())
    for k, chunk in enumerate(pieces.chunks()):
        line = pieces.line[slice(*pieces.line_offset[k : k + 2])]
        gap = slice(*pieces.branch_offset[k : k + 2])
        running.pass_over(line >> _SHIFT, (line & _CODE) != 0, pieces.branch[gap], pieces.branch_following[gap])
        before = running.counts() if pieces.counted[k] else None
        running.observe(chunk)
        if before is None:
            continue
        own = (running.counts() - before) * next(weights)
        total = own if total is None else total + own
    assert total is not None
    found = running.document(total * (points.instructions / total.executed.sum()))
    del found["producer_within"]["memory"]
    flags = points.static.flags
    found["footprint"]["static_instructions"] = len(flags)
    found["footprint"]["conditional_branch_sites"] = int(((flags & int(Flag.CONDITIONAL)) != 0).sum())
    return {"trace": points.name, "isa": points.isa, "program": points.program, **found}
