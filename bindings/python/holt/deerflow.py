# SPDX-License-Identifier: Apache-2.0
"""Holt as the sandbox provider of DeerFlow; docs/deerflow.md tells how it is set up.

    sandbox:
      use: holt.deerflow:HoltSandboxProvider

DeerFlow is looked for when this module is imported. Where it is, the two classes are subclasses of
its own, and matches of grep have its class; where it is not, they work the same with a
configuration that is given.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import threading
from collections.abc import Mapping
from typing import Any, ClassVar

import holt

from . import _call
from ._native import ffi
from .errors import InvalidError, SandboxIdentityCollisionError
from .sandbox import environment

__all__ = ["HoltSandbox", "HoltSandboxProvider", "SandboxIdentityCollisionError"]

#: What boxes are made of where the configuration names no image.
DEFAULT_IMAGE = "python:3.12-slim"
#: Seconds of a command where neither the call nor the configuration says so.
DEFAULT_COMMAND_TIMEOUT = 600

_SHUT_DOWN = "Holt provider is shutting down; cannot acquire sandbox"
_RESET = "AcquireSerializer is closed"

_log = logging.getLogger(__name__)


def _of_deerflow(module: str, name: str) -> Any:
    """A class of DeerFlow, or None."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        _log.debug("DeerFlow is not there: %s", error)
        return None


_SandboxBase: Any = _of_deerflow("deerflow.sandbox.sandbox", "Sandbox") or object
_ProviderBase: Any = _of_deerflow("deerflow.sandbox.sandbox_provider", "SandboxProvider") or object
_Match: Any = _of_deerflow("deerflow.sandbox.search", "GrepMatch") or holt.GrepMatch


# --- Configuration --------------------------------------------------------------------------------


def _deerflow_config() -> Any:
    try:
        from deerflow.config import get_app_config
    except ImportError as error:
        raise ImportError(
            "HoltSandboxProvider reads DeerFlow's configuration, and DeerFlow cannot be imported "
            f"({error}): install deerflow-harness beside holt-sandbox, or give the configuration: "
            "HoltSandboxProvider({'image': ...})"
        ) from error
    return get_app_config().sandbox


def _values(config: Any) -> dict[str, Any]:
    """The keys of a configuration object that are set: a model of pydantic, a mapping, or whatever
    has attributes."""
    if isinstance(config, Mapping):
        found = dict(config)
    elif hasattr(config, "model_dump"):
        # Defaults of DeerFlow's own model are not what somebody wrote.
        found = config.model_dump(mode="json", exclude_unset=True)
    else:
        names = [*getattr(config, "__slots__", ()), *getattr(config, "__dict__", ())]
        found = {n: getattr(config, n, None) for n in names if not n.startswith("_")}
    return {str(key): value for key, value in found.items() if value is not None}


def _network(value: Any) -> Any:
    """Its keys as Holt has them: the list of an allow-list may have any name."""
    if not isinstance(value, Mapping):
        return value
    found = {key: one for key, one in value.items() if one is not None}
    lists = [key for key, one in found.items() if isinstance(one, (list, tuple))]
    if "allow" not in found and len(lists) == 1:
        found["allow"] = found.pop(lists[0])
    if not found.get("allow") and found.get("mode") != "allowlist":
        found.pop("allow", None)
    return found


class _Settings:
    """A configuration object, as Holt has it."""

    def __init__(self, config: Any) -> None:
        values = _values(config)
        values["image"] = values.get("image") or DEFAULT_IMAGE
        if "network" in values:
            values["network"] = _network(values["network"])
        # DeerFlow has put the values of "$NAME" in, and the library would look again.
        variables = values.get("environment")
        self.environment: dict[str, str] = {}
        if isinstance(variables, Mapping):
            literal = {
                key: one
                for key, one in variables.items()
                if isinstance(one, str) and one.startswith("$")
            }
            environment(literal)  # the names are checked
            self.environment = literal
            values["environment"] = {k: v for k, v in variables.items() if k not in literal}
        self.config = holt.Config.of(values)
        self.command_timeout = float(values.get("bash_command_timeout", DEFAULT_COMMAND_TIMEOUT))
        for warning in self.config.warnings():
            _log.debug("configuration: %s", warning)


# --- The sandbox ----------------------------------------------------------------------------------


