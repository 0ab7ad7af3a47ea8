"""The training loop that all networks share: AdamW, warm-up and cosine, chunks of groups, any mix of losses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm import tqdm

from perfvec.eager import AdamW
from perfvec.tensor import losses
from perfvec.tensor.batches import Batch, pad, steps_of_pass, training_batches
from perfvec.tensor.contract import Budget
from perfvec.tensor.discrepancy import central_moment_discrepancy
from perfvec.tensor.records import Records
from perfvec.tensor.targets import KINDS, Target, relevance
from support.errors import InputError
from tracegen.tensor.dataset import Rows

LOSSES = ("mse", "rmse", "huber", "mape", "rank", "lambda", "cmd")
_OF_LATENCIES = ("mse", "rmse", "huber", "mape")
_SMALLEST_DOMAIN = 8  # candidates of a domain in a batch, for moments to mean something
DROPS = 2  # of the learning rate, where validation records say when to stop
DROP = 0.2


@dataclass(frozen=True)
class Training:
    """`losses`: {name of `LOSSES`: weight}; `target`: what `mse` and `huber` are of (`targets.KINDS`).

    `sharpness`: factor of the outputs in ranking losses. Latencies of one task differ by a fraction of the spread of
    all (the unit of `log` and `box-cox`): with 1, a pair that is well apart still pulls nearly as one that is equal.
    """

    target: str = "log"
    losses: Mapping[str, float] = field(default_factory=lambda: {"mse": 1.0})
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    batch: int = 256
    chunk: int = 32  # candidates of one task that come together
    warmup: float = 0.05  # share of the training
    sharpness: float = 1.0
    clip: float = 1.0  # norm of the gradient
    rows: int = 64  # of a candidate, at most

    def check(self) -> None:
        """Raise InputError for names that there are not, and for a mix that no latency comes out of."""
        for name in self.losses:
            if name not in LOSSES:
                raise InputError(f"loss {name!r}: expected some of {', '.join(LOSSES)}")
        if not any(self.losses.values()):
            raise InputError("losses: at least one needs a weight above 0")
        if self.target != "score" and not any(self.losses.get(name) for name in _OF_LATENCIES):
            raise InputError(
                f"losses: no latency comes out of these, as the target {self.target!r} says; give one of "
                f"{', '.join(_OF_LATENCIES)} a weight, or take the target 'score'"
            )
        if self.target not in KINDS:
            raise InputError(f"target {self.target!r}: expected one of {', '.join(KINDS)}")
        if not 0 < self.learning_rate < 10:
            raise InputError(f"learning_rate is above 0 and below 10, not {self.learning_rate}")
        if self.batch < 2:
            raise InputError(f"batch is at least 2, as one record has none to be compared with, not {self.batch}")
        for name in ("sharpness", "clip"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is above 0, not {getattr(self, name)}")
        if not self.warmup < 1:
            raise InputError(f"warmup is a share below 1, not {self.warmup}")
        if "mape" in self.losses and self.target == "score":
            raise InputError("the loss 'mape' is of latencies, and the target 'score' has none; use 'log' or 'box-cox'")


class Network(nn.Module):
    """Network that a file of `models/` brings: `forward(batch) -> (output [B], latent [B, d] within (−1, 1))`.

    Built as `Subclass(inputs, parameters_width, parameters)`; a network with something per device (`heads`) says so by
    overriding `set_devices` and `adapting`.
    """

    penalty: Tensor | None = None  # of the last batch of a training: what a network adds to the loss itself

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def take_penalty(self) -> Tensor | None:
        """Return the penalty, which is then forgotten: a network that holds its graph cannot be copied."""
        taken, self.penalty = self.penalty, None
        return taken

    def set_devices(self, count: int) -> None:
        """The model now knows `count` devices; new ones come last."""

    def set_lengths(self, lengths: Sequence[int]) -> None:
        """The candidates that train have so many rows."""

    @property
    def tickets(self) -> float:
        """The share of their entries that fine-tuning changes: those that matter most for the new records."""
        return 1.0

    def adapting(self, new: bool) -> Iterable[nn.Parameter]:
        """The weights that fine-tuning changes; `new`: on devices that did not train."""
        return self.parameters()


@dataclass(frozen=True)
class Learned:
    """Summary of a training: passes, processor seconds, the last pass's mean loss.

    `curve`: of every pass {"pass", "seconds", "loss"}, with what `judge` said of it.
    """

    epochs: float
    seconds: float
    loss: float
    curve: list[dict[str, float]] = field(default_factory=list)


class Plateau:
    """Keeps the best weights; says when the learning rate falls and when the training ends."""

    def __init__(self, network: nn.Module, patience: int) -> None:
        self.network, self.patience = network, patience
        self.best, self.since, self.drops = math.inf, 0, 0
        self.weights = self._copy()

    def _copy(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def see(self, shortfall: float) -> bool:
        """Take the shortfall of a pass; return whether the training ends."""
        if shortfall < self.best:
            self.best, self.since, self.weights = shortfall, 0, self._copy()
            return False
        self.since += 1
        if self.since < self.patience:
            return False
        self.since = 0
        self.drops += 1
        self.network.load_state_dict(self.weights)
        return self.drops > DROPS

    @property
    def rate(self) -> float:
        return DROP**self.drops


def train(
    network: Network,
    records: Records,
    rows: Rows,
    vectors: NDArray[np.float32],
    device: NDArray[np.int64],
    target: Target,
    training: Training,
    budget: Budget,
    seed: int,
    *,
    known: int,
    weights: Iterable[nn.Parameter] | None = None,
    other: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    judge: Callable[[], dict[str, float]] | None = None,
    on: str = "cpu",
    share: float = 1.0,
    title: str = "train",
) -> Learned:
    """Fit `network` to measured `records`; `device` [n] are rows of `vectors` [devices, P], the first `known` of which
    have labels (and heads). `other`: candidates [m] of another domain and their devices [m], for the loss `cmd`.
    Networks and batches are in the memory of the device `on`. `share` < 1: only so much of the weights changes, chosen
    by the first batch (`winning`).

    The learning rate follows the larger of the shares of passes and of processor time that are over, so that a budget
    in seconds too ends with a small rate. With `judge` (after every pass: `shortfall` and more, of validation records)
    and a budget with patience it is constant after the warm-up, of a pass, until `Plateau` lets it fall. Repeatable
    on one thread by `seed` where the budget has passes only.
    """
    training.check()
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    length = np.minimum(rows.length[records.candidate], training.rows)
    network.to(on)
    labels = _Labels.of(records, target, on)
    table = torch.from_numpy(vectors)
    trained = [weight for weight in (network.parameters() if weights is None else weights) if weight.requires_grad]
    decay = training.weight_decay if share == 1.0 else 0.0  # weights that do not win stay as they are
    fused = True if on.startswith("cuda") else None  # a GPU's default launches many kernels
    optimizer = AdamW(trained, lr=training.learning_rate, weight_decay=decay, fused=fused)
    steps = budget.epochs * max(steps_of_pass(records.group, training.batch, training.chunk), 1)
    other = other if other is not None and len(other[0]) else None
    plateau = Plateau(network, budget.patience) if judge is not None and budget.patience else None
    curve: list[dict[str, float]] = []
    winning: list[Tensor] = []
    began, step, progress, epoch, mean = time.process_time(), 0, 0.0, 0, float("nan")
    _learning(network, weights is not None)
    bar = tqdm(total=100, desc=title, leave=False, disable=None, unit="%")
    while epoch < budget.epochs and progress < 1.0:
        total, count = torch.zeros((), dtype=torch.float64, device=on), 0
        for at in training_batches(records.group, length, training.batch, training.chunk, random):
            progress = _progress(step, steps, time.process_time() - began, budget)
            bar.update(int(100 * progress) - bar.n)
            if progress >= 1.0:
                break
            if len(at) < 2:  # nothing to normalise or to compare
                continue
            rate = _rate(progress, training.warmup)
            if plateau is not None:
                rate = min((step + 1) * budget.epochs / max(steps, 1), 1.0) * plateau.rate
            for part in optimizer.param_groups:
                part["lr"] = training.learning_rate * rate
            batch = make_batch(rows, records.candidate[at], table, device[at], known, training.rows).to(on)
            output, latent = network(batch)
            wanted = labels.at(torch.from_numpy(at).to(on))
            penalty = network.take_penalty()
            loss = output.new_zeros(()) if penalty is None else penalty
            for name, weight in training.losses.items():
                if not weight:
                    continue
                if name != "cmd":
                    term = _term(name, output, wanted, target, training.sharpness)
                elif other is not None:
                    there = random.integers(len(other[0]), size=len(at))
                    foreign = make_batch(rows, other[0][there], table, other[1][there], known, training.rows).to(on)
                    term = central_moment_discrepancy(latent, network(foreign)[1])
                else:
                    term = _between(latent, wanted.domain)
                loss = loss + weight * term
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if share < 1.0:
                winning = winning or winning_weights(trained, share)
                for value, mask in zip(trained, winning, strict=True):
                    if value.grad is not None:
                        value.grad *= mask
            nn.utils.clip_grad_norm_(trained, training.clip)
            optimizer.step()
            total, count, step = total + loss.detach(), count + 1, step + 1  # does not wait for a GPU
        epoch += 1
        mean = float(total) / count if count else mean
        curve.append({"pass": float(epoch), "seconds": time.process_time() - began, "loss": mean})
        if judge is not None:
            network.eval()
            curve[-1] |= judge()
            _learning(network, weights is not None)
            if plateau is not None and plateau.see(curve[-1]["shortfall"]):
                break
    if plateau is not None:
        network.load_state_dict(plateau.weights)
    bar.close()
    network.eval()
    network.take_penalty()
    passes = step * budget.epochs / steps if steps else 0.0
    return Learned(passes, time.process_time() - began, mean, curve)


@dataclass(frozen=True)
class _Labels:
    """Tensors [n] that the outputs are compared with."""

    target: Tensor
    relevance: Tensor
    seconds: Tensor
    group: Tensor
    domain: Tensor

    @staticmethod
    def of(records: Records, target: Target, on: str) -> _Labels:
        wanted = target.of(records.seconds, records.group).astype(np.float32)
        order = relevance(records.seconds, records.group).astype(np.float32)
        columns = (wanted, order, records.seconds, records.group, _domains(records))
        return _Labels(*(torch.from_numpy(column).to(on) for column in columns))

    def at(self, index: Tensor) -> _Labels:
        """Return those of the records at `index`."""
        return _Labels(*(column[index] for column in vars(self).values()))


def _term(name: str, output: Tensor, wanted: _Labels, target: Target, sharpness: float) -> Tensor:
    """The loss of this name, which compares a batch's outputs with their labels."""
    match name:
        case "mse":
            return losses.mse(output, wanted.target)
        case "rmse":
            return losses.rmse(output, wanted.target)
        case "huber":
            return losses.huber(output, wanted.target)
        case "mape":
            return losses.mape(target.torch_seconds(output.double()), wanted.seconds).float()
        case "rank":
            return losses.pairwise_rank(sharpness * output, wanted.relevance, wanted.group)
    return losses.lambda_rank(sharpness * output, wanted.relevance, wanted.group)


