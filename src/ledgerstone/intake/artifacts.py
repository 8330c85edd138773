"""Artifacts as callers may describe them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias, TypedDict, cast

import msgspec
from msgspec.structs import asdict

from ledgerstone import ids
from ledgerstone.codec import encode_json
from ledgerstone.commands.artifacts import GetArtifact, NewArtifact, Owner
from ledgerstone.errors import InvalidValue, QuotaExceeded
from ledgerstone.intake import blobs, checks
from ledgerstone.intake.blobs import Ref
from ledgerstone.intake.checks import SessionRef
from ledgerstone.records.artifacts import Artifact, ArtifactContent, Quota
from ledgerstone.records.blobs import BlobRef

QUOTA = Quota()
ON_FULL = ("refuse", "oldest_out")


class Fields(TypedDict, total=False):
    """What may be said of an artifact besides its name and bytes."""

    id: str | None
    media_type: str | None
    metadata: Any
    tool: str | None
    original_bytes: int | None
    shown_bytes: int | None
    uri: str | None


class GivenArtifact(msgspec.Struct, frozen=True):
    """An artifact of a set: its bytes, or the blob that has them already."""

    name: str
    data: Any
    blob: Ref | None
    fields: Fields


AnyArtifact: TypeAlias = Artifact | Mapping[str, Any] | tuple[str, Any]


def owner_of(session: SessionRef | None, user: str | None) -> Owner:
    """A session, a user, or with neither the tenant."""
    if session is None:
        return Owner(None, None if user is None else ids.check_id(user, "user"))
    if user is not None:
        raise InvalidValue("user", "an artifact is a session's or a user's, not both")
    return Owner(checks.session_id(session))


def quota_of(quota: Quota | None) -> Quota | None:
    """A bound that can be kept; None is no bound."""
    if quota is None:
        return None
    if not isinstance(quota, Quota):
        raise InvalidValue("quota", f"a Quota expected, got {type(quota).__name__}")
    checks.positive(quota.count, "quota.count")
    checks.whole(quota.size_bytes, "quota.size_bytes")
    checks.one_of(quota.on_full, ON_FULL, "quota.on_full")
    return quota


def new_artifact(name: str, blob: Ref, fields: Fields, id: str = "") -> NewArtifact:
    """What to keep of bytes that are stored; with the id of the fields, this one, or a new one."""
    given, media_type = fields.get("id"), fields.get("media_type")
    metadata, tool, uri = fields.get("metadata"), fields.get("tool"), fields.get("uri")
    if media_type is None and isinstance(blob, BlobRef | Artifact):
        media_type = blob.media_type
    return NewArtifact(
        id=id or ids.new_id() if given is None else ids.check_id(given, "id"),
        name=ids.check_id(name, "name"),
        ref=blobs.known_ref(blob, "blob"),
        media_type=blobs.media_type(media_type),
        metadata=None if metadata is None else encode_json(metadata, "metadata"),
        tool=None if tool is None else ids.check_name(tool, "tool"),
        original_bytes=_size(fields.get("original_bytes"), "original_bytes"),
        shown_bytes=_size(fields.get("shown_bytes"), "shown_bytes"),
        uri="" if uri is None else ids.check_name(uri, "uri"),
    )


def check_fields(name: str, fields: Fields) -> Fields:
    """The same, before any bytes are stored: a refusal must not leave some behind."""
    checks.known_fields(fields, Fields.__annotations__, "artifact")
    new_artifact(name, "0" * 64, fields)
    return fields


def take_set(given: object) -> list[GivenArtifact]:
    return [_take(one, n) for n, one in enumerate(checks.items(given, "artifacts"))]


def _take(value: object, n: int) -> GivenArtifact:
    if isinstance(value, Artifact):
        fields = cast(Fields, {key: getattr(value, key) for key in Fields.__annotations__})
        if isinstance(value, ArtifactContent):
            check_source(value.data, None)
            return GivenArtifact(value.name, value.data, None, check_fields(value.name, fields))
        return GivenArtifact(value.name, None, value, check_fields(value.name, fields))
    if isinstance(value, tuple) and len(value) == 2:
        check_source(value[1], None)
        return GivenArtifact(value[0], value[1], None, check_fields(value[0], {}))
    if not isinstance(value, Mapping):
        field, got = f"artifacts[{n}]", type(value).__name__
        raise InvalidValue(field, f"an artifact, a dictionary or (name, data) expected, got {got}")
    if "name" not in value:
        raise InvalidValue(f"artifacts[{n}].name", "missing")
    rest = {key: value[key] for key in value if key not in ("name", "data", "blob")}
    name, data, blob = value["name"], value.get("data"), value.get("blob")
    check_source(data, blob)
    return GivenArtifact(name, data, blob, check_fields(name, cast(Fields, rest)))


def check_source(data: object, blob: Ref | None) -> None:
    """Bytes, or a blob that has them: one of the two."""
    if (data is None) == (blob is None):
        raise InvalidValue("data", "give data, or the blob that has the bytes already")
    if blob is not None:
        blobs.known_ref(blob, "blob")


def check_fits(owner: Owner, quota: Quota | None, data: object) -> None:
    """Refuse what can never fit the quota before its bytes are sent, if its size is known."""
    size = None
    if isinstance(data, bytes | bytearray | memoryview):
        size = memoryview(data).nbytes
    elif isinstance(data, os.PathLike):
        with suppress(OSError, ValueError):
            size = os.stat(data).st_size  # noqa: PTH116 - pathlib would cost every start 5 ms
    if owner.session is None or quota is None or size is None:
        return
    if size > quota.size_bytes:
        raise QuotaExceeded(owner.session, quota.size_bytes, size, "bytes")


def search(
    tenant: str,
    owner: Owner,
    name: str | None,
    version: int | None,
    id: str | Artifact | None,
    uri: str | None,
) -> GetArtifact:
    """Which artifact is meant: by name, by id or by uri."""
    if sum(given is not None for given in (name, id, uri)) != 1:
        raise InvalidValue("name", "name the artifact, or give its id or its uri: one of them")
    if version is not None and name is None:
        raise InvalidValue("version", "a version is of a name: give it")
    return GetArtifact(
        tenant=tenant,
        owner=owner,
        name=None if name is None else ids.check_id(name, "name"),
        version=None if version is None else checks.positive(version, "version"),
        id=None if id is None else artifact_id(id),
        uri=None if uri is None else ids.check_name(uri, "uri"),
    )


def is_of(artifact: Artifact, query: GetArtifact) -> bool:
    """Whether the artifact belongs to the owner that the search named, if it named one."""
    return query.owner in (Owner(), Owner(artifact.session, artifact.user))


def artifact_id(value: str | Artifact) -> str:
    return ids.check_id(value.id if isinstance(value, Artifact) else value, "id")


def with_bytes(artifact: Artifact, data: bytes) -> ArtifactContent:
    return ArtifactContent(**{**asdict(artifact), "data": data})


def _size(value: int | None, field: str) -> int | None:
    return None if value is None else checks.whole(value, field)
