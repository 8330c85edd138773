"""Every statement that PostgreSQL is sent: those that are made from declarations, and the named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ledgerstone.engines.postgres.planned import single
from ledgerstone.engines.postgres.planned.known_rows import IS_TIMED, MAKES_RUN, USES
from ledgerstone.engines.postgres.planned.sections import (
    DROPPED_DRAFTS,
    MOVED_HEADS,
    NEW_WORK,
    SECTIONS,
)
from ledgerstone.engines.postgres.rows import session_and_head
from ledgerstone.engines.postgres.statements import numbered, statements_of
from ledgerstone.engines.statements import Shape
from ledgerstone.sql.catalogue import load
from ledgerstone.tables.schema import TABLES
from ledgerstone.tables.table import Index
from tests.backends.statement_variants import variants


def shapes(index: Index[Any]) -> Iterator[Shape]:
    """Every stretch of an index that may be asked for."""
    width = len(index.columns)
    for prefix in range(width + 1):
        for after, before in ((None, None), (1, None), (None, 1), (1, 1), (width - prefix, None)):
            if max(after or 0, before or 0) <= width - prefix and after != 0:
                yield Shape(prefix, after, before, limit=True, reverse=False, columns=None)
                yield Shape(prefix, after, before, limit=False, reverse=True, columns=index.columns)


def looking() -> Iterator[tuple[str, str]]:
    """What finds rows, by a name."""
    yield "session and head", session_and_head()
    for table in TABLES:
        texts = statements_of(table)
        yield f"{table.name} load", texts.load
        yield f"{table.name} many", texts.many
        for index in table.indexes.values():
            if index.unique and index is not table.primary:
                yield f"{table.name} find {index.name}", texts.find(index)
            for shape in dict.fromkeys(shapes(index)):
                name = f"{table.name} {index.name} {'-'.join(map(str, shape[:3]))}"
                yield (
                    f"{name} {'rows' if shape.limit else 'columns'}",
                    texts.range_text(index, shape).text,
                )


def changing() -> Iterator[tuple[str, str]]:
    """What writes rows, by a name."""
    for table in TABLES:
        texts = statements_of(table)
        written = {name: getattr(texts, name) for name in ("insert", "update", "delete")}
        if not table.serial:
            written["put"] = texts.put
        if table.sums:
            written["add"] = texts.add
        for name, text in written.items():
            if text:
                yield f"{table.name} {name}", numbered(text, 1)
                if text in texts.of_one:
                    yield f"{table.name} {name} one", numbered(texts.of_one[text], 1)


def single_statements() -> Iterator[tuple[str, str]]:
    """What carries out a planned command by itself, for each thing that it may write."""
    flags = USES | MAKES_RUN | IS_TIMED
    for section in SECTIONS:
        if section in (MOVED_HEADS, DROPPED_DRAFTS):
            continue
        keyed, writes = section is NEW_WORK, ((section, False),)
        shape = single.Shape((0, 1, 2, 3, 4), True, True, flags, keyed, writes)
        yield f"single {section.name}", single.statement(shape)
        if section not in single.ONE_AT_MOST:
            many = shape._replace(owned=False, writes=((section, True),))
            yield f"single {section.name} of many", single.statement(many)


def named() -> Iterator[tuple[str, str]]:
    """What is asked by name, in all variants."""
    for name, statement in load("postgres").items():
        for n, text in enumerate(variants(statement)):
            yield f"{name} {n}", text


GENERATED = dict([*looking(), *changing(), *single_statements()])
