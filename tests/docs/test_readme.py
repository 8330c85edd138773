"""The README's programs run as they stand, and its promises about them hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def run(block: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", block]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_crash_and_resume_example_loses_nothing(tmp_path: Path) -> None:
    first = run(BLOCKS[0], tmp_path)
    assert first.returncode == -9, first.stderr
    second = run(BLOCKS[0], tmp_path)
    assert second.returncode == 0, second.stderr
    lines = second.stdout.splitlines()
    assert lines[0] == "starting at step 2"
    assert lines[-1] == "['Oslo or Bergen?', 'The 9:40 flight?', 'Booked.']"


def test_the_lazy_example_prints_the_conversation(tmp_path: Path) -> None:
    done = run(BLOCKS[1], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "user Book Oslo\nassistant The 9:40?\nuser Yes\n"


def test_the_turn_with_everything_in_it(tmp_path: Path) -> None:
    done = run(BLOCKS[2], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "# Oslo by train",
        "[{'by': 'train'}]",
        "[Cost(nano=2400000, currency='USD')]",
        "1018 tokens to send",
    ]


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README.read_text("utf-8")))
def test_links_lead_somewhere(link: str) -> None:
    assert (README.parent / link).exists()
