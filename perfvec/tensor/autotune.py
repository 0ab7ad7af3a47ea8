"""Auto-tuner of a cost model's hyper-parameters (CDMPP, Hu et al., EuroSys 2024, tunes its network so), by Optuna.

Each trial trains the model on the training tasks of a split and is judged on its validation tasks; the test tasks of
the same split and seed are never looked at, so that an evaluation with that seed stays fair. The configuration says
which these are, and `evaluate` warns of others. Trials are kept in a
journal, so that a killed tuning goes on. The result is a configuration file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from perfvec.tensor.configuration import Entry, Tuning
from perfvec.tensor.contract import Budget
from perfvec.tensor.models import make
from perfvec.tensor.records import read_records
from support.errors import InputError
from support.files import require_writable, write_text
from tracegen.tensor import splits
from tracegen.tensor.dataset import Dataset

SPLIT, TEST = "by_task", 0.1  # and the share of the test tasks, as `evaluate` has it


@dataclass(frozen=True)
class Range:
    """Range of a parameter: all integers or numbers between two, by their logarithm where `log`."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


Space = Mapping[str, Range | tuple[Any, ...]]
_MOST_FAILED = 20  # draws in a row of which no model can be built
_TRAINING: Space = {
    "training.learning_rate": Range(1e-4, 4e-3, log=True),
    "training.weight_decay": Range(1e-5, 1e-1, log=True),
    "training.batch": (64, 128, 256, 512),
}
_SPACES: dict[str, Space] = {
    "cdmpp": {
        "width": (64, 96, 128, 192, 256),
        "layers": Range(1, 12, whole=True),
        "heads": (2, 4, 8),
        "feed": (128, 256, 512, 1024),
        "embedding": (32, 64, 128, 256),
        "hidden": (128, 256, 512),
        "decoder_layers": Range(1, 4, whole=True),
        "dropout": Range(0.0, 0.2),
        "training.losses.mape": Range(0.0, 1.0),
        "training.losses.cmd": Range(1e-4, 1.0, log=True),
        **_TRAINING,
    },
    "atformer": {"width": (64, 128, 256, 512), "layers": (1, 2, 3), "feed": (128, 256, 512, 1024, 2048), **_TRAINING},
    "attention-tuner": {
        "width": (64, 128, 256),
        "encoder_layers": Range(1, 5, whole=True),
        "blocks": Range(1, 4, whole=True),
        **_TRAINING,
    },
    "mlp": {"width": (64, 128, 256, 512), **_TRAINING},
    "additive": {"width": (64, 96, 128, 192), "blocks": Range(1, 4, whole=True), **_TRAINING},
    "xgboost": {
        "depth": Range(4, 12, whole=True),
        "learning_rate": Range(0.02, 0.4, log=True),
        "gamma": Range(1e-4, 1.0, log=True),
        "min_child_weight": Range(0.0, 10.0),
        "subsample": Range(0.5, 1.0),
        "columns": Range(0.1, 1.0),
    },
    "lightgbm": {
        "leaves": Range(7, 127, log=True, whole=True),
        "learning_rate": Range(0.02, 0.4, log=True),
        "smallest_leaf": Range(2, 40, whole=True),
        "subsample": Range(0.5, 1.0),
        "columns": Range(0.1, 1.0),
    },
}
SPACES: Mapping[str, Space] = {**_SPACES, "atformer-m": _SPACES["atformer"]}


@dataclass(frozen=True)
class Tuned:
    """The best parameters, their shortfall on validation tasks (`Budget.criterion`), and that of the entry untuned."""

    parameters: dict[str, Any]
    shortfall: float
    before: float
    trials: int


