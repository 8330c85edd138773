"""KeyboardInterrupt and MemoryError at every statement of a write.

Nothing of the interrupted command stays, its neighbours keep what is theirs, and the store can
be used by the next caller at once. For every instruction see test_ctrl_c.py.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import apsw
import pytest

from ledgerstone.commands import Guard
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.sqlite.backend import SqliteBackend
from ledgerstone.engines.sqlite.connection import Reader, connect
from ledgerstone.errors import OutcomeUnknown, RevisionMoved, Unavailable
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.tables.sessions import SESSIONS
from ledgerstone.tables.transaction import Tx
from ledgerstone.testing.faults.commits import commit_of
from ledgerstone.testing.scoreboard import Scoreboard
from tests.crash.failing import Trap, WritingTrap
from tests.crash.interrupted import WAIT_S, Hung, turns_of, victim, within

pytestmark = pytest.mark.faults

STATEMENTS_MAX = 100

errors = pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
moments = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


def armed(monkeypatch: pytest.MonkeyPatch, error: type[BaseException], after: bool) -> Trap:
    """Every commit whose turn is called `victim...` meets the error at statement `trap.at`."""
    trap = Trap(HANDLERS[CommitTurn], lambda one: one.turn.startswith("victim"), error, after=after)
    monkeypatch.setitem(HANDLERS, CommitTurn, trap)
    return trap


# --- at every statement, alone


@errors
@moments
def test_a_blocking_write_alone(
    backend: SqliteBackend,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    after: bool,
    scoreboard: Scoreboard,
) -> None:
    with scoreboard.line(
        f"{error.__name__} {'after' if after else 'before'} every statement: blocking write",
        "sqlite",
    ) as line:
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
        line.n = n


@errors
def test_an_async_write_alone(
    backend: SqliteBackend,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    scoreboard: Scoreboard,
) -> None:
    with scoreboard.line(f"{error.__name__} after every statement: async write", "sqlite") as line:
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

        line.n = asyncio.run(main())
        assert line.n > 3
        assert len(turns_of(backend)) == len(set(turns_of(backend)))


@errors
@moments
def test_a_write_whose_statements_fail(
    backend: SqliteBackend,
    error: type[BaseException],
    after: bool,
    scoreboard: Scoreboard,
) -> None:
    """Also those that carry out what the handler has written."""
    with scoreboard.line(
        f"{error.__name__} {'after' if after else 'before'} every statement of the writer", "sqlite"
    ) as line:
        trap = WritingTrap(backend._writer._rows, error, after=after)
        for n in range(1, STATEMENTS_MAX):
            trap.set(n)
            outcome = within(partial(backend.write, victim(n)))
            if trap.steps.count < n:
                break
            trap.set(0)
            assert isinstance(outcome, (error, Unavailable))
            assert f"victim {n}" not in turns_of(backend)
            assert not within(partial(backend.write, victim(n))).replayed
            assert turns_of(backend).count(f"victim {n}") == 1
        assert n > 3
        line.n = n


# --- at every statement, in a group


@errors
@moments
def test_neighbours_in_a_group_keep_their_own_outcome(
    backend: SqliteBackend,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    after: bool,
    scoreboard: Scoreboard,
) -> None:
    """Three good ones, one that must fail by rule, and the victim between them."""
    with scoreboard.line(
        f"{error.__name__} {'after' if after else 'before'} every statement: group", "sqlite"
    ) as line:
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
        line.n = n


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
    backend: SqliteBackend,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    scoreboard: Scoreboard,
) -> None:
    """Whatever is raised outside a handler, later async writes are still served."""
    with scoreboard.line(f"{error.__name__} in the writer thread", "sqlite") as line:
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
        line.n = len(first) + len(again)


# --- negative controls


def test_control_the_trap_springs_at_each_statement(
    backend: SqliteBackend, scoreboard: Scoreboard
) -> None:
    with scoreboard.line("interrupts, the trap springs", "sqlite", control=True) as line:
        seen: list[int] = []

        async def handler(tx: Any, command: Any) -> str:
            for n in range(3):
                await tx.get(SESSIONS, n)
                seen.append(n)
            return "done"

        trap = Trap(handler, lambda command: True, MemoryError, after=False)
        tx = Tx(Reader(connect(backend._path)).rows, 0)
        for trap.at in (1, 2, 3, 4):
            seen.clear()
            try:
                asyncio.run(trap(tx, None))
            except MemoryError as error:
                assert trap.sprung
                assert len(seen) == trap.at - 1
                line.violations.append(f"statement {trap.at}: {type(error).__name__}")
        assert not trap.sprung
        assert len(seen) == 3
        line.n = 4
