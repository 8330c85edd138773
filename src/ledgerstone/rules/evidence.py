"""Traces and reports: how an append is known again, and what a commit says of them."""

from __future__ import annotations

from collections.abc import Sequence

from ledgerstone.codec import sha256
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.records.reports import Defect
from ledgerstone.rules.chain import frame

ARTIFACTS = "artifact"
"""The kind whose mark says that a session has a set of artifacts; it has no documents."""


def mark_of(key: str | None, bodies: Sequence[bytes]) -> bytes:
    """What the first row of a list remembers of the last append; nothing without a key."""
    return b"" if key is None else frame(key, sha256(frame(*bodies)))


def in_commit(command: CommitTurn) -> list[tuple[str, str, tuple[bytes, ...]]]:
    """Kind, name among the effects and documents of what a commit brings."""
    given = (("trace", "traces", command.traces), ("report", "reports", command.reports))
    return [one for one in given if one[2]]


def effect_of(bodies: Sequence[bytes]) -> list[str]:
    """What the chain knows of documents: the SHA-256 of each."""
    return [sha256(body) for body in bodies]


def lost_bytes(artifact: str) -> Defect:
    """An artifact whose blob is not there."""
    return Defect("", "reference", f"artifacts {artifact}", "its bytes are not there")


def missing_rows(session: str, kind: str) -> Defect:
    """A list that lacks its first row, or one in between."""
    return Defect("", "count", f"evidence {session}/{kind}", "a document is missing")
