"""Training the foundation model, sequence to sequence.

A training sample is a chunk of consecutive instructions behind a warm-up prefix that only fills the LSTM's state, so
every instruction costs one step of the recurrence (PerfVec runs a 256-step window for each). The loss looks at sums of
`SEGMENTS` consecutive latencies: single instructions teach where time goes, long sums keep biases from adding up.
Errors are relative to the mean latency of the program on the machine, so slow machines and programs do not dominate.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import huber_loss
from tqdm import tqdm

from perfvec import encoder_training
from perfvec.data import WARMUP, Labels, Shard, batch, prepare, work_folder
from perfvec.model import FoundationModel, Model, Program, configuration_key, save_model
from perfvec.precision import forward, native_bf16
from tracegen.features import Schema, get_schema
from tracegen.files import atomic_path, require_writable
from uarch.errors import InputError

SEGMENTS = ((1, 0.02), (16, 0.3), (96, 1.0), (288, 1.0))  # instructions summed, weight in the loss
OUTLIER = 4.0  # mean latencies
_CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Recipe:
    """Everything that training depends on besides the data."""

    schema: str = "default"
    width: int = 256
    layers: int = 2
    instructions: int = 60_000_000  # executed instructions that training passes over (repetitions counted)
    chunk: int = 288  # instructions that count, behind `warmup` others
    warmup: int = 96
    lanes: int = 64  # chunks in a batch
    learning_rate: float = 2e-3
    seed: int = 0
    initial: str = ""  # digest of the model whose weights training starts from; none: from nothing

    def __post_init__(self) -> None:
        if self.warmup > WARMUP or self.chunk % SEGMENTS[-1][0]:
            raise InputError(f"warmup must be at most {WARMUP} and chunk a multiple of {SEGMENTS[-1][0]}")
        if min(self.width, self.layers, self.instructions, self.lanes) < 1:
            raise InputError("width, layers, instructions and lanes must be at least 1")

    @property
    def steps(self) -> int:
        return max(1, self.instructions // (self.chunk * self.lanes))


def train(
    traces: str | os.PathLike[str],
    latencies: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    recipe: Recipe | None = None,
    encoder_latencies: str | os.PathLike[str] | None = None,
    exclude_programs: Sequence[str] = (),
    initial: Model | None = None,
    keep_work: bool = False,
    progress: bool = True,
) -> Model:
    """Train on every labelled stretch, then fit the machine encoder; write and return the model.

    With `initial` training goes on from that model's weights (and its recipe's schema, width and layers must be these).

    `encoder_latencies` holds further latency files of the same traces, on any machines, that only teach the encoder.
    A run that was killed continues from its last checkpoint when it is started again with the same arguments.
    """
    recipe = replace(recipe or Recipe(), initial=initial.digest if initial else "")
    require_writable(output)
    work = work_folder(output)
    schema = get_schema(recipe.schema)
    labels = prepare(Path(traces), Path(latencies), schema, work, progress=progress)
    labels = _without(labels, exclude_programs)
    short = min(len(shard) for shard in labels.shards)
    if short < recipe.chunk:
        raise InputError(f"a latency file labels only {short} instructions; training chunks need {recipe.chunk}")
    foundation = fit(labels, schema, recipe, work / "checkpoint.pt", initial=initial, progress=progress)
    programs = {shard.trace_digest: Program(shard.program, shard.trace_digest) for shard in labels.shards}
    model = Model(
        foundation,
        labels.machines,
        tuple(programs.values()),
        recipe={**asdict(recipe), "torch": torch.__version__, "labelled_instructions": labels.instructions},
    )
    encoder = encoder_training.fit_encoder(
        model, labels, Path(traces), Path(encoder_latencies) if encoder_latencies else None, work,
        seed=recipe.seed, progress=progress,
    )  # fmt: skip
    model = Model(model.foundation, model.machines, model.programs, encoder, model.recipe)
    save_model(model, output)
    if not keep_work:
        rmtree(work)
    return model


def _without(labels: Labels, programs: Sequence[str]) -> Labels:
    unknown = set(programs) - {shard.program for shard in labels.shards}
    if unknown:
        raise InputError(f"cannot exclude {', '.join(sorted(unknown))}: no labelled trace of that program")
    kept = tuple(shard for shard in labels.shards if shard.program not in programs)
    if not kept:
        raise InputError("every labelled program is excluded; nothing is left to train on")
    return Labels(labels.machines, kept)


def fit(
    labels: Labels,
    schema: Schema,
    recipe: Recipe,
    checkpoint: Path,
    *,
    initial: Model | None = None,
    progress: bool = True,
) -> FoundationModel:
    """The foundation model after `recipe.steps` steps of Adam with a cosine schedule, resumed from `checkpoint`."""
    torch.manual_seed(recipe.seed)
    bf16 = native_bf16()
    foundation = FoundationModel(schema, len(labels.machines), width=recipe.width, layers=recipe.layers)
    _normalise(foundation, labels.shards, schema, recipe)
    scales = np.stack([shard.latency.mean(axis=0, dtype=np.float64) for shard in labels.shards])  # [shards, U]
    machine_scale = torch.from_numpy(np.exp(np.log(scales).mean(axis=0))).float()
    relative = torch.from_numpy(scales).float()
    if initial is not None:
        _start_from(foundation, initial, labels, machine_scale)
    optimizer = torch.optim.Adam(foundation.parameters(), lr=recipe.learning_rate)
    first = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        if saved["recipe"] == asdict(recipe):
            foundation.load_state_dict(saved["foundation"])
            optimizer.load_state_dict(saved["optimizer"])
            first = int(saved["step"])
    lengths = np.array([len(shard) for shard in labels.shards])
    share = lengths / lengths.sum()
    saved_at = time.monotonic()
    smoothed = float("nan")
    bar = tqdm(total=recipe.steps, initial=first, desc="train", unit="step", disable=None if progress else True)
    for step in range(first, recipe.steps):
        rng = np.random.default_rng((recipe.seed, step))  # of the step alone: a resumed run draws the same chunks
        which = rng.choice(len(lengths), recipe.lanes, p=share)
        begin = (rng.random(recipe.lanes) * (lengths[which] - recipe.chunk + 1)).astype(np.int64)
        x, y, present = batch(labels.shards, schema, which, begin, recipe.warmup, recipe.chunk)
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * _schedule(step, recipe.steps)
        loss = _step(foundation, optimizer, x, y, present, machine_scale, relative[which], recipe, bf16)
        smoothed = loss if math.isnan(smoothed) else 0.98 * smoothed + 0.02 * loss
        bar.update()
        bar.set_postfix(loss=f"{smoothed:.4f}", refresh=False)
        if time.monotonic() - saved_at > _CHECKPOINT_SECONDS:
            _save(checkpoint, foundation, optimizer, step + 1, recipe)
            saved_at = time.monotonic()
    bar.close()
    _save(checkpoint, foundation, optimizer, recipe.steps, recipe)
    with torch.no_grad():
        foundation.head.weight *= machine_scale[:, None]  # trained on latencies relative to the machine's mean
    return foundation.eval()


def _start_from(foundation: FoundationModel, initial: Model, labels: Labels, machine_scale: Tensor) -> None:
    """The weights of another model, with the rows of the head for the machines that it has too."""
    other = initial.foundation
    shapes = [(model.schema.identity, model.width, model.lstm.num_layers) for model in (foundation, other)]
    if shapes[0] != shapes[1]:
        raise InputError(f"the initial model has schema, width and layers {shapes[1]}; this recipe has {shapes[0]}")
    with torch.no_grad():
        head = foundation.head.weight.clone()
        rows = {configuration_key(machine): row for row, machine in enumerate(initial.machines)}
        for row, machine in enumerate(labels.machines):
            if (known := rows.get(configuration_key(machine))) is not None:
                head[row] = other.head.weight[known] / machine_scale[row]
        state = {name: value for name, value in other.state_dict().items() if not name.startswith("head.")}
        foundation.load_state_dict({**state, "head.weight": head})


def _schedule(step: int, steps: int) -> float:
    rise = min(1.0, (step + 1) / min(100, max(1, steps // 10)))
    return rise * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def _normalise(foundation: FoundationModel, shards: Sequence[Shard], schema: Schema, recipe: Recipe) -> None:
    """Zero mean and unit variance of every input over a sample of the data (constant inputs stay 0)."""
    rng = np.random.default_rng(recipe.seed)
    which = rng.integers(0, len(shards), 256)
    begin = np.array([rng.integers(0, len(shards[k]) - recipe.chunk + 1) for k in which])
    x, _, _ = batch(shards, schema, which, begin, 0, recipe.chunk)
    flat = x.reshape(-1, schema.width)
    deviation = flat.std(axis=0)
    foundation.mean.copy_(torch.from_numpy(flat.mean(axis=0)))
    # A rare input (deviation < 0.05) would become huge where it is present: bounded.
    foundation.scale.copy_(torch.from_numpy(np.where(deviation > 0, 1.0 / np.maximum(deviation, 0.05), 0.0)))


def _step(
    foundation: FoundationModel,
    optimizer: torch.optim.Optimizer,
    x: NDArray[np.float32],
    y: NDArray[np.uint16],
    present: NDArray[np.bool_],
    machine_scale: Tensor,
    relative: Tensor,
    recipe: Recipe,
    bf16: bool,
) -> float:
    inputs = torch.from_numpy(x)
    if not present.all():  # before a trace's start the input is its mean: as if nothing were known
        inputs = torch.where(torch.from_numpy(present)[..., None], inputs, foundation.mean)
    representation, _ = forward(foundation, inputs, None, bf16)
    predicted = foundation.head(representation[recipe.warmup :]) * machine_scale
    error = (predicted - torch.from_numpy(y.astype(np.float32))) / relative  # [chunk, B, U], fractions of the mean
    loss = segment_loss(error)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(foundation.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def segment_loss(error: Tensor) -> Tensor:
    """Weighted mean of the squared mean error over `SEGMENTS` of consecutive instructions; error is [T, B, U].

    Beyond OUTLIER an error counts linearly (Huber 1964): what one instruction cannot express, such as a `rep stosb`
    of tens of thousands of cycles, would otherwise rule the gradient.
    """
    total = error.new_zeros(())
    means, length = error, 1
    for segment, weight in SEGMENTS:
        means = means.unflatten(0, (-1, segment // length)).mean(dim=1)
        length = segment
        total = total + weight * 2 * huber_loss(means, torch.zeros_like(means), delta=OUTLIER)
    return total


def _save(path: Path, foundation: FoundationModel, optimizer: torch.optim.Optimizer, step: int, recipe: Recipe) -> None:
    state = {
        "foundation": foundation.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "recipe": asdict(recipe),
    }
    with atomic_path(path) as temporary:
        torch.save(state, temporary)
