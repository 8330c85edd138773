"""Artifacts: named versions of blobs."""

from __future__ import annotations

from itertools import islice

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
from ledgerstone.records.reports import Defect
from ledgerstone.rules import artifacts as rules
from ledgerstone.rules.evidence import ARTIFACTS, lost_bytes
from tests.oracle.model.blobs import need_blob
from tests.oracle.model.commits import Commit
from tests.oracle.model.evidence import check_open, put_mark
from tests.oracle.model.state import State, Tx


def put_artifact(tx: Tx, command: PutArtifact) -> Artifact:
    """The next version, or another one in the place of the same id or uri."""
    owner = command.owner
    if owner.session is not None:
        check_open(tx, command.tenant, owner.session)
    return _put(tx, command.tenant, owner, command.artifact, command.quota, tx.now_us)


def put_in_commit(commit: Commit) -> None:
    """The artifacts of a commit."""
    command = commit.command
    owner, effects = Owner(command.session), []
    for new in command.artifacts:
        made = _put(commit.tx, command.tenant, owner, new, command.quota, commit.moment_us)
        effects.append([made.id, made.ref])
    commit.effects["artifacts"] = effects


def save_artifacts(tx: Tx, command: SaveArtifacts) -> list[Artifact]:
    """Exactly these."""
    tenant, session = command.tenant, command.session
    check_open(tx, tenant, session)
    owner = Owner(session)
    given = []
    for new in command.artifacts:
        blob = need_blob(tx, tenant, new.ref)
        _old(tx, tenant, owner, new)
        given.append((new, blob.size_bytes))
    scope = rules.scope_of(owner)
    before = list(tx.state.artifacts.scan((tenant, scope)))
    found = rules.new_set(session, [row for _, row in before], given, command.quota, tx.now_us)
    for key, _ in before:
        drop(tx, key)
    for place, artifact in enumerate(found, start=1):
        insert(tx, (tenant, scope, place), artifact)
    put_mark(tx, (tenant, session, ARTIFACTS), tx.now_us)
    return [rules.detached(one) for one in found]


def delete_artifacts(tx: Tx, command: DeleteArtifacts) -> int:
    """What fits; how many went."""
    owner = command.owner
    if command.id is not None:
        row = _by_id(tx, command.tenant, command.id)
        if row is None or owner not in (None, Owner(row.session, row.user)):
            return 0
        owner = Owner(row.session, row.user)
    if owner is None:
        return 0
    if owner.session is not None:
        check_open(tx, command.tenant, owner.session)
    keys = [
        key
        for key, row in tx.state.artifacts.scan((command.tenant, rules.scope_of(owner)))
        if command.name in (None, row.name)
        and command.version in (None, row.version)
        and command.id in (None, row.id)
    ]
    for key in keys:
        drop(tx, key)
    return len(keys)


def load_artifacts(tx: Tx, query: LoadArtifacts) -> list[Artifact] | None:
    """A session's set; None when it never had one."""
    if (query.tenant, query.session, ARTIFACTS, 0) not in tx.state.evidence:
        return None
    scope = rules.scope_of(Owner(query.session))
    return [rules.detached(row) for _, row in tx.state.artifacts.scan((query.tenant, scope))]


def get_artifact(tx: Tx, query: GetArtifact) -> Artifact | None:
    """By id, uri, or owner and name."""
    if query.id is not None:
        found = _by_id(tx, query.tenant, query.id)
    elif query.uri is not None:
        found = _by_uri(tx, query.tenant, query.uri)
    else:
        found = _by_name(tx, query)
    return None if found is None else rules.detached(found)


def list_artifacts(tx: Tx, query: ListArtifacts) -> list[PlacedArtifact]:
    """An owner's, oldest first."""
    prefix = (query.tenant, rules.scope_of(query.owner))
    rows = (
        PlacedArtifact(place, rules.detached(row))
        for (_, _, place), row in tx.state.artifacts.scan(prefix, since=(*prefix, query.after + 1))
        if query.name in (None, row.name)
        and (not query.newest or row.version == _last_version(tx, *prefix, row.name))
    )
    return list(islice(rows, query.limit))


def drop(tx: Tx, key: tuple[str, str, int]) -> None:
    """Remove a row and all ways to it."""
    tenant, scope, place = key
    row = tx.state.artifacts[key]
    tx.state.artifacts.delete(key)
    tx.state.artifact_ids.delete((tenant, row.id))
    tx.state.artifact_uris.delete((tenant, row.uri))
    tx.state.artifact_names.delete((tenant, scope, row.name, row.version))
    tx.state.blob_uses.delete((tenant, row.ref, "artifacts", scope, place))


