# SPDX-License-Identifier: Apache-2.0
"""Holt in the shape of the BoxLite SDK, for programs that were written for that one.

    import holt.compat.boxlite
    holt.compat.boxlite.install()

    from boxlite import SimpleBox

    async with SimpleBox(image="alpine") as box:
        print((await box.exec("uname", "-a")).stdout)

What there is: SimpleBox, SyncSimpleBox, Boxlite, Box, SyncBoxlite, SyncBox, BoxOptions, Options,
BoxInfo, BoxStateInfo, ExecResult and the error classes. docs/deerflow.md tells what differs.

All objects may be used from any thread and in any event loop. A named box lives on without its
process, and the next one finds it by its name; one without a name ends with its process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, TypeVar

import holt

from .. import _call
from .._native import lib
from . import _boxlite_errors as errors
from ._boxlite_errors import *  # noqa: F403
from ._boxlite_errors import __all__ as _error_names

__all__ = [
    "Box",
    "BoxInfo",
    "BoxOptions",
    "BoxStateInfo",
    "Boxlite",
    "ExecResult",
    "Options",
    "SimpleBox",
    "SyncBox",
    "SyncBoxlite",
    "SyncSimpleBox",
    "install",
]
__all__ += _error_names

T = TypeVar("T")

__version__ = f"0.10.8+holt.{holt.__version__}"

_GIB = 1 << 30
_STATES = {
    "created": "configured",
    "starting": "running",
    "running": "running",
    "paused": "paused",
    "stopping": "stopping",
    "exited": "stopped",
    "gone": "stopped",
}
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
_NOT_STARTED = (
    "Box not started. Use 'async with SimpleBox(...) as box:' or call 'await box.start()' first."
)


def install() -> None:
    """Register this module as `boxlite`, so that `from boxlite import SimpleBox` gives Holt's."""
    here = sys.modules[__name__]
    for name in ("boxlite", "boxlite.simplebox", "boxlite.exec", "boxlite.sync_api"):
        sys.modules[name] = here
    sys.modules["boxlite.errors"] = errors


# --- Calls ----------------------------------------------------------------------------------------


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except holt.HoltError as error:
        raise errors.of_holt(error) from error


class _Work:
    """A call on a thread of its own, since a program may run for as long as it likes."""

    def __init__(self, function: Callable[[], Any], undo: Callable[[Any], Any] | None) -> None:
        self.function = function
        self.undo = undo
        self.loop = asyncio.get_running_loop()
        self.over: asyncio.Future[Any] = self.loop.create_future()
        self.context = copy_context()
        self.token = _call.new_cancel()
        self.result: Any = None
        self.error: BaseException | None = None

    def start(self, function: Callable[[], None]) -> None:
        threading.Thread(target=function, name="holt-boxlite", daemon=True).start()

    def work(self) -> None:
        try:
            with _translated():
                self.result = self.context.run(_call.with_cancel, self.token, self.function)
        except BaseException as error:
            self.error = error
        try:
            self.loop.call_soon_threadsafe(self.tell)
        except RuntimeError:  # the loop was closed meanwhile
            self.take_back()

    def tell(self) -> None:
        if self.over.cancelled():
            self.start(self.take_back)
        elif self.error is not None:
            self.over.set_exception(self.error)
        else:
            self.over.set_result(None)

    def take_back(self) -> None:
        if self.error is None and self.undo is not None:
            self.undo(self.result)


async def _run(function: Callable[[], T], undo: Callable[[T], Any] | None = None) -> T:
    """Make a call that blocks. A cancelled one is ended; what it made all the same is undone."""
    work = _Work(function, undo)
    work.start(work.work)
    try:
        await work.over
    except asyncio.CancelledError:
        lib.holt_cancel_trigger(work.token)
        if not work.over.cancelled() and work.over.exception() is None:
            work.start(work.take_back)
        raise
    return work.result  # type: ignore[no-any-return]


# --- What the SDK has as data ---------------------------------------------------------------------


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


@dataclass(frozen=True)
class _Defaults:
    """What a handle adds to each program; a box itself does not know it."""

    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    user: str | None = None


# --- The work -------------------------------------------------------------------------------------


