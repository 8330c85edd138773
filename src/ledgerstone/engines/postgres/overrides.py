"""What PostgreSQL does in a way of its own; the shared handlers do all the rest."""

from __future__ import annotations

from functools import partial
from typing import Any

from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.commands.leases import RaiseFences
from ledgerstone.commands.runs import GetRun
from ledgerstone.commands.sessions import (
    CountSessions,
    GetDocument,
    GetDocuments,
    ListSessions,
)
from ledgerstone.commands.turns import VerifyStore
from ledgerstone.commands.usage import SummariseUsage
from ledgerstone.engines.postgres.drivers.port import Texts, to_column
from ledgerstone.engines.postgres.rows import Asking, PostgresRows, ask
from ledgerstone.engines.postgres.verify import verify_store
from ledgerstone.engines.session_lists import count_sessions, list_sessions
from ledgerstone.engines.usage_sums import summarise_usage
from ledgerstone.handlers.registry import HANDLERS, Handler
from ledgerstone.handlers.runs import read_run
from ledgerstone.records.feed import FeedEntry
from ledgerstone.records.runs import Run
from ledgerstone.rules.leases import FLOOR_STUB
from ledgerstone.rules.rows import GENESIS
from ledgerstone.sql.catalogue import load
from ledgerstone.tables.transaction import Tx


async def pick(tx: Tx, name: str, **given: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement with conditional lines; arguments that are None are not given."""
    text, bound = load("postgres")[name].variant_of(given)
    return await asking_of(tx).fetch(text, bound)


def asking_of(tx: Tx) -> Asking:
    """The connection of a transaction."""
    assert isinstance(tx.rows, PostgresRows)
    return tx.rows.asking


async def get_document(tx: Tx, query: GetDocument) -> bytes | None:
    """One of the session's documents."""
    several = GetDocuments(tenant=query.tenant, sessions=(query.session,), name=query.name)
    return (await get_documents(tx, several)).get(query.session)


async def get_documents(tx: Tx, query: GetDocuments) -> dict[str, bytes]:
    """The same of several sessions, in the order in which they were named."""
    ids = Texts([to_column(id) for id in query.sessions])
    rows = await ask(asking_of(tx), "documents_of", query.tenant, ids, query.name)
    found = dict[str, bytes](rows)
    return {id: found[id] for id in query.sessions if id in found}


async def get_run(tx: Tx, query: GetRun) -> Run | None:
    """By id."""
    rows = await ask(asking_of(tx), "run_record", query.tenant, query.id)
    return read_run(query.id, rows[0][0]) if rows else None


async def read_feed(tx: Tx, query: ReadFeed) -> list[FeedEntry]:
    """Commits of a tenant, up to the oldest transaction that is under way; else as the handler."""
    if query.session is not None:
        found: list[FeedEntry] = await HANDLERS[ReadFeed](tx, query)
        return found
    rows = await pick(tx, "read_feed", tenant=query.tenant, after=query.after, limit=query.limit)
    names = ("pos", "session", "revision", "turn", "kind", "nodes", "created_us")
    return [FeedEntry(**dict(zip(names, row, strict=True))) for row in rows]


async def feed_end(tx: Tx, query: FeedEnd) -> int:
    """The newest position that a reader of this tenant may see; 0 before the first commit."""
    return (await pick(tx, "feed_end", tenant=query.tenant))[0][0] or 0


async def raise_fences(tx: Tx, command: RaiseFences) -> int:
    """End leases and raise fences: of all sessions, and of those that are gone or to come."""
    asking, tenant, jump = asking_of(tx), command.tenant, command.jump
    if not command.session:
        await ask(asking, "make_floor", tenant, FLOOR_STUB, GENESIS)
        await ask(asking, "raise_stubs", tenant, jump)
        await ask(asking, "skip_places")
    raised = await ask(asking, "raise_fences", tenant, jump, command.session)
    await ask(asking, "drop_empty_of", tenant, command.session)
    await ask(asking, "settle_ready_of", tenant, command.session, tx.now_us)
    return len(raised)


OWN: dict[type, Handler[Any, Any]] = {
    GetDocument: get_document,
    GetDocuments: get_documents,
    GetRun: get_run,
    ReadFeed: read_feed,
    FeedEnd: feed_end,
    ListSessions: partial(list_sessions, pick),
    CountSessions: partial(count_sessions, pick),
    SummariseUsage: partial(summarise_usage, pick, True),
    VerifyStore: verify_store,
    RaiseFences: raise_fences,
}
