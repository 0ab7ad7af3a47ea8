"""Branch entropy of a whole program: how uncertain outcomes are, given the branch and a history of outcomes.

A context is a conditional branch together with the last n outcomes of all conditional branches (global history) or
its own last n (local history). Of a context executed k times, taken with frequency p, the entropy of the outcomes is
H(p) = −p·log2 p − (1−p)·log2(1−p) (Shannon's, as Yokota, Ootsu & Baba have it for branch histories: *Introducing
entropies for representing program behavior and branch predictor performance*, ExpCS 2007) or, linear in the miss rate,
E(p) = 2·min(p, 1−p) (De Pestel, Eyerman & Eeckhout, *Micro-architecture independent branch behavior characterization*,
ISPASS 2015, eq. 2). The program's is the mean over executed branches, Σ k·H(p) / Σ k; with E, half of it is the miss
rate of the best constant choice in every context. At length 0 only the branch's bias counts.

Contexts are exact: each has an entry of its own, and the table grows with them, up to `limit`. Outcomes of contexts
beyond the limit are left out, and `covered` says so. Long histories split a short trace into contexts that are
executed once or twice, and look certain: compare lengths on traces of equal length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.jit import compiled, kernel
from tracegen.statistics.branch_entropy import linear_entropy, shannon_entropy

KINDS = ("global", "local")
LONGEST = 31  # outcomes; a context is a number of 64 bits with the branch above the history
LIMIT = 1 << 20  # contexts: 48 MiB
_ENTRIES, _HISTORY, _LEFT_OUT = range(3)
_KEY, _COUNTS = 0, 1


@dataclass(frozen=True)
class Entropy:
    """The entropies of one kind and length of history: bits, 0 … 1, and the share of outcomes they were made of."""

    kind: str
    length: int
    shannon: float
    linear: float
    contexts: int
    covered: float


@compiled
def _find(table: NDArray[np.uint64], key: np.uint64) -> int:
    mask = np.uint64(len(table) - 1)
    mixed = key * np.uint64(0x9E3779B97F4A7C15)
    place = (mixed ^ (mixed >> np.uint64(32))) & mask
    while table[place, _KEY] != key and table[place, _KEY] != 0:
        place = (place + np.uint64(1)) & mask
    return int(place)


@kernel
def _count(
    table: NDArray[np.uint64],
    scalars: NDArray[np.int64],
    own: NDArray[np.uint32],
    site: NDArray[np.uint32],
    taken: NDArray[np.uint8],
    length: int,
    is_global: bool,
    limit: int,
    begin: int,
) -> int:
    """Count the outcomes from `begin` on, as long as the table is at most half full; where it stopped."""
    mask = np.uint32((1 << length) - 1)
    history = np.uint32(scalars[_HISTORY])
    end = len(site)
    for index in range(begin, len(site)):
        if 2 * scalars[_ENTRIES] >= len(table) and scalars[_ENTRIES] < limit:
            end = index
            break
        here, outcome = site[index], np.uint32(taken[index])
        past = history if is_global else own[here]
        key = ((np.uint64(here) + np.uint64(1)) << np.uint64(32)) | np.uint64(past)
        place = _find(table, key)
        known = table[place, _KEY] != 0
        if not known and scalars[_ENTRIES] < limit:
            table[place, _KEY] = key
            scalars[_ENTRIES] += 1
            known = True
        if known:
            table[place, _COUNTS + np.int64(outcome)] += np.uint64(1)
        else:
            scalars[_LEFT_OUT] += 1
        past = ((past << np.uint32(1)) | outcome) & mask
        if is_global:
            history = past
        else:
            own[here] = past
    scalars[_HISTORY] = history
    return end


@kernel
def _rehash(old: NDArray[np.uint64], new: NDArray[np.uint64]) -> None:
    for place in range(len(old)):
        if old[place, _KEY] != 0:
            target = _find(new, old[place, _KEY])
            for column in range(3):
                new[target, column] = old[place, column]


class HistoryEntropy:
    """Counts of one kind and length of history; `observe` the outcomes in order, then `result`.

    `branches` is the number of static instructions. Raises InputError for a kind or length that there is not.
    """

    def __init__(self, branches: int, kind: str, length: int, *, limit: int = LIMIT) -> None:
        if kind not in KINDS:
            raise InputError(f"history {kind!r}; one of {', '.join(KINDS)}")
        if not 0 <= length <= LONGEST:
            raise InputError(f"history of {length} outcomes; 0 to {LONGEST}")
        self.kind, self.length = kind, length
        self._limit = limit
        self._table = np.zeros((1 << 10, 3), np.uint64)
        self._scalars = np.zeros(3, np.int64)
        self._own = np.zeros(branches if kind == "local" else 0, np.uint32)

    def observe(self, site: NDArray[np.uint32], taken: NDArray[np.uint8]) -> None:
        """The next outcomes of conditional branches: static numbers [n] and 1 where taken [n]."""
        done = 0
        while True:
            done = _count(
                self._table,
                self._scalars,
                self._own,
                site,
                taken,
                self.length,
                self.kind == "global",
                self._limit,
                done,
            )
            if done == len(site):
                return
            larger = np.zeros((2 * len(self._table), 3), np.uint64)
            _rehash(self._table, larger)
            self._table = larger

    def result(self) -> Entropy:
        """The means over what was observed; 0 where nothing was."""
        used = self._table[self._table[:, _KEY] != 0, _COUNTS:].astype(np.float64)
        weight = used.sum(axis=1)
        counted = weight.sum()
        taken = np.divide(used[:, 1], weight, out=np.zeros(len(used)), where=weight > 0)
        total = counted + self._scalars[_LEFT_OUT]
        return Entropy(
            kind=self.kind,
            length=self.length,
            shannon=float((weight * shannon_entropy(taken)).sum() / max(counted, 1)),
            linear=float((weight * linear_entropy(taken)).sum() / max(counted, 1)),
            contexts=int(self._scalars[_ENTRIES]),
            covered=float(counted / total) if total else 1.0,
        )
