# SPDX-License-Identifier: Apache-2.0
"""How the package calls the library: errors, strings, times, and calls that can be interrupted.

Every blocking call of the extension releases the interpreter lock. On the main thread it runs on a
helper thread instead, while the main thread waits where Python can deliver signals: so that Ctrl-C
ends the call (the library's token is triggered) and what the call made is undone before
KeyboardInterrupt goes on. That costs a change of threads, so what is quick as a rule and makes
nothing (files, searches, a ping) is called directly, while another thread watches for the signal.
On other threads every call is made directly.

After fork() the child has none of the library's threads: every object of before says so by
ForkedError, and is never freed there.
"""

from __future__ import annotations

import math
import os
import queue
import select
import signal
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from . import errors
from ._native import ffi, lib

T = TypeVar("T")

#: The request that the caller works for: printable ASCII without blanks, at most 128 characters.
#: Log lines and events of everything that is called meanwhile carry it.
trace_id: ContextVar[str | None] = ContextVar("holt_trace_id", default=None)

_FAILURES = {0: "none", 1: "terminal", 2: "retryable"}
_generation = 0


def _after_fork() -> None:
    global _closer, _generation, _helper, _watcher
    _generation += 1
    _closer = _Closer()
    _helper = _Helper()
    _watcher = _Watcher()
    _here.__dict__.clear()


os.register_at_fork(after_in_child=_after_fork)


def on_main_thread() -> bool:
    # By number: current_thread() would register threads of the library for good.
    return threading.get_ident() == threading.main_thread().ident


# --- Errors ---------------------------------------------------------------------------------------


def text_of(value: Any) -> str:
    """A C string of the library; names in it may be any bytes."""
    return ffi.string(value).decode("utf-8", "backslashreplace") if value else ""


def take_error(code: int, error: Any) -> errors.HoltError:
    """The exception for an error object, which is freed; `code` where there is none."""
    if not error:
        message = text_of(lib.holt_code_name(-code))
        return errors.make(-code, 0, message, {"code": message, "object": ""})
    text = ffi.new("char **")
    made = lib.holt_error_text(error, text, ffi.NULL) == 0
    number = lib.holt_error_code(error)
    fields = {
        "code": text_of(lib.holt_code_name(number)),
        "stage": text_of(lib.holt_error_stage(error)),
        "object": text_of(lib.holt_error_object(error)),
        "hint": text_of(lib.holt_error_hint(error)),
        "failure": _FAILURES.get(lib.holt_error_failure(error), "none"),
        "text": text_of(text[0]) if made else "Error: ",
    }
    if made:
        lib.holt_free(text[0])
    message = text_of(lib.holt_error_message(error))
    errnum = lib.holt_error_errno(error)
    lib.holt_error_free(error)
    return errors.make(number, errnum, message, fields)


def borrow_error(error: Any) -> errors.HoltError:
    """The same for an error object that stays the library's."""
    copy = ffi.new("holt_error **")
    lib.holt_error_set(
        copy,
        lib.holt_error_code(error),
        lib.holt_error_errno(error),
        lib.holt_error_stage(error),
        lib.holt_error_object(error),
        lib.holt_error_message(error),
    )
    return take_error(-lib.holt_error_code(error), copy[0])


def call(function: Callable[..., int], *args: Any) -> int:
    """Call a function whose last argument is `reterr`; raise what it reports."""
    error = ffi.new("holt_error **")
    code = function(*args, error)
    if code < 0:
        raise take_error(code, error[0])
    return int(code)


# --- Values ---------------------------------------------------------------------------------------


def path_bytes(path: str | bytes | os.PathLike[str]) -> bytes:
    """A path as the library takes it: bytes without NUL."""
    data = os.fsencode(path)
    if b"\0" in data:
        raise ValueError("embedded null byte")
    return data


def text_bytes(value: str, what: str = "text") -> bytes:
    """A text argument that C takes as a string."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be str, not {type(value).__name__}")
    data = value.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise ValueError(f"{what} holds a null character")
    return data


def milliseconds(seconds: float | None, *, default: int = 0) -> int:
    """Seconds as the library's milliseconds: None is `default`, infinity HOLT_FOREVER."""
    if seconds is None:
        return default
    if math.isnan(seconds) or seconds <= 0:
        raise ValueError(f"timeout must be positive, got {seconds}")
    if seconds >= 2**62 / 1000:
        return int(lib.HOLT_FOREVER)
    return max(1, math.ceil(seconds * 1000))


