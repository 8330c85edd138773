"""A turn that is sent alone and has to wait: what happens meanwhile is seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from ledgerstone.commands import Guard
from ledgerstone.engines.postgres.backend import PostgresBackend
from ledgerstone.errors import (
    BudgetExceeded,
    Fenced,
    LeaseExpired,
    LedgerstoneError,
    SessionDeleted,
)
from ledgerstone.records.turns import TurnCommitted
from tests.backends.planned import commit, make, take, verified
from tests.backends.single import USED, Ways, begun, outcome, rows_in, run


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    return Ways(monkeypatch)


DELETED = "update heads set deleted_us = 1"
BOUNDED = """
insert into budgets select 'default', 'b', 'tenant', '',
  convert_to('{"id":"b","scope":"tenant","tokens":10,"mode":"refuse_commit"}', 'utf8'), 0, 0, 0
"""


@contextmanager
def holding(backend: PostgresBackend) -> Iterator[psycopg.Connection[Any]]:
    """A transaction of somebody else that holds every head."""
    with psycopg.connect(backend._target.dsn) as connection:
        connection.execute("set search_path = ledgerstone")
        connection.execute("select from heads order by number for no key update")
        yield connection


class TestWhileItWaits:
    """The head is held by somebody else when the statement comes."""

    @pytest.fixture
    def pool(self) -> Iterator[ThreadPoolExecutor]:
        with ThreadPoolExecutor(1) as pool:
            yield pool

    def test_for_nothing(self, here: PostgresBackend, ways: Ways, pool: ThreadPoolExecutor) -> None:
        make(here, "s")
        here.write(commit("s", "t1"))
        ways.take()
        with holding(here) as other:
            later = begun(pool, here, commit("s", "t2", run=run("done"), usage=USED), other)
            other.rollback()
            assert later.result(10).revision == 2
        assert ways.take() == ["alone"]

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ("update heads set fence = fence + 1, owner = 'bob', token = 'b'", Fenced),
            ("update heads set fence = fence + 1 returning 1", Fenced),
            (DELETED, SessionDeleted),
        ],
    )
    def test_for_a_change(
        self,
        here: PostgresBackend,
        pool: ThreadPoolExecutor,
        change: str,
        error: type[LedgerstoneError],
    ) -> None:
        make(here, "s")
        lease = here.write(take("s"))
        assert lease is not None
        here.write(commit("s", "t1", guard=Guard(lease.fence, "k")))
        with holding(here) as other:
            later = begun(pool, here, commit("s", "t2", guard=Guard(lease.fence, "k")), other)
            other.execute(change)
            other.commit()
            with pytest.raises(error):
                later.result(10)
        assert rows_in(here, "select count(*) from turns where number = %s", "s") == [(1,)]

    def test_until_its_lease_is_over(self, here: PostgresBackend, pool: ThreadPoolExecutor) -> None:
        make(here, "s")
        lease = here.write(take("s", ttl_us=600_000))
        assert lease is not None
        here.write(commit("s", "t1", guard=Guard(lease.fence, "k")))
        with holding(here) as other:
            later = begun(pool, here, commit("s", "t2", guard=Guard(lease.fence, "k")), other)
            time.sleep(0.7)
            other.rollback()
            with pytest.raises(LeaseExpired):
                later.result(10)
        assert verified(here, "s") == 1

    @pytest.mark.parametrize("word", ["u", "r:r"])
    def test_for_a_name(self, here: PostgresBackend, pool: ThreadPoolExecutor, word: str) -> None:
        """It does not wait for those itself: whoever looks after waiting does."""
        make(here, "s")
        here.write(commit("s", "t1"))
        with psycopg.connect(here._target.dsn) as other:
            other.execute("set search_path = ledgerstone")
            other.execute("select pg_advisory_xact_lock(ledger_lock_key('default', %s))", [word])
            later = begun(pool, here, commit("s", "t2", run=run("done"), usage=USED), other)
            assert not later.done()
            if word == "u":
                other.execute(BOUNDED)
            other.commit()
            if word == "u":
                with pytest.raises(BudgetExceeded):
                    later.result(10)
            else:
                assert later.result(10).revision == 2

    def test_two_make_the_same_run(self, here: PostgresBackend, there: PostgresBackend) -> None:
        """Each in a session of its own, at the same time, again and again: one has it."""
        make(here, "a", "b")
        here.write(commit("a", "t"))
        there.write(commit("b", "t"))
        gate = threading.Barrier(2)

        def go(backend: PostgresBackend, session: str, n: int) -> Any:
            gate.wait(10)
            return outcome(backend, commit(session, f"t{n}", run=run("done", f"r{n}", session)))

        with ThreadPoolExecutor(2) as pool:
            for n in range(40):
                both = [pool.submit(go, here, "a", n), pool.submit(go, there, "b", n)]
                answers = [one.result(20) for one in both]
                assert len([one for one in answers if isinstance(one, TurnCommitted)]) == 1, answers
        owners = rows_in(here, "select id from runs where key > 0 or key = %s", "a")
        assert len(set(owners)) == len(owners) == 40
