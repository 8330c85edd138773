"""What SQLite answers in a way of its own: lists and sums by statements, and checks of seals."""

from __future__ import annotations

from functools import partial
from typing import Any

from ledgerstone.commands.sessions import CountSessions, ListSessions
from ledgerstone.commands.turns import VerifySession, VerifyStore
from ledgerstone.commands.usage import SummariseUsage
from ledgerstone.engines.session_lists import count_sessions, list_sessions
from ledgerstone.engines.sqlite.verify import verify_session, verify_store
from ledgerstone.engines.usage_sums import summarise_usage
from ledgerstone.handlers.registry import Handler
from ledgerstone.sql.catalogue import load
from ledgerstone.tables.transaction import Tx


async def pick(tx: Tx, name: str, **given: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement with conditional lines; arguments that are None are not given."""
    text, bound = load("sqlite")[name].variant_of(given)
    rows: Any = tx.rows
    found: list[tuple[Any, ...]] = rows.connection.execute(text, bound).fetchall()
    return found


OWN: dict[type, Handler[Any, Any]] = {
    ListSessions: partial(list_sessions, pick),
    CountSessions: partial(count_sessions, pick),
    SummariseUsage: partial(summarise_usage, pick, False),
    VerifySession: verify_session,
    VerifyStore: verify_store,
}
