"""The schema of a store in PostgreSQL: looked at on opening, made and migrated under a lock."""

from __future__ import annotations

import msgspec

from ledgerstone.engines.postgres.drivers.port import PgConnection, ServerSaid
from ledgerstone.engines.postgres.functions import functions, layout
from ledgerstone.errors import (
    AccessDenied,
    NotADatabase,
    NotSupported,
    ReadOnly,
    SchemaTooNew,
    SchemaTooOld,
)
from ledgerstone.sql.catalogue import load
from ledgerstone.sql.migrate import migrations, newest
from ledgerstone.sql.texts import sql_files

DIALECT = "postgres"
OLDEST_SERVER = 140000
MIGRATION_TIMEOUT_S = 300.0
SHOWN_MAX = 3
_MISSING = ("42P01", "3F000")
_FOREIGN = ("42703", "42883")
_EXISTS = "42P07"
_TAKEN = "the schema {} has a table {} of somebody else; choose another one with ?schema="
_OTHERS = (
    "another version of ledgerstone made them; end its processes, then run `ledgerstone migrate`"
)
_NOTHING = "no store is there yet: `ledgerstone migrate` makes one, or check database and schema"


async def prepare_schema(
    connection: PgConnection, schema: str, timeout_s: float, *, may_migrate: bool = True
) -> None:
    """Bring the schema to the version this code knows, or say that it has another one."""
    version = await read_version(connection, schema, timeout_s)
    if version > newest(DIALECT):
        raise SchemaTooNew(f"the schema {schema}", version, newest(DIALECT))
    if version == newest(DIALECT):
        if not await has_our_functions(connection, timeout_s):
            raise NotSupported(f"the functions of the schema {schema}", DIALECT, _OTHERS)
        return
    if not may_migrate:
        hint = "`ledgerstone migrate` does it" if version else _NOTHING
        raise SchemaTooOld(f"the schema {schema}", version, newest(DIALECT), hint)
    await migrate(connection, schema)


async def read_version(connection: PgConnection, schema: str, timeout_s: float) -> int:
    """The version of the schema; 0 when there is none. Does no harm to an open transaction."""
    statements = load(DIALECT)
    rows = await connection.fetch(statements["schema_present"].text, (schema,), timeout_s)
    if not rows[0][0]:
        return 0
    try:
        rows = await connection.fetch(statements["store_version"].text, (), timeout_s)
    except ServerSaid as error:
        if error.sqlstate in _MISSING:
            return 0
        if error.sqlstate in _FOREIGN:
            raise NotADatabase(_TAKEN.format(schema, "store")) from error
        raise
    return int(rows[0][0]) if rows else 0


async def has_our_functions(connection: PgConnection, timeout_s: float) -> bool:
    """Whether the functions there take what this program sends: arrays whose places have meaning.

    They are replaced by an explicit migration only, since processes of the other version call them.
    """
    rows = await connection.fetch(load(DIALECT)["store_functions"].text, (), timeout_s)
    return bool(rows) and rows[0][0] == layout()


async def migrate(connection: PgConnection, schema: str) -> int:
    """All steps that are missing, in one transaction; the version that was found."""
    try:
        await connection.script("BEGIN", MIGRATION_TIMEOUT_S)
        await connection.script(_frame("patient"), MIGRATION_TIMEOUT_S)
        version = await migrate_in(connection, schema)
        await connection.script("COMMIT", MIGRATION_TIMEOUT_S)
    except BaseException:
        # The transaction ends with it, and nobody waits for that.
        connection.drop()
        raise
    return version


async def migrate_in(connection: PgConnection, schema: str) -> int:
    """The same inside a transaction that somebody else ends; the version that was found.

    Whoever migrates the same schema at the same time waits for the end of that transaction.
    """
    limit_s = MIGRATION_TIMEOUT_S
    rows = await connection.fetch(load(DIALECT)["search_path"].text, (), limit_s)
    await connection.script(_frame("begin", schema=schema), limit_s)
    version = await read_version(connection, schema, limit_s)
    if version > newest(DIALECT):
        raise SchemaTooNew(f"the schema {schema}", version, newest(DIALECT))
    if version < newest(DIALECT) or not await has_our_functions(connection, limit_s):
        await _run_steps(connection, schema, version)
    await connection.fetch(load(DIALECT)["set_search_path"].text, (rows[0][0],), limit_s)
    return version


async def _run_steps(connection: PgConnection, schema: str, version: int) -> None:
    try:
        await connection.script(steps_after(version), MIGRATION_TIMEOUT_S)
    except ServerSaid as error:
        if version or error.sqlstate != _EXISTS:
            raise
        name = error.message.partition('"')[2].partition('"')[0]
        raise NotADatabase(_TAKEN.format(schema, name)) from error


