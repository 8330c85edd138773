"""Row-level security: a role sees and touches the rows of one tenant, whatever it is told to do.

Said to the database directly, over every table, and then through a store that uses that role.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import errors, sql

from ledgerstone import (
    AccessDenied,
    AsyncStore,
    BudgetExceeded,
    Cost,
    NotSupported,
    Store,
    Usage,
    user,
)
from ledgerstone.sql.migrate import migrations
from ledgerstone.testing.servers.places import Places
from tests.backends.secured_role import secured_role

TABLES = [
    name
    for step in migrations("postgres")
    for name in re.findall(r"(?m)^create table (\w+)", step.text)
]
OF_TENANTS = sorted(set(TABLES) - {"store"})
DENIED = errors.InsufficientPrivilege


class Place(NamedTuple):
    """A database with a role that is bound by its policies, and a superuser."""

    admin: psycopg.Connection[Any]
    role: psycopg.Connection[Any]
    url: str
    name: str

    def as_tenant(self, tenant: str) -> psycopg.Connection[Any]:
        self.role.execute("select set_config('ledgerstone.tenant', %s, false)", (tenant,))
        return self.role


@pytest.fixture(scope="module")
def place(postgres_places: Places) -> Iterator[Place]:
    admin_url, path = postgres_places.fresh(), "-c search_path=ledgerstone"
    with (
        psycopg.connect(admin_url, autocommit=True, options=path) as admin,
        secured_role(postgres_places, admin_url) as (url, name),
        psycopg.connect(url, autocommit=True, options=path) as made,
    ):
        yield Place(admin, made, f"{url}{'&' if '?' in url else '?'}rls=yes", name)


VALUES = {"bigint": "{n}", "integer": "{n}", "text": "'{tenant}{n}'", "bytea": r"'\x00'"}


def tenant_column(table: str) -> str:
    return "realm" if table == "runs" else "tenant"


def row_of(place: Place, table: str, tenant: str, n: int) -> sql.Composed:
    """An insert of a row with something in every column that needs it."""
    columns = place.admin.execute(
        """select column_name, data_type from information_schema.columns
           where table_schema = 'ledgerstone' and table_name = %s
             and is_nullable = 'NO' and column_default is null and is_identity = 'NO'""",
        (table,),
    ).fetchall()
    given = {name: VALUES[kind].format(n=n, tenant=tenant) for name, kind in columns}
    given[tenant_column(table)] = f"'{tenant}'"
    text = "insert into {} ({}) values ({})"
    names = sql.SQL(", ").join(map(sql.Identifier, given))
    values = sql.SQL(", ").join(sql.SQL(value) for value in given.values())
    return sql.SQL(text).format(sql.Identifier(table), names, values)


@pytest.fixture
def filled(place: Place, request: pytest.FixtureRequest) -> Iterator[str]:
    """A table with one row of each of two tenants."""
    table: str = request.param
    for n, tenant in enumerate(("a", "b"), start=1):
        place.admin.execute(row_of(place, table, tenant, n))
    yield table
    place.admin.execute(sql.SQL("delete from {}").format(sql.Identifier(table)))


def ask(connection: psycopg.Connection[Any], text: str, table: str) -> Any:
    made = sql.SQL(text).format(
        table=sql.Identifier(table), tenant=sql.Identifier(tenant_column(table))
    )
    cursor = connection.execute(made)
    return cursor.rowcount if cursor.description is None else cursor.fetchall()


each_table = pytest.mark.parametrize("filled", OF_TENANTS, indirect=True)


@each_table
def test_only_rows_of_the_tenant_are_seen(place: Place, filled: str) -> None:
    for tenant in ("a", "b"):
        rows = ask(place.as_tenant(tenant), "select {tenant} from {table}", filled)
        assert rows == [(tenant,)]
    assert ask(place.as_tenant("c"), "select 1 from {table}", filled) == []


@each_table
def test_without_a_tenant_there_are_no_rows(place: Place, filled: str) -> None:
    nobody = place.as_tenant("")
    assert ask(nobody, "select 1 from {table}", filled) == []
    assert ask(nobody, "update {table} set {tenant} = {tenant}", filled) == 0
    assert ask(nobody, "delete from {table}", filled) == 0
    with pytest.raises(DENIED):
        nobody.execute(row_of(place, filled, "a", 3))


@each_table
def test_rows_of_others_are_not_touched(place: Place, filled: str) -> None:
    ours = place.as_tenant("a")
    assert ask(ours, "update {table} set {tenant} = {tenant}", filled) == 1
    with pytest.raises(DENIED):
        ask(ours, "update {table} set {tenant} = 'b'", filled)
    with pytest.raises(DENIED):
        ours.execute(row_of(place, filled, "b", 3))
    assert ask(ours, "delete from {table}", filled) == 1
    assert ask(place.admin, "select {tenant} from {table}", filled) == [("b",)]


@each_table
def test_rows_of_the_tenant_can_be_added(place: Place, filled: str) -> None:
    place.as_tenant("b").execute(row_of(place, filled, "b", 3))
    assert len(ask(place.role, "select 1 from {table}", filled)) == 2


def test_every_table_was_tried(place: Place) -> None:
    rows = place.admin.execute(
        "select tablename from pg_tables where schemaname = 'ledgerstone'"
    ).fetchall()
    assert {name for (name,) in rows} == {*OF_TENANTS, "store"}


WRITES_TO_STORE = (
    "update store set value = value",
    "update store set value = 1 where name = 'feed.base'",
    "update store set value = 1 where name = 'feed.mark'",
    "delete from store",
    "truncate store",
    "insert into store values ('x', 1)",
    "insert into store values ('feed.base', 1) on conflict (name) do update set value = 1",
    "merge into store s using (select 1) x on s.name = 'feed.base' when matched then delete",
    "alter table store disable row level security",
    "select * from store for update",
    "drop table store",
)


def test_of_the_store_itself_nothing_moves(place: Place) -> None:
    role = place.as_tenant("a")
    before = place.admin.execute("select * from store order by name").fetchall()
    assert role.execute("select count(*) from store").fetchone() == (len(before),)
    for text in WRITES_TO_STORE:
        with pytest.raises((DENIED, errors.FeatureNotSupported, errors.SyntaxError)):
            role.execute(text)
    assert place.admin.execute("select * from store order by name").fetchall() == before


OF_ROWS = {"SELECT", "INSERT", "UPDATE", "DELETE"}
PRIVILEGES = (*sorted(OF_ROWS), "TRUNCATE", "REFERENCES", "TRIGGER")


@pytest.mark.parametrize("table", [*OF_TENANTS, "store"])
@pytest.mark.parametrize("privilege", PRIVILEGES)
def test_every_privilege_on_every_table(place: Place, table: str, privilege: str) -> None:
    """Rows of a tenant are read and written; `store` is read; nothing else is allowed."""
    wanted = privilege in ({"SELECT"} if table == "store" else OF_ROWS)
    asked = "select has_table_privilege(%s, %s, %s)"
    has = place.admin.execute(asked, (place.name, f"ledgerstone.{table}", privilege)).fetchone()
    assert has == (wanted,)
    if privilege == "TRUNCATE":
        with pytest.raises(DENIED):
            ask(place.as_tenant("a"), "truncate {table}", table)


def functions_of(place: Place) -> list[tuple[str, list[str], bool]]:
    """Every function of the schema: its name, the types of its arguments, whose rights it has."""
    return place.admin.execute(
        """select p.proname, array(select format_type(t, null) from unnest(p.proargtypes) t),
             p.prosecdef
           from pg_proc p where p.pronamespace = 'ledgerstone'::regnamespace order by p.proname"""
    ).fetchall()


def everything(place: Place) -> dict[str, Any]:
    return {
        table: place.admin.execute(
            sql.SQL("select {}::text from {} order by 1").format(
                sql.Identifier(table), sql.Identifier(table)
            )
        ).fetchall()
        for table in [*OF_TENANTS, "store"]
    }


def moved(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [table for table in before if before[table] != after[table]]


def test_no_function_moves_what_is_not_the_tenants(place: Place) -> None:
    """Each is called as the role, with nulls and with values; the sweep's mark is all it moves."""
    with Store.open(place.url) as store:
        for tenant in ("a", "b"):
            store.for_tenant(tenant).messages.append("s", user("hello"), create=True)
    found, role = functions_of(place), place.as_tenant("c")
    assert len(found) > 10
    assert [name for name, _, is_definer in found if is_definer] == ["ledger_mark_swept"]
    for name, kinds, _ in found:
        before = everything(place)
        for value in (None, 1, "{1}", "s"):
            given = [sql.SQL("{}::" + kind).format(sql.Literal(value)) for kind in kinds]
            call = sql.SQL("select {}({})").format(sql.Identifier(name), sql.SQL(", ").join(given))
            with suppress(psycopg.Error):
                role.execute(call)
        changed = moved(before, everything(place))
        assert changed == (["store"] if name == "ledger_mark_swept" else []), name


