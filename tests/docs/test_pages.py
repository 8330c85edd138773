"""Programs of the guides run as they stand and print what their comments say; links lead on."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    "backup",
    "blobs",
    "bytes-evidence-memory",
    "engines",
    "memory",
    "moving",
    "runs-and-work",
    "usage",
)
GUIDES = tuple(f"adapters/{path.stem}" for path in sorted((DOCS / "adapters").glob("*.md")))
TEXTS = {page: (DOCS / f"{page}.md").read_text("utf-8") for page in (*PAGES, *GUIDES)}
# What stands behind a semicolon is a remark of its own.
SAYS = re.compile(r"print\(.*\)  # ([^;\n]*)")

BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
PROGRAMS = {
    f"{page} {n}": textwrap.dedent(block)
    for page, text in TEXTS.items()
    for n, block in enumerate(BLOCK.findall(text), start=1)
}
LINKS = [
    (path.relative_to(DOCS), link)
    for path in sorted(DOCS.rglob("*.md"))
    for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8"))
]
# Google ADK warns of its own experiments; the guide is not about those.
QUIET = {"adapters/google-adk": ("-W", "ignore::UserWarning")}
TIMEOUT_S = 120


def test_every_guide_has_a_program() -> None:
    assert {name.split()[0] for name in PROGRAMS} == set(TEXTS)
    assert GUIDES


# Importing a framework takes seconds.
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n.startswith(GUIDES) else n for n in PROGRAMS],
)
def test_the_program_runs_and_prints_what_it_says(name: str, tmp_path: Path) -> None:
    check_program(PROGRAMS[name], tmp_path, QUIET.get(name.split(maxsplit=1)[0], ()))


def check_program(block: str, folder: Path, options: Sequence[str] = ()) -> None:
    """It ends well in an empty folder, and prints what its comments say, as often as they do."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *options, "-c", block],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    missing = Counter(SAYS.findall(block)) - Counter(done.stdout.splitlines())
    assert not missing, done.stdout


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_links_lead_somewhere(page: Path, link: str) -> None:
    assert (DOCS / page.parent / link).exists()
