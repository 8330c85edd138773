"""docs/usage.md: its program prints what it says, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ledgerstone.records.stats import GROUPINGS, PERIODS
from ledgerstone.rules.prices import SEPARATORS, Price

PAGE = Path(__file__).parents[2] / "docs" / "usage.md"
TEXT = PAGE.read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SAYS = re.compile(r"print\(.*\)  # (.*)")


@pytest.mark.parametrize("block", BLOCKS)
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


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_links_lead_somewhere(link: str) -> None:
    assert (PAGE.parent / link).exists()


def test_every_name_is_there() -> None:
    said = " ".join(TEXT.split())
    assert all(f" {name}" in said for name in (*GROUPINGS, *PERIODS))
    assert " ".join(SEPARATORS) in said
    assert all(name in said for name in Price.__struct_fields__ if name != "currency")
