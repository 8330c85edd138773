"""`ledgerstone migrate`, and the other verbs on a PostgreSQL store."""

from __future__ import annotations

import pytest

from ledgerstone import Store, user
from ledgerstone.testing.servers.databases import DatabaseServer
from ledgerstone.testing.servers.places import Places
from ledgerstone.testing.servers.postgres import LOCKED, PASSWORD
from tests.backends.secured_role import secured_role
from tests.cli.conftest import Cli


def test_check_then_migrate_then_check(cli: Cli, postgres_places: Places) -> None:
    url = postgres_places.blank()
    assert cli("migrate", "--store", url, "--check").code == 1
    done = cli("migrate", "--store", url)
    assert done.code == 0
    assert "went from version 0 to" in done.out
    assert cli("migrate", "--store", url, "--check").code == 0
    assert cli("migrate", "--store", url, "--json").json["changed"] is False


def test_looking_makes_nothing(cli: Cli, postgres_places: Places) -> None:
    url = postgres_places.blank()
    for verb in ("sessions", "doctor", "verify", "work", "usage"):
        done = cli(verb, "--store", url)
        assert done.code == 2, done
        assert "ledgerstone migrate" in done.err
    assert cli("migrate", "--store", url, "--check", "--json").json["found"] == 0


def test_sql_is_printed_without_a_connection(cli: Cli) -> None:
    url = "postgresql://127.0.0.1:9/x?schema=theirs"
    done = cli("migrate", "--store", url, "--sql", "--from", 0)
    assert done.code == 0
    assert done.out.startswith("BEGIN;")
    assert done.out.rstrip().endswith("COMMIT;")
    assert 'set local search_path = "theirs"' in done.out
    assert cli("migrate", "--store", url, "--sql").code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--store"),
        (("--store", "agent.db"), "postgresql://"),
        (("--store", "postgresql://h/x", "--from", "1"), "--sql"),
        (("--store", "postgresql://h/x?schema=A"), "schema"),
        (("--store", "postgresql://h/x", "--sql", "--from", "0", "--rls", "a;b"), "role"),
        (("--store", "postgresql://h/x", "--check", "--rls", "app"), "--check"),
        (("--store", "postgresql:/a:b@h/x"), "postgresql://"),
    ],
)
def test_wrong_input(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    done = cli("migrate", *arguments)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1


def test_a_role_that_row_level_security_binds(cli: Cli, postgres_places: Places) -> None:
    url = postgres_places.fresh()
    with secured_role(postgres_places, url) as (own, name):
        done = cli("migrate", "--store", url, "--rls", name)
        assert "row-level security is on" in done.out
        lone = cli("sessions", "--store", own)
        assert lone.code == 2
        assert "add rls=yes to the url" in lone.err
        done = cli("sessions", "--store", f"{own}{'&' if '?' in own else '?'}rls=yes")
        assert (done.code, done.out) == (0, "no sessions of tenant default\n")
        done = cli("partition", "--store", url)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "DISABLE ROW LEVEL SECURITY" in done.err
    done = cli("migrate", "--store", url, "--rls", "nobody_of_this_name")
    assert done.code == 2
    assert "CREATE ROLE" in done.err


def test_one_store_under_two_names(cli: Cli, postgres_places: Places) -> None:
    url = postgres_places.fresh()
    other = f"{url}{'&' if '?' in url else '?'}schema=ledgerstone"
    done = cli("copy", url, other)
    assert done.code == 2
    assert "the same store" in done.err


def test_verbs_show_a_server_store_and_never_its_password(
    cli: Cli, postgres_server: DatabaseServer, postgres_places: Places
) -> None:
    url = postgres_places.fresh()
    with Store.open(url) as store:
        store.messages.append("trip", user("hello"), create=True)
    database = url.rpartition("/")[2].partition("?")[0]
    with postgres_server.connected(database) as connection:
        connection.execute(f"grant all on schema ledgerstone to {LOCKED}")
        connection.execute(f"grant all on all tables in schema ledgerstone to {LOCKED}")
        connection.execute(f"grant all on all sequences in schema ledgerstone to {LOCKED}")
    locked = postgres_server.url(database, user=LOCKED, password=PASSWORD)
    for verb in (("sessions",), ("show", "trip"), ("tree", "trip"), ("verify",), ("doctor",)):
        done = cli(*verb, "--store", locked)
        assert done.code == 0, done
        assert PASSWORD not in done.out + done.err
    assert cli("doctor", "--store", locked, "--json").json["backend"] == "postgres"
