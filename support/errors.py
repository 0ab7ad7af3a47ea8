"""The one error that the toolkit shows to its user as a single line."""

from __future__ import annotations

import errno
import os

_LONGEST = 600  # characters of a message
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class InputError(ValueError):
    """Something that the user gave (a file, a field, a program) is wrong.

    The message is one line that names what is wrong and what would be right. The command line prints it without a
    traceback and exits with status 2. A longer text, as of a value from a file, is cut in the middle.

    >>> import perfvec as pv
    >>> try:
    ...     pv.machine("zen4").with_(l2__size_kib=-1)
    ... except pv.Error as error:
    ...     print("l2.size_kib" in str(error), "\\n" in str(error))
    True False
    """

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST * 2 // 3]} … {text[-_LONGEST // 4 :]}"


def is_full(error: BaseException | None) -> bool:
    """Return whether an error comes of a full disk, a quota or a limit on the size of files. Libraries that write by
    themselves (HDF5, safetensors) tell of it in their messages alone.
    """
    while error is not None:
        if (isinstance(error, OSError) and error.errno in _FULL) or any(os.strerror(n) in str(error) for n in _FULL):
            return True
        error = error.__cause__ or error.__context__
    return False