class _Runtime:
    """A home, opened when it is needed, and again in the child of a fork."""

    def __init__(self, options: Options | None = None) -> None:
        self._path = options.home_dir if options else None
        self._lock = threading.Lock()
        self._home: holt.Home | None = None
        self._pid = 0

    def home(self) -> holt.Home:
        with self._lock:
            if self._home is None or self._pid != os.getpid():
                self._home, self._pid = holt.Home(self._path), os.getpid()
            return self._home

    def create(self, options: BoxOptions, name: str | None) -> _Handle:
        options.check()
        image = options.image or ""
        if options.rootfs_path:
            image = self.home().import_image(options.rootfs_path, image or None).digest
        box = self.home().create(
            image,
            pull="never" if options.rootfs_path else "missing",
            name=name,
            memory_mib=options.memory_mib or 0,
            cpus=options.cpus or 0,
            disk_bytes=(options.disk_size_gb or 0) * _GIB,
            keep=options.keep,
        )
        return _Handle(box, _detach(options, name), _defaults(options))

    def find(self, ref: str) -> _Handle | None:
        try:
            box = self.home().get(ref)
        except FileNotFoundError:
            return None
        # The name of a box that has ended is known until somebody tidies up.
        return None if box.state == "gone" else _Handle(box, True, _Defaults())

    def find_or_create(self, options: BoxOptions, name: str | None) -> tuple[_Handle, bool]:
        found = self.find(name) if name else None
        if found is None:
            return self.create(options, name), True
        found.defaults = _defaults(options)
        return found, False

    def infos(self) -> list[BoxInfo]:
        return [_info(box) for box in self.home().boxes()]

    def remove(self, ref: str, force: bool) -> None:
        found = self.find(ref)
        if found is None:
            raise errors.NotFoundError(f"no such box: {ref!r}")
        found.box.remove(force=force)


def _detach(options: BoxOptions, name: str | None) -> bool:
    return name is not None if options.detach is None else options.detach


def _defaults(options: BoxOptions) -> _Defaults:
    return _Defaults(dict(options.env), options.working_dir, options.user)


class _Handle:
    """A box with what the SDK's calls need of it. Its methods block."""

    def __init__(self, box: holt.Box, detach: bool, defaults: _Defaults) -> None:
        self.box = box
        self.detach = detach
        self.defaults = defaults
        self._lock = threading.Lock()
        self._stopped = False  # by us: the next program starts it again, as the SDK has it

    def start(self) -> _Handle:
        with self._lock:
            self._stopped = False
            state = self.box.state
            if state in ("created", "exited"):
                self.box.start(detached=self.detach)
            elif state == "paused":
                self.box.unpause()
        return self

    def exec(
        self,
        cmd: str,
        args: Iterable[str],
        env: Mapping[str, str] | Iterable[tuple[str, str]] | None,
        user: str | None,
        timeout: float | None,
        cwd: str | None,
    ) -> ExecResult:
        command = [cmd, *args]
        variables = {**self.defaults.env, **dict(env or {})}
        options: dict[str, Any] = {
            "env": variables or None,
            "user": user or self.defaults.user,
            "cwd": cwd or self.defaults.cwd,
            "timeout": timeout,
        }
        if self._stopped:
            self.start()
        try:
            end = self._exec(command, options)
        except (holt.NotFoundError, holt.DeniedError) as error:
            if error.object != cmd:
                raise
            raise errors.ExecutionError(error.message) from error
        message = f"the program was killed after {timeout} seconds" if end.timed_out else None
        if end.out_of_memory:
            message = "the program was killed: out of memory"
        return ExecResult(
            exit_code=-end.signal if end.signal and not end.timed_out else end.exit_code,
            stdout=end.stdout.decode("utf-8", "replace"),
            stderr=end.stderr.decode("utf-8", "replace"),
            error_message=message,
        )

    def _exec(self, command: list[str], options: dict[str, Any]) -> holt.ExecResult:
        try:
            return self.box.exec(command, **options)
        except holt.ClosedError:
            # One that was found by its name, and does not run.
            if self.box.state not in ("created", "exited"):
                raise
        return self.start().box.exec(command, **options)

    def stop(self) -> None:
        """End it; it is removed unless it was made to be kept."""
        with self._lock:
            self._stopped = True
            if self.box.state not in ("created", "gone"):
                self.box.stop()

    def discard(self) -> None:
        self.box.discard()

    def info(self) -> BoxInfo:
        return _info(self.box)


def _info(box: holt.Box) -> BoxInfo:
    info = box.info()
    status = _STATES.get(info.state, "unknown")
    return BoxInfo(
        id=box.id,
        name=box.name,
        state=BoxStateInfo(status, status == "running", getattr(info, "pid", None) or None),
        created_at=datetime.fromtimestamp(info.created, timezone.utc).isoformat(),
        image=box.image,
        cpus=info.cpus,
        memory_mib=info.memory_mib,
    )


_default = _Runtime()


# --- For asyncio ----------------------------------------------------------------------------------