class Strings:
    """C strings and lists of them that live as long as this object."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def one(self, value: str | bytes | None, what: str = "text") -> Any:
        if value is None:
            return ffi.NULL
        data = value if isinstance(value, bytes) else text_bytes(value, what)
        self._kept.append(ffi.new("char[]", data))
        return self._kept[-1]

    def many(self, values: Iterable[str | bytes] | None, what: str = "text") -> Any:
        """A NULL-terminated list; NULL for None."""
        if values is None:
            return ffi.NULL
        if isinstance(values, (str, bytes)):
            raise TypeError(f"{what} must be a list of str, not one")
        items = [self.one(v, what) for v in values]
        self._kept.append(ffi.new("char *[]", [*items, ffi.NULL]))
        return ffi.cast("const char *const *", self._kept[-1])


def new_struct(kind: str, **fields: Any) -> Any:
    """A structure of the library with its size set."""
    struct = ffi.new(f"{kind} *", fields)
    struct.struct_size = ffi.sizeof(kind)
    return struct


# --- Handles --------------------------------------------------------------------------------------


class _Held:
    """What a handle holds: it outlives the handle until it is freed."""

    __slots__ = ("free", "freed", "keep", "lock", "pointer")

    def __init__(self, pointer: Any, free: Callable[[Any], None], keep: tuple[object, ...]) -> None:
        self.pointer = pointer
        self.free = free
        self.keep = keep
        self.lock = threading.Lock()
        self.freed = threading.Event()

    def release(self) -> None:
        """Free it, once. Not on the main thread, where an interrupt may come at any step."""
        with self.lock:
            pointer, self.pointer = self.pointer, ffi.NULL
        if not pointer:
            return
        self.free(pointer)
        keep, self.keep = self.keep, ()
        self.freed.set()
        for one in keep:
            if isinstance(one, Handle):
                one.__exit__()


class _Closer:
    """The thread that frees what handles held: handles that are gone (a weak reference puts itself
    into the queue, without a step of Python that a signal could interrupt), and those that are
    closed on the main thread."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[weakref.ref[Handle] | _Held] = queue.SimpleQueue()
        self.held: dict[weakref.ref[Handle], _Held] = {}
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None

    def watch(self, handle: Handle, held: _Held) -> None:
        with self.lock:
            self.held[weakref.ref(handle, self.queue.put)] = held
            if self.thread is None:
                self.thread = threading.Thread(target=self._loop, name="holt-close", daemon=True)
                self.thread.start()

    def _loop(self) -> None:
        while True:
            item = self.queue.get()
            held = item if isinstance(item, _Held) else self.held.pop(item, None)
            if held is not None:
                held.release()
            del item, held

    def release(self, held: _Held) -> None:
        """Free it now; on the main thread by the closer, which goes on whatever signal comes."""
        if on_main_thread() or _here.callback:
            self.queue.put(held)
            if not _here.callback:
                held.freed.wait()
        else:
            held.release()


class Handle:
    """A pointer of the library that is freed once, and used by nobody afterwards.

    `keep` are objects that have to outlive it; a handle among them is in use as long, since the
    garbage collector knows no order. A handle may be closed while it is used: it is freed when the
    last use ends.
    """

    __slots__ = ("__weakref__", "_closed", "_generation", "_held", "_lock", "_uses", "_what")

    def __init__(self, pointer: Any, free: Callable[[Any], None], what: str, *keep: object) -> None:
        self._what = what
        self._generation = _generation
        self._lock = threading.Lock()
        self._uses = 0
        self._closed = False
        self._held = _Held(pointer, free, keep)
        for one in keep:
            if isinstance(one, Handle):
                one.__enter__()
        _closer.watch(self, self._held)

    def __enter__(self) -> Any:
        if self._generation != _generation:
            raise errors.ForkedError(
                f"{self._what} was made before a fork: the child has to open its own"
            )
        with self._lock:
            if self._closed:
                raise take_error(-lib.HOLT_ECLOSED, ffi.NULL)
            self._uses += 1
            return self._held.pointer

    def __exit__(self, *unused: object) -> None:
        with self._lock:
            self._uses -= 1
            last = self._closed and not self._uses
        if last:
            _closer.release(self._held)

    @property
    def closed(self) -> bool:
        """Whether close was called."""
        return self._closed

    def close(self) -> None:
        """Free it, now or when the last use ends; again is fine."""
        if self._generation != _generation:
            return
        with self._lock:
            last = not self._closed and not self._uses
            self._closed = True
        if last:
            _closer.release(self._held)


