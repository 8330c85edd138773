"""Ctrl-C, cancelled tasks and errors at every step: no connection, place or transaction is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any

import psycopg
import pytest

from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.errors import OutcomeUnknown, Unavailable
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.testing.faults.cancels import MODES, Mode, cut_everywhere
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.crash.failing import Interrupter, StatementTrap
from tests.crash.interrupted import turns_of, victim, within

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(900)]

POOL_SIZE = 3
STATEMENTS_MAX = 100
PLACES_MAX = 3000
ENGINE = (
    *("postgres/backend.py", "drivers/pool.py", "drivers/psycopg.py", "postgres/interactive.py"),
    *("postgres/transaction.py", "planned/outcomes.py", "postgres/rows.py"),
    *("postgres/writing.py", "postgres/overrides.py", "postgres/connections.py"),
)
OPEN = """
select state, query from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'
  and backend_type = 'client backend'
"""
LOCKS = """
select count(*) from pg_locks where locktype = 'advisory' and database =
  (select oid from pg_database where datname = current_database())
"""
never_awaited = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def backend(postgres_url: str) -> Iterator[PostgresBackend]:
    with closing(open_postgres(postgres_url, pool_size=POOL_SIZE)) as opened:
        opened.write(commit_of("s", "first", "one", "two"))
        yield opened


def left_behind(url: str) -> Iterator[str]:
    """Transactions that nobody ends, and locks that nobody gives back."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(100):
            found = connection.execute(OPEN).fetchall()
            locks = connection.execute(LOCKS).fetchone()
            if not found and locks == (0,):
                return
            connection.execute("select pg_sleep(0.02)")
        yield f"still there: {found}, {locks} locks"


def all_places(backend: PostgresBackend) -> Iterator[str]:
    """As many calls at once as the pool has places, each with a connection of its own."""
    pool = backend._blocking.pool
    free = pool.driver._places.free  # type: ignore[attr-defined]
    if free != POOL_SIZE:
        yield f"{free} of {POOL_SIZE} places are free"


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_error_at_every_statement(
    backend: PostgresBackend,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    after: bool,
    scoreboard: Scoreboard,
) -> None:
    title = f"{error.__name__} {'after' if after else 'before'} every statement: write"
    with scoreboard.line(title, "postgres") as line:
        trap = StatementTrap(
            HANDLERS[CommitTurn], lambda one: one.turn.startswith("victim"), error, after=after
        )
        monkeypatch.setitem(HANDLERS, CommitTurn, trap)
        for n in range(1, STATEMENTS_MAX):
            trap.at = n
            outcome = within(partial(backend.write, victim(n)))
            if not trap.sprung:
                break
            trap.at = 0
            line.n = n
            if not isinstance(outcome, error):
                line.violations.append(f"statement {n}: {outcome!r}")
            if f"victim {n}" in turns_of(backend):
                line.violations.append(f"statement {n}: the turn is there")
        line.violations += [*left_behind(postgres_url), *all_places(backend)]
        assert line.n >= 3


@never_awaited
@pytest.mark.parametrize("kind", ["write", "read"])
def test_ctrl_c_at_every_instruction(
    kind: str,
    backend: PostgresBackend,
    postgres_url: str,
    scoreboard: Scoreboard,
    scale: Scale,
) -> None:
    """The same call again does it once, whatever it had done before."""
    with scoreboard.line(f"Ctrl-C at every instruction: {kind}", "postgres") as line:
        query = GetHead(tenant=TENANT, id="s")
        calls: dict[str, Callable[[int], Any]] = {
            "write": lambda n: backend.write(victim(n)),
            "read": lambda n: backend.read([query, query]),
        }
        for n in range(1, PLACES_MAX, scale(9, 1)):

            def interrupted(n: int = n) -> str:
                with Interrupter(ENGINE, n) as interrupter, suppress(KeyboardInterrupt):
                    calls[kind](n)
                return interrupter.where

            where = within(interrupted)
            outcome = within(partial(calls[kind], n))
            if isinstance(outcome, BaseException):
                line.violations.append(f"place {n}, {where}: the repeat got {outcome!r}")
            line.n += 1
            if not where:
                break
        turns = turns_of(backend)
        if len(turns) != len(set(turns)) or len(turns) != (1 + line.n if kind == "write" else 1):
            line.violations.append(f"{len(turns)} turns after {line.n} calls")
        line.violations += [*left_behind(postgres_url), *all_places(backend)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["write", "read"])
def test_cancelled_at_every_await(
    kind: str, mode: Mode, backend: PostgresBackend, postgres_url: str, scoreboard: Scoreboard
) -> None:
    """Below the shield: what happens when the loop itself ends."""
    with scoreboard.line(f"cancelled at every await: {kind} ({mode})", "postgres") as line:

        async def main() -> None:
            query = GetHead(tenant=TENANT, id="s")
            slow = backend._on_loop().slow
            makes: dict[str, Callable[[int], Any]] = {
                "write": lambda n: slow.write(victim(n)),
                "read": lambda n: slow.read([query, query]),
            }
            async for cut in cut_everywhere(makes[kind], mode):
                line.n += 1
                try:
                    await asyncio.wait_for(makes[kind](cut.at), 20)
                except (Unavailable, OutcomeUnknown, TimeoutError) as error:
                    line.violations.append(f"await {cut.at}: the repeat got {error!r}")
            places = slow.pool.driver._places  # type: ignore[attr-defined]
            if places.free != POOL_SIZE:
                line.violations.append(f"{places.free} of {POOL_SIZE} places are free")
            backend._of_loops[asyncio.get_running_loop()].close()
            await asyncio.sleep(0.05)

        asyncio.run(main())
        turns = turns_of(backend)
        if len(turns) != (1 + line.n if kind == "write" else 1):
            line.violations.append(f"{len(turns)} turns after {line.n} calls")
        line.violations += left_behind(postgres_url)


# --- negative control


def test_control_an_open_transaction_is_found(
    backend: PostgresBackend, postgres_url: str, scoreboard: Scoreboard
) -> None:
    with scoreboard.line("interrupts, what is left behind", "postgres", control=True) as line:
        place = backend._blocking.pool.driver._places.take()  # type: ignore[attr-defined]
        with psycopg.connect(postgres_url) as other:
            other.execute("select pg_advisory_xact_lock(1)")
            line.violations += [*left_behind(postgres_url), *all_places(backend)]
        place.leave()
        line.n = 2
        assert len(line.violations) == line.n
