"""What callers may pass, turned into what commands carry; each refusal names its field."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType

from ledgerstone import ids
from ledgerstone.clock import US_PER_S, to_us
from ledgerstone.codec import encode_json, is_sha256
from ledgerstone.commands import FREE, Guard
from ledgerstone.errors import (
    ClaimLost,
    Fenced,
    InvalidValue,
    LeaseExpired,
    SessionBindingMismatch,
)
from ledgerstone.lazy_imports import importing
from ledgerstone.records.leases import AnyLease, Held, Lease
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import Branch, Node
from ledgerstone.records.sessions import Head, Picker, Session

if TYPE_CHECKING:
    from uuid import UUID

    from ledgerstone.records.blobs import Attachment
    from ledgerstone.records.drafts import DraftRecord
    from ledgerstone.records.executions import Execution
    from ledgerstone.records.runs import Run
    from ledgerstone.records.state import SessionState
    from ledgerstone.records.tickets import Ticket
    from ledgerstone.records.work import Claim

W = TypeVar("W", bound=str)

LIMIT_DEFAULT = 50
LIMIT_MAX = 200
TEXT_CHARS_MAX = 4096
INT_BOUND = 1 << 62

# As text: what is imported above for type checkers only is not there when this runs.
SessionRef: TypeAlias = (
    "str | UUID | Session | Lease | Held | Head | Picker | SessionState | Message | Run"
)
IdRef: TypeAlias = (
    "str | UUID | Message | Node | Session | Run | Claim | Attachment | DraftRecord"
    " | Ticket | Execution"
)
Time: TypeAlias = datetime | int


@cache
def _of_session() -> tuple[type[Any], ...]:
    """The records that name a session; most programs give an id, and import none of these."""
    with importing():
        from ledgerstone.records.drafts import DraftRecord
        from ledgerstone.records.runs import Run
        from ledgerstone.records.state import SessionState

    return Lease, Held, Head, Picker, SessionState, Message, Run, DraftRecord


@cache
def _with_id() -> tuple[type[Any], ...]:
    """The records that have an id of their own."""
    with importing():
        from ledgerstone.records.blobs import Attachment
        from ledgerstone.records.drafts import DraftRecord
        from ledgerstone.records.executions import Execution
        from ledgerstone.records.runs import Run
        from ledgerstone.records.tickets import Ticket
        from ledgerstone.records.work import Claim

    return Message, Node, Session, Run, Claim, Attachment, DraftRecord, Ticket, Execution


def session_id(value: SessionRef) -> str:
    """The id of a session, given by itself or by a record that names one."""
    if type(value) is str:
        return ids.check_id(value, "session")
    if isinstance(value, Session):
        return value.id
    if isinstance(value, _of_session()):
        return ids.check_id(value.session, "session")
    return ids.check_id(value, "session")


def maybe_session(value: SessionRef | None) -> str | None:
    return None if value is None else session_id(value)


def record_id(value: IdRef, field: str) -> str:
    """An id, given by itself or by the record that has it."""
    if type(value) is not str and isinstance(value, _with_id()):
        return ids.check_id(value.id, field)
    return ids.check_id(value, field)


def session_of(value: IdRef, session: SessionRef | None) -> str:
    """The session a record lives in: as given, or as the record says."""
    if session is not None:
        return session_id(session)
    with importing():
        from ledgerstone.records.drafts import DraftRecord
        from ledgerstone.records.runs import Run

    if isinstance(value, Message | Node | Run | DraftRecord) and value.session:
        return value.session
    raise InvalidValue("session", "name the session, or give the record instead of its id")


def bound(session: SessionRef, lease: AnyLease | None) -> tuple[str, AnyLease | None]:
    """The session and the lease that guards it; a lease given as the session is both."""
    if lease is None:
        if type(session) is not str and isinstance(session, (Lease, Held)):
            return session.session, not_ended(session)
        return session_id(session), None
    if not isinstance(lease, Lease | Held):
        raise InvalidValue("lease", f"a Lease expected, got {type(lease).__name__}")
    id = session_id(session)
    if lease.session != id:
        raise SessionBindingMismatch(lease.session, id)
    return id, not_ended(lease)


def not_ended(lease: AnyLease) -> AnyLease:
    """The lease; LeaseExpired when it was held for a block that has ended."""
    if isinstance(lease, Held) and lease.ended:
        raise LeaseExpired(lease.session, lease.fence, ended=True)
    return lease


def guard(
    lease: AnyLease | None,
    expected_revision: int | None,
    expected_incarnation: int | None = None,
) -> Guard:
    """Under which ownership, at which revision and incarnation a write may happen."""
    if expected_revision is not None:
        whole(expected_revision, "expected_revision")
    if expected_incarnation is not None:
        whole(expected_incarnation, "expected_incarnation")
    if lease is None:
        if expected_revision is None and expected_incarnation is None:
            return FREE
        return Guard(revision=expected_revision, incarnation=expected_incarnation)
    not_ended(lease)
    if isinstance(lease, Held) and lease.lost is not None:
        lost = lease.lost
        if isinstance(lost, ClaimLost):
            raise lost
        current = lost.current if isinstance(lost, Fenced) else lease.fence
        raise Fenced(lease.session, lease.fence, current) from lost
    # Read once: a heartbeat may put a newer grant there between two looks.
    grant = lease.lease if isinstance(lease, Held) else lease
    return Guard(grant.fence, grant.token, expected_revision, expected_incarnation)


def page_limit(limit: int) -> int:
    """1 to 200; more is clamped."""
    return min(positive(limit, "limit"), LIMIT_MAX)


def positive(value: int, field: str) -> int:
    if type(value) is not int or not 0 < value < INT_BOUND:
        raise InvalidValue(field, f"a positive integer expected, got {_shown(value)}")
    return value


def whole(value: int, field: str) -> int:
    if type(value) is not int or not 0 <= value < INT_BOUND:
        raise InvalidValue(field, f"an integer of at least 0 expected, got {_shown(value)}")
    return value


def flag(value: bool, field: str) -> bool:
    if type(value) is not bool:
        raise InvalidValue(field, f"True or False expected, got {_shown(value)}")
    return value


def one_of(value: object, allowed: Iterable[W], field: str) -> W:
    """The allowed word itself: msgspec leaves a default out only if it is the same object."""
    if isinstance(value, str):
        for word in allowed:
            if word == value:
                return word
    raise InvalidValue(field, f"{_shown(value)} is none of {', '.join(allowed)}")


def maybe_one_of(value: object, allowed: Iterable[W], field: str) -> W | None:
    return None if value is None else one_of(value, allowed, field)


def text(value: str, field: str) -> str:
    """Free text of a record, such as a title: bounded, and storable everywhere."""
    if not isinstance(value, str):
        raise InvalidValue(field, f"text expected, got {type(value).__name__}")
    if len(value) > TEXT_CHARS_MAX:
        raise InvalidValue(field, f"{len(value)} characters, at most {TEXT_CHARS_MAX} allowed")
    if "\0" in value or not (value.isascii() or value.isprintable() or _encodable(value)):
        raise InvalidValue(field, "NUL and lone surrogates are not allowed")
    return value


def maybe_text(value: str | None, field: str) -> str | None:
    return None if value is None else text(value, field)


def maybe_id(value: Any, field: str) -> str | None:
    return None if value is None else record_id(value, field)


def branch_name(value: str | Branch) -> str:
    if type(value) is str and value == "main":
        return value
    return ids.check_name(value.name if isinstance(value, Branch) else value, "branch")


def json_value(value: Any, field: str) -> Any:
    """The value itself, once it is known to be JSON."""
    encode_json(value, field)
    return value


def json_object(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidValue(field, f"an object expected, got {type(value).__name__}")
    encode_json(value, field)
    return value


def micros(value: Time, field: str) -> int:
    """An aware datetime or integer microseconds, as microseconds."""
    if isinstance(value, bool) or not isinstance(value, datetime | int):
        raise InvalidValue(field, f"a datetime or microseconds expected, got {_shown(value)}")
    try:
        us = to_us(value)
    except ValueError as error:
        raise InvalidValue(field, str(error)) from None
    if abs(us) >= INT_BOUND:
        raise InvalidValue(field, "beyond the range of time")
    return us


def maybe_micros(value: Time | None, field: str) -> int | None:
    return None if value is None else micros(value, field)


def seconds(value: object, field: str) -> float:
    """A duration of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValue(field, f"seconds expected, got {_shown(value)}")
    if isinstance(value, float) and math.isnan(value):
        raise InvalidValue(field, "seconds expected, got nan")
    if value < 0:
        raise InvalidValue(field, f"a duration of at least 0 expected, got {_shown(value)}")
    if value >= INT_BOUND / US_PER_S:
        raise InvalidValue(field, f"too long a duration in seconds: {_shown(value)}")
    return value