_closer = _Closer()


# --- Calls that block -----------------------------------------------------------------------------


class _Here(threading.local):
    """What the calls of this thread are given."""

    cancel: Any = ffi.NULL  # holt_cancel *
    direct = False  # somebody else sees to interrupts
    callback = False  # a thread of the library that must not wait for itself


_here = _Here()


def current_cancel() -> Any:
    """The token for the options of a call that is made now on this thread, or NULL."""
    return _here.cancel


def trace() -> None:
    """Tell the library for which request this thread works."""
    value = trace_id.get()
    if value != getattr(_here, "trace", None):
        pointer = ffi.NULL if value is None else text_bytes(value, "trace_id")
        if lib.holt_context_set_trace(pointer) < 0:
            raise ValueError("trace_id must be 1 to 128 printable characters without blanks")
        _here.trace = value


def with_cancel(cancel: Any, function: Callable[..., T], *args: Any) -> T:
    """Make a call on this thread with a token for what it calls."""
    _here.cancel, _here.direct = cancel, True
    try:
        trace()
        return function(*args)
    finally:
        _here.cancel, _here.direct = ffi.NULL, False


class _Task:
    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.context = copy_context()
        self.function = function
        self.args = args
        self.token = new_cancel()
        self.result: Any = None
        self.error: BaseException | None = None
        self.begun = False
        self.ended = False
        self.over = threading.Lock()
        self.over.acquire()

    def run(self) -> None:
        try:
            self.result = self.context.run(with_cancel, self.token, self.function, *self.args)
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            self.over.release()


class _Helper:
    """The thread that makes the calls of the main thread, one at a time."""

    def __init__(self) -> None:
        self.tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self.busy = False

    def _loop(self) -> None:
        while True:
            self.tasks.get().run()

    def submit(self, task: _Task, nested: bool) -> None:
        self.busy = True
        if nested:  # a signal handler's call within another one
            thread = threading.Thread(target=task.run, name="holt-call", daemon=True)
            task.begun = True
            thread.start()
            return
        if self.thread is None:
            self.thread = threading.Thread(target=self._loop, name="holt-call", daemon=True)
            self.thread.start()
        # No signal is delivered between these two.
        task.begun = True
        self.tasks.put(task)

    def run(self, task: _Task, undo: Callable[[Any], None] | None) -> Any:
        nested = self.busy
        try:
            self.submit(task, nested)
            task.over.acquire()
        except BaseException:
            if not task.begun:
                raise
            lib.holt_cancel_trigger(task.token)
            _wait_through(task)
            if undo is not None and task.error is None:
                undo(task.result)
            raise
        finally:
            self.busy = nested
        if task.error is not None:
            raise task.error
        return task.result


def _wait_through(task: _Task) -> None:
    """Wait for the end of a call that was told to end, whatever signals come meanwhile: also one
    right behind the acquire, so that the lock says nothing."""
    while not task.ended:
        try:
            task.over.acquire(timeout=0.05)
        except BaseException:
            continue


_helper = _Helper()


