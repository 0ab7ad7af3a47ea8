"""Schedules as sequences of primitives: one numeric row a primitive, from Ansor's steps or MetaSchedule's traces.

A schedule is a sentence of a tensor language (TLP: Zhai et al., ASPLOS 2023; Verma et al., Table 5): which primitive,
where, with what numbers. Both schedulers' words are mapped to one vocabulary, `PRIMITIVES`:

| Ansor step | MetaSchedule instruction | primitive |
|---|---|---|
| SP | Split | split |
| FSP, FFSP | – | follow_split, follow_fused_split |
| FU, RE | Fuse, Reorder | fuse, reorder |
| AN 3, 2, 1, 11 | Parallel, Vectorize, Unroll, Tensorize | parallel, vectorize, unroll, tensorize |
| AN 4 to 10 | Bind | bind (word: the thread axis) |
| AN 0, PR | Annotate | annotate (word: the pragma) |
| SA, CA, CI, CR | StorageAlign, ComputeAt, ComputeInline, – | storage_align, compute_at, compute_inline, compute_root |
| CHR, CHW, RF | CacheRead, CacheWrite, RFactor | cache_read, cache_write (word: the scope), rfactor |
| – | all others that change the program | their name in snake case |

MetaSchedule's queries (`Get…`) and sampling (`Sample…`) change nothing: they have no row. What they found goes into the
rows that use it: a block or loop as its number in the trace, a sampled number as the decision that was taken.

A row is `[WIDTH]` f32: the primitive one-hot [len(PRIMITIVES)]; the word, its place in `WORDS` from 1 on (0: none, or
one that is not listed); the number of arguments; and the first `ARGUMENTS` of them in the record's order, x as
sign(x)·log2(1 + |x|), null as 0.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError

VERSION = "primitives-1"
ARGUMENTS = 16
MAX_PRIMITIVES = 4096  # of one schedule; real ones have some 15 to 100
_LARGEST = 1 << 62

OF_TVM = tuple(
    """AddUnitLoop Annotate AnnotateBufferAccess Bind Blockize CacheIndex CacheInplace CacheRead CacheWrite ComputeAt
    ComputeInline DecomposePadding DecomposeReduction EnterPostproc Fuse FuseReductionEpilogue LoopPartition Merge
    PadEinsum Parallel RFactor ReIndex ReadAt ReindexCacheRead ReindexCacheWrite Reorder ReorderBlockIterVar
    ReverseComputeAt ReverseComputeInline RollingBuffer SetScope Split StorageAlign Tensorize TransformBlockLayout
    TransformLayout Unannotate Unroll UnsafeHideBufferAccess UnsafeSetDType Vectorize WriteAt""".split()
)
QUERIES = frozenset("GetSBlock GetBlock GetLoops GetChildBlocks GetProducers GetConsumers GetOutputBlocks".split())
SAMPLES = frozenset("SampleCategorical SamplePerfectTile SamplePartitionedTile SampleComputeLocation".split())


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


_NAMES = {name: _snake(name) for name in OF_TVM} | {"RFactor": "rfactor", "ReIndex": "reindex"}
PRIMITIVES = ("follow_split", "follow_fused_split", "compute_root", *sorted(_NAMES.values()))
WORDS = (
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "vthread",
    "vthread.x",
    "vthread.y",
    "vthread.z",
    "global",
    "shared",
    "local",
    "warp",
    "shared.dyn",
    "auto_unroll_max_step",
    "pragma_auto_unroll_max_step",
    "pragma_unroll_explicit",
    "meta_schedule.parallel",
    "meta_schedule.vectorize",
    "meta_schedule.unroll_explicit",
    "meta_schedule.unroll_implicit",
    "meta_schedule.tiling_structure",
    "meta_schedule.random_compute_producer",
    "meta_schedule.thread_extent_low_inclusive",
    "meta_schedule.thread_extent_high_inclusive",
    "meta_schedule.cooperative_fetch",
    "meta_schedule.auto_tensorize",
    "meta_schedule.auto_tensorize_init",
    "meta_schedule.cross_thread_reduction",
    "meta_schedule.inline_rule",
    "tensor_core",
    "software_pipeline_stage",
    "software_pipeline_order",
    "layout_free_placeholders",
)
WIDTH = len(PRIMITIVES) + 2 + ARGUMENTS
_PLACE = {name: index for index, name in enumerate(PRIMITIVES)}
_WORD = {name: index + 1 for index, name in enumerate(WORDS)}


class StepError(InputError):
    """A step that is not of its kind's form; `step` is what a count of such errors is kept by."""

    def __init__(self, message: str, step: str) -> None:
        super().__init__(message)
        self.step = step


