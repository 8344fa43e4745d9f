# SPDX-License-Identifier: Apache-2.0
"""The contract's cases in Python: tests/contract/README.md of the project tells their form."""

from __future__ import annotations

import base64
import errno
import io
import os
import re
import signal
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holt

from conftest import World

OP_SECONDS = 60.0
SLACK_SECONDS = 0.5  #: of a real machine, which may have others beside it

# Arguments and results that the package has no way to ask for, with what stands for them.
NOT_ASKED = {
    "execute_text": {"capture_bytes"},
    "write_from": {"exclusive"},
}
# What only the C interface tells.
NOT_TOLD = {"searched", "skipped", "count"}

# The class that Python has for a code, where there is one.
CLASSES: dict[str, type[BaseException]] = {
    "INVALID": ValueError,
    "NOT_FOUND": FileNotFoundError,
    "EXISTS": FileExistsError,
    "DENIED": PermissionError,
    "BUSY": OSError,
    "TIMEOUT": TimeoutError,
    "LIMIT": OSError,
    "GUEST_LOST": ConnectionError,
    "PROTOCOL": ConnectionError,
    "IO": OSError,
    "CLOSED": RuntimeError,
    "UNAVAILABLE": RuntimeError,
    "CANCELLED": RuntimeError,
    "UNSUPPORTED": NotImplementedError,
}


class SourceFailed(Exception):
    """What a source of write_from raises."""


