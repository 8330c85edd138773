"""Artifacts: named versions of blobs."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands.artifacts import (
    DeleteArtifacts,
    GetArtifact,
    ListArtifacts,
    LoadArtifacts,
    NewArtifact,
    Owner,
    PlacedArtifact,
    PutArtifact,
    SaveArtifacts,
)
from ledgerstone.records.artifacts import Artifact, Quota
from ledgerstone.rules import artifacts as rules
from ledgerstone.rules.evidence import ARTIFACTS
from ledgerstone.sql.blobs import need_blob
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.evidence import check_open, put_mark
from ledgerstone.sql.tx import Tx


async def put_artifact(tx: Tx, command: PutArtifact) -> Artifact:
    """The next version, or another one in the place of the same id or uri."""
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


async def save_artifacts(tx: Tx, command: SaveArtifacts) -> list[Artifact]:
    """Exactly these."""
    tenant, session = command.tenant, command.session
    await check_open(tx, tenant, session)
    owner = Owner(session)
    given = []
    for new in command.artifacts:
        blob = await need_blob(tx, tenant, new.ref)
        await _old(tx, tenant, owner, new)
        given.append((new, blob.size_bytes))
    scope = rules.scope_of(owner)
    before = [one.artifact for one in await _list(tx, tenant, scope)]
    found = rules.new_set(session, before, given, command.quota, tx.now_us)
    await tx.pick("delete_artifacts", tenant=tenant, scope=scope)
    for place, artifact in enumerate(found, start=1):
        await _insert(tx, tenant, scope, place, artifact)
    await put_mark(tx, tenant, session, ARTIFACTS, tx.now_us)
    return found


async def delete_artifacts(tx: Tx, command: DeleteArtifacts) -> int:
    """What fits; how many went."""
    owner = command.owner
    if command.id is not None:
        row = await _one(tx, "artifact_by_id", command.tenant, command.id)
        if row is None or owner not in (None, Owner(row.session, row.user)):
            return 0
        owner = Owner(row.session, row.user)
    if owner is None:
        return 0
    if owner.session is not None:
        await check_open(tx, command.tenant, owner.session)
    rows = await tx.pick(
        "delete_artifacts",
        tenant=command.tenant,
        scope=rules.scope_of(owner),
        name=command.name,
        version=command.version,
        id=command.id,
    )
    return len(rows)


async def load_artifacts(tx: Tx, query: LoadArtifacts) -> list[Artifact] | None:
    """A session's set; None when it never had one."""
    if await tx.one("evidence_mark", query.tenant, query.session, ARTIFACTS) is None:
        return None
    found = await _list(tx, query.tenant, rules.scope_of(Owner(query.session)))
    return [one.artifact for one in found]


async def get_artifact(tx: Tx, query: GetArtifact) -> Artifact | None:
    """By id, uri, or owner and name."""
    if query.id is not None:
        return await _one(tx, "artifact_by_id", query.tenant, query.id)
    if query.uri is not None:
        return await _one(tx, "artifact_by_uri", query.tenant, query.uri)
    rows = await tx.pick(
        "artifact_by_name",
        tenant=query.tenant,
        scope=rules.scope_of(query.owner),
        name=query.name or "",
        version=query.version,
    )
    return rules.read(*rows[0]) if rows else None


async def list_artifacts(tx: Tx, query: ListArtifacts) -> list[PlacedArtifact]:
    """An owner's, oldest first."""
    scope = rules.scope_of(query.owner)
    return await _list(tx, query.tenant, scope, query.name, query.newest, query.after, query.limit)


async def _list(
    tx: Tx,
    tenant: str,
    scope: str,
    name: str | None = None,
    newest: bool = False,
    after: int = 0,
    limit: int | None = None,
) -> list[PlacedArtifact]:
    rows = await tx.pick(
        "list_artifacts",
        tenant=tenant,
        scope=scope,
        name=name,
        newest=True if newest else None,
        after=after,
        limit=limit,
    )
    return [PlacedArtifact(row[0], rules.read(*row[1:])) for row in rows]


async def _put(
    tx: Tx, tenant: str, owner: Owner, new: NewArtifact, quota: Quota | None, now_us: int
) -> Artifact:
    blob = await need_blob(tx, tenant, new.ref)
    scope = rules.scope_of(owner)
    old = await _old(tx, tenant, owner, new)
    last = await _greatest(tx, "last_version", tenant, scope, new.name)
    made = rules.made(new, owner, old, blob.size_bytes, last + 1)
    if old is not None and rules.is_repeat(new, made, old):
        return old
    made = replace(made, created_us=now_us)
    if owner.session is not None and quota is not None:
        rows = await tx.all("measure_artifacts", tenant, scope)
        others = [rules.Measure(*row) for row in rows if row[0] != made.id]
        for gone in rules.evicted(owner.session, made.size_bytes, others, quota):
            await tx.run("delete_artifact", tenant, gone.id)
    place = await _greatest(tx, "last_place", tenant, scope) + 1
    await tx.run("delete_artifact", tenant, made.id)
    await _insert(tx, tenant, scope, place, made)
    if owner.session is not None:
        await put_mark(tx, tenant, owner.session, ARTIFACTS, now_us)
    return made


async def _old(tx: Tx, tenant: str, owner: Owner, new: NewArtifact) -> Artifact | None:
    """The row that would be replaced; AlreadyExists."""
    by_id = await _one(tx, "artifact_by_id", tenant, new.id)
    by_uri = await _one(tx, "artifact_by_uri", tenant, rules.uri_of(new))
    return rules.choose_old(new, owner, by_id, by_uri)


async def _one(tx: Tx, statement: str, tenant: str, key: str) -> Artifact | None:
    row = await tx.one(statement, tenant, key)
    return None if row is None else rules.read(*row)


async def _greatest(tx: Tx, statement: str, *key: str) -> int:
    row = await tx.one(statement, *key)
    return 0 if row is None else row[0] or 0


async def _insert(tx: Tx, tenant: str, scope: str, place: int, artifact: Artifact) -> None:
    await tx.run(
        "insert_artifact",
        tenant,
        artifact.id,
        scope,
        artifact.name,
        artifact.version,
        place,
        artifact.uri,
        artifact.ref,
        artifact.size_bytes,
        artifact.created_us,
        rules.encode(artifact),
    )
