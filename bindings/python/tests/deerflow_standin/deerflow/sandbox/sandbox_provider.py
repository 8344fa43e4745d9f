# SPDX-License-Identifier: Apache-2.0
"""The base class of providers, and the one provider of a process (C-189 to C-191)."""

from __future__ import annotations

import asyncio
import importlib
import threading
from abc import ABC, abstractmethod
from typing import Any

from deerflow.config import get_app_config
from deerflow.sandbox.sandbox import Sandbox


class SandboxProvider(ABC):
    uses_thread_data_mounts: bool = False
    needs_upload_permission_adjustment: bool = False

    @abstractmethod
    def acquire(self, thread_id: str | None = None, *, user_id: str | None = None) -> str: ...

    async def acquire_async(
        self, thread_id: str | None = None, *, user_id: str | None = None
    ) -> str:
        return await asyncio.to_thread(self.acquire, thread_id, user_id=user_id)

    @abstractmethod
    def get(self, sandbox_id: str) -> Sandbox | None: ...

    @abstractmethod
    def release(self, sandbox_id: str) -> None: ...

    def reset(self) -> None:  # noqa: B027
        pass


_lock = threading.Lock()
_one: SandboxProvider | None = None


def _swap(new: SandboxProvider | None) -> Any:
    global _one
    with _lock:
        old, _one = _one, new
    return old


def get_sandbox_provider(**options: Any) -> SandboxProvider:
    global _one
    with _lock:
        if _one is not None:
            return _one
    module, _, name = get_app_config().sandbox.use.partition(":")
    cls = getattr(importlib.import_module(module), name)
    if not issubclass(cls, SandboxProvider):
        raise ValueError(f"{module}:{name} is no SandboxProvider")
    made: Any = cls(**options)
    with _lock:
        if _one is None:
            _one = made
            return _one
        winner = _one
    made.shutdown()
    return winner


def reset_sandbox_provider() -> None:
    if (old := _swap(None)) is not None:
        old.reset()


def shutdown_sandbox_provider() -> None:
    if (old := _swap(None)) is not None and hasattr(old, "shutdown"):
        old.shutdown()