class Run:
    """A case while it runs, or a thread of it."""

    def __init__(self, world: World, case: dict[str, Any], number: int) -> None:
        self.world = world
        self.case = case
        self.dir = f"{world.cases_dir}/{number}"
        self.thread = 0
        self.box = world.box
        self.sandbox = world.sandbox
        self.terminal_calls = 0

    # --- Values -----------------------------------------------------------------------------------

    def bytes(self, value: Any) -> bytes:
        if isinstance(value, list):
            return b"".join(self.bytes(v) for v in value)
        if isinstance(value, dict) and "base64" in value:
            return base64.b64decode(value["base64"])
        if isinstance(value, dict):
            return self.bytes(value["repeat"]) * int(value["times"])
        places = {
            "$T": self.dir,
            "$VP": self.world.user_data,
            "$VR": self.world.user_data[1:],
            "$N": str(self.thread),
        }
        text = re.sub(
            r"\$(?:T|VP|VR|N)(?![A-Za-z0-9_])", lambda found: places[found[0]], str(value)
        )
        return text.encode("utf-8", "surrogatepass")

    def text(self, value: Any) -> str:
        return os.fsdecode(self.bytes(value))

    # --- The whole --------------------------------------------------------------------------------

    def run(self) -> None:
        self.world.sandbox.make_directory(self.dir, parents=True)
        own_box = self.case.get("box") == "own"
        own = own_box or "sandbox" in self.case
        if own_box:
            self.box = self.world.home.box(self.world.image, pull="never")
        try:
            if own:
                self.open_own()
            for number, step in enumerate(self.case["steps"], 1):
                try:
                    self.step(step)
                except AssertionError as error:
                    raise AssertionError(f"step {number}, {step['op']}: {error}") from None
        finally:
            if own_box:
                self.box.discard()

    def open_own(self) -> None:
        options = dict(self.case.get("sandbox") or {})
        env = dict(self.world.env)
        env.update(entry.split("=", 1) for entry in options.pop("env", []))
        chosen = {key: self.text(value) for key, value in options.items()}
        chosen.setdefault("user_data", self.world.user_data)
        self.sandbox = self.box.sandbox(env=env, on_terminal=self.count_terminal, **chosen)

    def count_terminal(self, sandbox_id: str, error: holt.HoltError) -> None:
        assert sandbox_id and error.failure == "terminal"
        self.terminal_calls += 1

    def step(self, step: dict[str, Any]) -> None:
        if step["op"] == "parallel":
            self.parallel(step)
            return
        before = time.monotonic()
        getattr(self, f"op_{step['op']}")(step, dict(step.get("expect") or {}))
        took = time.monotonic() - before
        slack = 0 if "fake" in self.world.has else SLACK_SECONDS
        within = step.get("within_ms")
        assert within is None or took - slack <= within / 1000, f"took {took:.3f} s"

    def parallel(self, step: dict[str, Any]) -> None:
        steps = step.get("steps") or [step["step"]]
        failures: list[BaseException] = []

        def work(number: int) -> None:
            run = Run.__new__(Run)
            run.__dict__.update(self.__dict__, thread=number)
            try:
                for _ in range(step.get("times", 1)):
                    run.step(steps[number % len(steps)])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(step["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    # --- What is expected -------------------------------------------------------------------------

    def result(self, expect: dict[str, Any], call: Callable[[], Any], pattern: bool = False) -> Any:
        """What a call gives, where it is to succeed; None where it failed as it was to."""
        want = expect.pop("error", None)
        try:
            got = call()
        except (holt.HoltError, re.error) as error:
            assert want is not None, f"failed: {type(error).__name__}: {error}"
            self.check_error({"code": want} if isinstance(want, str) else want, error, pattern)
            return None
        assert want is None, f"worked, but was to fail with {want}"
        return (got,)

    def check_error(self, want: dict[str, Any], error: Exception, pattern: bool) -> None:
        codes = want["code"].split()
        if not isinstance(error, holt.HoltError):  # Python's own view of a pattern comes first
            assert pattern and "INVALID" in codes, repr(error)
            return
        assert error.code in codes, f"{error.code} instead of {codes}: {error}"
        assert isinstance(error, CLASSES[error.code]), type(error).__mro__
        if pattern and error.message.startswith("the pattern cannot"):
            assert isinstance(error, re.error)
        if "errno" in want:
            number = getattr(errno, want["errno"])
            assert isinstance(error, OSError) and error.errno == number, repr(error)
        assert error.failure == want.get("failure", "none"), error.failure
        assert error.message and "\n" not in error.message and error.stage, error
        assert bool(error.hint) == want.get("hint", True), f"hint: {error.hint!r}"
        self.has(want.get("has"), os.fsencode(str(error)))
        self.has(want.get("text_has"), os.fsencode(error.text))
        assert error.text.startswith("Error: ")
        if "object" in want:
            assert error.object == os.fsencode(self.text(want["object"])).decode(
                "utf-8", "backslashreplace"
            )

    def has(self, wanted: Any, data: bytes) -> None:
        if wanted is None:
            return
        for one in wanted if isinstance(wanted, list) else [wanted]:
            assert self.bytes(one) in data, f"{one!r} is not in {data[:200]!r}"

    def content(self, expect: dict[str, Any], got: bytes) -> None:
        for key, value in expect.items():
            if key == "content":
                assert got == self.bytes(value), f"{got[:200]!r}"
            elif key == "one_of":
                assert got in [self.bytes(v) for v in value], f"{got[:200]!r}"
            elif key == "has":
                self.has(value, got)
            elif key == "len":
                assert len(got) == value
            elif key == "sorted":
                assert b"".join(sorted(got.splitlines(keepends=True))) == self.bytes(value)
            else:
                raise AssertionError(f"bad data: {key}")

    @staticmethod
    def seconds(step: dict[str, Any]) -> float:
        return step.get("timeout_ms", OP_SECONDS * 1000) / 1000

    # --- Commands ---------------------------------------------------------------------------------

    def variables(self, step: dict[str, Any]) -> dict[str, str] | None:
        if "env" not in step:
            return None
        return dict(self.text(entry).split("=", 1) for entry in step["env"])

    def op_execute(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        found = self.result(
            expect,
            lambda: self.sandbox.execute(
                self.text(step["command"]),
                self.variables(step),
                self.seconds(step),
                capture_bytes=step.get("capture_bytes", 0),
            ),
        )
        if found is None:
            return
        got = found[0]
        assert got.exit_code == expect.pop("code", 0), got
        assert got.timed_out == expect.pop("timed_out", False)
        assert got.output_left == expect.pop("output_left", False)
        for key, value in expect.items():
            if key in ("stdout", "stderr"):
                assert getattr(got, key) == self.bytes(value), got
            elif key == "text":
                assert got.text.encode() == self.bytes(value), got
            elif key == "text_has":
                self.has(value, got.text.encode())
            elif key == "text_lacks":
                assert self.bytes(value) not in got.text.encode()
            elif key == "stdout_len":
                assert len(got.stdout) == value
            elif key == "stdout_total":
                assert got.stdout_total == value
            else:
                raise AssertionError(f"bad data: {key}")

    def op_execute_text(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        def call() -> str:
            return self.sandbox.execute_command(
                self.text(step["command"]), self.variables(step), self.seconds(step)
            )

        found = self.result(expect, call)
        if found is None:
            return
        if "text" in expect:
            assert found[0].encode() == self.bytes(expect["text"]), found
        self.has(expect.get("text_has"), found[0].encode())

    # --- Files ------------------------------------------------------------------------------------

    def op_read(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        self.read_with(self.sandbox, step, expect)

    def op_read_text(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        self.read_with(self.world.text, step, expect)

    def read_with(self, sandbox: holt.Sandbox, step: dict[str, Any], expect: Any) -> None:
        first, last = step.get("lines", (None, None))
        if "lines" in step and first is None and last in (None, 0):
            first = 1  # by lines all the same
        found = self.result(
            expect,
            lambda: sandbox.read_bytes(
                self.text(step["path"]),
                first,
                None if last == 0 else last,
                max_bytes=step.get("max_bytes", 0),
                timeout=self.seconds(step),
            ),
        )
        if found is not None:
            self.content(expect, found[0])

    def op_download(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        path = self.text(step["path"])
        found = self.result(
            expect, lambda: self.sandbox.download_file(path, timeout=self.seconds(step))
        )
        if found is not None:
            self.content(expect, found[0])

    def write_with(self, method: Any, step: dict[str, Any], expect: dict[str, Any]) -> None:
        self.result(
            expect,
            lambda: method(
                self.text(step["path"]),
                self.bytes(step.get("content", "")),
                exclusive=step.get("exclusive", False),
                timeout=self.seconds(step),
            ),
        )

    def op_write(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        self.write_with(self.sandbox.update_file, step, expect)

    op_update = op_write

    def op_append(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        self.write_with(self.sandbox.append_bytes, step, expect)

    def op_write_from(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        def source() -> Any:
            left = step.get("size", 0)
            while left:
                piece = min(left, 50000)
                yield b"x" * piece
                left -= piece
            if step.get("fail"):
                raise SourceFailed

        def call() -> None:
            self.sandbox.write_from(
                self.text(step["path"]),
                source(),
                append=step.get("append", False),
                timeout=self.seconds(step),
            )

        try:
            self.result(expect, call)
        except SourceFailed:
            assert step.get("fail")

    def op_files(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        own = self.box is not self.world.box
        sandbox = self.sandbox if own else self.world.sandbox
        for name, content in step["files"]:
            sandbox.update_file(f"{self.dir}/{self.text(name)}", self.bytes(content))

    def op_stat(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        found = self.result(
            expect,
            lambda: self.sandbox.stat(
                self.text(step["path"]),
                follow_symlinks=not step.get("nofollow"),
                timeout=self.seconds(step),
            ),
        )
        if found is None:
            return
        info = found[0]
        got = {
            "type": info.type,
            "mode": f"{info.mode:04o}",
            "uid": info.uid,
            "gid": info.gid,
            "size": info.size,
            "mtime_s": info.mtime_ns // 10**9,
        }
        for key, value in expect.items():
            assert got[key] == value, info

    def op_mkdir(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        self.result(
            expect,
            lambda: self.sandbox.make_directory(
                self.text(step["path"]),
                parents=step.get("parents", False),
                timeout=self.seconds(step),
            ),
        )

    def op_move(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        self.result(
            expect,
            lambda: self.sandbox.move(
                self.text(step["from"]),
                self.text(step["to"]),
                replace=not step.get("noreplace"),
                timeout=self.seconds(step),
            ),
        )

    def op_remove(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        self.result(
            expect,
            lambda: self.sandbox.remove(
                self.text(step["path"]),
                recursive=step.get("recursive", False),
                force=step.get("force", False),
                timeout=self.seconds(step),
            ),
        )

    # --- Searching --------------------------------------------------------------------------------

    def relative(self, root: str, path: str) -> bytes:
        assert path.startswith(root), f"{path!r} does not begin with {root!r}"
        rest = path[len(root) :]
        if rest and not root.endswith("/"):
            assert rest[0] == "/", path
            rest = rest[1:]
        assert not rest.startswith("/"), path
        return os.fsencode(rest)

    def wanted(self, values: list[Any]) -> list[Any]:
        return sorted(self.bytes(v).removesuffix(b"/") for v in values)

    def number(self, value: Any) -> int:
        return 0 if value in ("none", "root") else int(value)

    def op_list(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        root = self.text(step["path"])
        found = self.result(
            expect,
            lambda: self.sandbox.list_entries(
                root,
                self.number(step.get("depth", 2)),
                max_entries=step.get("max_entries", 0),
                all_names=step.get("all", False),
                timeout=self.seconds(step),
            ),
        )
        if found is None:
            return
        names, more = found[0]
        assert more == expect.get("truncated", False)
        assert names[0] == root
        if "entries" in expect:
            got = sorted(self.relative(root, name) for name in names[1:])
            assert got == self.wanted(expect["entries"])
        assert len(names) == expect.get("count", len(names))

    def op_glob(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        root = self.text(step["root"])
        found = self.result(
            expect,
            lambda: self.sandbox.glob(
                root,
                self.text(step["pattern"]),
                include_dirs=step.get("dirs", False),
                max_results=self.number(step.get("max_results", 200)),
                all_names=step.get("all", False),
                timeout=self.seconds(step),
            ),
        )
        if found is None:
            return
        names, more = found[0]
        assert more == expect.get("truncated", False)
        if "paths" in expect:
            got = sorted(self.relative(root, name) for name in names)
            assert got == self.wanted(expect["paths"])
        assert len(names) == expect.get("count", len(names))

    def op_grep(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        root = self.text(step["root"])
        found = self.result(
            expect,
            lambda: self.sandbox.grep(
                root,
                self.text(step["pattern"]),
                glob=self.text(step["glob"]) if "glob" in step else None,
                literal=step.get("literal", False),
                case_sensitive=step.get("case_sensitive", False),
                max_results=self.number(step.get("max_results", 100)),
                all_names=step.get("all", False),
                timeout=self.seconds(step),
            ),
            pattern=True,
        )
        if found is None:
            return
        matches, more = found[0]
        assert more == expect.get("truncated", False)
        if "matches" in expect:
            got = sorted((self.relative(root, m.path), m.line_number, m.line) for m in matches)
            want = sorted(
                (self.bytes(path), number, self.bytes(line).decode("utf-8", "replace"))
                for path, number, line in expect["matches"]
            )
            assert got == want
        assert len(matches) == expect.get("count", len(matches))

    # --- The box ----------------------------------------------------------------------------------

    def op_tar(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        archive, owners = self.archive(step["entries"])
        at = self.text(step["at"]) if "at" in step else self.dir
        with tempfile.TemporaryFile() as file:
            file.write(archive)
            file.flush()
            file.seek(0)
            self.result(expect, lambda: self.box.copy_in_tar(file.fileno(), at, archive=owners))

    def archive(self, entries: list[Any]) -> tuple[bytes, bool]:
        out = io.BytesIO()
        owners = False
        kinds = {
            "file": tarfile.REGTYPE,
            "dir": tarfile.DIRTYPE,
            "symlink": tarfile.SYMTYPE,
            "hardlink": tarfile.LNKTYPE,
            "fifo": tarfile.FIFOTYPE,
            "series": tarfile.REGTYPE,
        }
        with tarfile.open(
            fileobj=out, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape"
        ) as tar:
            for kind, name, *rest in entries:
                options = rest.pop() if rest and isinstance(rest[-1], dict) else {}
                if set(options) - {"mode", "uid", "gid"}:  # it was a value
                    rest.append(options)
                    options = {}
                names = [self.text(name)]
                if kind == "series":
                    names = [f"{names[0]}{i}" for i in range(rest.pop(0))]
                for one in names:
                    info = tarfile.TarInfo(one)
                    info.type = kinds[kind]
                    info.mtime = 1000000000
                    info.mode = int(options.get("mode", "0755" if kind == "dir" else "0644"), 8)
                    info.uid, info.gid = options.get("uid", 0), options.get("gid", 0)
                    content = b""
                    if kind in ("symlink", "hardlink"):
                        info.linkname = self.text(rest[0])
                    elif kind in ("file", "series"):
                        content = self.bytes(rest[0])
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
                owners |= "uid" in options or "gid" in options
        return out.getvalue(), owners

    def op_copy_out(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        target = Path(tempfile.mkdtemp(dir=self.world.host_dir)) / "out"
        found = self.result(expect, lambda: self.box.copy_out(self.text(step["path"]), target))
        if found is None:
            return
        for name, content in expect.get("files", []):
            assert (target / self.text(name)).read_bytes() == self.bytes(content)

    def op_close(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        assert self.sandbox is not self.world.sandbox
        self.sandbox.close()

    def op_box(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        assert self.box is not self.world.box
        actions: dict[str, Callable[[], Any]] = {
            "pause": self.box.pause,
            "unpause": self.box.unpause,
            "stop": lambda: self.box.stop(0),
            "rm": lambda: self.box.remove(force=True),
            "kill": lambda: os.kill(self.box.info().pid, signal.SIGKILL),
        }
        self.result(expect, actions[step["do"]])

    def op_terminal(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        assert self.terminal_calls == expect["calls"]


def why_not(case: dict[str, Any]) -> str | None:
    """Why a case cannot be asked for in Python; None where it can."""
    for step in case["steps"]:
        for one in step.get("steps") or [step.get("step", step)]:
            if any("=" not in str(v) for v in one.get("env", [])):
                return "a mapping has a value for each name"
            for key in NOT_ASKED.get(one["op"], ()):
                if key in one:
                    return f"{one['op']} has no {key} in Python"
            expect = one.get("expect") or {}
            if one["op"] == "grep" and "error" not in expect and not one.get("literal"):
                pattern = one["pattern"]
                try:
                    if isinstance(pattern, str):
                        re.compile(pattern)
                except re.error:
                    return "Python's re refuses the pattern"
    return None
