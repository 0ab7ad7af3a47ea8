"""The foundation model, which turns every executed instruction into a vector, and its file.

PerfVec (arXiv 2310.16792, §III): instruction i has the representation r_i ∈ R^d, a program P = Σ r_i, a machine is a
vector m ∈ R^d, and the predicted run time is P·m. The linear head has no bias, so that parts of a program add up; its
rows are the vectors of the machines that the model was trained on. Times are in core cycles here: the machine's
frequency turns them into seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from perfvec.architectures import State, build, complete
from perfvec.intervals.calibration import Calibration, calibration_from_json
from perfvec.machines.encoder import MachineEncoder
from support.errors import InputError
from support.files import atomic_path
from support.text import parse_json
from tracegen.features import Schema, get_schema
from uarch.configuration import Machine, configuration_key, machine_from_dict

FORMAT = "perfvec-model"
VERSION = 3
_PROGRAM_VECTORS = "programs.vectors"  # a tensor that a model may have
_SKIP = "skip"  # the skip connection, as files call it: digests of models are of this word
DEFAULT_WEIGHTS = Path(__file__).parent / "weights" / "default.safetensors"


class FoundationModel(nn.Module):
    """An architecture (perfvec.architectures) over the features of consecutive instructions; time first.

    `forward(x [T, B, schema.width], state) -> (r [T, B, width], state)`; `head.weight` is [machines, width]. With
    `skip_connection` an instruction's own features enter r by a linear map besides: r is then not bounded as a
    recurrent state is, so that a rare instruction of thousands of cycles can be expressed.
    """

    def __init__(
        self,
        schema: Schema,
        machines: int,
        *,
        architecture: str = "lstm",
        width: int = 256,
        layers: int = 2,
        skip_connection: bool = False,
        **numbers: int,
    ) -> None:
        super().__init__()
        self.schema = schema
        self.shape = {
            "architecture": architecture,
            "width": width,
            "layers": layers,
            "skip_connection": skip_connection,
            **complete(architecture, numbers),
        }
        self.architecture = build(architecture, schema.width, width, layers, numbers)
        self.skip_connection = nn.Linear(schema.width, width, bias=False) if skip_connection else None
        if self.skip_connection is not None:
            nn.init.zeros_(self.skip_connection.weight)
        self.head = nn.Linear(width, machines, bias=False)
        self.register_buffer("mean", torch.zeros(schema.width))
        self.register_buffer("scale", torch.ones(schema.width))
        self.mean: Tensor
        self.scale: Tensor

    @property
    def width(self) -> int:
        return self.head.in_features

    def forward(self, x: Tensor, state: State | None = None, *, bf16: bool = False) -> tuple[Tensor, State]:
        """Return the outputs and the state. With `bf16` the architecture's products alone are in bfloat16."""
        x = (x - self.mean) * self.scale
        with torch.autocast(x.device.type, torch.bfloat16, enabled=bf16):
            r, state = self.architecture(x, state)
        r = r.float() if self.skip_connection is None else r.float() + self.skip_connection(x)
        return r, tuple(value.float() for value in state)


@dataclass(frozen=True)
class TrainingProgram:
    """A program (one labelled trace) that trained the model."""

    name: str
    digest: str


