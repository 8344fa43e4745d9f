# SPDX-License-Identifier: Apache-2.0
"""Signals, forks, the end of the interpreter, and what ten thousand calls cost."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

import holt

from conftest import World, open_files

BEGIN = """
    import os, signal, sys, time
    # Who started the tests in the background may have had it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import holt
    home = holt.Home(sys.argv[1])
    box = home.box("fake", pull="never")
    sandbox = box.sandbox(env={"HOME": sys.argv[1]})  # without this host's profile
"""


def python(body: str, home: holt.Home, *options: str) -> subprocess.Popen[str]:
    text = textwrap.dedent(BEGIN) + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, *options, "-c", text, home.path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(autouse=True)
def only_fake(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--holt-image"):
        pytest.skip("these are for the fake engine")


def wait_gone(home: holt.Home, box_id: str) -> None:
    deadline = time.monotonic() + 20
    while box_id in [box.id for box in home.boxes()]:
        assert time.monotonic() < deadline, "the box is left"
        time.sleep(0.05)


CALLS = {
    "a command": "sandbox.execute_command('sleep 1000')",
    "a read": "list(box.popen(['sleep', '1000']))",
    "a wait": "box.wait()",
    "a file": "sandbox.write_from('pipe', iter(lambda: time.sleep(0.1) or b'x', None))",
    "a search": "[0 for _ in iter(lambda: sandbox.stat('/'), None)]",
    "an exec": "box.exec(['sleep', '1000'])",
    "an acquire": "holt.Provider(home, {'image': 'fake', 'pull': 'never'}).acquire('busy')",
}


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_ends_a_call_and_the_program_goes_on(
    home: holt.Home, name: str, image: str
) -> None:
    body = f"""
        print(box.id, flush=True)
        try:
            print("calling", flush=True)
            {CALLS[name]}
            print("returned")
        except KeyboardInterrupt:
            print("interrupted", sandbox.execute_command("echo and goes on"), flush=True)
    """
    with holt.Provider(home, {"image": image, "pull": "never"}) as provider:
        if name == "an acquire":
            provider.acquire("busy")  # another living process has it
        program = python(body, home)
        assert program.stdout is not None
        box_id = program.stdout.readline().strip()
        assert program.stdout.readline() == "calling\n"
        time.sleep(0.5)
        before = time.monotonic()
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
        assert time.monotonic() - before < 10
        assert out.startswith("interrupted and goes on\n"), (out, err)
        assert (program.returncode, err) == (0, "")
    wait_gone(home, box_id)


def test_interrupts_at_any_time_leave_no_box(home: holt.Home) -> None:
    """30 starts, interrupted a little later each time."""
    body = """
        import signal, threading
        box.discard()
        others = {b.id for b in home.boxes()}
        main = threading.main_thread().ident
        done = 0
        for i in range(30):
            timer = threading.Timer(i * 0.002, signal.pthread_kill, (main, signal.SIGINT))
            try:
                timer.start()
                with home.box("fake", pull="never") as made:
                    made.exec(["true"])
                done += 1
                time.sleep(1)
            except KeyboardInterrupt:
                pass
            timer.join()
        print(done >= 0, [b.state for b in home.boxes() if b.id not in others])
    """
    program = python(body, home)
    out, err = program.communicate(timeout=120)
    # Python swallows an interrupt within the collector's work, and says so.
    assert (program.returncode, out) == (0, "True []\n"), err
    assert not err.replace("KeyboardInterrupt", "").count("Error"), err


def test_a_child_of_a_fork_has_to_open_its_own(home: holt.Home) -> None:
    body = """
        import gc, threading
        program = box.popen(["cat"], stdin=True)
        provider = holt.Provider(home, {"image": "fake", "pull": "never"})
        pid = os.fork()
        if pid == 0:
            refused = 0
            for call in (home.boxes, box.info, lambda: sandbox.stat("/"), lambda: program.wait(1),
                         provider.stats, lambda: home.path):
                try:
                    call()
                except holt.ForkedError:
                    refused += 1
            home.close(), box.close(), program.close(), provider.close()
            del home, box, program, provider, sandbox
            gc.collect()
            mine = holt.Home(sys.argv[1])
            with mine.box("fake", pull="never") as own:
                ran = own.exec(["echo", "child"]).stdout == b"child\\n"
            os._exit(0 if refused == 6 and ran else refused + 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        program.write(b"still here")
        program.close_stdin()
        assert program.read() == b"still here"
        assert program.wait().exit_code == 0
        assert sandbox.execute_command("echo parent") == "parent\\n"
        print("fine")
    """
    program = python(body, home, "-W", "ignore::DeprecationWarning")
    out, err = program.communicate(timeout=60)
    assert (out, err, program.returncode) == ("fine\n", "", 0)


@pytest.mark.parametrize("options", [("-X", "dev"), ("-W", "error")])
def test_the_end_of_the_interpreter_is_quiet(home: holt.Home, options: tuple[str, ...]) -> None:
    body = """
        import asyncio, threading
        from holt import aio
        program = box.popen(["cat"], stdin=True)
        provider = holt.Provider(home, {"image": "fake", "pull": "never"}, on_event=print)
        sandbox_id = provider.acquire("t", user_id=str(os.getpid()))
        kept = provider.get(sandbox_id)
        threading.Thread(target=box.exec, args=(["sleep", "1000"],), daemon=True).start()
        async def main():
            task = asyncio.create_task(aio.Sandbox(sandbox, home).execute_command("sleep 1000"))
            await asyncio.sleep(0.2)
        asyncio.run(main())
        box.cycle = box
        print("end", flush=True)
    """
    program = python(body, home, *options)
    out, err = program.communicate(timeout=60)
    assert program.returncode == 0, err
    assert out.endswith("end\n") and err == ""
    # What it had waits for its thread; nobody comes.
    for box in home.boxes():
        if (box.name or "").startswith("holt-"):
            box.remove(force=True)


def test_ten_thousand_calls_cost_nothing(world: World) -> None:
    """9,800 calls of files, 200 commands: memory, descriptors, threads stay where they are."""
    sandbox = world.sandbox
    name = f"{world.cases_dir}/flat"
    content = b"x" * 1000

    def turn(calls: int, commands: int) -> None:
        for _ in range(calls // 4):
            sandbox.update_file(name, content)
            assert sandbox.read_bytes(name) == content
            sandbox.stat(name)
            sandbox.grep(name, "y")
        for _ in range(commands):
            assert world.box.exec(["true"]).exit_code == 0

    def rss() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    sandbox.make_directory(world.cases_dir, parents=True)
    turn(1000, 50)
    gc.collect()
    tracemalloc.start()
    turn(400, 20)
    before = (rss(), tracemalloc.get_traced_memory()[0], open_files(), threading.active_count())
    turn(9800 - 1400, 130)
    gc.collect()
    after = (rss(), tracemalloc.get_traced_memory()[0], open_files(), threading.active_count())
    tracemalloc.stop()
    sandbox.remove(name)
    assert after[0] - before[0] < 4 << 20, (before, after)
    assert after[1] - before[1] < 300_000, (before, after)
    assert after[2:] == before[2:]


def test_an_interrupt_ends_a_file_call_that_nobody_answers(home: holt.Home) -> None:
    body = """
        import signal
        keeper = box.inspect()["state"]["keeper_pid"]
        sandbox.stat("/")
        os.kill(keeper, signal.SIGSTOP)
        try:
            print("calling", flush=True)
            sandbox.stat("/")
            print("returned")
        except KeyboardInterrupt:
            os.kill(keeper, signal.SIGCONT)
            print("interrupted", sandbox.stat("/").type, flush=True)
    """
    program = python(body, home)
    assert program.stdout is not None
    assert program.stdout.readline() == "calling\n"
    time.sleep(0.5)
    before = time.monotonic()
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert time.monotonic() - before < 10
    assert (out, err, program.returncode) == ("interrupted directory\n", "", 0)
