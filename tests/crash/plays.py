"""What racing processes and killed children do: importable there, so no test library in here."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ledgerstone.api_sync.store import Store
from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Guard
from ledgerstone.commands.leases import ReleaseLease, TakeLease
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.engines.sqlite import writer as sqlite_writer
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.ports.backend import Backend
from ledgerstone.records.messages import user
from ledgerstone.records.sessions import Session
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.processes import Say
from ledgerstone.testing.faults.sabotage_rules import ForgetsTurns

# Some tests know `commit_of` from here.
__all__ = ["TENANT", "commit_of"]

LEASE_US = 60_000_000
BUSY_SESSIONS = 8
BUSY_S = 3.0


def first_lease(backend: Backend, number: int, racer: int) -> Any:
    """Everybody wants the first lease of a new session."""
    session = f"lease-{number}"
    backend.write(CreateSession(tenant=TENANT, session=Session(id=session), ensure=True))
    lease = backend.write(
        TakeLease(
            tenant=TENANT,
            session=session,
            owner=f"racer {racer}",
            token=f"{number}/{racer}",
            ttl_us=LEASE_US,
        )
    )
    return None if lease is None else lease.fence


def next_lease(backend: Backend, number: int, racer: int) -> Any:
    """Everybody wants the same session; who gets it in one round gives it back in the next."""
    session = "relay"
    backend.write(CreateSession(tenant=TENANT, session=Session(id=session), ensure=True))
    take = TakeLease(
        tenant=TENANT,
        session=session,
        owner=f"racer {racer}",
        token=f"{number}/{racer}",
        ttl_us=LEASE_US,
    )
    if number % 2 == 0:
        lease = backend.write(take)
        _held[racer] = lease
        return None if lease is None else lease.fence
    held = _held.pop(racer, None)
    if held is None:
        return None
    release = ReleaseLease(
        tenant=TENANT, session=session, owner=held.owner, token=held.token, fence=held.fence
    )
    return backend.write(release)


_held: dict[int, Any] = {}


def same_revision(backend: Backend, number: int, racer: int) -> Any:
    """Everybody has seen the same revision of one session and commits on it."""
    turn = f"{number}/{racer}"
    return backend.write(commit_of("revisions", turn, "mine", "too", guard=Guard(revision=number)))


def same_turn(backend: Backend, number: int, racer: int) -> Any:
    """The same turn with the same content from everybody."""
    return backend.write(commit_of(f"turns-{number % 7}", f"t{number}", "one", "two", "three"))


def other_content(backend: Backend, number: int, racer: int) -> Any:
    """The same turn id with other content from everybody."""
    return backend.write(commit_of(f"contents-{number % 7}", f"t{number}", f"by {racer}"))


def same_session(backend: Backend, number: int, racer: int) -> Any:
    """Everybody creates the session, each with a title of its own."""
    made = Session(id=f"new-{number}", title=f"by {racer}")
    return backend.write(CreateSession(tenant=TENANT, session=made)).title


def ensured_session(backend: Backend, number: int, racer: int) -> Any:
    """Everybody ensures the session and commits to it at once."""
    answer = backend.write(commit_of(f"ensured-{number}", f"by {racer}", "hello"))
    return answer.revision


def busy(backend: Backend, number: int, racer: int) -> Any:
    """Commit to eight sessions for three seconds; any error ends the round."""
    store = Store(backend)
    sessions = [f"busy-{racer}-{n}" for n in range(BUSY_SESSIONS - 2)] + ["busy-a", "busy-b"]
    end_s = monotonic_s() + BUSY_S
    count = 0
    while monotonic_s() < end_s:
        for session in sessions:
            store.messages.append(session, user(f"{racer} {count}"), create=True)
            count += 1
        store.messages.last(sessions[0], 5)
    return count


def fresh_place(
    makes: Sequence[Callable[[], Backend]], backend: Backend, number: int, racer: int
) -> Any:
    """Everybody opens a place in which there is nothing yet, and commits to it."""
    mine = makes[number]()
    try:
        return mine.write(commit_of("first", f"by {racer}", "hello", "you")).revision
    finally:
        mine.close()


def forgetful(path: str) -> Backend:
    """A store that does not know a turn again."""
    return ForgetsTurns(open_sqlite(path))


def checkpoint_often(backend: Backend) -> Backend:
    """From now on this process moves the log into the file every few commits: for a child."""
    sqlite_writer.CHECKPOINT_PAGES = 20
    return backend


def grow(say: Say, path: str) -> None:
    """Commit without end to a file that grows, and move the log into it all the time."""
    backend = checkpoint_often(open_sqlite(path))
    for n in range(1_000_000):
        backend.write(commit_of(f"s{n % 7}", f"t{n}", "x" * 1_000_000))
        if n == 0:
            say(b"growing")


def be_born(say: Say, make: Callable[[], Backend]) -> None:
    """Announce, then open a new place and commit to it."""
    say(b"opening")
    backend = make()
    for n in range(1_000_000):
        backend.write(commit_of("first", f"t{n}", "hello", "again"))
        say(b"committed")


def wait_for_lock(say: Say, path: str) -> None:
    """Commit while somebody else holds the file; after Ctrl-C commit something else."""
    backend = open_sqlite(path)
    # The server that forked us ignores the signal; a program of its own does not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    say(b"open")
    while not Path(path + ".held").exists():
        time.sleep(0.01)
    say(b"waiting")
    try:
        backend.write(commit_of("s", "interrupted", "x"))
    except KeyboardInterrupt:
        say(b"KeyboardInterrupt")
    backend.write(commit_of("s", "after", "x"))
    say(b"committed")
