"""Every file that the architecture names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "ledgerstone"
TEXT = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
NAMES = sorted(set(re.findall(r"`([\w./*-]+(?:\.(?:py|sql|json|md|toml)|/))`", TEXT)))


@pytest.mark.parametrize("name", NAMES)
def test_it_exists(name: str) -> None:
    """From the root, from the package, or beside a file that the same line names."""
    places = [ROOT, PACKAGE]
    for line in TEXT.splitlines():
        if f"`{name}`" in line:
            places += [PACKAGE / folder for folder in re.findall(r"`([\w/]+)/[\w*]+\.\w+`", line)]
    assert any(list(place.glob(name)) for place in places)


def test_there_are_many() -> None:
    assert len(NAMES) > 60
