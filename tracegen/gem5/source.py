"""Files of a gem5 run, found and opened: debug text (plain, gzip, a pipe), `config.json`, `stats.txt`,
`run.json`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from isal import igzip_lib, isal_zlib  # three times as fast as zlib, which would be half of the import

from support.errors import InputError
from uarch.configuration import Machine, machine_from_dict
from uarch.gem5.config import RunSettings, machine_from_config, read_config, simulation_from_config

TEXTS = ("trace.out.gz", "trace.out")
_OTHERS = ("config.json", "stats.txt", "run.json")
BLOCK = 1 << 22
_PATIENCE = 60  # seconds for gem5 to write its configuration
_RUN_KEYS = {
    "begin": int,
    "instructions": int,
    "instructions_before": int,
    "core_begins": int,
    "warmup": int,
    "fast_forward": int,
    "ended": str,
    "cwd": str,
    "sysroot": str,
    "traced": str,
    "gem5": str,
    "max_instructions": int,
    "end": int,
}


@dataclass(frozen=True)
class Source:
    """The files of one run."""

    text: Path | None  # None: standard input
    config: Path
    statistics: Path | None  # where gem5 writes them, at its end
    run: Path | None
    pipe: IO[bytes] | None = None  # the text's other end, open since gem5 waits for that


@dataclass(frozen=True)
class Gem5Run:
    """Facts about the run from its files."""

    source: Source
    simulation: RunSettings
    machine: Machine
    notes: list[str]
    program: Path
    executable: str  # as gem5 was told
    folder: Path  # the program's working directory
    command: list[str]
    environment: list[str]
    stdin: str | None
    stdout: str
    facts: dict[str, Any]  # run.json, empty where there is none


def find_source(paths: Sequence[Path]) -> Source:
    """The files among `paths`: a folder of gem5, or its files one by one, in which `-` is standard input and any name
    that is not one of gem5's own is the text. Raises InputError.
    """
    text: Path | None = None
    others: dict[str, Path] = {}
    stdin = False

    def add_beside(folder: Path) -> None:
        """Add gem5's own files; stats.txt may come when gem5 ends."""
        for name in _OTHERS:
            if (folder / name).exists() or name == "stats.txt":
                others.setdefault(name, folder / name)

    for path in paths:
        if str(path) == "-":
            stdin = True
        elif path.is_dir():
            found = next((path / name for name in TEXTS if (path / name).exists()), None)
            text = found or text
            add_beside(path)
        elif path.name in _OTHERS:
            others[path.name] = path
        elif not path.exists():
            raise InputError(f"{path}: no such file or folder")
        else:
            text = path
    if text is None and not stdin:
        raise InputError(
            f"{paths[0]}: no {' or '.join(TEXTS)} there; run gem5 with --debug-flags=ExecAll,O3PipeView,Vma "
            "--debug-file=trace.out.gz, or name the file"
        )
    if "config.json" not in others and text is not None and (text.parent / "config.json").exists():
        add_beside(text.parent)
    pipe = _wait_for_gem5(text, others) if text is not None and text.is_fifo() else None
    if "config.json" not in others:
        raise InputError(
            f"{paths[0]}: no config.json beside the text; name the one that gem5 wrote into its output folder"
        )
    return Source(None if stdin else text, others["config.json"], others.get("stats.txt"), others.get("run.json"), pipe)


def _wait_for_gem5(path: Path, others: dict[str, Path]) -> IO[bytes]:
    """gem5 goes on once its pipe is opened, and writes run.json and config.json before the first instruction."""
    pipe = path.open("rb", buffering=0)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            read_config(others.get("config.json", path.parent / "config.json"))
        except InputError:
            time.sleep(0.05)
        else:
            break
    for name in ("config.json", "run.json"):
        if (path.parent / name).exists():
            others.setdefault(name, path.parent / name)
    others.setdefault("stats.txt", path.parent / "stats.txt")
    return pipe


