"""Ctrl-C at every instruction of a call where CPython looks for a signal, and a real one.

Nothing of the interrupted command stays, nobody waits for ever, and the store can be used by the
next caller at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from ledgerstone.commands import Command
from ledgerstone.engines.sqlite.backend import SqliteBackend, open_sqlite
from ledgerstone.errors import OutcomeUnknown, Unavailable
from ledgerstone.testing.faults.commits import commit_of
from ledgerstone.testing.faults.processes import Child
from ledgerstone.testing.scoreboard import Scoreboard
from tests.crash import plays
from tests.crash.failing import Interrupter
from tests.crash.interrupted import WAIT_S, turns_of, victim, within

pytestmark = pytest.mark.faults

# Python 3.11 shows a tracer about 50 of them, 3.13 only those of the outer frames.
LEAST_PLACES = 5
PLACES_MAX = 2000
ENGINE = (
    "sqlite/backend.py",
    "sqlite/reads.py",
    "sqlite/writer.py",
    "sqlite/connection.py",
    "sqlite/lock.py",
    "sqlite/entry.py",
)

# An interrupt between making a coroutine and running it leaves one that never ran.
never_awaited = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


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
def test_a_blocking_write_interrupted_anywhere(
    backend: SqliteBackend, scoreboard: Scoreboard
) -> None:
    with scoreboard.line("Ctrl-C at every instruction: write", "sqlite") as line:
        broken: list[str] = []

        def check(n: int, where: str) -> None:
            assert isinstance(where, str), where
            broken.extend(f"place {n}, {where}: {text}" for text in trouble(backend, n))

        places = interrupt_everywhere(backend, lambda n: backend.write(victim(n)), check)
        line.n, line.violations = places, broken
        assert places > LEAST_PLACES


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
def test_a_read_interrupted_anywhere(backend: SqliteBackend, scoreboard: Scoreboard) -> None:
    with scoreboard.line("Ctrl-C at every instruction: read", "sqlite") as line:
        broken: list[str] = []

        def check(n: int, where: str) -> None:
            assert isinstance(where, str), where
            for _ in range(3):
                outcome = within(lambda: turns_of(backend))
                if isinstance(outcome, BaseException):
                    broken.append(f"place {n}, {where}: {outcome!r}")

        line.n = interrupt_everywhere(backend, lambda n: turns_of(backend), check)
        line.violations += broken
        assert line.n > 10


@never_awaited
def test_waiters_of_an_interrupted_thread_are_answered(
    backend: SqliteBackend, scoreboard: Scoreboard
) -> None:
    """Ctrl-C in the thread that carries out everybody's commands: nobody else waits for ever."""

    with scoreboard.line("Ctrl-C at every instruction: others wait", "sqlite") as line:

        def call(n: int) -> None:
            writer = backend._writer
            with writer._lock:
                waiting[:] = [
                    threading.Thread(
                        target=_swallow, args=(backend, commit_of(f"n{k}", f"{n}", "x"))
                    )
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

        line.n = interrupt_everywhere(backend, call, check)
        assert line.n > LEAST_PLACES


def _swallow(backend: SqliteBackend, command: Command[Any]) -> None:
    try:
        backend.write(command)
    except (OutcomeUnknown, Unavailable):
        backend.write(command)


# --- a real signal


@pytest.mark.crash
def test_control_c_while_waiting_for_another_process(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    """The signal is seen when the lock was granted: the granted transaction must not stay open."""
    with scoreboard.line("Ctrl-C while waiting for another process", "sqlite") as line:
        path = str(tmp_path / "store.db")
        with closing(open_sqlite(path)) as backend:
            backend.write(commit_of("s", "first", "one"))
        blocker = apsw.Connection(path)
        child = Child(plays.wait_for_lock, path)
        try:
            heard = child.hear(60.0)
            assert next(heard) == b"open"
            blocker.execute("BEGIN IMMEDIATE")
            Path(path + ".held").touch()
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
        line.n = 1


# --- negative control


def test_control_an_open_transaction_is_found(
    backend: SqliteBackend, scoreboard: Scoreboard
) -> None:
    with scoreboard.line("interrupts, a transaction stays open", "sqlite", control=True) as line:
        backend._writer._connection.execute("BEGIN IMMEDIATE")
        line.n, line.violations = 1, list(trouble(backend, 1))
        assert line.violations == ["a transaction was left open"]
