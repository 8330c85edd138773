"""docs/adapters/openai-agents.md: its programs run and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_pages import check_program

DOCS = Path(__file__).parents[3] / "docs" / "adapters"
TEXT = (DOCS / "openai-agents.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_it_has_programs() -> None:
    assert len(PROGRAMS) == 3


@pytest.mark.parametrize("n", range(len(PROGRAMS)))
def test_the_program_runs_and_prints_what_it_says(n: int, tmp_path: Path) -> None:
    check_program(PROGRAMS[n], tmp_path)


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (DOCS / link).exists(), link
