# SPDX-License-Identifier: Apache-2.0
"""What the tests run on: the fake engine, whose guest is the agent as a plain process of this host.

$HOLT_KEEPER and $HOLT_AGENT name its two programs (tools/run-tests sets them). With
`--holt-image NAME` the contract's cases run on a real machine of that image of $HOLT_HOME instead.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import holt

IMAGE = "fake"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--holt-image", help="run the contract's cases on a machine of this image")


def what_is_there(config: pytest.Config) -> set[str]:
    """What the needs of cases are held against."""
    if config.getoption("--holt-image"):
        return {"shell", "machine", "root"}  # of busybox
    return {"shell", "bash", "fake"} | ({"root"} if os.geteuid() == 0 else set())


@dataclass
class World:
    """Where cases run."""

    home: holt.Home
    image: str
    box: holt.Box
    sandbox: holt.Sandbox
    text: holt.Sandbox  #: that gives text instead of errors
    host_dir: Path  #: for scratch files
    cases_dir: str  #: in the box
    user_data: str
    env: dict[str, str]
    has: set[str]


def import_image(home: holt.Home, scratch: Path) -> None:
    """An image of nothing but a directory; the fake engine does not look at it."""
    path = scratch / "image.tar"
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("tmp")
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(entry)
    home.import_image(path, IMAGE)


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    # Short, and users of sandboxes have to get in.
    path = Path(tempfile.mkdtemp(prefix="holt-python-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def home(scratch: Path, pytestconfig: pytest.Config) -> Iterator[holt.Home]:
    if pytestconfig.getoption("--holt-image"):
        yield holt.Home()
        return
    if "HOLT_KEEPER" not in os.environ:
        pytest.fail("name the fake engine in HOLT_KEEPER and HOLT_AGENT, or give --holt-image")
    with holt.Home(scratch / "home") as home:
        import_image(home, scratch)
        yield home
        assert [(b.name, b.state) for b in home.boxes()] == [], "a test has left a box"


@pytest.fixture(scope="session")
def no_profile(scratch: Path) -> dict[str, str]:
    """What this host's user has in their profile is no part of any test."""
    return {"HOME": str(scratch)}


@pytest.fixture(scope="session")
def image(pytestconfig: pytest.Config) -> str:
    return str(pytestconfig.getoption("--holt-image") or IMAGE)


@pytest.fixture(scope="session")
def world(
    home: holt.Home, image: str, scratch: Path, pytestconfig: pytest.Config
) -> Iterator[World]:
    fake = not pytestconfig.getoption("--holt-image")
    env = {"HOME": str(scratch)} if fake else {}
    user_data = str(scratch / "user-data") if fake else "/mnt/user-data"
    with home.box(image, pull="never") as box:
        own = {"env": env, "user_data": user_data}
        yield World(
            home=home,
            image=image,
            box=box,
            sandbox=box.sandbox(**own),
            text=box.sandbox(**own, text_errors=True),
            host_dir=scratch,
            cases_dir=str(scratch / "cases") if fake else "/tmp/contract",
            user_data=user_data,
            env=env,
            has=what_is_there(pytestconfig),
        )


@pytest.fixture(scope="session")
def box(world: World) -> holt.Box:
    return world.box


@pytest.fixture
def sandbox(world: World, tmp_path: Path) -> Iterator[holt.Sandbox]:
    """One whose working directory is empty and the test's own."""
    cwd = f"{world.cases_dir}/{tmp_path.name}"
    world.sandbox.make_directory(cwd, parents=True)
    with world.box.sandbox(cwd=cwd, env=world.env, user_data=world.user_data) as sandbox:
        yield sandbox
    world.sandbox.remove(cwd, recursive=True, force=True)


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left() -> Iterator[None]:
    """No thread and no descriptor of a module's tests stays, but the package's own three threads
    and the ones that a home keeps."""
    before = open_files()
    yield
    deadline = time.monotonic() + 10
    while (names := foreign_threads()) or open_files() > before + 40:
        assert time.monotonic() < deadline, f"left: {names}, {open_files() - before} descriptors"
        time.sleep(0.05)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def foreign_threads() -> list[str]:
    known = ("MainThread", "holt-call", "holt-close", "holt-jobs", "holt-signals", "asyncio_")
    return [t.name for t in threading.enumerate() if not t.name.startswith(known)]