def span_us(value: object, field: str) -> int:
    return round(seconds(value, field) * US_PER_S)


def leaf_or_unset(value: Any, field: str) -> str | UnsetType | None:
    """An expected leaf: a node, None for no leaf at all, UNSET for any."""
    return UNSET if value is UNSET else maybe_id(value, field)


def items(values: object, field: str) -> list[object]:
    """Several things; one of them alone, or text, is no list."""
    if isinstance(values, str | bytes | Mapping | Struct) or not isinstance(values, Iterable):
        raise InvalidValue(field, f"a list expected, got {type(values).__name__}")
    return list(values)


def known_fields(value: Iterable[object], known: Collection[str], field: str) -> None:
    unknown = [key for key in value if key not in known]
    if unknown:
        there_are = ", ".join(known)
        raise InvalidValue(field, f"no field is called {unknown[0]!r:.40}; there are {there_are}")


def digests(values: Iterable[object], field: str) -> tuple[str, ...]:
    """Names of values: SHA-256 in hex."""
    if isinstance(values, str):
        raise InvalidValue(field, "a list of digests expected, got text")
    found = []
    for digest in values:
        if not isinstance(digest, str) or not is_sha256(digest):
            raise InvalidValue(field, f"a SHA-256 in hex expected, got {digest!r:.70}")
        found.append(digest)
    return tuple(found)


def owner_id(owner: str | None) -> str:
    return default_owner() if owner is None else ids.check_id(owner, "owner")


def default_owner() -> str:
    """host:pid:random, so that no two owners are ever the same."""
    # Imported here: opening a store and reading from it needs no sockets.
    from socket import gethostname

    host = "".join(c for c in gethostname()[:80] if c.isprintable())
    return f"{host}:{os.getpid()}:{os.urandom(6).hex()}"


def _shown(value: object) -> str:
    try:
        return f"{value!r:.40}"
    except ValueError:  # Python writes no integer of more than 4300 digits.
        return "a huge integer"


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