class HoltSandbox(_SandboxBase):  # type: ignore[misc]
    """A sandbox of Holt as DeerFlow uses it; `sandbox` is the one of the library.

    Any method may be called from any thread, several at once. Reading raises what Python has for
    the case (FileNotFoundError and so on), so that nobody takes a message for content.
    """

    #: Each command has a shell of its own: no directory or variable is left for the next one.
    persistent_shell_sessions: ClassVar[bool | None] = False

    def __init__(
        self,
        sandbox: holt.Sandbox,
        *,
        environment: Mapping[str, str] | None = None,
        command_timeout: float = DEFAULT_COMMAND_TIMEOUT,
    ) -> None:
        if _SandboxBase is not object:
            super().__init__(sandbox.id)
        self.sandbox = sandbox
        self._environment = dict(environment or {})
        self._command_timeout = command_timeout

    def __repr__(self) -> str:
        return f"<holt.deerflow.HoltSandbox {self.id}>"

    @property
    def id(self) -> str:
        """The sandbox's id."""
        return self.sandbox.id

    def execute_command(
        self, command: str, env: dict[str, str] | None = None, timeout: float | None = None
    ) -> str:
        """Run a command line in a shell of its own; give its output and end as one text.

        Args:
            timeout: seconds; None: the configuration's bash_command_timeout.

        Raises:
            ValueError: for a variable without a POSIX name, before anything runs.
        """
        limit = self._command_timeout if timeout is None else timeout
        variables = {**self._environment, **env} if env else self._environment
        return self.sandbox.execute_command(command, variables or None, limit)

    def execute_command_in_scope(
        self,
        command: str,
        env: dict[str, str] | None = None,
        timeout: float | None = None,
        *,
        scope_id: str | None = None,
    ) -> str:
        """As execute_command: no command leaves a session behind, so scopes make no difference."""
        return self.execute_command(command, env, timeout)

    def release_command_scope(self, scope_id: str) -> None:
        """Nothing is to be released."""

    def read_file(
        self, path: str, start_line: int | None = None, end_line: int | None = None
    ) -> str:
        """Read a text file, or the lines from start_line (from 1) to end_line, both included.

        Raises:
            OSError: FileNotFoundError, IsADirectoryError, PermissionError and others.
            UnicodeDecodeError: where the content is not UTF-8.
        """
        return self.sandbox.read_file(path, start_line, end_line)

    def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Replace the content of a text file in one step, or add to its end."""
        self.sandbox.write_file(path, content, append)

    def update_file(self, path: str, content: bytes) -> None:
        """Replace the content of a file by bytes, in one step."""
        self.sandbox.update_file(path, content)

    def download_file(self, path: str) -> bytes:
        """Read a file beneath /mnt/user-data, of at most 100 MiB.

        Raises:
            PermissionError: for a path elsewhere, before anything is read.
            OSError: with EFBIG for a larger file.
        """
        return self.sandbox.download_file(path)

    def list_dir(self, path: str, max_depth: int = 2) -> list[str]:
        """List files and directories beneath a directory, itself first, at most 500 together."""
        return self.sandbox.list_dir(path, max_depth)

    def glob(
        self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200
    ) -> tuple[list[str], bool]:
        """Find files by a pattern, and tell whether there are more."""
        return self.sandbox.glob(path, pattern, include_dirs=include_dirs, max_results=max_results)

    def grep(
        self,
        path: str,
        pattern: str,
        *,
        glob: str | None = None,
        literal: bool = False,
        case_sensitive: bool = False,
        max_results: int = 100,
    ) -> tuple[list[Any], bool]:
        """Find lines by a regular expression; matches have DeerFlow's class where that is there."""
        found, more = self.sandbox.grep(
            path,
            pattern,
            glob=glob,
            literal=literal,
            case_sensitive=case_sensitive,
            max_results=max_results,
        )
        if _Match is holt.GrepMatch:
            return found, more
        return [
            _Match(path=one.path, line_number=one.line_number, line=one.line) for one in found
        ], more


# --- The provider ---------------------------------------------------------------------------------


