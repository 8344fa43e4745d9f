# SPDX-License-Identifier: Apache-2.0
"""holt.deerflow under a stand-in for DeerFlow's base classes."""

from __future__ import annotations

import asyncio
import errno
import importlib
import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import holt

pytest_plugins = ("deerflow_fixtures",)

USE = "holt.deerflow:HoltSandboxProvider"
Run = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def module(standin: None) -> ModuleType:
    return importlib.import_module("holt.deerflow")


@pytest.fixture
def make(module: ModuleType, deer_home: holt.Home, room: Path) -> Iterator[Callable[..., Any]]:
    """Make a provider; its sandboxes have a directory of the test as their user data."""
    made: list[Any] = []

    def one(*, home: holt.Home | None = deer_home, **values: Any) -> Any:
        config = {"image": "fake", "pull": "never", **values}
        # The guest is a process of this host: its shells shall not read somebody's profile.
        config["environment"] = {"HOME": str(room), **values.get("environment", {})}
        made.append(
            module.HoltSandboxProvider(config, home=home, user_data=str(room / "user-data"))
        )
        return made[-1]

    yield one
    for provider in made:
        provider.shutdown()


def configure(**values: Any) -> None:
    config = importlib.import_module("deerflow.config")
    section = config.SandboxConfig(use=USE, **values)
    config.set_app_config(config.AppConfig(section))


# --- What DeerFlow looks at -----------------------------------------------------------------------


def test_the_classes_are_subclasses_of_deerflows(module: ModuleType) -> None:
    base = importlib.import_module("deerflow.sandbox.sandbox_provider").SandboxProvider
    sandbox = importlib.import_module("deerflow.sandbox.sandbox").Sandbox
    cls = module.HoltSandboxProvider
    assert issubclass(cls, base) and not inspect.isabstract(cls)
    assert issubclass(module.HoltSandbox, sandbox) and not inspect.isabstract(module.HoltSandbox)
    assert cls.uses_thread_data_mounts is False
    assert cls.needs_upload_permission_adjustment is True
    assert module.HoltSandbox.persistent_shell_sessions is False
    assert issubclass(module.SandboxIdentityCollisionError, RuntimeError)


def test_signatures_are_those_of_the_base_classes(module: ModuleType) -> None:
    pairs = [
        ("deerflow.sandbox.sandbox", "Sandbox", module.HoltSandbox),
        ("deerflow.sandbox.sandbox_provider", "SandboxProvider", module.HoltSandboxProvider),
    ]
    for name, attribute, ours in pairs:
        base = getattr(importlib.import_module(name), attribute)
        for method, function in inspect.getmembers(base, inspect.isfunction):
            if method == "__init__":
                continue
            want = inspect.signature(function).parameters
            have = inspect.signature(getattr(ours, method)).parameters
            shape = [(p.name, p.kind, p.default) for p in want.values()]
            assert [(p.name, p.kind, p.default) for p in have.values()] == shape, method


def test_selected_by_the_configuration(module: ModuleType, deer_home: holt.Home) -> None:
    """As DeerFlow does it: by the class path, without arguments, one for the process."""
    providers = importlib.import_module("deerflow.sandbox.sandbox_provider")
    configure(image="fake", pull="never", home=deer_home.path)
    provider = providers.get_sandbox_provider()
    assert isinstance(provider, module.HoltSandboxProvider)
    assert providers.get_sandbox_provider() is provider
    first = provider.acquire("thread", user_id="ann")
    # A new configuration: the one of before parks its sandboxes, and the next one finds them.
    providers.reset_sandbox_provider()
    second = providers.get_sandbox_provider()
    assert second is not provider
    assert second.acquire("thread", user_id="ann") == first
    assert second.provider.stats().reclaimed == 1
    providers.shutdown_sandbox_provider()
    assert deer_home.boxes() == []
    provider.shutdown()


def test_without_deerflow(no_deerflow: None, deer_home: holt.Home, room: Path) -> None:
    module = importlib.import_module("holt.deerflow")
    with pytest.raises(ImportError, match="deerflow-harness"):
        module.HoltSandboxProvider()
    config = {"image": "fake", "pull": "never", "environment": {"HOME": str(room)}}
    provider = module.HoltSandboxProvider(config, home=deer_home)
    try:
        sandbox = provider.get(provider.acquire("t"))
        assert sandbox.id == provider.acquire("t")
        assert sandbox.execute_command("echo in") == "in\n"
    finally:
        provider.shutdown()


