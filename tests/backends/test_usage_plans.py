"""Usage and budgets are asked for by index: what a commit and a report cost stays bounded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from ledgerstone import Store, Usage
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.records.usage import Cost

USES = 3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(open_sqlite(str(tmp_path / "store.db"))) as made:
        for n in range(USES):
            made.sessions.create(id=f"s{n}", user="ada")
            made.usage.record(f"s{n}", "m", Usage(n + 1), cost=Cost(7))
        made.usage.budget(session="s0", tokens=1000, id="of the session")
        made.usage.budget(user="ada", tokens=1000, id="of the user")
        made.usage.budget(tokens=1000, id="of the tenant")
        yield made


def asked(store: Store, call: Callable[[], Any]) -> list[str]:
    """The statements that a call has carried out."""
    texts: list[str] = []

    def note(_: Any, text: str, __: Any) -> bool:
        texts.append(text)
        return True

    backend: Any = store._handle.backend
    connections = [backend._writer._connection, *(one.connection for one in backend._idle)]
    for one in connections:
        one.exec_trace = note
    try:
        call()
    finally:
        for one in connections:
            one.exec_trace = None
    return [text for text in texts if text.startswith(("select", "update", "insert"))]


def whole_tables(store: Store, texts: list[str]) -> list[str]:
    backend: Any = store._handle.backend
    connection = apsw.Connection(backend._path)
    found = []
    for text in texts:
        places = max(map(int, re.findall(r"\?(\d+)", text)), default=text.count("?"))
        for row in connection.execute(f"explain query plan {text}", (None,) * places):
            step = str(row[3])
            if step.startswith("SCAN") and "USING" not in step and "VALUES" not in step:
                found.append(f"{step}: {text}")
    connection.close()
    return found


CALLS: dict[str, Callable[[Store], Any]] = {
    "a use": lambda store: store.usage.record("s0", "m", Usage(5), cost=Cost(7)),
    "of a session": lambda store: store.usage.summary(session="s0"),
    "of a user": lambda store: store.usage.summary(user="ada"),
    "of all": lambda store: store.usage.summary(),
    "budgets": lambda store: store.usage.budgets(),
    "a list": lambda store: list(store.usage.list("s0")),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_table_is_read_whole(store: Store, name: str) -> None:
    store.usage.summary()  # A reader is there.
    texts = asked(store, lambda: CALLS[name](store))
    assert texts
    assert whole_tables(store, texts) == []


def test_a_commit_finds_budgets_by_their_subject(store: Store) -> None:
    texts = asked(store, lambda: CALLS["a use"](store))
    bounding = [text for text in texts if "from budgets" in text and "body" in text]
    assert len(bounding) == 3
    assert all("tenant = ? and scope = ? and subject = ?" in text for text in bounding)


def test_a_table_that_is_read_whole_is_found(store: Store) -> None:
    assert whole_tables(store, ["select * from budgets where body = ?"]) != []
