# SPDX-License-Identifier: Apache-2.0
"""The contract's cases, those of the C suite from the same files, through the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import World, what_is_there
from contract_cases import Run, why_not

FILES = sorted((Path(__file__).resolve().parents[3] / "tests/contract").glob("*.json"))
CASES = [case for path in FILES for case in json.loads(path.read_text())]
ASKED = [case for case in CASES if why_not(case) is None]


def has_all(case: dict[str, Any], has: set[str]) -> bool:
    needs = case.get("needs", [])
    return all((need.removeprefix("no-") in has) != need.startswith("no-") for need in needs)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cases whose needs are not there are no tests here; test_most_cases_are_asked counts them."""
    if "case" in metafunc.fixturenames:
        has = what_is_there(metafunc.config)
        chosen = [case for case in ASKED if has_all(case, has)]
        ids = [f"{case['rows'][0]}: {case['name']}"[:100] for case in chosen]
        metafunc.parametrize("case", chosen, ids=ids)


def test_case(world: World, case: dict[str, Any]) -> None:
    Run(world, case, CASES.index(case)).run()


def test_most_cases_are_asked(world: World) -> None:
    """What Python has no way to ask is a handful; what this world lacks is another handful."""
    assert len(CASES) >= 490
    assert len(ASKED) >= len(CASES) * 0.98, [why_not(case) for case in CASES]
    here = [case for case in ASKED if has_all(case, world.has)]
    assert len(here) >= len(ASKED) * 0.98, len(here)