# --- Configuration --------------------------------------------------------------------------------


class Slots:
    __slots__ = ("idle_timeout", "image")

    def __init__(self, image: str, idle_timeout: int) -> None:
        self.image = image
        self.idle_timeout = idle_timeout


def test_a_configuration_may_be_any_object(module: ModuleType, deer_home: holt.Home) -> None:
    config = importlib.import_module("deerflow.config")
    for given in (
        config.SandboxConfig(use=USE, image="an-image", idle_timeout=0),
        SimpleNamespace(use=USE, image="an-image", idle_timeout=0, replicas=None),
        {"image": "an-image", "idle_timeout": 0},
        Slots("an-image", 0),
    ):
        provider = module.HoltSandboxProvider(given, home=deer_home)
        values = provider.provider.config
        assert [values.get(key) for key in ("image", "idle_timeout", "replicas")] == [
            "an-image",
            "0",
            "3",
        ]
        provider.shutdown()


def test_all_keys_of_deerflow_are_taken(module: ModuleType, deer_home: holt.Home) -> None:
    config = importlib.import_module("deerflow.config")
    written = {
        **config.SandboxConfig.DEFAULTS,
        "memory_mib": None,
        "cpus": None,
        "image": "",
        "port": 8080,
        "ownership": {
            "type": "redis",
            "redis_url": "redis://localhost",
            "renewal_interval_seconds": 30,
            "ttl_multiplier": 4,
            "key_prefix": "a",
        },
        "mounts": [{"host_path": "/a", "container_path": "/b", "read_only": True}],
        "thread_data_mounts": True,
        "network": {"mode": "open", "domains": [], "grant_ttl": 300},
        "prewarm": {"on": True},
        "something_new": {"nested": [1]},
    }
    provider = module.HoltSandboxProvider(config.SandboxConfig(use=USE, **written), home=deer_home)
    values = provider.provider.config.values()
    want = {
        "image": "python:3.12-slim",
        "replicas": 3,
        "idle_timeout": 600,
        "acquire_timeout": 30,
        "health_check_skip_seconds": 0,
        "memory_mib": 512,
        "cpus": 1,
    }
    assert {key: values[key] for key in want} == want
    provider.shutdown()


def test_defaults_of_deerflow_are_nobodys_words(module: ModuleType, deer_home: holt.Home) -> None:
    config = importlib.import_module("deerflow.config")
    section = config.SandboxConfig(use=USE, image="an-image", port=8080)
    provider = module.HoltSandboxProvider(section, home=deer_home)
    warnings = provider.provider.config.warnings()
    assert sorted(text.split("'")[1] for text in warnings) == ["port", "use"]
    provider.shutdown()


def test_values_get_through(module: ModuleType, deer_home: holt.Home) -> None:
    given = {
        "image": "an-image",
        "memory_mib": 1024,
        "cpus": 2,
        "replicas": 7,
        "idle_timeout": 1800,
        "acquire_timeout": 60,
        "health_check_skip_seconds": 1.5,
        "pool": "agents",
    }
    provider = module.HoltSandboxProvider(given, home=deer_home)
    values = provider.provider.config.values()
    assert {key: values[key] for key in given} == given
    provider.shutdown()


@pytest.mark.parametrize(
    ("network", "mode", "allow"),
    [
        ({"mode": "isolated"}, "isolated", None),
        ({"mode": "allowlist", "allowed_domains": ["*.example.com"]}, "allowlist", "*.example.com"),
        ({"mode": "allowlist", "allow": ["a.example:443"]}, "allowlist", "a.example:443"),
        ("isolated", "isolated", None),
        ({"mode": "open", "allowed_domains": []}, "open", None),
    ],
)
def test_the_network(
    module: ModuleType, deer_home: holt.Home, network: Any, mode: str, allow: str | None
) -> None:
    provider = module.HoltSandboxProvider({"network": network}, home=deer_home)
    config = provider.provider.config
    assert (config.get("network"), config.get("network.allow")) == (mode, allow)
    provider.shutdown()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("replicas", 0),
        ("replicas", True),
        ("acquire_timeout", 0),
        ("burst_limit", -1),
        ("overflow_policy", "maybe"),
        ("health_check_skip_seconds", -0.5),
        ("idle_timeout", "soon"),
        ("bash_command_timeout", 0),
        ("bash_output_max_chars", -1),
        ("memory_mib", 1),
        ("cpus", 0),
        ("environment", {"A B": "x"}),
        ("environment", {"A B": "$x"}),
        ("environment", ["A=x"]),
        ("ownership", {"ttl_multiplier": 1}),
        ("ownership", {"type": "paper"}),
        ("mounts", [{"host_path": "/a"}]),
        ("network", {"mode": "half"}),
    ],
)
def test_a_bad_value_is_an_error_at_once(
    module: ModuleType, deer_home: holt.Home, key: str, value: Any
) -> None:
    with pytest.raises(ValueError, match=f"{key}|A B"):
        module.HoltSandboxProvider({key: value}, home=deer_home)


