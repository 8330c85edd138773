"""Connections that are lent, checked and replaced, and transactions whose fate is asked for."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from msgspec.structs import replace

from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Command
from ledgerstone.commands.sessions import DeleteSession
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.engines.postgres.drivers import pool as postgres_pool
from ledgerstone.engines.postgres.drivers.port import ConnectionLost
from ledgerstone.engines.postgres.interactive import Before
from ledgerstone.engines.postgres.planned.outcomes import Outcomes, Sent
from ledgerstone.errors import Busy, LedgerstoneError, OutcomeUnknown, Unavailable
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.on_loop import OnLoop
from ledgerstone.testing.servers.databases import DatabaseServer
from ledgerstone.testing.servers.postgres import LOCKED, PASSWORD, PostgresServer
from ledgerstone.trampoline import run_now

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TURN = commit_of("s", "turn", "x")
DELETE = DeleteSession(tenant=TENANT, id="s")
CANARY = "canary-4f1d22"


@pytest.fixture
def backend(postgres_url: str) -> Iterator[PostgresBackend]:
    with closing(open_postgres(postgres_url, pool_size=2)) as opened:
        opened.write(TURN)
        yield opened


def end_all(url: str) -> int:
    """The server ends every connection of others to this database."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid() "
            "and application_name = 'ledgerstone'"
        ).fetchall()
    return len(rows)


def in_use(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and application_name = 'ledgerstone'"
        ).fetchone()
    return int(row[0]) if row else 0


# --- the pool


def test_an_exhausted_pool_says_so_in_time(postgres_url: str) -> None:
    with closing(open_postgres(f"{postgres_url}?statement_timeout_s=0.3", pool_size=2)) as backend:
        pool = backend._blocking.pool
        held = [run_now(pool.borrow(monotonic_s() + 5)) for _ in range(2)]
        start_s = monotonic_s()
        with pytest.raises(Busy, match="pool_size") as caught:
            backend.write(commit_of("s", "other", "x"))
        assert caught.value.retryable
        assert monotonic_s() - start_s < 1.5
        for connection in held:
            pool.give_back(connection)
        assert backend.write(commit_of("s", "other", "x")).revision == 1


def test_whoever_keeps_an_error_keeps_no_place(postgres_server: DatabaseServer) -> None:
    if not isinstance(postgres_server, PostgresServer):
        pytest.skip("not run: the server named by the environment is not ours to stop")
    with PostgresServer(durable=False) as server:
        url = server.create_database("trial") + "?connect_timeout_s=0.2&statement_timeout_s=0.5"
        with closing(open_postgres(url, pool_size=2)) as backend:
            server.kill()
            kept = []
            for n in range(5):
                with pytest.raises(Unavailable) as caught:
                    backend.write(commit_of("s", f"t{n}", "x"))
                kept.append(caught.value)
            assert "pool_size" not in "".join(str(error) for error in kept)


def test_a_connection_that_the_server_ended_is_replaced(
    backend: PostgresBackend, postgres_url: str
) -> None:
    for face in (backend, OnLoop(backend)):
        for n in range(3):
            face.write(commit_of("s", f"{id(face)}-{n}", "x"))
            assert end_all(postgres_url) > 0
            face.write(commit_of("s", f"{id(face)}-{n} again", "x", create=n % 2 == 0))
        if isinstance(face, OnLoop):
            face.close()


def test_an_idle_connection_is_looked_at_first(
    backend: PostgresBackend, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "IDLE_TRUSTED_S", 0.0)
    pool = backend._blocking.pool
    first = run_now(pool.borrow(monotonic_s() + 5))
    pool.give_back(first)
    assert run_now(pool.borrow(monotonic_s() + 5)) is first
    pool.give_back(first)
    end_all(postgres_url)
    second = run_now(pool.borrow(monotonic_s() + 5))
    assert second is not first
    assert run_now(second.fetch("select 1", (), 5.0)) == [(1,)]
    pool.give_back(second)


