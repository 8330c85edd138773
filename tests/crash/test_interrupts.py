"""KeyboardInterrupt and MemoryError at every statement and every instruction of a write.

Nothing of the interrupted command stays, its neighbours keep what is theirs, and the store can
be used by the next caller at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from ledgerstone.backends.sqlite import SqliteBackend, open_sqlite
from ledgerstone.backends.sqlite_connection import SqliteTx, connect
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.errors import OutcomeUnknown, RevisionMoved, Unavailable
from ledgerstone.sql.handlers import WRITES
from ledgerstone.testing.faults.histories import read_back
from ledgerstone.testing.faults.processes import Child
from tests.crash import plays
from tests.crash.failing import Interrupter, Trap
from tests.crash.plays import TENANT, commit_of

WAIT_S = 5.0
STATEMENTS_MAX = 100
# Python 3.11 shows a tracer about 50 of them, 3.13 only those of the outer frames.
LEAST_PLACES = 5
PLACES_MAX = 2000
ENGINE = ("sqlite.py", "sqlite_writer.py", "sqlite_connection.py", "file_lock.py")

errors = pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
# An interrupt between making a coroutine and running it leaves one that never ran.
never_awaited = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
moments = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


class Hung(AssertionError):
    """A call did not come back."""


def within(call: Callable[[], Any]) -> Any:
    """The outcome of a call in a thread of its own; Hung when it does not come back."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    if not found:
        raise Hung("a call never came back")
    return found[0]


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    opened = open_sqlite(str(tmp_path / "store.db"))
    opened.write(commit_of("s", "first", "one", "two"))
    yield opened
    closed = within(opened.close)
    assert closed is None, closed


def armed(monkeypatch: pytest.MonkeyPatch, error: type[BaseException], after: bool) -> Trap:
    """Every commit whose turn is called `victim...` meets the error at statement `trap.at`."""
    trap = Trap(WRITES[CommitTurn], lambda one: one.turn.startswith("victim"), error, after=after)
    monkeypatch.setitem(WRITES, CommitTurn, trap)
    return trap


def victim(n: int, session: str = "s") -> CommitTurn:
    return commit_of(session, f"victim {n}", "half", "of", "it")


def turns_of(backend: SqliteBackend, session: str = "s") -> list[str]:
    found = read_back(backend, TENANT, session)
    assert found.defects == []
    assert [turn.revision for turn in found.turns] == list(range(1, found.revision + 1))
    return [turn.turn for turn in found.turns]


# --- at every statement, alone


@errors
@moments
def test_a_blocking_write_alone(
    backend: SqliteBackend,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    after: bool,
) -> None:
    trap = armed(monkeypatch, error, after)
    for n in range(1, STATEMENTS_MAX):
        trap.at = n
        outcome = within(partial(backend.write, victim(n)))
        if not trap.sprung:
            break
        assert isinstance(outcome, error)
        assert f"victim {n}" not in turns_of(backend)
        trap.at = 0
        answer = within(partial(backend.write, victim(n)))
        assert not answer.replayed
        assert turns_of(backend).count(f"victim {n}") == 1
    assert n > 3


