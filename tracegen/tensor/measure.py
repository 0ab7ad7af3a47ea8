"""The time of one built program on this machine, alone on its core.

Called in a process that only measures (`tracegen.tensor.worker`), with one thread.

1. One warm-up run, timed. A program whose warm-up takes longer than `slow_s` is not run again: that one time is its
   record, with `repeats` 1 and no spread.
2. A repeat is as many calls in a row as take a millisecond (TVM's `time_evaluator`), its time their mean. Caches are
   warm, as in TVM's own tuning.
3. At least 3 repeats are made, and more until the spread of the 5 or more there are is below 2 %, there are 25, or
   `budget_s` is spent; three times `budget_s` where the spread is still above 15 %. Where other work has the core at
   times, what it takes does not count: a call of a millisecond or more is timed by the clock of its thread; so are
   repeats of shorter ones in which the core was taken away, and they are left out where there are 3 others, since that
   clock has the evaluator's own work in it.
4. Repeats above the upper Tukey fence (third quartile + 1.5 × inter-quartile range) are outliers: other work on the
   machine only ever adds time. The latency is the median of the rest; the spread is (75th − 25th percentile) /
   median of all repeats.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tvm.runtime import Tensor

_MIN_REPEAT_S = 1e-3
_MIN_REPEATS, _MAX_REPEATS, _SETTLED_REPEATS = 3, 25, 5
_SETTLED_SPREAD = 0.02
_NOISY_SPREAD, _NOISY_BUDGETS = 0.15, 3  # the budget is spent so many times where the spread is above that


@dataclass(frozen=True)
class Measured:
    """`seconds` of one call; no `spread` for a single run; no `deviation` where results were not compared."""

    seconds: float
    spread: float | None
    repeats: int
    deviation: float | None = None  # of the results from the task's (`tracegen.tensor.reference`)


def summary(repeats: Sequence[float]) -> Measured:
    """Median after outlier rejection, spread, number of repeats (module docstring, 4)."""
    times = np.asarray(repeats, np.float64)
    if len(times) == 1:
        return Measured(float(times[0]), None, 1)
    low, middle, high = np.percentile(times, (25, 50, 75))
    kept = times[times <= high + 1.5 * (high - low)]
    return Measured(float(np.median(kept)), float((high - low) / middle), len(times))


def arguments(specification: Sequence[tuple[str, tuple[int, ...]]], seed: int = 0) -> list[NDArray[Any]]:
    """Arrays to call a program with: floats uniform in [-1, 1), integers that index the matrices given."""
    generator = np.random.default_rng(seed)
    rows = min((shape[0] for kind, shape in specification if kind.startswith("float") and len(shape) == 2), default=1)
    arrays = []
    for kind, shape in specification:
        if kind.startswith("float"):
            arrays.append((generator.random(shape, np.float32) * 2 - 1).astype(kind))
        else:
            arrays.append(generator.integers(0, 2 if kind == "bool" else rows, shape).astype(kind))
    return arrays


def measure(path: str, tensors: Sequence[Tensor], *, slow_s: float, budget_s: float) -> Measured:
    """Time `main` of the shared object at `path` called with `tensors`."""
    import tvm

    module = tvm.runtime.load_module(path)
    function = module["main"]
    started = time.thread_time()
    function(*tensors)
    first = time.thread_time() - started
    if first > slow_s:
        return summary([first])
    calls = max(1, math.ceil(_MIN_REPEAT_S / max(first, 1e-7)))
    evaluate = module.time_evaluator("main", tvm.cpu(), number=calls, repeat=1)
    deadline = time.perf_counter() + budget_s
    if calls > 1:  # the warm-up was slower than what follows
        calls = max(calls, math.ceil(_MIN_REPEAT_S / max(evaluate(*tensors).results[0], 1e-7)))
        evaluate = module.time_evaluator("main", tvm.cpu(), number=calls, repeat=1)
    repeats: list[float] = []  # all of them
    undisturbed: list[float] = []
    while len(repeats) < _MAX_REPEATS:
        if calls > 1:
            taken, started = _times_taken_away(), time.thread_time()
            repeats.append(evaluate(*tensors).results[0])
            if _times_taken_away() == taken:
                undisturbed.append(repeats[-1])
            else:
                repeats[-1] = (time.thread_time() - started) / (calls + 1)  # the evaluator's first call is not timed
        else:
            started = time.thread_time()
            function(*tensors)
            repeats.append(time.thread_time() - started)
            undisturbed.append(repeats[-1])
        if enough(repeats, undisturbed, 1.0 + (time.perf_counter() - deadline) / budget_s):
            break
    return summary(undisturbed if len(undisturbed) >= _MIN_REPEATS else repeats)


def enough(repeats: Sequence[float], undisturbed: Sequence[float], budgets: float) -> bool:
    """Return whether no more repeats are needed after so many times the budget (module docstring, 3)."""
    if len(repeats) < _MIN_REPEATS:
        return False
    spread = summary(undisturbed if len(undisturbed) >= _MIN_REPEATS else repeats).spread or 0.0
    if budgets > 1.0:
        return spread <= _NOISY_SPREAD or budgets > _NOISY_BUDGETS
    return len(undisturbed) >= _SETTLED_REPEATS and spread < _SETTLED_SPREAD


def _times_taken_away() -> int:
    """Return how often the core was given to another process or thread while this one wanted it."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
