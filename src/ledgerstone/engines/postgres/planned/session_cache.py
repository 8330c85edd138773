"""What this process knows of sessions, so that most commands need not ask before they are sent.

Nothing here is trusted: the server compares the version of the head before it writes anything. A
session's runs and state never change without its head being written, so its version vouches for
them as well.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import msgspec

from ledgerstone.commands import Command
from ledgerstone.commands.sessions import CreateSession, GetOrCreateSession, PutSession
from ledgerstone.engines.postgres.drivers.port import Row
from ledgerstone.records.sessions import Session
from ledgerstone.rules.work import WorkRow
from ledgerstone.tables.runs import RunRow
from ledgerstone.tables.sessions import Head

SESSIONS_MAX = 4096
RUNS_MAX = 4
RUN_BYTES_MAX = 16_384
STATE_BYTES_MAX = 16_384

Key = tuple[str, str]
"""Tenant and session."""


class CachedSession(msgspec.Struct, frozen=True, gc=False):
    """One session as the server last told it.

    `version` is the number of the transaction that wrote the head, `tip_id` the node at its tip,
    `runs` are rows by the id of the run; `state` is UNSET when nobody asked for it yet. Of the head
    all is known but when it was touched last.
    """

    head: Head
    version: int
    tip_id: str | None
    runs: dict[str, RunRow] = {}
    state: bytes | msgspec.UnsetType | None = msgspec.UNSET


class SessionCache:
    """The sessions that were used last; any thread may ask."""

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, CachedSession] = OrderedDict()
        self._sessions_max = sessions_max

    def get(self, key: Key) -> CachedSession | None:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def put(self, key: Key, known: CachedSession) -> None:
        with self._lock:
            self._known[key] = known
            self._known.move_to_end(key)
            if len(self._known) > self._sessions_max:
                self._known.popitem(last=False)

    def forget(self, key: Key) -> None:
        with self._lock:
            self._known.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._known.clear()

    def __len__(self) -> int:
        return len(self._known)


def with_run(runs: dict[str, RunRow], row: RunRow) -> dict[str, RunRow]:
    """The runs with one more; the oldest goes, and what is large is not kept."""
    kept = runs.copy()
    kept.pop(row.id, None)
    if row.body is not None and len(row.body) > RUN_BYTES_MAX:
        return kept
    while len(kept) >= RUNS_MAX:
        del kept[next(iter(kept))]
    kept[row.id] = row
    return kept


def learn_made(
    heads: SessionCache, command: Command[Any], answer: Any, made: Row, xid: int
) -> None:
    """A session that was just made is known: its first commit needs no question beforehand.

    `made`: number, fence and time of its head. Commands that do more to a head are left out.
    """
    if not isinstance(command, _MAKING) or not isinstance(answer, Session):
        return
    number, fence, updated_us = made
    head = Head(number, answer.incarnation, fence=fence, updated_us=updated_us)
    heads.put((command.tenant, answer.id), CachedSession(head, xid & 0xFFFFFFFF, None, {}, None))


_MAKING = (CreateSession, GetOrCreateSession, PutSession)


CLAIMS_MAX = 4096
BYTES_MAX = 32 * 1024 * 1024
"""Of payloads; older claims are looked up when they are completed."""

ClaimKey = tuple[str, str, str]
"""Tenant, session and claim."""


class ClaimCache:
    """The claims that were made last; any thread may ask."""

    def __init__(self, claims_max: int = CLAIMS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._lock = threading.Lock()
        self._batches: OrderedDict[ClaimKey, list[WorkRow]] = OrderedDict()
        self._bytes = 0
        self._claims_max = claims_max
        self._bytes_max = bytes_max

    def note(self, key: ClaimKey, batches: list[WorkRow]) -> None:
        """A claim as the server just answered it."""
        with self._lock:
            self._bytes -= _size(self._batches.pop(key, []))
            self._batches[key] = batches
            self._bytes += _size(batches)
            while self._bytes > self._bytes_max or len(self._batches) > self._claims_max:
                self._bytes -= _size(self._batches.popitem(last=False)[1])

    def batches(self, key: ClaimKey) -> list[WorkRow] | None:
        """The batches of a claim; None when it is not known."""
        return self._batches.get(key)


def _size(batches: list[WorkRow]) -> int:
    return sum([len(batch.payloads) for batch in batches])
