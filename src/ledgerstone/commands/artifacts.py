"""Artifacts: rows that name a blob. Bytes are put first; a row without its blob is refused."""

from __future__ import annotations

import msgspec

from ledgerstone.commands import Command, Query, SessionCommand, SessionQuery
from ledgerstone.records.artifacts import Artifact, Quota


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact to keep; `metadata` is canonical JSON. An empty `uri` becomes artifact:<id>."""

    id: str
    name: str
    ref: str
    media_type: str | None = None
    metadata: bytes | None = None
    tool: str | None = None
    original_bytes: int | None = None
    shown_bytes: int | None = None
    uri: str = ""


class Owner(msgspec.Struct, frozen=True):
    """Whose artifact: a session's, a user's, or with neither the tenant's."""

    session: str | None = None
    user: str | None = None


class PlacedArtifact(msgspec.Struct, frozen=True, gc=False):
    """An artifact and its place among its owner's, in the order of age."""

    place: int
    artifact: Artifact


class PutArtifact(Command[Artifact], frozen=True, kw_only=True):
    """The next version of the name; the same id or uri replaces that row and becomes the newest.

    An exact repeat, by id, changes nothing. BlobNotFound, QuotaExceeded, SessionDeleted;
    AlreadyExists when another owner has the id or uri, or two artifacts have one of them each.
    """

    owner: Owner
    artifact: NewArtifact
    quota: Quota | None = None


class SaveArtifacts(SessionCommand[list[Artifact]], frozen=True, kw_only=True):
    """Make the set of a session exactly these, in this order. Errors as of PutArtifact."""

    artifacts: tuple[NewArtifact, ...]
    quota: Quota | None = None


class DeleteArtifacts(Command[int], frozen=True, kw_only=True):
    """All of an owner, of one name, one version of it, or the one with this id; how many went.

    Without an owner an id is enough.
    """

    owner: Owner | None = None
    name: str | None = None
    version: int | None = None
    id: str | None = None


class LoadArtifacts(SessionQuery[list[Artifact] | None], frozen=True, kw_only=True):
    """The set of a session, oldest first; None when none was ever saved or put."""


class GetArtifact(Query[Artifact | None], frozen=True, kw_only=True):
    """By id, by uri, or by owner and name: that version, or the newest."""

    owner: Owner = Owner()
    name: str | None = None
    version: int | None = None
    id: str | None = None
    uri: str | None = None


class ListArtifacts(Query[list[PlacedArtifact]], frozen=True, kw_only=True):
    """An owner's artifacts, oldest first after place `after`.

    `newest`: of each name only the greatest version.
    """

    owner: Owner
    name: str | None = None
    newest: bool = False
    after: int = 0
    limit: int | None = None
