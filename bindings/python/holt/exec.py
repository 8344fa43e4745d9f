# SPDX-License-Identifier: Apache-2.0
"""Programs in a box, while they run and afterwards."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _call
from ._call import Handle, Strings, blocking, call, milliseconds, new_struct
from ._native import ffi, lib
from .sandbox import environment

_PIECE = 65536
_NOW = 0
_SLICE_MS = 100


@dataclass(frozen=True)
class ExecResult:
    """How a program ended, and what it wrote."""

    exit_code: int  #: its own, 128 + signal, or 124 where its time was over
    stdout: bytes
    stderr: bytes
    signal: int = 0  #: what killed it, or 0
    timed_out: bool = False
    out_of_memory: bool = False
    duration: float = 0.0  #: seconds

    def check(self) -> ExecResult:
        """Give the result, or raise where the exit code is not 0."""
        if self.exit_code:
            raise RuntimeError(
                f"the program exited with code {self.exit_code}: "
                f"{self.stderr.decode(errors='replace').strip()}"
            )
        return self


def exec_options(
    keep: Strings,
    command: Iterable[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    user: str | None = None,
    flags: int = 0,
    timeout_ms: int = 0,
) -> Any:
    """The library's options; they live as long as `keep`."""
    options = new_struct(
        "holt_exec_options",
        argv=keep.many(command, "command"),
        env=keep.many(environment(env), "env"),
        cwd=keep.one(cwd, "cwd"),
        user=keep.one(user, "user"),
        flags=flags,
        timeout_ms=timeout_ms,
    )
    keep._kept.append(options)
    return options


