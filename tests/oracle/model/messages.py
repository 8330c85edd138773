"""Messages as they are read: one by id, a path, a page, a range, every version."""

from __future__ import annotations

from collections.abc import Iterator

from ledgerstone.commands.nodes import (
    CountMessages,
    GetMessage,
    GetVersions,
    ListMessages,
    ReadMessages,
    ReadRange,
)
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.sessions import Page
from ledgerstone.rules.bodies import read_amended, read_body
from tests.oracle.model import paths
from tests.oracle.model.rows import AmendmentRow, NodeRow
from tests.oracle.model.standing import Standing, find
from tests.oracle.model.state import Tx


def to_message(tx: Tx, standing: Standing, row: NodeRow) -> Message:
    """The message as its newest amendment shows it."""
    version, amendment = 0, None
    if standing.head.amended:
        newest = next(tx.state.amendments.scan((standing.number, row.ord), reverse=True), None)
        if newest is not None:
            version, amendment = newest[0][2], newest[1]
    return message_version(tx, standing, row, version, amendment)


def message_version(
    tx: Tx, standing: Standing, row: NodeRow, version: int, amendment: AmendmentRow | None
) -> Message:
    """The message as one amendment shows it, or as it was written."""
    where = f"{standing.id}/{row.id}"
    if amendment is None or amendment.patch is None:
        body = read_body(row.body or b"", where)
    else:
        body = read_amended(row.body or b"", amendment.patch, where)
    return Message(
        body=body,
        id=row.id,
        session=standing.id,
        ord=row.ord,
        seq=row.seq,
        parent=paths.id_of(tx, standing.number, row.parent),
        run_id=row.run_id,
        created_us=row.created_us,
        updated_us=None if amendment is None else amendment.created_us,
        deleted_us=row.deleted_us,
        version=version,
    )


def path_start(tx: Tx, standing: Standing, branch: str, at: str | None) -> int:
    """Where a path is walked from: a node, or the stored leaf of a branch; 0 when unknown."""
    if at is None:
        return paths.stored_leaf(tx, standing, branch) or 0
    row = paths.node_by_id(tx, standing, at)
    return 0 if row is None else row.ord


def _path_messages(tx: Tx, standing: Standing, start: int, deleted: bool) -> Iterator[NodeRow]:
    """Message rows of a path, newest first."""
    for row in paths.upwards(tx, standing.number, start):
        if row.kind == MESSAGE and (deleted or row.live):
            yield row


def read_messages(tx: Tx, query: ReadMessages) -> list[Message]:
    """Messages of one path, oldest first."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return []
    start = path_start(tx, found, query.branch, query.at)
    rows: list[NodeRow] = []
    for row in _path_messages(tx, found, start, query.deleted):
        # Only without `first` is it known on the way up that enough has been seen.
        enough = query.first is None and query.last is not None and len(rows) >= query.last
        if enough or row.seq <= query.after_seq:
            break
        rows.append(row)
    rows.reverse()
    rows = rows[: query.first]
    if query.last is not None:
        rows = rows[max(len(rows) - query.last, 0) :]
    return [to_message(tx, found, row) for row in rows]


def count_messages(tx: Tx, query: CountMessages) -> int:
    """Live messages on a path."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return 0
    if query.branch == paths.MAIN:
        return found.head.messages
    start = path_start(tx, found, query.branch, None)
    return sum(1 for _ in _path_messages(tx, found, start, deleted=False))


def list_messages(tx: Tx, query: ListMessages) -> Page[Message]:
    """A page of a path by position, or of everything one run wrote by commit order."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return Page([], total=0 if query.total else None)
    if query.run_id is None:
        start = path_start(tx, found, query.branch, None)
        rows = list(_path_messages(tx, found, start, query.deleted))
        rows.reverse()
    else:
        rows = [
            row
            for _, row in tx.state.nodes.scan((found.number,))
            if row.kind == MESSAGE and row.run_id == query.run_id and (query.deleted or row.live)
        ]
    if query.newest_first:
        rows.reverse()
    total = len(rows) if query.total else None
    if query.after is not None:
        rows = [row for row in rows if _is_after(row, query, query.after)]
    piece = rows[query.offset : query.offset + query.limit]
    has_more = len(rows) > query.offset + len(piece)
    return Page([to_message(tx, found, row) for row in piece], has_more, None, total)


def _is_after(row: NodeRow, query: ListMessages, after: tuple[int, int]) -> bool:
    """Whether a row comes later in the list than the last item of the page before.

    A path goes on at the next position even if another node stands at the last one by now.
    """
    border, place = (after[0], row.seq) if query.run_id is None else (after[1], row.ord)
    return place < border if query.newest_first else place > border


def read_range(tx: Tx, query: ReadRange) -> list[Message]:
    """Live messages of the main path by inclusive position."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return []
    rows: list[NodeRow] = []
    for row in _path_messages(tx, found, found.head.leaf, deleted=False):
        if row.seq < query.first:
            break
        if row.seq <= query.last:
            rows.append(row)
    return [to_message(tx, found, row) for row in reversed(rows)]


def get_message(tx: Tx, query: GetMessage) -> Message | None:
    """By id, soft-deleted ones too; without a session, the oldest one of the tenant."""
    if query.session is not None:
        found = find(tx, query.tenant, query.session)
        row = None if found is None else paths.node_by_id(tx, found, query.id)
        if found is None or row is None or row.kind != MESSAGE:
            return None
        return to_message(tx, found, row)
    candidates = [
        (row.created_us, found.id, found, row)
        for found, row in nodes_with_id(tx, query.tenant, query.id)
        if row.kind == MESSAGE
    ]
    if not candidates:
        return None
    _, _, found, row = min(candidates, key=lambda each: each[:2])
    return to_message(tx, found, row)


def nodes_with_id(tx: Tx, tenant: str, node: str) -> list[tuple[Standing, NodeRow]]:
    """Every node of the tenant with this id and the session it is in, by session id."""
    found = []
    for (_, _, number), at in tx.state.node_ids.scan((tenant, node)):
        # What is purged but not yet swept has no session any more.
        session = tx.state.session_ids.get((number,))
        standing = None if session is None else find(tx, tenant, session)
        if standing is not None:
            found.append((standing, tx.state.nodes[(number, at)]))
    return sorted(found, key=lambda each: each[0].id)


def get_versions(tx: Tx, query: GetVersions) -> list[Message]:
    """Every version of a message, the original first."""
    found = find(tx, query.tenant, query.session)
    row = None if found is None else paths.node_by_id(tx, found, query.id)
    if found is None or row is None or row.kind != MESSAGE:
        return []
    versions = [message_version(tx, found, row, 0, None)]
    for key, amendment in tx.state.amendments.scan((found.number, row.ord)):
        versions.append(message_version(tx, found, row, key[2], amendment))
    return versions
