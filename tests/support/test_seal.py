"""The seal: its known answer, every byte counts, and files with the older one."""

import hashlib

import pytest

from support import seal as sealing
from support.errors import InputError
from support.seal import BLOCK, check_seal, seal

PART = 1 << 16  # in the place of 64 MiB


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@pytest.fixture(params=[0, 1000, PART, PART + 1, 2 * PART + 12345], ids="{:,} bytes".format)
def sealed(request, tmp_path, monkeypatch):
    monkeypatch.setattr(sealing, "PART", PART)
    path = tmp_path / "file.h5"
    path.write_bytes(bytes(BLOCK) + hashlib.shake_128(b"content").digest(request.param))
    seal(path)
    return path


@pytest.mark.slow
def test_a_chunk_has_64_mib(tmp_path):
    path = tmp_path / "file.h5"
    path.write_bytes(bytes(BLOCK + (64 << 20) + 12345))
    seal(path)
    parts = _sha256(bytes(64 << 20)) + _sha256(bytes(12345))
    assert path.read_bytes()[:BLOCK].rstrip(b"\0") == b"perfvec-seal-2 sha256 " + _sha256(parts).hex().encode() + b"\n"


def test_the_seal_is_the_hash_of_the_chunks_hashes(sealed):
    block, content = sealed.read_bytes()[:BLOCK], sealed.read_bytes()[BLOCK:]
    parts = b"".join(_sha256(content[begin : begin + PART]) for begin in range(0, len(content), PART))
    assert block.rstrip(b"\0") == b"perfvec-seal-2 sha256 " + _sha256(parts).hex().encode() + b"\n"
    check_seal(sealed, "test")


@pytest.mark.parametrize("where", [0.0, 0.3, 0.7, 1.0])
def test_every_byte_counts(sealed, where):
    size = sealed.stat().st_size
    place = BLOCK + int(where * (size - BLOCK - 1))
    with sealed.open("r+b") as file:
        file.seek(place)
        old = file.read(1) or b"a"
        file.seek(place)
        file.write(bytes([old[0] ^ 1]))
    with pytest.raises(InputError, match="not those that were written"):
        check_seal(sealed, "test")


def test_a_file_cut_short_or_grown_is_refused(sealed):
    with sealed.open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match="not those that were written"):
        check_seal(sealed, "test")
    with sealed.open("r+b") as file:
        file.truncate(BLOCK - 1)
    with pytest.raises(InputError, match="not those that were written"):
        check_seal(sealed, "test")
