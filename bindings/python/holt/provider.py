# SPDX-License-Identifier: Apache-2.0
"""The provider: each thread of each user has a sandbox of its own, the same one turn after turn."""

from __future__ import annotations

import atexit
import logging
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _call, errors
from ._call import Handle, Sink, Strings, blocking, call, call_with, milliseconds, new_struct
from ._loop import readable
from ._native import ffi, lib
from .config import Config
from .home import Home
from .identity import derive_sandbox_scope_token
from .sandbox import Sandbox

_log = logging.getLogger("holt")
_told: weakref.WeakSet[Provider] = weakref.WeakSet()


@atexit.register
def _end_events() -> None:
    # No thread of the library may come back into an interpreter that is going away.
    for provider in list(_told):
        provider.close()


@dataclass(frozen=True)
class ProviderEvent:
    """Something that has happened to a sandbox."""

    kind: str  #: "created", "reclaimed", "released", "destroyed" or "overshot"
    id: str
    reason: str  #: of a destruction, such as "idle_timeout"; else ""


@dataclass(frozen=True)
class ProviderStats:
    """What is in the pool, and what this provider did since it was made."""

    replicas: int
    active: int  #: in the pool, all processes together, as the next three
    warm: int
    stopped: int
    making: int
    active_here: int
    acquiring: int
    created: int
    reclaimed: int
    reused: int
    released: int
    evicted: int
    expired: int
    unhealthy: int
    invalidated: int
    collisions: int
    overshot: int


@dataclass(frozen=True)
class PoolEntry:
    """One sandbox of the pool, whoever has it."""

    name: str  #: of its box
    user_id: str | None
    thread_id: str | None
    state: str  #: "making", "active", "warm" or "stopped"
    since: float  #: seconds since 1970
    holder: str  #: who has it, or had it last, for humans; "" for nobody


