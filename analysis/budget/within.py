"""Programs as a budget of seconds allows them: whole, by their own live-points, or by the model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from analysis.budget.budget import RATE, SURFACE, parts_take
from analysis.programs.opened import opened
from analysis.programs.simulable import SimulableTrace
from analysis.programs.targets import Target
from support.errors import InputError
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT, LivePoints, is_live_points, load
from tracegen.live_points.own import own_live_points
from tracegen.live_points.record import UNITS
from uarch.timing.simulations import processors

LEAST_SAMPLED = 4 * 2 * UNITS * UNIT  # instructions of a trace that its live-points stand for: they pass a quarter


def within(targets: Sequence[Target], points: int, seconds: float) -> list[Target]:
    """The programs as so many points of each are simulated in so many seconds in all: traces that are too long for it
    by their own live-points.

    Too long is a whole trace on which not so many points can be simulated, or not as many as a surface goes through.
    """
    share = seconds / max(len(targets), 1)
    wanted = min(points, SURFACE)

    def one(target: Target) -> Target:
        trace = target.simulable
        if not isinstance(trace, SimulableTrace) or not trace.whole or not 0 < share < float("inf"):
            return target
        if trace.work * wanted <= share * RATE * processors() or trace.work < LEAST_SAMPLED:
            return target
        return replace(target, simulable=trace.sampled(), make=lambda: target.vector)

    return [one(target) for target in targets]


@contextmanager
def opened_within(
    paths: Sequence[str | os.PathLike[str]],
    machines: int,
    seconds: float,
    limit: int | None = None,
    *,
    whole: bool = False,
) -> Iterator[tuple[list[Trace | LivePoints], bool]]:
    """The traces, all opened before the work on one begins, and whether their parts are simulated within a budget.

    Traces that do not fit it are so by their own live-points, unless only a part (`limit`) or the `whole` is asked for.
    Where these do not fit either, a line on stderr says that the model answers. Raises InputError as `opened` does, and
    for live-points that cannot be simulated within it, which only the whole trace's model could tell the parts of.
    """
    names = ", ".join(os.fspath(path) for path in paths)
    with ExitStack() as stack:
        given: list[Trace | LivePoints] = [
            load(path) if is_live_points(path) else stack.enter_context(opened(path)) for path in paths
        ]
        sampled = any(isinstance(one, LivePoints) for one in given)
        if sampled and limit is not None:
            raise InputError(f"{names}: live-points stand for the whole run; leave --max-instructions out")
        chosen, takes = given, parts_take([_work(one, limit) for one in given], machines)
        if takes > seconds > 0 and limit is None and not whole:
            shorter = parts_take([min(_work(one), 2 * UNITS * UNIT) for one in given], machines)
            if shorter <= seconds:
                chosen = [
                    own_live_points(one.path) if isinstance(one, Trace) and len(one) >= LEAST_SAMPLED else one
                    for one in given
                ]
                takes = parts_take([_work(one) for one in chosen], machines)
        if takes > seconds:
            if sampled:
                raise InputError(
                    f"{names}: live-points hold no parts for the model; simulating takes about {takes:.0f} s, more "
                    f"than --budget {seconds:g}; raise it, or give the traces"
                )
            if seconds > 0:
                print(
                    f"perfvec: simulating takes about {takes:.0f} s, more than --budget {seconds:g}; the model answers",
                    file=sys.stderr,
                )
        yield (chosen, True) if takes <= seconds else (given, False)


def _work(one: Trace | LivePoints, limit: int | None = None) -> int:
    """Instructions that a machine's simulation passes."""
    return len(one.pieces) * UNIT if isinstance(one, LivePoints) else min(len(one), limit or len(one))
