"""Programs as a budget of seconds allows their points: whole, or by their own live-points."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.budget.budget import SURFACE
from analysis.programs.simulable import SimulableTrace
from analysis.programs.targets import Target
from support.processors import processors
from tracegen.live_points.own import LEAST_SAMPLED

RATE = 8e6  # instructions a second and processor of a large core out of order, about


def within(targets: Sequence[Target], points: int, seconds: float, threads: int | None = None) -> list[Target]:
    """The programs as so many points of each are simulated in so many seconds in all, on so many threads (one a
    processor by default): traces that are too long for it by their own live-points.

    Too long is a whole trace on which not so many points can be simulated, or not as many as a surface goes through.
    """
    share = seconds / max(len(targets), 1)
    wanted = min(points, SURFACE)

    def one(target: Target) -> Target:
        trace = target.simulable
        if not isinstance(trace, SimulableTrace) or not trace.whole or not 0 < share < float("inf"):
            return target
        if trace.work * wanted <= share * RATE * (threads or processors()) or trace.work < LEAST_SAMPLED:
            return target
        return target.simulated_by(trace.sampled())

    return [one(target) for target in targets]
