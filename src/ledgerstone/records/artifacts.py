"""Artifacts: named, versioned bytes of a session, a user or the whole tenant."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ledgerstone.records import Created

OnFull = Literal["refuse", "oldest_out"]


class Quota(msgspec.Struct, frozen=True):
    """How much a session may keep, and what happens when that is reached."""

    count: int = 256
    size_bytes: int = 16 << 20
    on_full: OnFull = "refuse"


class Artifact(Created, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of an artifact; its bytes are the blob `ref`.

    `original_bytes` is what a tool made, `shown_bytes` what a model saw of it.
    """

    id: str
    name: str
    version: int
    ref: str
    size_bytes: int
    uri: str
    session: str | None = None
    user: str | None = None
    media_type: str | None = None
    metadata: Any = None
    tool: str | None = None
    original_bytes: int | None = None
    shown_bytes: int | None = None
    created_us: int = 0


class ArtifactContent(Artifact, frozen=True, kw_only=True, omit_defaults=True):
    """An artifact with its bytes; in JSON they are standard base64."""

    data: bytes = b""
