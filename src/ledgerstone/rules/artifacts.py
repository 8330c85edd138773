"""Artifacts: whose they are, which version one becomes, and how much a session may keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone.codec import decode_json, encode_struct
from ledgerstone.commands.artifacts import NewArtifact, Owner
from ledgerstone.errors import AlreadyExists, QuotaExceeded
from ledgerstone.records.artifacts import Artifact, Quota
from ledgerstone.rules.bodies import read_struct
from ledgerstone.rules.rows import record_of

TENANT_SCOPE = "t:"


class Details(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored of an artifact in one body, beside what it is found by."""

    media_type: str | None = None
    metadata: Any = None
    tool: str | None = None
    original_bytes: int | None = None
    shown_bytes: int | None = None


class Measure(msgspec.Struct, frozen=True, gc=False):
    """Where in the order of age an artifact stands, and how large it is."""

    id: str
    place: int
    size_bytes: int


_details = msgspec.json.Decoder(Details)


def scope_of(owner: Owner) -> str:
    """Whose artifact it is, as one text."""
    if owner.session is not None:
        return f"s:{owner.session}"
    return TENANT_SCOPE if owner.user is None else f"u:{owner.user}"


def owner_of(scope: str) -> Owner:
    """The other way round."""
    kind, id = scope[:2], scope[2:]
    return Owner(id if kind == "s:" else None, id if kind == "u:" else None)


def encode(artifact: Artifact) -> bytes:
    """The body of its row."""
    return encode_struct(record_of(Details, artifact), "artifact")


def read(
    id: str,
    scope: str,
    name: str,
    version: int,
    uri: str,
    ref: str,
    size_bytes: int,
    created_us: int,
    body: bytes,
) -> Artifact:
    """An artifact from its row; Corrupt when the body does not decode."""
    owner = owner_of(scope)
    return record_of(
        Artifact,
        read_struct(_details, body, "artifacts", id),
        id=id,
        name=name,
        version=version,
        ref=ref,
        size_bytes=size_bytes,
        uri=uri,
        session=owner.session,
        user=owner.user,
        created_us=created_us,
    )


def detached(artifact: Artifact) -> Artifact:
    """A copy whose metadata the caller may change without changing what is stored."""
    if not isinstance(artifact.metadata, dict | list):
        return artifact
    return replace(artifact, metadata=deepcopy(artifact.metadata))


def uri_of(new: NewArtifact) -> str:
    """The address it asks for."""
    return new.uri or f"artifact:{new.id}"


def choose_old(
    new: NewArtifact, owner: Owner, by_id: Artifact | None, by_uri: Artifact | None
) -> Artifact | None:
    """The row that an artifact replaces; AlreadyExists when its id or uri belongs elsewhere."""
    if by_id is not None and not new.uri:
        by_uri = by_id  # It keeps its address, whatever that is.
    for found, taken in ((by_id, new.id), (by_uri, uri_of(new))):
        if found is not None and Owner(found.session, found.user) != owner:
            raise AlreadyExists(taken)
    if by_id is not None and by_uri is not None and by_id.id != by_uri.id:
        raise AlreadyExists(uri_of(new))
    return by_uri or by_id


def made(
    new: NewArtifact, owner: Owner, old: Artifact | None, size_bytes: int, next_version: int
) -> Artifact:
    """The artifact as it will be stored, but for its time.

    It keeps id and uri of the row it replaces, and that row's version unless the name is another.
    """
    same_name = old is not None and old.name == new.name
    original = size_bytes if new.original_bytes is None else new.original_bytes
    return Artifact(
        id=new.id if old is None else old.id,
        name=new.name,
        version=old.version if old is not None and same_name else next_version,
        ref=new.ref,
        size_bytes=size_bytes,
        uri=old.uri if old is not None and not new.uri else uri_of(new),
        session=owner.session,
        user=owner.user,
        media_type=new.media_type,
        metadata=None if new.metadata is None else decode_json(new.metadata),
        tool=new.tool,
        original_bytes=original,
        shown_bytes=original if new.shown_bytes is None else new.shown_bytes,
    )


def is_same(artifact: Artifact, old: Artifact | None) -> bool:
    """Whether storing it would change nothing but its age."""
    return old is not None and artifact == replace(old, created_us=0)


def is_repeat(new: NewArtifact, artifact: Artifact, old: Artifact | None) -> bool:
    """Whether exactly this was put before, under this id."""
    return old is not None and old.id == new.id and is_same(artifact, old)


def evicted(
    session: str, size_bytes: int, others: Sequence[Measure], quota: Quota
) -> list[Measure]:
    """Which of the others, oldest first, must go so that one more fits; QuotaExceeded."""
    count, size = len(others) + 1, size_bytes + sum(one.size_bytes for one in others)
    if size_bytes > quota.size_bytes:
        raise QuotaExceeded(session, quota.size_bytes, size_bytes, "bytes")
    gone: list[Measure] = []
    for one in others:
        if count <= quota.count and size <= quota.size_bytes:
            break
        if quota.on_full == "refuse":
            break
        gone.append(one)
        count, size = count - 1, size - one.size_bytes
    if count > quota.count:
        raise QuotaExceeded(session, quota.count, count, "artifacts")
    if size > quota.size_bytes:
        raise QuotaExceeded(session, quota.size_bytes, size, "bytes")
    return gone


def new_set(
    session: str,
    old: Iterable[Artifact],
    given: Sequence[tuple[NewArtifact, int]],
    quota: Quota | None,
    now_us: int,
) -> list[Artifact]:
    """The set of a session after it was replaced by these, each given with its size.

    What was there before, by id or uri, keeps id and version, and its time unless it changed.
    """
    owner = Owner(session)
    before = list(old)
    ids, uris = {one.id: one for one in before}, {one.uri: one for one in before}
    kept = [choose_old(new, owner, ids.get(new.id), uris.get(uri_of(new))) for new, _ in given]
    versions: dict[str, int] = {}
    for one in kept:
        if one is not None:
            versions[one.name] = max(versions.get(one.name, 0), one.version)
    found: list[Artifact] = []
    for (new, size_bytes), was in zip(given, kept, strict=True):
        artifact = made(new, owner, was, size_bytes, versions.get(new.name, 0) + 1)
        versions[new.name] = max(versions.get(new.name, 0), artifact.version)
        created_us = was.created_us if was is not None and is_same(artifact, was) else now_us
        found.append(replace(artifact, created_us=created_us))
    _check_distinct(found)
    return found if quota is None or not found else _within(session, found, quota)


def _check_distinct(found: list[Artifact]) -> None:
    for names in ([one.id for one in found], [one.uri for one in found]):
        if len(set(names)) < len(names):
            raise AlreadyExists(next(name for name in names if names.count(name) > 1))


def _within(session: str, found: list[Artifact], quota: Quota) -> list[Artifact]:
    """The set, or the newest of it that fit."""
    measures = [Measure(one.id, n, one.size_bytes) for n, one in enumerate(found)]
    for one in measures:
        evicted(session, one.size_bytes, (), quota)
    return found[len(evicted(session, measures[-1].size_bytes, measures[:-1], quota)) :]
