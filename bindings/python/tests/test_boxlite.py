# SPDX-License-Identifier: Apache-2.0
"""holt.compat.boxlite: the SDK's shape, and a provider that was written for the SDK."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import holt

pytest_plugins = ("deerflow_fixtures",)

PREFIX = "deer-flow-boxlite-"
Run = Callable[[str], "subprocess.CompletedProcess[str]"]

# As DeerFlow's provider sorts errors: these classes and words mean that a box is over.
OVER = ("vsock", "disconnected", "broken pipe", "no such box", "box has been stopped")
LATER = ("retry later", "temporarily unavailable", "resource busy")


def is_over(error: BaseException) -> bool:
    if isinstance(error, (BrokenPipeError, ConnectionError, EOFError)):
        return True
    text = str(error).lower()
    return (
        isinstance(error, (RuntimeError, OSError))
        and not any(word in text for word in LATER)
        and any(word in text for word in OVER)
    )


@pytest.fixture
def boxlite(deer_home: holt.Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`import boxlite`, which has the test's home as its default."""
    import holt.compat.boxlite as module

    monkeypatch.setenv("HOLT_HOME", deer_home.path)
    monkeypatch.setattr(module, "_default", module.Runtime())
    names = [name for name in sys.modules if name.split(".")[0] == "boxlite"]
    before = {name: sys.modules.pop(name) for name in names}
    module.install()
    yield importlib.import_module("boxlite")
    for name in [name for name in sys.modules if name.split(".")[0] == "boxlite"]:
        del sys.modules[name]
    sys.modules.update(before)


# --- SimpleBox ------------------------------------------------------------------------------------


def test_installed_as_boxlite(boxlite: ModuleType) -> None:
    from boxlite import ExecResult, SimpleBox, SyncBoxlite  # type: ignore[import-not-found]
    from boxlite.errors import BoxliteError  # type: ignore[import-not-found]

    assert (SimpleBox, ExecResult) == (boxlite.SimpleBox, boxlite.ExecResult)
    assert SyncBoxlite is boxlite.SyncBoxlite and BoxliteError is boxlite.BoxliteError
    assert all(hasattr(boxlite, name) for name in boxlite.__all__)


def test_a_simple_box(boxlite: ModuleType, deer_home: holt.Home) -> None:
    async def main() -> None:
        simple = boxlite.SimpleBox(image="fake", memory_mib=256, cpus=2, env={"A": "a", "B": "b"})
        assert simple.created is None
        with pytest.raises(RuntimeError, match="Box not started"):
            await simple.exec("true")
        async with simple as box:
            assert box is simple and box.created is True
            assert await box.start() is box
            end = await box.exec("sh", "-c", "echo $A$B$C; echo err >&2; exit 3", env={"B": "x"})
            assert (end.exit_code, end.stdout, end.stderr) == (3, "ax\n", "err\n")
            assert (await box.exec("pwd", cwd="/tmp")).stdout == "/tmp\n"
            assert (await box.exec("printf", "\\377")).stdout == "\ufffd"
            info = await box.info()
            assert (info.id, info.name, info.memory_mib, info.cpus) == (box.id, None, 256, 2)
            assert (info.state.status, info.state.running) == ("running", True)
        assert deer_home.boxes() == []
        with pytest.raises(RuntimeError, match="Box not started"):
            await box.stop()

    asyncio.run(main())


def test_the_end_of_programs(boxlite: ModuleType) -> None:
    async def main() -> None:
        async with boxlite.SimpleBox(image="fake") as box:
            start = time.monotonic()
            end = await box.exec("sh", "-c", "echo begun; sleep 1000", timeout=1)
            assert time.monotonic() - start < 500
            assert (end.exit_code, end.stdout) == (124, "begun\n")
            assert "after 1 seconds" in end.error_message
            assert (await box.exec("sh", "-c", "kill -9 $$")).exit_code == -9
            with pytest.raises(boxlite.ExecutionError, match="nonesuch") as caught:
                await box.exec("nonesuch")
            assert caught.value.code == "execution_failed" and not is_over(caught.value)

    asyncio.run(main())


def test_a_directory_and_variables_of_the_box(boxlite: ModuleType, room: Path) -> None:
    options = {"env": [("A", "a")], "working_dir": str(room)}
    with boxlite.SyncSimpleBox(image="fake", **options) as box:
        end = box.exec("sh", "-c", "pwd; echo $A")
        assert end.stdout == f"{room}\na\n"
        assert box.exec("pwd", cwd="/").stdout == "/\n"


