"""The queue of the floor: a batch is put in, claimed and taken out, each step one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import apsw

from bench.work import encode

READ_HEAD: Final = "select revision, last from heads where number = ?"
COUNT: Final = "update heads set revision = revision + 1 where number = ?"
PUT: Final = "insert into work values (?, null, ?)"
NEXT: Final = (
    "select key, payloads from work "
    "where key > ? and key < ? and claim is null order by key limit 1"
)
CLAIM: Final = "update work set claim = ? where key = ?"
CLAIMED: Final = "select key from work where key > ? and key < ? and claim = ?"
DONE: Final = "delete from work where key = ?"
CLAIM_NUMBER: Final = 1


def payload(place: int) -> dict[str, object]:
    """What is queued: a small order, as a caller would write it."""
    return {"kind": "email", "to": f"user-{place:06d}", "subject": "the answer", "retries": 0}


def enqueue(cursor: apsw.Cursor, number: int, size: int) -> None:
    revision, _ = next(cursor.execute(READ_HEAD, (number,)))
    payloads = encode([payload(place) for place in range(size)])
    cursor.execute(PUT, (number << 32 | revision + 1, payloads))
    cursor.execute(COUNT, (number,))


def claim(cursor: apsw.Cursor, number: int, _size: int) -> None:
    next(cursor.execute(READ_HEAD, (number,)))
    key, _ = next(cursor.execute(NEXT, (number << 32, number + 1 << 32)))
    cursor.execute(CLAIM, (CLAIM_NUMBER, key))


def complete(cursor: apsw.Cursor, number: int, _size: int) -> None:
    next(cursor.execute(READ_HEAD, (number,)))
    (key,) = next(cursor.execute(CLAIMED, (number << 32, number + 1 << 32, CLAIM_NUMBER)))
    cursor.execute(DONE, (key,))
    cursor.execute(COUNT, (number,))


STEPS: Final[tuple[Callable[[apsw.Cursor, int, int], None], ...]] = (enqueue, claim, complete)
