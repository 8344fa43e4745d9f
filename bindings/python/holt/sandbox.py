# SPDX-License-Identifier: Apache-2.0
"""A sandbox: what an agent does in a box. Commands, files, searching."""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Protocol

from . import _call, errors
from ._call import Sink, Strings, blocking, call, call_with, milliseconds, new_struct, path_bytes
from ._native import ffi, lib

_log = logging.getLogger("holt")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KINDS = ("?", "file", "directory", "symlink", "fifo", "socket", "character", "block")

#: Entries of list_dir, the root among them.
LIST_ENTRIES = 500


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class GrepMatch:
    """A line that matched."""

    path: str
    line_number: int  #: from 1
    line: str  #: without its end; longer ones are cut to 197 characters and "..."


@dataclass(frozen=True)
class FileInfo:
    """What a file is."""

    type: str  #: "file", "directory", "symlink", "fifo", "socket", "character" or "block"
    mode: int  #: permission bits, up to 0o7777
    uid: int
    gid: int
    size: int  #: bytes
    mtime_ns: int  #: last modification, nanoseconds since 1970


@dataclass(frozen=True)
class CommandResult:
    """How a command ended, and what it wrote."""

    exit_code: int  #: its own, 128 + signal, or 124 where its time was over
    stdout: bytes  #: what was kept of it
    stderr: bytes
    stdout_total: int  #: bytes that it wrote
    stderr_total: int
    timed_out: bool
    output_left: bool  #: a child in the background kept the output open; the rest is not here
    signal: int  #: what killed it, or 0
    duration: float  #: seconds
    text: str  #: all as one text, as execute_command gives it


def environment(env: Mapping[str, str] | None) -> list[str] | None:
    """ "KEY=VALUE" of a mapping whose keys are names as POSIX has them."""
    if env is None:
        return None
    for key in env:
        if not isinstance(key, str) or not _ENV_NAME.fullmatch(key):
            raise errors.invalid(
                f"{key!r} is no POSIX name of a variable",
                "environment",
                "use letters, digits and '_', and no digit first",
            )
    return [f"{key}={value}" for key, value in env.items()]


def count_of(value: int, what: str, none: int, most: int) -> int:
    """A number of results or levels: 0 asks for none, which the library knows by another name."""
    if value < 0:
        raise ValueError(f"{what} must not be negative, got {value}")
    return none if value == 0 else min(value, most + 1)  # which is refused


