"""A session while it is verified: its rows, what its history says, and the defects found."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ledgerstone.codec import decode_json
from ledgerstone.handlers.heads import find_session
from ledgerstone.handlers.history import History
from ledgerstone.records.reports import Defect
from ledgerstone.rules.usage import FORGOTTEN
from ledgerstone.tables.runs import RUNS, RunRow
from ledgerstone.tables.sessions import DOCUMENTS, Head, SessionRow
from ledgerstone.tables.transaction import Tx


class Place(NamedTuple):
    """A node without its content."""

    parent: int
    seq: int
    role: int | None
    deleted_rev: int | None
    """In which revision it was hidden; 0 when nobody wrote that down."""


class Check(msgspec.Struct):
    """Grows as the session is walked from its first commit to its last.

    `refs` are the values that visible nodes name, `wrote` the first and the last ord of each run,
    by its number in the session.
    """

    row: SessionRow
    head: Head
    documents: dict[str, bytes]
    runs: list[RunRow]
    run_ids: dict[int, str]
    history: History
    turns: int = 0
    nodes: int = 0
    values: int = 0
    places: dict[int, Place] = {}
    erased: set[int] = set()
    refs: set[str] = set()
    wrote: dict[int, tuple[int, int]] = {}
    defects: list[Defect] = []

    @property
    def number(self) -> int:
        return self.head.number

    def defect(self, kind: str, where: str, detail: str = "") -> None:
        """Note one."""
        self.defects.append(Defect(self.row.id, kind, where, detail))

    def path(self, leaf: int) -> list[tuple[int, Place]]:
        """The nodes of a path, newest first; it ends where one is missing."""
        found = []
        while (place := self.places.get(leaf)) is not None:
            found.append((leaf, place))
            leaf = min(place.parent, leaf - 1)  # Always the parent, unless the store is damaged.
        return found


async def begin_check(tx: Tx, tenant: str, session: str) -> Check | None:
    """What the checks of a session have in common; None for an unknown session."""
    found = await find_session(tx, tenant, session)
    if found is None:
        return None
    row, head = found
    documents = {one.name: one.body for one in await tx.scan(DOCUMENTS.primary, row.number)}
    runs = await tx.scan(RUNS.primary, row.number)
    history = History(forgotten=_forgotten(documents.get(FORGOTTEN)))
    return Check(row, head, documents, runs, {run.n: run.id for run in runs}, history)


def _forgotten(document: bytes | None) -> int:
    """The revision until which executions were deleted; 0 when none were."""
    try:
        return 0 if document is None else int(decode_json(document)["revision"])
    except (ValueError, TypeError, KeyError):
        return 0  # The checksum of the row does not fit then.