class Exec:
    """A program that was started by Box.popen. One thread may read each stream, one write.

    Iterating gives its output as it comes: pairs of 1 (stdout) or 2 (stderr) and bytes.
    Leaving a `with` block kills it where it still runs.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __enter__(self) -> Exec:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget it; it is killed where it still runs."""
        self._handle.close()

    def read(self, stream: int = 1, size: int = _PIECE, timeout: float | None = None) -> bytes:
        """Read what it wrote to 1 (stdout) or 2 (stderr): at least one byte, b"" at the end.

        Raises:
            TimeoutError: where nothing came within `timeout` seconds; None waits for ever.
        """
        buffer, count = ffi.new("char[]", size), ffi.new("size_t *")

        def attempt(pointer: Any, limit: int) -> None:
            call(lib.holt_exec_read, pointer, stream, buffer, size, limit, count)

        self._until(timeout, attempt)
        return bytes(ffi.buffer(buffer, count[0]))

    def write(self, data: bytes, timeout: float | None = None) -> None:
        """Write to its stdin, all of it.

        Raises:
            ClosedError: where it has ended or closed its stdin.
        """
        view, count = ffi.from_buffer(data), ffi.new("size_t *")
        done = 0

        def attempt(pointer: Any, limit: int) -> None:
            nonlocal done
            count[0] = 0
            try:
                call(lib.holt_exec_write, pointer, view + done, len(data) - done, limit, count)
            finally:
                done += count[0]

        if len(data):
            self._until(timeout, attempt)

    def _until(self, timeout: float | None, attempt: Callable[[Any, int], object]) -> None:
        """Make a call with a time-out in milliseconds; in pieces where it may be cancelled, since
        the library's own token of an exec is given at its start, not with each call."""
        left = milliseconds(timeout, default=lib.HOLT_FOREVER)

        def run() -> None:
            nonlocal left
            token = _call.current_cancel()
            with self._handle as pointer:
                while token and left > _SLICE_MS:
                    try:
                        attempt(pointer, _SLICE_MS)
                        return
                    except TimeoutError:
                        left -= 0 if left == lib.HOLT_FOREVER else _SLICE_MS
                    if lib.holt_cancel_triggered(token):
                        raise _call.take_error(-lib.HOLT_ECANCELLED, ffi.NULL)
                attempt(pointer, left)

        blocking(run)

    def close_stdin(self) -> None:
        """Give it end-of-file on its stdin; again is fine."""
        with self._handle as pointer:
            lib.holt_exec_close_stdin(pointer)

    def signal(self, number: int) -> None:
        """Send a signal to its process group; SIGKILL reaches all that it started."""
        with self._handle as pointer:
            code = lib.holt_exec_signal(pointer, int(number))
        if code < 0:
            raise _call.take_error(code, ffi.NULL)

    def kill(self) -> None:
        """Kill it with all that it started."""
        self.signal(9)

    def resize(self, rows: int, columns: int) -> None:
        """Tell it the new size of its terminal."""
        with self._handle as pointer:
            code = lib.holt_exec_resize(pointer, rows, columns)
        if code < 0:
            raise _call.take_error(code, ffi.NULL)

    def wait(self, timeout: float | None = None) -> ExecResult:
        """Wait for its end, after all output was read; stdout and stderr of the result are empty.

        Raises:
            TimeoutError: after `timeout` seconds; None waits for ever.
        """
        end = new_struct("holt_exit")
        self._until(timeout, lambda pointer, limit: call(lib.holt_exec_wait, pointer, limit, end))
        return _result(end, b"", b"")

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        event = self.event_fd()
        open_streams = [1, 2]
        while open_streams:
            quiet = True
            for stream in list(open_streams):
                piece = self.read_now(stream)
                if piece is None:
                    continue
                quiet = False
                if piece:
                    yield stream, piece
                else:
                    open_streams.remove(stream)
            if quiet:
                _wait_readable(event)

    def event_fd(self) -> int:
        """A descriptor that is readable whenever there is something to do; it stays the exec's.
        Read its eight bytes, then call read_now until it gives None."""
        event = ffi.new("int *")
        with self._handle as pointer:
            call(lib.holt_exec_event_fd, pointer, event)
        return int(event[0])

    def read_now(self, stream: int) -> bytes | None:
        """Read what is there, without waiting: b"" at the end, None where nothing is there."""
        buffer, count = ffi.new("char[]", _PIECE), ffi.new("size_t *")
        error = ffi.new("holt_error **")
        with self._handle as pointer:
            code = lib.holt_exec_read(pointer, stream, buffer, _PIECE, _NOW, count, error)
        if code == -lib.HOLT_ETIMEOUT:
            lib.holt_error_free(error[0])
            return None
        if code < 0:
            raise _call.take_error(code, error[0])
        return bytes(ffi.buffer(buffer, count[0]))

    def communicate(self, stdin: bytes | None = None) -> ExecResult:
        """Write `stdin`, read all output, wait for the end."""
        parts: dict[int, list[bytes]] = {1: [], 2: []}
        writer = threading.Thread(target=self._feed, args=(stdin,), name="holt-stdin", daemon=True)
        if stdin is not None:
            writer.start()
        for stream, piece in self:
            parts[stream].append(piece)
        end = self.wait()
        if stdin is not None:
            writer.join()
        return ExecResult(
            exit_code=end.exit_code,
            stdout=b"".join(parts[1]),
            stderr=b"".join(parts[2]),
            signal=end.signal,
            timed_out=end.timed_out,
            out_of_memory=end.out_of_memory,
            duration=end.duration,
        )

    def _feed(self, data: bytes) -> None:
        try:
            self.write(data)
            self.close_stdin()
        except Exception:  # it does not want all of it, as with a pipe
            return


def _wait_readable(fd: int) -> None:
    """Wait for the eventfd of an exec and take what it counts."""
    token = _call.current_cancel()
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    while not poller.poll(_SLICE_MS if token else None):
        if lib.holt_cancel_triggered(token):
            raise _call.take_error(-lib.HOLT_ECANCELLED, ffi.NULL)
    os.read(fd, 8)


def _result(end: Any, stdout: bytes, stderr: bytes) -> ExecResult:
    return ExecResult(
        exit_code=end.code,
        stdout=stdout,
        stderr=stderr,
        signal=end.signal,
        timed_out=bool(end.flags & lib.HOLT_EXIT_TIMED_OUT),
        out_of_memory=bool(end.flags & lib.HOLT_EXIT_OOM),
        duration=end.duration_us / 1e6,
    )
