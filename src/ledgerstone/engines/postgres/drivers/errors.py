"""What the server and the drivers say, as what the caller can react to."""

from __future__ import annotations

import json

import msgspec

from ledgerstone.engines.postgres.drivers.port import (
    BadText,
    ConnectionLost,
    DeadlineOver,
    NotConnected,
    ServerSaid,
)
from ledgerstone.engines.postgres.refusals import no_right, not_connected
from ledgerstone.errors import (
    BackendError,
    Busy,
    Corrupt,
    InvalidValue,
    LedgerstoneError,
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