def test_a_box_that_is_kept(boxlite: ModuleType, deer_home: holt.Home) -> None:
    async def main() -> None:
        box = boxlite.SimpleBox("fake", name="kept", auto_remove=False)
        await box.start()
        first = box.id
        await box.stop()
        assert [(b.name, b.state) for b in deer_home.boxes()] == [("kept", "exited")]
        with pytest.raises(boxlite.AlreadyExistsError):
            await boxlite.SimpleBox("fake", name="kept").start()
        again = boxlite.SimpleBox("fake", name="kept", reuse_existing=True, env={"A": "a"})
        await again.start()
        assert (again.id, again.created) == (first, False)
        assert (await again.exec("sh", "-c", "echo $A")).stdout == "a\n"
        await again.stop()
        # What was found by its name is started by the first program.
        runtime = boxlite.Boxlite.default()
        found = await runtime.get("kept")
        assert (await found.info()).state.status == "stopped"
        assert (await found.exec("echo", ["in"])).stdout == "in\n"
        await found.stop()
        assert (await found.exec("echo", ["again"])).stdout == "again\n"
        assert await runtime.get("nobody") is None
        await runtime.remove("kept", force=True)
        with pytest.raises(boxlite.NotFoundError):
            await runtime.remove("kept")

    asyncio.run(main())


def test_what_cannot_be_done_is_refused(boxlite: ModuleType) -> None:
    with pytest.raises(ValueError, match="'image' or 'rootfs_path'"):
        boxlite.SimpleBox()
    for name in ("volumes", "ports", "secrets", "advanced", "network"):
        with pytest.raises(boxlite.UnsupportedError, match=name):
            boxlite.SimpleBox("fake", **{name: [object()]})
    with pytest.raises(TypeError):
        boxlite.SimpleBox("fake", nonesuch=1)


def test_errors_at_the_start(boxlite: ModuleType, deer_home: holt.Home) -> None:
    async def main() -> None:
        with pytest.raises(boxlite.InvalidArgumentError):
            await boxlite.SimpleBox("fake", cpus=1000).start()
        with pytest.raises(boxlite.BoxliteError) as caught:
            await boxlite.SimpleBox("localhost:1/none/such:1").start()
        assert isinstance(caught.value, RuntimeError) and not is_over(caught.value)

    asyncio.run(main())
    assert deer_home.boxes() == []


@pytest.mark.parametrize("how", ["kill", "stop", "remove"])
def test_words_of_a_box_that_is_over(boxlite: ModuleType, deer_home: holt.Home, how: str) -> None:
    simple = boxlite.SyncSimpleBox("fake", name="victim").start()
    found = boxlite.SyncBoxlite.default().start().get("victim")
    other = deer_home.get("victim")
    if how == "remove":
        other.remove(force=True)
    else:
        getattr(other, how)()
    other.wait(60)
    for box in (simple, found):
        with pytest.raises(boxlite.BoxliteError) as caught:
            box.exec("true")
        assert is_over(caught.value), caught.value
    # Stopping what is over is fine.
    simple.stop()
    found.stop()


def test_a_paused_box_is_for_later(boxlite: ModuleType, deer_home: holt.Home) -> None:
    with boxlite.SyncSimpleBox("fake", name="paused") as box:
        deer_home.get("paused").pause()
        with pytest.raises(boxlite.UpstreamUnavailableError, match="retry later") as caught:
            box.exec("true")
        assert not is_over(caught.value)
        deer_home.get("paused").unpause()
        assert box.exec("echo", "in").stdout == "in\n"


# --- Threads and loops ----------------------------------------------------------------------------


def test_any_thread_and_any_loop(boxlite: ModuleType) -> None:
    box = boxlite.SimpleBox("fake")
    asyncio.run(box.start())

    def use(number: int) -> str:
        end = asyncio.run(box.exec("echo", str(number)))
        return str(end.stdout)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, range(24))) == [f"{n}\n" for n in range(24)]
    asyncio.run(box.stop())


def test_many_long_programs_leave_room_for_others(boxlite: ModuleType) -> None:
    async def main() -> None:
        async with boxlite.SimpleBox("fake") as box:
            long = [asyncio.ensure_future(box.exec("sleep", "1000")) for _ in range(40)]
            assert (await box.exec("echo", "in")).stdout == "in\n"
            for task in long:
                task.cancel()
            await asyncio.gather(*long, return_exceptions=True)

    asyncio.run(main())


