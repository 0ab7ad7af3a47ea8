"""Training the foundation model, sequence to sequence.

A sample is a sequence of consecutive instructions behind a warm-up prefix that only fills the model's state, so every
instruction costs one step of the recurrence (PerfVec runs a 256-step window for each). Errors are relative to
the mean latency of the program on the machine, so slow machines and programs do not dominate; loss.py has the rest. One
loop serves a processor, a GPU, and several of either under torchrun: each process then takes its share of the same
batches.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import get_ema_multi_avg_fn
from tqdm import tqdm

from perfvec.machines.encoder import MachineEncoder
from perfvec.machines.features import features_of_machines
from perfvec.model import FORMAT, FoundationModel, Model, TrainingProgram, save_model
from perfvec.precision import flushed_subnormals, native_bf16
from perfvec.representation.represent import sequence_sums
from perfvec.training import encoder_training, sampled_encoder
from perfvec.training.batches import batches
from perfvec.training.checkpoint import Best, Trained, load_checkpoint, save_checkpoint
from perfvec.training.data import WARMUP, Labels, SampledShard, Shard, batch, prepare, prepare_sampled, work_folder
from perfvec.training.fitted_table import fit_table, require_trained
from perfvec.training.metrics import Metrics, require_tensorboard
from perfvec.training.objective import Objective, scales_of
from perfvec.training.optimizer import optimizer_for
from perfvec.training.ranks import Ranks, device_of, processes
from perfvec.training.recipe import Recipe
from perfvec.training.split import Division, Split
from perfvec.training.table_rows import refine_table
from support.errors import InputError
from support.kinds import require_output
from tracegen.features import Schema, get_schema
from tracegen.formats.trace import CHUNK
from uarch.configuration import configuration_key

CHECKPOINT_SECONDS = 60.0
_NOTHING_LEFT_OUT = Split()
_LEAST_DEVIATION = 0.25  # by which an input is divided


def train(
    traces: str | os.PathLike[str],
    latencies: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    recipe: Recipe | None = None,
    split: Split = _NOTHING_LEFT_OUT,
    encoder_latencies: str | os.PathLike[str] | None = None,
    table_latencies: str | os.PathLike[str] | None = None,
    sampled_latencies: str | os.PathLike[str] | None = None,
    row_latencies: str | os.PathLike[str] | None = None,
    encoder: bool = True,
    initial: Model | None = None,
    frozen: bool = False,
    device: str = "auto",
    tensorboard: str | os.PathLike[str] | None = None,
    shards: str | os.PathLike[str] | None = None,
    keep_work: bool = False,
    progress: bool = True,
) -> Model:
    """Train on every labelled window that `split` leaves, then fit the machine encoder; write and return the model.

    With `initial` training goes on from that model's weights (and its recipe's schema and shape must be these). With
    `frozen` its foundation model and table stay, and only what follows is done again.
    `encoder_latencies` holds further latency files of the same traces, on any machines, that only teach the encoder;
    `table_latencies` such whose machines get vectors of their own, fitted with the foundation model frozen.
    `sampled_latencies` are latency files of traces in `traces`, also of programs without other labels, whose machines
    differ from file to file: with them the encoder is trained together with the foundation model, and then, with that
    frozen, on whole windows. `row_latencies` are such files of the table's machines, fitted ones included, and refine
    its rows at the end (perfvec.training.table_rows). Without `encoder` the model knows no other machines. `device` is
    auto, cpu, cuda or cuda:N; `tensorboard` a folder for its files. Beside `output` a `*.metrics.csv` has one row a
    step. `shards` is a folder for the training data that stays, for other runs on the same labels, also at the same
    time.

    A run that was killed continues from its last checkpoint when it is started again with the same arguments. Under
    torchrun the first process writes; the others return their model without an encoder.
    """
    recipe = replace(recipe or Recipe(), initial=initial.digest if initial else "")
    if frozen and initial is None:
        raise InputError("frozen keeps an initial model's weights; give one (--initial)")
    if frozen and not encoder:
        raise InputError("frozen teaches the encoder and fits machines; leave --no-encoder out")
    if encoder_latencies and not encoder:
        raise InputError("encoder_latencies teach the encoder; leave --no-encoder out")
    if encoder_latencies and sampled_latencies:
        raise InputError("encoder_latencies and sampled_latencies both teach the encoder; give one of them")
    require_output(output, FORMAT)
    device_of(device)
    if tensorboard:
        require_tensorboard()
    work = work_folder(output)
    data = work if shards is None else Path(shards)
    schema = get_schema(recipe.schema)
    with processes(device) as ranks:
        with ranks.first_ahead():
            labels = prepare(Path(traces), Path(latencies), schema, data, progress=progress and ranks.first)
        division = split.divide(labels)
        judged = set(division.held_programs) | set(division.validation.programs if division.validation else ())

        def others(folder: str | os.PathLike[str] | None, known: Sequence[Shard]) -> tuple[SampledShard, ...]:
            """Windows of programs that are not judged."""
            if not folder:
                return ()
            shown = progress and ranks.first
            with ranks.first_ahead():
                found = prepare_sampled(Path(traces), Path(folder), schema, data, known, progress=shown)
            if not (left := tuple(one for one in found if one.shard.program not in judged)):
                raise InputError(f"{folder}: every labelled program is held out; nothing is left to train on")
            return left

        sampled = others(sampled_latencies, labels.shards)
        _require_pairs(sampled, division)
        for_rows = others(row_latencies, [*labels.shards, *(one.shard for one in sampled)])
        programs_taught = taught_by(division, initial, (*sampled, *for_rows))
        if initial is not None:
            _require_unseen(initial, division)
        kept = _kept(initial, division, split, recipe, sampled, programs_taught) if frozen else None
        together = None
        if sampled:
            known = kept.encoder if kept else None
            together = sampled_encoder.fresh(division.training.machines, sampled, recipe, known)
        if encoder:  # before the work, not behind it
            encoder_training.require_windows(division.training)
        if table_latencies:
            require_trained(programs_taught, traces, table_latencies)
        work.mkdir(parents=True, exist_ok=True)
        if kept is not None:
            model = kept
        else:
            foundation = fit(
                division,
                schema,
                recipe,
                work / "checkpoint.pt",
                initial=initial,
                sampled=sampled,
                together=together,
                ranks=ranks,
                metrics=Path(f"{os.fspath(output)}.metrics.csv"),
                tensorboard=Path(tensorboard) if tensorboard else None,
                progress=progress,
            )
            model = trained_model(foundation, division, split, recipe, programs_taught)
    if not ranks.first:
        return model
    if encoder:
        learned, programs = encoder_training.fit_encoder(
            model,
            division.training,
            Path(traces),
            Path(encoder_latencies) if encoder_latencies else None,
            held=division.held_machines,
            sampled=sampled,
            together=together,
            seed=recipe.seed,
            progress=progress,
        )
        model = replace(model, encoder=learned, program_vectors=programs)
    if table_latencies:
        model = fit_table(model, traces, table_latencies, progress=progress)
    if for_rows:
        refined = refine_table(model, division.training, for_rows, progress=progress)
        model = refined if kept is None else replace(refined, foundation=kept.foundation)
    save_model(model, output)
    if not keep_work:
        rmtree(work)
    return model


def shape_options(initial: Model | None, **given: Any) -> dict[str, Any]:
    """Return the recipe's schema and shape: what is `given` (not None), and of the rest what `initial` has.

    Its weights fit no other shape. Without it the recipe's defaults hold.
    """
    options = {name: value for name, value in given.items() if value is not None}
    if initial is None:
        return options
    numbers = dict(initial.foundation.shape)
    own: dict[str, Any] = {"schema": initial.schema.name}
    own |= {name: numbers.pop(name) for name in ("architecture", "width", "layers", "skip_connection")}
    if options.get("architecture", own["architecture"]) == own["architecture"]:
        own["numbers"] = numbers
    return own | options


def _kept(
    initial: Model | None,
    division: Division,
    split: Split,
    recipe: Recipe,
    sampled: Sequence[SampledShard],
    programs: tuple[TrainingProgram, ...],
) -> Model:
    """Return `initial` as what only machines are taught to, by these `programs` too. Raises InputError where it is not
    of these machines, or has no encoder that `sampled` windows could teach.
    """
    assert initial is not None  # see `train`
    _require_shape(initial, get_schema(recipe.schema), recipe.shape)
    if list(map(configuration_key, initial.machines)) != list(map(configuration_key, division.training.machines)):
        raise InputError("the initial model's table has other machines than the labels; frozen needs the same ones")
    if sampled and initial.encoder is None:
        raise InputError("the initial model has no encoder for sampled windows to teach; train it with such windows")
    made = {"initial": initial.digest, "seed": recipe.seed, "frozen": True, **_division_of(division, split)}
    known = {program.digest for program in initial.programs}
    vectors = initial.program_vectors
    if vectors is not None:  # of the others nothing is known yet
        vectors = np.pad(vectors, ((0, sum(program.digest not in known for program in programs)), (0, 0)))
    return replace(
        initial, recipe=initial.recipe | made, programs=programs, program_vectors=vectors, digest="", calibration=None
    )


def _division_of(division: Division, split: Split) -> dict[str, Any]:
    """Return what a model's recipe says of the labels that did not train it."""
    return {
        "fold": split.fold,
        "held_programs": list(division.held_programs),
        "held_machines": [machine.name for machine in division.held_machines],
        "validation_programs": list(division.validation.programs) if division.validation else [],
    }


