"""What an AdvancedSQLiteSession noted of tokens, as entries of the store's ledger.

The SDK has one row for each turn of a branch, and replaces it when the turn goes on. An entry is
never replaced, so what a row says beyond the entries of earlier runs becomes another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import astuple

from ledgerstone import ids
from ledgerstone.adapters.importing.sources import json_object
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.errors import Corrupt
from ledgerstone.records.sessions import Session
from ledgerstone.records.usage import COUNT_BOUND, Usage

SOURCE = "openai-agents"
TABLE = "turn_usage"
UNKNOWN = "unknown"
"""The model: the SDK does not say which one it was."""


class Turn(NamedTuple):
    """A row of the SDK."""

    number: int
    branch: str
    turn: int
    input: Any
    output: Any
    total: Any
    input_details: Any
    output_details: Any


async def recorded(store: AnyStore, session: str) -> dict[str, Usage]:
    """What was recorded in a session, by the ids of the records."""
    found = await of(store.usage.list(session))
    return {one.turn: one.entry.usage for one in found}


async def record(
    store: AnyStore, made: Session, model: str, row: Turn, known: Mapping[str, Usage]
) -> bool:
    """Bring the entries of a turn to what its row says; whether that took one. Corrupt for no row.

    With the beginning of the session: another file may have one of the same name.
    """
    origin = ("openai.turn", made.id, str(made.created_us), row.branch, str(row.turn))
    there, count = Usage(total=0), 0
    while (name := ids.derive(*origin, str(count))) in known:
        there, count = there + known[name], count + 1
    more = _less(_usage(row), there)
    if not any(astuple(more)):
        return False
    await of(
        store.usage.record(
            made.id,
            model,
            more,
            source=SOURCE,
            id=name,
            correction=count > 0,
            over_budget=True,
        )
    )
    return True


def _usage(row: Turn) -> Usage:
    taken = _object(row, row.input_details, "input_tokens_details")
    given = _object(row, row.output_details, "output_tokens_details")
    return Usage(
        input=_count(row, row.input, "input_tokens"),
        output=_count(row, row.output, "output_tokens"),
        cached_input=_count(row, taken.get("cached_tokens"), "input_tokens_details"),
        cache_write=_count(row, taken.get("cache_write_tokens"), "input_tokens_details"),
        reasoning=_count(row, given.get("reasoning_tokens"), "output_tokens_details"),
        total=_count(row, row.total, "total_tokens"),
    )


def _object(row: Turn, value: Any, field: str) -> dict[str, Any]:
    return {} if value is None else json_object(value, TABLE, str(row.number), field)


def _count(row: Turn, value: Any, field: str) -> int:
    """A number of tokens; none where the SDK was told nothing."""
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value < COUNT_BOUND:
        raise Corrupt(TABLE, str(row.number), field, "no number of tokens")
    return value


def _less(wanted: Usage, there: Usage) -> Usage:
    pairs = zip(astuple(wanted), astuple(there), strict=True)
    return Usage(*(one - other for one, other in pairs))
