"""Where a contender finds its database: a small file that holds the URL.

The frame hands a path to every contender. On SQLite the file is the store; here it says where.
"""

from __future__ import annotations

from pathlib import Path

SCHEME = "postgresql://"


def url(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def sqlalchemy_url(path: Path, driver: str) -> str:
    """The same place as SQLAlchemy spells it."""
    return url(path).replace(SCHEME, f"postgresql+{driver}://", 1)
