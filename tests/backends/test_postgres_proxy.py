"""The wire between client and server: what passes, when it is cut, and what the server saw."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from ledgerstone.testing.servers.databases import DatabaseServer
from ledgerstone.testing.servers.postgres import PostgresServer
from ledgerstone.testing.servers.proxy import Moment, Proxy

ONE_WAY_S = 0.001
PIECES = 32


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=False) as started:
        with started.connected() as connection:
            connection.execute("create table kept (n int)")
        yield started


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    with server.connected() as connection:
        connection.execute("truncate kept")
    with Proxy(server.port) as wire:
        yield wire
    assert not [one for one in threading.enumerate() if one.name == "proxy"]


@pytest.fixture
def client(proxy: Proxy, server: PostgresServer) -> Iterator[psycopg.Connection]:
    connection = psycopg.connect(proxy.url(server.url()), autocommit=True)
    yield connection
    connection.close()


def kept(server: DatabaseServer) -> list[int]:
    with server.connected() as connection:
        return [row[0] for row in connection.execute("select n from kept order by n")]


def test_bytes_pass_and_are_counted(proxy: Proxy, client: psycopg.Connection) -> None:
    proxy.reset_counts()
    big = "x" * 3_000_000
    assert client.execute("select %s::text", [big]).fetchall() == [(big,)]
    assert proxy.counts.bytes_up > len(big) < proxy.counts.bytes_down
    assert (proxy.counts.round_trips, proxy.counts.requests) == (1, 1)
    client.execute("select 1")
    assert proxy.counts.round_trips == 2


def test_latency_is_added_each_way_and_costs_no_throughput(
    proxy: Proxy, client: psycopg.Connection
) -> None:
    proxy.latency_s = ONE_WAY_S
    times = []
    for _ in range(20):
        began_s = time.perf_counter()
        client.execute("select 1")
        times.append(time.perf_counter() - began_s)
    assert min(times) >= 2 * ONE_WAY_S
    assert statistics.median(times) < 10 * ONE_WAY_S
    proxy.latency_s = 0.1
    began_s = time.perf_counter()
    with client.pipeline():
        cursors = [client.execute("select repeat('x', 300000)") for _ in range(PIECES)]
        client.execute("select 1")
    assert sum(len(cursor.fetchall()[0][0]) for cursor in cursors) == PIECES * 300_000
    assert time.perf_counter() - began_s < PIECES * 0.1


@pytest.mark.parametrize(
    ("moment", "left"), [(Moment.BEFORE, []), (Moment.SENT, [2]), (Moment.ANSWERED, [2])]
)
@pytest.mark.parametrize("prepared", [False, True])
def test_a_cut_comes_at_its_moment(
    proxy: Proxy,
    client: psycopg.Connection,
    server: PostgresServer,
    moment: Moment,
    left: list[int],
    prepared: bool,
) -> None:
    insert = "insert into kept values (%s)"
    client.execute(insert, [1], prepare=prepared)
    called: list[str] = []
    proxy.cut_at(b"insert into kept", moment, nth=2, action=lambda: called.append("now"))
    client.execute(insert, [1], prepare=prepared)
    assert not called
    with pytest.raises(psycopg.OperationalError):
        client.execute(insert, [2], prepare=prepared)
    assert called == ["now"]
    end_s = time.monotonic() + 10
    while kept(server)[2:] != left and time.monotonic() < end_s:
        time.sleep(0.01)
    assert kept(server) == [1, 1, *left]
    assert proxy.counts.cuts == 1


def test_a_commit_that_was_never_sent_did_not_happen(
    proxy: Proxy, client: psycopg.Connection, server: PostgresServer
) -> None:
    proxy.cut_at(b"COMMIT", Moment.BEFORE)
    with pytest.raises(psycopg.OperationalError), client.transaction():
        client.execute("insert into kept values (7)")
    assert kept(server) == []


def test_a_cut_now_is_abrupt_and_the_next_connection_works(
    proxy: Proxy, client: psycopg.Connection, server: PostgresServer
) -> None:
    proxy.cut()
    with pytest.raises(psycopg.OperationalError):
        client.execute("select 1")
    with psycopg.connect(proxy.url(server.url())) as again:
        assert again.execute("select 1").fetchall() == [(1,)]


def test_a_silent_wire_takes_everything_and_says_nothing(
    proxy: Proxy, client: psycopg.Connection, server: PostgresServer
) -> None:
    proxy.silence()
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        psycopg.connect(proxy.url(server.url()), connect_timeout=2)
    waiting = threading.Thread(target=_fails, args=(client, "insert into kept values (9)"))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    proxy.speak()
    waiting.join(10)
    assert not waiting.is_alive()
    assert kept(server) == []


def _fails(client: psycopg.Connection, statement: str) -> None:
    with pytest.raises(psycopg.OperationalError):
        client.execute(statement)


def test_a_refusing_wire_lets_nobody_in(proxy: Proxy, server: PostgresServer) -> None:
    proxy.refuse()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(proxy.url(server.url()))
    proxy.admit()
    psycopg.connect(proxy.url(server.url())).close()


def test_what_an_action_raised_is_told_in_the_end(server: PostgresServer) -> None:
    wire = Proxy(server.port)

    def broken() -> None:
        raise ValueError("broken action")

    wire.cut_at(b"select 8", Moment.BEFORE, action=broken)
    client = psycopg.connect(wire.url(server.url()))
    with pytest.raises(psycopg.OperationalError):
        client.execute("select 8")
    client.close()
    with pytest.raises(ValueError, match="broken action"):
        wire.close()
