"""The machine encoder of windows that are labelled on sampled machines, each window on others.

It is trained together with the foundation model (`perfvec.training.train.Objective`), whose sequences of some hundred
instructions show a machine's times only roughly. Then the foundation model is frozen, and the encoder learns on from
whole windows: from times, and from what a change of one field costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss
from tqdm import tqdm

from perfvec.eager import AdamW
from perfvec.machines.encoder import HINGES, MachineEncoder, input_scale
from perfvec.machines.features import features_of_machines
from perfvec.training.batches import drawn_pairs
from perfvec.training.data import SampledShard
from perfvec.training.ordered import SIZES, excess, not_slower
from perfvec.training.recipe import Recipe
from uarch.configuration import Machine

# Of fold 1, windows that did not teach it are 9.6 % off (mean) on their machines. 127 coordinates and hidden layers of
# 512, or neither dropout nor much weight decay, fit those that do better (loss 0.027 and 0.044 for 0.063), and others
# not: 9.9 and 9.3 % (2026-11-27). Nor would simulating known programs on a new machine help unknown ones much: a vector
# fitted to 38 windows is 8.4 % off on a program left out, the encoder's 9.3 %.
_COORDINATES = 48
_COSTS = 24  # with the network of fold 1 frozen, 64 beside 24 coordinates did no better (2026-11-30)
STEPS = 6000
_SAMPLED, _MACHINES, _TABLE_WINDOWS = 64, 32, 128  # of a step: sampled windows, machines of each, table windows
_TABLE = 0.5  # weight of the table's machines in the loss
PAIRS = 3000  # of machines that differ in a cache's size, and twice as many in anything
_LEVEL, _CHANGE = 0.1, 0.03  # relative errors beyond which they count linearly (Huber)


@dataclass(frozen=True)
class Windows:
    """Windows on machines: vectors [W, d] and latencies [W, M], means over instructions; features [W or 1, M, F]."""

    vectors: NDArray[np.float64]
    latencies: NDArray[np.float64]
    features: NDArray[np.float32]


def fresh(
    machines: Sequence[Machine], sampled: Sequence[SampledShard], recipe: Recipe, known: MachineEncoder | None = None
) -> MachineEncoder:
    """Return an untrained encoder of all these machines, whose directions are parameters too; or the `known` one, with
    inputs of the features that it is older than, which reads each in the range that these machines have.
    """
    features = np.concatenate([features_of_machines(machines), *(one.features for one in sampled)])
    if known is not None:
        return reaching(widened(known, features), features)
    torch.manual_seed(recipe.seed)
    encoder = MachineEncoder(
        recipe.width,
        features=features.shape[1],
        coordinates=min(recipe.width, _COORDINATES),
        costs=_COSTS,
        hidden=recipe.encoder_layers,
        hinges=HINGES,
    )
    encoder.mean.copy_(torch.from_numpy(features.mean(axis=0)))
    encoder.scale.copy_(torch.from_numpy(input_scale(features)))
    paces = np.concatenate([np.log(one.shard.mean) for one in sampled])
    encoder.pace.copy_(torch.tensor(float(paces.mean())))
    learned = {
        "basis": torch.randn(encoder.basis.shape) / recipe.width**0.5,
        "basis_mean": torch.randn(recipe.width) / recipe.width**0.5,
        "cost_basis": 0.1 * torch.randn(encoder.cost_basis.shape) / recipe.width**0.5,
    }
    for name, value in learned.items():
        delattr(encoder, name)
        encoder.register_parameter(name, nn.Parameter(value))
    return encoder.train()


def widened(encoder: MachineEncoder, features: NDArray[np.float32]) -> MachineEncoder:
    """The encoder with as many inputs as `features` [K, F]; the new ones change nothing yet."""
    old, new = len(encoder.mean), features.shape[1]
    later = features[:, old:]
    state = dict(encoder.state_dict())
    state["mean"] = torch.cat([encoder.mean, torch.from_numpy(later.mean(axis=0))])
    state["scale"] = torch.cat([encoder.scale, torch.from_numpy(input_scale(later))])
    for name in ("linear.weight", "correction.0.weight"):  # features, and again behind each hinge
        weight = state[name].unflatten(1, (1 + len(encoder.hinges), old))
        state[name] = nn.functional.pad(weight, (0, new - old)).flatten(1)
    found = MachineEncoder(1)
    found.load_state_dict(state)
    return found


def reaching(encoder: MachineEncoder, features: NDArray[np.float32]) -> MachineEncoder:
    """The encoder with inputs scaled down that some of `features` [K, F] have beyond its limit, where all are alike.

    The weights follow, but for what the hinges say of such an input.
    """
    found = deepcopy(encoder)
    reach = ((torch.from_numpy(features) - found.mean) * found.scale).abs().amax(dim=0) / found.limit
    beyond = reach.clamp(min=1.0)
    found.scale /= beyond
    with torch.no_grad():
        for layer in (found.linear, found.correction[0]):
            assert isinstance(layer, nn.Linear)
            layer.weight *= beyond.repeat(1 + len(found.hinges))
    return found


def refined(
    together: MachineEncoder, sampled: Sequence[Windows], table: Windows, *, seed: int, progress: bool = True
) -> MachineEncoder:
    """Return the encoder after training on whole windows; of each two of a sampled window's machines the second is the
    first with one field changed. `sampled` are of a window each. What cannot make a machine slower does not
    (`perfvec.training.ordered`).
    """
    torch.manual_seed(seed)
    generator = np.random.default_rng(seed)
    encoder = deepcopy(together).train()
    vectors, latencies, features = (
        torch.from_numpy(value).float() for value in (table.vectors, table.latencies, table.features[0])
    )
    ordered = ((not_slower(PAIRS, seed, SIZES), 64), (not_slower(2 * PAIRS, seed + 1), 128))  # and pairs of a step
    optimizer = AdamW(encoder.parameters(), lr=2e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in tqdm(range(STEPS), desc="encoder", unit="step", disable=None if progress else True):
        vector, latency, x = _drawn(sampled, generator)
        machines = encoder(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        relative = (machines * vector[:, None]).sum(dim=-1) / latency
        ratio = latency[:, 1::2] / latency[:, ::2]
        change = ratio * (relative[:, 1::2] - 1) - (relative[:, ::2] - 1)
        rows = torch.from_numpy(generator.integers(0, len(vectors), _TABLE_WINDOWS))
        of_table = vectors[rows] @ encoder(features).T / latencies[rows]
        loss = _huber(relative - 1, _LEVEL) + _huber(change, _CHANGE) + _TABLE * _huber(of_table - 1, _LEVEL)
        for pairs, drawn in ordered:
            some = torch.from_numpy(generator.integers(0, len(pairs), drawn))
            loss = loss + _huber(excess(encoder, pairs[some], vector), _CHANGE)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    found = MachineEncoder(1)
    found.load_state_dict({name: value.detach().clone() for name, value in encoder.state_dict().items()})
    return found.eval()


def _huber(error: Tensor, beta: float) -> Tensor:
    return smooth_l1_loss(error, torch.zeros_like(error), beta=beta)


def _drawn(sampled: Sequence[Windows], generator: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors [W, d], latencies [W, M] and features [W, M, F] of random windows, on pairs of their machines."""
    parts = []
    for index in generator.integers(0, len(sampled), _SAMPLED):
        window = sampled[index]
        rows = drawn_pairs(generator, window.latencies.shape[1], _MACHINES)
        parts.append((window.vectors[0], window.latencies[0, rows], window.features[0, rows]))
    vectors, latencies, features = (torch.from_numpy(np.stack(column)).float() for column in zip(*parts, strict=True))
    return vectors, latencies, features
