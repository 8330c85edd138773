"""Moving a store: rows out of one backend and into another, as they are.

A row is a tuple in the canonical form that `rules/transfer.py` describes: it names its session by
id, its run by id and its neighbours by ord, so it means the same in every backend. Rows come in the
order of their keys, turns in the order of the feed; whoever imports them in that order can go on
after a kill where the last command ended.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from ledgerstone.commands import Command, Query

PAGE_ROWS = 2_000
PAGE_BYTES = 4 << 20

Row: TypeAlias = tuple[Any, ...]


class Chunk(msgspec.Struct, frozen=True):
    """Rows of one table that follow each other.

    `after` is the key of the row before the first, None when there is none.
    """

    table: str
    rows: list[Row]
    after: Row | None = None


class Exported(msgspec.Struct, frozen=True):
    """Some rows; `next` is where to go on, None at the end."""

    rows: list[Row]
    next: Row | None = None


class ExportedSessions(msgspec.Struct, frozen=True):
    """Some rows of sessions, by table in their fixed order.

    `table` and `next` are where to go on with the same sessions; without a table the first
    `covered` of them are done.
    """

    chunks: list[Chunk]
    covered: int = 0
    table: str | None = None
    next: Row | None = None


class ExportTable(Query[Exported], frozen=True, kw_only=True):
    """A page of a tenant's table: as many rows as fit, at least one if there are any."""

    table: str
    after: Row | None = None
    rows_max: int = PAGE_ROWS
    bytes_max: int = PAGE_BYTES


class ExportSessions(Query[ExportedSessions], frozen=True, kw_only=True):
    """A page of everything but the turns of sessions that follow each other; at least one of them.

    `table` and `after` go on after a page that did not hold all of it.
    """

    sessions: tuple[str, ...]
    table: str | None = None
    after: Row | None = None
    rows_max: int = PAGE_ROWS
    bytes_max: int = PAGE_BYTES


class IsCopyUnfinished(Query[bool], frozen=True, kw_only=True):
    """Whether a copy into this tenant was begun and has not ended."""


class MarkCopy(Command[None], frozen=True, kw_only=True):
    """Note in the target that a copy of this tenant begins, or with `ended` that it has ended."""

    ended: bool = False


class ImportRows(Command[int], frozen=True, kw_only=True):
    """Write rows that are not there yet; how many were written.

    Nothing is ever replaced: CopyConflict when a table goes on behind `after` with other rows.
    The very same rows again are fine. Blobs are an exception: their bytes were put before, and
    only their times are written here.
    """

    chunks: tuple[Chunk, ...]
