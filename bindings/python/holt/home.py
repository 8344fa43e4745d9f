# SPDX-License-Identifier: Apache-2.0
"""The home: the directory with all of holt's state, and what is made in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _call
from ._call import Handle, Sink, Strings, blocking, call, call_with, new_struct, text_of
from ._native import ffi, lib
from .box import Box, BoxOptions, adopt_box
from .exec import ExecResult

_PULL = {
    "always": lib.HOLT_PULL_ALWAYS,
    "missing": lib.HOLT_PULL_MISSING,
    "never": lib.HOLT_PULL_NEVER,
}


@dataclass(frozen=True)
class Image:
    """An image of the store."""

    name: str
    digest: str  #: of its manifest, "sha256:..."
    size: int  #: bytes of its root file system
    imported: int  #: seconds since 1970


@dataclass(frozen=True)
class PullEvent:
    """How far a pull is."""

    phase: str  #: "resolved", "waiting", "loading", "retry", "loaded", "kept", "converted", "done"
    layer: int  #: 1 is the base; 0: the image as a whole
    layers: int
    digest: str
    done: int  #: bytes
    total: int


class Home:
    """The directory with all of holt's state; any number of processes may have it open.

    Args:
        path: made where missing; None: $HOLT_HOME, else what `holt` uses without it.
        kernel: the guest kernel; None: $HOLT_KERNEL, else the one that came with the package.
        max_memory: bytes that all machines together may take; 0: $HOLT_MAX_MEMORY, else no limit.
        template_bytes: what templates may take of the disk; 0: 8 GiB.
        image_bytes: what images may take of the disk; 0: 32 GiB.

    All methods may be called from any thread. Close what was made of a home before it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        kernel: str | os.PathLike[str] | None = None,
        max_memory: int = 0,
        template_bytes: int = 0,
        image_bytes: int = 0,
    ) -> None:
        keep = Strings()
        options = new_struct(
            "holt_home_options",
            path=keep.one(None if path is None else _call.path_bytes(path)),
            kernel=keep.one(None if kernel is None else _call.path_bytes(kernel)),
            max_memory_bytes=max_memory,
            template_bytes=template_bytes,
            image_bytes=image_bytes,
        )
        ret = ffi.new("holt_home **")
        blocking(
            call, lib.holt_home_open, options, ret, undo=lambda code: lib.holt_home_close(ret[0])
        )
        self._handle = Handle(ret[0], lib.holt_home_close, "the home")

    def __repr__(self) -> str:
        return "<holt.Home (closed)>" if self._handle.closed else f"<holt.Home {self.path}>"

    def __enter__(self) -> Home:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the home, as soon as nothing that was made of it is used any more."""
        self._handle.close()

    @property
    def path(self) -> str:
        """Where it is."""
        with self._handle as pointer:
            return os.fsdecode(ffi.string(lib.holt_home_path(pointer)))

    # --- Boxes ------------------------------------------------------------------------------------

    def create(
        self, image: str, options: BoxOptions | None = None, *, pull: str = "missing", **fields: Any
    ) -> Box:
        """Make a box without starting it; `fields` are those of BoxOptions.

        Args:
            pull: "missing" asks the registry where the store has no such image, "always" in any
                case, "never" does not.
        """
        chosen = BoxOptions(**fields) if options is None else options
        if pull != "never":
            self.pull(image, policy=pull)

        def make() -> Box:
            keep = Strings()
            ret = ffi.new("holt_box **")
            with self._handle as pointer:
                struct = chosen.struct(keep)
                call(lib.holt_box_create, pointer, keep.one(image, "image"), struct, ret)
            return adopt_box(ret[0], self._handle)

        return blocking(make, undo=Box.discard)

    def box(
        self,
        image: str,
        options: BoxOptions | None = None,
        *,
        pull: str = "missing",
        detached: bool = False,
        **fields: Any,
    ) -> Box:
        """Make a box and start it.

            with home.box("alpine") as box:
                print(box.exec(["uname", "-r"]).stdout)

        At the end of the block, and of the process, the box is stopped, and removed unless
        `keep=True`. A `detached` one lives on.
        """
        made = self.create(image, options, pull=pull, **fields)
        try:
            made.start(detached=detached)
        except BaseException:
            made.discard()
            raise
        return made

    def get(self, ref: str) -> Box:
        """Find a box by its name, its id, or the beginning of its id."""
        keep = Strings()
        ret = ffi.new("holt_box **")
        with self._handle as pointer:
            call(lib.holt_box_get, pointer, keep.one(ref, "ref"), ret)
        return adopt_box(ret[0], self._handle)

    def boxes(self) -> list[Box]:
        """All boxes, the newest first."""
        array, count = ffi.new("holt_box ***"), ffi.new("size_t *")
        with self._handle as pointer:
            call(lib.holt_box_list, pointer, array, count)
            ids = [text_of(lib.holt_box_id(array[0][i])) for i in range(count[0])]
            lib.holt_box_list_free(array[0], count[0])
        found = []
        for box_id in ids:
            try:
                found.append(self.get(box_id))
            except FileNotFoundError:
                continue  # gone meanwhile
        return found

    def run(
        self,
        image: str,
        command: Iterable[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        pull: str = "missing",
        **fields: Any,
    ) -> ExecResult:
        """Run one program in a box of its own, of which nothing is left afterwards.

        Args:
            command: the image's Entrypoint and Cmd apply as with `docker run`.
            timeout: seconds from the program's start, then it is killed (exit code 124).
            fields: those of BoxOptions.
        """
        with self.box(image, pull=pull, **fields) as box:
            return box.exec(
                command,
                env=env,
                cwd=cwd,
                user=user,
                stdin=stdin,
                timeout=timeout,
                image_command=True,
            )

    # --- Images -----------------------------------------------------------------------------------

    def pull(
        self,
        ref: str,
        *,
        policy: str = "always",
        username: str | None = None,
        password: str | None = None,
        ca_file: str | None = None,
        insecure: bool = False,
        progress: Callable[[PullEvent], Any] | None = None,
    ) -> Image:
        """Load an image from its registry, as docker names it.

        Args:
            policy: "always", "missing" (only where the store has none) or "never".
            username: and password: instead of what docker's configuration says.
            progress: called on the thread of the call.
        """
        if policy not in _PULL:
            raise ValueError(f"pull must be always, missing or never, not {policy!r}")
        sink = Sink(progress or (lambda event: None))

        def run() -> Image:
            keep = Strings()
            options = new_struct(
                "holt_pull_options",
                policy=_PULL[policy],
                flags=lib.HOLT_PULL_INSECURE if insecure else 0,
                ca_file=keep.one(ca_file),
                username=keep.one(username),
                password=keep.one(password),
                event=lib.native_pull_event if progress else ffi.NULL,
                user=sink.handle,
                cancel=_call.current_cancel(),
            )
            ret = ffi.new("holt_image **")
            with self._handle as pointer:
                call_with(sink, lib.holt_image_pull, pointer, keep.one(ref, "ref"), options, ret)
            return _image(ret[0])

        return blocking(run)

    def import_image(self, path: str | os.PathLike[str], name: str | None = None) -> Image:
        """Import an OCI layout or archive, a docker archive, or the tar of a root file system."""

        def run() -> Image:
            keep = Strings()
            options = new_struct(
                "holt_image_import_options",
                name=keep.one(name, "name"),
                cancel=_call.current_cancel(),
            )
            ret = ffi.new("holt_image **")
            with self._handle as pointer:
                call(lib.holt_image_import, pointer, _call.path_bytes(path), options, ret)
            return _image(ret[0])

        return blocking(run)

    def image(self, ref: str) -> Image:
        """Find an image of the store by its name or digest."""
        keep = Strings()
        ret = ffi.new("holt_image **")
        with self._handle as pointer:
            call(lib.holt_image_get, pointer, keep.one(ref, "ref"), ret)
        return _image(ret[0])

    def images(self) -> list[Image]:
        """All images of the store."""
        array, count = ffi.new("holt_image ***"), ffi.new("size_t *")
        with self._handle as pointer:
            call(lib.holt_image_list, pointer, array, count)
        try:
            return [_image_facts(array[0][i]) for i in range(count[0])]
        finally:
            lib.holt_image_list_free(array[0], count[0])

    def remove_image(self, ref: str) -> None:
        """Take a name from an image; the image goes with its last one."""
        keep = Strings()
        with self._handle as pointer:
            call(lib.holt_image_remove, pointer, keep.one(ref, "ref"))

    # --- The host ---------------------------------------------------------------------------------

    def doctor(self) -> dict[str, Any]:
        """Tell whether boxes can run here, why, and what to do; as `holt doctor --json`."""

        def run() -> dict[str, Any]:
            ret = ffi.new("holt_doctor **")
            call(lib.holt_doctor_run, _call.path_bytes(self.path), ret)
            try:
                found: dict[str, Any] = json.loads(text_of(lib.holt_doctor_json(ret[0])))
                return found
            finally:
                lib.holt_doctor_free(ret[0])

        return blocking(run)


def _image_facts(image: Any) -> Image:
    return Image(
        name=text_of(lib.holt_image_name(image)),
        digest=text_of(lib.holt_image_digest(image)),
        size=lib.holt_image_size_bytes(image),
        imported=lib.holt_image_imported_s(image),
    )


def _image(image: Any) -> Image:
    try:
        return _image_facts(image)
    finally:
        lib.holt_image_free(image)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def native_pull_event(event: Any, user: Any) -> None:
    sink: Sink = ffi.from_handle(user)
    if sink.error is not None:
        return
    try:
        sink.function(
            PullEvent(
                phase=text_of(lib.holt_pull_phase_name(event.phase)),
                layer=event.layer,
                layers=event.layers,
                digest=text_of(event.digest),
                done=event.done_bytes,
                total=event.total_bytes,
            )
        )
    except BaseException as error:
        sink.error = error