def read_run(source: Source, program: Path | None, name: str | None) -> Gem5Run:
    """The run's machine, program and facts. `program` is where the executable is, if not where config.json says; `name`
    the machine's. Raises InputError.
    """
    document = read_config(source.config)
    facts = read_facts(source.run) if source.run is not None else {}
    try:
        base = machine_from_dict(facts["machine"]) if "machine" in facts else None
    except InputError as error:
        raise InputError(f"{source.run}: machine: {error}") from None
    try:
        folder_name = source.config.resolve().parent.name or "gem5"
        machine, notes = machine_from_config(document, name or (base.name if base else folder_name), base)
        simulation = simulation_from_config(document)
    except InputError as error:
        raise InputError(f"{source.config}: {error}") from None
    process = simulation.process
    command = [str(word) for word in _list(process, "cmd")]
    folder = Path(str(process.get("cwd") or "."))
    executable = program or folder / str(process.get("executable") or (command or ["?"])[0])
    if not executable.is_file():
        raise InputError(f"{executable}: the program that gem5 ran is not there; say where it is with --program")
    return Gem5Run(
        source=source,
        simulation=simulation,
        machine=machine,
        notes=notes,
        program=executable,
        executable=str(process.get("executable") or executable),
        folder=folder,
        command=command or [str(executable)],
        environment=[str(item) for item in _list(process, "env")],
        stdin=None if process.get("input") in (None, "cin", "stdin") else str(process["input"]),
        stdout=str(process.get("output") or ""),
        facts=facts,
    )


def _list(process: Any, name: str) -> list[Any]:
    value = process.get(name)
    return value if isinstance(value, list) else []


def read_facts(path: Path) -> dict[str, Any]:
    """The `run.json` of an exported script. Raises InputError."""
    try:
        facts = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: is not the run.json of an exported script ({' '.join(str(error).split())})"
        ) from None
    if not isinstance(facts, dict):
        raise InputError(f"{path}: is not the run.json of an exported script (no object)")
    for name, kind in _RUN_KEYS.items():
        if name in facts and (not isinstance(facts[name], kind) or isinstance(facts[name], bool)):
            raise InputError(f"{path}: {name} = {facts[name]!r} must be {'a number' if kind is int else 'text'}")
    return facts


def blocks(source: Source) -> Iterator[bytes]:
    """The text chunk by chunk, from a file, gzip or not, a pipe, or standard input. Raises InputError."""
    path = source.text
    name = path or "standard input"
    try:
        with ExitStack() as stack:
            stream: IO[bytes] = sys.stdin.buffer
            if path is not None:
                stream = stack.enter_context(source.pipe or path.open("rb", buffering=0))
            head = _read(stream, 2)
            inflate = isal_zlib.decompressobj(wbits=31) if head == b"\x1f\x8b" else None
            chunk = head + stream.read(BLOCK) if head else b""
            while chunk:
                if inflate is None:
                    yield chunk
                else:
                    while chunk:
                        yield inflate.decompress(chunk, BLOCK)
                        chunk = inflate.unconsumed_tail
                        if inflate.eof and inflate.unused_data:  # a further member
                            chunk, inflate = inflate.unused_data, isal_zlib.decompressobj(wbits=31)
                chunk = stream.read(BLOCK)
            if inflate is not None and not inflate.eof:
                raise InputError(f"{name}: the gzip file is cut off; copy it again, or wait for gem5's end")
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None
    except igzip_lib.IsalError as error:  # type: ignore[misc]  # its stub calls it an instance
        raise InputError(f"{name}: is no whole gzip file ({error})") from None


def _read(stream: IO[bytes], count: int) -> bytes:
    """`count` bytes unless the stream ends before: a pipe gives fewer at a time."""
    found = b""
    while len(found) < count and (chunk := stream.read(count - len(found))):
        found += chunk
    return found
