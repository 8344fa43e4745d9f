# SPDX-License-Identifier: Apache-2.0
"""Boxes: micro-VMs with a kernel and a writable disk of their own."""

from __future__ import annotations

import json
import os
import signal as _signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _call
from ._call import Handle, Strings, blocking, call, milliseconds, new_struct, text_of
from ._native import ffi, lib
from .errors import HoltError
from .exec import Exec, ExecResult, exec_options
from .sandbox import Sandbox, environment, open_sandbox


@dataclass(frozen=True)
class BoxOptions:
    """How a box is made. Zero and None are the defaults."""

    memory_mib: int = 0  #: 128 to 262,144; 0: 512
    cpus: int = 0  #: 1 to 64; 0: 1
    disk_bytes: int = 0  #: virtual size of the disk, 64 MiB to 16 TiB; 0: 10 GiB
    name: str | None = None  #: unique in the home
    hostname: str | None = None
    keep: bool = False  #: stays, stopped, after its end
    network: str | None = None  #: "open", "allowlist" (None where there is `allow`), "isolated"
    allow: Iterable[str] | None = None  #: HOST[:PORT], *.DOMAIN[:PORT], ADDRESS[:PORT], CIDR[:PORT]
    publish: Iterable[str] | None = None  #: [ADDRESS:]HOST:GUEST[/tcp|/udp]
    program: Iterable[str] | None = None  #: what the box is for: its end is the box's; None: none
    env: Mapping[str, str] | None = None  #: of the program
    cwd: str | None = None  #: of the program
    user: str | None = None  #: of the program
    stop_grace: float | None = None  #: seconds; None: 10
    log_bytes: int = 0  #: newest output of the program that is kept; 0: 10 MiB

    def struct(self, keep: Strings) -> Any:
        """The library's options; they live as long as `keep`."""
        options = new_struct(
            "holt_box_options",
            memory_mib=self.memory_mib,
            cpus=self.cpus,
            disk_bytes=self.disk_bytes,
            name=keep.one(self.name, "name"),
            hostname=keep.one(self.hostname, "hostname"),
            flags=lib.HOLT_BOX_KEEP if self.keep else 0,
            network=keep.one(self.network, "network"),
            allow=keep.many(self.allow, "allow"),
            publish=keep.many(self.publish, "publish"),
            stop_grace_ms=milliseconds(self.stop_grace),
            log_bytes=self.log_bytes,
        )
        if self.program is not None or self.env or self.cwd or self.user:
            options.program = exec_options(
                keep,
                self.program or (),
                env=self.env,
                cwd=self.cwd,
                user=self.user,
                flags=lib.HOLT_EXEC_IMAGE,
            )
        return options


@dataclass(frozen=True)
class BoxInfo:
    """The state of a box and facts about it."""

    state: str  #: "created", "starting", "running", "paused", "stopping", "exited", "gone"
    end_reason: str  #: why it ended, or ""
    exit_code: int  #: of its last run
    memory_mib: int
    cpus: int
    disk_bytes: int
    created: int  #: seconds since 1970
    started: int  #: the same, or 0
    ended: int  #: the same, or 0
    accel: str  #: "kvm" or "tcg", or ""
    pid: int  #: process id of its machine on the host, or 0


@dataclass(frozen=True)
class BoxStats:
    """What a running box uses."""

    uptime: float  #: seconds
    cpu_time: float  #: seconds
    memory_used: int  #: bytes in the guest
    memory_total: int
    disk_used: int
    disk_total: int
    host_memory: int  #: proportional set size of its machine on the host
    processes: int


