"""The state of a training run between two steps, on disk, so that a killed run continues bit for bit."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from perfvec.machines.encoder import MachineEncoder
from perfvec.model import FoundationModel
from support.files import atomic_path

Weights = dict[str, Tensor]
_TOGETHER = "together."  # before the names of an encoder's weights in a checkpoint


@dataclass(frozen=True)
class Best:
    """The weights with the smallest error on the validation programs, and when they were met."""

    step: int
    error: float
    weights: Weights


@dataclass(frozen=True)
class Checkpoint:
    """State after `step` steps: weights, optimizer, their moving average and the best so far, where there are these.

    The schedule and the drawn sequences are functions of the step and need no state.
    """

    step: int
    weights: Weights
    optimizer: dict[str, Any]
    ema: Weights | None
    best: Best | None


@dataclass(frozen=True)
class Trained:
    """Parts of a run that its steps change, and that a checkpoint holds."""

    foundation: FoundationModel
    together: MachineEncoder | None
    optimizer: torch.optim.Optimizer
    average: FoundationModel | None

    def checkpoint(self, step: int, best: Best | None) -> Checkpoint:
        together = self.together.state_dict() if self.together is not None else {}
        weights = self.foundation.state_dict() | {f"{_TOGETHER}{name}": value for name, value in together.items()}
        averaged = self.average.state_dict() if self.average is not None else None
        return Checkpoint(step, weights, self.optimizer.state_dict(), averaged, best)

    def restore(self, state: Checkpoint) -> None:
        self.foundation.load_state_dict({k: v for k, v in state.weights.items() if not k.startswith(_TOGETHER)})
        if self.together is not None:
            own = {k.removeprefix(_TOGETHER): v for k, v in state.weights.items() if k.startswith(_TOGETHER)}
            nn.Module.load_state_dict(self.together, own)
        self.optimizer.load_state_dict(state.optimizer)
        if self.average is not None and state.ema is not None:
            self.average.load_state_dict(state.ema)


def save_checkpoint(path: Path, identity: str, state: Checkpoint) -> None:
    """Atomically; `identity` says of which recipe and data it is."""
    document = {**vars(state), "best": vars(state.best) if state.best else None, "identity": identity}
    with atomic_path(path) as temporary:
        torch.save(document, temporary)


def load_checkpoint(path: Path, identity: str, device: torch.device) -> Checkpoint | None:
    """The checkpoint, or None, with a line on stderr, where it is of another run or cannot be read."""
    if not path.exists():
        return None
    try:
        document = torch.load(path, weights_only=True, map_location=device)
        found = document.pop("identity")
        best = document.pop("best")
        state = Checkpoint(**document, best=Best(**best) if best else None)
    except Exception as error:  # torch.load raises whatever the damage leads to
        why = type(error).__name__
        print(f"{path}: the checkpoint cannot be read ({why}); training starts anew", file=sys.stderr)
        return None
    if found != identity:
        print(f"{path}: the checkpoint is of another recipe or other data; training starts anew", file=sys.stderr)
        return None
    return state
