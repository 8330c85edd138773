"""Queries that SQLite answers in a way of its own; handlers answer all others."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands import Query
from ledgerstone.commands.sessions import CountSessions, ListSessions
from ledgerstone.commands.turns import VerifySession, VerifyStore
from ledgerstone.commands.usage import SummariseUsage
from ledgerstone.engines.sqlite.session_lists import count_sessions, list_sessions
from ledgerstone.engines.sqlite.usage_sums import summarise_usage
from ledgerstone.engines.sqlite.verify import verify_session, verify_store
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.handlers.registry import Handler
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now

OWN: dict[type, Handler[Any, Any]] = {
    ListSessions: list_sessions,
    CountSessions: count_sessions,
    SummariseUsage: summarise_usage,
    VerifySession: verify_session,
    VerifyStore: verify_store,
}


def answer(tx: Tx, query: Query[Any]) -> Any:
    """Answer one query."""
    kind = type(query)
    handler = OWN.get(kind) or HANDLERS[kind]
    return run_now(handler(tx, query))
