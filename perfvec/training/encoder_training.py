"""Teaching the machine encoder, with the foundation model frozen (PerfVec §V).

What is learned from are windows of the labelled programs: a window's vector R (the sum of its instructions'
representations) and its cycles y on each machine. The encoder's vector m for a configuration shall make R·m close to y,
relative to y. The machines are those of the table and, from `encoder_latencies`, any number of others: labelling a
machine costs a simulation of the windows, not training of the foundation model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.eager import AdamW
from perfvec.machines.encoder import MachineEncoder, input_scale
from perfvec.machines.features import features_of_machines
from perfvec.model import FoundationModel, Model
from perfvec.precision import rounded
from perfvec.training import sampled_encoder
from perfvec.training.data import Labels, SampledShard, pair_files
from perfvec.training.windows import window_vector
from support.errors import InputError
from tracegen.formats.latency import LatencyFile
from uarch.configuration import Machine, configuration_key

MEAN_OVER = 20_000  # instructions
_MEANS = 6  # windows of one shard, spread over it
_STEPS = 1200
_BATCH = 256
_COORDINATES = 24  # principal directions of the table
_JITTER = 0.1  # deviations by which features are blurred in training: fields that few machines vary mean little


def fit_encoder(
    model: Model,
    labels: Labels,
    traces: Path,
    latencies: Path | None,
    *,
    held: Sequence[Machine] = (),
    sampled: Sequence[SampledShard] = (),
    together: MachineEncoder | None = None,
    seed: int,
    progress: bool = True,
) -> tuple[MachineEncoder, NDArray[np.float64]]:
    """The encoder for `model`, from its training labels and an optional folder of further latency files, those of other
    traces and of `held` machines not counted; or from `sampled` windows, where `together` is the encoder that was
    trained with the model. Also the mean vector per instruction of each of `model.programs` [P, d] over the windows it
    learned from.
    """
    foundation = rounded(model.foundation)  # as programs will be represented
    vectors: list[NDArray[np.float64]] = []
    cycles: list[NDArray[np.float64]] = []
    windows_of: dict[str, list[tuple[int, int]]] = {}  # by trace digest: first instruction, window
    for shard in tqdm(labels.shards, desc="windows", disable=None if progress else True):
        for begin in _window_begins(len(shard)):
            windows_of.setdefault(shard.trace_digest, []).append((shard.start + begin, len(vectors)))
            cycles.append(shard.latency[begin : begin + MEAN_OVER].sum(axis=0, dtype=np.float64))
            vectors.append(window_vector(foundation, shard, begin, MEAN_OVER))
    table, times = np.array(vectors), np.array(cycles)
    if together is None:
        encoder = _taught(model, table, times, windows_of, traces, latencies, held=held, seed=seed, progress=progress)
    else:
        shown = tqdm(sampled, desc="sampled windows", disable=None if progress else True)
        encoder = sampled_encoder.refined(
            together,
            [_sampled_window(foundation, one) for one in shown],
            sampled_encoder.Windows(table / MEAN_OVER, times / MEAN_OVER, features_of_machines(model.machines)[None]),
            seed=seed,
            progress=progress,
        )
        encoder.remember([*model.machines, *(machine for one in sampled for machine in one.machines)])
    return encoder, _program_vectors(model, windows_of, table)


def _sampled_window(foundation: FoundationModel, one: SampledShard) -> sampled_encoder.Windows:
    count = min(len(one.shard), MEAN_OVER)
    vector = window_vector(foundation, one.shard, 0, count) / count
    latency = one.shard.latency[:count].mean(axis=0, dtype=np.float64)
    return sampled_encoder.Windows(vector[None], latency[None], one.features[None])


def _taught(
    model: Model,
    vectors: NDArray[np.float64],
    cycles: NDArray[np.float64],
    windows_of: dict[str, list[tuple[int, int]]],
    traces: Path,
    latencies: Path | None,
    *,
    held: Sequence[Machine],
    seed: int,
    progress: bool,
) -> MachineEncoder:
    """The encoder that learns from the table's windows, and from what `latencies` say of the same windows on machines
    that are not `held`.
    """
    judged = set(map(configuration_key, held))
    machines: list[Machine] = list(model.machines)
    row_of = {configuration_key(machine): row for row, machine in enumerate(machines)}
    samples = [(window, row, float(value)) for window, of in enumerate(cycles) for row, value in enumerate(of)]
    for _, path in pair_files(traces, latencies) if latencies else ():
        with LatencyFile(path) as file:
            if file.trace_digest not in windows_of:
                continue
            rows = []
            for machine in file.machines:
                if (key := configuration_key(machine)) in judged:
                    rows.append(-1)
                    continue
                if row_of.setdefault(key, len(machines)) == len(machines):
                    machines.append(machine)
                rows.append(row_of[key])
            for begin, window in windows_of[file.trace_digest]:
                if file.start <= begin and begin + MEAN_OVER <= file.start + len(file):
                    found = file.read(begin - file.start, begin - file.start + MEAN_OVER).sum(axis=1, dtype=np.float64)
                    samples += [(window, row, float(value)) for row, value in zip(rows, found, strict=True) if row >= 0]
    windows, rows_of_samples, cycles_of_samples = (np.array(column) for column in zip(*samples, strict=True))
    encoder = learn(
        features_of_machines(machines),
        vectors,
        windows,
        rows_of_samples,
        cycles_of_samples,
        model.table(),
        seed=seed,
        progress=progress,
    )
    encoder.remember(machines)
    return encoder


def _program_vectors(
    model: Model, windows_of: dict[str, list[tuple[int, int]]], vectors: NDArray[np.float64]
) -> NDArray[np.float64]:
    means = np.zeros((len(model.programs), vectors.shape[1]))
    for row, program in enumerate(model.programs):
        if windows := [window for _, window in windows_of.get(program.digest, ())]:  # none: of the initial model
            means[row] = vectors[windows].mean(axis=0) / MEAN_OVER
    return means


def require_windows(labels: Labels) -> None:
    """Raise InputError where a labelled window is too short to teach an encoder."""
    for shard in labels.shards:
        _window_begins(len(shard))


def _window_begins(length: int) -> list[int]:
    if length < MEAN_OVER:
        raise InputError(f"a latency file labels only {length} instructions; the encoder needs windows of {MEAN_OVER}")
    return sorted(set(np.linspace(0, length - MEAN_OVER, _MEANS).astype(int).tolist()))


def learn(
    features: NDArray[np.float32],
    vectors: NDArray[np.float64],
    window: NDArray[np.int64],
    row: NDArray[np.int64],
    cycles: NDArray[np.float64],
    table: NDArray[np.float64],
    *,
    seed: int,
    steps: int = _STEPS,
    progress: bool = True,
) -> MachineEncoder:
    """Fit on samples: window `window[k]` took `cycles[k]` on the machine with features `features[row[k]]`.

    `vectors` [W, d]; `table` [U, d] gives the directions in which machine vectors vary.
    """
    torch.manual_seed(seed)
    encoder = _fresh(features, vectors, table)
    spread = features.std(axis=0)
    jitter = torch.from_numpy(_JITTER * spread)
    x = torch.from_numpy(features)
    # R·m / y = (R / y)·m: one product a sample, relative by construction.
    scaled = torch.from_numpy(vectors[window] / cycles[:, None]).float()
    rows = torch.from_numpy(row)
    by_row = [torch.from_numpy(np.flatnonzero(row == index)) for index in range(len(features))]
    encoder.train()
    optimizer = AdamW(encoder.parameters(), lr=2e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator = np.random.default_rng(seed)
    for _ in tqdm(range(steps), desc="encoder", unit="step", disable=None if progress else True):
        chosen = generator.choice(len(features), min(len(features), 64), replace=False)
        samples = torch.cat([_draw(by_row[index], generator) for index in chosen])
        machine_vectors = encoder(x + jitter * torch.randn_like(x))[rows[samples]]
        error = (scaled[samples] * machine_vectors).sum(dim=1) - 1.0
        loss = torch.nn.functional.smooth_l1_loss(error, torch.zeros_like(error), beta=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return encoder.eval()


def _fresh(features: NDArray[np.float32], vectors: NDArray[np.float64], table: NDArray[np.float64]) -> MachineEncoder:
    pace, centre, basis, deviation = _directions(table, vectors)
    encoder = MachineEncoder(vectors.shape[1], features=features.shape[1], coordinates=len(basis))
    for buffer, value in (
        (encoder.pace, pace),
        (encoder.basis_mean, centre),
        (encoder.basis, basis),
        (encoder.basis_scale, deviation),
    ):
        buffer.copy_(torch.as_tensor(value))
    encoder.mean.copy_(torch.from_numpy(features.mean(axis=0)))
    encoder.scale.copy_(torch.from_numpy(input_scale(features)))
    return encoder


def _draw(indices: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
    if len(indices) <= _BATCH:
        return indices
    return indices[torch.from_numpy(generator.integers(0, len(indices), _BATCH))]


def _directions(
    table: NDArray[np.float64], vectors: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The table's mean pace (log), and of its rows at equal pace the mean, principal directions and deviations.

    A row's pace is its time for the mean window.
    """
    pace = table @ vectors.mean(axis=0)
    usable = pace > 0
    if not usable.any():
        raise InputError("the model predicts no positive times for its training windows; train it longer")
    rows = table[usable] / pace[usable, None]
    centre = rows.mean(axis=0)
    _, singular, directions = np.linalg.svd(rows - centre, full_matrices=False)
    rank = min(_COORDINATES, max(1, len(rows) - 1))
    deviation = singular[:rank] / np.sqrt(max(len(rows) - 1, 1))
    return float(np.log(pace[usable]).mean()), centre, directions[:rank], deviation
