"""The wrappers do what they say; a wrapper that did nothing would make its variant worthless."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import Run, Store, errors, user
from ledgerstone.clock import Clock, ManualClock
from ledgerstone.codec import encode_struct
from ledgerstone.commands import Command, Query
from ledgerstone.commands.runs import GetRun
from ledgerstone.commands.sessions import CreateSession, GetSession
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Session
from ledgerstone.testing.on_loop import OnLoop
from ledgerstone.testing.wrappers import (
    Peer,
    Reopening,
    TwoProcesses,
    Wrapper,
    pack_error,
    restored,
    unpack_error,
)


class WhereAmI(Query[int], frozen=True, kw_only=True):
    """Asks which process answers."""


class Telling(Wrapper):
    """A backend that also knows its process."""

    def read(self, queries: object) -> list[object]:
        return [os.getpid() for _ in queries]  # type: ignore[attr-defined]


def open_telling(clock: Clock) -> Backend:
    return Telling(MemoryBackend(clock))


def open_file(path: str, clock: Clock) -> Backend:
    return open_sqlite(path, clock=clock)


@pytest.fixture
def peer() -> Iterator[Peer]:
    child = Peer()
    yield child
    child.close()


def test_reopening_opens_anew_before_the_first_read_after_a_write(tmp_path: Path) -> None:
    opened: list[Backend] = []

    def factory() -> Backend:
        opened.append(open_sqlite(str(tmp_path / "store.db")))
        return opened[-1]

    backend = Reopening(factory)
    backend.write(CreateSession(tenant="t", session=Session(id="s")))
    assert len(opened) == 1
    for wanted in (2, 2):
        assert backend.read([GetSession(tenant="t", id="s")])[0].id == "s"
        assert len(opened) == wanted
    backend.close()
    with pytest.raises(errors.StoreClosed):
        opened[0].read([])


def test_every_other_call_is_answered_by_another_process(peer: Peer) -> None:
    clock = ManualClock()
    both = TwoProcesses(open_telling(clock), peer.open(open_telling, clock))
    pids = [both.read([WhereAmI(tenant="t")])[0] for _ in range(4)]
    assert pids == [peer.pid, os.getpid()] * 2
    both.close()
    with pytest.raises(errors.StoreClosed):
        both.read([])


def test_the_other_process_sees_this_clock_and_this_file(peer: Peer, tmp_path: Path) -> None:
    path, clock = str(tmp_path / "store.db"), ManualClock()
    here = open_file(path, clock)
    there = peer.open(partial(open_file, path), clock)
    clock.advance(12.345678)
    there.write(CreateSession(tenant="t", session=Session(id="s")))
    found = here.read([GetSession(tenant="t", id="s")])[0]
    assert found.created_us == clock.now_us()
    there.close()
    here.close()


def test_an_error_of_the_other_process_is_raised_here(peer: Peer, tmp_path: Path) -> None:
    there = peer.open(partial(open_file, str(tmp_path / "store.db")), ManualClock())
    with Store(there, tenant="t") as store:
        with pytest.raises(errors.SessionNotFound) as caught:
            store.messages.append("nowhere", user("x"))
        assert caught.value.id == "nowhere"
        assert str(caught.value).startswith("session not found: nowhere; ")


class TellingItsLoop(Wrapper):
    """A backend that knows which coroutine of which thread was called."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.calls: list[tuple[str, str]] = []

    async def awrite(self, command: Command[Any]) -> Any:
        self.calls.append(("awrite", threading.current_thread().name))
        return self.write(command)

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        self.calls.append(("aread", threading.current_thread().name))
        return self.read(queries)


def test_every_call_goes_through_the_coroutines_of_one_loop() -> None:
    inner = TellingItsLoop(MemoryBackend(ManualClock()))
    backend = OnLoop(inner)
    backend.write(CreateSession(tenant="t", session=Session(id="s")))
    assert backend.read([GetSession(tenant="t", id="s")])[0].id == "s"
    assert inner.calls == [("awrite", "on-loop"), ("aread", "on-loop")]
    backend.close()
    backend.close()
    assert "on-loop" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(errors.StoreClosed):
        backend.read([])


def test_every_error_travels_with_its_fields() -> None:
    samples = [
        errors.InvalidValue("f", "r"),
        errors.NotSupported("c", "b", "h"),
        errors.RevisionMoved(1, 2, "s"),
        errors.IncarnationMoved(1, 2, "s"),
        errors.LeafMoved("b", None, "n"),
        errors.LeaseHeld("s", "o", 3),
        errors.ClaimLost("s", "c"),
        errors.Corrupt("t", "k", "f", "r"),
        errors.BudgetExceeded("b", 5, 4, None, "USD", "session", "s", "day"),
        errors.Busy("busy"),
    ]
    for error in samples:
        again = unpack_error(pack_error(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert isinstance(unpack_error(pack_error(KeyError("k"))), RuntimeError)


def test_defaults_that_travelled_are_the_defaults_again() -> None:
    status = "".join(["run", "ning"])
    travelled = Run(id="r", session="s", status=status)  # type: ignore[arg-type]
    plain = encode_struct(Run(id="r", session="s"), "run")
    assert encode_struct(restored([travelled])[0], "run") == plain
    assert restored(GetRun(tenant="t", id="r")) == GetRun(tenant="t", id="r")