def test_the_loop_goes_on_meanwhile(boxlite: ModuleType) -> None:
    async def main() -> None:
        async with boxlite.SimpleBox("fake") as box:
            go, stop = f"/tmp/holt-go-{box.id}", f"/tmp/holt-stop-{box.id}"
            script = f"touch {go}; until test -e {stop}; do sleep 0.01; done; rm {go} {stop}"
            task = asyncio.ensure_future(box.exec("sh", "-c", script))
            while not Path(go).exists():
                await asyncio.sleep(0.01)
            assert not task.done()
            Path(stop).touch()
            assert (await task).exit_code == 0

    asyncio.run(main())


def test_cancelling_ends_the_program(boxlite: ModuleType, room: Path) -> None:
    async def main() -> None:
        async with boxlite.SimpleBox("fake") as box:
            script = f"echo $$ >{room}/pid.new; mv {room}/pid.new {room}/pid; exec sleep 1000"
            task = asyncio.ensure_future(box.exec("sh", "-c", script))
            while not (room / "pid").exists():
                await asyncio.sleep(0.01)
            pid = int((room / "pid").read_text())
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            deadline = time.monotonic() + 60
            while Path(f"/proc/{pid}").exists():
                assert time.monotonic() < deadline, "the program runs on"
                await asyncio.sleep(0.02)
            assert (await box.exec("echo", "in")).stdout == "in\n"

    asyncio.run(main())


def test_cancelling_a_start_leaves_no_box(boxlite: ModuleType, deer_home: holt.Home) -> None:
    async def main(pause: float) -> None:
        task = asyncio.ensure_future(boxlite.SimpleBox("fake", name="short").start())
        await asyncio.sleep(pause)
        task.cancel()
        try:
            box = await task
            await box.stop()
        except asyncio.CancelledError:
            pass

    for number in range(12):
        asyncio.run(main(number * 0.004))
        deadline = time.monotonic() + 60
        while deer_home.boxes() or any(t.name == "holt-boxlite" for t in threading.enumerate()):
            assert time.monotonic() < deadline, "a box is left"
            time.sleep(0.02)


@pytest.mark.parametrize("loop_is_closed", [False, True])
def test_what_is_made_all_the_same_is_undone(loop_is_closed: bool) -> None:
    from holt.compat._boxlite_work import run

    begun, go = threading.Event(), threading.Event()
    undone: list[str] = []

    def make() -> str:
        begun.set()
        go.wait()
        return "made"

    async def main() -> None:
        task = asyncio.ensure_future(run(make, undone.append))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not loop_is_closed and not undone:
            go.set()
            await asyncio.sleep(0.01)

    asyncio.run(main())
    go.set()
    deadline = time.monotonic() + 60
    while not undone:
        assert time.monotonic() < deadline, "it is not undone"
        time.sleep(0.01)
    assert undone == ["made"]


# --- Earlier processes ----------------------------------------------------------------------------


def test_boxes_of_an_earlier_process(
    boxlite: ModuleType, deer_home: holt.Home, other_process: Run
) -> None:
    done = other_process(
        """
        import asyncio, holt.compat.boxlite
        holt.compat.boxlite.install()
        from boxlite import SimpleBox
        async def main():
            named = SimpleBox("fake", name="deer-flow-boxlite-0123456789abcdef", memory_mib=256)
            await named.start()
            await SimpleBox("fake").start()
            print(named.id)
        asyncio.run(main())
        """
    )
    assert done.returncode == 0, done.stderr
    # The one without a name goes with its process.
    deadline = time.monotonic() + 60
    while len(deer_home.boxes()) > 1:
        assert time.monotonic() < deadline, "the box without a name is left"
        time.sleep(0.02)
    runtime = boxlite.SyncBoxlite.default().start()
    (info,) = runtime.list_info()
    assert (info.name, f"{info.id}\n") == (f"{PREFIX}0123456789abcdef", done.stdout)
    assert (info.state.status, info.memory_mib, info.image) == ("running", 256, "fake")
    box = runtime.get(info.name)
    runtime.stop()
    assert box.id == info.id and box.name == info.name
    assert box.exec("echo", "a", "b").stdout == "a b\n"
    assert box.exec("echo", ["a", "b"], [("A", "a")][:0]).stdout == "a b\n"
    box.stop()
    assert runtime.get(info.name) is None
    assert runtime.list_info() == []


