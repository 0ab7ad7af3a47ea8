"""TARGETs of the commands: a trace file, a vector file, or a program that is traced on the fly."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from analysis.programs.names import names_apart, require_once
from analysis.programs.opened import traced
from analysis.programs.simulable import Simulable, SimulableLivePoints, SimulableTrace
from analysis.programs.span import Span
from perfvec.model import Model
from perfvec.representation.live_points import vector_of
from perfvec.representation.own import kept_vector, own_vector
from perfvec.representation.vector import ProgramVector, load_vector
from support.errors import InputError
from support.text import require_writable_name
from tracegen.live_points.live_points import SUFFIX, LivePoints, is_live_points

RATE = 3e5  # instructions represented a second of a core, about


@dataclass(frozen=True)
class Target:
    """One program: what simulates it (nothing where only its vector is known), and how its vector is made."""

    simulable: Simulable | None
    make: Callable[[], ProgramVector]
    instructions_to_represent: int = 0  # for its vector
    shown: str = ""  # as, where another of the question has its name
    original: Target | None = None  # whose vector it has

    def simulated_by(self, simulable: Simulable) -> Target:
        """Return the same program with another way to simulate it."""
        return replace(self, simulable=simulable, make=lambda: self.vector, original=self)

    @cached_property
    def vector(self) -> ProgramVector:
        """Its vector by the model, made when it is first asked for."""
        made = self.make()
        return replace(made, program=self.shown) if self.shown else made

    def represented_within(self, seconds: float) -> bool:
        """Tell whether there is a vector of this model, or could be in so many seconds of a core."""
        if self.instructions_to_represent and not self._is_represented:
            return self.instructions_to_represent <= RATE * seconds
        try:
            return bool(self.vector.instructions)
        except InputError:  # live-points without one
            return False

    @property
    def _is_represented(self) -> bool:
        return "vector" in vars(self) or (self.original is not None and self.original._is_represented)

    @property
    def name(self) -> str:
        if self.shown:
            return self.shown
        return self.vector.program if self.simulable is None else self.simulable.name

    @property
    def cut_short(self) -> str:
        """A line on the signal that ended the traced program; empty where none is known to have."""
        return self.simulable.cut_short if isinstance(self.simulable, SimulableTrace) else ""

    @property
    def isa(self) -> str:
        return self.vector.isa if self.simulable is None else self.simulable.isa

    @property
    def instructions(self) -> int:
        return self.vector.instructions if self.simulable is None else self.simulable.instructions


@contextmanager
def targets_of(
    model: Model,
    paths: Sequence[str | os.PathLike[str]],
    program: Sequence[str] = (),
    *,
    max_instructions: int | None = None,
    span: Span | None = None,
    progress: bool = True,
) -> Iterator[list[Target]]:
    """The programs of a question: traces, vectors, and `program`, a command line, traced into a temporary file now.

    Of traces only the first `max_instructions`, or the `span`, are simulated. Raises InputError where there is none,
    for a bad trace, and for a vector that another model made.
    """
    if not paths and not program:
        raise InputError("no target: name traces (*.trace.h5), vectors (*.vector.npz), or give `-- PROGRAM ARGS…`")
    require_once(paths)
    found = [target_of(model, path, max_instructions, span, progress=progress) for path in paths]
    if not program:
        yield told_apart(found, paths)
        return
    with traced(program, max_instructions=max_instructions) as path:
        found.append(target_of(model, path, max_instructions, span, progress=progress))
        yield told_apart(found, [*paths, None])


def told_apart(targets: Sequence[Target], files: Sequence[str | os.PathLike[str] | None]) -> list[Target]:
    """Return the targets, those of one name under names of their own (`names_apart`)."""
    names = [target.name for target in targets]
    shown = names_apart(names, files)
    return [
        target if new == old else replace(target, shown=new)
        for target, old, new in zip(targets, names, shown, strict=True)
    ]


def cut_short(targets: Sequence[Target]) -> list[str]:
    """Return a line for each traced program that a signal ended."""
    return [target.cut_short for target in targets if target.cut_short]


def target_of(
    model: Model,
    path: str | os.PathLike[str],
    limit: int | None = None,
    span: Span | None = None,
    *,
    progress: bool = True,
) -> Target:
    """The program of a trace, live-points or vector file; as `targets_of`."""
    require_writable_name(os.fspath(path))
    if Path(path).name.endswith(".npz"):
        vector = check_model(load_vector(path), model, str(path))
        return Target(None, lambda: vector)
    if is_live_points(path):
        if limit is not None or span is not None:
            raise InputError(f"{path}: live-points stand for the whole run; leave --max-instructions and --start out")
        sampled = SimulableLivePoints(path)

        def vector_there() -> ProgramVector:
            found = vector_of(sampled.points, path) or _vector_beside(Path(path), sampled.points)
            return check_model(found, model, str(path), "make them again: perfvec live-points")

        return Target(sampled, vector_there)
    simulable = SimulableTrace(path, (span or Span()).until(limit))
    if span is not None and span.start:
        return Target(simulable, lambda: _no_vector(path), sys.maxsize)
    first = None if simulable.whole else simulable.work
    represented = kept_vector(model, path, max_instructions=first) is not None
    return Target(
        simulable,
        lambda: own_vector(model, path, max_instructions=first, progress=progress),
        0 if represented else simulable.instructions,
    )


def _no_vector(path: str | os.PathLike[str]) -> ProgramVector:
    raise InputError(
        f"{path}: the model's vectors are of a run from its beginning on; for --start every point must be simulated: "
        "raise --budget, or give --simulate"
    )


def target_of_vector(
    model: Model, vector: ProgramVector, trace: str | os.PathLike[str] | None = None, span: Span | None = None
) -> Target:
    """A program that is represented; its `trace`, where there is one, is simulated within a budget."""
    check_model(vector, model, vector.program)
    if span is not None:
        if trace is None:
            raise InputError(
                f"{vector.program}: a vector is of all its instructions; for a part of them give the trace"
            )
        return target_of(model, trace, vector.instructions, span)
    simulable = None if trace is None else SimulableTrace(trace, Span(count=vector.instructions))
    return Target(simulable, lambda: vector)


def _vector_beside(path: Path, points: LivePoints) -> ProgramVector:
    """The vector of the run whose live-points these are, NAME.vector.npz beside them."""
    beside = path.with_name(path.name.removesuffix(SUFFIX) + ".vector.npz")
    instead = f"perfvec represent TRACE --sample auto -o {beside}"
    if not beside.exists():
        raise InputError(
            f"{path}: holds no vector, which the model needs for what is not simulated; make them again without "
            f"--no-vector, or {instead}"
        )
    vector = load_vector(beside)
    if vector.instructions != points.instructions:
        raise InputError(
            f"{beside}: is of {vector.instructions:,} instructions, {path} of {points.instructions:,}, so of another "
            f"run; {instead}"
        )
    # A running program's live-points have a digest of their own, which no trace has.
    if vector.trace_digest != points.digest and (vector.program, vector.isa) != (points.program, points.isa):
        raise InputError(
            f"{beside}: is of {vector.program} ({vector.isa}), {path} of {points.program} ({points.isa}), so of "
            f"another run; {instead}"
        )
    return vector


def check_model(
    vector: ProgramVector, model: Model, path: str, instead: str = "represent the trace again"
) -> ProgramVector:
    """`vector`, unless another model made it."""
    if vector.model != model.digest:
        raise InputError(f"{path}: made by the model {vector.model[:12]}…, not by {model.digest[:12]}…; {instead}")
    return vector


def trace_files(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """These trace files and those (`*.trace.h5`) of these folders. Raises InputError for a folder with none."""
    found: list[Path] = []
    for path in map(Path, paths):
        inside = sorted(path.glob("*.trace.h5")) if path.is_dir() else [path]
        if not inside:
            raise InputError(f"{path}: no *.trace.h5 here; make some with perfvec suite run -o {path}")
        found += inside
    return found
