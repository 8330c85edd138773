"""What the writer of a SQLite store knows from one transaction to the next.

Rows are believed only while nobody else wrote to the file. The control believes them always: then a
lease is granted twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from ledgerstone import Store, user
from ledgerstone.commands.feed import FeedEnd
from ledgerstone.commands.sessions import SweepPurged
from ledgerstone.engines.sqlite import writing
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.engines.sqlite.writing import WritingRows

SESSIONS = 5


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    path = str(tmp_path / "store.db")
    with Store(open_sqlite(path)) as one, Store(open_sqlite(path)) as other:
        yield one, other


def granted_twice(one: Store, other: Store) -> int:
    """How often a session was held by two owners at once; each knows it from before."""
    twice = 0
    for n in range(SESSIONS):
        one.messages.append(f"s{n}", user("hi"), create=True)
        theirs = other.leases.take(f"s{n}", owner="ben")
        mine = one.leases.take(f"s{n}", owner="ann")
        twice += theirs is not None and mine is not None
    return twice


def test_a_lease_that_another_process_took_is_seen(stores: tuple[Store, Store]) -> None:
    assert granted_twice(*stores) == 0
    assert all(store.admin.verify().ok for store in stores)


def test_rows_that_are_always_believed_grant_it_twice(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WritingRows, "begin", lambda self: None)
    assert granted_twice(*stores) == SESSIONS


def test_what_a_refused_group_wrote_is_forgotten(tmp_path: Path) -> None:
    with Store(open_sqlite(str(tmp_path / "store.db"))) as store:
        store.messages.append("s", user("one", id="m1"), create=True)
        for _ in range(3):
            with pytest.raises(Exception, match="m1"):
                store.messages.append("s", user("again", id="m1"))
        store.messages.append("s", user("two", id="m2"))
        assert [one.id for one in store.messages.history("s")] == ["m1", "m2"]
        assert store.admin.verify().ok


def test_not_more_is_remembered_than_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "REMEMBERED_MAX", 3)
    backend = open_sqlite(str(tmp_path / "store.db"))
    with Store(backend) as store:
        for n in range(20):
            store.messages.append(f"s{n}", user("hi"), create=True)
            rows = backend._writer._rows
            assert len(rows._tips) <= 3
            assert all(len(kept) <= 3 for kept in rows._kept)
        store.messages.append("s0", user("x" * 100_000))
        assert all(len(tip.body or b"") < 100_000 for tip in rows._tips.values())
        assert store.admin.verify().ok


def test_the_newest_place_in_the_feed_is_never_given_out_twice(tmp_path: Path) -> None:
    backend = open_sqlite(str(tmp_path / "store.db"))
    with Store(backend) as store:
        for n in range(1, 5):
            store.messages.append(f"s{n}", user("hi"), create=True)
            assert backend.read([FeedEnd(tenant="default")]) == [n]
            store.sessions.purge(f"s{n}")
            while backend.write(SweepPurged(tenant="default", limit=100)):
                pass
            assert backend.read([FeedEnd(tenant="default")]) == [n]
            assert backend._find_out(lambda reader: _turns(reader.connection)) == 1
        assert store.admin.stats().counts["turns"] == 0
        assert store.admin.verify().ok


def _turns(connection: apsw.Connection) -> int:
    """How many rows there are, a blank one among them."""
    return int(connection.execute("select count(*) from turns").get)
