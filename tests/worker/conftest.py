"""A store of each kind, open for an event loop, and workers that are watched."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "sqlite", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the store of a test is."""
    kind = str(request.param)
    if kind == "memory":
        return "memory://"
    return str(tmp_path / "store.db") if kind == "sqlite" else f"file://{tmp_path / 'store'}"
