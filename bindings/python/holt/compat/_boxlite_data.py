# SPDX-License-Identifier: Apache-2.0
"""What the BoxLite SDK has as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _boxlite_errors as errors

_NOT_HERE = (
    "advanced",
    "auto_resume",
    "auto_stop",
    "cmd",
    "entrypoint",
    "network",
    "ports",
    "secrets",
    "tty",
    "volumes",
)


@dataclass
class ExecResult:
    """How a program ended, and what it wrote."""

    exit_code: int  #: negative: the signal that killed it; 124: its time was over
    stdout: str
    stderr: str
    error_message: str | None = None


@dataclass
class BoxStateInfo:
    """The state of a box."""

    status: str  #: "configured", "running", "paused", "stopping", "stopped"
    running: bool
    pid: int | None = None


@dataclass
class BoxInfo:
    """Facts about a box."""

    id: str
    name: str | None
    state: BoxStateInfo
    created_at: str  #: ISO 8601
    image: str
    cpus: int
    memory_mib: int


@dataclass
class Options:
    """Of a runtime: where its boxes are; None: as holt.Home() has it."""

    home_dir: str | None = None


@dataclass
class BoxOptions:
    """How a box is made. What Holt has nothing for is refused unless it is left alone."""

    image: str | None = None
    rootfs_path: str | None = None  #: an OCI layout, which is imported
    cpus: int | None = None
    memory_mib: int | None = None
    disk_size_gb: int | None = None
    working_dir: str | None = None
    env: Mapping[str, str] | Iterable[tuple[str, str]] = ()
    auto_remove: bool | None = None  #: None: True
    auto_delete: int | None = None  #: 0: as auto_remove=False
    detach: bool | None = None  #: None: True for a box that has a name
    user: str | None = None
    advanced: Any = None
    auto_resume: Any = None
    auto_stop: Any = None
    cmd: Any = None
    entrypoint: Any = None
    network: Any = None
    ports: Any = None
    secrets: Any = None
    tty: Any = None
    volumes: Any = None

    def check(self) -> None:
        """Refuse what cannot be done here."""
        if not self.image and not self.rootfs_path:
            raise ValueError("Either 'image' or 'rootfs_path' must be provided")
        for name in _NOT_HERE:
            if getattr(self, name):
                raise errors.UnsupportedError(f"Holt's module has nothing for '{name}' of a box")

    @property
    def keep(self) -> bool:
        """Whether the box stays after its end."""
        if self.auto_delete is not None:
            return self.auto_delete == 0
        return self.auto_remove is False
