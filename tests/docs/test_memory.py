"""The programs of docs/memory.md run as they stand and print what their comments say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
TEXT = PAGE.read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SAYS = re.compile(r"print\(.*\)  # ([^;\n]*)")


@pytest.mark.parametrize("block", BLOCKS, ids=[str(n) for n, _ in enumerate(BLOCKS)])
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
    printed = done.stdout.splitlines()
    assert [line for line in SAYS.findall(block) if line not in printed] == []


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_links_lead_somewhere(link: str) -> None:
    assert (PAGE.parent / link).exists()