class _Watcher:
    """The thread that ends a direct call of the main thread when Ctrl-C is pressed: Python's own
    handler writes the signal's number to a descriptor at once, but goes on only after the call."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.token: Any = None
        self.next_fd = -1  # who wanted to know of signals before
        self.fds: tuple[int, int] | None = None

    def start(self) -> int:
        if self.fds is None:
            self.fds = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            threading.Thread(target=self._loop, name="holt-signals", daemon=True).start()
        return self.fds[1]

    def _loop(self) -> None:
        assert self.fds is not None
        poller = select.poll()
        poller.register(self.fds[0], select.POLLIN)
        while True:
            poller.poll()
            numbers = os.read(self.fds[0], 64)
            with self.lock:
                if signal.SIGINT in numbers and self.token is not None:
                    lib.holt_cancel_trigger(self.token)
                if self.next_fd >= 0:
                    with suppress(OSError):
                        os.write(self.next_fd, numbers)

    def run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        token = new_cancel()
        before = signal.set_wakeup_fd(self.start(), warn_on_full_buffer=False)
        try:
            with self.lock:
                self.token, self.next_fd = token, before
            return with_cancel(token, function, *args)
        finally:
            signal.set_wakeup_fd(before)
            with self.lock:
                self.token = None


_watcher = _Watcher()


def new_cancel() -> Any:
    token = ffi.new("holt_cancel **")
    call(lib.holt_cancel_new, token)
    return ffi.gc(token[0], lib.holt_cancel_free)


def blocking(
    function: Callable[..., T],
    *args: Any,
    undo: Callable[[T], None] | None = None,
    quick: bool = False,
) -> T:
    """Make a call that may take long. `undo` gets its result where an interrupt came as it ended.

    `function` gives current_cancel() to the library. `quick` says that it seldom takes long and
    needs no undoing.
    """
    if _here.direct or not on_main_thread():
        trace()
        return function(*args)
    if quick and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return _watcher.run(function, args)  # type: ignore[no-any-return]
    return _helper.run(_Task(function, args), undo)  # type: ignore[no-any-return]


# --- Callbacks ------------------------------------------------------------------------------------


class Sink:
    """A Python function that the library calls during one call; what it raises ends that call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.error: BaseException | None = None
        self.handle = ffi.new_handle(self)

    def raise_error(self) -> None:
        if self.error is not None:
            raise self.error


def call_with(sink: Sink, function: Callable[..., int], *args: Any) -> int:
    """As call, for a function that was given a sink: its exception comes before any other."""
    try:
        return call(function, *args)
    except errors.CancelledError:
        sink.raise_error()
        raise
    finally:
        sink.raise_error()


@contextmanager
def on_library_thread() -> Iterator[None]:
    """For callbacks on a thread that belongs to what might be freed meanwhile."""
    _here.callback = True
    try:
        yield
    finally:
        _here.callback = False


def _failed(sink: Sink, error: BaseException) -> int:
    sink.error = error
    return 1


@ffi.def_extern()  # type: ignore[untyped-decorator]
def native_data(data: Any, size: int, user: Any) -> int:
    sink: Sink = ffi.from_handle(user)
    try:
        sink.function(bytes(ffi.buffer(data, size)))
    except BaseException as error:
        return _failed(sink, error)
    return 0


@ffi.def_extern()  # type: ignore[untyped-decorator]
def native_output(stream: int, data: Any, size: int, user: Any) -> int:
    sink: Sink = ffi.from_handle(user)
    try:
        sink.function(stream, bytes(ffi.buffer(data, size)))
    except BaseException as error:
        return _failed(sink, error)
    return 0


@ffi.def_extern()  # type: ignore[untyped-decorator]
def native_source(data: Any, size: int, ret_len: Any, user: Any) -> int:
    sink: Sink = ffi.from_handle(user)
    try:
        piece = sink.function(size)
        ffi.memmove(data, piece, len(piece))
        ret_len[0] = len(piece)
    except BaseException as error:
        return _failed(sink, error)
    return 0


@ffi.def_extern()  # type: ignore[untyped-decorator]
def native_entry(entry: Any, user: Any) -> int:
    sink: Sink = ffi.from_handle(user)
    try:
        sink.function(os.fsdecode(ffi.buffer(entry.path, entry.path_len)[:]), entry.type)
    except BaseException as error:
        return _failed(sink, error)
    return 0


@ffi.def_extern()  # type: ignore[untyped-decorator]
def native_match(match: Any, user: Any) -> int:
    sink: Sink = ffi.from_handle(user)
    try:
        sink.function(
            os.fsdecode(ffi.buffer(match.path, match.path_len)[:]),
            match.line_number,
            ffi.buffer(match.line, match.line_len)[:].decode("utf-8", "replace"),
        )
    except BaseException as error:
        return _failed(sink, error)
    return 0
