"""Lists of sessions: filtered, ordered with a unique tie-break, paged."""

from __future__ import annotations

from collections.abc import Iterator

from ledgerstone.codec import decode_json
from ledgerstone.commands.sessions import CountSessions, ListSessions, SessionFilter
from ledgerstone.errors import InvalidValue
from ledgerstone.records.sessions import Page, Session
from ledgerstone.rules.matching import contains
from ledgerstone.rules.rows import HeadRow
from tests.oracle.model.rows import SessionRow
from tests.oracle.model.standing import Standing
from tests.oracle.model.state import Tx

ORDERS = ("-updated", "updated", "-created", "created", "id", "-id")


def _fits(row: SessionRow, head: HeadRow, where: SessionFilter) -> bool:
    if head.deleted_us is not None and not where.deleted:
        return False
    for wanted, actual in (
        (where.user, row.user),
        (where.app, row.app),
        (where.status, row.status),
        (where.parent, row.parent),
        (where.metadata_equals, row.metadata),
    ):
        if wanted is not None and wanted != actual:
            return False
    if where.created_after_us is not None and row.created_us < where.created_after_us:
        return False
    if where.created_before_us is not None and row.created_us >= where.created_before_us:
        return False
    if where.metadata_contains is None:
        return True
    return contains(decode_json(row.metadata), where.metadata_contains)


def _matches(tx: Tx, tenant: str, where: SessionFilter) -> Iterator[Standing]:
    """The sessions that fit, by id. Their heads are read and never changed here."""
    for (_, session), row in tx.state.sessions.scan((tenant,)):
        head = tx.state.heads[(row.number,)]
        if _fits(row, head, where):
            yield Standing(tenant, session, row, head)


def _sort_value(standing: Standing, order: str) -> int:
    """What the list is ordered by; negative when it goes down, so that ids always go up."""
    if order.endswith("id"):
        return 0
    value = standing.head.updated_us if "updated" in order else standing.row.created_us
    return -value if order.startswith("-") else value


def list_sessions(tx: Tx, query: ListSessions) -> Page[Session]:
    """A page of the sessions that fit the filter."""
    order = query.order
    if order not in ORDERS:
        raise InvalidValue("order", f"{order!r} is none of {', '.join(ORDERS)}")
    keyed = [((_sort_value(s, order), s.id), s) for s in _matches(tx, query.tenant, query.where)]
    keyed.sort(key=lambda each: each[0], reverse=order == "-id")
    total = len(keyed) if query.total else None
    if query.after is not None:
        value = -query.after[0] if order.startswith("-") else query.after[0]
        border = (0 if order.endswith("id") else value, query.after[1])
        keyed = [e for e in keyed if (e[0] < border if order == "-id" else e[0] > border)]
    piece = keyed[query.offset : query.offset + query.limit]
    has_more = len(keyed) > query.offset + len(piece)
    return Page([standing.record() for _, standing in piece], has_more, None, total)


def count_sessions(tx: Tx, query: CountSessions) -> int:
    """How many sessions fit the filter."""
    return sum(1 for _ in _matches(tx, query.tenant, query.where))
