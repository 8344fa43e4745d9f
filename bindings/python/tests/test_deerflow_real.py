# SPDX-License-Identifier: Apache-2.0
"""The same with DeerFlow itself: its own BoxLite provider on Holt's module, and Holt's provider
under its own base classes.

These tests are selected where `deerflow` can be imported (it wants Python 3.12 and much besides):
install deerflow-harness beside this package, or name its sources in PYTHONPATH.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import holt

pytest_plugins = ("deerflow_fixtures",)

__test__ = False
with contextlib.suppress(ImportError):
    importlib.import_module("deerflow.sandbox.sandbox_provider")
    __test__ = "deerflow_standin" not in str(sys.modules["deerflow"].__file__)


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the section "sandbox" of DeerFlow's configuration."""
    section = importlib.import_module("deerflow.config.sandbox_config").SandboxConfig
    places = (
        "deerflow.config",
        "deerflow.sandbox.sandbox_provider",
        "deerflow.community.boxlite.provider",
    )

    def one(use: str, **values: Any) -> None:
        config = type("Config", (), {"sandbox": section(use=use, **values)})
        for place in places:
            module = importlib.import_module(place)
            monkeypatch.setattr(module, "get_app_config", lambda: config)

    return one


@pytest.fixture
def boxlite(deer_home: holt.Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import holt.compat.boxlite as module

    monkeypatch.setenv("HOLT_HOME", deer_home.path)
    monkeypatch.setattr(module, "_default", module.Runtime())
    module.install()
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "boxlite"]:
        del sys.modules[name]


def test_the_class_path_resolves(configure: Callable[..., None], deer_home: holt.Home) -> None:
    providers = importlib.import_module("deerflow.sandbox.sandbox_provider")
    ours = importlib.import_module("holt.deerflow")
    configure("holt.deerflow:HoltSandboxProvider", image="fake", pull="never", home=deer_home.path)
    provider = providers.get_sandbox_provider()
    try:
        assert type(provider) is ours.HoltSandboxProvider
        assert isinstance(provider, providers.SandboxProvider)
        assert provider.provider.config.get("replicas") == "3"
        sandbox_id = provider.acquire("thread-1", user_id="alice")
        assert sandbox_id == "dc977b840cb8638e"
        assert provider.get(sandbox_id) is provider.get(sandbox_id)
    finally:
        providers.shutdown_sandbox_provider()
    assert deer_home.boxes() == []


def test_our_sandbox_is_one_of_theirs(
    configure: Callable[..., None], deer_home: holt.Home, room: Path
) -> None:
    base = importlib.import_module("deerflow.sandbox.sandbox").Sandbox
    match = importlib.import_module("deerflow.sandbox.search").GrepMatch
    ours = importlib.import_module("holt.deerflow")
    provider = ours.HoltSandboxProvider(
        {"image": "fake", "pull": "never", "environment": {"HOME": str(room)}}, home=deer_home
    )
    try:
        sandbox = provider.get(provider.acquire("t"))
        assert isinstance(sandbox, base)
        sandbox.write_file(f"{room}/a.txt", "one\ntwo\n")
        found, more = sandbox.grep(str(room), "two", glob="*.txt")
        assert (found, more) == ([match(path=f"{room}/a.txt", line_number=2, line="two")], False)
        with pytest.raises(FileNotFoundError):
            sandbox.read_file(f"{room}/missing")
    finally:
        provider.shutdown()


def test_their_boxlite_provider(
    configure: Callable[..., None], boxlite: None, deer_home: holt.Home, room: Path
) -> None:
    theirs = importlib.import_module("deerflow.community.boxlite")
    use = "deerflow.community.boxlite:BoxliteProvider"
    configure(use, image="fake", environment={"HOME": str(room)}, replicas=8)
    provider = theirs.BoxliteProvider()
    try:
        with ThreadPoolExecutor(4) as pool:
            ids = list(pool.map(lambda t: provider.acquire(t, user_id="u"), ["a", "a", "b", "b"]))
        assert ids[0] == ids[1] != ids[2] == ids[3]
        sandbox = provider.get(ids[0])
        assert sandbox.execute_command("echo out; echo err >&2") == "out\n\nerr\n"
        content = "one\ntwo\n" * 20000
        sandbox.write_file(f"{room}/dir/a.txt", content)
        sandbox.write_file(f"{room}/dir/a.txt", "end\n", append=True)
        assert sandbox.read_file(f"{room}/dir/a.txt") == content + "end\n"
        assert sandbox.read_file(f"{room}/missing").startswith("Error: ")
        found, _ = sandbox.grep(f"{room}/dir", "end")
        assert [(one.line_number, one.line) for one in found] == [(40001, "end")]
        assert sandbox.list_dir(f"{room}/dir") == [f"{room}/dir", f"{room}/dir/a.txt"]
        provider.release(ids[0])
        assert provider.get(ids[0]) is None
        assert provider.acquire("a", user_id="u") == ids[0]
        assert provider.get(ids[0]) is sandbox
        # A machine that is gone is told by the words that this provider looks for.
        deer_home.get(f"deer-flow-boxlite-{ids[0]}").kill()
        assert "vsock disconnected" in sandbox.execute_command("true")
        assert provider.get(ids[0]) is None
        assert provider.acquire("a", user_id="u") == ids[0]
        assert provider.get(ids[0]).execute_command("echo in") == "in\n"
    finally:
        provider.shutdown()
    assert deer_home.boxes() == []


def test_their_boxlite_provider_adopts(
    configure: Callable[..., None], boxlite: None, deer_home: holt.Home, room: Path
) -> None:
    theirs = importlib.import_module("deerflow.community.boxlite")
    use = "deerflow.community.boxlite:BoxliteProvider"
    configure(use, image="fake", environment={"HOME": str(room)})
    sandbox_id = theirs.BoxliteProvider._sandbox_id("t", "u")
    left = deer_home.create("fake", name=f"deer-flow-boxlite-{sandbox_id}", pull="never")
    left.start(detached=True)
    first = left.id
    left.close()
    provider = theirs.BoxliteProvider()
    try:
        assert provider.acquire("t", user_id="u") == sandbox_id
        assert provider.get(sandbox_id).execute_command("echo in") == "in\n"
        assert [box.id for box in deer_home.boxes()] == [first]
    finally:
        provider.shutdown()
    assert deer_home.boxes() == []
