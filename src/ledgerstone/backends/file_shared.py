"""Rows that stand in the store's own journal, and those that may: which, where, and whose.

A loose row is of a session that need not exist (attachments, artifacts, traces and reports): it
goes to the session's journal when there is one, else to the store's. All that belongs to no
session goes to the store's, and embeddings too: one command may put those of many sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ledgerstone.backends.file_lines import STORE, Line
from ledgerstone.backends.file_rows_kept import (
    SESSION_SCOPE,
    ArtifactWire,
    BlobWire,
    BudgetWire,
    EmbeddingWire,
    EvidenceWire,
    MemoryWire,
    SpaceWire,
    UploadWire,
)
from ledgerstone.backends.file_rows_shared import AttachmentWire, RunWire, StubWire
from ledgerstone.backends.file_wire import Mention, SharedWire
from ledgerstone.model.state import Change, State
from ledgerstone.model.tables import ABSENT, Table

SHARED: dict[str, Callable[[Any, Any], SharedWire]] = {
    "runs": RunWire.of,
    "attachments": AttachmentWire.of,
    "artifacts": ArtifactWire.of,
    "evidence": EvidenceWire.of,
    "stubs": StubWire.of,
    "blobs": BlobWire.of,
    "uploads": UploadWire.of,
    "budgets": BudgetWire.of,
    "memories": MemoryWire.of,
    "embeddings": EmbeddingWire.of,
    "spaces": SpaceWire.of,
}
"""Tables with rows in the store's journal, and how a row of each is written."""

LOOSE = ("attachments", "artifacts", "evidence")
IN_STORE = ("stubs", "blobs", "uploads", "budgets", "memories", "embeddings", "spaces")
"""Tables that no journal but the store's has rows of."""


def loose_of(tenant: str, session: str) -> list[Mention]:
    """Where the loose rows of a session stand in their tables."""
    return [
        (table, (tenant, SESSION_SCOPE + session if table == "artifacts" else session))
        for table in LOOSE
    ]


def named_by(tenant: str, session: str) -> set[Mention]:
    """Everything in the store's journal that would still tell of a purged session."""
    whose = (tenant, session)
    return {*loose_of(tenant, session), ("embeddings", whose), ("budgets", whose)}


def loose_home(state: State, table: str, key: tuple[Any, ...]) -> int:
    """The journal that a loose row belongs to now."""
    session = key[1]
    if table == "artifacts":
        if not session.startswith(SESSION_SCOPE):
            return STORE
        session = session[len(SESSION_SCOPE) :]
    found = state.sessions.get((key[0], session))
    return STORE if found is None else found.number


def loose_rows(state: State, tenant: str, session: str) -> Iterator[Change]:
    """The loose rows of a session."""
    for table, owner in loose_of(tenant, session):
        for key, row in _table(state, table).scan(owner):
            yield Change(table, key, ABSENT, row)


def store_only(state: State) -> Iterator[Change]:
    """The rows that no journal but the store's has."""
    for table in IN_STORE:
        for key, row in _table(state, table).scan():
            yield Change(table, key, ABSENT, row)
    for place, artifact in state.artifacts.scan():
        if not place[1].startswith(SESSION_SCOPE):
            yield Change("artifacts", place, ABSENT, artifact)


def store_rows(state: State, mentions: Iterable[Mention]) -> Iterator[Change]:
    """Everything that stands in the store's journal and is still there."""
    yield from store_only(state)
    for table, owner in sorted(mentions):
        if table not in IN_STORE:
            for key, row in _table(state, table).scan(owner):
                yield Change(table, key, ABSENT, row)


def wires_of(line: Line) -> Iterator[tuple[str, SharedWire]]:
    """The shared rows of a line, and the table of each."""
    for table in SHARED:
        for wire in getattr(line, table):
            yield table, wire


def mentions_of(line: Line) -> Iterator[Mention]:
    """Whose bytes are in a line of the store's journal."""
    for _, wire in wires_of(line):
        found = wire.mention()
        if found is not None:
            yield found


def put_shared(state: State, line: Line) -> None:
    """The rows that other journals hold too; lines must come in the order of their positions."""
    if line.base or line.drop is not None:
        for table, key, *_ in list(loose_rows(state, line.tenant, line.session)):
            _table(state, table).place(key, ABSENT)
    for table, wire in wires_of(line):
        _table(state, table).place(wire.key(), wire.row())
    for table, keys in line.gone.items():
        if table in SHARED:
            for gone in keys:
                _table(state, table).place(tuple(gone), ABSENT)


def has_shared(line: Line) -> bool:
    """Whether the order of the line among those of other journals matters."""
    if line.number == STORE or line.base:
        return True
    return any(getattr(line, table) for table in SHARED) or any(
        table in SHARED for table in line.gone
    )


def _table(state: State, name: str) -> Table[Any, Any]:
    found: Table[Any, Any] = getattr(state, name)
    return found
