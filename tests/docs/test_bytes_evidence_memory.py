"""The programs of docs/bytes-evidence-memory.md run as they stand and print what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "bytes-evidence-memory.md"
TEXT = PAGE.read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SECTIONS = re.findall(r"^## (.*)", TEXT, re.MULTILINE)
SAYS = re.compile(r"print\(.*\)  # (.*)")


@pytest.mark.parametrize("block", BLOCKS, ids=SECTIONS)
def test_the_program_runs_and_prints_what_it_says(block: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SAYS.findall(block)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_links_lead_somewhere(link: str) -> None:
    assert (PAGE.parent / link).exists()
