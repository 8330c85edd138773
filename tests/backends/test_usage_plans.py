"""Usage and budgets are asked for by index: what a commit and a report cost stays bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from ledgerstone import Store
from ledgerstone.sql import catalogue

ALWAYS = {"tenant", "first", "last", "currency", "no_session", "no_user", "no_day"}
PLANS: dict[str, list[set[str]]] = {
    "budgets_of": [set()],
    "budgets_on": [set()],
    "add_usage_day": [set()],
    "begin_usage_day": [set()],
    "spend": [set()],
    "usage_between": [set()],
    "usage_of_day": [set()],
    "session_usage": [set()],
    "sum_usage": [{"whole"}, {"session"}, {"below"}, {"user"}],
    "sessions_using": [{"whole"}, {"session"}, {"below"}, {"user"}],
    "spent_between": [{"whole"}, {"session"}, {"user"}],
    "last_used_day": [{"whole"}, {"session"}, {"user"}],
}
CASES = [(name, given) for name, variants in PLANS.items() for given in variants]
SMALL = ("SCAN path", "SCAN CONSTANT ROW")
"""What the question itself names."""


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path: Path = tmp_path_factory.mktemp("plans") / "store.db"
    Store.open(path).close()
    opened = apsw.Connection(str(path))
    yield opened
    opened.close()


@pytest.mark.parametrize(("name", "given"), CASES, ids=lambda one: str(one))
def test_no_table_is_read_whole(connection: apsw.Connection, name: str, given: set[str]) -> None:
    text, bound = catalogue.load()[name].variant(frozenset(given | ALWAYS))
    rows = connection.execute(f"explain query plan {text}", (None,) * len(bound))
    steps = [str(row[3]) for row in rows]
    assert [step for step in steps if step.startswith("SCAN") and step not in SMALL] == []


def test_a_commit_finds_budgets_by_their_subject(connection: apsw.Connection) -> None:
    text = catalogue.load()["budgets_of"].text
    rows = connection.execute(f"explain query plan {text}", (None,) * 3)
    searched = [str(row[3]) for row in rows if "SEARCH budgets" in str(row[3])]
    assert len(searched) == 3
    assert all("scope=? AND subject=?" in step for step in searched)