def test_the_mark_of_the_sweep_says_now_and_never_more(place: Place) -> None:
    """So whoever calls it, however often, takes no place from anybody."""
    role = place.as_tenant("a")
    for _ in range(20):
        role.execute("select ledger_mark_swept()")
    mark = "select value / 1048576 from store where name = 'feed.mark'"
    now = "select pg_current_xact_id()::text::bigint"
    said = place.admin.execute(mark).fetchone()
    next_one = place.admin.execute(now).fetchone()
    assert said is not None
    assert next_one is not None
    assert said[0] <= next_one[0]


def test_what_goes_over_all_tenants_says_who_may(place: Place) -> None:
    with Store.open(place.url) as store:
        store.for_tenant("r").messages.append("s", user("hello"), create=True)
        with pytest.raises(AccessDenied, match="BYPASSRLS"):
            store.for_tenant("r").admin.after_restore()


def test_a_row_at_the_end_of_all_numbers_does_not_end_the_feed(place: Place) -> None:
    """A tenant may write any place into rows of its own; a restore counts on from the last one."""
    with Store.open(place.url) as store:
        for tenant in ("a", "b"):
            store.for_tenant(tenant).messages.append("far", user("hello"), create=True)
    far = (
        "update turns set pos = 9223372036854775807 where number = (select max(number) from turns)"
    )
    assert place.as_tenant("b").execute(far).rowcount == 1
    base = place.admin.execute("select value from store where name = 'feed.base'").fetchone()
    place.admin.execute("update store set value = 0 where name = 'feed.cluster'")
    assert place.admin.execute("select ledger_settle_feed()").fetchone() == (True,)
    try:
        with Store.open(place.url) as store:
            ours = store.for_tenant("a")
            ours.messages.append("far", user("goes on"))
            assert [entry.session for entry in ours.feed.read().entries][-1] == "far"
    finally:
        place.admin.execute("delete from turns where tenant = 'b'")
        place.admin.execute("update store set value = %s where name = 'feed.base'", base)


