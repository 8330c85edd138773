"""Programs of the guide to Google ADK run as they stand and print what their comments say."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "adapters" / "google-adk.md"
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
PROGRAMS = [textwrap.dedent(block) for block in BLOCK.findall(PAGE.read_text("utf-8"))]
SAYS = re.compile(r"print\(.*\)  # ([^;\n]*)")


def test_there_are_programs() -> None:
    assert len(PROGRAMS) == 4


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_program_runs_and_prints_what_it_says(number: int, tmp_path: Path) -> None:
    program = PROGRAMS[number]
    # ADK warns of its own experiments; the guide is not about those.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::UserWarning", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert [line for line in SAYS.findall(program) if line not in printed] == []


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", PAGE.read_text("utf-8")):
        assert (PAGE.parent / link).exists(), link
