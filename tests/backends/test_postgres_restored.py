"""A dump that was restored into a younger cluster: new commits stand behind all old ones.

Transactions of a cluster count from its birth. Here the store is made to look as if it came from
another one, whose transactions had counted much further.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from ledgerstone import NotSupported, Store, user
from ledgerstone.testing.servers.places import Places
from tests.backends.secured_role import secured_role

FURTHER = 1 << 50
Server = psycopg.Connection[Any]


def say(store: Store, session: str) -> None:
    turn = store.turns.begin(session, create=True)
    turn.add(user("hello"))
    turn.commit()


@pytest.fixture
def url(postgres_places: Places) -> str:
    """A store of its own, with two commits."""
    made = postgres_places.fresh()
    with Store.open(made) as store:
        say(store, "a")
        say(store, "b")
    return made


@pytest.fixture
def server(url: str) -> Iterator[Server]:
    options = "-c search_path=ledgerstone"
    with psycopg.connect(url, autocommit=True, options=options) as connection:
        yield connection


def restore(server: Server) -> None:
    """As if every commit had been made by a cluster that is older."""
    server.execute("update turns set pos = pos + %s", (FURTHER,))
    server.execute("update store set value = value + %s where name = 'feed.mark'", (FURTHER,))
    server.execute("update store set value = 1 where name = 'feed.cluster'")


def sessions_after(store: Store, cursor: str | None = None) -> list[str]:
    return [entry.session for entry in store.feed.read(after=cursor).entries]


def test_new_commits_stand_behind_restored_ones(url: str, server: Server) -> None:
    restore(server)
    with Store.open(url) as store:
        assert sessions_after(store) == ["a", "b"]
        cursor = store.feed.read().cursor
        say(store, "c")
        assert sessions_after(store) == ["a", "b", "c"]
        assert sessions_after(store, cursor) == ["c"]


def test_places_that_were_swept_are_remembered(url: str, server: Server) -> None:
    with Store.open(url) as store:
        cursor = store.feed.read().cursor
        store.sessions.purge("b")
    row = server.execute("select value > 0 from store where name = 'feed.mark'").fetchone()
    assert row == (True,)
    restore(server)
    server.execute("delete from turns")
    with Store.open(url) as store:
        say(store, "c")
        assert sessions_after(store, cursor) == ["c"]
    last = server.execute("select max(pos) from turns").fetchone()
    assert last is not None
    assert last[0] > FURTHER


def test_opening_again_moves_nothing(url: str, server: Server) -> None:
    restore(server)
    bases = []
    for _ in range(2):
        Store.open(url).close()
        bases.append(server.execute("select value from store where name = 'feed.base'").fetchone())
    assert bases[0] == bases[1] != (0,)


def test_a_role_that_may_not_put_it_right_says_so(
    url: str, server: Server, postgres_places: Places
) -> None:
    with secured_role(postgres_places, url) as (secured, _):
        theirs = f"{secured}{'&' if '?' in secured else '?'}rls=yes"
        restore(server)
        with pytest.raises(NotSupported):
            Store.open(theirs)
        Store.open(url).close()
        with Store.open(theirs) as store:
            say(store, "c")
            assert sessions_after(store) == ["a", "b", "c"]