def test_it_is_read_once(module: ModuleType, deer_home: holt.Home) -> None:
    config = SimpleNamespace(image="an-image", replicas=2)
    provider = module.HoltSandboxProvider(config, home=deer_home)
    config.replicas = 9
    assert provider.provider.config.get("replicas") == "2"
    provider.shutdown()


def test_variables_are_taken_as_they_are(make: Callable[..., Any]) -> None:
    # DeerFlow has replaced "$NAME" already; a password may begin with a dollar sign.
    provider = make(environment={"PLAIN": "plain", "MONEY": "$100"})
    sandbox = provider.get(provider.acquire("t"))
    assert sandbox.execute_command('echo "$PLAIN $MONEY"') == "plain $100\n"
    assert sandbox.execute_command('echo "$PLAIN $MONEY"', {"MONEY": "none"}) == "plain none\n"
    assert sandbox.execute_command('echo "$MONEY"') == "$100\n"


def test_the_time_of_a_command(make: Callable[..., Any]) -> None:
    provider = make(bash_command_timeout=1)
    sandbox = provider.get(provider.acquire("t"))
    assert "Command timed out after 1 second " in sandbox.execute_command("echo a; sleep 1000")
    assert sandbox.execute_command("sleep 1.5; echo done", timeout=60) == "done\n"


# --- Turns ----------------------------------------------------------------------------------------


def test_a_turn_and_the_next_one(make: Callable[..., Any], module: ModuleType) -> None:
    provider = make()
    first = provider.acquire("thread-1", user_id="alice")
    assert first == "dc977b840cb8638e"
    assert provider.acquire("thread-1", user_id="alice") == first
    sandbox = provider.get(first)
    assert isinstance(sandbox, module.HoltSandbox) and sandbox.id == first
    assert provider.get(first) is sandbox
    provider.release(first)
    assert provider.get(first) is None
    provider.release(first)
    provider.release("unknown")
    # Who has it still can use it: the machine runs on.
    assert sandbox.execute_command("echo in") == "in\n"
    assert provider.acquire("thread-1", user_id="alice") == first
    assert provider.get(first).execute_command("echo in") == "in\n"
    assert provider.provider.stats().created == 1


def test_get_does_no_input_and_output(make: Callable[..., Any], deer_home: holt.Home) -> None:
    provider = make()
    sandbox_id = provider.acquire("t")
    sandbox = provider.get(sandbox_id)

    def counted() -> tuple[int, int]:
        text = Path("/proc/thread-self/io").read_text()
        found = dict(line.split(": ") for line in text.splitlines())
        return int(found["syscr"]), int(found["syscw"])

    def thousand() -> tuple[int, int]:
        before = counted()
        between = counted()  # what counting itself takes
        for _ in range(1000):
            assert provider.get(sandbox_id) is sandbox
            assert provider.get("unknown") is None
        after = counted()
        return after[0] - between[0] - (between[0] - before[0]), after[1] - between[1]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(thousand).result() == (0, 0)


def test_users_and_threads_are_kept_apart(make: Callable[..., Any]) -> None:
    provider = make(replicas=10)
    scopes = [("t-1", "u-1"), ("t-2", "u-1"), ("t-1", "u-2"), ("t-1", None), ("t-1", "")]
    found = [provider.acquire(thread, user_id=user) for thread, user in scopes]
    assert found[0] == "8ee1a188a789a4f6"
    assert found[3:] == ["d17a4c5874ec1bbb", "57fb26360b48bcf0"]
    assert len(set(found)) == 5
    once = [provider.acquire(), provider.acquire()]
    assert once[0] != once[1] and all(re.fullmatch("[0-9a-f]{8}", one) for one in once)


