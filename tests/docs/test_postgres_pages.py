"""The programs of the pages about PostgreSQL run on a real server and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ledgerstone.testing.servers.places import Places
from tests.docs.test_pages import DOCS, check_program

PAGES = ("postgres", "joining", "moving")
PLACE = "postgresql://db/agents"
PROGRAMS = {
    f"{page} {n}": block
    for page in PAGES
    for n, block in enumerate(
        re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text("utf-8"), re.DOTALL),
        start=1,
    )
}


def test_the_pages_have_programs() -> None:
    assert "postgres 1" in PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_runs_and_prints_what_it_says(
    name: str, tmp_path: Path, postgres_places: Places
) -> None:
    check_program(PROGRAMS[name].replace(PLACE, postgres_places.blank()), tmp_path)