def test_another_home(boxlite: ModuleType, deer_home: holt.Home, room: Path) -> None:
    options = boxlite.Options(home_dir=str(room / "other"))
    with boxlite.SyncBoxlite(options) as runtime:
        assert runtime.list_info() == []
        assert runtime.get("anything") is None
    with boxlite.SyncBoxlite.default() as runtime:
        box = runtime.create(boxlite.BoxOptions(image="fake"), name="here")
        again, made = runtime.get_or_create(boxlite.BoxOptions(image="fake"), name="here")
        assert (again.id, made) == (box.id, False)
        box.stop()


# --- A provider that was written for the SDK ------------------------------------------------------


class Loop:
    """One loop on a thread, for an SDK whose boxes belong to the loop that made them."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="asyncio_sdk")
        self.thread.start()

    def run(self, coroutine: Any, timeout: float | None = None) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Found:
    """A box of SyncBoxlite with the methods of SimpleBox."""

    def __init__(self, runtime: Any, box: Any) -> None:
        self.runtime, self.box = runtime, box

    async def exec(self, *argv: str, env: Any = None, timeout: float | None = None) -> Any:
        return self.box.exec(*argv, env=env, user=None, timeout=timeout, cwd=None)

    async def stop(self) -> None:
        try:
            self.box.stop()
        finally:
            self.runtime.stop()


class Agent:
    """A provider in little: boxes by name, kept between turns, adopted after a restart."""

    def __init__(self) -> None:
        from boxlite import SyncBoxlite

        self.loop = Loop()
        self.boxes: dict[str, tuple[Any, Callable[..., Any]]] = {}
        self.lost: list[str] = []
        listing = SyncBoxlite.default().start()
        try:
            infos = listing.list_info()
        finally:
            listing.stop()
        for info in infos:
            if (info.name or "").startswith(PREFIX):
                runtime = SyncBoxlite.default().start()
                found = Found(runtime, runtime.get(info.name))
                run = lambda coroutine, timeout=None: asyncio.run(coroutine)  # noqa: E731
                self.boxes[info.name.removeprefix(PREFIX)] = found, run

    def acquire(self, key: str) -> None:
        if key not in self.boxes:
            self.boxes[key] = self.loop.run(self._make(key)), self.loop.run

    async def _make(self, key: str) -> Any:
        from boxlite import SimpleBox

        box = SimpleBox(name=PREFIX + key, image="fake", memory_mib=None, cpus=None)
        await box.start()
        await box.exec("sh", "-c", "true")
        return box

    def command(self, key: str, text: str, timeout: float | None = None) -> str:
        box, run = self.boxes[key]
        try:
            end = run(box.exec("sh", "-c", text, env={"A": "a"}, timeout=timeout), timeout=timeout)
        except Exception as error:
            if is_over(error):
                self.lost.append(key)
                del self.boxes[key]
                run(box.stop())
            return f"Error: {error}"
        return str(end.stdout) + str(end.stderr)

    def close(self) -> None:
        for box, run in self.boxes.values():
            run(box.stop())
        self.loop.close()


def test_a_provider_for_the_sdk_runs_unchanged(boxlite: ModuleType, deer_home: holt.Home) -> None:
    agent = Agent()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(agent.acquire, ("one", "two", "three", "four")))
        texts = list(pool.map(lambda key: agent.command(key, f"echo $A {key}"), agent.boxes))
    assert texts == [f"a {key}\n" for key in agent.boxes]
    deer_home.get(f"{PREFIX}two").kill()
    assert "vsock disconnected" in agent.command("two", "true")
    assert (agent.lost, sorted(agent.boxes)) == (["two"], ["four", "one", "three"])
    agent.acquire("two")
    assert agent.command("two", "echo back") == "back\n"
    agent.close()
    assert deer_home.boxes() == []


def test_such_a_provider_adopts(
    boxlite: ModuleType, deer_home: holt.Home, other_process: Run
) -> None:
    done = other_process(
        """
        import asyncio, holt.compat.boxlite
        holt.compat.boxlite.install()
        from boxlite import SimpleBox
        asyncio.run(SimpleBox("fake", name="deer-flow-boxlite-old").start())
        asyncio.run(SimpleBox("fake", name="not-of-the-provider").start())
        os._exit(0)
        """
    )
    assert done.returncode == 0, done.stderr
    agent = Agent()
    assert list(agent.boxes) == ["old"]
    # Within a loop, too: a call that blocks is no trouble for what is found.
    assert agent.command("old", "echo $A") == "a\n"
    agent.close()
    assert [box.name for box in deer_home.boxes()] == ["not-of-the-provider"]
    deer_home.get("not-of-the-provider").remove(force=True)