@dataclass(frozen=True)
class Primitive:
    name: str  # of PRIMITIVES
    arguments: tuple[float, ...]
    word: str = ""


def rows(steps: Any, kind: str) -> NDArray[np.float32]:
    """[primitives, WIDTH] of a schedule of a kind (`ansor`, `metaschedule`), as a dataset holds it: JSON text or lists.

    Raises StepError, an InputError, where a step is unknown or malformed.
    """
    if isinstance(steps, str):
        try:
            steps = json.loads(steps, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise StepError(f"the steps are no JSON ({error})", "steps") from error
    return encode(_READERS[kind](steps))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def encode(primitives: Sequence[Primitive]) -> NDArray[np.float32]:
    """[len(primitives), WIDTH] rows as the module describes them."""
    table = np.zeros((len(primitives), WIDTH), np.float32)
    base = len(PRIMITIVES)
    for row, primitive in zip(table, primitives, strict=True):
        row[_PLACE[primitive.name]] = 1
        row[base] = _WORD.get(primitive.word, 0)
        row[base + 1] = len(primitive.arguments)
        for at, value in enumerate(primitive.arguments[:ARGUMENTS]):
            row[base + 2 + at] = math.copysign(math.log2(1 + abs(value)), value)
    return table


# --- Ansor ---

_INTEGER, _INTEGERS, _TEXT = "an integer", "a list of integers", "a text"
_STEPS: Mapping[str, tuple[str, ...]] = {  # the fields behind a step's name (TVM 0.8, auto_scheduler/transform_step.cc)
    "AN": (_INTEGER, _INTEGER, _INTEGER),  # stage, iterator, annotation
    "FU": (_INTEGER, _INTEGERS),  # stage, iterators
    "PR": (_INTEGER, _INTEGER, _TEXT),  # stage, iterator, pragma
    "RE": (_INTEGER, _INTEGERS),  # stage, order
    "SP": (_INTEGER, _INTEGER, _INTEGER, _INTEGERS, _INTEGER),  # stage, iterator, extent, lengths, inner to outer
    "FSP": (_INTEGER, _INTEGER, _INTEGER, _INTEGER),  # stage, iterator, step that is followed, parts
    "FFSP": (_INTEGER, _INTEGER, _INTEGERS, _INTEGER, _INTEGER),  # stage, iterator, steps, level, factor or parts
    "SA": (_INTEGER, _INTEGER, _INTEGER, _INTEGER),  # stage, iterator, factor, offset
    "CA": (_INTEGER, _INTEGER, _INTEGER),  # stage, target stage, target iterator
    "CI": (_INTEGER,),  # stage
    "CR": (_INTEGER,),  # stage
    "CHR": (_INTEGER, _TEXT, _INTEGERS),  # stage, scope, readers
    "CHW": (_INTEGER, _TEXT),  # stage, scope
    "RF": (_INTEGER, _INTEGER, _INTEGER),  # stage, iterator, factored iterator
}
_ANSOR_NAMES = {
    "FU": "fuse",
    "PR": "annotate",
    "RE": "reorder",
    "SP": "split",
    "FSP": "follow_split",
    "FFSP": "follow_fused_split",
    "SA": "storage_align",
    "CA": "compute_at",
    "CI": "compute_inline",
    "CR": "compute_root",
    "CHR": "cache_read",
    "CHW": "cache_write",
    "RF": "rfactor",
}
_ANNOTATIONS = (
    ("annotate", ""),
    ("unroll", ""),
    ("vectorize", ""),
    ("parallel", ""),
    ("bind", "vthread"),
    ("bind", "blockIdx.x"),
    ("bind", "threadIdx.x"),
    ("bind", "blockIdx.y"),
    ("bind", "threadIdx.y"),
    ("bind", "blockIdx.z"),
    ("bind", "threadIdx.z"),
    ("tensorize", ""),
)


def from_ansor(steps: Any) -> list[Primitive]:
    """The primitives of Ansor's transform steps, `[[name, field, …], …]`. Raises StepError."""
    return [_ansor_step(index, step) for index, step in enumerate(_listed(steps))]


def _ansor_step(index: int, step: Any) -> Primitive:
    if not isinstance(step, list) or not step or not isinstance(step[0], str):
        raise StepError(f"step {index} is {_show(step)}; a list that begins with the step's name is expected", "?")
    name = step[0]
    if name not in _STEPS:
        raise StepError(f"step {index}: unknown step {name!r:.40}; one of {', '.join(_STEPS)}", name[:40])
    fields = step[1:]
    if len(fields) != len(_STEPS[name]):
        raise StepError(f"step {index}: {name} has {len(fields)} fields; {len(_STEPS[name])} are expected", name)
    arguments: list[float] = []
    word = ""
    for field, wanted in zip(fields, _STEPS[name], strict=True):
        if wanted == _INTEGER and _is_integer(field):
            arguments.append(field)
        elif wanted == _INTEGERS and isinstance(field, list) and all(map(_is_integer, field)):
            arguments += field
        elif wanted == _TEXT and isinstance(field, str):
            word, _, number = field.partition("$")
            if number.isascii() and number.isdigit() and len(number) < 19:
                arguments.append(int(number))
        else:
            raise StepError(f"step {index}: {name} has {_show(field)} where {wanted} is expected", name)
    if name == "AN":
        if not 0 <= fields[2] < len(_ANNOTATIONS):
            raise StepError(f"step {index}: AN has annotation {fields[2]}; 0 to {len(_ANNOTATIONS) - 1} exist", name)
        kind, word = _ANNOTATIONS[fields[2]]
        return Primitive(kind, tuple(arguments[:2]), word)
    return Primitive(_ANSOR_NAMES[name], tuple(arguments), word)


def _is_integer(value: Any) -> bool:
    return type(value) is int and abs(value) < _LARGEST


def _listed(steps: Any) -> list[Any]:
    if not isinstance(steps, list):
        raise StepError(f"the steps are {_show(steps)}; a list is expected", "steps")
    if len(steps) > MAX_PRIMITIVES:
        raise StepError(f"a schedule of {len(steps):,} steps; at most {MAX_PRIMITIVES:,} are expected", "steps")
    return steps


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# --- MetaSchedule ---

_VARIABLE = re.compile(r"[blv](\d{1,9})", re.ASCII)


def from_metaschedule(trace: Any) -> list[Primitive]:
    """The primitives of a trace, `[[[name, inputs, attributes, outputs], …], [[index, decision], …]]`, as
    `Schedule.trace.as_json()` gives it. Raises StepError, also where a sampled number that is used has no decision.
    """
    if not isinstance(trace, list) or len(trace) != 2 or not isinstance(trace[1], list):
        raise StepError(f"the trace is {_show(trace)}; [instructions, decisions] is expected", "trace")
    decisions: dict[int, Any] = {}
    for pair in trace[1]:
        if not isinstance(pair, list) or len(pair) != 2 or not _is_integer(pair[0]):
            raise StepError(f"a decision is {_show(pair)}; [instruction, decision] is expected", "decision")
        decisions[pair[0]] = pair[1]
    sampled: dict[str, float] = {}
    primitives = []
    for index, instruction in enumerate(_listed(trace[0])):
        name, inputs, attributes, outputs = _instruction(index, instruction)
        if name in QUERIES:
            continue
        if name in SAMPLES:
            sampled |= _decided(index, name, attributes, outputs, decisions.get(index))
            continue
        if name not in _NAMES:
            raise StepError(f"instruction {index}: unknown instruction {name!r:.40}", name[:40])
        arguments = list(_numbers(index, name, inputs, sampled))
        words = [text for text in attributes if isinstance(text, str)]
        arguments += [float(value) for value in attributes if isinstance(value, bool) or _is_integer(value)]
        primitives.append(Primitive(_NAMES[name], tuple(arguments), words[0] if words else ""))
    return primitives


def _instruction(index: int, instruction: Any) -> tuple[str, list[Any], list[Any], list[Any]]:
    if (
        not isinstance(instruction, list)
        or len(instruction) != 4
        or not isinstance(instruction[0], str)
        or not all(isinstance(part, list) for part in instruction[1:])
    ):
        raise StepError(
            f"instruction {index} is {_show(instruction)}; [name, inputs, attributes, outputs] is expected", "?"
        )
    name, inputs, attributes, outputs = instruction
    return name, inputs, attributes, outputs


def _decided(index: int, name: str, attributes: list[Any], outputs: list[Any], decision: Any) -> dict[str, float]:
    """{variable: the number that was sampled}; without a decision, variables that must not be used."""
    values: list[Any]
    if decision is None and all(isinstance(output, str) for output in outputs):
        return dict.fromkeys(outputs, math.nan)
    if name == "SampleCategorical":
        candidates = attributes[0] if attributes and isinstance(attributes[0], list) else []
        if not _is_integer(decision) or not 0 <= decision < len(candidates):
            raise StepError(f"instruction {index}: {name} decided {_show(decision)} of {_show(candidates)}", name)
        values = [candidates[decision]]
    else:
        values = decision if isinstance(decision, list) else [decision]
    names = all(isinstance(output, str) for output in outputs)
    numbers = all(_is_integer(value) or (isinstance(value, float) and abs(value) < _LARGEST) for value in values)
    if len(values) != len(outputs) or not names or not numbers:
        raise StepError(f"instruction {index}: {name} decided {_show(decision)} for {_show(outputs)}", name)
    return dict(zip(outputs, values, strict=True))


def _numbers(index: int, name: str, inputs: Any, sampled: Mapping[str, float], depth: int = 0) -> Iterator[float]:
    """Inputs as numbers: those of variables, decisions, literals; quoted texts and index maps (JSON) say nothing."""
    for value in inputs:
        if value is None or value == "None":  # a factor that TVM infers
            yield 0.0
        elif isinstance(value, bool) or _is_integer(value) or (isinstance(value, float) and math.isfinite(value)):
            yield float(value)
        elif isinstance(value, list) and depth < 4:
            yield from _numbers(index, name, value, sampled, depth + 1)
        elif isinstance(value, str) and value in sampled:
            if math.isnan(sampled[value]):
                raise StepError(f"instruction {index}: {name} uses {value}, for which no decision is recorded", name)
            yield float(sampled[value])
        elif isinstance(value, str):
            found = _VARIABLE.fullmatch(value)
            if found:
                yield float(found[1])
            elif not value.startswith(('"', "{")) and name not in ("Annotate", "Tensorize"):
                raise StepError(
                    f"instruction {index}: {name} has {_show(value)}; a variable or number is expected", name
                )
        elif not isinstance(value, dict):  # maps are values of annotations
            raise StepError(f"instruction {index}: {name} has {_show(value)}; a variable or number is expected", name)


_READERS: Mapping[str, Callable[[Any], list[Primitive]]] = {"ansor": from_ansor, "metaschedule": from_metaschedule}
