"""A pool of connections: lent out one by one, looked at before they are used again."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.drivers.port import (
    ConnectionLost,
    NotConnected,
    PgConnection,
    PgDriver,
    Row,
    ServerSaid,
    Slot,
)
from ledgerstone.engines.postgres.drivers.slots import Patience
from ledgerstone.errors import Busy

AGE_MAX_S = 30 * 60.0
AGE_SPREAD_S = 5 * 60.0
IDLE_TRUSTED_S = 5.0
CHECK_TIMEOUT_S = 2.0
FIRST_PAUSE_S = 0.02
LAST_PAUSE_S = 0.5
_LOOK = "select 1"


class Pool:
    """At most as many connections in use as the driver has places; idle ones are used again.

    `known`: there was a server at this address, so one that does not answer is waited for: it is
    being restarted, or another one takes over.
    """

    def __init__(self, driver: PgDriver, patience: Patience, *, known: bool = False) -> None:
        self.driver = driver
        self.patience = patience
        self._idle: list[PgConnection] = []
        self.known = known
        self.closed = False
        self._answered_s = 0.0

    async def enter(self, ends_s: float | None = None, *, first: bool = False) -> Slot:
        """The right to use one connection at a time, given in the order of asking.

        Busy at the deadline; without one, when the server has answered nobody for so long as a
        call may take. `first`: before all others.
        """
        start_s = monotonic_s()
        place = await self.driver.enter(partial(self._due_s, start_s, ends_s), first=first)
        if place is None:
            raise Busy(
                f"all connections of the pool were in use for {monotonic_s() - start_s:.3g} s; "
                + self.patience.advice
            )
        return place

    def _due_s(self, start_s: float, ends_s: float | None) -> float:
        if ends_s is not None:
            return ends_s
        return self.patience.due_s(start_s, self._answered_s)

    async def borrow(self, ends_s: float | None = None) -> PgConnection:
        """A connection that works, and a place with it; Busy as `enter` says."""
        start_s = monotonic_s()
        place = await self.enter(ends_s)
        try:
            connection = await self.connection(ends_s or self.patience.ends_s(start_s))
        except BaseException:
            # Whoever keeps the error would keep the place as well.
            place.leave()
            raise
        connection.place = place
        return connection

    async def fetch(self, text: str, arguments: Sequence[Any], timeout_s: float) -> list[Row]:
        """All rows of one statement, on a connection that is borrowed for it."""
        connection = await self.borrow(monotonic_s() + timeout_s)
        try:
            return await connection.fetch(text, arguments, timeout_s)
        except ConnectionLost:
            self.forget_idle()
            raise
        finally:
            self.give_back(connection)

    async def connection(self, ends_s: float) -> PgConnection:
        """A connection that works, for one who has a place."""
        return await self._idle_one(ends_s) or await self._new_one(ends_s)

    def give_back(self, connection: PgConnection) -> None:
        """Keep it for the next one; what is broken, in the middle of something or late is let go.

        A transaction that is still open ends with its connection.
        """
        place, connection.place = connection.place, None
        connection.used_s = monotonic_s()
        if connection.is_clean:
            self._answered_s = connection.used_s
        if connection.is_clean and not self.closed:
            self._idle.append(connection)
        else:
            connection.drop()
        if place is not None:
            place.leave()
        if self.closed:
            self.close()

    def forget_idle(self) -> None:
        """After a lost connection the others are likely lost as well."""
        with suppress(IndexError):
            while True:
                self._idle.pop().drop()

    def close(self) -> None:
        """What is idle goes now, what is in use when it is given back."""
        self.closed = True
        self.forget_idle()

    async def _idle_one(self, ends_s: float) -> PgConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if _is_young(connection):
                if monotonic_s() - connection.used_s < IDLE_TRUSTED_S:
                    return connection
                if await _answers(connection, ends_s):
                    return connection
                # Those below it have been idle for longer.
                self.forget_idle()
            connection.drop()

    async def _new_one(self, ends_s: float) -> PgConnection:
        """Connect, again and again while the server starts, restarts or is full."""
        last_s = min(ends_s, monotonic_s() + self.patience.connect_s)
        pause_s = FIRST_PAUSE_S
        while True:
            left_s = max(last_s - monotonic_s(), 0.001)
            try:
                connection = await self.driver.connect(left_s)
            except NotConnected as error:
                waits = error.passing or (error.gone and self.known)
                if not waits or monotonic_s() + pause_s > last_s:
                    raise
            else:
                self.known = True
                return connection
            await self.driver.pause(pause_s * (0.5 + random.random()))
            pause_s = min(2 * pause_s, LAST_PAUSE_S)


def _is_young(connection: PgConnection) -> bool:
    age_s = monotonic_s() - connection.opened_s
    return connection.is_clean and age_s < AGE_MAX_S - AGE_SPREAD_S * random.random()


async def _answers(connection: PgConnection, ends_s: float) -> bool:
    try:
        left_s = max(ends_s - monotonic_s(), 0.001)
        await connection.script(_LOOK, min(left_s, CHECK_TIMEOUT_S))
    except (ConnectionLost, ServerSaid):
        return False
    return True


class BehindPooler:
    """A driver's connection; `lead` is said right after BEGIN, with it."""

    def __init__(self, inner: Any, lead: str) -> None:
        self._inner = inner
        self._lead = lead
        self.opened_s = self.used_s = monotonic_s()
        self.place: Slot | None = None

    @property
    def raw(self) -> Any:
        return self._inner.raw

    @property
    def is_open(self) -> bool:
        return bool(self._inner.is_open)

    @property
    def is_clean(self) -> bool:
        return bool(self._inner.is_clean)

    async def fetch(self, text: str, arguments: Sequence[Any], timeout_s: float) -> list[Row]:
        """In the transaction that is open, or in one of its own."""
        fetch: Callable[..., Coroutine[Any, Any, list[Row]]] = self._inner.fetch
        if not self.is_clean:
            return await fetch(text, arguments, timeout_s)
        ends_s = monotonic_s() + timeout_s
        await self.script("BEGIN", timeout_s)
        try:
            answer = await fetch(text, arguments, max(ends_s - monotonic_s(), 0.001))
        except ServerSaid:
            await self.script("ROLLBACK", max(ends_s - monotonic_s(), 0.001))
            raise
        await self.script("COMMIT", max(ends_s - monotonic_s(), 0.001))
        return answer

    async def script(self, text: str, timeout_s: float) -> None:
        begins = text.startswith("BEGIN")
        await self._inner.script(f"{text}; {self._lead}" if begins else text, timeout_s)

    def drop(self) -> None:
        self._inner.drop()