def rebuild(state: State) -> None:
    """The ways to artifacts, and what they use."""
    for (tenant, scope, place), row in state.artifacts.scan():
        state.artifact_ids.place((tenant, row.id), (scope, place))
        state.artifact_uris.place((tenant, row.uri), (scope, place))
        state.artifact_names.place((tenant, scope, row.name, row.version), (row.version, place))
        state.blob_uses.place((tenant, row.ref, "artifacts", scope, place), None)


def check_bytes(tx: Tx, tenant: str) -> list[Defect]:
    """Every artifact names a blob that is there."""
    rows = (row for _, row in tx.state.artifacts.scan((tenant,)))
    lost = sorted(row.id for row in rows if (tenant, row.ref) not in tx.state.blobs)
    return [lost_bytes(id) for id in lost]


def _put(
    tx: Tx, tenant: str, owner: Owner, new: NewArtifact, quota: Quota | None, now_us: int
) -> Artifact:
    blob = need_blob(tx, tenant, new.ref)
    scope = rules.scope_of(owner)
    old = _old(tx, tenant, owner, new)
    last = _last_version(tx, tenant, scope, new.name)
    made = rules.made(new, owner, old, blob.size_bytes, last + 1)
    if old is not None and rules.is_repeat(new, made, old):
        return rules.detached(old)
    made = replace(made, created_us=now_us)
    if owner.session is not None and quota is not None:
        for gone in rules.evicted(
            owner.session, made.size_bytes, _others(tx, tenant, scope, made.id), quota
        ):
            drop(tx, (tenant, scope, gone.place))
    keys = [key for key, _ in islice(tx.state.artifacts.scan((tenant, scope), reverse=True), 1)]
    place = keys[0][2] + 1 if keys else 1
    if old is not None:
        drop(tx, (tenant, *tx.state.artifact_ids[(tenant, old.id)]))
    insert(tx, (tenant, scope, place), made)
    if owner.session is not None:
        put_mark(tx, (tenant, owner.session, ARTIFACTS), now_us)
    return rules.detached(made)


def _others(tx: Tx, tenant: str, scope: str, id: str) -> list[rules.Measure]:
    """All but one, oldest first."""
    return [
        rules.Measure(row.id, place, row.size_bytes)
        for (_, _, place), row in tx.state.artifacts.scan((tenant, scope))
        if row.id != id
    ]


def insert(tx: Tx, key: tuple[str, str, int], artifact: Artifact) -> None:
    """A new row, and all ways to it."""
    tenant, scope, place = key
    tx.state.artifacts.insert(key, artifact)
    tx.state.artifact_ids.insert((tenant, artifact.id), (scope, place))
    tx.state.artifact_uris.insert((tenant, artifact.uri), (scope, place))
    name = (tenant, scope, artifact.name, artifact.version)
    tx.state.artifact_names.insert(name, (artifact.version, place))
    tx.state.blob_uses.insert((tenant, artifact.ref, "artifacts", scope, place), None)


def _old(tx: Tx, tenant: str, owner: Owner, new: NewArtifact) -> Artifact | None:
    """The row that would be replaced; AlreadyExists."""
    by_id, by_uri = _by_id(tx, tenant, new.id), _by_uri(tx, tenant, rules.uri_of(new))
    return rules.choose_old(new, owner, by_id, by_uri)


def _by_id(tx: Tx, tenant: str, id: str) -> Artifact | None:
    where = tx.state.artifact_ids.get((tenant, id))
    return None if where is None else tx.state.artifacts[(tenant, *where)]


def _by_uri(tx: Tx, tenant: str, uri: str) -> Artifact | None:
    where = tx.state.artifact_uris.get((tenant, uri))
    return None if where is None else tx.state.artifacts[(tenant, *where)]


def _by_name(tx: Tx, query: GetArtifact) -> Artifact | None:
    """That version of the name, or the greatest."""
    name = (query.tenant, rules.scope_of(query.owner), query.name or "")
    names = tx.state.artifact_names
    where = names.last(name) if query.version is None else names.get((*name, query.version))
    return None if where is None else tx.state.artifacts[(*name[:2], where[1])]


def _last_version(tx: Tx, tenant: str, scope: str, name: str) -> int:
    found = tx.state.artifact_names.last((tenant, scope, name))
    return 0 if found is None else found[0]
