"""Traces and reports: lists of documents beside a session, which need not exist."""

from __future__ import annotations

from typing import Literal

import msgspec

from ledgerstone.commands import SessionCommand, SessionQuery

Kind = Literal["trace", "report"]


class EvidenceRow(msgspec.Struct, frozen=True, gc=False):
    """One document at its place, from 1."""

    n: int
    created_us: int
    body: bytes


class AppendEvidence(SessionCommand[int], frozen=True, kw_only=True):
    """Add documents at the end; answers how many there are now. SessionDeleted.

    `key` makes it repeatable: the same key with the same bodies as the last time adds nothing.
    """

    kind: Kind
    bodies: tuple[bytes, ...]
    key: str | None = None


class SaveEvidence(SessionCommand[int], frozen=True, kw_only=True):
    """Make the list exactly these, in one transaction; an empty list is a list too."""

    kind: Kind
    bodies: tuple[bytes, ...]


class DeleteEvidence(SessionCommand[int], frozen=True, kw_only=True):
    """Remove the list, as if none had been saved; how many documents went."""

    kind: Kind


class LoadEvidence(SessionQuery[list[EvidenceRow] | None], frozen=True, kw_only=True):
    """Documents after place `after` in order; None when no list was ever saved."""

    kind: Kind
    after: int = 0
    limit: int | None = None
