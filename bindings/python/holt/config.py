# SPDX-License-Identifier: Apache-2.0
"""The configuration of a provider: the section "sandbox" of a YAML file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from . import _call
from ._call import Handle, Strings, call
from ._native import ffi, lib


class Config:
    """Values of a provider; holt-config(1) has all keys with their defaults and ranges.

    Keys that are unknown, or mean nothing here, are accepted and told by `warnings`.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Config:
        """Read a YAML file with a section "sandbox"."""
        ret = ffi.new("holt_config **")
        call(lib.holt_config_load, _call.path_bytes(path), ret)
        return cls(Handle(ret[0], lib.holt_config_free, "the configuration"))

    @classmethod
    def parse(cls, text: str, name: str = "configuration") -> Config:
        """The same from memory; `name` is what errors call it."""
        keep = Strings()
        ret = ffi.new("holt_config **")
        data = text.encode("utf-8")
        call(lib.holt_config_parse, data, len(data), keep.one(name), ret)
        return cls(Handle(ret[0], lib.holt_config_free, "the configuration"))

    @classmethod
    def of(cls, values: Mapping[str, Any] | None = None) -> Config:
        """From the section's values as Python has them; None stands for the default."""
        given = {k: v for k, v in (values or {}).items() if v is not None}
        # JSON is YAML; "$NAME" is replaced as in a file.
        return cls.parse(json.dumps({"sandbox": given}, default=str))

    def get(self, key: str) -> str | None:
        """The value in effect as text, also a default; None where there is none."""
        with self._handle as pointer:
            value = lib.holt_config_get(pointer, _call.text_bytes(key, "key"))
            return _call.text_of(value) if value else None

    def set(self, key: str, value: str | None) -> None:
        """Change a value, as if it stood in the file; None: the default."""
        keep = Strings()
        with self._handle as pointer:
            call(lib.holt_config_set, pointer, keep.one(key, "key"), keep.one(value, "value"))

    def warnings(self) -> list[str]:
        """What was accepted and does nothing."""
        found: list[str] = []
        with self._handle as pointer:
            lines = lib.holt_config_warnings(pointer)
            while lines[len(found)]:
                found.append(_call.text_of(lines[len(found)]))
        return found

    def values(self) -> dict[str, Any]:
        """All values in effect; of "environment" the names."""
        with self._handle as pointer:
            text = lib.holt_config_json(pointer)
            if not text:
                raise MemoryError
            found: dict[str, Any] = json.loads(_call.text_of(text))
        return found
