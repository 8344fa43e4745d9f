# SPDX-License-Identifier: Apache-2.0
"""Build libholt with its keeper and helper, put them into the package, and compile the extension.

`pip install ./bindings/python` in a source tree in which `make setup` has run is all that is
needed. HOLT_PYTHON_BUILD names another build directory than build/.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("HOLT_PYTHON_BUILD", ROOT / "build")).resolve()
LIBRARY = "libholt.so.0.1"
BESIDE = ["holt-keeper", "holt-net", "holt-open.so"]
TARGETS = ["./holt:shared_library", "./holt-keeper", "./holt-net", "./holt-open:shared_module"]


def kernel_files(kernel: Path) -> list[Path]:
    """What of the kernel that `make setup` unpacked a machine needs: the image, and the modules of
    the library's own table with those that they depend on."""
    (release,) = (kernel / "lib/modules").iterdir()
    modules = {m.stem.replace("-", "_"): m for m in release.rglob("*.ko")}
    table = (ROOT / "src/vmm/modules.c").read_text()
    names = re.findall(r'^\t\{"(\w+)", (?:true|false), ', table, re.MULTILINE)
    found: dict[str, Path] = {}
    while names:
        name = names.pop().replace("-", "_")
        if name in found or name not in modules:  # a missing one is built in
            continue
        found[name] = modules[name]
        depends = re.search(rb"\0depends=([^\0]*)\0", modules[name].read_bytes())
        names += [n for n in (depends[1].decode().split(",") if depends else []) if n]
    lists = [release / "modules.order", release / "modules.builtin"]
    return [*(kernel / "boot").glob("vmlinuz-*"), *lists, *found.values()]


def copy_kernel(target: Path) -> None:
    source = ROOT / ".kernel"
    for path in kernel_files(source):
        to = target / path.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)


class BuildNative(build_ext):
    """The extension, with the library beside it in `holt/_lib`."""

    def run(self) -> None:
        # Meson is no part of pip's own environment.
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        subprocess.run([ROOT / "tools" / "build", BUILD, *TARGETS], check=True, env=env)
        for extension in self.extensions:
            extension.library_dirs.append(str(BUILD))
        super().run()
        package = (HERE if self.inplace else Path(self.build_lib)) / "holt"
        lib = package / "_lib"
        shutil.rmtree(lib, ignore_errors=True)
        lib.mkdir(parents=True)
        for name in [LIBRARY, *BESIDE]:
            shutil.copy2(BUILD / name, lib / name, follow_symlinks=True)
        if (ROOT / ".kernel" / "complete").exists():
            copy_kernel(lib / "holt" / "kernel")


setup(
    cffi_modules=["native_build.py:ffibuilder"],
    cmdclass={"build_ext": BuildNative},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