def _learning(network: nn.Module, tuning: bool) -> None:
    """Set the mode of training. In fine-tuning, batch normalisation keeps the statistics of its first training: those
    of a few batches are another network's.
    """
    network.train()
    for module in network.modules():
        if tuning and isinstance(module, nn.BatchNorm1d):
            module.eval()


def winning_weights(weights: Sequence[nn.Parameter], share: float) -> list[Tensor]:
    """Masks of the `share` of all entries with the largest |weight · gradient|: what the loss would miss most (the
    first term of its change where an entry were zero).
    """
    worth = [
        torch.zeros_like(value) if value.grad is None else (value.detach() * value.grad).abs() for value in weights
    ]
    every = torch.cat([part.flatten() for part in worth])
    if not len(every):
        return worth
    least = every.kthvalue(min(max(len(every) - round(share * len(every)), 0) + 1, len(every))).values
    return [((part >= least) & (part > 0)).to(part.dtype) for part in worth]


def make_batch(
    rows: Rows, candidates: NDArray[np.int64], table: Tensor, device: NDArray[np.int64], known: int, most: int
) -> Batch:
    """The batch of these candidates on these devices (rows of `table`), of which the model knows the first `known`."""
    x, mask, position = pad(rows, candidates, most)
    index = torch.from_numpy(device)
    return Batch(x, mask, position, table[index], torch.where(index < known, index, -1))