class Box:
    """A handle of a box; several may refer to the same one. Made by Home.

    Leaving a `with` block stops the box, and removes it unless it was made with `keep`.
    All methods may be called from any thread.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        with handle as pointer:
            self._id = text_of(lib.holt_box_id(pointer))
            self._image = text_of(lib.holt_box_image(pointer))

    def __repr__(self) -> str:
        return f"<holt.Box {self._id[:12]}>"

    def __enter__(self) -> Box:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    @property
    def id(self) -> str:
        """Its id, hex digits."""
        return self._id

    @property
    def image(self) -> str:
        """The reference of the image that it was made from."""
        return self._image

    @property
    def name(self) -> str | None:
        """Its name, or None."""
        with self._handle as pointer:
            return text_of(lib.holt_box_name(pointer)) or None

    def info(self) -> BoxInfo:
        """Its state now."""
        info = new_struct("holt_box_info")
        with self._handle as pointer:
            lib.holt_box_get_info(pointer, info)
        return BoxInfo(
            state=text_of(lib.holt_box_state_name(info.state)),
            end_reason=text_of(lib.holt_end_reason_name(info.end_reason)),
            exit_code=info.exit_code,
            memory_mib=info.memory_mib,
            cpus=info.cpus,
            disk_bytes=info.disk_bytes,
            created=info.created_s,
            started=info.started_s,
            ended=info.ended_s,
            accel=text_of(info.accel),
            pid=info.vmm_pid,
        )

    @property
    def state(self) -> str:
        """Its state in one word."""
        return self.info().state

    def inspect(self) -> dict[str, Any]:
        """All that is known about it, as `holt inspect`."""
        text = ffi.new("char **")
        with self._handle as pointer:
            call(lib.holt_box_json, pointer, text)
            found: dict[str, Any] = json.loads(text_of(text[0]))
        return found

    def ports(self) -> list[str]:
        """Its published ports as they are bound, such as "127.0.0.1:8080:80/tcp"."""
        ret = ffi.new("char ***")
        found: list[str] = []
        with self._handle as pointer:
            call(lib.holt_box_ports, pointer, ret)
            while ret[0][len(found)]:
                found.append(text_of(ret[0][len(found)]))
        return found

    # --- Life -------------------------------------------------------------------------------------

    def start(
        self,
        *,
        detached: bool = False,
        template: bool = True,
        accel: str | None = None,
        boot_timeout: float | None = None,
    ) -> None:
        """Start it; commands can run when this returns.

        Args:
            detached: it lives on without this process.
            template: False: it boots instead of beginning as a copy of a machine that did.
            accel: "auto", "kvm" or "tcg"; None: $HOLT_ACCEL, else "auto".
            boot_timeout: seconds of one attempt; None: 60.
        """

        def run() -> None:
            keep = Strings()
            flags = lib.HOLT_START_DETACHED if detached else 0
            flags |= 0 if template else lib.HOLT_START_NO_TEMPLATE
            options = new_struct(
                "holt_start_options",
                flags=flags,
                boot_timeout_ms=milliseconds(boot_timeout),
                accel=keep.one(accel, "accel"),
                cancel=_call.current_cancel(),
            )
            with self._handle as pointer:
                call(lib.holt_box_start, pointer, options, ffi.NULL)

        blocking(run, undo=lambda nothing: self.kill())

    def stop(self, grace: float | None = None) -> None:
        """Stop it: its program is told to, and killed after `grace` seconds (0: at once; None: as
        the box was made, else 10)."""
        grace_ms = lib.HOLT_NO_GRACE if grace == 0 else milliseconds(grace)
        self._simple(lib.holt_box_stop, grace_ms)

    def kill(self, signal: int = _signal.SIGKILL) -> None:
        """Send a signal to its program; SIGKILL ends the box."""
        self._simple(lib.holt_box_kill, int(signal))

    def pause(self) -> None:
        """Stop it where it is; it uses no processor until unpause."""
        self._simple(lib.holt_box_pause)

    def unpause(self) -> None:
        """Let a paused box go on."""
        self._simple(lib.holt_box_unpause)

    def rename(self, name: str) -> None:
        """Give it another name."""
        self._simple(lib.holt_box_rename, _call.text_bytes(name, "name"))

    def remove(self, *, force: bool = False) -> None:
        """Remove it with its disk; with `force` also while it runs."""
        self._simple(lib.holt_box_remove, 1 if force else 0)

    def _simple(self, function: Any, *args: Any) -> None:
        def run() -> None:
            with self._handle as pointer:
                call(function, pointer, *args)

        blocking(run)

    def wait(self, timeout: float | None = None) -> BoxInfo:
        """Wait for its end; DeadlineError (a TimeoutError) after `timeout` seconds, None: never."""
        info = new_struct("holt_box_info")

        def run() -> None:
            limit = milliseconds(timeout, default=lib.HOLT_FOREVER)
            with self._handle as pointer:
                call(lib.holt_box_wait, pointer, limit, _call.current_cancel(), info)

        blocking(run)
        return self.info()

    def ping(self, timeout: float = 5) -> float:
        """Ask the guest for a sign of life; seconds that it took."""
        took = ffi.new("uint64_t *")
        limit = milliseconds(timeout)

        def run() -> None:
            with self._handle as pointer:
                call(lib.holt_box_ping, pointer, limit, took)

        blocking(run, quick=True)
        return took[0] / 1e6  # type: ignore[no-any-return]

    def stats(self) -> BoxStats:
        """Measure a running box."""
        stats = new_struct("holt_box_stats")
        self._simple(lib.holt_box_get_stats, stats)
        return BoxStats(
            uptime=stats.uptime_us / 1e6,
            cpu_time=stats.cpu_us / 1e6,
            memory_used=stats.memory_used_bytes,
            memory_total=stats.memory_total_bytes,
            disk_used=stats.disk_used_bytes,
            disk_total=stats.disk_total_bytes,
            host_memory=stats.host_memory_bytes,
            processes=stats.processes,
        )

    def close(self) -> None:
        """Let the handle go. A box that is not detached ends with the handle that started it."""
        self._handle.close()

    def discard(self) -> None:
        """Stop the box without grace, let the handle go; it is removed unless made with `keep`."""
        if self._handle.closed:
            return
        try:
            if self.state not in ("created", "exited", "gone"):
                self.stop(0)
        except HoltError:
            pass  # it is ending already
        self.close()

    # --- Programs and files -----------------------------------------------------------------------

    def popen(
        self,
        command: Iterable[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        stdin: bool = False,
        tty: bool = False,
        timeout: float | None = None,
        image_command: bool = False,
    ) -> Exec:
        """Start a program, to talk with it while it runs.

        Args:
            stdin: it is written by `Exec.write`; otherwise it is empty.
            tty: on a terminal of its own: all output comes as stdout.
            timeout: seconds from its start, then all of it is killed; None: no limit.
            image_command: the image's Entrypoint and Cmd apply as with `docker run`.
        """
        flags = lib.HOLT_EXEC_STDIN if stdin else 0
        flags |= lib.HOLT_EXEC_TTY if tty else 0
        flags |= lib.HOLT_EXEC_IMAGE if image_command else 0
        variables = environment(env)

        def run() -> Exec:
            keep = Strings()
            options = exec_options(
                keep,
                command,
                env=env,
                cwd=cwd,
                user=user,
                flags=flags,
                timeout_ms=milliseconds(timeout),
            )
            ret = ffi.new("holt_exec **")
            with self._handle as pointer:
                call(lib.holt_exec_start, pointer, options, ret)
            return Exec(Handle(ret[0], lib.holt_exec_free, "the program", self._handle))

        del variables  # checked
        return blocking(run, undo=Exec.close)

    def exec(
        self,
        command: Iterable[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        image_command: bool = False,
    ) -> ExecResult:
        """Run a program to its end and collect its output; arguments as for popen."""
        with self.popen(
            command,
            env=env,
            cwd=cwd,
            user=user,
            stdin=stdin is not None,
            timeout=timeout,
            image_command=image_command,
        ) as program:
            return program.communicate(stdin)

    def sandbox(
        self,
        *,
        id: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        user_data: str | None = None,
        text_errors: bool = False,
        on_terminal: Callable[[str, HoltError], Any] | None = None,
    ) -> Sandbox:
        """The box as an agent sees it.

        Args:
            id: what the sandbox calls itself; None: the box's id.
            env: variables of every command.
            user_data: downloads come from beneath it; None: /mnt/user-data.
            text_errors: read_file gives "Error: ..." as text where it would raise.
            on_terminal: called with id and error by the first call that finds the box gone.
        """
        return open_sandbox(
            self._handle,
            id=id,
            env=env,
            user=user,
            cwd=cwd,
            user_data=user_data,
            text_errors=text_errors,
            on_terminal=on_terminal,
        )

    def copy_in(
        self, source: str | os.PathLike[str], target: str, *, archive: bool = False
    ) -> None:
        """Copy a file or directory of the host into the box, by the rules of `docker cp`.

        Args:
            archive: keep owners.
        """
        self._copy(lib.holt_copy_in, source, target, archive)

    def copy_out(
        self, source: str, target: str | os.PathLike[str], *, archive: bool = False
    ) -> None:
        """Copy a file or directory of the box to the host; nothing leaves the destination."""
        self._copy(lib.holt_copy_out, source, target, archive)

    def copy_in_tar(self, fd: int, target: str, *, archive: bool = False) -> None:
        """Unpack a tar archive, which is read from a descriptor to its end, in a directory."""
        self._copy(lib.holt_copy_in_tar, fd, target, archive)

    def copy_out_tar(self, source: str, fd: int, *, archive: bool = False) -> None:
        """Write a file or directory of the box as a tar archive to a descriptor."""
        self._copy(lib.holt_copy_out_tar, source, fd, archive)

    def _copy(self, function: Any, source: Any, target: Any, archive: bool) -> None:
        flags = lib.HOLT_COPY_ARCHIVE if archive else 0

        ends = [end if isinstance(end, int) else _call.path_bytes(end) for end in (source, target)]

        def run() -> None:
            with self._handle as pointer:
                call(function, pointer, *ends, flags, _call.current_cancel())

        blocking(run)


def adopt_box(pointer: Any, home: Handle) -> Box:
    """A Box for a handle of the library."""
    return Box(Handle(pointer, lib.holt_box_close, "the box", home))
