"""What stands in the way of opening a store, with the next step."""

from __future__ import annotations

import re

from ledgerstone.engines.postgres.drivers.port import NotConnected, PgConnection
from ledgerstone.errors import (
    AccessDenied,
    Busy,
    LedgerstoneError,
    NotADatabase,
    NotSupported,
    Unavailable,
)
from ledgerstone.sql.catalogue import load

SHOWN_MAX = 3
_DENIED = (
    (("28P01", "authentication failed for user"), "check user and password in the url"),
    (("", "no password supplied"), "give one in the url, in PGPASSWORD or in a password file"),
    (("", "not permitted to log in"), "give it LOGIN, or check the user in the url"),
    (("42501", "permission denied for database"), "GRANT CONNECT ON DATABASE ... TO the role"),
    (("28000", "no pg_hba.conf entry"), "check the role, or allow it in pg_hba.conf"),
)
"""What stays so until a person changes the url or the server."""
_NEXT = (
    (("", "does not support SSL"), "turn ssl on in the server, or leave sslmode out of the url"),
    (("", "certificate"), "check sslmode, sslrootcert, sslcert and sslkey in the url"),
    (("57P03", "starting up"), "wait until it has started"),
    (
        ("08P01", "unsupported startup parameter"),
        "a pooler is in the way: add prepare=no to the url",
    ),
    (("", "resolve host"), "check the host in the url"),
    (("", "translate host name"), "check the host in the url"),
    (("", "Name or service not known"), "check the host in the url"),
    (("", "refused"), "check host and port, and that the server runs"),
    (("", "No such file"), "check host and port, and that the server runs"),
    (("", "closed the connection"), "check host and port, and that the server runs"),
    (("", "no answer"), "check host, port and firewalls"),
    (("", "timeout expired"), "check host, port and firewalls"),
    (("", "Multiple"), "check host and port, and that the server runs"),
    (("", "read-write"), "none of the hosts is a primary"),
    (("", "invalid "), "check the options in the url"),
)
_NO_ROLE = re.compile('role ".*" does not exist')
_NO_DATABASE = re.compile('database ".*" does not exist')
_CROWDED = ("too many clients", "too many connections")


def not_connected(error: NotConnected, where: str) -> LedgerstoneError:
    """Why there is no connection, in one line."""
    if error.sqlstate == "53300" or any(words in error.message for words in _CROWDED):
        return Busy(f"{where} takes no more connections; use fewer, or a pooler")
    said = " ".join(error.message.split())
    text = f"cannot connect to {where}: {said}; "
    if _NO_ROLE.search(said):
        return AccessDenied(text + "check the user in the url")
    if advice := _advice(_DENIED, error.sqlstate, said):
        return AccessDenied(text + advice)
    if error.sqlstate == "3D000" or _NO_DATABASE.search(said):
        return NotADatabase(text + "create it with `createdb`, or check the name in the url")
    return Unavailable(text + (_advice(_NEXT, error.sqlstate, said) or "check the url"))


def _advice(known: tuple[tuple[tuple[str, str], str], ...], sqlstate: str, said: str) -> str:
    """The next step of the first entry that fits; empty when none does."""
    for (state, words), advice in known:
        if sqlstate == state != "" or words in said:
            return advice
    return ""


async def check_rights(connection: PgConnection, where: str, timeout_s: float) -> None:
    """AccessDenied, naming the GRANT, when the role lacks what every store needs."""
    rows = await connection.fetch(load("postgres")["missing_rights"].text, (), timeout_s)
    if not rows:
        return
    grants = "; ".join(row[0] for row in rows[:SHOWN_MAX])
    more = f" and {len(rows) - SHOWN_MAX} more" if len(rows) > SHOWN_MAX else ""
    raise AccessDenied(f"this role lacks rights in {where}; {grants}{more}")


async def check_feed(connection: PgConnection, where: str, timeout_s: float) -> None:
    """New commits must stand behind all old ones; after a restore an owner sees to that."""
    rows = await connection.fetch(load("postgres")["settle_feed"].text, (), timeout_s)
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
        rows = await connection.fetch(load("postgres")["security_binds"].text, (), timeout_s)
        if rows[0][0]:
            hint = "row-level security binds it: add rls=yes to the url, or use one with BYPASSRLS"
            raise NotSupported("this role", where, hint)
        return
    rows = await connection.fetch(load("postgres")["security_gaps"].text, (), timeout_s)
    if rows:
        gaps = "; ".join(str(row[0]) for row in rows[:SHOWN_MAX])
        raise NotSupported(
            "row-level security", where, f"{gaps}; run `ledgerstone migrate --rls ROLE`"
        )


def no_right(message: str, where: str) -> LedgerstoneError:
    """What the server said about a missing right, and which GRANT mends it."""
    kind, _, name = message.removeprefix("permission denied for ").partition(" ")
    if name == "store":
        hint = "what goes over all tenants needs the owner of the tables, or BYPASSRLS"
        return AccessDenied(f"{where}: {message}; {hint}")
    hint = _GRANTS.get(kind, "GRANT it what `ledgerstone migrate --rls ROLE --sql` prints")
    return AccessDenied(f"{where}: {message}; {hint.format(name=name)}")


_GRANTS = {
    "schema": "GRANT USAGE ON SCHEMA {name} TO the role; CREATE too if it is to migrate it",
    "database": "GRANT CREATE ON DATABASE {name} TO the role, or let an owner run "
    "`ledgerstone migrate`",
    "table": "GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO the role",
    "sequence": "GRANT USAGE ON SEQUENCE {name} TO the role",
    "function": "GRANT EXECUTE ON FUNCTION {name} TO the role",
}