def _between(latent: Tensor, domain: Tensor) -> Tensor:
    """Mean CMD of each domain of a batch and the rest of it."""
    terms = []
    for name in torch.unique(domain):
        inside = domain == name
        if _SMALLEST_DOMAIN <= int(inside.sum()) <= len(domain) - _SMALLEST_DOMAIN:
            terms.append(central_moment_discrepancy(latent[inside], latent[~inside]))
    return torch.stack(terms).mean() if terms else latent.new_zeros(())


def _domains(records: Records) -> NDArray[np.int64]:
    """[n] CDMPP's domains: devices where there are several, otherwise operator classes."""
    if len(np.unique(records.device)) > 1:
        return records.device
    classes = {name: index for index, name in enumerate(sorted({task.operator for task in records.tasks}))}
    return np.array([classes[task.operator] for task in records.tasks], np.int64)[records.task]


def _progress(step: int, steps: int, seconds: float, budget: Budget) -> float:
    return max(step / max(steps, 1), 0.0 if budget.seconds is None else seconds / budget.seconds)


def _rate(progress: float, warmup: float) -> float:
    """1 after the warm-up, then a half cosine to 0."""
    if progress < warmup:
        return (progress + 1e-3) / (warmup + 1e-3)
    return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / max(1 - warmup, 1e-9)))
