"""HDF5 files that are whole or absent: written under a temporary name and renamed; read with clear errors."""

from __future__ import annotations

import fcntl
import glob
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import h5py
from numpy.typing import NDArray

from support import seal, unsealed
from support.errors import InputError, is_full
from support.stored import require_stored

Reader = TypeVar("Reader", bound="H5Reader")


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it there on success, remove it on any exception.

    It is locked while it is written. What killed writers of the same path left, which nobody locks, is removed. Write
    into the file that is there: one put in its place would not be locked. Links are followed; raises InputError where
    the path is a folder, a device or a pipe, in whose place a file must not be put.
    """
    require_writable(path)
    target = Path(os.path.realpath(path))
    remove_left(target)
    handle, temporary = _locked(target)
    try:
        yield temporary
        umask = os.umask(0o077)  # cannot be asked for without being set: other threads' files are private meanwhile
        os.umask(umask)
        executable = temporary.stat().st_mode & 0o111
        temporary.chmod((0o666 | executable) & ~umask)  # mkstemp's 0600 is for secrets
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if is_full(error):
            raise InputError(f"{target}: the disk is full, or the file larger than is allowed") from error
        raise
    finally:
        os.close(handle)  # and lets go of the lock


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file of this text, as UTF-8. Raises InputError as `atomic_path` does."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _locked(target: Path) -> tuple[int, Path]:
    """A new temporary file for `target`, and the handle that locks it."""
    while True:
        try:
            handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        except OSError as error:  # as in /proc, which lets nobody create a file
            if is_full(error):
                raise
            raise InputError(f"{target}: cannot be created ({error.strerror}); name another folder") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            break  # a file system without locks: nobody can tell what was left, and nobody removes it
        if os.fstat(handle).st_nlink:  # not removed as left in between
            break
        os.close(handle)
    return handle, Path(name)


def remove_left(target: Path) -> None:
    """Remove what killed writers of a path left beside it; living ones lock theirs, and those stay."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        try:
            handle = os.open(left, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # gone meanwhile, or somebody else's
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink(missing_ok=True)
        except OSError:
            pass  # its writer is alive
        finally:
            os.close(handle)


def require_folder(path: str | os.PathLike[str]) -> None:
    """Make the folder where it is not there. Raises InputError unless files can be created in it (call it before long
    work).
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be a folder ({error.strerror}); name another one") from None
    require_writable(folder / "file")


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise InputError unless a file can be created at `path` (call it before long work)."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file to write")
    if target.exists() and not target.is_file():
        raise InputError(f"{target}: is a device or a pipe; name a file to write")
    folder = Path(os.path.realpath(target)).parent if target.is_symlink() else target.parent
    if not folder.is_dir():
        raise InputError(f"{target}: the folder {folder} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{target}: the folder {folder} is not writable")


@contextmanager
def open_h5(
    path: str | os.PathLike[str], file_format: str, version: int, *, whole: bool = False
) -> Iterator[h5py.File]:
    """Open an HDF5 file of the toolkit for reading, checking its format name and version, and its bytes, unless it is
    known to be `whole`.
    """
    file = _open(Path(path), file_format, version, whole=whole)
    try:
        yield file
    finally:
        file.close()


class H5Reader:
    """An HDF5 file of the toolkit, open for reading; a context manager."""

    def __init__(self, path: str | os.PathLike[str], file_format: str, version: int, *, oldest: int = 0) -> None:
        self.path = Path(path)
        self._file = _open(self.path, file_format, version, oldest=oldest)

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute that not every file has, as those of one source or simulator."""
        return self._file.attrs.get(name, default)

    def __enter__(self: Reader) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()


@contextmanager
def sealed_h5(path: str | os.PathLike[str]) -> Iterator[h5py.File]:
    """An HDF5 file to write: sealed and put in place on success, removed on any exception."""
    with atomic_path(path) as temporary:
        # HDF5's own lock would wait for ours.
        file = _Written(temporary, "w", libver="latest", userblock_size=seal.BLOCK, locking=False)
        try:
            yield file
            file.flush()
            file.close()
        except BaseException as error:
            _throw_away(file, full=is_full(error))
            raise
        seal.seal(temporary)


def on_success(stack: ExitStack, finish: Callable[[], None]) -> None:
    """Let `finish` run when the stack ends without an error, before all that was entered so far; it may raise."""

    def at_exit(kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            finish()

    stack.push(at_exit)


def _throw_away(file: h5py.File, *, full: bool) -> None:
    """Close a file that nobody will read. HDF5 writes what it holds of it, and crashes later where it cannot: so it
    writes elsewhere, and where that is for want of room or a limit, to what takes every byte.
    """
    if file.id.valid:
        elsewhere = os.open("/dev/zero", os.O_RDWR) if full else os.memfd_create("thrown-away")
        os.dup2(elsewhere, file.id.get_vfd_handle())
        os.close(elsewhere)
        with suppress(OSError, RuntimeError):  # a device cannot be given its length
            file.close()


class _Written(h5py.File):
    """Keeps its datasets until it is closed: HDF5 writes what it holds of one that is let go, where a failure cannot be
    raised.
    """

    def create_dataset(self, *arguments: Any, **options: Any) -> h5py.Dataset:
        """Create a dataset, as of h5py."""
        dataset = super().create_dataset(*arguments, **options)
        self.__dict__.setdefault("_kept", []).append(dataset)
        return dataset


def _check_bytes(path: Path, file_format: str) -> None:
    """Refuse a file that is not as it was written before HDF5's library, which trusts what it reads, sees it.

    Files of other makers have no seal (support/unsealed.py); they begin with HDF5's signature, where ours have a user
    block.
    """
    with damage_in(path, "the file"), path.open("rb") as stream:
        if stream.read(len(_SIGNATURE)) == _SIGNATURE:
            unsealed.require_readable(path, file_format)
            return
        stream.seek(seal.BLOCK)
        if stream.read(len(_SIGNATURE)) != _SIGNATURE:
            raise InputError(f"{path}: truncated, or not an HDF5 file; expected a {file_format} file")
    try:
        seal.check_seal(path, file_format)
    except InputError as error:
        raise InputError(
            f"{path}: its bytes are not those that were written (SHA-256); expected a {file_format} file"
        ) from error


_SIGNATURE = b"\x89HDF\r\n\x1a\n"

# What h5py raises where a file is damaged: an OSError or RuntimeError of HDF5's own, or Python's where a type, a length
# or a text is not what it claims.
DAMAGE = (
    OSError,
    RuntimeError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
    SystemError,
)


@contextmanager
def damage_in(path: str | os.PathLike[str], part: str) -> Iterator[None]:
    """Report what h5py raises for a damaged file as a single line that names the file and the part of it."""
    try:
        yield
    except InputError:
        raise
    except PermissionError as error:
        raise InputError(f"{path}: permission denied; make the file readable") from error
    except DAMAGE as error:
        why = " ".join(str(error).split())[:160] or type(error).__name__
        raise InputError(f"{path}: {part} cannot be read; the file is damaged ({why})") from error


def is_program(path: Path) -> bool:
    """Return whether the file begins as an ELF file does."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _open(path: Path, file_format: str, version: int, *, oldest: int = 0, whole: bool = False) -> h5py.File:
    if not path.exists():
        raise InputError(f"{path}: no such file; expected a {file_format} file")
    if not path.is_file():  # a pipe would wait for its writer
        found = "a folder" if path.is_dir() else "a pipe or a device"
        raise InputError(f"{path}: is {found}; expected a {file_format} file")
    if is_program(path):
        raise InputError(f"{path}: is a program; trace it first (perfvec trace -o T.trace.h5 -- {path})")
    if not whole:
        _check_bytes(path, file_format)
    try:
        file = h5py.File(path, "r", locking=False)  # files are replaced, never changed
    except DAMAGE as error:
        raise InputError(f"{path}: truncated, or not an HDF5 file; expected a {file_format} file") from error
    try:
        with damage_in(path, "the attributes 'format' and 'version'"):
            found, found_version = file.attrs.get("format"), file.attrs.get("version", 0)
            if not isinstance(found, str) or found != file_format:
                name = repr(found)[:60] if found is not None else "foreign data"
                raise InputError(f"{path}: holds {name}; expected the format {file_format!r}")
            if not (oldest or version) <= int(found_version) <= version:
                read = f"versions {oldest} to {version}" if oldest else f"version {version}"
                raise InputError(f"{path}: version {found_version} of {file_format}; this release reads {read}")
    except BaseException:
        file.close()
        raise
    return file


def read_dataset(file: h5py.File, name: str, dtype: str, dimensions: int = 1) -> h5py.Dataset:
    """The dataset `name`, checked for presence, element type, number of dimensions, and that the file can hold it.

    The data must be in the file itself (no link to another one), in chunks that fit memory, and not more than what is
    stored can unpack to, so that a header alone cannot claim any amount of memory.
    """
    path = file.filename
    with damage_in(path, repr(name)):
        parts = name.split("/")
        for depth in range(1, len(parts) + 1):
            if not isinstance(file.get("/".join(parts[:depth]), getlink=True), h5py.HardLink):
                raise InputError(f"{path}: the dataset {name!r} is missing; the file is incomplete or foreign")
        dataset = file.get(name)
        if not isinstance(dataset, h5py.Dataset):
            raise InputError(f"{path}: the dataset {name!r} is missing; the file is incomplete or foreign")
        if dataset.dtype != dtype or dataset.ndim != dimensions:
            raise InputError(
                f"{path}: {name!r} is {dataset.dtype}{list(dataset.shape or ())}; "
                f"expected {dtype} with {dimensions} dimensions"
            )
        require_stored(dataset)
    return dataset


def read_slice(dataset: h5py.Dataset, selection: Any) -> Any:
    """`dataset[selection]`, with damage in the file reported as a single line."""
    with damage_in(dataset.file.filename, str(dataset.name)):
        return dataset[selection]


def read_whole(file: h5py.File, name: str, dtype: str, dimensions: int = 1) -> NDArray[Any]:
    """All of the dataset `name`, checked as by `read_dataset`."""
    return read_slice(read_dataset(file, name, dtype, dimensions), slice(None))


def read_text_attribute(file: h5py.File, name: str) -> str:
    """Return the file's attribute `name`, a text in UTF-8."""
    with damage_in(file.filename, f"the attribute {name!r}"):
        value = file.attrs[name]
    if not isinstance(value, str):
        raise InputError(f"{file.filename}: the attribute {name!r} is {type(value).__name__}; a text is expected")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # h5py reads bytes that are no UTF-8 as surrogates, and writes none
        raise InputError(f"{file.filename}: the attribute {name!r} is not UTF-8; the file is damaged") from error
    return value


def write_strings(file: h5py.File, name: str, texts: Sequence[str]) -> None:
    """Texts of any length as a one-dimensional dataset."""
    file.create_dataset(name, data=list(texts), dtype=h5py.string_dtype(), shape=(len(texts),), compression="gzip")


def read_strings(file: h5py.File, name: str) -> list[str]:
    """The texts of the dataset `name` [n]."""
    path = file.filename
    with damage_in(path, repr(name)):
        dataset = file.get(name)
        if (
            not isinstance(file.get(name, getlink=True), h5py.HardLink)
            or not isinstance(dataset, h5py.Dataset)
            or h5py.check_string_dtype(dataset.dtype) is None
            or dataset.ndim != 1
        ):
            raise InputError(f"{path}: {name!r} is missing or holds no texts; the file is incomplete or foreign")
        require_stored(dataset)
        return [text.decode(errors="replace") for text in dataset[:]]
