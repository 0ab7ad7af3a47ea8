"""Flame graphs of predicted or simulated time: a section of a page, and folded stacks for others' tools.

As Brendan Gregg, *The Flame Graph* (CACM 59(6), 2016): a box a calling context, as wide as its cycles with all that it
calls. With a second machine colours are differential: what gains and what loses there beside the whole program.
Simulated contexts are coloured by what most of their cycles beside retiring were spent on, if the reader wants it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.parts.costs import Costs
from analysis.parts.partition import Parts
from analysis.results.page import Section, fill, to_script
from perfvec.representation.sums import Sums
from uarch.timing.stack import CAUSES, GROUPS

_TEMPLATE = Path(__file__).parent / "flame.html"
_NARROW = 2e-5  # of the whole: contexts below it on every machine are not drawn


def folded(parts: Parts, costs: Costs) -> str:
    """Folded stacks, `outer;inner;innermost cycles`, as flamegraph.pl reads them.

    A column of cycles per machine: with two, flamegraph.pl draws the differential flame graph. Whole cycles, and 0
    where a context's prediction is negative.
    """
    cycles = np.maximum(np.rint(costs.cycles(parts.contexts)), 0).astype(np.int64)
    return "".join(
        f"{stack} {' '.join(map(str, numbers))}\n"
        for stack, numbers in zip(parts.context_names(), cycles.tolist(), strict=True)
        if stack and any(numbers)
    )


def inclusive(parts: Parts) -> Sums:
    """[K] sums of each calling context with all that it calls; row 0 is the whole."""
    vectors, instructions = parts.contexts.vectors.copy(), parts.contexts.instructions.copy()
    for node in range(len(instructions) - 1, 0, -1):  # a parent comes before its children
        vectors[parts.context_parent[node]] += vectors[node]
        instructions[parts.context_parent[node]] += instructions[node]
    return Sums(vectors, instructions)


def section(parts: Parts, costs: Costs) -> Section:
    """The flame graph as a part of the HTML report."""
    what = "call stack, the whole program on top, what it calls below"
    if parts.sampled:
        what = "function: live-points have no call stacks"
    return Section(
        "Flame graph",
        f"Time by {what}. A click or Enter zooms in, arrows move.",
        fragment=fill(_TEMPLATE, {"DATA": to_script(_data(parts, costs))}),
        wide=True,
    )


def _by_group(stacks: NDArray[np.float64]) -> NDArray[np.int64]:
    """[K, G, len(GROUPS)] whole cycles of each machine and part by group of causes, from [G, K, len(CAUSES)]."""
    group = np.array([GROUPS.index(name) for name in CAUSES.values()])
    found = np.zeros((*stacks.shape[:2], len(GROUPS)))
    for column, place in enumerate(group.tolist()):
        found[:, :, place] += stacks[:, :, column]
    return np.rint(found.transpose(1, 0, 2)).astype(np.int64)


def _data(parts: Parts, costs: Costs) -> dict[str, Any]:
    """Return the page's data; contexts too narrow to see are left out, their cycles are in those that called them."""
    sums = inclusive(parts)
    cycles = costs.cycles(sums)
    wide = (cycles > _NARROW * cycles[0]).any(axis=1)
    wide[0] = True
    for node in range(len(wide) - 1, 0, -1):
        wide[parts.context_parent[node]] |= wide[node]
    kept = np.flatnonzero(wide)
    place = np.full(len(wide), -1)
    place[kept] = np.arange(len(kept))
    parent = np.where(parts.context_parent[kept] >= 0, place[parts.context_parent[kept]], -1)
    return {
        "source": costs.source,
        "groups": list(GROUPS) if costs.has_stacks else [],
        "stacks": _by_group(costs.stacks(sums)[kept]).tolist() if costs.has_stacks else [],
        "machines": costs.names,
        "ghz": [machine.frequency_ghz for machine in costs.machines],
        "names": [*parts.functions, parts.program],
        "parent": parent.tolist(),
        "name": np.where(
            parts.context_function[kept] >= 0, parts.context_function[kept], len(parts.functions)
        ).tolist(),
        "instructions": sums.instructions[kept].tolist(),
        "cycles": np.round(cycles[kept].T, 1).tolist(),
    }