class Provider:
    """Sandboxes by user and thread: acquire, use, release, and the same one again next turn.

        provider = holt.Provider(config={"image": "python:3.12-slim"})
        sandbox = provider.get(provider.acquire("thread-1", user_id="ann"))
        sandbox.execute_command("echo hello >note")
        provider.release(sandbox.id)

    Args:
        home: None: the configuration's, else as Home() has it.
        config: a Config, or the values of its section as a mapping.
        on_event: called on the thread that did it; must not shut the provider down.
        user, cwd, user_data, text_errors: of the sandboxes, as for Box.sandbox.

    All methods may be called from any thread, many at once. What is active here becomes warm with
    the end of the process; `shutdown` ends it.
    """

    def __init__(
        self,
        home: Home | None = None,
        config: Config | Mapping[str, Any] | None = None,
        *,
        on_event: Callable[[ProviderEvent], Any] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        user_data: str | None = None,
        text_errors: bool = False,
    ) -> None:
        self._config = config if isinstance(config, Config) else Config.of(config)
        self._home = home if home is not None else _home_of(self._config)
        self._sink = Sink(on_event) if on_event else None
        keep = Strings()
        sandbox = new_struct(
            "holt_sandbox_options",
            user=keep.one(user, "user"),
            cwd=keep.one(cwd, "cwd"),
            user_data=keep.one(user_data, "user_data"),
            flags=lib.HOLT_SANDBOX_TEXT if text_errors else 0,
        )
        options = new_struct("holt_provider_options", sandbox=sandbox)
        if self._sink:
            options.event = lib.native_provider_event
            options.user = self._sink.handle
        ret = ffi.new("holt_provider **")
        with self._home._handle as home_pointer, self._config._handle as config_pointer:
            blocking(
                call,
                lib.holt_provider_open,
                home_pointer,
                config_pointer,
                options,
                ret,
                undo=lambda code: lib.holt_provider_free(ret[0]),
            )
        self._handle = Handle(
            ret[0], lib.holt_provider_free, "the provider", self._home._handle, self._sink
        )
        if self._sink:
            _told.add(self)

    def __enter__(self) -> Provider:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()
        self.close()

    @property
    def home(self) -> Home:
        """Where its sandboxes are."""
        return self._home

    @property
    def config(self) -> Config:
        """What it was made with."""
        return self._config

    def close(self) -> None:
        """Let the provider go without ending sandboxes: what is active here becomes warm."""
        self._handle.close()

    # --- Turns ------------------------------------------------------------------------------------

    def acquire(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        timeout: float | None = None,
    ) -> str:
        """Get the id of a thread's sandbox: the active one, a warm one, or a new one.

        Args:
            thread_id: None: a sandbox for one use, which nobody can acquire again.
            user_id: None is another user than "".
            timeout: seconds of the whole call; None: the configuration's acquire_timeout.

        Raises:
            SandboxIdentityCollisionError: where another user and thread has the same id.
            RuntimeError: after shutdown, and with a thread after reset.
        """

        def run() -> str:
            ret = ffi.new("char[]", lib.HOLT_SANDBOX_ID_MAX + 1)
            scope, keep = _scope(user_id, thread_id)
            options = new_struct(
                "holt_acquire_options",
                timeout_ms=milliseconds(timeout),
                cancel=_call.current_cancel(),
            )
            with self._handle as pointer:
                try:
                    call(lib.holt_provider_acquire, pointer, scope, options, ret)
                except errors.ExistsError as error:
                    raise _collision(error, user_id, thread_id) from error
            del keep
            return _call.text_of(ret)

        return blocking(run, undo=self._give_back)

    def _give_back(self, sandbox_id: str) -> None:
        try:
            self.release(sandbox_id)
        except errors.HoltError:
            _log.exception("cannot release sandbox %s after an interrupt", sandbox_id)

    async def acquire_async(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        timeout: float | None = None,
    ) -> str:
        """The same for asyncio, without a thread while it waits for its turn.

        Cancelling it gives its place up where it waits. A sandbox that is being made is made: it is
        active, and the next acquire of the same scope gets it.
        """
        _call.trace()
        scope, keep = _scope(user_id, thread_id)
        options = new_struct("holt_acquire_options", timeout_ms=milliseconds(timeout))
        ret, fd = ffi.new("holt_acquire **"), ffi.new("int *")
        with self._handle as pointer:
            call(lib.holt_provider_acquire_start, pointer, scope, options, ffi.NULL, ffi.NULL, ret)
            try:
                call(lib.holt_acquire_event_fd, ret[0], fd)
                await readable(fd[0])
                found = ffi.new("char[]", lib.HOLT_SANDBOX_ID_MAX + 1)
                call(lib.holt_acquire_wait, ret[0], 0, found)
            except errors.ExistsError as error:
                raise _collision(error, user_id, thread_id) from error
            finally:
                lib.holt_acquire_free(ret[0])
        del keep
        return _call.text_of(found)

    def get(self, sandbox_id: str) -> Sandbox | None:
        """The active sandbox of an id, or None. Reads and writes nothing."""
        with self._handle as pointer:
            found = lib.holt_provider_get(pointer, _call.text_bytes(sandbox_id, "sandbox_id"))
        if not found:
            return None
        return Sandbox(Handle(found, lib.holt_sandbox_free, "the sandbox", self._handle))

    def release(self, sandbox_id: str) -> None:
        """Park an active sandbox: it is warm from now on. An id that is not active is fine."""
        name = _call.text_bytes(sandbox_id, "sandbox_id")

        def run() -> None:
            with self._handle as pointer:
                call(lib.holt_provider_release, pointer, name)

        blocking(run)

    def acquire_lease(
        self,
        owner: str,
        thread_id: str,
        *,
        user_id: str | None = None,
        park: bool = True,
        timeout: float | None = None,
    ) -> str:
        """Acquire for one of several owners: the sandbox is parked when the last one has released
        it, and only where one of them asked for that by `park`."""

        def run() -> str:
            ret = ffi.new("char[]", lib.HOLT_SANDBOX_ID_MAX + 1)
            scope, keep = _scope(user_id, thread_id)
            options = new_struct(
                "holt_acquire_options",
                timeout_ms=milliseconds(timeout),
                cancel=_call.current_cancel(),
            )
            with self._handle as pointer:
                try:
                    call(
                        lib.holt_lease_acquire,
                        pointer,
                        _call.text_bytes(owner, "owner"),
                        scope,
                        1 if park else 0,
                        options,
                        ret,
                    )
                except errors.ExistsError as error:
                    raise _collision(error, user_id, thread_id) from error
            del keep
            return _call.text_of(ret)

        return blocking(run, undo=lambda sandbox_id: self.release_lease(owner))

    def release_lease(self, owner: str) -> None:
        """End what an owner acquired; one that has nothing is fine."""
        name = _call.text_bytes(owner, "owner")

        def run() -> None:
            with self._handle as pointer:
                call(lib.holt_lease_release, pointer, name)

        blocking(run)

    # --- The whole --------------------------------------------------------------------------------

    def reset(self) -> None:
        """Park what is active here. Later acquires with a thread fail; machines run on, warm."""

        def run() -> None:
            with self._handle as pointer:
                lib.holt_provider_reset(pointer)

        blocking(run)

    def shutdown(self) -> None:
        """End what is active here and what was last released here; later acquires fail. Again is
        fine."""
        if self._handle.closed:
            return

        def run() -> None:
            with self._handle as pointer:
                call(lib.holt_provider_shutdown, pointer)

        blocking(run)

    def stats(self) -> ProviderStats:
        """Count what is in the pool, and what this provider did."""
        stats = new_struct("holt_provider_stats")
        with self._handle as pointer:
            call(lib.holt_provider_get_stats, pointer, stats)
        return ProviderStats(
            **{name: getattr(stats, name) for name in ProviderStats.__dataclass_fields__}
        )

    def entries(self) -> list[PoolEntry]:
        """All sandboxes of the pool, whoever has them."""
        found: list[PoolEntry] = []
        sink = Sink(found.append)
        with self._handle as pointer:
            call_with(sink, lib.holt_provider_list, pointer, lib.native_pool_entry, sink.handle)
        return found


