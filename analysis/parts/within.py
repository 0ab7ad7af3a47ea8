"""Traces in parts by the best that a budget of seconds allows: simulated where they fit it, else by the model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from analysis.programs.opened import opened
from support.errors import InputError
from support.processors import processors
from tracegen.formats.trace import Trace
from tracegen.live_points import UNITS
from tracegen.live_points.live_points import UNIT, LivePoints, is_live_points, load
from tracegen.live_points.own import LEAST_SAMPLED, own_live_points

_RATE = 5e6  # instructions a second and processor with their causes, about


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
        chosen, takes = given, _parts_take([_work(one, limit) for one in given], machines)
        if takes > seconds > 0 and limit is None and not whole:
            shorter = _parts_take([min(_work(one), 2 * UNITS * UNIT) for one in given], machines)
            if shorter <= seconds:
                chosen = [
                    own_live_points(one.path) if isinstance(one, Trace) and len(one) >= LEAST_SAMPLED else one
                    for one in given
                ]
                takes = _parts_take([_work(one) for one in chosen], machines)
        if takes > seconds:
            if sampled and seconds <= 0:
                raise InputError(
                    f"{names}: live-points hold no parts for the model, and a fitted vector or --budget 0 leaves it to "
                    "the model; name a machine and a budget, or give the traces"
                )
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
    return len(one.pieces.static_id) if isinstance(one, LivePoints) else min(len(one), limit or len(one))


def _parts_take(instructions: Sequence[int], machines: int) -> float:
    """Return about how many seconds the simulation of the parts of traces of so many instructions takes."""
    return sum(instructions) * machines / (_RATE * min(processors(), max(machines, 1)))
