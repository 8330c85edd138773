"""Where a changed row is written: in the journal of its session, or in the store's own.

A home is the number of a session, or the name of one. A loose row (attachments, artifacts, traces
and reports) is of a session that need not exist: it belongs to the number when there is one.
Vectors of a session never stand in its journal: they count for the whole tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ledgerstone.engines.memory.rows import Change, MemoryRows
from ledgerstone.tables.blobs import ARTIFACTS, ARTIFACTS_IN_ORDER, ATTACHMENTS
from ledgerstone.tables.evidence import EVIDENCE
from ledgerstone.tables.memories import EMBEDDINGS
from ledgerstone.tables.schema import OWNED, TABLES
from ledgerstone.tables.sessions import PURGED, SESSIONS, SESSIONS_BY_ID
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.usage import BUDGETS, BudgetRow

SESSION_SCOPE = "s:"
"""How the scope of an artifact of a session begins: rules.artifacts.scope_of."""
LOOSE: tuple[Table[Any], ...] = (ATTACHMENTS, ARTIFACTS, EVIDENCE)
OF_SESSIONS: tuple[Table[Any], ...] = (SESSIONS, *OWNED, *LOOSE)
"""Tables whose rows may stand in the journal of a session."""
SHARED = tuple(table for table in TABLES if table not in (*OF_SESSIONS, PURGED))
"""Tables whose rows stand in the store's journal."""
ONLY_SHARED = tuple(table for table in SHARED if table is not BUDGETS)
"""Those whose rows stand nowhere else: what is left of a budget moves with every turn, and is said
in the line of the turn."""


class Home(NamedTuple):
    """The session a row belongs to, by number or by name; of nobody when both are empty."""

    number: int = 0
    session: str = ""


NOBODY = Home()
Rows = dict[tuple[Table[Any], Key], Any]


def home_of(table: Table[Any], row: Any, numbers: Numbers) -> Home:
    """Where a row belongs."""
    if table is SESSIONS or table.owner is not None:
        return Home(row.number)
    session = _session_of(table, row)
    if session is None:
        return NOBODY
    number = numbers.of(row.tenant, session) if table in LOOSE else 0
    return Home(number) if number else Home(0, session)


def _session_of(table: Table[Any], row: Any) -> str | None:
    if table is ARTIFACTS:
        in_session = row.scope.startswith(SESSION_SCOPE)
        return row.scope[len(SESSION_SCOPE) :] if in_session else None
    if table is BUDGETS:
        return row.subject if row.scope == "session" else None
    return row.session if table in (ATTACHMENTS, EVIDENCE, EMBEDDINGS) else None


class Numbers:
    """The numbers of sessions by their names, those that are being made included."""

    def __init__(self, rows: MemoryRows, changes: Iterable[Change] = ()) -> None:
        self._rows = rows
        self._made = {
            (change.row.tenant, change.row.id): change.row.number
            for change in changes
            if change.table is SESSIONS and change.row is not None
        }

    def of(self, tenant: str, session: str) -> int:
        """The number of a session; 0 when there is none."""
        return self._made.get((tenant, session)) or number_of(self._rows, tenant, session)


def number_of(rows: MemoryRows, tenant: str, session: str) -> int:
    """The number of a session; 0 when there is none."""
    key = rows.key_in(SESSIONS_BY_ID, (tenant, session))
    return 0 if key is None else int(key[0])


def rows_of(rows: MemoryRows, number: int, tenant: str, session: str) -> Rows:
    """Everything that stands in the journal of a session, or may."""
    found: Rows = {}
    places: list[tuple[Index[Any], Key]] = [(SESSIONS.primary, (number,))]
    places += [(table.by_owner(), (number,)) for table in OWNED]
    places += [
        (ATTACHMENTS.primary, (tenant, session)),
        (EVIDENCE.primary, (tenant, session)),
        (ARTIFACTS_IN_ORDER, (tenant, SESSION_SCOPE + session)),
    ]
    for index, prefix in places:
        for row in rows.between(index, prefix):
            found[index.table, index.table.key_of(row)] = row
    return found


def shared_rows(rows: MemoryRows) -> Iterator[tuple[Table[Any], Key, Any]]:
    """Everything that stands in the store's journal; of a budget not what is left of it."""
    for table in SHARED:
        for key, row in rows.tables[table].items():
            if table is BUDGETS:
                yield table, key, row.body
            else:
                yield table, key, row


def budgets_of(rows: MemoryRows, tenant: str, session: str) -> dict[Home, list[BudgetRow]]:
    """The budgets that turns of a session may have moved, by their homes."""
    found: dict[Home, list[BudgetRow]] = {}
    numbers = Numbers(rows)
    for row in rows.between(BUDGETS.primary, (tenant,)):
        home = home_of(BUDGETS, row, numbers)
        if home in (NOBODY, Home(0, session)):
            found.setdefault(home, []).append(row)
    return found
