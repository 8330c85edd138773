"""What planned commands write, by table and kind: how a change set is carried to the server.

A row travels as numbers, texts and bytes, which follow from the declaration of its table. What no
section carries is no plan: the command goes the interactive way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import msgspec

from ledgerstone.tables.graph import CONTENTS, NODES, NOTES, TURNS
from ledgerstone.tables.runs import RUNS
from ledgerstone.tables.sessions import DOCUMENTS, HEADS, SESSIONS
from ledgerstone.tables.table import ORD_BITS, Key, Table
from ledgerstone.tables.usage import USAGE_DAYS
from ledgerstone.tables.work import ENDED_WORK, READY, WORK, WORK_SUMS

Kind: TypeAlias = Literal["insert", "put", "merge", "delete", "settle", "add"]
"""`merge`: the plan took the row to be absent, and the server joins it with the one that is there.
`settle`: the server computes the rows from others, when these are written.
`add`: what is added to sums."""
Values: TypeAlias = Callable[[Any], tuple[Any, ...]]


class Section(msgspec.Struct, frozen=True, eq=False):
    """Rows of one table that are written in one way, and their columns that travel."""

    table: Table[Any]
    kind: Kind
    ints: tuple[str, ...]
    texts: tuple[str, ...]
    blobs: tuple[str, ...]
    values: Values
    """The values of all columns, in their order."""
    often: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return *self.ints, *self.texts, *self.blobs

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.table.name}"

    def carry(
        self, place: int, rows: Collection[Any], ints: list[Any], texts: list[Any], blobs: list[Any]
    ) -> None:
        """Add rows of the command at a place to the numbers, texts and bytes of a call."""
        texts_at, blobs_at = len(self.ints), len(self.ints) + len(self.texts)
        for row in rows:
            values = self.values(row)
            ints.append(place)
            ints += values[:texts_at]
            texts += values[texts_at:blobs_at]
            blobs += values[blobs_at:]


def _section(
    table: Table[Any], kind: Kind, *, but: tuple[str, ...] = (), often: bool = False
) -> Section:
    """All columns travel but some: those that no plan sets, and a tenant that the command names."""
    columns = [name for name in table.columns if name not in but]
    if table.packed:
        columns = ["key", *[name for name in columns if name not in table.key]]
    types: dict[str, list[str]] = {name: [] for name in ("integer", "text", "blob")}
    for name in columns:
        types[table.types.get(name, "integer")].append(name)
    return _carrying(table, kind, *types.values(), often=often)


def _computed(table: Table[Any], kind: Kind, ints: str, texts: str) -> Section:
    """Rows of a kind of their own, from which the server computes those of the table."""
    return _carrying(table, kind, ints.split(), texts.split(), [])


def _carrying(
    table: Table[Any],
    kind: Kind,
    ints: Sequence[str],
    texts: Sequence[str],
    blobs: Sequence[str],
    *,
    often: bool = False,
) -> Section:
    values = _values(table, (*ints, *texts, *blobs))
    return Section(table, kind, tuple(ints), tuple(texts), tuple(blobs), values, often)


def values_of(section: Section, *names: str) -> Values:
    """Some of the columns that travel, in this order."""
    unknown = set(names) - set(section.columns)
    if unknown:
        raise ValueError(f"{section.table.name} does not carry {sorted(unknown)}")
    return _values(section.table, names)


def _values(table: Table[Any], names: Sequence[str]) -> Values:
    """Columns of a row; the two halves of a packed key are one number, `key`."""
    if not names:
        return lambda row: ()
    if not table.packed or "key" not in names:
        get = attrgetter(*names)
        return get if len(names) > 1 else lambda row: (get(row),)
    place = names.index("key")
    get = attrgetter(table.key[0], table.key[-1], *names[:place], *names[place + 1 :])

    def packed(row: Any) -> tuple[Any, ...]:
        number, ord, *rest = get(row)
        rest.insert(place, number << ORD_BITS | ord)
        return tuple(rest)

    return packed


class DraftsRow(msgspec.Struct, frozen=True, gc=False):
    """All drafts of a node, from the first key to before the last."""

    number: int
    node: str
    first: str
    last: str


class ClaimRow(msgspec.Struct, frozen=True, gc=False):
    """A claim that is completed: it still has these batches under this token, or nothing is."""

    number: int
    claim: str
    token: str
    batches: str
    """Their places in the queue, in the order they are claimed."""


class LineRow(msgspec.Struct, frozen=True, gc=False):
    """A place in the line of sessions, or with queue None all of a session, due at `floor_us`."""

    number: int
    queue: str | None
    floor_us: int


_CLAIMED = (
    "attempts", "last_error", "claim", "claim_fence", "claim_token", "claim_owner", "claimed_us",
    "claim_expires_us", "superseded",
)  # fmt: skip

MOVED_HEADS = _section(HEADS, "put", but=("incarnation", "deleted_us", "touched_us"), often=True)
NEW_NODES = _section(NODES, "insert", but=("deleted_us", "deleted_rev", "commitment"), often=True)
NEW_TURNS = _section(TURNS, "insert", but=("pos", "usage_digest"), often=True)
NEW_RUNS = _section(RUNS, "insert", often=True)
CHANGED_RUNS = _section(RUNS, "put", but=("id", "tenant", "created_us"))
USED_DAYS = _section(USAGE_DAYS, "merge", but=("tenant",), often=True)
MOVED_SESSIONS = _computed(SESSIONS, "put", "number recency", "")
NEW_VALUES = _section(CONTENTS, "merge")
NEW_DOCUMENTS = _section(DOCUMENTS, "put")
NEW_WORK = _section(WORK, "insert", but=_CLAIMED)
RAISED_LINES = _section(READY, "merge", but=("tenant",))
COMPLETED_CLAIMS = _computed(WORK, "delete", "number", "claim token batches")
SETTLED_LINES = _computed(READY, "settle", "number floor_us", "queue")
NEW_NOTES = _section(NOTES, "put")
DROPPED_DRAFTS = _computed(NOTES, "delete", "number", "node first last")
KEPT_NOTES = _section(NOTES, "merge")
ENDED_BATCHES = _section(ENDED_WORK, "insert", but=("tenant",))
COUNTED_WORK = _section(WORK_SUMS, "add", but=("tenant",))

SECTIONS = (
    MOVED_HEADS, NEW_NODES, NEW_TURNS, NEW_RUNS, USED_DAYS, CHANGED_RUNS, MOVED_SESSIONS,
    NEW_VALUES, NEW_DOCUMENTS, NEW_NOTES, KEPT_NOTES, DROPPED_DRAFTS, NEW_WORK, RAISED_LINES,
    COMPLETED_CLAIMS, ENDED_BATCHES, COUNTED_WORK, SETTLED_LINES,
)  # fmt: skip
"""In the order in which they travel and are written: what is dropped after what is kept, places in
the line after the work that they follow from."""

_OF_TABLE: dict[Table[Any], dict[Kind, Section]] = {}
for _section_ in SECTIONS:
    _OF_TABLE.setdefault(_section_.table, {})[_section_.kind] = _section_

Writes: TypeAlias = dict[Section, list[Any]]


class NotCarried(Exception):
    """No section carries a change of this kind in this table."""


def sort_writes(
    writes: dict[Table[Any], dict[Key, Any]],
    inserted: dict[Table[Any], set[Key]],
    adds: dict[Table[Any], dict[Key, Any]],
    absent: dict[Table[Any], set[Key]],
) -> Writes:
    """A change set by section; `absent` are the keys that were taken to be free."""
    found: Writes = {}
    try:
        for table, mine in writes.items():
            sections, new = _OF_TABLE[table], inserted.get(table)
            if table.serial or (new is not None and len(new) == len(mine)):
                found[sections["insert"]] = [*mine.values()]
            elif new or table in absent or None in mine.values():
                _sort_one_by_one(found, sections, mine, new or (), absent.get(table, ()))
            else:
                found[sections["put"]] = [*mine.values()]
        for table, summed in adds.items():
            found[_OF_TABLE[table]["add"]] = [*summed.values()]
    except KeyError as error:
        raise NotCarried(str(error)) from None
    return found


def _sort_one_by_one(
    found: Writes,
    sections: dict[Kind, Section],
    mine: dict[Key, Any],
    new: Collection[Key],
    free: Collection[Key],
) -> None:
    for key, row in mine.items():
        if row is None:
            found.setdefault(sections["delete"], []).append(key)
            continue
        kind: Kind = "insert" if key in new else "merge" if key in free else "put"
        found.setdefault(sections[kind], []).append(row)
