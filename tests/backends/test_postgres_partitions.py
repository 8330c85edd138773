"""Traces and reports by months: divided once, made ahead, dropped when they are old."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors, sql

from ledgerstone import Store, user
from ledgerstone.cli.app import run
from ledgerstone.clock import US_PER_S, ManualClock
from ledgerstone.engines.postgres.admin import partition
from ledgerstone.errors import AccessDenied, NotSupported
from ledgerstone.testing.servers.databases import DatabaseServer
from ledgerstone.testing.servers.places import Places
from tests.backends.secured_role import secured_role

MARCH_US = 1_772_323_200_000_000  # 2026-03-01
DAY_US = 86_400_000_000


@pytest.fixture
def url(postgres_places: Places) -> str:
    return postgres_places.fresh()


def clock_at(days: float) -> ManualClock:
    return ManualClock(MARCH_US + round(days * DAY_US))


def go_to(clock: ManualClock, days: float) -> None:
    clock.advance((MARCH_US + days * DAY_US - clock.now_us()) / US_PER_S)


def trace(store: Store, session: str, *names: str) -> None:
    store.traces.append(session, *({"kind": "span", "name": name} for name in names))


def names(store: Store, session: str) -> list[str]:
    return [one.name for one in store.traces.load(session) or []]


def test_a_store_is_divided_goes_on_and_forgets_old_months(url: str) -> None:
    clock = clock_at(10)
    with Store.open(url, clock=clock) as store:
        for name in ("a", "b"):
            store.messages.append(name, user("hi"), create=True)
        trace(store, "a", "march 1", "march 2")
        trace(store, "b", "march 3")
        done = partition(url, months=2, clock=clock)
        assert done.divided
        assert [name for name, _ in done.names] == [
            "evidence_202604",
            "evidence_202605",
            "evidence_before",
            "evidence_rest",
        ]
        assert names(store, "a") == ["march 1", "march 2"]
        for days in (40, 70):
            go_to(clock, days)
            trace(store, "a", f"day {days}")
        assert store.admin.verify().ok
        assert not partition(url, months=2, clock=clock).divided
        done = partition(url, months=2, older_us=MARCH_US + 35 * DAY_US, clock=clock)
        assert done.dropped == 1
        assert names(store, "a") == ["day 40", "day 70"]
        assert names(store, "b") == []
        trace(store, "a", "more")
        trace(store, "b", "again")
        assert names(store, "a") == ["day 40", "day 70", "more"]
        assert names(store, "b") == ["again"]
        assert store.admin.verify().ok
        assert partition(url, months=2, older_us=MARCH_US + 900 * DAY_US, clock=clock).dropped == 1
        assert names(store, "a") == ["day 70", "more"], "the month that goes on is kept"
        store.sessions.purge("a")
        assert store.admin.verify().ok


def test_what_came_before_its_month_was_made_moves_there(url: str) -> None:
    clock = clock_at(1)
    with Store.open(url, clock=clock) as store:
        store.messages.append("a", user("hi"), create=True)
        partition(url, months=1, clock=clock)
        go_to(clock, 100)
        trace(store, "a", "june")
        done = partition(url, months=1, clock=clock)
        assert "evidence_202606" in [name for name, _ in done.names]
        assert names(store, "a") == ["june"]
        assert store.admin.verify().ok


def test_a_hole_in_a_list_is_still_found(url: str, postgres_server: DatabaseServer) -> None:
    clock = clock_at(1)
    with Store.open(url, clock=clock) as store:
        store.messages.append("a", user("hi"), create=True)
        trace(store, "a", "1", "2", "3")
        for divided in (False, True):
            if divided:
                partition(url, months=1, clock=clock)
            with postgres_server.connected(url.rpartition("/")[2]) as connection:
                connection.execute("update ledgerstone.evidence set n = 9 where n = 2")
                assert not store.admin.verify().ok
                connection.execute("update ledgerstone.evidence set n = 2 where n = 9")
            assert store.admin.verify().ok


def test_it_says_when_policies_are_in_the_way(url: str, postgres_server: DatabaseServer) -> None:
    with postgres_server.connected(url.rpartition("/")[2]) as connection:
        connection.execute("alter table ledgerstone.evidence enable row level security")
    with pytest.raises(NotSupported, match="DISABLE ROW LEVEL SECURITY"):
        partition(url, months=1)


def test_new_months_are_for_the_role_of_row_level_security_too(
    url: str, postgres_places: Places
) -> None:
    partition(url, months=1)
    with secured_role(postgres_places, url) as (own, _):
        partition(url, months=3)
        bound = f"{own}{'&' if '?' in own else '?'}rls=yes"
        with Store.open(bound) as store:
            store.messages.append("s", user("hi"), create=True)
            trace(store, "s", "one")
            assert names(store, "s") == ["one"]
        with psycopg.connect(own, options="-c search_path=ledgerstone") as connection:
            table = max(name for name, _ in partition(url, months=4).names if name[-1].isdigit())
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(sql.SQL("select 1 from {}").format(sql.Identifier(table)))
        with pytest.raises(AccessDenied):
            partition(own, months=5)


def test_the_verb(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["partition", "--store", url, "--months", "2", "--drop-older-than", "26w"]) == 0
    assert "divided, 2 months made, 0 dropped; 4 partitions now" in capsys.readouterr().out
    assert run(["partition", "--store", "agent.db"]) == 2
