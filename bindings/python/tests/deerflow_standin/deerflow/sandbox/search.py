# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GrepMatch:
    path: str
    line_number: int
    line: str
