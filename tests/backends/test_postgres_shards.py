"""The hot statements name the tenant and the session of every row they touch.

That is what shards by tenant live on: a lookup goes to one of them. Texts are read, not plans: each
table of sessions that a statement names must be bound there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from ledgerstone.engines.postgres.functions import functions
from ledgerstone.sql.migrate import migrations
from tests.backends.generated import GENERATED, named

# Tables with a row, or many, per session, and the column that says whose it is.
KEYED = {"nodes": "key", "amendments": "key", "runs": "key", "sessions": "id"}
OF_SESSIONS = sorted(
    name
    for step in migrations("postgres")
    for name, body in re.findall(r"(?ms)^create table (\w+) \((.*?)^\)", step.text)
    if name in KEYED or re.search(r"(?m)^  number bigint", body)
)
OF_STORE = {"count_rows", "list_tenants", "verified_tenants"}
"""Reports over all tenants, which only an operator asks for."""
OF_TENANT = {"feed_end 0", "raise_fences 0"}
"""What is of no single session."""
_NO_ALIAS = "where set values on join order limit left cross union for select offset group using do"
_USE = re.compile(
    r"\b(?:from|join|update|into|using)\s+(\w+)(?:\s+as)?"
    rf"(?:\s+(?!(?:{_NO_ALIAS.replace(' ', '|')}|returning)\b)(\w+))?"
)
_COMMENT = re.compile(r"--.*")
_FUNCTION = re.compile(
    r"(?s)create or replace function (\w+)\((?:(?!create or replace).)*?as \$\$(.*?)\$\$;"
)


class Use(NamedTuple):
    """One table in one statement, by the name it has there."""

    where: str
    table: str
    alias: str
    text: str
    writes: bool


def statements_of(text: str) -> Iterator[tuple[str, str]]:
    """The functions of a file, statement by statement."""
    found = _FUNCTION.findall(_COMMENT.sub("", text))
    for name, body in found:
        for statement in body.split(";"):
            yield name, statement


def uses_of(where: str, text: str) -> Iterator[Use]:
    for match in _USE.finditer(text):
        table, alias = match[1], match[2] or match[1]
        if table in OF_SESSIONS:
            yield Use(where, table, alias, text, match[0].startswith("into"))


# The feed is of a tenant; the rest of these is asked at opening.
COLD = {"ledger_pos_of", "ledger_settle_feed", "ledger_skip_places"}
HOT = [
    use
    for text in functions()
    for name, statement in statements_of(text)
    for use in uses_of(name, statement)
    if name not in COLD
]
HOT += [
    use for name, text in named() if name.split()[0] not in OF_STORE for use in uses_of(name, text)
]


def is_bound(use: Use, *columns: str) -> bool:
    """Whether one of the columns is compared, or written when the row is a new one."""
    if use.writes:
        listed = re.search(rf"into {use.table}\b[^(]*\(([^)]*)\)", use.text)
        return listed is not None and any(
            re.search(rf"\b{column}\b", listed[1]) for column in columns
        )
    return any(
        re.search(rf"\b{use.alias}\.{column}\b[^,;]*?(?:=|>|<|between)", use.text)
        or re.search(rf"(?:=|>|<)\s*{use.alias}\.{column}\b", use.text)
        or (use.alias == use.table and re.search(rf"(?<![.\w]){column}\s*=", use.text))
        for column in columns
    )


def label(use: Use) -> str:
    return f"{use.where}-{use.table}-{use.alias}"


@pytest.mark.parametrize("use", [use for use in HOT if use.where not in OF_TENANT], ids=label)
def test_every_row_is_found_by_its_session(use: Use) -> None:
    assert is_bound(use, "number", "key", "id"), use.text


@pytest.mark.parametrize("use", HOT, ids=label)
def test_every_row_is_found_by_its_tenant(use: Use) -> None:
    assert is_bound(use, "realm" if use.table == "runs" else "tenant"), use.text


def test_every_generated_statement_names_its_tenant() -> None:
    """As its first parameter, and in the columns of what it inserts."""
    for name, text in GENERATED.items():
        plain = text.replace('"', "")
        inserted = re.match(r"insert into \w+ as t \((.*?)\) select (.*) from [u(]", plain)
        if inserted is not None:
            places = dict(zip(inserted[1].split(", "), inserted[2].split(", "), strict=True))
            assert places["realm" if name.startswith("runs ") else "tenant"] == "$1", text
        else:
            column = r"realm" if name.startswith("runs ") else r"tenant"
            assert re.search(rf"(where|and) (\w\.)?{column} = \$1\b", plain), text


def test_the_statements_of_a_turn_are_looked_at() -> None:
    tables = {use.table for use in HOT}
    assert {"sessions", "heads", "nodes", "turns", "runs", "usage_days", "work", "ready"} <= tables
    assert len(HOT) > 50


@pytest.mark.parametrize(
    "text",
    [
        "select 1 from work w where w.number = $1",
        "delete from work using (select 1) x where x.tenant = 'a'",
        "insert into nodes (key, parent) values ($1, $2)",
    ],
)
def test_a_statement_without_its_tenant_is_found(text: str) -> None:
    (use,) = uses_of("bad", text)
    assert not is_bound(use, "tenant")