class Box:
    """A handle of a box."""

    def __init__(self, handle: _Handle) -> None:
        self._handle = handle

    @property
    def id(self) -> str:
        """Its id."""
        return self._handle.box.id

    @property
    def name(self) -> str | None:
        """Its name, or None."""
        return self._handle.box.name

    async def start(self) -> None:
        """Start it; one that runs is fine."""
        await _run(self._handle.start)

    async def exec(
        self,
        cmd: str,
        args: Iterable[str] | None = None,
        env: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
        *,
        user: str | None = None,
        timeout_secs: float | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a program to its end and collect its output (the SDK gives a handle of it)."""
        handle = self._handle
        return await _run(lambda: handle.exec(cmd, args or (), env, user, timeout_secs, cwd))

    async def info(self) -> BoxInfo:
        """Facts about it."""
        return await _run(self._handle.info)

    async def stop(self) -> None:
        """Stop it, and remove it unless it was made to be kept."""
        await _run(self._handle.stop)

    async def __aenter__(self) -> Box:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()


class Boxlite:
    """All boxes of a home."""

    def __init__(self, options: Options | None = None) -> None:
        self._runtime = _Runtime(options) if options else _default

    @staticmethod
    def default() -> Boxlite:
        """That of holt.Home()."""
        return Boxlite()

    async def create(self, options: BoxOptions, name: str | None = None) -> Box:
        """Make a box and start it."""
        runtime = self._runtime
        return Box(await _run(lambda: _started(runtime.create(options, name)), _Handle.discard))

    async def get(self, id_or_name: str) -> Box | None:
        """Find a box, or give None."""
        handle = await _run(lambda: self._runtime.find(id_or_name))
        return None if handle is None else Box(handle)

    async def get_or_create(self, options: BoxOptions, name: str | None = None) -> tuple[Box, bool]:
        """Find a box by its name or make it, and tell whether it was made."""
        handle, made = await _run(lambda: self._runtime.find_or_create(options, name))
        return Box(handle), made

    async def get_info(self, id_or_name: str) -> BoxInfo | None:
        """Facts about a box, or None."""
        handle = await _run(lambda: self._runtime.find(id_or_name))
        return None if handle is None else await _run(handle.info)

    async def list_info(self) -> list[BoxInfo]:
        """Facts about all boxes, whoever made them."""
        return await _run(self._runtime.infos)

    async def remove(self, id_or_name: str, force: bool = False) -> None:
        """Remove a box; with `force` also one that runs."""
        await _run(lambda: self._runtime.remove(id_or_name, force))


def _started(handle: _Handle) -> _Handle:
    try:
        return handle.start()
    except BaseException:
        handle.discard()
        raise


class SimpleBox:
    """A box for running programs.

    Args:
        runtime: a Boxlite; None: that of holt.Home().
        name: unique in the home; such a box lives on without this process, unless detach=False.
        auto_remove: it goes with its end.
        reuse_existing: one of that name is taken where it is there.
        options: the others of BoxOptions.
    """

    def __init__(
        self,
        image: str | None = None,
        rootfs_path: str | None = None,
        memory_mib: int | None = None,
        cpus: int | None = None,
        runtime: Boxlite | SyncBoxlite | None = None,
        name: str | None = None,
        auto_remove: bool = True,
        reuse_existing: bool = False,
        **options: Any,
    ) -> None:
        self._runtime = runtime._runtime if runtime is not None else _default
        self._options = BoxOptions(
            image=image,
            rootfs_path=rootfs_path,
            memory_mib=memory_mib,
            cpus=cpus,
            auto_remove=auto_remove,
            **options,
        )
        self._options.check()
        self._name = name
        self._reuse = reuse_existing
        self._handle: _Handle | None = None
        self._created: bool | None = None

    def _open(self) -> tuple[_Handle, bool]:
        if self._reuse:
            handle, made = self._runtime.find_or_create(self._options, self._name)
        else:
            handle, made = self._runtime.create(self._options, self._name), True
        try:
            return handle.start(), made
        except BaseException:
            if made:
                handle.discard()
            raise

    def _taken(self, opened: tuple[_Handle, bool]) -> None:
        self._handle, self._created = opened

    def _started(self) -> _Handle:
        if self._handle is None:
            raise RuntimeError(_NOT_STARTED)
        return self._handle

    async def start(self) -> SimpleBox:
        """Make the box and start it; again is fine."""
        if self._handle is None:
            self._taken(await _run(self._open, _undo_open))
        return self

    async def __aenter__(self) -> SimpleBox:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            await self.stop()

    @property
    def id(self) -> str:
        """The id of the box."""
        return self._started().box.id

    @property
    def name(self) -> str | None:
        """Its name, or None."""
        return self._name

    @property
    def created(self) -> bool | None:
        """Whether it was made, or found; None before the start."""
        return self._created

    async def info(self) -> BoxInfo:
        """Facts about it."""
        return await _run(self._started().info)

    async def exec(
        self,
        cmd: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a program to its end and collect its output.

        Args:
            timeout: seconds, then all of it is killed and the exit code is 124; None: no limit.
        """
        handle = self._started()
        return await _run(lambda: handle.exec(cmd, args, env, user, timeout, cwd))

    async def copy_in(self, host_path: str, container_dest: str) -> None:
        """Copy a file or directory of the host into the box."""
        box = self._started().box
        await _run(lambda: box.copy_in(host_path, container_dest))

    async def copy_out(self, container_src: str, host_dest: str) -> None:
        """Copy a file or directory of the box to the host."""
        box = self._started().box
        await _run(lambda: box.copy_out(container_src, host_dest))

    async def stop(self) -> None:
        """Stop the box, and remove it unless it was made to be kept."""
        await _run(self._started().stop)
        self._handle = None

    async def shutdown(self) -> None:
        """The same."""
        await self.stop()


def _undo_open(opened: tuple[_Handle, bool]) -> None:
    handle, made = opened
    if made:
        handle.discard()


# --- Without asyncio ------------------------------------------------------------------------------


class SyncBox:
    """A handle of a box whose calls block. They may be made within an event loop, too."""

    def __init__(self, handle: _Handle) -> None:
        self._handle = handle

    @property
    def id(self) -> str:
        """Its id."""
        return self._handle.box.id

    @property
    def name(self) -> str | None:
        """Its name, or None."""
        return self._handle.box.name

    def start(self) -> None:
        """Start it; one that runs is fine."""
        with _translated():
            self._handle.start()

    def exec(
        self,
        cmd: str,
        *args: Any,
        env: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a program to its end and collect its output. A list stands for its arguments."""
        words: list[str] = []
        for arg in args:
            words += [arg] if isinstance(arg, str) else arg
        with _translated():
            return self._handle.exec(cmd, words, env, user, timeout, cwd)

    def info(self) -> BoxInfo:
        """Facts about it."""
        with _translated():
            return self._handle.info()

    def stop(self) -> None:
        """Stop it, and remove it unless it was made to be kept."""
        with _translated():
            self._handle.stop()

    def __enter__(self) -> SyncBox:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class SyncBoxlite:
    """All boxes of a home, for programs without asyncio. `stop` ends no box."""

    def __init__(self, options: Options | None = None) -> None:
        self._runtime = _Runtime(options) if options else _default

    @staticmethod
    def default() -> SyncBoxlite:
        """That of holt.Home()."""
        return SyncBoxlite()

    def start(self) -> SyncBoxlite:
        """Begin; gives itself."""
        with _translated():
            self._runtime.home()
        return self

    def stop(self) -> None:
        """End; boxes and handles of them are left alone."""

    def __enter__(self) -> SyncBoxlite:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def create(self, options: BoxOptions, name: str | None = None) -> SyncBox:
        """Make a box and start it."""
        with _translated():
            return SyncBox(_started(self._runtime.create(options, name)))

    def get(self, id_or_name: str) -> SyncBox | None:
        """Find a box, also one of an earlier process, or give None."""
        with _translated():
            handle = self._runtime.find(id_or_name)
        return None if handle is None else SyncBox(handle)

    def get_or_create(self, options: BoxOptions, name: str | None = None) -> tuple[SyncBox, bool]:
        """Find a box by its name or make it, and tell whether it was made."""
        with _translated():
            handle, made = self._runtime.find_or_create(options, name)
        return SyncBox(handle), made

    def list_info(self) -> list[BoxInfo]:
        """Facts about all boxes, whoever made them."""
        with _translated():
            return self._runtime.infos()

    def remove(self, id_or_name: str, force: bool = False) -> None:
        """Remove a box; with `force` also one that runs."""
        with _translated():
            self._runtime.remove(id_or_name, force)


class SyncSimpleBox:
    """As SimpleBox, for programs without asyncio."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._simple = SimpleBox(*args, **options)

    def start(self) -> SyncSimpleBox:
        """Make the box and start it; again is fine."""
        if self._simple._handle is None:
            with _translated():
                self._simple._taken(self._simple._open())
        return self

    def __enter__(self) -> SyncSimpleBox:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._simple._handle is not None:
            self.stop()

    @property
    def id(self) -> str:
        """The id of the box."""
        return self._simple.id

    @property
    def name(self) -> str | None:
        """Its name, or None."""
        return self._simple.name

    @property
    def created(self) -> bool | None:
        """Whether it was made, or found; None before the start."""
        return self._simple.created

    def exec(
        self,
        cmd: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a program to its end and collect its output."""
        with _translated():
            return self._simple._started().exec(cmd, args, env, user, timeout, cwd)

    def stop(self) -> None:
        """Stop the box, and remove it unless it was made to be kept."""
        with _translated():
            self._simple._started().stop()
        self._simple._handle = None
