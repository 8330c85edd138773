"""Slots that calls wait for in the order they came: connections of a pool, room in a queue.

A caller waits instead of getting an error. It leaves the queue when it is cancelled, or when its
time is over, which `due` says anew each time it is asked.
"""

from __future__ import annotations

import queue
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.drivers.port import Slot

if TYPE_CHECKING:
    import asyncio

LATE_S = 0.1
LOOK_S = 1.0
"""How often a thread that waits makes sure that it still stands in the queue."""


class Patience(msgspec.Struct, frozen=True):
    """How long a call may take, and how long it may wait for its turn.

    `strict`: the caller named the time, and waiting is a part of it. Otherwise a call waits while
    the server answers others, and its time begins with its turn.
    """

    limit_s: float
    connect_s: float
    strict: bool

    def due_s(self, start_s: float, answered_s: float) -> float:
        """Until when a call waits that came at `start_s`; `answered_s`: the last answer."""
        return (start_s if self.strict else max(start_s, answered_s)) + self.limit_s

    def ends_s(self, start_s: float) -> float:
        """The deadline of a call whose turn it is now."""
        return (start_s if self.strict else monotonic_s()) + self.limit_s

    @property
    def advice(self) -> str:
        if self.strict:
            return "raise pool_size, do less at once, or leave statement_timeout_s out to wait"
        return "none of them got an answer; look at the server"


class Slots:
    """A limit on calls at a time; the others wait in the order they came.

    Without a lock: a place may be left by the garbage collector or in a Ctrl-C, in the middle of
    anything here. Every step is one operation of a deque or an OrderedDict.
    """

    def __init__(self, size: int) -> None:
        self._free: deque[Slot] = deque()
        self._waiting: OrderedDict[object, Callable[[Slot], bool]] = OrderedDict()
        # Weak: in a cycle, the places that the garbage collector ends would make new ones for ever.
        self._come_back = partial(_leave, weakref.ref(self))
        for _ in range(size):
            self._leave()

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self) -> Slot | None:
        """A place at once, unless others wait for one."""
        if self._waiting:
            return None
        try:
            return self._free.popleft()
        except IndexError:
            return None

    def stand(self, bell: object, ring: Callable[[Slot], bool], *, first: bool) -> None:
        """Wait in the queue, where it is not done yet; `ring` says whether it takes the place."""
        if bell not in self._waiting:
            self._waiting[bell] = ring
            if first:
                self._waiting.move_to_end(bell, last=False)
        self._match()

    def withdraw(self, bell: object) -> None:
        self._waiting.pop(bell, None)

    def _leave(self) -> None:
        self._free.append(Slot(self._come_back))
        self._match()

    def _match(self) -> None:
        """Give free places to those who wait."""
        while self._waiting:
            try:
                place = self._free.popleft()
            except IndexError:
                return
            try:
                ring = self._waiting.popitem(last=False)[1]
            except KeyError:
                ring = _nobody
            if not ring(place):
                # Somebody may have come meanwhile: the loop looks again.
                self._free.append(place)


def _leave(places: weakref.ref[Slots]) -> None:
    found = places()
    if found is not None:
        found._leave()


def _nobody(place: Slot) -> bool:
    return False


def wait_in_thread(places: Slots, due: Callable[[], float], *, first: bool = False) -> Slot | None:
    """A place for this thread; None when its time is over. `first`: before all others."""
    place = places.take()
    if place is not None:
        return place
    bell: queue.SimpleQueue[Slot] = queue.SimpleQueue()

    def ring(place: Slot) -> bool:
        bell.put(place)
        return True

    try:
        while True:
            # Again and again: whoever was to ring may have been stopped by a Ctrl-C.
            places.stand(bell, ring, first=first)
            left_s = due() - monotonic_s()
            try:
                return bell.get(timeout=max(min(left_s, LOOK_S), 0))
            except queue.Empty:
                if left_s <= 0:
                    return None
    finally:
        places.withdraw(bell)


async def wait_on_loop(
    places: Slots, due: Callable[[], float], *, first: bool = False
) -> Slot | None:
    """The same for a task of the running event loop."""
    place = places.take()
    if place is not None:
        return place
    import asyncio  # Here: a blocking program need not import it.

    waiter = _OnLoop(asyncio.get_running_loop(), due)
    places.stand(waiter, waiter.ring, first=first)
    try:
        return await waiter.bell
    except BaseException:
        waiter.give_back()
        raise
    finally:
        waiter.timer.cancel()
        places.withdraw(waiter)


class _OnLoop:
    """A task that waits. Once its timer is cancelled it is part of no cycle, and keeps no place."""

    __slots__ = ("_due", "_loop", "bell", "timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[], float]) -> None:
        self._loop = loop
        self._due = due
        self.bell: asyncio.Future[Slot | None] = loop.create_future()
        self.timer = loop.call_later(max(due() - monotonic_s(), 0), self._look)

    def ring(self, place: Slot | None) -> bool:
        if self.bell.done():
            return False
        self.bell.set_result(place)
        return True

    def give_back(self) -> None:
        """It was cancelled, perhaps after it was given a place."""
        if self.bell.done() and not self.bell.cancelled():
            place = self.bell.result()
            if place is not None:
                place.leave()

    def _look(self) -> None:
        late_s = self._loop.time() - self.timer.when()
        left_s = self._due() - monotonic_s()
        if late_s > LATE_S:
            # The loop was not free: answers may have come that are not read yet.
            left_s = max(left_s, LATE_S)
        if left_s > 0:
            self.timer = self._loop.call_later(left_s, self._look)
        else:
            self.ring(None)
