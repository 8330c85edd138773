"""The context of a path: its newest compaction, what came since, and how it begins."""

from __future__ import annotations

from collections.abc import Iterator

from ledgerstone.commands.context import FindCompaction, ReadContext
from ledgerstone.records.context import CompactionPoint, ContextRows
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import COMPACTION_LABEL, MESSAGE
from ledgerstone.rules.bodies import ROLE_NUMBERS
from tests.oracle.model import paths
from tests.oracle.model.messages import path_start, to_message
from tests.oracle.model.rows import NodeRow
from tests.oracle.model.standing import Standing, find
from tests.oracle.model.state import Tx


def read_context(tx: Tx, query: ReadContext) -> ContextRows:
    """The tail from the newest compaction with a summary on, or everything."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return ContextRows()
    start = path_start(tx, found, query.branch, query.at)
    rows: list[NodeRow] = []
    pair: tuple[Message, Message] | None = None
    for row in _live(tx, found, start):
        rows.append(row)
        if row.label == COMPACTION_LABEL and len(rows) > 1:
            summary = to_message(tx, found, rows[-2])
            if summary.body.is_summary:
                pair = to_message(tx, found, row), summary
                break
    if pair is None:
        return ContextRows(tail=[to_message(tx, found, row) for row in reversed(rows)])
    kept = _from(tx, found, rows, pair[0])
    return ContextRows(
        system=_leading(tx, found, start, kept[-1].seq),
        request=pair[0],
        summary=pair[1],
        tail=[to_message(tx, found, row) for row in reversed(kept)],
    )


def find_compaction(tx: Tx, query: FindCompaction) -> CompactionPoint | None:
    """The newest request of a branch or of the session, and whether a message is on the path."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return None
    rows: Iterator[NodeRow]
    on_path = True
    if query.branch is None:
        rows = (row for _, row in tx.state.nodes.scan((found.number,), reverse=True))
    else:
        leaf = paths.stored_leaf(tx, found, query.branch)
        if leaf is None:
            return None
        rows = paths.upwards(tx, found.number, leaf)
        on_path = query.tail_start is None or _is_on(tx, found, leaf, query.tail_start)
    newest = next((row for row in rows if _speaks(row) and row.label == COMPACTION_LABEL), None)
    return CompactionPoint(
        newest=None if newest is None else to_message(tx, found, newest), on_path=on_path
    )


def _speaks(row: NodeRow) -> bool:
    return row.kind == MESSAGE and row.live


def _live(tx: Tx, found: Standing, start: int) -> Iterator[NodeRow]:
    """Live messages of a path, newest first."""
    return filter(_speaks, paths.upwards(tx, found.number, start))


def _from(tx: Tx, found: Standing, rows: list[NodeRow], request: Message) -> list[NodeRow]:
    """Rows down to the start of the tail; one that is not on the path above is none."""
    meta = request.body.compaction
    start = None if meta is None or meta.tail_start_id is None else meta.tail_start_id
    place = None if start is None else paths.node_by_id(tx, found, start)
    if place is None:
        return rows
    older = []
    for row in paths.upwards(tx, found.number, rows[-1].parent):
        if row.ord < place.ord:
            return rows
        if _speaks(row):
            older.append(row)
        if row.ord == place.ord:
            return rows + older
    return rows


def _leading(tx: Tx, found: Standing, start: int, before_seq: int) -> list[Message]:
    """The system messages that a path begins with, before a position."""
    if found.head.branched:
        path: Iterator[NodeRow] = reversed(list(paths.upwards(tx, found.number, start)))
    else:
        path = (row for _, row in tx.state.nodes.scan((found.number,)))
    systems = []
    for row in filter(_speaks, path):
        if row.role != ROLE_NUMBERS["system"] or row.seq >= before_seq:
            break
        systems.append(to_message(tx, found, row))
    return systems


def _is_on(tx: Tx, found: Standing, leaf: int, id: str) -> bool:
    """Whether a live message stands on a path."""
    place = paths.node_by_id(tx, found, id)
    if place is None or not _speaks(place):
        return False
    if not found.head.branched:
        return place.ord <= leaf
    return any(row.ord == place.ord for row in paths.upwards(tx, found.number, leaf))
