# SPDX-License-Identifier: Apache-2.0
"""The base class of sandboxes, by the signatures of the contract (C-44, C-45)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from deerflow.sandbox.search import GrepMatch


class Sandbox(ABC):
    persistent_shell_sessions: ClassVar[bool | None] = None

    def __init__(self, id: str) -> None:
        self._id = id

    @property
    def id(self) -> str:
        return self._id

    @abstractmethod
    def execute_command(
        self, command: str, env: dict[str, str] | None = None, timeout: float | None = None
    ) -> str: ...

    def execute_command_in_scope(
        self,
        command: str,
        env: dict[str, str] | None = None,
        timeout: float | None = None,
        *,
        scope_id: str | None = None,
    ) -> str:
        return self.execute_command(command, env, timeout)

    def release_command_scope(self, scope_id: str) -> None:  # noqa: B027
        pass

    @abstractmethod
    def read_file(
        self, path: str, start_line: int | None = None, end_line: int | None = None
    ) -> str: ...

    @abstractmethod
    def write_file(self, path: str, content: str, append: bool = False) -> None: ...

    @abstractmethod
    def update_file(self, path: str, content: bytes) -> None: ...

    @abstractmethod
    def download_file(self, path: str) -> bytes: ...

    @abstractmethod
    def list_dir(self, path: str, max_depth: int = 2) -> list[str]: ...

    @abstractmethod
    def glob(
        self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200
    ) -> tuple[list[str], bool]: ...

    @abstractmethod
    def grep(
        self,
        path: str,
        pattern: str,
        *,
        glob: str | None = None,
        literal: bool = False,
        case_sensitive: bool = False,
        max_results: int = 100,
    ) -> tuple[list[GrepMatch], bool]: ...
