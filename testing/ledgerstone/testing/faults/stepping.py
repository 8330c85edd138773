"""Threads that take turns: one runs at a time, from one call of the store to the next.

The calls are real; who goes next is drawn from a seed, and anybody can be killed between two of
them. A killed thread does nothing any more: whatever its clean-up tries raises `Killed` as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

from ledgerstone.commands import Command, Query
from ledgerstone.ports.blobs import BlobPlace, BlobWriter
from ledgerstone.testing.wrappers import Wrapper

A = TypeVar("A")

STUCK_S = 60.0
BURSTS = (1, 1, 2, 3, 5, 10, 30, 60)


class Killed(BaseException):
    """What a dead thread meets at its next call."""


class Actor:
    """One thread with something to do, for ever or once."""

    def __init__(self, name: str, play: Callable[[], None]) -> None:
        self.name = name
        self.error: BaseException | None = None
        self._play = play
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._dead = False
        self.ended = False
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Let it go on to its next call."""
        self._go.release()
        if not self._back.acquire(timeout=STUCK_S):
            raise AssertionError(f"{self.name} does not come back")
        if self.error is not None:
            raise self.error

    def kill(self) -> None:
        """The calls it made are made; it will make no other."""
        self._dead = True
        while not self.ended:
            self.step()
        self._thread.join()

    def gate(self) -> None:
        """Wait for the next turn, inside the thread."""
        if not self._dead:
            self._back.release()
            self._go.acquire()
        if self._dead:
            raise Killed

    def _live(self) -> None:
        self._go.acquire()
        _here.actor = self
        try:
            if not self._dead:
                self._play()
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            self._back.release()


_here = threading.local()


def current() -> Actor | None:
    """The actor whose thread this is."""
    actor: Actor | None = getattr(_here, "actor", None)
    return actor


def gate() -> None:
    """Before each call: the others may have their turn. Whoever is no actor just goes on."""
    actor = current()
    if actor is not None:
        actor.gate()


class GatedBackend(Wrapper):
    """Every command and every read is a step."""

    def write(self, command: Command[A]) -> A:
        gate()
        return self.inner.write(command)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        gate()
        return self.inner.read(queries)


class GatedPlace:
    """Every call of the place is a step."""

    def __init__(self, inner: BlobPlace) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    def begin(self, tenant: str, key: str) -> BlobWriter:
        gate()
        return _GatedWriter(self.inner.begin(tenant, key))

    def read(self, tenant: str, key: str, first: int = 0) -> Iterator[bytes]:
        gate()
        return self.inner.read(tenant, key, first)

    def delete(self, tenant: str, key: str) -> None:
        gate()
        self.inner.delete(tenant, key)

    def close(self) -> None:
        self.inner.close()


class _GatedWriter:
    def __init__(self, inner: BlobWriter) -> None:
        self._inner = inner

    def write(self, data: bytes) -> None:
        gate()
        self._inner.write(data)

    def finish(self) -> None:
        gate()
        self._inner.finish()

    def abort(self) -> None:
        gate()
        self._inner.abort()


class Crew:
    """Actors that go on in an order drawn from a seed; who dies is followed by another.

    `doomed` says of whom it would be unfair to expect that he is still alive.
    """

    def __init__(
        self,
        plays: dict[str, Callable[[], None]],
        random: Random,
        kill_share: float,
        doomed: Callable[[str], bool],
    ) -> None:
        self._doomed = doomed
        self._plays = plays
        self._random = random
        self._kill_share = kill_share
        self._actors = {name: Actor(name, play) for name, play in plays.items()}
        self._turn, self._left = "", 0
        self.kills = 0

    def step(self) -> None:
        """One of them makes one call, or dies before it.

        Some go on for long while the others stand: whole collections fit between two steps.
        """
        if self._left == 0:
            self._turn = self._random.choice(list(self._plays))
            self._left = self._random.choice(BURSTS)
        self._left -= 1
        name = self._turn
        actor = self._actors[name]
        if self._random.random() < self._kill_share or self._doomed(name):
            actor.kill()
            self.kills += 1
        else:
            actor.step()
        if actor.ended:
            self._actors[name] = Actor(name, self._plays[name])

    def stop(self) -> None:
        """All of them die where they are."""
        for actor in self._actors.values():
            actor.kill()
