"""Fences over everything that could make a store forget them: restart, deletion, re-creation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from ledgerstone.api_sync.store import Store
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Lease
from ledgerstone.records.messages import user

SESSIONS = 5
REOPEN_SHARE = 0.003
PURGE_SHARE = 0.02
DELETE_SHARE = 0.02
BREAK_SHARE = 0.1


class Grants:
    """Takes leases for ever; each fence of an id must be greater than all before."""

    def __init__(self, make: Callable[[], Backend], *, persistent: bool, seed: int) -> None:
        self._make = make
        self._persistent = persistent
        self._random = Random(seed)
        self._backend = make()
        self._store = Store(self._backend)
        self._highest: dict[str, int] = {}
        self.reopened = 0
        self.purged = 0

    def take(self, count: int) -> Iterator[str]:
        """So many grants; a sentence for each fence that does not rise."""
        for number in range(count):
            session = f"s{self._random.randrange(SESSIONS)}"
            self._disturb(session, reopen=number == count // 2)
            self._store.sessions.ensure(session)
            lease = self._store.leases.take(session, owner="me")
            assert lease is not None, "nobody else takes leases here"
            if lease.fence <= self._highest.get(session, 0):
                yield f"grant {number}: {session} got {lease.fence} after {self._highest[session]}"
            self._highest[session] = max(lease.fence, self._highest.get(session, 0))
            self._end(session, lease)

    def close(self) -> None:
        self._backend.close()

    def _disturb(self, session: str, *, reopen: bool) -> None:
        draw = self._random.random()
        if (reopen or draw < REOPEN_SHARE) and self._persistent:
            self._backend.close()
            self._backend = self._make()
            self._store = Store(self._backend)
            self.reopened += 1
        elif draw < REOPEN_SHARE + PURGE_SHARE:
            self._store.sessions.purge(session)
            self.purged += 1
        elif draw < REOPEN_SHARE + PURGE_SHARE + DELETE_SHARE:
            self._store.sessions.delete(session)
            self._store.sessions.restore(session)

    def _end(self, session: str, lease: Lease) -> None:
        """Give it back, break it, use it, or leave it to the next one."""
        draw = self._random.random()
        if draw < BREAK_SHARE:
            if self._store.leases.break_(session, by="me", reason="chance"):
                # Breaking raises the fence as well: the next grant must be above that.
                self._highest[session] += 1
        elif draw < 0.5:
            self._store.leases.release(lease)
        elif draw < 0.6:
            self._store.messages.append(session, user("x"), lease=lease)
