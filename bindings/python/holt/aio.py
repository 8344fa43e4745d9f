# SPDX-License-Identifier: Apache-2.0
"""The package for asyncio: every blocking call, awaited.

    from holt import aio

    async with aio.Home() as home:
        async with await home.box("alpine") as box:
            print((await box.exec(["uname"])).stdout)

`aio.Home`, `aio.Box`, `aio.Sandbox` and `aio.Provider` have the methods of their namesakes, as
coroutines. A call runs on a thread of the library's executor, with the caller's context variables,
and its end comes by an eventfd that the loop watches: no thread of asyncio's own is used, and up to
16 calls of a home run at once.

Cancelling a coroutine cancels the call: it ends with CancelledError at once, a command is killed,
what the call still makes is undone. Provider.acquire_async has rules of its own.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextvars import copy_context
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import holt

from . import _call
from ._call import call, new_struct
from ._loop import readable
from ._native import ffi, lib

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("holt")


# --- Calls on the library's threads ---------------------------------------------------------------


class _Job:
    """A function on a thread of a home. Whoever sees its end frees it: the coroutine that awaits
    it, or the collector where that was cancelled."""

    def __init__(self, home: holt.Home, function: Callable[[], Any], undo: Any) -> None:
        self.context = copy_context()
        self.function = function
        self.undo: Callable[[Any], Any] | None = undo
        self.result: Any = None
        self.error: BaseException | None = None
        self.handle = ffi.new_handle(self)
        options = new_struct("holt_job_options", run=lib.native_run, user=self.handle)
        ret = ffi.new("holt_job **")
        # In use until the job is freed: its own thread must not be the one that closes the home.
        self.home = home._handle
        pointer = self.home.__enter__()
        try:
            call(lib.holt_job_start, pointer, options, ret)
        except BaseException:
            self.home.__exit__()
            raise
        self.pointer = ret[0]
        _running.add(self)

    def event_fd(self) -> int:
        fd = ffi.new("int *")
        call(lib.holt_job_event_fd, self.pointer, fd)
        return int(fd[0])

    def free(self) -> None:
        """Free it; waits for its end where it has not ended."""
        lib.holt_job_free(self.pointer)
        _running.discard(self)
        self.home.__exit__()

    def take_back(self) -> None:
        """Wait for the end of an abandoned one, undo what it made, and free it."""
        self.free()
        if self.error is None and self.undo is not None and self.result is not None:
            try:
                self.undo(self.result)
            except Exception:
                _log.exception("cannot undo a call that was cancelled")


_running: set[_Job] = set()


class _Collector:
    """The thread that waits for the end of jobs whose coroutine was cancelled: their loop may be
    closed by then."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None

    def take(self, job: _Job) -> None:
        lib.holt_job_cancel(job.pointer)
        with self.lock:
            if self.thread is None:
                self.thread = threading.Thread(target=self._loop, name="holt-jobs", daemon=True)
                self.thread.start()
        self.jobs.put(job)

    def _loop(self) -> None:
        while True:
            self.jobs.get().take_back()


_collector = _Collector()


def _after_fork() -> None:
    global _collector
    _running.clear()
    _collector = _Collector()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _end_jobs() -> None:
    # No thread of the library may come back into an interpreter that is going away.
    for job in list(_running):
        lib.holt_job_cancel(job.pointer)
    for job in list(_running):
        lib.holt_job_wait(job.pointer, lib.HOLT_FOREVER, ffi.new("int *"), ffi.NULL)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def native_run(cancel: Any, user: Any, reterr: Any) -> int:
    job: _Job = ffi.from_handle(user)
    try:
        job.result = job.context.run(_call.with_cancel, cancel, job.function)
    except BaseException as error:
        job.error = error
    return 0


async def run(
    home: holt.Home, function: Callable[[], T], undo: Callable[[T], Any] | None = None
) -> T:
    """Run a function that calls the library on a thread of a home.

    Args:
        undo: gets the result where the coroutine was cancelled and the call succeeded all the same.
    """
    job = _Job(home, function, undo)
    try:
        await readable(job.event_fd())
    except BaseException:
        _collector.take(job)
        raise
    job.free()
    if job.error is not None:
        raise job.error
    return job.result  # type: ignore[no-any-return]


def _awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method of the namesake as a coroutine."""

    @functools.wraps(method)
    async def call_it(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run(self._home, functools.partial(method, self.sync, *args, **kwargs))

    return call_it


# --- The namesakes --------------------------------------------------------------------------------


class Sandbox:
    """As holt.Sandbox; `sync` is that one."""

    def __init__(self, sync: holt.Sandbox, home: holt.Home) -> None:
        self.sync = sync
        self._home = home

    @property
    def id(self) -> str:
        """The sandbox's id."""
        return self.sync.id

    execute_command = _awaited(holt.Sandbox.execute_command)
    execute = _awaited(holt.Sandbox.execute)
    read_file = _awaited(holt.Sandbox.read_file)
    read_bytes = _awaited(holt.Sandbox.read_bytes)
    write_file = _awaited(holt.Sandbox.write_file)
    update_file = _awaited(holt.Sandbox.update_file)
    append_bytes = _awaited(holt.Sandbox.append_bytes)
    write_from = _awaited(holt.Sandbox.write_from)
    download_file = _awaited(holt.Sandbox.download_file)
    stat = _awaited(holt.Sandbox.stat)
    make_directory = _awaited(holt.Sandbox.make_directory)
    move = _awaited(holt.Sandbox.move)
    remove = _awaited(holt.Sandbox.remove)
    list_dir = _awaited(holt.Sandbox.list_dir)
    list_entries = _awaited(holt.Sandbox.list_entries)
    glob = _awaited(holt.Sandbox.glob)
    grep = _awaited(holt.Sandbox.grep)

    def close(self) -> None:
        """As holt.Sandbox.close; it does not block."""
        self.sync.close()