class HoltSandboxProvider(_ProviderBase):  # type: ignore[misc]
    """DeerFlow's sandboxes as micro-VMs of Holt, one for each thread of each user.

    Args:
        config: DeerFlow's section "sandbox", or any mapping or object with such keys; None: asked
            of DeerFlow. It is read once.
        home: None: the configuration's, else as holt.Home() has it.
        options: those of holt.Provider.

    All methods may be called from any thread. The end of the process shuts it down.

    Raises:
        ImportError: without a configuration, and without DeerFlow.
        ValueError: for a value out of its range; the message names it.
    """

    uses_thread_data_mounts: bool = False
    needs_upload_permission_adjustment: bool = True

    def __init__(
        self, config: Any = None, *, home: holt.Home | None = None, **options: Any
    ) -> None:
        settings = _Settings(_deerflow_config() if config is None else config)
        self._environment = settings.environment
        self._command_timeout = settings.command_timeout
        self._provider = holt.Provider(home, settings.config, **options)
        self._own_home = self._provider.home if home is None else None
        self._lock = threading.Lock()  # of the next three
        self._active: dict[str, HoltSandbox] = {}
        self._was_reset = False
        self._is_shut_down = False
        self._shutdown_lock = threading.Lock()
        atexit.register(self._at_exit)

    @property
    def provider(self) -> holt.Provider:
        """The library's, for what DeerFlow does not know: statistics, the pool."""
        return self._provider

    # --- Turns ------------------------------------------------------------------------------------

    def acquire(self, thread_id: str | None = None, *, user_id: str | None = None) -> str:
        """Get the id of a thread's sandbox: the active one, a warm one, or a new one.

        Raises:
            SandboxIdentityCollisionError: where another user and thread has the same id.
            RuntimeError: after shutdown, and with a thread after reset.
        """
        self._admit(thread_id)
        try:
            return self._provider.acquire(thread_id, user_id=user_id)
        except holt.ClosedError:
            self._admit(thread_id)
            raise

    async def acquire_async(
        self, thread_id: str | None = None, *, user_id: str | None = None
    ) -> str:
        """The same for asyncio, without a thread while it waits for its turn.

        Cancelling it does not undo what is being made: the next acquire of the scope gets it.
        """
        self._admit(thread_id)
        try:
            return await self._provider.acquire_async(thread_id, user_id=user_id)
        except holt.ClosedError:
            self._admit(thread_id)
            raise

    def _admit(self, thread_id: str | None) -> None:
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError(_SHUT_DOWN)
            if self._was_reset and thread_id is not None:
                raise RuntimeError(_RESET)

    def get(self, sandbox_id: str) -> HoltSandbox | None:
        """The active sandbox of an id, or None; the same object as long as it is active. Reads and
        writes nothing."""
        with self._lock:
            found = None if self._is_shut_down else self._provider.get(sandbox_id)
            if found is None:
                self._active.pop(sandbox_id, None)
                return None
            known = self._active.get(sandbox_id)
            if known is None or not _is_same(known.sandbox, found):
                known = self._active[sandbox_id] = HoltSandbox(
                    found, environment=self._environment, command_timeout=self._command_timeout
                )
            return known

    def release(self, sandbox_id: str) -> None:
        """Park an active sandbox: it is warm from now on. An id that is not active is fine."""
        # Before the release: a get that comes between finds the same sandbox of the library.
        with self._lock:
            self._active.pop(sandbox_id, None)
        with contextlib.suppress(holt.ClosedError):
            self._provider.release(sandbox_id)

    def acquire_lease(
        self, owner: str, thread_id: str, *, user_id: str | None = None, park: bool = True
    ) -> str:
        """Acquire for one of several executions: the sandbox is parked when the last one has
        released it, and only where one of them asked for that by `park`.

        Raises:
            RuntimeError: where the owner has the sandbox of another thread; and as acquire.
        """
        self._admit(thread_id)
        try:
            return self._provider.acquire_lease(owner, thread_id, user_id=user_id, park=park)
        except holt.ClosedError:
            self._admit(thread_id)
            raise
        except InvalidError as error:
            if "cannot move" not in error.message:
                raise
            raise RuntimeError(f"owner {owner!r} cannot move between thread identities") from error

    def release_lease(self, owner: str) -> None:
        """End what an owner acquired; one that has nothing is fine."""
        with contextlib.suppress(holt.ClosedError):
            self._provider.release_lease(owner)

    # --- The whole --------------------------------------------------------------------------------

    def reset(self) -> None:
        """Park what is active here. Later acquires with a thread fail; machines run on, warm."""
        with self._lock:
            self._was_reset = True
            self._active.clear()
        with contextlib.suppress(holt.ClosedError):
            self._provider.reset()

    def shutdown(self) -> None:
        """End what is active here and what was last released here; later acquires fail. Again is
        fine, and tries again where it failed."""
        with self._shutdown_lock:
            with self._lock:
                if self._is_shut_down:
                    return
                self._is_shut_down = True
                self._active.clear()
            try:
                self._provider.shutdown()
            except BaseException:
                with self._lock:
                    self._is_shut_down = False
                raise
            self._provider.close()
            if self._own_home is not None:
                self._own_home.close()
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        # Directly: a thread, which a call of the main thread takes, can no longer be started.
        try:
            _call.with_cancel(ffi.NULL, self.shutdown)
        except Exception:
            _log.exception("cannot shut down at the end of the process")


def _is_same(one: holt.Sandbox, other: holt.Sandbox) -> bool:
    """Whether two objects stand for one sandbox of the library, which counts its users."""
    try:
        with one._handle as first, other._handle as second:
            return bool(first == second)
    except (holt.HoltError, holt.ForkedError):
        return False
