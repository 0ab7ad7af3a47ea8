"""One mutator for files of every kind: bytes, numbers of a header, chunks, words of a text, and values of HDF5."""

from __future__ import annotations

import io
import random
import re
from typing import Any

import h5py
import numpy as np

_BYTES = (0, 1, 127, 128, 255)
_NUMBERS = (0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_VALUES = (0, 1, -1, 2, 127, 128, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, float("nan"), 1e300)
_WORDS = (
    b"0",
    b"-1",
    b"1e999",
    b"nan",
    b"-inf",
    b"9" * 5000,
    b"1" + b"0" * 30,
    b"0x10",
    b"1_0",
    b"null",
    b"true",
    b"~",
    b"",
    b'""',
    b"[]",
    b"{}",
    b"[" * 3000,
    b"{a: " * 500,
    b"&a [*a]",
    b"*a",
    b"<<: *a",
    b"!!python/object:os.system x",
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    "\u202e\U0001f40c".encode(),
    b"a" * 5000,
    b"../../etc/passwd",
    b"/dev/zero",
    b"\n",
    b"\t",
    b",",
    b":",
    b"- ",
    b"#",
    b"'",
    b'"',
    b"%s%n",
    b"<!--<script>",
)
_WORD = re.compile(rb"[\w.+-]+|\s+|[^\w\s]")


def mutated(data: bytes, dice: random.Random, *, text: bool = False) -> bytes:
    """The data with one change, now and then several; of a text mostly of its words."""
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        change = dice.choice(_OF_TEXT if text and dice.random() < 0.8 else _OF_BYTES)
        data = change(data, dice) or b"\0"
    return data


def with_other_values(data: bytes, dice: random.Random) -> bytes:
    """A good HDF5 file with other content: what no checksum of a chunk tells, and readers check by themselves."""
    stream = io.BytesIO(data)
    with h5py.File(stream, "r+") as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        for _ in range(dice.choice((1, 1, 1, 2, 5))):
            name = dice.choice(names)
            if dice.random() < 0.2:
                _another_attribute(dice.choice([file, file.get(name, file)]), dice)
            elif name in file:
                _another_dataset(file, name, dice)
    return stream.getvalue()


def _another_attribute(item: Any, dice: random.Random) -> None:
    names = list(item.attrs)
    if not names:
        return
    name, kind = dice.choice(names), dice.randrange(4)
    if kind == 0:
        del item.attrs[name]
    elif kind == 1:
        item.attrs[name] = dice.choice(_VALUES)
    elif kind == 2:
        item.attrs[name] = dice.choice(_WORDS).decode(errors="replace").replace("\0", "x")
    else:
        item.attrs[name] = np.full(dice.choice((0, 2, 100)), dice.choice(_VALUES))


def _another_dataset(file: h5py.File, name: str, dice: random.Random) -> None:
    values, kind = file[name][()], dice.randrange(8)
    if not isinstance(values, np.ndarray) or values.ndim == 0 or values.dtype.kind not in "iufb":
        kind = 7 if kind > 5 else 6
    elif kind < 4 and values.size:  # one, some, or all of them
        flat = values.reshape(-1)
        begin = dice.randrange(len(flat))
        with np.errstate(all="ignore"):  # of what the type cannot hold it has something else
            flat[begin : begin + dice.choice((1, 1, 1, 16, len(flat)))] = np.array(dice.choice(_VALUES)).astype(
                values.dtype
            )
    elif kind == 4:
        values = values[: dice.randrange(len(values) + 1)]
    elif kind == 5:
        values = np.concatenate([values, values[-dice.choice((1, 2, 100)) :]])
    del file[name]
    if kind == 6:
        file[name] = dice.choice((1, "text", np.zeros((2, 2), np.float32), np.zeros(0, np.uint8)))
    elif kind != 7:
        file[name] = values


def _some_bytes(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 3, 20))):
        changed[dice.randrange(len(data))] = dice.choice((*_BYTES, dice.randrange(256)))
    return bytes(changed)


def _a_bit(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def _a_number(data: bytes, dice: random.Random) -> bytes:
    width = dice.choice((2, 4, 8))
    at = dice.randrange(len(data)) // width * width
    value = dice.choice((*_NUMBERS, len(data), dice.getrandbits(64))) % (1 << 8 * width)
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


def _without_a_chunk(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + data[at + dice.choice((1, 2, 8, 64, 500)) :]


def _a_chunk_elsewhere(data: bytes, dice: random.Random) -> bytes:
    at, to, length = dice.randrange(len(data)), dice.randrange(len(data)), dice.choice((1, 2, 8, 64, 500))
    return data[:to] + data[at : at + length] + data[to + (length if dice.random() < 0.5 else 0) :]


def _zeros(data: bytes, dice: random.Random) -> bytes:
    at, length = dice.randrange(len(data)), dice.choice((8, 64, 500))
    return data[:at] + bytes(len(data[at : at + length])) + data[at + length :]


def _a_beginning(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data))]


def _grown(data: bytes, dice: random.Random) -> bytes:
    return data + dice.randbytes(dice.choice((1, 22, 500)))


def _another_word(data: bytes, dice: random.Random) -> bytes:
    words = list(_WORD.finditer(data))
    word, other = dice.choice(words), dice.choice(words)[0] if dice.random() < 0.4 else dice.choice(_WORDS)
    return data[: word.start()] + other + data[word.end() :]


def _a_word_more(data: bytes, dice: random.Random) -> bytes:
    at = dice.choice(list(_WORD.finditer(data))).start()
    return data[:at] + dice.choice(_WORDS) + data[at:]


def _lines(data: bytes, dice: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    at, to = dice.randrange(len(lines)), dice.randrange(len(lines))
    kind = dice.randrange(3)
    if kind == 0:
        lines.insert(to, lines[at])
    elif kind == 1:
        lines[at], lines[to] = lines[to], lines[at]
    else:
        del lines[at]
    return b"".join(lines)


_OF_BYTES = (
    _some_bytes,
    _some_bytes,
    _a_bit,
    _a_number,
    _a_number,
    _without_a_chunk,
    _a_chunk_elsewhere,
    _zeros,
    _a_beginning,
    _grown,
)
_OF_TEXT = (_another_word, _another_word, _another_word, _a_word_more, _lines)