def gaps(connection: psycopg.Connection[Any]) -> list[str]:
    return [reason for (reason,) in connection.execute("select * from ledger_gaps()")]


def test_a_new_table_without_a_policy_is_found(place: Place) -> None:
    assert gaps(place.role) == []
    admin = place.admin
    admin.execute("create table extra (tenant text, value text)")
    try:
        assert gaps(place.role) == ["the table extra has no policy for its tenant"]
        with pytest.raises(DENIED):
            place.as_tenant("a").execute("select * from extra")
        admin.execute("alter table extra drop column tenant")
        with pytest.raises(errors.RaiseException, match="extra has no column with its tenant"):
            admin.execute("select ledger_secure(%s::regrole)", (place.name,))
    finally:
        admin.execute("drop table extra")


def test_roles_that_no_policy_binds_are_refused(place: Place) -> None:
    assert "is a superuser" in gaps(place.admin)[0]
    with pytest.raises(errors.RaiseException, match="is a superuser or has BYPASSRLS"):
        place.admin.execute("select ledger_secure(current_user::regrole)")


def test_policies_may_be_made_again(place: Place) -> None:
    place.admin.execute("select ledger_secure(%s::regrole)", (place.name,))
    assert gaps(place.role) == []


def live(store: Store, other: Store) -> None:
    """A little of everything that a store does."""
    turn = store.turns.begin("s", create=True)
    turn.add(user("hello", id="m1"))
    turn.commit()
    for n in range(3):
        turn = store.turns.begin("s", id=f"t{n}")
        turn.add(user(f"more {n}"))
        turn.commit()
    store.memories.put("notes", "k", {"a": 1})
    assert len(store.messages.list("s").items) == 4
    assert [entry.session for entry in store.feed.read().entries] == ["s"] * 4
    assert other.sessions.get("s") is None
    assert other.memories.get("notes", "k") is None
    assert other.feed.read().entries == []
    store.sessions.fork("s", new_id="f")
    assert store.admin.verify().ok
    store.sessions.purge("s")
    assert store.sessions.get("s") is None
    assert store.admin.verify().ok


def test_a_store_works_as_that_role(place: Place) -> None:
    with Store.open(place.url) as store:
        live(store.for_tenant("one"), store.for_tenant("two"))
        live(store.for_tenant("two"), store.for_tenant("three"))


def test_so_does_one_on_an_event_loop(place: Place) -> None:
    async def work() -> None:
        async with await AsyncStore.open(place.url) as store:
            for name in ("four", "five"):
                ours = store.for_tenant(name)
                turn = ours.turns.begin("s", create=True)
                turn.add(user("hello"))
                await turn.commit()
                assert len((await ours.messages.list("s")).items) == 1
            many = [store.for_tenant(f"t{n % 4}") for n in range(16)]
            turns = [one.turns.begin(f"s{n}", create=True) for n, one in enumerate(many)]
            for turn in turns:
                turn.add(user("hello"))
            await asyncio.gather(*(turn.commit() for turn in turns))
            assert (await store.for_tenant("t1").sessions.list()).items != []

    asyncio.run(work())


def test_a_url_that_does_not_say_so_is_refused(place: Place) -> None:
    """No tenant would be set, and the store would look empty: to `verify` and `copy` as well."""
    url = re.sub("[?&]rls=yes", "", place.url)
    with pytest.raises(NotSupported, match="add rls=yes to the url"):
        Store.open(url)


def test_the_tenants_can_not_be_listed(place: Place) -> None:
    """None is seen before it is named, and an empty list would be taken for an empty store."""
    with Store.open(place.url) as store, pytest.raises(NotSupported):
        store.admin.tenants()


def test_budgets_bind_under_row_level_security(place: Place) -> None:
    with Store.open(place.url) as store:
        ours = store.for_tenant("six")
        ours.sessions.create(id="s")
        ours.usage.budget(session="s", tokens=10, mode="refuse_commit")
        ours.usage.record("s", "m", Usage(4), cost=Cost(3), id="u1")
        with pytest.raises(BudgetExceeded):
            ours.usage.record("s", "m", Usage(40), cost=Cost(3), id="u2")
