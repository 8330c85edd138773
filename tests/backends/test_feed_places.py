"""No place in the feed is given out twice, whatever became of the commit that had it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from ledgerstone import Store, user
from ledgerstone.commands.sessions import SweepPurged
from ledgerstone.errors import Corrupt
from tests.backends.journals import bed, filled, journal_of

BLANK = (0, 0, "", "", b"", b"", 0, 0, 0, 0, None, None, None)


def say(store: Store, *sessions: str) -> None:
    for name in sessions:
        store.messages.append(name, user("x"), create=True)


def purge(store: Store, *sessions: str) -> None:
    for name in sessions:
        store.sessions.purge(name)
    while store._handle.write(SweepPurged(tenant="default", limit=2)):
        pass


def rows(path: Path) -> list[tuple[object, ...]]:
    """Everything in the table, seen after the store was closed."""
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute("SELECT * FROM turns ORDER BY pos"))
    finally:
        connection.close()


def test_sqlite_keeps_one_blank_row_at_most(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        say(store, "a", "b", "b", "b")
        purge(store, "b")
    assert [row[0] for row in rows(path)] == [1, 4]
    assert rows(path)[1][1:] == BLANK
    with Store.open(path) as store:
        say(store, "c", "d")
        purge(store, "d")
        assert not store.admin.verify().defects
    assert [row[0] for row in rows(path)] == [1, 5, 6]
    with Store.open(path) as store:
        purge(store, "a", "c")
        assert store.admin.stats().counts["turns"] == 0
    assert [row[0] for row in rows(path)] == [6]
    with Store.open(path) as store:
        say(store, "e")
        assert [entry.pos for entry in store.feed.read().entries] == [7]


def test_a_journal_that_can_not_be_read_had_places_too(tmp_path: Path) -> None:
    path = filled(tmp_path / "store", lambda store: say(store, "a", "b", "b"))
    journal = journal_of(path, "b")
    data = bytearray(journal.read_bytes())
    data[len(data) // 3] ^= 1
    journal.write_bytes(bytes(data))
    with bed(path) as backend:
        with pytest.raises(Corrupt):
            backend.store.feed.read()
        say(backend.store, "a")
        first, second = backend.store.feed.read(session="a").entries
        assert first.pos == 1
        assert second.pos > 3
