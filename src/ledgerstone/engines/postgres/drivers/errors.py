"""What the server and the drivers say, as what the caller can react to."""

from __future__ import annotations

import json
import re

import msgspec

from ledgerstone.engines.postgres.drivers.port import (
    BadText,
    ConnectionLost,
    DeadlineOver,
    NotConnected,
    ServerSaid,
)
from ledgerstone.errors import (
    AccessDenied,
    BackendError,
    Busy,
    Corrupt,
    InvalidValue,
    LedgerstoneError,
    NotADatabase,
    NotSupported,
    ReadOnly,
    SchemaTooOld,
    StorageFull,
    Timeout,
    Unavailable,
)

AGAIN = frozenset({"40001", "40P01", "23505"})
"""Somebody else was faster: the same command, run again, sees what they did."""

_FRESH = frozenset({"25006", "0A000"})
"""The connection is of no use any more: its server became a standby, or its plans are outdated."""


def repeats(error: BaseException) -> bool:
    """Whether the same thing, done again at once, may go better."""
    if isinstance(error, ServerSaid):
        return error.sqlstate in AGAIN or needs_fresh(error)
    return isinstance(error, ConnectionLost) and not isinstance(error, DeadlineOver)


def needs_fresh(error: BaseException) -> bool:
    """Whether it takes another connection."""
    return isinstance(error, ConnectionLost) or (
        isinstance(error, ServerSaid) and error.sqlstate in _FRESH
    )


FOREIGN = (
    ServerSaid,
    ConnectionLost,
    NotConnected,
    BadText,
    OSError,
    UnicodeError,
    msgspec.DecodeError,
    json.JSONDecodeError,
)
"""What the driver, the network and the decoding of stored values raise. Whatever else comes out of
a handler is a defect of our own, and stays what it is."""


def translate(error: BaseException, where: str) -> LedgerstoneError:
    """One error as one of ours; nothing was written when it is told."""
    if isinstance(error, ServerSaid):
        return _said(error, where)
    if isinstance(error, NotConnected):
        return not_connected(error, where)
    if isinstance(error, DeadlineOver):
        return Timeout(f"{where}: {error}")
    if isinstance(error, ConnectionLost | OSError):
        return Unavailable(f"the connection to {where} was lost: {error}")
    if isinstance(error, BadText | UnicodeEncodeError):
        return InvalidValue("text", "lone surrogates are only allowed in bodies")
    # What does not decode comes from a row that none of ours would have written.
    return Corrupt("database", where, "row", f"{type(error).__name__}; run `ledgerstone verify`")


def _said(error: ServerSaid, where: str) -> LedgerstoneError:
    state, said = error.sqlstate, error.message
    if state == "42501":
        return no_right(said, where)
    if state in ("42P01", "42883", "3F000", "42703"):
        return SchemaTooOld(f"the schema of {where} ({said})", 0, 1)
    if state in ("26000", "42P05"):
        return NotSupported(
            "prepared statements", where, "a pooler is in the way: add ?prepare=no to the url"
        )
    if state == "54000" and "index row" in said:
        return InvalidValue("text", "names of this length do not fit an index; use shorter ones")
    if state in ("22021", "22P05"):
        return InvalidValue("text", "the server cannot keep this text")
    return _passing(state, said, where) or BackendError("postgres", f"{state} {said}")


def _passing(state: str, said: str, where: str) -> LedgerstoneError | None:
    """What may go better later."""
    if state in AGAIN or state == "55P03":
        return Busy(f"others keep changing the same rows of {where}; try again")
    if state in ("57014", "25P03"):
        return Timeout(f"{where} gave up: {said}")
    if state == "53100":
        return StorageFull(f"no space left on {where}")
    if state[:2] == "53":
        return Busy(f"{where} has no room: {said}")
    if state == "25006":
        return ReadOnly(f"{where} is read-only, a replica perhaps; give the primary")
    if state[:2] == "58":
        return Unavailable(f"{where} has trouble with its own system: {said}")
    return None


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
