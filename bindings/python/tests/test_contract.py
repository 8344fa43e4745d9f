# SPDX-License-Identifier: Apache-2.0
"""The contract's cases, those of the C suite from the same files, through the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import World
from contract_cases import Run, why_not

FILES = sorted((Path(__file__).resolve().parents[3] / "tests/contract").glob("*.json"))
CASES = [case for path in FILES for case in json.loads(path.read_text())]
ASKED = [case for case in CASES if why_not(case) is None]


@pytest.mark.parametrize("case", ASKED, ids=lambda c: f"{c['rows'][0]}: {c['name']}"[:100])
def test_case(world: World, case: dict[str, Any], request: pytest.FixtureRequest) -> None:
    for need in case.get("needs", []):
        has = need.removeprefix("no-")
        if (has in world.has) == need.startswith("no-"):
            return  # another world's; test_most_cases_are_asked counts those of this one
    Run(world, case, CASES.index(case)).run()


def test_most_cases_are_asked(world: World) -> None:
    """What Python has no way to ask is a handful; what this world lacks is another handful."""
    assert len(CASES) >= 490
    assert len(ASKED) >= len(CASES) * 0.95, {why_not(c) for c in CASES} - {None}
    here = [
        c
        for c in ASKED
        if all(
            (n.removeprefix("no-") in world.has) != n.startswith("no-") for n in c.get("needs", [])
        )
    ]
    assert len(here) >= 450, len(here)