@errors
def test_an_async_write_alone(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    trap = armed(monkeypatch, error, after=True)

    async def main() -> int:
        for n in range(1, STATEMENTS_MAX):
            trap.at = n
            try:
                await asyncio.wait_for(backend.awrite(victim(n)), WAIT_S)
                return n
            except TimeoutError:
                raise Hung(f"statement {n}: the async write never came back") from None
            except (error, OutcomeUnknown, Unavailable):
                trap.at = 0
            answer = await asyncio.wait_for(backend.awrite(victim(n)), WAIT_S)
            assert not answer.replayed
        raise AssertionError("no end")

    assert asyncio.run(main()) > 3
    assert len(turns_of(backend)) == len(set(turns_of(backend)))


# --- at every statement, in a group


@errors
@moments
def test_neighbours_in_a_group_keep_their_own_outcome(
    backend: SqliteBackend,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    after: bool,
) -> None:
    """Three good ones, one that must fail by rule, and the victim between them."""
    trap = armed(monkeypatch, error, after)
    for n in range(1, STATEMENTS_MAX):
        trap.at = n
        commands = [
            commit_of("a", f"a {n}", "x", "y"),
            commit_of("b", f"b {n}", "x", guard=Guard(revision=10_000)),
            victim(n),
            commit_of("s", f"c {n}", "x", "y"),
            commit_of("d", f"d {n}", "x"),
        ]
        a, b, hit, c, d = in_one_group(backend, commands)
        if not trap.sprung:
            break
        trap.at = 0
        assert isinstance(hit, (error, OutcomeUnknown, Unavailable))
        assert f"victim {n}" not in turns_of(backend)
        for command, outcome in zip(
            (commands[0], commands[3], commands[4]), (a, c, d), strict=True
        ):
            check_neighbour(backend, command, outcome, error)
        assert isinstance(b, (RevisionMoved, OutcomeUnknown, Unavailable))
        assert not backend.write(victim(n)).replayed
    assert n > 3


def check_neighbour(
    backend: SqliteBackend, command: CommitTurn, outcome: Any, error: type[BaseException]
) -> None:
    """Committed and answered, or nothing of it: then a repeat makes it, once."""
    there = command.turn in turns_of(backend, command.session)
    if issubclass(error, Exception):
        assert not isinstance(outcome, BaseException), "only the guilty one fails"
    if isinstance(outcome, BaseException):
        assert isinstance(outcome, (error, OutcomeUnknown, Unavailable))
        assert backend.write(command).replayed is there
    else:
        assert there
    assert turns_of(backend, command.session).count(command.turn) == 1


def in_one_group(backend: SqliteBackend, commands: list[CommitTurn]) -> list[Any]:
    """The outcomes of commands that all wait while the writer is held up, so that they meet."""
    held, go = threading.Event(), threading.Event()

    def hold(connection: apsw.Connection) -> None:
        held.set()
        go.wait(WAIT_S)

    async def main() -> list[Any]:
        holder = threading.Thread(target=backend._writer.run_alone, args=(hold,))
        holder.start()
        held.wait(WAIT_S)
        waiting = [asyncio.ensure_future(backend.awrite(command)) for command in commands]
        await asyncio.sleep(0)
        go.set()
        _, pending = await asyncio.wait(waiting, timeout=WAIT_S)
        holder.join()
        if pending:
            raise Hung(f"{len(pending)} of {len(waiting)} waiters were never answered")
        return [one.exception() or one.result() for one in waiting]

    return asyncio.run(main())


@errors
def test_the_writer_thread_survives(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Whatever is raised outside a handler, later async writes are still served."""
    real = backend._writer._commit_group
    failing = iter([True])

    def commit_group(group: list[Any]) -> None:
        if next(failing, False):
            raise error
        real(group)

    monkeypatch.setattr(backend._writer, "_commit_group", commit_group)
    first = in_one_group(backend, [victim(1), commit_of("a", "a", "x")])
    assert all(isinstance(one, (error, OutcomeUnknown, Unavailable)) for one in first)
    again = in_one_group(backend, [victim(1), commit_of("a", "a", "x")])
    assert [one.replayed for one in again] == [False, False]


# --- at every instruction where CPython looks for a signal


def interrupt_everywhere(
    backend: SqliteBackend, call: Callable[[int], Any], check: Callable[[int, str], None]
) -> int:
    """Interrupt `call(n)` at its n-th place, then check; how many places there were."""
    for n in range(1, PLACES_MAX):

        def interrupted(n: int = n) -> str:
            # What a callback of the driver swallows is still a place that was tried.
            with Interrupter(ENGINE, n) as interrupter, suppress(KeyboardInterrupt):
                call(n)
            return interrupter.where

        where = within(interrupted)
        check(n, where)
        if not where:
            return n
    raise AssertionError("no end")


@never_awaited
def test_a_blocking_write_interrupted_anywhere(backend: SqliteBackend) -> None:
    broken: list[str] = []

    def check(n: int, where: str) -> None:
        assert isinstance(where, str), where
        broken.extend(f"place {n}, {where}: {text}" for text in trouble(backend, n))

    places = interrupt_everywhere(backend, lambda n: backend.write(victim(n)), check)
    print(f"{places} places")
    assert places > LEAST_PLACES
    assert broken == []


def trouble(backend: SqliteBackend, n: int) -> Iterator[str]:
    """What is wrong with a store in which a write was interrupted."""
    raw = apsw.Connection(backend._path)
    try:
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("ROLLBACK")
    except apsw.BusyError:
        yield "a transaction was left open"
        backend._writer._connection.execute("ROLLBACK")
    finally:
        raw.close()
    outcome = within(lambda: backend.write(victim(n)))
    if isinstance(outcome, BaseException):
        yield f"the repeat fails: {outcome!r}"
    elif turns_of(backend).count(f"victim {n}") != 1:
        yield "the turn is not there once"


@never_awaited
def test_a_read_interrupted_anywhere(backend: SqliteBackend) -> None:
    broken: list[str] = []

    def check(n: int, where: str) -> None:
        assert isinstance(where, str), where
        for _ in range(3):
            outcome = within(lambda: turns_of(backend))
            if isinstance(outcome, BaseException):
                broken.append(f"place {n}, {where}: {outcome!r}")

    assert interrupt_everywhere(backend, lambda n: turns_of(backend), check) > 10
    assert broken == []


@never_awaited
def test_waiters_of_an_interrupted_thread_are_answered(backend: SqliteBackend) -> None:
    """Ctrl-C in the thread that carries out everybody's commands: nobody else waits for ever."""

    def call(n: int) -> None:
        writer = backend._writer
        with writer._lock:
            waiting[:] = [
                threading.Thread(target=_swallow, args=(backend, commit_of(f"n{k}", f"{n}", "x")))
                for k in range(3)
            ]
            for thread in waiting:
                thread.start()
            while len(writer._waiting) < len(waiting):
                threading.Event().wait(0.0001)
            writer._run_group()

    waiting: list[threading.Thread] = []

    def check(n: int, where: str) -> None:
        for thread in waiting:
            thread.join(WAIT_S / 5)
            if thread.is_alive():
                pytest.fail(f"place {n}, {where}: a neighbour hangs")

    assert interrupt_everywhere(backend, call, check) > LEAST_PLACES


def _swallow(backend: SqliteBackend, command: Command[Any]) -> None:
    try:
        backend.write(command)
    except (OutcomeUnknown, Unavailable):
        backend.write(command)


# --- a real signal


@pytest.mark.crash
def test_control_c_while_waiting_for_another_process(tmp_path: Path) -> None:
    """The signal is seen when the lock was granted: the granted transaction must not stay open."""
    path = str(tmp_path / "store.db")
    with closing(open_sqlite(path)) as backend:
        backend.write(commit_of("s", "first", "one"))
    blocker = apsw.Connection(path)
    blocker.execute("BEGIN IMMEDIATE")
    child = Child(plays.wait_for_lock, path)
    try:
        heard = child.hear(60.0)
        assert next(heard) == b"waiting"
        threading.Event().wait(0.3)
        os.kill(child.pid, signal.SIGINT)
        threading.Event().wait(0.1)
        blocker.execute("ROLLBACK")
        assert next(heard) == b"KeyboardInterrupt"
        assert next(heard) == b"committed"
    finally:
        child.kill()
        blocker.close()
    with closing(open_sqlite(path)) as backend:
        assert turns_of(backend)[-1] == "after"


# --- negative controls


def test_control_the_trap_springs_at_each_statement(backend: SqliteBackend) -> None:
    seen: list[int] = []

    async def handler(tx: Any, command: Any) -> str:
        for n in range(3):
            await tx.one("list_tenants")
            seen.append(n)
        return "done"

    trap = Trap(handler, lambda command: True, MemoryError, after=False)
    tx = SqliteTx(connect(backend._path))
    for trap.at in (1, 2, 3, 4):
        seen.clear()
        try:
            asyncio.run(trap(tx, None))
        except MemoryError:
            assert trap.sprung
            assert len(seen) == trap.at - 1
    assert not trap.sprung
    assert len(seen) == 3


def test_control_an_open_transaction_is_found(backend: SqliteBackend) -> None:
    backend._writer._connection.execute("BEGIN IMMEDIATE")
    assert list(trouble(backend, 1)) == ["a transaction was left open"]
