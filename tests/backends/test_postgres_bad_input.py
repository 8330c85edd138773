"""What can be wrong with a postgresql:// url and the server behind it: one clear line each."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid

import pytest

from ledgerstone import AsyncStore, Store
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.engines.postgres.opening import check_server
from ledgerstone.errors import (
    AccessDenied,
    InvalidValue,
    LedgerstoneError,
    NotADatabase,
    NotSupported,
    ReadOnly,
    SchemaTooNew,
    SchemaTooOld,
    Unavailable,
)
from ledgerstone.testing.servers.databases import DatabaseServer
from ledgerstone.testing.servers.places import Places
from ledgerstone.testing.servers.postgres import LOCKED, PASSWORD, PostgresServer

SECRET = "canary-secret-9f2c"
FAST = {"connect_timeout_s": "3"}


def refusal(url: str, **options: object) -> LedgerstoneError:
    """What opening says; and it never says the password."""
    with pytest.raises(LedgerstoneError) as caught:
        Store.open(url, **options).close()  # type: ignore[arg-type]
    assert SECRET not in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


async def refused(url: str) -> LedgerstoneError:
    """The same on the other face."""
    with pytest.raises(LedgerstoneError) as caught:
        await AsyncStore.open(url)
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("url", "field", "words"),
    [
        ("postgresql://h:99999/x", "url", "postgresql://user:password@host:port/database"),
        ("postgresql://h/x?schema=A-b", "schema", "lower-case letters"),
        ("postgresql://h/x?schema=" + "a" * 64, "schema", "lower-case letters"),
        ("postgresql://h/x?schema=pg_mine", "schema", "pg_"),
        ("postgresql://h/x?pool_size=none", "pool_size", "positive number"),
        ("postgresql://h/x?pool_size=2.5", "pool_size", "whole"),
        ("postgresql://h/x?prepare=maybe", "prepare", "yes or no"),
        ("postgresql://h/x?rls=1", "rls", "yes or no"),
        ("postgresql://h/x?statement_timeout_s=-1", "statement_timeout_s", "positive number"),
        ("postgresql://h/x?shcema=x", "shcema", "unknown"),
        ("postgresql://[::1/x", "url", "taken apart"),
        (f"postgresql://a:1#{SECRET}@h/x", "url", "%23"),
        (f"postgresql://a:{SECRET}#1@h/x", "url", "%23"),
        (f"postgresql://a:{SECRET}/1@h/x", "url", "%2F"),
        (f"postgresql://a:{SECRET}?1@h/x", "url", "%3F"),
        (f"postgresql://a:1@{SECRET}@h/x", "url", "%40"),
        (f"postgresql://a:{SECRET}%x@h/x", "url", "%25"),
        (f"postgresql://a:{SECRET}\u2100@h/x", "url", "taken apart"),
        (f"postgresql://a:12/{SECRET}@h/x", "url", "%2F"),
        (f"postgresql://a:12?{SECRET}@h/x", "url", "%3F"),
        (f"postgresql://a:1 {SECRET}@h/x", "url", "taken apart"),
        (f"postgresql://a:{SECRET}%00@h/x", "url", "taken apart"),
        (f"postgresql://a:%ca{SECRET}@h/x", "url", "taken apart"),
        (f"postgresql://a:{SECRET}\ud800@h/x", "url", "taken apart"),
        (f"postgresql://a:{SECRET}@[::1]x/x", "url", "taken apart"),
        (f"postgresql://h/x?password=1&{SECRET}", "url", "%26"),
        (f"postgresql://h/x?password=1&{SECRET}=2", "url", "%26"),
        (f"postgresql:/a:{SECRET}@h/x", "url", "://"),
        (f"postgresql//a:{SECRET}@h/x", "url", "://"),
    ],
)
def test_a_url_that_is_wrong_by_itself(url: str, field: str, words: str) -> None:
    error = refusal(url)
    assert isinstance(error, InvalidValue)
    assert SECRET not in repr([error.__cause__, error.__context__])
    assert error.field == field
    assert words in error.reason


@pytest.mark.parametrize("durability", ["none", "always"])
def test_a_durability_that_it_does_not_have(durability: str, postgres_url: str) -> None:
    assert isinstance(refusal(postgres_url, durability=durability), InvalidValue)


def test_the_pool_size_may_be_an_argument(postgres_url: str) -> None:
    with Store.open(postgres_url, pool_size=2) as store:
        store.sessions.create(id="s")
    assert parse_target(postgres_url, 3).pool_size == 3


def test_a_wrong_password(postgres_server: DatabaseServer) -> None:
    url = postgres_server.url(user=LOCKED, password=SECRET, **FAST)
    error = refusal(url)
    assert isinstance(error, AccessDenied)
    assert not error.retryable
    assert "check user and password" in str(error)


@pytest.mark.parametrize("prepare", ["yes", "no"])
def test_both_faces_say_that_access_is_denied(
    prepare: str, postgres_server: DatabaseServer
) -> None:
    """The one driver has a code for it, the other only a text."""
    wrong = {"user": LOCKED, "prepare": prepare, **FAST}
    for url in (
        postgres_server.url(password=SECRET, **wrong),
        postgres_server.url(**wrong),
        postgres_server.url(**{**wrong, "user": "nobody_here"}),
    ):
        said = {str(type(refusal(url))), str(type(asyncio.run(refused(url))))}
        assert said == {str(AccessDenied)}, url


def test_a_role_that_may_not_log_in(postgres_server: DatabaseServer) -> None:
    role = f"idle_{uuid.uuid4().hex[:8]}"
    with postgres_server.connected() as connection:
        connection.execute(f"create role {role}")
        url = postgres_server.url(user=role, **FAST)
        assert isinstance(refusal(url), AccessDenied)
        assert isinstance(asyncio.run(refused(url)), AccessDenied)
        connection.execute(f"drop role {role}")


def test_a_database_that_the_role_may_not_enter(
    postgres_places: Places, postgres_server: DatabaseServer
) -> None:
    role = f"outside_{uuid.uuid4().hex[:8]}"
    database = postgres_places.blank().rpartition("/")[2].partition("?")[0]
    with postgres_server.connected(database) as connection:
        connection.execute(f"create role {role} login")
        connection.execute(f"revoke connect on database {database} from public")
        url = postgres_server.url(database, user=role, **FAST)
        for error in (refusal(url), asyncio.run(refused(url))):
            assert isinstance(error, AccessDenied)
            assert "GRANT CONNECT ON DATABASE" in str(error)
        connection.execute(f"drop role {role}")


def test_a_role_that_does_not_exist(postgres_server: DatabaseServer) -> None:
    error = refusal(postgres_server.url(user="nobody_here", **FAST))
    assert isinstance(error, AccessDenied)
    assert "check the user" in str(error)


def test_a_database_that_does_not_exist(postgres_server: DatabaseServer) -> None:
    error = refusal(postgres_server.url("no_such_database", **FAST))
    assert isinstance(error, NotADatabase)
    assert not error.retryable
    assert "createdb" in str(error)


def test_a_port_where_nobody_listens() -> None:
    error = refusal("postgresql://someone:canary-secret-9f2c@127.0.0.1:9/x?connect_timeout_s=3")
    assert isinstance(error, Unavailable)
    assert "check host and port" in str(error)


def test_a_host_that_does_not_exist() -> None:
    error = refusal("postgresql://no-such-host.invalid/x?connect_timeout_s=3")
    assert isinstance(error, Unavailable)
    assert "check the host" in str(error)


def test_a_schema_that_is_older_and_must_not_be_migrated(postgres_places: Places) -> None:
    url = postgres_places.blank()
    error = refusal(f"{url}{'&' if '?' in url else '?'}migrate=no")
    assert isinstance(error, SchemaTooOld)
    assert "ledgerstone migrate" in str(error)


def test_a_schema_that_is_newer(postgres_places: Places, postgres_server: DatabaseServer) -> None:
    url = postgres_places.fresh()
    database = url.rpartition("/")[2].partition("?")[0]
    with postgres_server.connected(database) as connection:
        connection.execute("update ledgerstone.store set value = 99 where name = 'version'")
    error = refusal(url)
    assert isinstance(error, SchemaTooNew)
    assert error.actual == 99
    with postgres_server.connected(database) as connection:
        row = connection.execute(
            "select value from ledgerstone.store where name = 'version'"
        ).fetchone()
    assert row == (99,), "it was touched"


def test_a_role_without_rights_is_told_which(
    postgres_places: Places, postgres_server: DatabaseServer
) -> None:
    role = f"weak_{uuid.uuid4().hex[:8]}"
    database = postgres_places.fresh().rpartition("/")[2].partition("?")[0]
    blank = postgres_places.blank().rpartition("/")[2].partition("?")[0]
    own = postgres_server.url(database, user=role)
    with postgres_server.connected(database) as connection:
        connection.execute(f"create role {role} login")
        try:
            error = refusal(own)
            assert isinstance(error, AccessDenied)
            assert "GRANT USAGE ON SCHEMA ledgerstone TO" in str(error)
            connection.execute(f"grant usage on schema ledgerstone to {role}")
            connection.execute(f"grant select on all tables in schema ledgerstone to {role}")
            error = refusal(own)
            assert isinstance(error, AccessDenied)
            assert "GRANT INSERT ON ledgerstone." in str(error)
            assert "GRANT CREATE ON DATABASE" in str(refusal(postgres_server.url(blank, user=role)))
        finally:
            connection.execute(f"drop owned by {role}; drop role {role}")


@pytest.mark.parametrize("table", ["store", "nodes"])
def test_a_schema_of_somebody_else(
    table: str, postgres_places: Places, postgres_server: DatabaseServer
) -> None:
    url = postgres_places.blank()
    database = url.rpartition("/")[2].partition("?")[0]
    with postgres_server.connected(database) as connection:
        connection.execute(f"create schema ledgerstone; create table ledgerstone.{table} (a int)")
    error = refusal(url)
    assert isinstance(error, NotADatabase)
    assert f"a table {table} of somebody else; choose another one with ?schema=" in str(error)


def test_a_server_that_is_too_old() -> None:
    with pytest.raises(NotSupported, match="14 or newer"):
        check_server(130011)
    check_server(140000)


@pytest.mark.slow
def test_a_replica_given_as_the_primary_and_a_server_that_may_forget() -> None:
    with PostgresServer(durable=False) as primary:
        url = primary.create_database("agents")
        Store.open(url).close()
        standby = primary.standby(synchronous=False)
        error = refusal(standby.url("agents"))
        assert isinstance(error, ReadOnly)
        assert "primary" in str(error)
    with PostgresServer(durable=False, settings={"fsync": "off"}) as forgetful:
        url = forgetful.create_database("agents")
        error = refusal(url)
        assert isinstance(error, NotSupported)
        assert "fsync" in str(error)
        with Store.open(url, durability="process") as store:
            assert store.capabilities.durability == "process"


def test_the_async_face_says_the_same(postgres_server: DatabaseServer) -> None:
    error = asyncio.run(refused(postgres_server.url("no_such_database", **FAST)))
    assert isinstance(error, NotADatabase)
    assert "createdb" in str(error)


def test_without_the_drivers_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None; sys.modules['asyncpg'] = None\n"
        "from ledgerstone import Store\n"
        "try: Store.open('postgresql://127.0.0.1:9/x')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("NotSupported")
    assert "pip install 'ledgerstone[postgres]'" in done.stdout
