"""A planned command answers, and writes, what the same command does interactively.

Two stores on PostgreSQL get the same random commands: one plans what it can, the other nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import psycopg
import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.engines.postgres.planned import plan as postgres_plan
from ledgerstone.engines.postgres.planned.queue import CommandQueue, PendingCommand
from ledgerstone.engines.postgres.planned.sections import SECTIONS, Section
from ledgerstone.engines.postgres.planned.work_queue import is_queued
from ledgerstone.testing.servers.places import Places
from tests.backends.hot_commands import SESSIONS, HotCommands
from tests.backends.planned import make, verified
from tests.backends.single import outcome

COMMANDS = 400
OTHERWISE = {"turns": {"pos"}}
"""Columns that say when a row was written."""

Seen = Counter[Section]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def planning(postgres_places: Places, clock: ManualClock) -> Iterator[PostgresBackend]:
    backend = open_postgres(postgres_places.fresh(), clock=clock)
    yield backend
    backend.close()


@pytest.fixture
def looking(postgres_places: Places, clock: ManualClock) -> Iterator[PostgresBackend]:
    """Takes work as everybody does, and plans nothing."""
    backend = open_postgres(postgres_places.fresh(), clock=clock)
    face = backend._blocking
    only_work = lambda command: face.queue if is_queued(command) else None  # noqa: E731
    face.fast = only_work  # type: ignore[method-assign]
    yield backend
    backend.close()


@pytest.fixture(autouse=True)
def planned(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The sections of all plans that were carried out."""
    seen, succeed = Seen(), CommandQueue._succeed

    def noted(line: CommandQueue, job: PendingCommand, version: int) -> None:
        assert job.plan is not None
        seen.update(job.plan.writes.keys())
        succeed(line, job, version)

    monkeypatch.setattr(CommandQueue, "_succeed", noted)
    return seen


def compare(
    planning: PostgresBackend, looking: PostgresBackend, clock: ManualClock, seed: int
) -> None:
    print(f"hot commands of seed {seed}")
    random, commands = Random(seed), HotCommands(seed)
    for backend in (planning, looking):
        make(backend, *SESSIONS)
    for command, _ in zip(commands, range(COMMANDS), strict=False):
        wanted, got = outcome(looking, command), outcome(planning, command)
        assert got == wanted, command
        commands.answered(got)
        clock.advance(random.choice((0, 0.01, 0.01, 0.1, 1, 7)))
    assert rows_of(planning) == rows_of(looking)


def rows_of(backend: PostgresBackend) -> dict[str, list[Any]]:
    with psycopg.connect(backend._target.dsn) as connection:
        connection.execute("set search_path = ledgerstone")
        tables = "select tablename from pg_tables where schemaname = 'ledgerstone'"
        names = [name for (name,) in connection.execute(tables).fetchall() if name != "store"]
        return {name: rows_in(connection, name) for name in names}


def rows_in(connection: psycopg.Connection[Any], table: str) -> list[Any]:
    cursor = connection.execute(f"select * from {table}")
    names = [column.name for column in cursor.description or ()]
    there = [n for n, name in enumerate(names) if name not in OTHERWISE.get(table, ())]
    return sorted((tuple(row[n] for n in there) for row in cursor.fetchall()), key=repr)


def test_the_rows_are_those_of_the_interactive_way(
    planning: PostgresBackend,
    looking: PostgresBackend,
    clock: ManualClock,
    planned: Seen,
    seed: int,
) -> None:
    compare(planning, looking, clock, seed)
    assert [section for section in SECTIONS if not planned[section]] == []
    for session in SESSIONS:
        verified(planning, session)


@pytest.mark.parametrize(
    "left_out", SECTIONS[1:], ids=lambda section: f"{section.kind}-{section.table.name}"
)
def test_a_section_that_is_left_out_is_found(
    left_out: Section,
    planning: PostgresBackend,
    looking: PostgresBackend,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    settle = postgres_plan._settle

    def forgetful(made: postgres_plan.Plan, *rest: Any) -> None:
        settle(made, *rest)
        made.writes.pop(left_out, None)

    monkeypatch.setattr(postgres_plan, "_settle", forgetful)
    with pytest.raises(AssertionError):
        compare(planning, looking, clock, seed)
