"""Programs of the guide to Agent Framework run as they stand and print what their comments say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_pages import check_program

PAGE = Path(__file__).parents[2] / "docs" / "adapters" / "agent-framework.md"
TEXT = PAGE.read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_there_are_programs() -> None:
    assert len(PROGRAMS) == 2


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_program_runs_and_prints_what_it_says(number: int, tmp_path: Path) -> None:
    check_program(PROGRAMS[number], tmp_path)


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (PAGE.parent / link).exists(), link