def test_an_old_connection_is_replaced(backend: PostgresBackend) -> None:
    pool = backend._blocking.pool
    first = run_now(pool.borrow(monotonic_s() + 5))
    first.opened_s -= postgres_pool.AGE_MAX_S
    pool.give_back(first)
    second = run_now(pool.borrow(monotonic_s() + 5))
    assert second is not first
    assert not first.is_open
    pool.give_back(second)


def test_an_open_transaction_ends_with_its_connection(
    backend: PostgresBackend, postgres_url: str
) -> None:
    pool = backend._blocking.pool
    connection = run_now(pool.borrow(monotonic_s() + 5))
    run_now(connection.script("BEGIN", 5.0))
    pool.give_back(connection)
    assert not connection.is_open
    assert backend.write(commit_of("s", "next", "x")).revision == 2


def test_two_hundred_threads_share_two_connections(
    backend: PostgresBackend, postgres_url: str
) -> None:
    found: list[object] = []

    def call(n: int) -> None:
        try:
            found.append(backend.write(commit_of(f"s{n % 7}", f"t{n}", "x")).revision)
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(200)]
    for thread in threads:
        thread.start()
    assert in_use(postgres_url) <= 4  # Two of the pool, one of the planned commands, one listens.
    for thread in threads:
        thread.join()
    assert [one for one in found if not isinstance(one, int)] == []


def test_a_server_that_starts_is_waited_for() -> None:
    with PostgresServer(durable=False) as server:
        url = server.create_database("trial")
        with closing(open_postgres(url)) as backend:
            for face in (backend, OnLoop(backend)):
                face.write(commit_of("s", f"{id(face)}", "x"))
                server.kill()
                starting = threading.Timer(0.5, server.start)
                starting.start()
                face.write(commit_of("s", f"{id(face)} again", "x"))
                starting.join()
                if isinstance(face, OnLoop):
                    face.close()


def test_nobody_there_is_told_at_once() -> None:
    """At opening a server that does not answer is most likely a wrong address."""
    start_s = monotonic_s()
    with pytest.raises(Unavailable, match="cannot connect"):
        open_postgres("postgresql://postgres@127.0.0.1:9/nothing")
    assert monotonic_s() - start_s < 3


