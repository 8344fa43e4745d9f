# SPDX-License-Identifier: Apache-2.0
"""Whose sandbox it is: a user, and a thread of that user."""

from __future__ import annotations

import re
from typing import Any

from . import _call
from ._native import ffi, lib

#: Version of the derivation; it is not part of what is hashed.
SANDBOX_ID_VERSION = 1

_TOKEN = re.compile(r"[0-9a-f]{16}")


def _utf8(value: object) -> bytes:
    # None counts as the text "None", as anything counts as its text.
    return str(value).encode("utf-8")


def derive_sandbox_scope_token(*, user_id: str | None, thread_id: str | None) -> str:
    """The id of a scope's sandbox: 16 hex digits, the same on every machine.

    Raises:
        UnicodeEncodeError: for text that cannot be encoded.
    """
    user, thread = _utf8(user_id), _utf8(thread_id)
    ret = ffi.new("char[]", lib.HOLT_SCOPE_TOKEN_LEN + 1)
    _call.call(lib.holt_scope_token, user, len(user), thread, len(thread), ret)
    return _call.text_of(ret)


def is_sandbox_scope_token(value: Any) -> bool:
    """Whether a value has the form of a token; never raises."""
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None
