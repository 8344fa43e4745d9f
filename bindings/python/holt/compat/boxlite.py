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

import sys
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import holt

from . import _boxlite_errors as errors
from ._boxlite_data import BoxInfo, BoxOptions, BoxStateInfo, ExecResult, Options
from ._boxlite_errors import *  # noqa: F403
from ._boxlite_errors import __all__ as _error_names
from ._boxlite_work import Handle, Runtime, run, started, translated

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

__version__ = f"0.10.8+holt.{holt.__version__}"

_NOT_STARTED = (
    "Box not started. Use 'async with SimpleBox(...) as box:' or call 'await box.start()' first."
)
_default = Runtime()


def install() -> None:
    """Register this module as `boxlite`, so that `from boxlite import SimpleBox` gives Holt's."""
    here = sys.modules[__name__]
    for name in ("boxlite", "boxlite.simplebox", "boxlite.exec", "boxlite.sync_api"):
        sys.modules[name] = here
    sys.modules["boxlite.errors"] = errors


# --- For asyncio ----------------------------------------------------------------------------------


class Box:
    """A handle of a box."""

    def __init__(self, handle: Handle) -> None:
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
        await run(self._handle.start)

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
        return await run(lambda: handle.exec(cmd, args or (), env, user, timeout_secs, cwd))

    async def info(self) -> BoxInfo:
        """Facts about it."""
        return await run(self._handle.info)

    async def stop(self) -> None:
        """Stop it, and remove it unless it was made to be kept."""
        await run(self._handle.stop)

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
        self._runtime = Runtime(options) if options else _default

    @staticmethod
    def default() -> Boxlite:
        """That of holt.Home()."""
        return Boxlite()

    async def create(self, options: BoxOptions, name: str | None = None) -> Box:
        """Make a box and start it."""
        runtime = self._runtime
        return Box(await run(lambda: started(runtime.create(options, name)), Handle.discard))

    async def get(self, id_or_name: str) -> Box | None:
        """Find a box, or give None."""
        handle = await run(lambda: self._runtime.find(id_or_name))
        return None if handle is None else Box(handle)

    async def get_or_create(self, options: BoxOptions, name: str | None = None) -> tuple[Box, bool]:
        """Find a box by its name or make it, and tell whether it was made."""
        handle, made = await run(lambda: self._runtime.find_or_create(options, name))
        return Box(handle), made

    async def get_info(self, id_or_name: str) -> BoxInfo | None:
        """Facts about a box, or None."""
        handle = await run(lambda: self._runtime.find(id_or_name))
        return None if handle is None else await run(handle.info)

    async def list_info(self) -> list[BoxInfo]:
        """Facts about all boxes, whoever made them."""
        return await run(self._runtime.infos)

    async def remove(self, id_or_name: str, force: bool = False) -> None:
        """Remove a box; with `force` also one that runs."""
        await run(lambda: self._runtime.remove(id_or_name, force))


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
        self._handle: Handle | None = None
        self._created: bool | None = None

    def _open(self) -> tuple[Handle, bool]:
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

    def _taken(self, opened: tuple[Handle, bool]) -> None:
        self._handle, self._created = opened

    def _opened(self) -> Handle:
        if self._handle is None:
            raise RuntimeError(_NOT_STARTED)
        return self._handle

    async def start(self) -> SimpleBox:
        """Make the box and start it; again is fine."""
        if self._handle is None:
            self._taken(await run(self._open, _undo_open))
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
        return self._opened().box.id

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
        return await run(self._opened().info)

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
        handle = self._opened()
        return await run(lambda: handle.exec(cmd, args, env, user, timeout, cwd))

    async def copy_in(self, host_path: str, container_dest: str) -> None:
        """Copy a file or directory of the host into the box."""
        box = self._opened().box
        await run(lambda: box.copy_in(host_path, container_dest))

    async def copy_out(self, container_src: str, host_dest: str) -> None:
        """Copy a file or directory of the box to the host."""
        box = self._opened().box
        await run(lambda: box.copy_out(container_src, host_dest))

    async def stop(self) -> None:
        """Stop the box, and remove it unless it was made to be kept."""
        await run(self._opened().stop)
        self._handle = None

    async def shutdown(self) -> None:
        """The same."""
        await self.stop()


def _undo_open(opened: tuple[Handle, bool]) -> None:
    handle, made = opened
    if made:
        handle.discard()


# --- Without asyncio ------------------------------------------------------------------------------


class SyncBox:
    """A handle of a box whose calls block. They may be made within an event loop, too."""

    def __init__(self, handle: Handle) -> None:
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
        with translated():
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
        with translated():
            return self._handle.exec(cmd, words, env, user, timeout, cwd)

    def info(self) -> BoxInfo:
        """Facts about it."""
        with translated():
            return self._handle.info()

    def stop(self) -> None:
        """Stop it, and remove it unless it was made to be kept."""
        with translated():
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
        self._runtime = Runtime(options) if options else _default

    @staticmethod
    def default() -> SyncBoxlite:
        """That of holt.Home()."""
        return SyncBoxlite()

    def start(self) -> SyncBoxlite:
        """Begin; gives itself."""
        with translated():
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
        with translated():
            return SyncBox(started(self._runtime.create(options, name)))

    def get(self, id_or_name: str) -> SyncBox | None:
        """Find a box, also one of an earlier process, or give None."""
        with translated():
            handle = self._runtime.find(id_or_name)
        return None if handle is None else SyncBox(handle)

    def get_or_create(self, options: BoxOptions, name: str | None = None) -> tuple[SyncBox, bool]:
        """Find a box by its name or make it, and tell whether it was made."""
        with translated():
            handle, made = self._runtime.find_or_create(options, name)
        return SyncBox(handle), made

    def list_info(self) -> list[BoxInfo]:
        """Facts about all boxes, whoever made them."""
        with translated():
            return self._runtime.infos()

    def remove(self, id_or_name: str, force: bool = False) -> None:
        """Remove a box; with `force` also one that runs."""
        with translated():
            self._runtime.remove(id_or_name, force)


class SyncSimpleBox:
    """As SimpleBox, for programs without asyncio."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._simple = SimpleBox(*args, **options)

    def start(self) -> SyncSimpleBox:
        """Make the box and start it; again is fine."""
        if self._simple._handle is None:
            with translated():
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
        with translated():
            return self._simple._opened().exec(cmd, args, env, user, timeout, cwd)

    def stop(self) -> None:
        """Stop the box, and remove it unless it was made to be kept."""
        with translated():
            self._simple._opened().stop()
        self._simple._handle = None
