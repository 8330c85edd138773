"""Artifacts: named versions of blobs."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from ledgerstone.commands import artifacts as commands
from ledgerstone.commands.artifacts import NewArtifact, Owner, PlacedArtifact
from ledgerstone.handlers.blobs import need_blob
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.evidence import check_open, has_mark, put_mark
from ledgerstone.handlers.registry import handles
from ledgerstone.records.artifacts import Artifact, Quota
from ledgerstone.rules import artifacts as rules
from ledgerstone.rules import evidence as evidence_rules
from ledgerstone.rules.rows import record_of
from ledgerstone.tables.blobs import (
    ARTIFACTS,
    ARTIFACTS_BY_URI,
    ARTIFACTS_BY_VERSION,
    ARTIFACTS_IN_ORDER,
    ArtifactRow,
)
from ledgerstone.tables.transaction import Tx

_columns = attrgetter(
    "id", "scope", "name", "version", "uri", "ref", "size_bytes", "created_us", "body"
)


@handles(commands.PutArtifact)
async def put_artifact(tx: Tx, command: commands.PutArtifact) -> Artifact:
    owner = command.owner
    if owner.session is not None:
        await check_open(tx, command.tenant, owner.session)
    return await _put(tx, command.tenant, owner, command.artifact, command.quota, tx.now_us)


async def put_in_commit(tx: Tx, commit: Commit) -> None:
    """The artifacts of a commit."""
    command = commit.command
    owner, effects = Owner(command.session), []
    for new in command.artifacts:
        made = await _put(tx, command.tenant, owner, new, command.quota, commit.moment_us)
        effects.append([made.id, made.ref])
    commit.effects["artifacts"] = effects


@handles(commands.SaveArtifacts)
async def save_artifacts(tx: Tx, command: commands.SaveArtifacts) -> list[Artifact]:
    tenant, session = command.tenant, command.session
    await check_open(tx, tenant, session)
    owner = Owner(session)
    given = []
    for new in command.artifacts:
        blob = await need_blob(tx, tenant, new.ref)
        await _old(tx, tenant, owner, new)
        given.append((new, blob.size_bytes))
    scope = rules.scope_of(owner)
    before = [_read(row) for row in await tx.scan(ARTIFACTS_IN_ORDER, tenant, scope)]
    found = rules.new_set(session, before, given, command.quota, tx.now_us)
    for artifact in before:
        tx.delete(ARTIFACTS, tenant, artifact.id)
    for place, artifact in enumerate(found, start=1):
        _store(tx, tenant, scope, place, artifact)
    await put_mark(tx, tenant, session, evidence_rules.ARTIFACTS, tx.now_us)
    return found


@handles(commands.DeleteArtifacts)
async def delete_artifacts(tx: Tx, command: commands.DeleteArtifacts) -> int:
    tenant, owner, columns = command.tenant, command.owner, ("id", "name", "version")
    if command.id is not None:
        one = await _by_id(tx, tenant, command.id)
        if one is None or owner not in (None, Owner(one.session, one.user)):
            return 0
        owner = Owner(one.session, one.user)
        rows: list[tuple[Any, ...]] = [(one.id, one.name, one.version)]
    elif owner is None:
        return 0
    else:
        prefix = _prefix(owner, command.name)
        rows = await tx.scan_columns(ARTIFACTS_BY_VERSION, columns, tenant, *prefix)
    if owner.session is not None:
        await check_open(tx, tenant, owner.session)
    gone = [
        id
        for id, name, version in rows
        if command.name in (None, name) and command.version in (None, version)
    ]
    for id in gone:
        tx.delete(ARTIFACTS, tenant, id)
    return len(gone)


@handles(commands.LoadArtifacts)
async def load_artifacts(tx: Tx, query: commands.LoadArtifacts) -> list[Artifact] | None:
    if not await has_mark(tx, query.tenant, query.session, evidence_rules.ARTIFACTS):
        return None
    scope = rules.scope_of(Owner(query.session))
    return [_read(row) for row in await tx.scan(ARTIFACTS_IN_ORDER, query.tenant, scope)]


@handles(commands.GetArtifact)
async def get_artifact(tx: Tx, query: commands.GetArtifact) -> Artifact | None:
    if query.id is not None:
        return await _by_id(tx, query.tenant, query.id)
    if query.uri is not None:
        return await _by_uri(tx, query.tenant, query.uri)
    place = (query.tenant, rules.scope_of(query.owner), query.name or "")
    if query.version is not None:
        row = await tx.find(ARTIFACTS_BY_VERSION, *place, query.version)
        return None if row is None else _read(row)
    rows = await tx.scan(ARTIFACTS_BY_VERSION, *place, limit=1, reverse=True)
    return _read(rows[0]) if rows else None


@handles(commands.ListArtifacts)
async def list_artifacts(tx: Tx, query: commands.ListArtifacts) -> list[PlacedArtifact]:
    if query.name is None and not query.newest:
        place = (query.tenant, rules.scope_of(query.owner))
        after = (query.after,)
        rows = await tx.scan(ARTIFACTS_IN_ORDER, *place, after=after, limit=query.limit)
    else:
        rows = await _chosen(tx, query)
    return [PlacedArtifact(row.place, _read(row)) for row in rows]


async def _chosen(tx: Tx, query: commands.ListArtifacts) -> list[ArtifactRow]:
    """The rows of a list by name, or of the greatest versions: chosen without their bodies."""
    columns, prefix = ("name", "place", "id"), _prefix(query.owner, query.name)
    places = await tx.scan_columns(ARTIFACTS_BY_VERSION, columns, query.tenant, *prefix)
    if query.newest:
        places = list({place[0]: place for place in places}.values())  # The last of each name.
    after = sorted((place, id) for _, place, id in places if place > query.after)
    keys = [(query.tenant, id) for _, id in after[: query.limit]]
    return [row for row in await tx.get_many(ARTIFACTS, keys) if row is not None]


def _prefix(owner: Owner, name: str | None) -> tuple[str, ...]:
    """Where an owner's artifacts stand, or the versions of one name."""
    scope = rules.scope_of(owner)
    return (scope,) if name is None else (scope, name)


