# SPDX-License-Identifier: Apache-2.0
"""What the cases do not ask: signatures, text, streams, and values that only Python has."""

from __future__ import annotations

import errno
import inspect
import math
import re
import threading
import time
from typing import Any

import pytest

import holt

from conftest import World, foreign_threads

SIGNATURES = {
    "execute_command": "(self, command, env=None, timeout=None)",
    "read_file": "(self, path, start_line=None, end_line=None)",
    "write_file": "(self, path, content, append=False)",
    "list_dir": "(self, path, max_depth=2)",
    "execute_command_in_scope": "(self, command, env=None, timeout=None, *, scope_id=None)",
    "release_command_scope": "(self, scope_id)",
}


def plain(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [
        p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


@pytest.mark.parametrize(("name", "want"), SIGNATURES.items())
def test_signatures_are_the_contracts(name: str, want: str) -> None:
    assert plain(getattr(holt.Sandbox, name)) == want


def test_searches_and_bytes_take_the_contracts_arguments(sandbox: holt.Sandbox) -> None:
    sandbox.update_file("b", b"\x00\xff\n")
    sandbox.write_file("d/a.py", "One\ntwo\n")
    assert sandbox.glob(".", "*.py", include_dirs=False, max_results=200) == (["./d/a.py"], False)
    found, more = sandbox.grep(
        ".", "one", glob="*.py", literal=False, case_sensitive=False, max_results=100
    )
    assert (found, more) == ([holt.GrepMatch("./d/a.py", 1, "One")], False)
    assert sandbox.grep(".", "one", case_sensitive=True) == ([], False)
    assert sandbox.persistent_shell_sessions is False


@pytest.mark.parametrize("key", ["BAD KEY", "1A", "A-B", "", "A\n", "A=B", 7, None])
def test_variables_need_a_posix_name_also_on_a_closed_sandbox(world: World, key: Any) -> None:
    with world.box.sandbox() as sandbox:
        pass
    for call in (sandbox.execute_command, sandbox.execute):
        with pytest.raises(ValueError, match="POSIX"):
            call("echo ran", {key: "value"})


def test_a_closed_sandbox_says_so(world: World) -> None:
    with world.box.sandbox() as sandbox:
        assert sandbox.is_closed is False
    assert sandbox.is_closed
    assert sandbox.execute_command("true") == "Error: sandbox has been closed"
    with pytest.raises(holt.ClosedError, match="sandbox has been closed"):
        sandbox.read_file("/x")
    sandbox.close()


def test_commands_share_nothing_but_files(sandbox: holt.Sandbox) -> None:
    assert sandbox.execute_command("cd /; export A=1; f() { :; }; echo x >/dev/null") == (
        "(no output)"
    )
    assert sandbox.execute_command("echo ${A-unset}") == "unset\n"
    assert sandbox.execute_command("echo $A", {"A": "é 用"}) == "é 用\n"
    assert sandbox.execute_command_in_scope("pwd", scope_id="s") == sandbox.execute_command("pwd")
    assert sandbox.release_command_scope("s") is None


def test_a_time_out_is_seconds(sandbox: holt.Sandbox) -> None:
    before = time.monotonic()
    text = sandbox.execute_command("echo begun; sleep 60", timeout=0.5)
    assert time.monotonic() - before < 20
    assert text.startswith("begun\n") and "timed out after 0.5 seconds" in text
    result = sandbox.execute("sleep 60", timeout=0.2)
    assert (result.exit_code, result.timed_out) == (124, True)
    assert sandbox.execute("true", timeout=math.inf).exit_code == 0


@pytest.mark.parametrize("timeout", [0, -1, math.nan])
def test_a_time_out_is_positive(sandbox: holt.Sandbox, timeout: float) -> None:
    assert sandbox.execute_command("true", timeout=timeout).startswith(
        "Error: timeout must be positive, got "
    )
    with pytest.raises(ValueError, match="positive"):
        sandbox.stat(".", timeout=timeout)


def test_output_as_it_comes(sandbox: holt.Sandbox) -> None:
    pieces: list[tuple[int, bytes]] = []
    result = sandbox.execute(
        "echo out; echo err >&2; exit 4", output=lambda stream, data: pieces.append((stream, data))
    )
    assert (result.exit_code, result.stdout, result.stderr) == (4, b"", b"")
    assert sorted(pieces) == [(1, b"out\n"), (2, b"err\n")]


def test_what_a_callback_raises_ends_the_call(sandbox: holt.Sandbox) -> None:
    def refuse(stream: int, data: bytes) -> None:
        raise LookupError("enough")

    before = time.monotonic()
    with pytest.raises(LookupError, match="enough"):
        sandbox.execute("echo x; sleep 60", output=refuse)
    assert time.monotonic() - before < 20


def test_text_that_is_no_utf8(sandbox: holt.Sandbox) -> None:
    sandbox.update_file("f", b"\xff\xfe")
    with pytest.raises(UnicodeDecodeError):
        sandbox.read_file("f")
    assert sandbox.read_bytes("f") == b"\xff\xfe"
    with pytest.raises(UnicodeEncodeError):
        sandbox.write_file("g", "\ud800")
    with pytest.raises(FileNotFoundError):
        sandbox.stat("g")


def test_names_are_bytes(sandbox: holt.Sandbox) -> None:
    name = b"caf\xe9 \n-x".decode("utf-8", "surrogateescape")
    sandbox.write_file(name, "here")
    assert sandbox.read_file(name) == "here"
    assert sandbox.glob(".", "*") == ([f"./{name}"], False)
    assert sandbox.grep(".", "here")[0][0].path == f"./{name}"
    with pytest.raises(ValueError, match="null"):
        sandbox.read_file("a\0b")


def test_errors_are_pythons_own(sandbox: holt.Sandbox) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        sandbox.read_file("none")
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, "none")
    assert "none" in str(missing.value)
    with pytest.raises(IsADirectoryError):
        sandbox.read_file(".")
    with pytest.raises(PermissionError, match=r"path traversal detected in 'a/\.\./b'"):
        sandbox.read_file("a/../b")
    with pytest.raises(ValueError, match="path must be a non-empty string"):
        sandbox.write_file("", "x")
    with pytest.raises(FileNotFoundError):
        sandbox.list_dir("none")
    for pattern in ("[invalid", "(", "*a", r"\ud83d"):
        with pytest.raises(re.error):
            sandbox.grep(".", pattern)
    assert sandbox.grep(".", "(", literal=True) == ([], False)
    with pytest.raises(ValueError, match="max_depth"):
        sandbox.list_dir(".", -1)
    with pytest.raises(ValueError, match="max_results"):
        sandbox.glob(".", "*", max_results=-1)


def test_listing_has_at_most_500_entries_with_the_root_first(sandbox: holt.Sandbox) -> None:
    sandbox.execute("mkdir d; cd d; for i in $(seq 600); do : >f$i; done")
    names = sandbox.list_dir("d")
    assert len(names) == 500 and names[0] == "d"
    assert len(sandbox.list_entries("d")[0]) == 601
    assert sandbox.list_dir("d", 0) == ["d"]


def test_downloads_have_a_cap(sandbox: holt.Sandbox, world: World) -> None:
    path = f"{world.user_data}/outputs/large"
    sandbox.write_file(path, "")
    sandbox.execute(f"truncate -s 104857601 {path}")
    with pytest.raises(OSError, match="maximum download size of 104857600 bytes") as large:
        sandbox.download_file(path)
    assert large.value.errno == errno.EFBIG and large.value.filename == path
    with pytest.raises(PermissionError, match="must be under"):
        sandbox.download_file("/etc/passwd")
    sandbox.update_file(path, bytes(range(256)))
    assert sandbox.download_file(path) == bytes(range(256))
    sandbox.remove(path)


def test_files_of_any_size_piece_by_piece(sandbox: holt.Sandbox, tmp_path: Any) -> None:
    size = 20_000_000
    sandbox.write_from("big", (b"x" * 100_000 for _ in range(size // 100_000)))
    assert sandbox.stat("big").size == size
    assert sum(len(piece) for piece in sandbox.iter_bytes("big")) == size
    (tmp_path / "host").write_bytes(b"abc")
    with (tmp_path / "host").open("rb") as file:
        sandbox.write_from("big", file, append=True)
    assert sandbox.stat("big").size == size + 3


def test_who_stops_reading_early_leaves_nothing(sandbox: holt.Sandbox) -> None:
    sandbox.write_from("big", (b"x" * 100_000 for _ in range(200)))
    pieces = sandbox.iter_bytes("big")
    assert next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert not [name for name in foreign_threads() if name == "holt-read"]
    with pytest.raises(FileNotFoundError):
        next(sandbox.iter_bytes("none"))


def test_a_source_that_fails_leaves_the_old_content(sandbox: holt.Sandbox) -> None:
    def source() -> Any:
        yield b"new"
        raise LookupError("no more")

    sandbox.write_file("f", "old")
    with pytest.raises(LookupError):
        sandbox.write_from("f", source())
    assert sandbox.read_file("f") == "old"


def test_text_instead_of_errors(world: World) -> None:
    assert world.text.read_file("/none").startswith("Error: ")
    with pytest.raises(PermissionError):
        world.text.read_file("/a/../b")


def test_sixteen_threads_have_their_own_answers(sandbox: holt.Sandbox) -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        for i in range(20):
            sandbox.write_file(f"t{number}", str(i))
            text = sandbox.execute_command(f"cat t{number}")
            if text != str(i):
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_blocking_calls_let_other_threads_run(sandbox: holt.Sandbox) -> None:
    counted = 0
    over = threading.Event()

    def count() -> None:
        nonlocal counted
        while not over.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    sandbox.execute("sleep 1")
    over.set()
    thread.join()
    assert counted > 100
