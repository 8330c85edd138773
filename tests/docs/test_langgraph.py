"""docs/adapters/langgraph.md: its programs run and print what they say; its links lead on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_pages import check_program

PAGE = Path(__file__).parents[2] / "docs" / "adapters" / "langgraph.md"
TEXT = PAGE.read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_program_runs_and_prints_what_it_says(number: int, tmp_path: Path) -> None:
    check_program(PROGRAMS[number], tmp_path)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_links_lead_somewhere(link: str) -> None:
    assert (PAGE.parent / link).exists()
