# SPDX-License-Identifier: Apache-2.0
"""Local micro-VM sandboxes for agents.

    import holt

    with holt.Home().box("alpine") as box:
        print(box.exec(["uname", "-a"]).stdout.decode())

`Home` is the directory with images and boxes, `Box` a micro-VM, `Sandbox` what an agent does in
one, `Provider` gives each thread of each user a sandbox of its own, turn after turn. `holt.aio` is
the same for asyncio. Sizes are bytes and times seconds unless the name says otherwise.
"""

from ._call import text_of as _text_of
from ._call import trace_id
from ._native import lib as _lib
from .box import Box, BoxInfo, BoxOptions, BoxStats
from .config import Config
from .errors import (
    BusyError,
    CancelledError,
    ClosedError,
    DeadlineError,
    DeniedError,
    ExistsError,
    ForkedError,
    GuestLostError,
    HoltError,
    InputOutputError,
    InternalError,
    InvalidError,
    InvalidPathError,
    IsDirectoryError,
    LimitError,
    MemoryLimitError,
    NotDirectoryError,
    NotFoundError,
    PatternError,
    ProtocolError,
    SandboxIdentityCollisionError,
    UnavailableError,
    UnsupportedError,
)
from .exec import Exec, ExecResult
from .home import Home, Image, PullEvent
from .identity import (
    SANDBOX_ID_VERSION,
    derive_sandbox_scope_token,
    is_sandbox_scope_token,
)
from .provider import PoolEntry, Provider, ProviderEvent, ProviderStats
from .sandbox import CommandResult, FileInfo, GrepMatch, Sandbox

__version__ = _text_of(_lib.holt_version())

__all__ = [
    "SANDBOX_ID_VERSION",
    "Box",
    "BoxInfo",
    "BoxOptions",
    "BoxStats",
    "BusyError",
    "CancelledError",
    "ClosedError",
    "CommandResult",
    "Config",
    "DeadlineError",
    "DeniedError",
    "Exec",
    "ExecResult",
    "ExistsError",
    "FileInfo",
    "ForkedError",
    "GrepMatch",
    "GuestLostError",
    "HoltError",
    "Home",
    "Image",
    "InputOutputError",
    "InternalError",
    "InvalidError",
    "InvalidPathError",
    "IsDirectoryError",
    "LimitError",
    "MemoryLimitError",
    "NotDirectoryError",
    "NotFoundError",
    "PatternError",
    "PoolEntry",
    "ProtocolError",
    "Provider",
    "ProviderEvent",
    "ProviderStats",
    "PullEvent",
    "Sandbox",
    "SandboxIdentityCollisionError",
    "UnavailableError",
    "UnsupportedError",
    "derive_sandbox_scope_token",
    "is_sandbox_scope_token",
    "trace_id",
]