def taught_by(division: Division, initial: Model | None, others: Sequence[SampledShard]) -> tuple[TrainingProgram, ...]:
    """Return the programs that anything of the model has learned from: those of the table's labels, those that chose
    the weights by validation, of other windows, and of the model that it begins with.
    """
    programs = {program.digest: program for program in (initial.programs if initial else ())}
    shards = [*division.training.shards, *(division.validation.shards if division.validation else ())]
    for shard in (*shards, *(one.shard for one in others)):
        programs.setdefault(shard.trace_digest, TrainingProgram(shard.program, shard.trace_digest))
    return tuple(programs.values())


def _require_pairs(sampled: Sequence[SampledShard], division: Division) -> None:
    """Raise InputError where a sampled window has fewer than two machines, or one that is held out."""
    held = set(map(configuration_key, division.held_machines))
    for one in sampled:
        if len(one.machines) < 2:
            raise InputError(f"{one.shard.latency_file}: labels one machine; a sampled window needs two at least")
        if judged := [machine.name for machine in one.machines if configuration_key(machine) in held]:
            raise InputError(f"{one.shard.latency_file}: labels {judged[0]}, a machine that is held out")


def _require_unseen(initial: Model, division: Division) -> None:
    """Raise InputError where the initial model has learned from a machine that is held out."""
    known = {configuration_key(machine) for machine in (*initial.machines, *initial.fitted_machines)}
    seen = [machine.name for machine in division.held_machines if configuration_key(machine) in known]
    if seen:
        raise InputError(f"{seen[0]} is held out, but the initial model has learned from it; begin with another model")