class Exec:
    """As holt.Exec; `async for` gives its output as it comes."""

    def __init__(self, sync: holt.Exec, home: holt.Home) -> None:
        self.sync = sync
        self._home = home

    async def __aenter__(self) -> Exec:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sync.close()

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        fd = self.sync.event_fd()
        streams = [1, 2]
        while streams:
            quiet = True
            for stream in list(streams):
                piece = self.sync.read_now(stream)
                if piece is None:
                    continue
                quiet = False
                if piece:
                    yield stream, piece
                else:
                    streams.remove(stream)
            if quiet:
                await readable(fd)
                os.read(fd, 8)

    read = _awaited(holt.Exec.read)
    write = _awaited(holt.Exec.write)
    wait = _awaited(holt.Exec.wait)
    communicate = _awaited(holt.Exec.communicate)

    def close_stdin(self) -> None:
        """As holt.Exec.close_stdin."""
        self.sync.close_stdin()

    def signal(self, number: int) -> None:
        """As holt.Exec.signal."""
        self.sync.signal(number)

    def kill(self) -> None:
        """As holt.Exec.kill."""
        self.sync.kill()


class Box:
    """As holt.Box; `sync` is that one."""

    def __init__(self, sync: holt.Box, home: holt.Home) -> None:
        self.sync = sync
        self._home = home

    async def __aenter__(self) -> Box:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.discard()

    @property
    def id(self) -> str:
        """Its id, hex digits."""
        return self.sync.id

    def info(self) -> holt.BoxInfo:
        """Its state now."""
        return self.sync.info()

    start = _awaited(holt.Box.start)
    stop = _awaited(holt.Box.stop)
    kill = _awaited(holt.Box.kill)
    pause = _awaited(holt.Box.pause)
    unpause = _awaited(holt.Box.unpause)
    remove = _awaited(holt.Box.remove)
    wait = _awaited(holt.Box.wait)
    ping = _awaited(holt.Box.ping)
    stats = _awaited(holt.Box.stats)
    exec = _awaited(holt.Box.exec)
    copy_in = _awaited(holt.Box.copy_in)
    copy_out = _awaited(holt.Box.copy_out)
    discard = _awaited(holt.Box.discard)

    async def popen(self, *args: Any, **kwargs: Any) -> Exec:
        """As holt.Box.popen."""
        start = functools.partial(self.sync.popen, *args, **kwargs)
        return Exec(await run(self._home, start, holt.Exec.close), self._home)

    def sandbox(self, **kwargs: Any) -> Sandbox:
        """As holt.Box.sandbox."""
        return Sandbox(self.sync.sandbox(**kwargs), self._home)


class Home:
    """As holt.Home; `sync` is that one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.sync = holt.Home(*args, **kwargs)
        self._home = self.sync

    async def __aenter__(self) -> Home:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sync.close()

    def close(self) -> None:
        """As holt.Home.close."""
        self.sync.close()

    async def box(self, *args: Any, **kwargs: Any) -> Box:
        """As holt.Home.box; where it is cancelled, nothing is left of the box."""
        make = functools.partial(self.sync.box, *args, **kwargs)
        return Box(await run(self.sync, make, holt.Box.discard), self.sync)

    async def create(self, *args: Any, **kwargs: Any) -> Box:
        """As holt.Home.create."""
        make = functools.partial(self.sync.create, *args, **kwargs)
        return Box(await run(self.sync, make, holt.Box.discard), self.sync)

    async def get(self, ref: str) -> Box:
        """As holt.Home.get."""
        return Box(await run(self.sync, functools.partial(self.sync.get, ref)), self.sync)

    async def run(self, image: str, command: Iterable[str] = (), **kwargs: Any) -> holt.ExecResult:
        """As holt.Home.run."""
        work = functools.partial(self.sync.run, image, command, **kwargs)
        return await run(self.sync, work)

    pull = _awaited(holt.Home.pull)
    import_image = _awaited(holt.Home.import_image)
    images = _awaited(holt.Home.images)


class Provider:
    """As holt.Provider; `sync` is that one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.sync = holt.Provider(*args, **kwargs)
        self._home = self.sync.home

    async def __aenter__(self) -> Provider:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()
        self.sync.close()

    async def acquire(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        timeout: float | None = None,
    ) -> str:
        """As holt.Provider.acquire_async."""
        return await self.sync.acquire_async(thread_id, user_id=user_id, timeout=timeout)

    def get(self, sandbox_id: str) -> Sandbox | None:
        """As holt.Provider.get."""
        found = self.sync.get(sandbox_id)
        return None if found is None else Sandbox(found, self._home)

    release = _awaited(holt.Provider.release)
    reset = _awaited(holt.Provider.reset)
    shutdown = _awaited(holt.Provider.shutdown)
    stats = _awaited(holt.Provider.stats)