async def _put(
    tx: Tx,
    tenant: str,
    owner: Owner,
    new: NewArtifact,
    quota: Quota | None,
    now_us: int,
) -> Artifact:
    blob = await need_blob(tx, tenant, new.ref)
    scope = rules.scope_of(owner)
    old = await _old(tx, tenant, owner, new)
    versions = await tx.scan_columns(
        ARTIFACTS_BY_VERSION, ("version",), tenant, scope, new.name, limit=1, reverse=True
    )
    made = rules.made(new, owner, old, blob.size_bytes, versions[0][0] + 1 if versions else 1)
    if old is not None and rules.is_repeat(new, made, old):
        return old
    made = replace(made, created_us=now_us)
    if owner.session is not None and quota is not None:
        await _make_room(tx, tenant, owner.session, scope, made, quota)
    places = await tx.scan_columns(
        ARTIFACTS_IN_ORDER, ("place",), tenant, scope, limit=1, reverse=True
    )
    _store(tx, tenant, scope, places[0][0] + 1 if places else 1, made)
    if owner.session is not None:
        await put_mark(tx, tenant, owner.session, evidence_rules.ARTIFACTS, now_us)
    return made


async def _make_room(
    tx: Tx, tenant: str, session: str, scope: str, made: Artifact, quota: Quota
) -> None:
    """Remove the oldest of the others, if the quota says so, until one more fits."""
    columns = ("id", "place", "size_bytes")
    rows = await tx.scan_columns(ARTIFACTS_IN_ORDER, columns, tenant, scope)
    others = [rules.Measure(*row) for row in rows if row[0] != made.id]
    for gone in rules.evicted(session, made.size_bytes, others, quota):
        tx.delete(ARTIFACTS, tenant, gone.id)


async def _old(tx: Tx, tenant: str, owner: Owner, new: NewArtifact) -> Artifact | None:
    """The row that would be replaced; AlreadyExists."""
    by_id = await _by_id(tx, tenant, new.id)
    by_uri = None
    if by_id is None or new.uri:  # Otherwise it keeps its address.
        by_uri = await _by_uri(tx, tenant, rules.uri_of(new))
    return rules.choose_old(new, owner, by_id, by_uri)


async def _by_id(tx: Tx, tenant: str, id: str) -> Artifact | None:
    row = await tx.get(ARTIFACTS, tenant, id)
    return None if row is None else _read(row)


async def _by_uri(tx: Tx, tenant: str, uri: str) -> Artifact | None:
    row = await tx.find(ARTIFACTS_BY_URI, tenant, uri)
    return None if row is None else _read(row)


def _read(row: ArtifactRow) -> Artifact:
    return rules.read(*_columns(row))


def _store(tx: Tx, tenant: str, scope: str, place: int, artifact: Artifact) -> None:
    others = {"tenant": tenant, "scope": scope, "place": place, "body": rules.encode(artifact)}
    tx.put(ARTIFACTS, record_of(ArtifactRow, artifact, **others))