@dataclass(frozen=True)
class Model:
    """A trained model as it is shipped: foundation, table of machine vectors, encoder for other machines.

    `machines[k]`'s vector is row k of `foundation.head.weight`, `fitted_machines[k]`'s row k of `fitted_vectors`
    (fitted to labels with the foundation frozen). `program_vectors` [P, d] are the training programs' mean vectors per
    instruction, 0 for those that trained an initial model only. `digest` identifies the weights and the metadata, but
    not the `calibration`, which changes no vector: what the model made before it was calibrated stays valid.
    """

    foundation: FoundationModel
    machines: tuple[Machine, ...]
    programs: tuple[TrainingProgram, ...]
    encoder: MachineEncoder | None = None
    recipe: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    fitted_machines: tuple[Machine, ...] = ()
    fitted_vectors: NDArray[np.float64] | None = None  # [fitted_machines, d]
    program_vectors: NDArray[np.float64] | None = None
    calibration: Calibration | None = None

    @property
    def schema(self) -> Schema:
        return self.foundation.schema

    def to(self, device: torch.device) -> Model:
        """The same, whose foundation model runs on `device`."""
        return replace(self, foundation=self.foundation.to(device))

    def table(self) -> NDArray[np.float64]:
        """[U, d] vectors of the training machines (cycles per unit of representation)."""
        return self.foundation.head.weight.detach().double().cpu().numpy()

    def machine_vectors(self, machines: list[Machine]) -> tuple[NDArray[np.float64], list[str]]:
        """[K, d] vectors, and where each comes from: `table` (seen in training), `fitted` (to labels, with the
        foundation model frozen) or `encoder` (zero-shot).
        """
        table = self.table()
        if self.fitted_vectors is not None:
            table = np.concatenate([table, self.fitted_vectors])
        known = {configuration_key(machine): row for row, machine in enumerate(self.machines + self.fitted_machines)}
        rows = [known.get(configuration_key(machine)) for machine in machines]
        vectors = np.zeros((len(machines), self.foundation.width))
        unknown = [index for index, row in enumerate(rows) if row is None]
        for index, row in enumerate(rows):
            if row is not None:
                vectors[index] = table[row]
        if unknown:
            if self.encoder is None:
                raise InputError(
                    f"machine {machines[unknown[0]].name!r} did not train this model and it has no encoder; "
                    "train with --encoder-latencies"
                )
            vectors[unknown] = self.encoder.vectors([machines[index] for index in unknown])
        trained = len(self.machines)
        return vectors, ["encoder" if row is None else "table" if row < trained else "fitted" for row in rows]


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write weights and metadata as one safetensors file, atomically."""
    tensors = {f"foundation.{name}": value for name, value in model.foundation.state_dict().items()}
    if model.encoder is not None:
        tensors.update({f"encoder.{name}": value for name, value in model.encoder.state_dict().items()})
    if model.fitted_vectors is not None:
        tensors["fitted.vectors"] = torch.from_numpy(model.fitted_vectors).float()
    if model.program_vectors is not None:
        tensors[_PROGRAM_VECTORS] = torch.from_numpy(model.program_vectors).float()
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "schema": model.schema.identity,
        "shape": json.dumps(_renamed(model.foundation.shape, "skip_connection", _SKIP)),
        "machines": json.dumps([machine.to_dict() for machine in model.machines]),
        "fitted_machines": json.dumps([machine.to_dict() for machine in model.fitted_machines]),
        "programs": json.dumps([asdict(program) for program in model.programs]),
        "recipe": json.dumps(model.recipe),
    }
    if model.calibration is not None:
        metadata["calibration"] = json.dumps({"of": model.digest} | model.calibration.to_json(), allow_nan=False)
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    metadata["digest"] = content_digest(tensors, metadata)
    with atomic_path(path) as temporary:
        temporary.write_bytes(save(tensors, metadata))


def load_model(path: str | os.PathLike[str] | None = None) -> Model:
    """Read a model; without a path, the one that ships. Raises InputError for foreign or damaged files."""
    if path is None:
        path = DEFAULT_WEIGHTS
        if not path.exists():
            raise InputError(f"no trained model ships in this checkout ({path}); make one with `make train-default`")
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a model (*.safetensors)")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: truncated, or not a safetensors file; expected a model") from error
    if metadata.get("format") != FORMAT:
        raise InputError(f"{path}: a safetensors file, but not a model of this toolkit (format {FORMAT!r})")
    if metadata.get("version") != str(VERSION):
        raise InputError(f"{path}: model version {metadata.get('version')}; this release reads version {VERSION}")
    digest = content_digest(tensors, metadata)
    if metadata.get("digest") != digest:
        raise InputError(f"{path}: damaged: its content has another digest than it says; restore it, or train again")
    if unusable := next((name for name, value in tensors.items() if not _usable(name, value)), None):
        raise InputError(f"{path}: the weights {unusable} are not all finite numbers; train again")
    try:
        schema = get_schema(metadata["schema"])
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    try:
        machines = tuple(machine_from_dict(values) for values in parse_json(metadata["machines"]))
        foundation = _foundation(
            schema, len(machines), _renamed(parse_json(metadata["shape"]), _SKIP, "skip_connection"), tensors
        )
        _load(foundation, tensors, "foundation.")
        encoder = None
        if any(name.startswith("encoder.") for name in tensors):
            encoder = MachineEncoder(foundation.width)
            _load(encoder, tensors, "encoder.")
        programs = tuple(TrainingProgram(**values) for values in parse_json(metadata["programs"]))
        recipe = parse_json(metadata["recipe"])
        fitted = tuple(machine_from_dict(values) for values in parse_json(metadata["fitted_machines"]))
        fitted_vectors = tensors["fitted.vectors"].double().numpy() if fitted else None
        if fitted_vectors is not None and fitted_vectors.shape != (len(fitted), foundation.width):
            raise KeyError(f"fitted vectors of shape {fitted_vectors.shape}")
        vectors = _program_vectors(tensors, len(programs), foundation.width)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        line = str(error).splitlines()[0]
        raise InputError(f"{path}: the model's weights do not fit the schema {schema.identity}: {line}") from error
    foundation.eval()
    try:
        calibration = _calibration(metadata, digest)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    return Model(foundation, machines, programs, encoder, recipe, digest, fitted, fitted_vectors, vectors, calibration)


def _renamed(shape: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: value for name, value in shape.items()}


def _foundation(schema: Schema, machines: int, shape: dict[str, Any], tensors: Mapping[str, Tensor]) -> FoundationModel:
    """A model of this shape, which must be the tensors', so that nothing larger is built. Raises ValueError."""
    if not 1 <= shape["layers"] <= len(tensors):
        raise ValueError(f"{shape['layers']} layers in {len(tensors)} tensors")
    with torch.device("meta"):
        claimed = FoundationModel(schema, machines, **shape).state_dict()
    for name, value in claimed.items():
        found = tensors.get(f"foundation.{name}")
        if found is None or found.shape != value.shape:
            there = "are missing" if found is None else f"are {list(found.shape)}"
            raise ValueError(f"the weights {name} {there}; {list(value.shape)} are expected")
    return FoundationModel(schema, machines, **shape)