class Sandbox:
    """A sandbox as agents use it. Any method may be called from any thread, several at once.

    Relative paths begin at the sandbox's working directory. Times are seconds; None is 600,
    `math.inf` no limit. Failures are exceptions of `holt.errors`, but for `execute_command`.
    A sandbox is made by `Box.sandbox` and `Provider.get`.
    """

    #: Each command has a shell of its own: no directory or variable is left for the next one.
    persistent_shell_sessions: ClassVar[bool | None] = False

    def __init__(self, handle: _call.Handle, terminal: Sink | None = None) -> None:
        self._handle = handle
        self._terminal = terminal
        with handle as pointer:
            self._id = _call.text_of(lib.holt_sandbox_id(pointer))
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<holt.Sandbox {self._id}>"

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def id(self) -> str:
        """The sandbox's id."""
        return self._id

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def close(self) -> None:
        """Let every later call fail; the box is left alone. Calls that run end soon."""
        self._is_closed = True
        if self._handle.closed:
            return
        with self._handle as pointer:
            lib.holt_sandbox_close(pointer)

    # --- Commands ---------------------------------------------------------------------------------

    def execute_command(
        self, command: str, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> str:
        """Run a command line in a shell of its own; give its output and end as one text.

        Never fails for what happens to the sandbox: the text is "Error: ..." then.

        Raises:
            ValueError: for a variable without a POSIX name, before anything runs.
        """
        strings = environment(env)
        try:
            limit = milliseconds(timeout)
            return blocking(self._execute_text, command, strings, limit)
        except ValueError as error:
            return f"Error: {error}"

    def _execute_text(self, command: str, env: list[str] | None, timeout_ms: int) -> str:
        keep = Strings()
        options = new_struct(
            "holt_command_options",
            env=keep.many(env, "env"),
            timeout_ms=timeout_ms,
            cancel=_call.current_cancel(),
        )
        text, size = ffi.new("char **"), ffi.new("size_t *")
        with self._handle as pointer:
            call(
                lib.holt_sandbox_execute_text,
                pointer,
                keep.one(command, "command"),
                options,
                text,
                size,
            )
        return _taken(text[0], size[0]).decode("utf-8", "replace")

    def execute_command_in_scope(
        self,
        command: str,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        *,
        scope_id: str | None = None,
    ) -> str:
        """As execute_command: no command leaves a session behind, so scopes make no difference."""
        return self.execute_command(command, env, timeout)

    def release_command_scope(self, scope_id: str) -> None:
        """Nothing is to be released."""

    def execute(
        self,
        command: str,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        *,
        capture_bytes: int = 0,
        output: Callable[[int, bytes], Any] | None = None,
    ) -> CommandResult:
        """Run a command line in a shell of its own.

        Args:
            capture_bytes: of each stream that are kept, up to 1 GiB; 0: 10 MiB.
            output: gets all output as it comes, instead: 1 (stdout) or 2 (stderr), and bytes.

        Raises:
            HoltError: where it did not run; a command that fails or is out of time does not raise.
        """
        return blocking(
            self._execute, command, environment(env), milliseconds(timeout), capture_bytes, output
        )

    def _execute(
        self,
        command: str,
        env: list[str] | None,
        timeout_ms: int,
        capture_bytes: int,
        output: Callable[[int, bytes], Any] | None,
    ) -> CommandResult:
        keep = Strings()
        sink = Sink(output or (lambda stream, data: None))
        options = new_struct(
            "holt_command_options",
            env=keep.many(env, "env"),
            timeout_ms=timeout_ms,
            cancel=_call.current_cancel(),
            capture_bytes=capture_bytes,
            output=lib.native_output if output else ffi.NULL,
            user=sink.handle,
        )
        ret = ffi.new("holt_command **")
        with self._handle as pointer:
            call_with(
                sink,
                lib.holt_sandbox_execute,
                pointer,
                keep.one(command, "command"),
                options,
                ret,
            )
        try:
            return _command_result(ret[0])
        finally:
            lib.holt_command_free(ret[0])

    # --- Files ------------------------------------------------------------------------------------

    def read_file(
        self, path: str, start_line: int | None = None, end_line: int | None = None
    ) -> str:
        """Read a text file, or the lines from start_line (from 1) to end_line, both included.

        Lines that are out of range are no error: the text is empty.

        Raises:
            UnicodeDecodeError: where the content is not UTF-8; see read_bytes.
            OSError: FileNotFoundError, IsADirectoryError, PermissionError and others.
        """
        return self.read_bytes(path, start_line, end_line).decode("utf-8")

    def read_bytes(
        self,
        path: str,
        start_line: int | None = None,
        end_line: int | None = None,
        *,
        max_bytes: int = 0,
        timeout: float | None = None,
    ) -> bytes:
        """Read a file, or lines of it, of at most `max_bytes` (0: 100 MiB; LimitError beyond)."""
        options = _lines(start_line, end_line, max_bytes, milliseconds(timeout))
        return blocking(self._read, path_bytes(path), options, quick=True)

    def _read(self, path: bytes, options: Any) -> bytes:
        options.cancel = _call.current_cancel()
        data, size = ffi.new("char **"), ffi.new("size_t *")
        with self._handle as pointer:
            call(lib.holt_sandbox_read, pointer, path, options, data, size)
        return _taken(data[0], size[0])

    def iter_bytes(self, path: str, *, timeout: float | None = None) -> Iterator[bytes]:
        """Read a file of any size piece by piece; whoever stops early ends the reading."""
        options = _lines(None, None, 0, milliseconds(timeout))
        pieces: queue.Queue[bytes | BaseException | None] = queue.Queue(4)
        token = _call.new_cancel()
        name = path_bytes(path)

        def read() -> None:
            sink = Sink(pieces.put)
            try:
                options.cancel = token
                with self._handle as pointer:
                    call_with(
                        sink,
                        lib.holt_sandbox_read_to,
                        pointer,
                        name,
                        options,
                        lib.native_data,
                        sink.handle,
                    )
                pieces.put(None)
            except BaseException as error:
                pieces.put(error)

        thread = threading.Thread(target=read, name="holt-read", daemon=True)
        thread.start()
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            lib.holt_cancel_trigger(token)
            while thread.is_alive():  # it may wait for room
                try:
                    pieces.get(timeout=0.05)
                except queue.Empty:
                    continue

    def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Replace the content of a text file in one step, or add to its end; make what is missing.

        Raises:
            OSError: where it cannot be written; the old content is there still.
        """
        self._write(path, content.encode("utf-8"), append, False, None)

    def update_file(
        self, path: str, content: bytes, *, exclusive: bool = False, timeout: float | None = None
    ) -> None:
        """Replace the content of a file by bytes, in one step; make what is missing.

        Args:
            exclusive: FileExistsError where something is there.
        """
        self._write(path, content, False, exclusive, timeout)

    def append_bytes(
        self, path: str, content: bytes, *, exclusive: bool = False, timeout: float | None = None
    ) -> None:
        """Add bytes at the end of a file; make what is missing."""
        self._write(path, content, True, exclusive, timeout)

    def _write(
        self, path: str, content: bytes, append: bool, exclusive: bool, timeout: float | None
    ) -> None:
        function = lib.holt_sandbox_append if append else lib.holt_sandbox_write
        flags = lib.HOLT_WRITE_EXCLUSIVE if exclusive else 0
        data = ffi.from_buffer(content)
        self._simple(function, timeout, flags, path_bytes(path), data, len(data))

    def write_from(
        self,
        path: str,
        source: Iterable[bytes] | _Readable,
        *,
        append: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Write what a binary file or an iterable gives, of any size; as write_file otherwise.

        Where the source raises, the old content stays and its exception is raised.
        """
        function = lib.holt_sandbox_append_from if append else lib.holt_sandbox_write_from
        limit = milliseconds(timeout)
        blocking(self._write_from, function, path_bytes(path), Sink(_reader(source)), limit)

    def _write_from(self, function: Any, path: bytes, sink: Sink, timeout_ms: int) -> None:
        options = _call_options(timeout_ms, 0)
        with self._handle as pointer:
            call_with(sink, function, pointer, path, lib.native_source, sink.handle, options)

    def download_file(self, path: str, *, timeout: float | None = None) -> bytes:
        """Read a file beneath the user-data directory, of at most 100 MiB.

        Raises:
            PermissionError: for a path elsewhere, before anything is read.
            OSError: with EFBIG for a larger file.
        """
        return blocking(self._download, path_bytes(path), milliseconds(timeout), quick=True)

    def _download(self, path: bytes, timeout_ms: int) -> bytes:
        data, size = ffi.new("char **"), ffi.new("size_t *")
        options = _call_options(timeout_ms, 0)
        with self._handle as pointer:
            call(lib.holt_sandbox_download, pointer, path, options, data, size)
        return _taken(data[0], size[0])

    def stat(
        self, path: str, *, follow_symlinks: bool = True, timeout: float | None = None
    ) -> FileInfo:
        """Tell what a file is."""
        info = new_struct("holt_file_info")
        flags = 0 if follow_symlinks else lib.HOLT_STAT_NOFOLLOW
        self._simple(lib.holt_sandbox_stat, timeout, flags, path_bytes(path), last=(info,))
        return FileInfo(
            type=_KINDS[info.type] if info.type < len(_KINDS) else "?",
            mode=info.mode,
            uid=info.uid,
            gid=info.gid,
            size=info.size_bytes,
            mtime_ns=info.mtime_ns,
        )

    def make_directory(
        self, path: str, *, parents: bool = False, timeout: float | None = None
    ) -> None:
        """Make a directory; with `parents` those above, too, and one that is there is fine."""
        flags = lib.HOLT_MKDIR_PARENTS if parents else 0
        self._simple(lib.holt_sandbox_make_directory, timeout, flags, path_bytes(path))

    def move(
        self, source: str, target: str, *, replace: bool = True, timeout: float | None = None
    ) -> None:
        """Give a file another name."""
        flags = 0 if replace else lib.HOLT_MOVE_NOREPLACE
        self._simple(lib.holt_sandbox_move, timeout, flags, path_bytes(source), path_bytes(target))

    def remove(
        self,
        path: str,
        *,
        recursive: bool = False,
        force: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Remove a file, or with `recursive` a tree; with `force` what is missing is fine."""
        flags = lib.HOLT_REMOVE_RECURSIVE if recursive else 0
        flags |= lib.HOLT_REMOVE_FORCE if force else 0
        self._simple(lib.holt_sandbox_remove, timeout, flags, path_bytes(path))

    def _simple(
        self,
        function: Any,
        timeout: float | None,
        flags: int,
        *args: Any,
        last: tuple[Any, ...] = (),
    ) -> None:
        limit = milliseconds(timeout)

        def run() -> None:
            with self._handle as pointer:
                call(function, pointer, *args, _call_options(limit, flags), *last)

        blocking(run, quick=True)

    # --- Searching --------------------------------------------------------------------------------

    def list_dir(self, path: str, max_depth: int = 2) -> list[str]:
        """List files and directories beneath a directory, itself first, at most 500 together.

        Names that agents do not want to see (.git, node_modules, *.log ...) are left out.

        Raises:
            FileNotFoundError: for a missing directory, never an empty list.
        """
        return self.list_entries(path, max_depth, max_entries=LIST_ENTRIES)[0]

    def list_entries(
        self,
        path: str,
        max_depth: int = 2,
        *,
        max_entries: int = 0,
        all_names: bool = False,
        timeout: float | None = None,
    ) -> tuple[list[str], bool]:
        """The same with a limit of one's own (0: 10,000), and whether there is more."""
        depth = count_of(max_depth, "max_depth", lib.HOLT_LIST_DEPTH_ROOT, lib.HOLT_DEPTH_MAX)
        found: list[str] = []
        options = new_struct(
            "holt_list_options",
            flags=lib.HOLT_LIST_ALL if all_names else 0,
            max_depth=depth,
            max_entries=max_entries,
            timeout_ms=milliseconds(timeout),
        )
        more = self._find(
            lib.holt_sandbox_list,
            (path_bytes(path),),
            options,
            lib.native_entry,
            lambda name, kind: found.append(name),
        )
        return found, more

    def glob(
        self,
        path: str,
        pattern: str,
        *,
        include_dirs: bool = False,
        max_results: int = 200,
        all_names: bool = False,
        timeout: float | None = None,
    ) -> tuple[list[str], bool]:
        """Find files beneath a directory by a pattern, and tell whether there are more.

        A pattern without "/" is for names at any depth; with one it is for the path from the
        directory, where "**" is any number of levels.

        Raises:
            FileNotFoundError: for a missing directory.
            ValueError: for an empty pattern.
        """
        found: list[str] = []
        flags = lib.HOLT_GLOB_DIRECTORIES if include_dirs else 0
        flags |= lib.HOLT_GLOB_ALL if all_names else 0
        options = new_struct(
            "holt_glob_options",
            flags=flags,
            max_results=_results(max_results),
            timeout_ms=milliseconds(timeout),
        )
        more = self._find(
            lib.holt_sandbox_glob,
            (path_bytes(path), path_bytes(pattern)),
            options,
            lib.native_entry,
            lambda name, kind: found.append(name),
        )
        return found, more

    def grep(
        self,
        path: str,
        pattern: str,
        *,
        glob: str | None = None,
        literal: bool = False,
        case_sensitive: bool = False,
        max_results: int = 100,
        all_names: bool = False,
        timeout: float | None = None,
    ) -> tuple[list[GrepMatch], bool]:
        """Find lines by a regular expression beneath a directory, or in one file.

        Raises:
            re.error: for a pattern that cannot be compiled, before anything is read.
            FileNotFoundError: for a missing path.
        """
        if not literal:
            re.compile(pattern)
        keep = Strings()
        found: list[GrepMatch] = []
        flags = lib.HOLT_GREP_LITERAL if literal else 0
        flags |= lib.HOLT_GREP_CASE_SENSITIVE if case_sensitive else 0
        flags |= lib.HOLT_GREP_ALL if all_names else 0
        options = new_struct(
            "holt_grep_options",
            flags=flags,
            max_results=_results(max_results),
            glob=keep.one(None if glob is None else path_bytes(glob)),
            timeout_ms=milliseconds(timeout),
        )
        try:
            more = self._find(
                lib.holt_sandbox_grep,
                (path_bytes(path), keep.one(pattern, "pattern")),
                options,
                lib.native_match,
                lambda name, number, line: found.append(GrepMatch(name, number, line)),
            )
        except errors.InvalidError as error:
            # What Python takes and the sandbox does not.
            if not error.message.startswith("the pattern"):
                raise
            raise errors.pattern_error(error) from None
        return found, more

    def _find(
        self, function: Any, args: tuple[Any, ...], options: Any, found: Any, add: Any
    ) -> bool:
        sink = Sink(add)
        result = new_struct("holt_search_result")

        def run() -> None:
            options.cancel = _call.current_cancel()
            with self._handle as pointer:
                call_with(sink, function, pointer, *args, options, found, sink.handle, result)

        blocking(run, quick=True)
        return bool(result.truncated)


def _results(number: int) -> int:
    return count_of(number, "max_results", lib.HOLT_NO_RESULTS, lib.HOLT_RESULTS_MAX)


def _call_options(timeout_ms: int, flags: int) -> Any:
    return new_struct(
        "holt_call_options", flags=flags, timeout_ms=timeout_ms, cancel=_call.current_cancel()
    )


def _lines(start: int | None, end: int | None, max_bytes: int, timeout_ms: int) -> Any:
    options = new_struct("holt_read_options", max_bytes=max_bytes, timeout_ms=timeout_ms)
    if start is not None or end is not None:
        options.flags = lib.HOLT_READ_LINES
        options.first_line = 1 if start is None else max(start, 1)
        # The library's 0 is "to the end"; here line 0 comes before the first one.
        options.last_line = 0 if end is None else (end if end > 0 else -1)
    return options


def _taken(data: Any, size: int) -> bytes:
    try:
        return bytes(ffi.buffer(data, size))
    finally:
        lib.holt_free(data)


def _command_result(command: Any) -> CommandResult:
    end = new_struct("holt_exit")
    lib.holt_command_exit(command, end)
    size, total = ffi.new("size_t *"), ffi.new("uint64_t *")
    streams: list[tuple[bytes, int]] = []
    for stream in (lib.HOLT_STDOUT, lib.HOLT_STDERR):
        data = lib.holt_command_output(command, stream, size, total)
        streams.append((bytes(ffi.buffer(data, size[0])), total[0]))
    text = ffi.new("char **")
    call(lib.holt_command_text, command, text, size)
    return CommandResult(
        exit_code=end.code,
        stdout=streams[0][0],
        stderr=streams[1][0],
        stdout_total=streams[0][1],
        stderr_total=streams[1][1],
        timed_out=bool(end.flags & lib.HOLT_EXIT_TIMED_OUT),
        output_left=bool(end.flags & lib.HOLT_EXIT_OUTPUT_LEFT),
        signal=end.signal,
        duration=end.duration_us / 1e6,
        text=_taken(text[0], size[0]).decode("utf-8", "replace"),
    )


def _reader(source: Iterable[bytes] | _Readable) -> Callable[[int], bytes]:
    """A function that gives the next piece of at most so many bytes, b"" at the end."""
    if hasattr(source, "read"):
        return source.read
    pieces = iter(source)
    rest = memoryview(b"")

    def read(size: int) -> bytes:
        nonlocal rest
        while not rest:
            piece = next(pieces, None)
            if piece is None:
                return b""
            rest = memoryview(piece)
        data, rest = bytes(rest[:size]), rest[size:]
        return data

    return read


@ffi.def_extern()  # type: ignore[untyped-decorator]
def native_terminal(sandbox_id: Any, error: Any, user: Any) -> None:
    sink: Sink = ffi.from_handle(user)
    try:
        sink.function(_call.text_of(sandbox_id), _call.borrow_error(error))
    except Exception:
        _log.exception("the callback for the end of a sandbox failed")


def open_sandbox(
    box: _call.Handle,
    *,
    id: str | None = None,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    cwd: str | None = None,
    user_data: str | None = None,
    text_errors: bool = False,
    on_terminal: Callable[[str, errors.HoltError], Any] | None = None,
) -> Sandbox:
    """The sandbox of a box; Box.sandbox tells the arguments."""
    keep = Strings()
    sink = Sink(on_terminal) if on_terminal else None
    options = new_struct(
        "holt_sandbox_options",
        id=keep.one(id, "id"),
        env=keep.many(environment(env), "env"),
        user=keep.one(user, "user"),
        cwd=keep.one(cwd, "cwd"),
        user_data=keep.one(user_data, "user_data"),
        flags=lib.HOLT_SANDBOX_TEXT if text_errors else 0,
    )
    if sink:
        options.terminal = lib.native_terminal
        options.terminal_user = sink.handle
    ret = ffi.new("holt_sandbox **")
    with box as pointer:
        call(lib.holt_sandbox_open, pointer, options, ret)
    handle = _call.Handle(ret[0], lib.holt_sandbox_free, "the sandbox", box, sink)
    return Sandbox(handle, sink)