def test_another_scope_of_the_same_id_is_refused(
    make: Callable[..., Any], module: ModuleType
) -> None:
    provider = make()
    first = provider.acquire("c", user_id="a:b")
    sandbox = provider.get(first)
    for release in (False, True):
        if release:
            provider.release(first)
        with pytest.raises(module.SandboxIdentityCollisionError) as caught:
            provider.acquire("b:c", user_id="a")
        assert str(caught.value).startswith(f"Sandbox ID collision for {first}")
    with pytest.raises(module.SandboxIdentityCollisionError):
        asyncio.run(provider.acquire_async("b:c", user_id="a"))
    assert provider.acquire("c", user_id="a:b") == first
    assert sandbox.execute_command("echo in") == "in\n"
    assert provider.provider.stats().created == 1


def test_many_acquires_of_one_thread_make_one(make: Callable[..., Any]) -> None:
    provider = make()
    together = threading.Barrier(8)

    def one() -> tuple[str, Any]:
        together.wait()
        sandbox_id = provider.acquire("t", user_id="u")
        return sandbox_id, provider.get(sandbox_id)

    with ThreadPoolExecutor(8) as pool:
        found = [future.result() for future in [pool.submit(one) for _ in range(8)]]
    assert len({sandbox_id for sandbox_id, _ in found}) == 1
    assert len({id(sandbox) for _, sandbox in found}) == 1
    assert provider.provider.stats().created == 1


