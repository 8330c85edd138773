"""What callers say about work, checked and encoded once; each refusal names its field."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypedDict

from ledgerstone import ids
from ledgerstone.clock import US_PER_S
from ledgerstone.codec import encode_json
from ledgerstone.commands.work import NewBatch
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef, Time
from ledgerstone.records.work import (
    ATTEMPTS_DEFAULT,
    DELIVERIES,
    GROUP,
    NEVER,
    PAYLOAD,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    QUEUE_DEFAULT,
    SLOTS,
    Batch,
    Claim,
    DeadBatch,
    Delivery,
    EndedBatch,
    Slot,
)

PAYLOADS_BYTES_MAX = 1 << 20
SPAN_US_MAX = 3653 * 86_400 * US_PER_S
"""Ten years: who says more meant another unit."""
MOMENT_US_MAX = 253_402_300_800 * US_PER_S
"""The year 10000, where a datetime ends."""
ERROR_CHARS_MAX = 1000
BACKOFF_DEFAULT_S = 1.0
DELIVERY_DEFAULT: Delivery = "after_current_turn_commit"
SLOT_DEFAULT: Slot = "exclusive"
CANCELLED = "cancelled"
INTERRUPTED = "interrupted"
"""The reasons of batches that are cancelled or superseded, when no other is given."""

BatchRef: TypeAlias = str | Batch | DeadBatch | EndedBatch
_RECORDS = (Batch, DeadBatch, EndedBatch)


class Keywords(TypedDict, total=False):
    """What may be said about a batch beside its payloads and its id."""

    key: str | None
    queue: str
    delivery: Delivery
    slot: Slot
    merge: str
    priority: int
    delay_s: float
    available_at: Time | None
    max_attempts: int | None
    backoff_s: float


def new_batch(
    session: str,
    payloads: tuple[Any, ...],
    *,
    id: str,
    key: str | None = None,
    queue: str = QUEUE_DEFAULT,
    delivery: Delivery = DELIVERY_DEFAULT,
    slot: Slot = SLOT_DEFAULT,
    merge: str = NEVER,
    priority: int = PRIORITY_DEFAULT,
    delay_s: float = 0,
    available_at: Time | None = None,
    max_attempts: int | None = ATTEMPTS_DEFAULT,
    backoff_s: float = BACKOFF_DEFAULT_S,
) -> NewBatch:
    return NewBatch(
        session=session,
        id=ids.check_id(id, "id"),
        payloads=_payloads(payloads),
        source_key=None if key is None else ids.check_name(key, "key"),
        queue=queue_name(queue),
        merge=_merge(merge),
        priority=_priority(priority),
        available_us=0 if available_at is None else _moment(available_at, "available_at"),
        delay_us=span_us(delay_s, "delay_s"),
        max_attempts=None
        if max_attempts is None
        else checks.positive(max_attempts, "max_attempts"),
        backoff_us=span_us(backoff_s, "backoff_s"),
        delivery=checks.one_of(delivery, DELIVERIES, "delivery"),
        slot=checks.one_of(slot, SLOTS, "slot"),
    )


def check_keywords(how: Keywords) -> Keywords:
    unknown = how.keys() - Keywords.__annotations__.keys()
    if unknown:
        raise InvalidValue(min(unknown), "work has no such keyword")
    return how


def pairs(values: Iterable[tuple[SessionRef, Any]]) -> list[tuple[SessionRef, Any]]:
    given: Any = values
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidValue("work", f"pairs expected, got {type(given).__name__}")
    found: list[Any] = list(given)
    if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in found):
        raise InvalidValue("work", "pairs of a session and a payload expected")
    return found


def queue_name(value: str) -> str:
    # Interned: msgspec leaves a default out of an encoding only if it is the same object.
    return sys.intern(ids.check_name(value, "queue"))


def span_us(value: object, field: str) -> int:
    """A duration of at most ten years, in microseconds."""
    us = checks.span_us(value, field)
    if us > SPAN_US_MAX:
        raise InvalidValue(field, f"more than ten years: {value!r:.40} seconds")
    return us


def ttl_us(value: object) -> int:
    us = span_us(value, "ttl_s")
    if us == 0:
        raise InvalidValue("ttl_s", "must be greater than 0")
    return us


def claim_record(value: Claim) -> Claim:
    if not isinstance(value, Claim):
        raise InvalidValue("claim", f"a Claim expected, got {type(value).__name__}")
    return value


def claim_names(id: str | None) -> tuple[str, str]:
    """The id of a new claim and the token that proves it."""
    fresh, token = ids.new_ids(2)
    return (fresh if id is None else ids.check_id(id, "id")), token


def batch_id(value: BatchRef) -> str:
    return ids.check_id(value.id if isinstance(value, _RECORDS) else value, "batch")


def batch_ids(values: Iterable[BatchRef] | None) -> tuple[str, ...] | None:
    """Several of them, in order; None stands for any."""
    if values is None:
        return None
    if not isinstance(values, list | tuple):
        raise InvalidValue("ids", f"a list of batches expected, got {type(values).__name__}")
    return tuple(batch_id(value) for value in values)


def batch_place(session: SessionRef | Batch, batch: BatchRef | None) -> tuple[str, str]:
    """Session and id of a batch; the record alone says both."""
    if isinstance(session, _RECORDS):
        if batch is not None and batch_id(batch) != session.id:
            raise InvalidValue("batch", "one batch is given as the session, and another one")
        return session.session, session.id
    if batch is None:
        raise InvalidValue("batch", "name the batch, or give its record instead of the session")
    return checks.session_id(session), batch_id(batch)


def error_text(error: str | BaseException, field: str = "error") -> str:
    """Why work failed: "Type: message" of an exception, bounded, and storable everywhere."""
    if isinstance(error, BaseException):
        said = str(error)
        error = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if not isinstance(error, str):
        raise InvalidValue(field, f"text or an exception expected, got {type(error).__name__}")
    cut = error[:ERROR_CHARS_MAX].replace("\0", "\ufffd")
    return cut.encode("utf-8", "replace").decode()


def _payloads(payloads: tuple[Any, ...]) -> bytes:
    if not payloads:
        raise InvalidValue("payloads", "at least one payload expected")
    # One by one: a payload is checked by itself, and the list around it is no level of its own.
    data = b"[%b]" % b",".join(encode_json(payload, "payload") for payload in payloads)
    if len(data) > PAYLOADS_BYTES_MAX:
        raise InvalidValue(
            "payload", f"{len(data)} bytes, at most {PAYLOADS_BYTES_MAX}: keep it as a value"
        )
    return data


def _merge(value: str) -> str:
    name = sys.intern(ids.check_name(value, "merge"))
    if name not in (NEVER, PAYLOAD) and (not name.startswith(GROUP) or name == GROUP):
        raise InvalidValue("merge", f"{name!r:.40} is none of {NEVER}, {PAYLOAD}, {GROUP}NAME")
    return name


def _priority(value: int) -> int:
    if type(value) is not int or not 0 <= value <= PRIORITY_MAX:
        raise InvalidValue("priority", f"0 to {PRIORITY_MAX} expected, got {value!r:.40}")
    return value


def _moment(value: Time, field: str) -> int:
    us = checks.micros(value, field)
    if not 0 <= us < MOMENT_US_MAX:
        raise InvalidValue(field, "a moment between 1970 and the year 10000 expected")
    return us