def autotune(
    dataset: str | os.PathLike[str],
    output: str | os.PathLike[str],
    entry: Entry,
    *,
    trials: int,
    budget: Budget,
    seed: int = 0,
    work: str | os.PathLike[str] | None = None,
    on: str = "cpu",
) -> Tuned:
    """Write the configuration of the best of `trials` (all, of earlier calls with the same `work` too), named
    NAME-tuned, the first of which is the entry as it is.

    Raises InputError for a model that has no space, and where Optuna is missing.
    """
    if entry.model not in SPACES:
        raise InputError(f"no space of hyper-parameters for {entry.model!r}; there are those of {', '.join(SPACES)}")
    require_writable(output)
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise InputError("optuna is not installed; run pip install 'perfvec-toolkit[search]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    model = make(entry.model, entry.parameters, where=entry.name)
    records = read_records(dataset, [model.kind])
    with Dataset(dataset) as data:
        parts = splits.by_task(data, validation=0.1, test=TEST, seed=seed)
    train, held = records.take(parts.train), records.take(parts.validation)

    def shortfall(parameters: Mapping[str, Any]) -> float:
        candidate = make(entry.model, parameters, where=entry.name)
        candidate.use(on)
        candidate.fit(train, budget=budget, seed=seed, validation=held)
        found = candidate.shortfall(held.measured(), budget.criterion)
        return found if math.isfinite(found) else 1e9

    space = SPACES[entry.model]
    trained = json.dumps([entry.parameters, asdict(budget)], sort_keys=True)
    name = f"{records.digest[:16]} {entry.model} {seed} {sha256(trained.encode()).hexdigest()[:16]}"
    try:
        storage = None if work is None else JournalStorage(JournalFileBackend(str(Path(work))))
        study = optuna.create_study(study_name=name, storage=storage, load_if_exists=True)
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # what reading another file runs into
        raise InputError(f"{work}: is no journal of Optuna ({type(error).__name__}); name another file") from error
    done = sum(trial.state.is_finished() and trial.value is not None for trial in study.trials)
    study.sampler = optuna.samplers.TPESampler(seed=seed + done)  # one that goes on must not draw the same again
    if not done:
        study.add_trial(
            optuna.trial.create_trial(value=shortfall(entry.parameters), user_attrs={"parameters": entry.parameters})
        )
        done = 1
    failed = 0  # draws in a row
    while done < trials:
        trial = study.ask()
        drawn = {key: _suggest(trial, key, choices) for key, choices in space.items()}
        parameters = merged(entry.parameters, drawn, model.parameters)
        try:
            value = shortfall(parameters)
        except InputError as error:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            failed += 1
            if failed == _MOST_FAILED:
                raise InputError(f"{failed} draws in a row cannot be built, the last: {error}") from error
            continue
        failed = 0
        trial.set_user_attr("parameters", parameters)
        study.tell(trial, value)
        done += 1
    finished = [(trial.value, trial) for trial in study.trials if trial.value is not None]
    value, best = min(finished, key=lambda pair: (pair[0], pair[1].number))
    found = Tuned(best.user_attrs["parameters"], value, finished[0][0], done)
    _write(output, entry, found, budget, records.digest, seed)
    return found


def merged(fixed: Mapping[str, Any], drawn: Mapping[str, Any], defaults: Any) -> dict[str, Any]:
    """`fixed` with the drawn values at their dotted names; of tables that are replaced as a whole (`losses`), the other
    values stay those of `defaults`.
    """
    result: dict[str, Any] = {key: dict(part) if isinstance(part, Mapping) else part for key, part in fixed.items()}
    for dotted, value in drawn.items():
        *path, last = dotted.split(".")
        table, default = result, defaults
        for part in path:
            default = getattr(default, part)
            inner = table.get(part, dict(default) if isinstance(default, Mapping) else {})
            table[part] = dict(inner)
            table = table[part]
        table[last] = value
    return result


def _suggest(trial: Any, name: str, choices: Range | tuple[Any, ...]) -> Any:
    if isinstance(choices, tuple):
        return trial.suggest_categorical(name, choices)
    if choices.whole:
        return trial.suggest_int(name, int(choices.low), int(choices.high), log=choices.log)
    return trial.suggest_float(name, choices.low, choices.high, log=choices.log)


def _write(output: str | os.PathLike[str], entry: Entry, found: Tuned, budget: Budget, digest: str, seed: int) -> None:
    text = (
        f"# {entry.name}, the best of {found.trials} trials on the validation tasks of seed {seed} of the data\n"
        f"# {digest[:16]}: shortfall ({budget.criterion}) {found.shortfall:.4f}, untuned {found.before:.4f}.\n"
    )
    tuned = asdict(Tuning(digest, SPLIT, seed, TEST))
    models = [{"name": f"{entry.name}-tuned", "model": entry.model, "parameters": found.parameters, "tuned": tuned}]
    write_text(output, text + yaml.safe_dump({"models": models}, sort_keys=False))
