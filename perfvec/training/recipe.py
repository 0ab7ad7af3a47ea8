"""The recipe of a training run: everything that training depends on besides the data.

The command line takes its defaults from here before it knows what is asked, so nothing heavy is imported above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.errors import InputError


@dataclass(frozen=True)
class Recipe:
    """See the fields. Raises InputError where they contradict each other."""

    schema: str = "default"
    architecture: str = "lstm"
    width: int = 256
    layers: int = 2
    numbers: Mapping[str, int] = field(default_factory=dict)  # of the architecture, where not its defaults
    skip_connection: bool = False  # an instruction's features also enter its vector by a linear map
    instructions: int = 60_000_000  # executed instructions that training passes over (repetitions counted)
    sequence: int = 288  # instructions of a training sequence that count, behind `warmup` others
    warmup: int = 96
    batch_size: int = 16  # sequences in a batch, of all processes together
    optimizer: str = "muon"  # or adam
    learning_rate: float = 2e-3  # Adam's at the peak
    muon_lr: float = 0.02  # Muon's at the peak
    weight_decay: float = 0.0
    ema_decay: float = 0.0  # decay per step of the weights' exponential moving average, which is then what is saved
    validate_every: int = 500  # steps, where programs validate
    patience: int = 0  # validations without a better one before training stops; 0: never
    sampled_share: float = 0.5  # of a batch's sequences, where there are windows labelled on sampled machines
    sampled_machines: int = 32  # that such a sequence is labelled on, drawn anew each time
    encoder_layers: int = 128  # width of the hidden layers of an encoder that is trained together
    seed: int = 0
    initial: str = ""  # digest of the model whose weights training starts from; none: from nothing

    def __post_init__(self) -> None:
        from perfvec.architectures import complete
        from perfvec.training.data import WARMUP
        from perfvec.training.loss import LENGTHS
        from perfvec.training.optimizer import OPTIMIZERS

        longest = LENGTHS[-1][0]
        if not 0 <= self.warmup <= WARMUP or self.sequence < 1 or self.sequence % longest:
            raise InputError(f"warmup must be from 0 to {WARMUP}, and sequence a multiple of {longest}")
        if not (self.learning_rate > 0 and self.muon_lr > 0):
            raise InputError("learning_rate and muon_lr must be above 0")
        if min(self.width, self.layers, self.instructions, self.batch_size, self.validate_every) < 1:
            raise InputError("width, layers, instructions, batch_size and validate_every must be at least 1")
        if not 0.0 < self.sampled_share < 1.0 or self.sampled_machines < 2 or self.sampled_machines % 2:
            raise InputError("sampled_share must lie between 0 and 1, and sampled_machines be an even number")
        if not 0.0 <= self.ema_decay < 1.0:
            raise InputError(f"ema_decay is {self.ema_decay}; a decay from 0 (no averaging) to below 1 is expected")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; at least 0 is expected")
        if self.patience < 0 or self.weight_decay < 0:
            raise InputError("patience and weight_decay must not be negative")
        if self.optimizer not in OPTIMIZERS:
            raise InputError(f"unknown optimizer {self.optimizer!r}; this release has {', '.join(OPTIMIZERS)}")
        complete(self.architecture, self.numbers)

    @property
    def steps(self) -> int:
        return max(1, self.instructions // (self.sequence * self.batch_size))

    @property
    def lead(self) -> int:
        """Instructions before those of a sequence that count; none where an architecture has no memory."""
        from perfvec.architectures import ARCHITECTURES

        return self.warmup if ARCHITECTURES[self.architecture].MEMORY else 0

    @property
    def sampled(self) -> int:
        """Sequences of a batch that are labelled on sampled machines, where there are any."""
        return min(max(1, round(self.sampled_share * self.batch_size)), self.batch_size - 1)

    @property
    def shape(self) -> dict[str, Any]:
        """Keyword arguments of FoundationModel."""
        return {
            "architecture": self.architecture,
            "width": self.width,
            "layers": self.layers,
            "skip_connection": self.skip_connection,
            **self.numbers,
        }


def parse_numbers(texts: Sequence[str]) -> dict[str, int]:
    """An architecture's numbers from NAME=VALUE texts. Raises InputError for what is not of this form."""
    numbers = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value.isdecimal()):
            raise InputError(f"{text!r} is not NAME=VALUE with a whole number, as context=32")
        numbers[name] = int(value)
    return numbers