def test_acquire_async_leaves_the_loop_alone(make: Callable[..., Any]) -> None:
    provider = make()

    async def main() -> None:
        ids = await asyncio.gather(
            *(provider.acquire_async("t", user_id="u") for _ in range(8)),
            provider.acquire_async("other"),
        )
        assert len(set(ids)) == 2
        # What is given up while it is made is made, and the next acquire gets it.
        task = asyncio.ensure_future(provider.acquire_async("third"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await provider.acquire_async("third")

    asyncio.run(main())
    assert provider.provider.stats().created == 3


def test_a_dead_sandbox_is_replaced(make: Callable[..., Any], deer_home: holt.Home) -> None:
    provider = make()
    first = provider.acquire("t")
    sandbox = provider.get(first)
    deer_home.get(f"holt-default-{first}").kill()
    assert sandbox.execute_command("true").startswith("Error: ")
    assert provider.get(first) is None
    assert provider.acquire("t") == first
    fresh = provider.get(first)
    assert fresh is not sandbox
    # The old one does the new one no harm.
    assert sandbox.execute_command("true") == "Error: sandbox has been closed"
    assert provider.get(first) is fresh
    assert fresh.execute_command("echo in") == "in\n"


def test_leases(make: Callable[..., Any]) -> None:
    provider = make()
    first = provider.acquire_lease("lead", "t", user_id="u")
    assert provider.acquire_lease("lead", "t", user_id="u") == first
    assert provider.acquire_lease("helper", "t", user_id="u") == first
    assert provider.acquire_lease("upload", "t", user_id="u", park=False) == first
    with pytest.raises(RuntimeError, match="cannot move between thread identities"):
        provider.acquire_lease("helper", "another", user_id="u")
    sandbox = provider.get(first)
    provider.release_lease("lead")
    provider.release_lease("helper")
    assert provider.get(first) is sandbox
    provider.release_lease("upload")
    assert provider.get(first) is None
    provider.release_lease("nobody")
    # One that only wanted to upload does not park.
    provider.acquire_lease("upload", "t", user_id="u", park=False)
    provider.release_lease("upload")
    assert provider.get(first) is not None


# --- The end --------------------------------------------------------------------------------------


def test_reset_parks_and_closes(make: Callable[..., Any], deer_home: holt.Home) -> None:
    provider = make()
    first = provider.acquire("t")
    sandbox = provider.get(first)
    provider.reset()
    provider.reset()
    assert provider.get(first) is None
    for acquire in (
        lambda: provider.acquire("t"),
        lambda: asyncio.run(provider.acquire_async("t")),
        lambda: provider.acquire_lease("owner", "t"),
    ):
        with pytest.raises(RuntimeError) as caught:
            acquire()
        assert str(caught.value) == "AcquireSerializer is closed"
    assert sandbox.execute_command("echo in") == "in\n"
    once = provider.acquire()
    assert provider.get(once) is not None
    # Another one finds what was parked.
    other = make()
    assert other.acquire("t") == first
    assert other.provider.stats().reclaimed == 1
    provider.shutdown()
    assert other.get(first).execute_command("echo in") == "in\n"


def test_shutdown_ends_all_and_twice_is_fine(
    make: Callable[..., Any], deer_home: holt.Home
) -> None:
    provider = make()
    first = provider.acquire("active")
    provider.release(provider.acquire("warm"))
    sandbox = provider.get(first)
    provider.shutdown()
    assert deer_home.boxes() == []
    provider.shutdown()
    assert provider.get(first) is None
    for acquire in (
        lambda: provider.acquire("t"),
        lambda: provider.acquire(),
        lambda: asyncio.run(provider.acquire_async("t")),
        lambda: provider.acquire_lease("owner", "t"),
    ):
        with pytest.raises(RuntimeError, match="shutting down; cannot acquire sandbox"):
            acquire()
    provider.release(first)
    provider.release_lease("owner")
    provider.reset()
    assert sandbox.execute_command("true").startswith("Error: ")


def test_a_shutdown_meets_acquires(make: Callable[..., Any], deer_home: holt.Home) -> None:
    provider = make(replicas=20)
    together = threading.Barrier(9)

    def one(number: int) -> str:
        together.wait()
        try:
            return str(provider.acquire(f"t-{number}"))
        except RuntimeError as error:
            assert "shut" in str(error)
            return ""

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(one, number) for number in range(8)]
        together.wait()
        provider.shutdown()
        for future in futures:
            future.result()
    assert deer_home.boxes() == []


def test_the_end_of_the_process_shuts_down(deer_home: holt.Home, other_process: Run) -> None:
    done = other_process(
        """
        from holt.deerflow import HoltSandboxProvider
        provider = HoltSandboxProvider({"image": "fake", "pull": "never", "home": HOME})
        print(provider.acquire("t", user_id="u"))
        """
    )
    token = holt.derive_sandbox_scope_token(user_id="u", thread_id="t")
    assert (done.stdout, done.stderr, done.returncode) == (f"{token}\n", "", 0)
    assert deer_home.boxes() == []


@pytest.mark.parametrize("end", ["os._exit(0)", "provider.release(found); os._exit(0)"])
def test_another_process_takes_over(
    make: Callable[..., Any], other_process: Run, room: Path, end: str
) -> None:
    """What a process had when it died is warm, with its files and programs."""
    note = room / "note"
    done = other_process(
        f"""
        from holt.deerflow import HoltSandboxProvider
        provider = HoltSandboxProvider({{"image": "fake", "pull": "never", "home": HOME}})
        found = provider.acquire("t", user_id="u")
        provider.get(found).write_file({str(note)!r}, "hello")
        print(found, provider.provider.entries()[0].name, flush=True)
        {end}
        """
    )
    assert done.returncode == 0, done.stderr
    sandbox_id, name = done.stdout.split()
    provider = make()
    box = provider.provider.home.get(name)
    assert provider.acquire("t", user_id="u") == sandbox_id
    assert provider.provider.home.get(name).id == box.id
    assert provider.get(sandbox_id).read_file(str(note)) == "hello"
    stats = provider.provider.stats()
    assert (stats.created, stats.reclaimed) == (0, 1)


def test_what_a_living_process_has_is_let_alone(
    make: Callable[..., Any], other_process: Run
) -> None:
    provider = make()
    first = provider.acquire("t", user_id="u")
    done = other_process(
        """
        from holt.deerflow import HoltSandboxProvider
        provider = HoltSandboxProvider(
            {"image": "fake", "pull": "never", "home": HOME, "acquire_timeout": 1}
        )
        try:
            provider.acquire("t", user_id="u")
        except OSError as error:
            print(type(error).__name__)
        """
    )
    assert done.stdout == "BusyError\n", done.stderr
    assert provider.get(first).execute_command("echo in") == "in\n"


# --- The sandbox ----------------------------------------------------------------------------------


@pytest.fixture
def sandbox(make: Callable[..., Any]) -> Any:
    provider = make()
    return provider.get(provider.acquire("t"))


def test_commands(sandbox: Any) -> None:
    assert sandbox.execute_command("echo out; echo err >&2; exit 3") == (
        "out\n\nerr\n\nExit Code: 3"
    )
    assert sandbox.execute_command("true") == "(no output)"
    assert sandbox.execute_command("echo $A", {"A": "a"}) == "a\n"
    assert sandbox.execute_command("cd /; A=1") == "(no output)"
    assert sandbox.execute_command_in_scope("echo $A$B", {"B": "b"}, 5, scope_id="s") == "b\n"
    sandbox.release_command_scope("s")
    assert sandbox.execute_command("true", timeout=0) == "Error: timeout must be positive, got 0"
    for name in ("A B", "1A", "A-B", "", "A\n"):
        with pytest.raises(ValueError, match="POSIX"):
            sandbox.execute_command("true", {name: "x"})


def test_reading_raises(sandbox: Any, room: Path) -> None:
    path = str(room / "text")
    sandbox.write_file(path, "one\ntwo\n")
    sandbox.write_file(path, "three\n", append=True)
    assert sandbox.read_file(path) == "one\ntwo\nthree\n"
    assert sandbox.read_file(path, 2, 3) == "two\nthree"
    with pytest.raises(FileNotFoundError) as missing:
        sandbox.read_file(f"{path}-missing")
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, f"{path}-missing")
    with pytest.raises(IsADirectoryError):
        sandbox.read_file(str(room))
    with pytest.raises(PermissionError, match="path traversal detected"):
        sandbox.read_file("/mnt/user-data/../etc/passwd")
    with pytest.raises(ValueError, match="non-empty"):
        sandbox.read_file("")
    sandbox.update_file(path, b"\xff\xfe")
    with pytest.raises(UnicodeDecodeError):
        sandbox.read_file(path)


