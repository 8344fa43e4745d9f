# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests about DeerFlow and the BoxLite-shaped module: a home for each test on the
fake engine ($HOLT_KEEPER, $HOLT_AGENT), and DeerFlow's stand-in."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import holt

STANDIN = str(Path(__file__).parent / "deerflow_standin")


def purge() -> dict[str, ModuleType]:
    """Take DeerFlow and what was imported against it out of the modules."""
    names = [
        name
        for name in sys.modules
        if name.split(".")[0] in ("boxlite", "deerflow") or name == "holt.deerflow"
    ]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory of the test's own that users of sandboxes can get into."""
    # Short: sockets lie beneath it.
    path = Path(tempfile.mkdtemp(prefix="holt-deer-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def deer_home(room: Path, pytestconfig: pytest.Config) -> Iterator[holt.Home]:
    """A home with the image "fake", in which no box may be left."""
    if pytestconfig.getoption("--holt-image", default=None):
        pytest.skip("these are for the fake engine")
    if "HOLT_KEEPER" not in os.environ:
        pytest.fail("name the fake engine in HOLT_KEEPER and HOLT_AGENT")
    with tarfile.open(room / "image.tar", "w") as archive:
        entry = tarfile.TarInfo("tmp")
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(entry)
    with holt.Home(room / "home") as home:
        home.import_image(room / "image.tar", "fake")
        yield home
        gc.collect()  # boxes and homes that are part of what a test has caught
        left = [(box.name, box.state) for box in home.boxes()]
        for name, _ in left:
            home.get(name or "").remove(force=True)
        assert left == []


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """DeerFlow's stand-in instead of a DeerFlow that may be installed."""
    before = purge()
    monkeypatch.syspath_prepend(STANDIN)
    yield
    purge()
    sys.modules.update(before)


@pytest.fixture
def no_deerflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No DeerFlow at all."""
    before = purge()
    monkeypatch.setitem(sys.modules, "deerflow", None)  # type: ignore[arg-type]
    yield
    purge()
    monkeypatch.undo()
    sys.modules.update(before)


@pytest.fixture
def other_process(deer_home: holt.Home) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run Python in another process, in which HOME is the test's home and DeerFlow its stand-in."""

    def run(body: str) -> subprocess.CompletedProcess[str]:
        text = "import os, sys\nHOME = sys.argv[1]\n" + textwrap.dedent(body)
        return subprocess.run(
            [sys.executable, "-c", text, deer_home.path],
            env={**os.environ, "PYTHONPATH": STANDIN, "HOLT_HOME": deer_home.path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run