def trained_model(
    foundation: FoundationModel, division: Division, split: Split, recipe: Recipe, programs: tuple[TrainingProgram, ...]
) -> Model:
    training = division.training
    return Model(
        foundation,
        training.machines,
        programs,
        recipe={
            **asdict(recipe),
            "torch": torch.__version__,
            "labelled_instructions": training.instructions,
            **_division_of(division, split),
        },
    )


@flushed_subnormals()
def fit(
    division: Division,
    schema: Schema,
    recipe: Recipe,
    checkpoint: Path,
    *,
    initial: Model | None = None,
    sampled: Sequence[SampledShard] = (),
    together: MachineEncoder | None = None,
    ranks: Ranks = Ranks(),
    metrics: Path | None = None,
    tensorboard: Path | None = None,
    progress: bool = True,
) -> FoundationModel:
    """The foundation model after `recipe.steps` steps (or fewer: early stopping), resumed from `checkpoint`.

    `together` is an encoder that is trained with it, in place, on those machines and on `sampled` windows. Where there
    are validation programs the foundation model is the best of the validated states, otherwise the last; of the
    averaged weights where the recipe averages.
    """
    labels, validation = division.training, division.validation
    short = min(len(shard) for shard in (*labels.shards, *(one.shard for one in sampled)))
    if short < recipe.sequence:
        raise InputError(f"a latency file labels only {short} instructions; training sequences need {recipe.sequence}")
    if recipe.batch_size % ranks.count:
        raise InputError(f"a batch of {recipe.batch_size} cannot be shared evenly by {ranks.count} processes")
    if sampled and recipe.batch_size < 2:
        raise InputError("a batch of 1 has no sequence of sampled machines; 2 are needed")
    if sampled and recipe.sampled % ranks.count:
        raise InputError(
            f"the {recipe.sampled} sequences of a batch that are of sampled machines cannot be shared evenly by "
            f"{ranks.count} processes"
        )
    torch.manual_seed(recipe.seed)
    scales = scales_of(labels.shards)
    foundation = FoundationModel(schema, len(labels.machines), **recipe.shape)
    _normalise(foundation, labels.shards, schema, recipe)
    if initial is not None:
        _start_from(foundation, initial, labels, scales.machine)
    bf16 = native_bf16(ranks.device)
    objective = Objective(foundation, scales.machine, recipe.lead, bf16, together).to(ranks.device)
    optimizer = optimizer_for(
        foundation,
        recipe.optimizer,
        rate=recipe.learning_rate,
        muon_lr=recipe.muon_lr,
        weight_decay=recipe.weight_decay,
        beside=together,
    )
    average = deepcopy(foundation) if recipe.ema_decay else None
    kept = average or foundation  # what is validated and saved
    trained = Trained(foundation, together, optimizer, average)
    first, best = 0, None
    identity = _identity(recipe, division, sampled)
    if (state := load_checkpoint(checkpoint, identity, ranks.device)) is not None:
        trained.restore(state)
        first, best = state.step, state.best
    log = Metrics(metrics, first, tensorboard) if metrics and ranks.first else None
    ranks.wait()  # all have read the checkpoint before the first one may write another

    def save(step: int) -> None:
        if ranks.first:
            if log is not None:
                log.flush()
            save_checkpoint(checkpoint, identity, trained.checkpoint(step, best))

    compute: nn.Module = objective
    if ranks.count > 1:
        compute = DistributedDataParallel(objective)
        compute.broadcast_buffers = False  # they never change; as an argument its name depends on torch's release
    saved_at = began = time.monotonic()
    began_processor = time.process_time()
    smoothed = float("nan")
    done = first
    hidden = True if not (progress and ranks.first) else None
    bar = tqdm(total=recipe.steps, initial=first, desc="train", unit="step", disable=hidden)
    configurations = torch.from_numpy(features_of_machines(labels.machines)).to(ranks.device) if sampled else None
    drawn = batches(labels.shards, schema, recipe, first, ranks, sampled)
    for step, x, present, y, which, more in drawn:
        if best is not None and recipe.patience and step - best.step >= recipe.patience * recipe.validate_every:
            break
        share = _schedule(step, recipe.steps)
        for group in optimizer.param_groups:
            group["lr"] = share * group["peak"]
        inputs = [torch.from_numpy(value).to(ranks.device) for value in (x, present, y.astype(np.float32))]
        if together is not None:
            # Of its dropout: as in a run that was not killed.
            torch.manual_seed((recipe.seed * 1_000_003 + step) % 2**63)
        others = tuple(torch.from_numpy(value).float().to(ranks.device) for value in more) if more else None
        loss = compute(*inputs, scales.shard[which].to(ranks.device), configurations, others)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        optimizer.step()
        if average is not None:
            follow = get_ema_multi_avg_fn(min(recipe.ema_decay, (1 + step) / (10 + step)))
            follow(list(average.parameters()), list(foundation.parameters()), step)
        done = step + 1
        value = float(ranks.total(loss.detach() / ranks.count))
        if not math.isfinite(value):
            raise InputError(f"training diverged: the loss of step {done} is {value}; lower the learning rate")
        row = {
            "step": done,
            "instructions": done * recipe.sequence * recipe.batch_size,
            "loss": value,
            "learning_rate": recipe.learning_rate * share,
        }
        if validation is not None and (done % recipe.validate_every == 0 or done == recipe.steps):
            error = validation_error(kept, scales.machine, validation, bf16=bf16, ranks=ranks)
            row["validation_error"] = error
            if best is None or error < best.error:
                best = Best(done, error, {name: value.clone() for name, value in kept.state_dict().items()})
        now = time.monotonic()
        counted = (done - first) * recipe.sequence * recipe.batch_size
        row["instructions_per_second"] = counted / (now - began)
        row["instructions_per_processor_second"] = counted / (time.process_time() - began_processor)
        if log is not None:
            log.write(row)
        smoothed = value if math.isnan(smoothed) else 0.98 * smoothed + 0.02 * value
        bar.update()
        shown = {"loss": f"{smoothed:.4f}"} | ({"best": f"{best.error:.2%}"} if best is not None else {})
        bar.set_postfix(shown, refresh=False)
        if now - saved_at > CHECKPOINT_SECONDS:
            save(done)
            saved_at = now
    bar.close()
    save(done)
    if together is not None:
        together.cpu().eval()
    if log is not None:
        log.close()
    if best is not None:
        kept.load_state_dict(best.weights)
    kept = kept.cpu()
    with torch.no_grad():
        kept.head.weight *= scales.machine[:, None]  # trained on latencies relative to the machine's mean
    return kept.eval()


