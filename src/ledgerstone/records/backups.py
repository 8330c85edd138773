"""What backups and restores answer."""

from __future__ import annotations

import msgspec


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """A finished backup: where it is, and what was verified in it.

    `blobs_path` is the directory of its blobs when those are not inside `path`: open the backup
    with `blobs=` that. `elsewhere` counts blobs in an object store, which are not copied.
    """

    path: str
    blobs_path: str | None = None
    tenants: int = 0
    sessions: int = 0
    turns: int = 0
    nodes: int = 0
    blobs: int = 0
    elsewhere: int = 0
    size_bytes: int = 0


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A finished restore. `kept` are the files that were replaced, under their new names;
    `sessions` is how many fences were raised."""

    path: str
    blobs_path: str | None = None
    kept: list[str] = []
    tenants: int = 0
    sessions: int = 0
