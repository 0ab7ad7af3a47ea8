"""A new architecture of the foundation model, from the class to a prediction: an exponential moving average.

    python examples/new_architecture.py [STEPS]

A few hundred steps on one small program show the way, not how good it is: docs/how-to/train.md, add-an-architecture.md.
"""

import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import perfvec as pv
from perfvec.architectures import ARCHITECTURES, Architecture, State
from perfvec.training.recipe import Recipe
from perfvec.training.train import train
from tracegen.label import label

MACHINES = ["base", "zen4", "cortex-a53"]


class MovingAverage(Architecture):
    """An instruction's own features, and an average of those before it; the decay of each is learned."""

    def __init__(self, inputs: int, width: int, layers: int) -> None:
        super().__init__()
        self.own, self.past = nn.Linear(inputs, width), nn.Linear(inputs, width)
        self.decay = nn.Parameter(torch.linspace(0, 4, width))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        decay, entered, sums = torch.sigmoid(self.decay), self.past(x), []
        average = torch.zeros_like(entered[0]) if state is None else state[0][0]
        for step in entered:
            average = decay * average + (1 - decay) * step
            sums.append(average)
        return self.own(x) + torch.stack(sums), (average[None],)


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    ARCHITECTURES["moving-average"] = MovingAverage  # or a line in perfvec/architectures/__init__.py
    with tempfile.TemporaryDirectory() as folder:
        traces, labels, model = Path(folder) / "traces", Path(folder) / "labels", Path(folder) / "m.safetensors"
        traces.mkdir()
        pv.trace(["seq", "500"], traces / "seq.trace.h5", max_instructions=60_000)
        label([traces / "seq.trace.h5"], [pv.machine(name) for name in MACHINES], labels, workers=1)
        recipe = Recipe(architecture="moving-average", width=16, layers=1, batch_size=8, instructions=steps * 288 * 8)
        train(traces, labels, model, recipe=recipe, encoder=False)
        told = pv.predict(traces / "seq.trace.h5", MACHINES, budget=0, model=model).table
        true = pv.simulate(traces / "seq.trace.h5", MACHINES).table
        for name, predicted, simulated in zip(MACHINES, told["cycles"], true["cycles"], strict=True):
            print(f"{name:12}{predicted:12,.0f} cycles predicted {simulated:12,.0f} simulated")


if __name__ == "__main__":
    main()
