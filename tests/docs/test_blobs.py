"""docs/blobs.md: its program runs, its links lead somewhere, its numbers are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ledgerstone.blobs import object_calls
from ledgerstone.blobs.object_errors import GRANTS
from ledgerstone.blobs.opening import OBJECT_SCHEMES

PAGE = Path(__file__).parents[2] / "docs" / "blobs.md"
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


def test_the_numbers() -> None:
    said = " ".join(TEXT.split())
    connect, request = object_calls.CONNECT_S, object_calls.REQUEST_S
    repeats, within = object_calls.RETRIES_MAX, object_calls.RETRY_S
    assert f"{connect:.0f} s to connect, {request:.0f} s for a request" in said
    assert f"at most {repeats} repeats within {within:.0f} s" in said
    assert f"parts of {object_calls.PART_BYTES >> 20} MiB" in said


def test_every_right_and_scheme_is_named() -> None:
    rights = set(re.findall(r"s3:\w+", " ".join(GRANTS.values())))
    assert rights <= set(re.findall(r"s3:\w+", TEXT))
    assert all(f"{scheme}://" in TEXT for scheme in OBJECT_SCHEMES)
