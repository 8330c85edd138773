"""What planned commands write, by table and kind: how a change set is carried to the server.

A row travels as numbers, texts and bytes, which follow from the declaration of its table. What no
section carries is no plan: the command goes the interactive way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import msgspec

from ledgerstone.tables.graph import CONTENTS, NODES, NOTES, TURNS
from ledgerstone.tables.runs import RUNS
from ledgerstone.tables.sessions import DOCUMENTS, HEADS, SESSIONS
from ledgerstone.tables.table import ORD_BITS, Key, Table
from ledgerstone.tables.usage import USAGE_DAYS
from ledgerstone.tables.work import READY, WORK

Pick: TypeAlias = Callable[[Any], tuple[Any, ...]]
Kind: TypeAlias = Literal["insert", "put", "merge", "delete", "settle"]
"""`merge`: the plan took the row to be absent, and the server joins it with the one that is there.
`settle`: the server computes the rows from others, when these are written."""

_TYPES = ("integer", "text", "blob")


class Section(msgspec.Struct, frozen=True, eq=False):
    """Rows of one table that are written in one way; `columns` are those that travel."""

    table: Table[Any]
    kind: Kind
    columns: tuple[str, ...]
    ints: Pick
    texts: Pick
    blobs: Pick
    often: bool = False


def pick(table: Table[Any], columns: Sequence[str], kind: str) -> Pick:
    """The values of one type, in the order of the declaration; a packed key is one number."""
    names = [name for name in columns if table.types[name] == kind]
    if kind != "integer" or not table.packed or table.key[0] not in columns:
        return _getter(names)
    number, ord = map(attrgetter, table.key[:2])
    rest = _getter([name for name in names if name not in table.key])
    return lambda row: (number(row) << ORD_BITS | ord(row), *rest(row))


def _getter(names: Sequence[str]) -> Pick:
    if not names:
        return lambda row: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda row: (get(row),)


def columns_of(section: Section, names: Sequence[str]) -> Pick:
    """Some of the columns that travel, in this order."""
    unknown = set(names) - set(section.columns)
    if unknown:
        raise ValueError(f"{section.table.name} does not carry {sorted(unknown)}")
    return _getter(names)


def _section(
    table: Table[Any], kind: Kind, *, but: tuple[str, ...] = (), often: bool = False
) -> Section:
    """All columns travel but some: those that no plan sets, and a tenant that the command names."""
    columns = tuple(name for name in table.columns if name not in but)
    return Section(table, kind, columns, *_picks(table, columns), often)


def _picks(table: Table[Any], columns: tuple[str, ...]) -> tuple[Pick, Pick, Pick]:
    ints, texts, blobs = (pick(table, columns, kind) for kind in _TYPES)
    return ints, texts, blobs


class DraftsRow(msgspec.Struct, frozen=True, gc=False):
    """All drafts of a node, from the first key to before the last."""

    number: int
    node: str
    first: str
    last: str


class ClaimRow(msgspec.Struct, frozen=True, gc=False):
    """A claim that is completed: it still has so many batches under this token, or nothing is."""

    number: int
    batches: int
    claim: str
    token: str


class LineRow(msgspec.Struct, frozen=True, gc=False):
    """A place in the line of sessions, or with queue None all of a session, due at `floor_us`."""

    number: int
    queue: str | None
    floor_us: int


def _special(table: Table[Any], kind: Kind, ints: str, texts: str) -> Section:
    names = (*ints.split(), *texts.split())
    return Section(table, kind, names, _getter(ints.split()), _getter(texts.split()), _getter(()))


_CLAIMED = (
    "attempts", "last_error", "claim", "claim_fence", "claim_token", "claim_owner", "claimed_us",
    "claim_expires_us",
)  # fmt: skip

MOVED_HEADS = _section(HEADS, "put", but=("incarnation", "deleted_us", "touched_us"), often=True)
NEW_NODES = _section(NODES, "insert", but=("deleted_us", "deleted_rev", "commitment"), often=True)
NEW_TURNS = _section(TURNS, "insert", but=("pos", "usage_digest"), often=True)
NEW_RUNS = _section(RUNS, "insert", often=True)
CHANGED_RUNS = _section(RUNS, "put", but=("id", "tenant", "created_us"))
USED_DAYS = _section(USAGE_DAYS, "merge", but=("tenant",), often=True)
MOVED_SESSIONS = _special(SESSIONS, "put", "number recency", "")
NEW_VALUES = _section(CONTENTS, "merge")
NEW_DOCUMENTS = _section(DOCUMENTS, "put")
NEW_WORK = _section(WORK, "insert", but=_CLAIMED)
RAISED_LINES = _section(READY, "merge", but=("tenant",))
COMPLETED_CLAIMS = _special(WORK, "delete", "number batches", "claim token")
SETTLED_LINES = _special(READY, "settle", "number floor_us", "queue")
NEW_NOTES = _section(NOTES, "put")
DROPPED_DRAFTS = _special(NOTES, "delete", "number", "node first last")
KEPT_NOTES = _section(NOTES, "merge")

SECTIONS = (
    MOVED_HEADS, NEW_NODES, NEW_TURNS, NEW_RUNS, CHANGED_RUNS, USED_DAYS, MOVED_SESSIONS,
    NEW_VALUES, NEW_DOCUMENTS, NEW_WORK, RAISED_LINES, COMPLETED_CLAIMS, SETTLED_LINES, NEW_NOTES,
    DROPPED_DRAFTS, KEPT_NOTES,
)  # fmt: skip
"""In the order in which ledger_write reads them."""

_SECTIONS = {(section.table, section.kind): section for section in SECTIONS}

Writes: TypeAlias = dict[Section, list[Any]]


class NotCarried(Exception):
    """No section carries a change of this kind in this table."""


def sort_writes(
    writes: dict[Table[Any], dict[Key, Any]],
    inserted: dict[Table[Any], set[Key]],
    absent: dict[Table[Any], set[Key]],
) -> Writes:
    """A change set by section; `absent` are the keys that were taken to be free."""
    found: Writes = {}
    for table, mine in writes.items():
        new = inserted.get(table, ())
        if table.serial or len(new) == len(mine):
            found[_section_of(table, "insert")] = list(mine.values())
            continue
        free = absent.get(table, ())
        for key, row in mine.items():
            if row is None:
                found.setdefault(_section_of(table, "delete"), []).append(key)
                continue
            kind: Kind = "insert" if key in new else "merge" if key in free else "put"
            found.setdefault(_section_of(table, kind), []).append(row)
    return found


def _section_of(table: Table[Any], kind: Kind) -> Section:
    section = _SECTIONS.get((table, kind))
    if section is None:
        raise NotCarried(f"{kind} {table.name}")
    return section
