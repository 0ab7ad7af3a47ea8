"""A researcher's new branch predictor: gshare in ten lines of Python, on a real program, beside the built-in ones.

    python examples/new_predictor.py [PROGRAM ARGS…]      # in a checkout: a wheel is without the simulator's parts

Where it looks good, write it as a C++ header; machines then have it by name: docs/how-to/add-a-predictor.md.
"""

import sys

import numpy as np

import perfvec as pv
from tracegen.formats.trace import Trace
from uarch.instructions import LAST, Flag
from uarch.timing._core import parts

SIZE = 4096
CONDITIONAL = int(Flag.BRANCH | Flag.CONDITIONAL)


class Gshare:
    """Two-bit counters by address xor global history (McFarling, WRL TN-36, 1993)."""

    def __init__(self) -> None:
        self.counters, self.history = np.full(SIZE, 2, np.int8), 0

    def predict(self, pc: int) -> bool:
        return bool(self.counters[(pc ^ self.history) % SIZE] >= 2)

    def update(self, pc: int, taken: bool) -> None:
        place = (pc ^ self.history) % SIZE
        self.counters[place] = min(max(self.counters[place] + (1 if taken else -1), 0), 3)
        self.history = (self.history << 1 | taken) % SIZE


def main() -> None:
    file = pv.trace(sys.argv[1:] or [sys.executable, "-c", "print(1)"], max_instructions=500_000)
    mine, wrong = Gshare(), 0
    others = {kind: parts.BranchUnit(kind, SIZE) for kind in ("local", "tournament", "tage")}
    with Trace(file) as trace:
        code = trace.static
        for chunk in trace.chunks():
            rows = np.flatnonzero(code.flags[chunk.static_id] & CONDITIONAL == CONDITIONAL)
            for now, after in zip(chunk.static_id[rows].tolist(), chunk.next_static_id[rows].tolist(), strict=True):
                if after == LAST:  # nothing follows
                    continue
                pc, to = int(code.address[now]), int(code.address[after])
                end = pc + int(code.length[now])
                wrong += mine.predict(pc) != (to != end)
                mine.update(pc, to != end)
                for unit in others.values():
                    unit.fetch(pc, end, to, CONDITIONAL)
    for name, count in {"gshare": wrong, **{kind: unit.mispredictions for kind, unit in others.items()}}.items():
        print(f"{name:12}{1000 * count / file.instructions:8.2f} mispredictions per 1,000 instructions")
    print(f"\nWhat branches cost on zen4:\n{pv.simulate(file, 'zen4').stack}")


if __name__ == "__main__":
    main()