def content_digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """SHA-256 of a model's tensors and metadata, in the order of their names: however they lie in a file. The
    calibration, which changes no vector, does not count.
    """
    found = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        found.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        found.update(value.view(torch.uint8).numpy().tobytes() if value.ndim else value.numpy().tobytes())
    for name in sorted(metadata):
        if name not in ("calibration", "digest"):
            found.update(f"{name} {metadata[name]}\n".encode())
    return found.hexdigest()


def _usable(name: str, value: Tensor) -> bool:
    """Tell whether they are finite numbers; only the encoder's ranges of fields may be open."""
    open_range = name in ("encoder.low", "encoder.high")
    return not (value.isnan() if open_range else ~torch.isfinite(value)).any()


def _calibration(metadata: dict[str, str], digest: str) -> Calibration | None:
    """The calibration, if there is one. Raises InputError for one of other weights than those of `digest`."""
    if "calibration" not in metadata:
        return None
    document = parse_json(metadata["calibration"])
    of = document.pop("of", None) if isinstance(document, dict) else None
    if of != digest:
        raise InputError(
            "the calibration is of other weights than the file holds; restore the file, or calibrate the model again"
        )
    return calibration_from_json(document)


def _program_vectors(tensors: dict[str, Tensor], programs: int, width: int) -> NDArray[np.float64] | None:
    if _PROGRAM_VECTORS not in tensors:
        return None
    vectors = tensors[_PROGRAM_VECTORS].double().numpy()
    if vectors.shape != (programs, width) or not np.isfinite(vectors).all():
        raise InputError(f"{_PROGRAM_VECTORS} holds {list(vectors.shape)} numbers, not [{programs}, {width}]")
    return vectors


def _load(module: nn.Module, tensors: dict[str, Tensor], prefix: str) -> None:
    module.load_state_dict({name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)})