def _home_of(config: Config) -> Home:
    options = new_struct("holt_home_options")
    with config._handle as pointer:
        lib.holt_config_home_options(pointer, options)
        return Home(
            ffi.string(options.path).decode("utf-8", "surrogateescape") if options.path else None,
            kernel=ffi.string(options.kernel).decode("utf-8", "surrogateescape")
            if options.kernel
            else None,
            max_memory=options.max_memory_bytes,
        )


def _scope(user_id: str | None, thread_id: str | None) -> tuple[Any, list[Any]]:
    """The library's scope, and what has to live as long."""
    keep: list[Any] = []
    scope = new_struct("holt_scope")
    for name, value in (("user", user_id), ("thread", thread_id)):
        if value is None:
            continue
        data = value.encode("utf-8")
        keep.append(ffi.new("char[]", data))
        setattr(scope, name, keep[-1])
        setattr(scope, f"{name}_len", len(data))
    return scope, keep


def _collision(
    error: errors.ExistsError, user_id: str | None, thread_id: str | None
) -> errors.SandboxIdentityCollisionError:
    token = derive_sandbox_scope_token(user_id=user_id, thread_id=thread_id)
    return errors.SandboxIdentityCollisionError(
        f"Sandbox ID collision for {token}: {error.message}; asked for by user {user_id!r}, "
        f"thread {thread_id!r}"
    )


@ffi.def_extern()  # type: ignore[untyped-decorator]
def native_provider_event(event: Any, user: Any) -> None:
    sink: Sink = ffi.from_handle(user)
    try:
        with _call.on_library_thread():
            sink.function(
                ProviderEvent(
                    kind=_call.text_of(lib.holt_provider_event_name(event.kind)),
                    id=_call.text_of(event.id),
                    reason=_call.text_of(event.reason),
                )
            )
    except Exception:
        _log.exception("the callback for events of a provider failed")


def _scope_text(data: Any, size: int) -> str | None:
    return bytes(ffi.buffer(data, size)).decode("utf-8", "replace") if data else None


@ffi.def_extern()  # type: ignore[untyped-decorator]
def native_pool_entry(entry: Any, user: Any) -> int:
    sink: Sink = ffi.from_handle(user)
    sink.function(
        PoolEntry(
            name=_call.text_of(entry.name),
            user_id=_scope_text(entry.user, entry.user_len),
            thread_id=_scope_text(entry.thread, entry.thread_len),
            state=_call.text_of(lib.holt_pool_state_name(entry.state)),
            since=entry.since_ms / 1000,
            holder=_call.text_of(entry.holder_label),
        )
    )
    return 0
