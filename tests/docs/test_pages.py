"""Programs of the guides run as they stand and print what their comments say; links lead on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("blobs", "bytes-evidence-memory", "memory", "moving", "runs-and-work", "usage")
TEXTS = {page: (DOCS / f"{page}.md").read_text("utf-8") for page in PAGES}
# What stands behind a semicolon is a remark of its own.
SAYS = re.compile(r"print\(.*\)  # ([^;\n]*)")

PROGRAMS = {
    f"{page} {n}": block
    for page, text in TEXTS.items()
    for n, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL), start=1)
}
LINKED = {path.stem: path.read_text("utf-8") for path in sorted(DOCS.glob("*.md"))}
LINKS = [
    (page, link) for page, text in LINKED.items() for link in re.findall(r"\]\(([^)#:]+)\)", text)
]


def test_every_guide_has_a_program() -> None:
    assert {name.split()[0] for name in PROGRAMS} == set(PAGES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_runs_and_prints_what_it_says(name: str, tmp_path: Path) -> None:
    check_program(PROGRAMS[name], tmp_path)


def check_program(block: str, folder: Path) -> None:
    """It ends well in an empty folder, and prints what its comments say."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert [line for line in SAYS.findall(block) if line not in printed] == []


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_links_lead_somewhere(page: str, link: str) -> None:
    assert (DOCS / link).exists(), page