def script_after(schema: str, version: int) -> str:
    """What a database administrator would run: the whole migration as one transaction."""
    return f"BEGIN;\n{_frame('begin', schema=schema)}{steps_after(version)}COMMIT;\n"


def steps_after(version: int) -> str:
    """The SQL from one version to the newest; its functions are made anew each time."""
    texts = [step.text for step in migrations(DIALECT)[version:]]
    return "\n".join((*texts, *functions(), _end()))


def _end() -> str:
    return _frame("end", version=newest(DIALECT), layout=layout())


def _frame(name: str, **given: object) -> str:
    """A text around the steps; what stands in braces is a plain name or a number."""
    text = dict(sql_files("frames", DIALECT))[f"{name}.sql"]
    for key, value in given.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text


def check_server(version: int) -> None:
    """NotSupported for a server that lacks what the statements use."""
    if version < OLDEST_SERVER:
        raise NotSupported(f"PostgreSQL {version // 10000}", "postgres", "14 or newer is needed")


async def check_rights(connection: PgConnection, where: str, timeout_s: float) -> None:
    """AccessDenied, naming the GRANT, when the role lacks what every store needs."""
    rows = await connection.fetch(load(DIALECT)["missing_rights"].text, (), timeout_s)
    if not rows:
        return
    grants = "; ".join(row[0] for row in rows[:SHOWN_MAX])
    more = f" and {len(rows) - SHOWN_MAX} more" if len(rows) > SHOWN_MAX else ""
    raise AccessDenied(f"this role lacks rights in {where}; {grants}{more}")


async def check_feed(connection: PgConnection, where: str, timeout_s: float) -> None:
    """New commits must stand behind all old ones; after a restore an owner sees to that."""
    rows = await connection.fetch(load(DIALECT)["settle_feed"].text, (), timeout_s)
    if not rows[0][0]:
        raise NotSupported(
            "a restored dump", where, "let the owner of the tables open the store once"
        )


async def check_security(
    connection: PgConnection, where: str, timeout_s: float, *, asked: bool
) -> None:
    """NotSupported when the url and the database differ on whether tenants are kept apart there.

    Without `rls=yes` no tenant is set, and a role that policies bind would see an empty store.
    """
    if not asked:
        rows = await connection.fetch(load(DIALECT)["security_binds"].text, (), timeout_s)
        if rows[0][0]:
            hint = "row-level security binds it: add rls=yes to the url, or use one with BYPASSRLS"
            raise NotSupported("this role", where, hint)
        return
    rows = await connection.fetch(load(DIALECT)["security_gaps"].text, (), timeout_s)
    if rows:
        gaps = "; ".join(str(row[0]) for row in rows[:SHOWN_MAX])
        raise NotSupported(
            "row-level security", where, f"{gaps}; run `ledgerstone migrate --rls ROLE`"
        )


CROWDED = 0.8


class ServerFacts(msgspec.Struct, frozen=True):
    """The row of `database_facts`, in its order."""

    version: int
    in_recovery: bool
    fsync: str
    synchronous_commit: str
    full_page_writes: str
    connections_max: int
    connections: int

    @property
    def shown_version(self) -> str:
        return f"{self.version // 10000}.{self.version % 10000}"


async def read_facts(connection: PgConnection, timeout_s: float) -> ServerFacts:
    """Ask the server."""
    rows = await connection.fetch(load("postgres")["database_facts"].text, (), timeout_s)
    return ServerFacts(*rows[0])


def check_durability(facts: ServerFacts, level: str, where: str) -> None:
    """Refuse a server that keeps less than was asked for, and one that cannot be written."""
    if facts.in_recovery:
        raise ReadOnly(f"{where} is a standby; give the primary, or promote it")
    if level != "power":
        return
    off = [
        name
        for name in ("fsync", "full_page_writes", "synchronous_commit")
        if getattr(facts, name) in ("off", "local")
    ]
    if off:
        raise NotSupported(
            "durability power",
            "postgres",
            f"the server has {' and '.join(off)} off; turn it on, or open with durability="
            "'process'",
        )


def warnings_of(facts: ServerFacts, durability: str) -> list[str]:
    """What an operator should look at."""
    found = []
    if durability != "power":
        found.append("durability is 'process': a power cut may lose acknowledged turns")
    if facts.connections > CROWDED * facts.connections_max:
        found.append(f"{facts.connections} of {facts.connections_max} connections are in use")
    return found
