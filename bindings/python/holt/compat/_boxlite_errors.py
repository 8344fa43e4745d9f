# SPDX-License-Identifier: Apache-2.0
"""The errors of the BoxLite SDK, by the names and codes that it has."""

from __future__ import annotations

import holt

__all__ = [
    "AlreadyExistsError",
    "BoxliteError",
    "ConfigError",
    "DatabaseError",
    "EngineError",
    "ExecError",
    "ExecutionError",
    "ImageError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidStateError",
    "MetadataError",
    "NetworkError",
    "NotFoundError",
    "ParseError",
    "ResourceExhaustedError",
    "SessionReapedError",
    "StoppedError",
    "StorageError",
    "TimeoutError",
    "UnsupportedError",
    "UpstreamUnavailableError",
]


class BoxliteError(Exception):
    """What all of them are."""


class ExecError(BoxliteError):
    """A program that was not to fail has failed; nothing here raises it."""

    def __init__(self, command: str, exit_code: int, stderr: str) -> None:
        super().__init__(f"Command '{command}' failed with exit code {exit_code}: {stderr}")
        self.command = command
        self.exit_code = exit_code
        self.stderr = stderr


class TimeoutError(BoxliteError):
    """The time was over."""


class ParseError(BoxliteError):
    """Output that could not be read; nothing here raises it."""


class _RuntimeFailure(BoxliteError, RuntimeError):
    """What the engine reports; `code` is the name for programs."""

    code = "internal"


class InvalidArgumentError(_RuntimeFailure):
    """A value is refused."""

    code = "invalid_argument"


class UnsupportedError(_RuntimeFailure):
    """It cannot be done here."""

    code = "unsupported"


class NotFoundError(_RuntimeFailure):
    """The box or image does not exist."""

    code = "not_found"


class SessionReapedError(_RuntimeFailure):
    """Nothing here raises it."""

    code = "session_reaped"


class AlreadyExistsError(_RuntimeFailure):
    """The name is taken."""

    code = "already_exists"


class InvalidStateError(_RuntimeFailure):
    """Not in this state."""

    code = "invalid_state"


class StoppedError(_RuntimeFailure):
    """The box does not run."""

    code = "stopped"


class ImageError(_RuntimeFailure):
    """An image cannot be loaded."""

    code = "image_pull_failed"


class ExecutionError(_RuntimeFailure):
    """A program cannot be started."""

    code = "execution_failed"


class ResourceExhaustedError(_RuntimeFailure):
    """A limit was reached."""

    code = "resource_exhausted"


class NetworkError(_RuntimeFailure):
    """The network failed."""

    code = "network_unavailable"


class UpstreamUnavailableError(_RuntimeFailure):
    """Not now."""

    code = "upstream_unavailable"


class EngineError(_RuntimeFailure):
    """The machine is lost."""

    code = "engine_unavailable"


class StorageError(_RuntimeFailure):
    """Reading or writing failed."""

    code = "storage_error"


class DatabaseError(_RuntimeFailure):
    """Nothing here raises it."""

    code = "database_error"


class MetadataError(_RuntimeFailure):
    """Nothing here raises it."""

    code = "metadata_error"


class ConfigError(_RuntimeFailure):
    """Something is set up in a wrong way."""

    code = "config_error"


class InternalError(_RuntimeFailure):
    """A bug."""

    code = "internal"


_CLASSES: dict[str, type[BoxliteError]] = {
    "BUSY": UpstreamUnavailableError,
    "CANCELLED": InvalidStateError,
    "CLOSED": StoppedError,
    "DENIED": ConfigError,
    "EXISTS": AlreadyExistsError,
    "GUEST_LOST": EngineError,
    "INVALID": InvalidArgumentError,
    "IO": StorageError,
    "LIMIT": ResourceExhaustedError,
    "NO_MEMORY": ResourceExhaustedError,
    "NOT_FOUND": NotFoundError,
    "PROTOCOL": EngineError,
    "TIMEOUT": TimeoutError,
    "UNAVAILABLE": UpstreamUnavailableError,
    "UNSUPPORTED": UnsupportedError,
}

# Programs sort such errors by words. A box that is over is told by one of these; words for a lost
# machine and for "not now" are in the library's own text.
_OVER = {"the box does not run": "box has been stopped", "the box is removed": "no such box"}


def of_holt(error: holt.HoltError) -> BoxliteError:
    """The SDK's error for one of Holt's."""
    text = error.text.removeprefix("Error: ") or error.message
    if error.message in _OVER:
        text = f"{error.message}: {_OVER[error.message]}"
    return _CLASSES.get(error.code, InternalError)(text)