def test_uploads_and_downloads(sandbox: Any, room: Path) -> None:
    """The way of an upload: bytes to a directory that may be missing, and back."""
    path = f"{room}/user-data/uploads/new/every byte"
    content = bytes(range(256)) * 3
    sandbox.update_file(path, content)
    assert sandbox.download_file(path) == content
    assert (room / "user-data/uploads/new/every byte").read_bytes() == content
    for refused in (f"{room}/secret", f"{room}/user-data-evil/x", "/etc/passwd"):
        with pytest.raises(PermissionError, match="path must be under"):
            sandbox.download_file(refused)
    with pytest.raises(PermissionError, match="path traversal"):
        sandbox.download_file(f"{room}/user-data/../secret")
    with pytest.raises(OSError, match="No such file"):
        sandbox.download_file(f"{room}/user-data/missing")
    (room / "user-data/big").touch()
    with open(room / "user-data/big", "r+b") as big:
        big.truncate(104857601)
    with pytest.raises(OSError, match="maximum download size") as caught:
        sandbox.download_file(f"{room}/user-data/big")
    assert caught.value.errno == errno.EFBIG


def test_searching(sandbox: Any, room: Path) -> None:
    match = importlib.import_module("deerflow.sandbox.search").GrepMatch
    root = f"{room}/work"
    sandbox.write_file(f"{root}/src/a.py", "import os\nprint(os.getcwd())\n")
    sandbox.write_file(f"{root}/b.txt", "nothing\n")
    found, more = sandbox.grep(root, r"getcwd\(")
    assert (found, more) == ([match(f"{root}/src/a.py", 2, "print(os.getcwd())")], False)
    assert type(found[0]) is match
    assert sandbox.grep(root, "os", glob="*.txt") == ([], False)
    with pytest.raises(re.error):
        sandbox.grep(root, "(")
    assert sandbox.glob(root, "src/**/*.py") == ([f"{root}/src/a.py"], False)
    assert set(sandbox.list_dir(root)) == {
        root, f"{root}/src", f"{root}/src/a.py", f"{root}/b.txt",
    }  # fmt: skip
    with pytest.raises(FileNotFoundError):
        sandbox.list_dir(f"{root}/missing")


def test_any_thread_at_any_time(sandbox: Any) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda n: sandbox.execute_command(f"echo {n}"), range(64)))
    assert found == [f"{n}\n" for n in range(64)]


def test_modules_are_those_of_the_standin(module: ModuleType) -> None:
    assert "deerflow_standin" in str(sys.modules["deerflow"].__file__)


def test_the_configuration_of_the_page_is_taken() -> None:
    """docs/deerflow.md: both are read, and only `use` differs."""
    page = Path(__file__).resolve().parents[3] / "docs/deerflow.md"
    before, after = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert f"use: {USE}" in after
    assert re.sub("use: .*", "", before) == re.sub("use: .*", "", after)
    config = holt.Config.parse(after)
    assert (config.get("image"), config.get("memory_mib"), config.get("cpus")) == (
        "python:3.12-slim",
        "1024",
        "2",
    )
    assert [w for w in config.warnings() if "'use'" not in w] == []