def _identity(recipe: Recipe, division: Division, sampled: Sequence[SampledShard] = ()) -> str:
    """Return the hash of recipe and data; a checkpoint must match it to resume."""
    judges = division.validation.identity() if division.validation else ""
    others = [one.shard.latency.path.parent.name for one in sampled]
    text = json.dumps([asdict(recipe), division.training.identity(), judges, others], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@torch.no_grad()
def validation_error(
    foundation: FoundationModel, machine_scale: Tensor, labels: Labels, *, bf16: bool, ranks: Ranks = Ranks()
) -> float:
    """Mean of |predicted − simulated cycles| / simulated over whole windows × machines (the accuracy protocol)."""
    head = (foundation.head.weight.cpu() * machine_scale[:, None]).double().numpy()
    errors = torch.zeros(2, dtype=torch.float64)  # sum, number
    for shard in labels.shards[ranks.rank :: ranks.count]:
        total = np.zeros(foundation.width)
        for begin in range(0, len(shard), CHUNK):
            end = min(begin + CHUNK, len(shard))
            lead = min(WARMUP, begin + shard.lead)
            rows = slice(begin + shard.lead - lead, end + shard.lead)
            total += sequence_sums(
                foundation,
                shard.static,
                shard.static_id[rows],
                shard.stored[rows],
                lead,
                batch=max(1, min(foundation.architecture.BATCH, (end - begin) // 1000)),
                bf16=bf16,
            ).sum(axis=0)
        simulated = shard.mean * len(shard)
        error = np.abs(head @ total - simulated) / simulated
        errors += torch.tensor([error.sum(), len(error)])
    whole = ranks.total(errors)
    return float(whole[0] / whole[1])


def _require_shape(initial: Model, schema: Schema, shape: Mapping[str, Any]) -> None:
    """Raise InputError unless the initial model has this schema and shape."""
    shapes = [(schema.identity, dict(shape)), (initial.schema.identity, initial.foundation.shape)]
    differing = [name for name, value in shapes[0][1].items() if shapes[1][1].get(name) != value]
    if differing or shapes[0][0] != shapes[1][0]:
        texts = [f"{identity}, {of}" for identity, of in shapes]
        what = differing[0] if differing else "schema"
        raise InputError(f"the initial model's {what} differs: it is {texts[1]}; this recipe asks for {texts[0]}")


def _start_from(foundation: FoundationModel, initial: Model, labels: Labels, machine_scale: Tensor) -> None:
    """The weights of another model, with the rows of the head for the machines that it has too."""
    other = initial.foundation
    _require_shape(initial, foundation.schema, foundation.shape)
    with torch.no_grad():
        head = foundation.head.weight.clone()
        rows = {configuration_key(machine): row for row, machine in enumerate(initial.machines)}
        for row, machine in enumerate(labels.machines):
            if (known := rows.get(configuration_key(machine))) is not None:
                head[row] = other.head.weight[known] / machine_scale[row]
        state = {name: value for name, value in other.state_dict().items() if not name.startswith("head.")}
        foundation.load_state_dict({**state, "head.weight": head})


def _schedule(step: int, steps: int) -> float:
    """Share of the peak learning rate: a linear rise over 100 steps (a tenth of a shorter run), then half a cosine."""
    rise = min(1.0, (step + 1) / min(100, max(1, steps // 10)))
    return rise * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def _normalise(foundation: FoundationModel, shards: Sequence[Shard], schema: Schema, recipe: Recipe) -> None:
    """Zero mean and unit variance of every input over a sample of the data (constant inputs stay 0)."""
    rng = np.random.default_rng(recipe.seed)
    which = rng.integers(0, len(shards), 256)
    begin = np.array([rng.integers(0, len(shards[k]) - recipe.sequence + 1) for k in which])
    x, _, _ = batch(shards, schema, which, begin, 0, recipe.sequence)
    flat = x.reshape(-1, schema.width)
    deviation = flat.std(axis=0)
    foundation.mean.copy_(torch.from_numpy(flat.mean(axis=0)))
    # A rare input would become huge where it is present, as it is throughout a program of a new kind: bounded.
    foundation.scale.copy_(
        torch.from_numpy(np.where(deviation > 0, 1.0 / np.maximum(deviation, _LEAST_DEVIATION), 0.0))
    )