def test_the_second_host_is_found(postgres_server: DatabaseServer, postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    who = parts.username or "postgres"
    hosts = f"127.0.0.1:9,{parts.hostname}:{parts.port}"
    with closing(open_postgres(f"postgresql://{who}@{hosts}{parts.path}")) as backend:
        backend.write(TURN)
        face = OnLoop(backend)
        assert face.write(TURN).replayed
        face.close()


def test_a_password_is_in_no_error(postgres_server: DatabaseServer) -> None:
    if not isinstance(postgres_server, PostgresServer):
        pytest.skip("not run: the server named by the environment has no such role")
    for secret in (CANARY, PASSWORD):
        url = postgres_server.url("nowhere", user=LOCKED, password=secret)
        with pytest.raises(LedgerstoneError) as caught:
            open_postgres(url)
        assert secret not in "".join(traceback.format_exception(caught.value))
        assert secret not in repr(caught.value)


# --- what became of a transaction


def transaction(connection: psycopg.Connection) -> Sent:
    """A transaction that has a number, and where that counts."""
    row = connection.execute(
        "select pg_current_xact_id()::text::bigint, "
        "left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), "
        "(select system_identifier from pg_control_system()), "
        "(extract(epoch from pg_stat_get_bgwriter_stat_reset_time()) * 1000000)::bigint"
    ).fetchone()
    assert row is not None
    return Sent(*row)


def asked(
    backend: PostgresBackend, sent: Sent, command: Command[Any], limit_s: float = 5.0
) -> None:
    outcomes, ends_s = Outcomes(backend._blocking.pool, "here"), monotonic_s() + limit_s
    run_now(outcomes.find_out(sent, command, ends_s, ConnectionLost("gone")))


def test_a_committed_transaction_is_found(backend: PostgresBackend, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        sent = transaction(connection)
        connection.commit()
        asked(backend, sent, DELETE)


def test_an_aborted_one_runs_again(backend: PostgresBackend, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        sent = transaction(connection)
        connection.rollback()
        with pytest.raises(ConnectionLost, match="did not commit"):
            asked(backend, sent, DELETE)


def test_one_whose_client_is_gone_is_ended(backend: PostgresBackend, postgres_url: str) -> None:
    """The wire is silent and the server does not know: its process would hold the locks."""
    with closing(psycopg.connect(postgres_url)) as connection:
        sent = transaction(connection)
        start_s = monotonic_s()
        with pytest.raises(ConnectionLost, match="did not commit"):
            asked(backend, sent, DELETE)
        assert monotonic_s() - start_s < 3
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")


@pytest.mark.parametrize("where", ["timeline", "cluster", "life"])
def test_another_server_is_not_believed(
    where: str, backend: PostgresBackend, postgres_url: str
) -> None:
    """The same number may be somebody else's there: a turn is looked for, the rest is unknown."""
    with psycopg.connect(postgres_url) as connection:
        sent = transaction(connection)
        connection.commit()
    other = {
        "timeline": replace(sent, timeline="00000099"),
        "cluster": replace(sent, cluster=sent.cluster + 1),
        "life": replace(sent, life=sent.life + 1),
    }[where]
    with pytest.raises(OutcomeUnknown, match=r"another server|crashed meanwhile") as caught:
        asked(backend, other, DELETE)
    assert caught.value.retryable
    with pytest.raises(ConnectionLost):
        asked(backend, other, TURN)


def test_an_aborted_transaction_of_an_earlier_life_runs_again(
    backend: PostgresBackend, postgres_url: str
) -> None:
    """A number that was given out twice was not committed the first time."""
    with psycopg.connect(postgres_url) as connection:
        sent = transaction(connection)
        connection.rollback()
    with pytest.raises(ConnectionLost, match="did not commit"):
        asked(backend, replace(sent, life=sent.life - 1), DELETE)


def test_a_number_that_is_not_given_out_yet_is_no_answer(
    backend: PostgresBackend, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        sent = transaction(connection)
    start_s = monotonic_s()
    later = replace(sent, xid=sent.xid + 1_000_000)
    with pytest.raises(OutcomeUnknown, match="not come to"):
        asked(backend, later, DELETE)
    with pytest.raises(ConnectionLost):
        asked(backend, later, TURN)
    assert monotonic_s() - start_s < 2


def test_a_crash_begins_another_life() -> None:
    with PostgresServer(durable=False) as server:
        lives = []
        for hard in (None, False, True):
            if hard is not None:
                server.restart(hard=hard)
            with server.connected() as connection:
                lives.append(transaction(connection).life)
        assert lives[0] == lives[1] != lives[2]


def test_nobody_to_ask_is_unknown() -> None:
    with PostgresServer(durable=False) as server:
        url = server.create_database("trial") + "?connect_timeout_s=0.2"
        with closing(open_postgres(url)) as backend:
            backend.write(TURN)
            server.kill()
            for command in (DELETE, TURN):
                with pytest.raises(OutcomeUnknown, match="nobody could be asked"):
                    asked(backend, Sent(1, "00000001", 1, 1), command, limit_s=0.5)


def test_a_turn_that_was_lost_before_waits_for_the_standby(
    backend: PostgresBackend, postgres_url: str
) -> None:
    """A replay after a lost connection ends with a flush: what it found may be on one disk only."""
    interactive = backend._blocking.slow
    answer = run_now(interactive._once(TURN, monotonic_s() + 5, Before(lost=True)))
    assert answer.replayed
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        before = connection.execute("select pg_current_wal_lsn()").fetchone()
        run_now(interactive._once(TURN, monotonic_s() + 5, Before(lost=True)))
        after = connection.execute("select pg_current_wal_lsn()").fetchone()
    assert before != after


def test_the_deadline_of_a_call_is_the_callers(backend: PostgresBackend) -> None:
    call = partial(backend._blocking.slow.write, commit_of("s", "late", "x"), monotonic_s() - 1)
    with pytest.raises(Unavailable):
        run_now(call())
