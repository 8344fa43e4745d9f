# SPDX-License-Identifier: Apache-2.0
"""What the classes of the BoxLite SDK do, in terms of Holt."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeVar

import holt

from .. import _call
from .._native import lib
from . import _boxlite_errors as errors
from ._boxlite_data import BoxInfo, BoxOptions, BoxStateInfo, ExecResult, Options

T = TypeVar("T")

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


# --- Calls ----------------------------------------------------------------------------------------


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except holt.HoltError as error:
        raise errors.of_holt(error) from error


class Work:
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
            with translated():
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


async def run(function: Callable[[], T], undo: Callable[[T], Any] | None = None) -> T:
    """Make a call that blocks. A cancelled one is ended; what it made all the same is undone."""
    work = Work(function, undo)
    work.start(work.work)
    try:
        await work.over
    except asyncio.CancelledError:
        lib.holt_cancel_trigger(work.token)
        if not work.over.cancelled() and work.over.exception() is None:
            work.start(work.take_back)
        raise
    return work.result  # type: ignore[no-any-return]


# --- Boxes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Defaults:
    """What a handle adds to each program; a box itself does not know it."""

    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    user: str | None = None


class Runtime:
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

    def create(self, options: BoxOptions, name: str | None) -> Handle:
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
        return Handle(box, _detach(options, name), _defaults(options))

    def find(self, ref: str) -> Handle | None:
        try:
            box = self.home().get(ref)
        except FileNotFoundError:
            return None
        # The name of a box that has ended is known until somebody tidies up.
        return None if box.state == "gone" else Handle(box, True, Defaults())

    def find_or_create(self, options: BoxOptions, name: str | None) -> tuple[Handle, bool]:
        found = self.find(name) if name else None
        if found is None:
            return self.create(options, name), True
        found.defaults = _defaults(options)
        return found, False

    def infos(self) -> list[BoxInfo]:
        return [info_of(box) for box in self.home().boxes()]

    def remove(self, ref: str, force: bool) -> None:
        found = self.find(ref)
        if found is None:
            raise errors.NotFoundError(f"no such box: {ref!r}")
        found.box.remove(force=force)


def _detach(options: BoxOptions, name: str | None) -> bool:
    return name is not None if options.detach is None else options.detach


def _defaults(options: BoxOptions) -> Defaults:
    return Defaults(dict(options.env), options.working_dir, options.user)


class Handle:
    """A box with what the SDK's calls need of it. Its methods block."""

    def __init__(self, box: holt.Box, detach: bool, defaults: Defaults) -> None:
        self.box = box
        self.detach = detach
        self.defaults = defaults
        self._lock = threading.Lock()
        self._stopped = False  # by us: the next program starts it again, as the SDK has it

    def start(self) -> Handle:
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
        return info_of(self.box)


def info_of(box: holt.Box) -> BoxInfo:
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


def started(handle: Handle) -> Handle:
    """Start what was just made; it goes where that fails."""
    try:
        return handle.start()
    except BaseException:
        handle.discard()
        raise
