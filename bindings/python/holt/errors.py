# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions.

Each class has two parents: `HoltError`, which all of them are, and the class that Python itself has
for the case, so that `except FileNotFoundError` works without knowing this module.
"""

from __future__ import annotations

import errno as _errno
import re
from typing import Any


class HoltError(Exception):
    """Something that libholt could not do.

    Attributes:
        code: the stable name, such as "NOT_FOUND"; for programs.
        message: one line, cause first; `str()` gives it, too.
        stage: during which step, such as "boot"; "" where none is recorded.
        object: what it is about: an image, a box, a path; "" for none.
        hint: what can be done about it, or "".
        failure: what it says of a sandbox: "none", "terminal" (it is gone), "retryable".
        text: the same for clients that know no codes: "Error: ...".
    """

    code = "UNKNOWN"
    message = ""
    stage = ""
    object = ""
    hint = ""
    failure = "none"
    text = "Error: "

    def __str__(self) -> str:
        return self.message or super().__str__()


class InvalidError(HoltError, ValueError):
    """An argument or input is wrong (INVALID)."""


class NotFoundError(HoltError, FileNotFoundError):
    """The named thing does not exist (NOT_FOUND)."""


class ExistsError(HoltError, FileExistsError):
    """The name is taken (EXISTS)."""


class DeniedError(HoltError, PermissionError):
    """Permission is missing (DENIED)."""


class BusyError(HoltError, OSError):
    """In use by someone else (BUSY)."""


class DeadlineError(HoltError, TimeoutError):
    """The time was over (TIMEOUT)."""


class CancelledError(HoltError, RuntimeError):
    """The caller cancelled (CANCELLED)."""


class LimitError(HoltError, OSError):
    """A stated limit was reached, or a disk is full (LIMIT)."""


class MemoryLimitError(HoltError, MemoryError):
    """An allocation failed (NO_MEMORY)."""


class UnsupportedError(HoltError, NotImplementedError):
    """This host or build cannot do it (UNSUPPORTED)."""


class UnavailableError(HoltError, RuntimeError):
    """Not now; try again later (UNAVAILABLE)."""


class GuestLostError(HoltError, ConnectionError):
    """The machine ended or stopped answering (GUEST_LOST)."""


class ProtocolError(HoltError, ConnectionError):
    """A peer broke the protocol (PROTOCOL)."""


class InputOutputError(HoltError, OSError):
    """Reading or writing failed (IO)."""


class ClosedError(HoltError, RuntimeError):
    """The object was closed, or the box does not run (CLOSED)."""


class InternalError(HoltError, RuntimeError):
    """A bug in holt (INTERNAL)."""


class IsDirectoryError(InvalidError, IsADirectoryError):
    """A directory stands where a file is wanted (INVALID with EISDIR)."""


class NotDirectoryError(InvalidError, NotADirectoryError):
    """What stands where a directory is wanted is none (with ENOTDIR)."""


class InvalidPathError(InvalidError, OSError):
    """A path that the file system refuses, such as a loop of links (INVALID with an errno)."""


class PatternError(InvalidError, re.error):
    """A pattern that cannot be compiled (INVALID)."""


class ForkedError(RuntimeError):
    """An object was made before a fork and used in the child, which has none of its threads."""


class SandboxIdentityCollisionError(RuntimeError):
    """Another user and thread has the same sandbox id; that one is left alone."""


# By enum holt_code; an errno that stands for the code where no system call gave one.
_CLASSES: dict[int, tuple[type[HoltError], int]] = {
    1: (InvalidError, 0),
    2: (NotFoundError, _errno.ENOENT),
    3: (ExistsError, _errno.EEXIST),
    4: (DeniedError, _errno.EACCES),
    5: (BusyError, _errno.EBUSY),
    6: (DeadlineError, _errno.ETIMEDOUT),
    7: (CancelledError, 0),
    8: (LimitError, _errno.EDQUOT),
    9: (MemoryLimitError, 0),
    10: (UnsupportedError, 0),
    11: (UnavailableError, 0),
    12: (GuestLostError, _errno.ECONNRESET),
    13: (ProtocolError, _errno.EPROTO),
    14: (InputOutputError, _errno.EIO),
    15: (ClosedError, 0),
    16: (InternalError, 0),
}


def invalid(message: str, stage: str, hint: str) -> HoltError:
    """What the package itself finds wrong with an argument."""
    fields = {"code": "INVALID", "stage": stage, "hint": hint, "text": f"Error: {message}"}
    return make(1, 0, message, {**fields, "object": ""})


def pattern_error(error: HoltError) -> PatternError:
    """The same as an error of a pattern."""
    found = PatternError(error.message)
    found.__dict__.update(error.__dict__)
    return found


def _class_of(code: int, errnum: int) -> tuple[type[HoltError], int]:
    cls, fallback = _CLASSES.get(code, (InternalError, 0))
    if code in (1, 2, 14) and errnum == _errno.EISDIR:
        return IsDirectoryError, errnum
    if code in (1, 2, 14) and errnum == _errno.ENOTDIR:
        return NotDirectoryError, errnum
    if code == 1 and errnum:
        return InvalidPathError, errnum
    return cls, errnum or fallback


def make(code: int, errnum: int, message: str, fields: dict[str, Any]) -> HoltError:
    """The exception for a code of the library; `fields` are its attributes."""
    cls, number = _class_of(code, errnum)
    if issubclass(cls, OSError):
        error: HoltError = cls(number, message)
        # By name: a second parent may come before OSError and take no arguments.
        error.errno, error.strerror = number, message  # type: ignore[attr-defined]
        error.filename = fields["object"] or None  # type: ignore[attr-defined]
    else:
        error = cls(message)
    error.message = message
    for name, value in fields.items():
        setattr(error, name, value)
    return error
