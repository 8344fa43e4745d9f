# SPDX-License-Identifier: Apache-2.0
"""The extension module `holt._native`: libholt's public headers, read by cffi in API mode.

The declarations are taken from the headers themselves, so they cannot differ from the library; the
compiler checks each against the real one. Setuptools calls `ffibuilder` (see setup.py).
"""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"

# What the library calls: each is a Python function that a module of the package defines.
CALLBACKS = """
extern "Python" {
int native_run(holt_cancel *cancel, void *user, holt_error **reterr);
int native_output(int stream, const void *data, size_t len, void *user);
int native_data(const void *data, size_t len, void *user);
int native_source(void *data, size_t size, size_t *ret_len, void *user);
int native_entry(const holt_entry *entry, void *user);
int native_match(const holt_match *match, void *user);
void native_terminal(const char *id, const holt_error *error, void *user);
void native_provider_event(const holt_provider_event *event, void *user);
int native_pool_entry(const holt_pool_entry *entry, void *user);
void native_pull_event(const holt_pull_event *event, void *user);
void native_log(int level, const char *component, const char *message, void *user);
}
"""


def headers() -> list[Path]:
    """The public headers in the order in which holt.h includes them, each once."""
    found: list[Path] = []

    def visit(path: Path) -> None:
        if path in found:
            return
        for name in re.findall(r'#include "([^"]+)"', path.read_text()):
            visit((path.parent / name).resolve())
        found.append(path)

    visit(INCLUDE / "holt.h")
    return found


def declarations(text: str) -> str:
    """One header as cffi reads it: no comments, no conditions, constants as `#define NAME ...`."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    constants = re.findall(r"^#define (HOLT_\w+)[ \t]+\(?-?(?:\d|UINT)", text, re.MULTILINE)
    text = re.sub(r'#ifdef __cplusplus\s*(?:extern "C" \{|\})\s*#endif', "", text)
    text = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\bHOLT_(?:API|MUST_CHECK)\b|\bHOLT_NONNULL\([^)]*\)", "", text)
    text = re.sub(r"\bchar ret\[[^\]]+\]", "char *ret", text)
    return text + "".join(f"\n#define {name} ..." for name in constants)


ffibuilder = FFI()
ffibuilder.cdef("\n".join(declarations(h.read_text()) for h in headers()) + CALLBACKS)
ffibuilder.set_source(
    "holt._native",
    '#include "holt.h"',
    include_dirs=[str(INCLUDE)],
    libraries=["holt"],
    library_dirs=[],  # setup.py says where
    extra_link_args=["-Wl,-rpath,$ORIGIN/_lib"],
    py_limited_api=True,
)
