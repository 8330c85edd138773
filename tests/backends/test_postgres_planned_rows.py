"""A planned command writes what the same command writes interactively.

Two stores on PostgreSQL get the same random commands: one plans what it can, the other nothing.
Their answers are those of the oracle, and in the end their rows are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from ledgerstone.backends import postgres_plan
from ledgerstone.backends.postgres import PostgresBackend
from ledgerstone.backends.postgres_line import Job, Line
from ledgerstone.backends.postgres_sections import (
    DROPPED_DRAFTS,
    KEPT_NOTES,
    MOVED_SESSIONS,
    NEW_DOCUMENTS,
    RAISED_LINES,
    SETTLED_LINES,
    USED_DAYS,
    Section,
)
from ledgerstone.backends.postgres_take import is_queued
from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.servers.places import Places
from ledgerstone.testing.wrappers import Wrapper
from tests.machine.machine import Differs, Make, outcome, same
from tests.machine.sparse import SparsePlaces
from tests.machine.test_machine import Narrowing, run
from tests.machine.work_rules import at_work
from tests.postgres_beds import open_store

QUICK, EXAMPLES, CONTROL_EXAMPLES = 6, 30, 60
OTHERWISE = {"turns": {"pos"}}
"""Columns that say when a row was written."""


class Twice(Wrapper):
    """A store, and one beside it that plans nothing; their rows are compared when they close."""

    inner: PostgresBackend

    def __init__(self, planning: PostgresBackend, other: PostgresBackend) -> None:
        super().__init__(planning)
        self.other = other
        face = other._blocking
        face.fast = lambda command: face.queue if is_queued(command) else None  # type: ignore[method-assign]

    def write(self, command: Command[Any]) -> Any:
        theirs = outcome(lambda: self.other.write(command))
        mine = outcome(lambda: self.inner.write(command))
        if not same(mine, theirs):
            raise Differs(f"{command}: {mine}, interactively {theirs}")
        if isinstance(mine, Exception):
            raise mine
        return mine

    def close(self) -> None:
        try:
            wanted, got = rows_of(self.other), rows_of(self.inner)
        finally:
            self.other.close()
            self.inner.close()
        for table, rows in wanted.items():
            if got[table] != rows:
                raise Differs(f"{table}: {got[table]}, interactively {rows}")


def rows_of(backend: PostgresBackend) -> dict[str, list[Any]]:
    with psycopg.connect(backend._target.dsn) as connection:
        connection.execute("set search_path = ledgerstone")
        found = connection.execute(
            "select tablename from pg_tables where schemaname = 'ledgerstone'"
        )
        return {name: rows_in(connection, name) for (name,) in found.fetchall() if name != "store"}


def rows_in(connection: psycopg.Connection[Any], table: str) -> list[Any]:
    cursor = connection.execute(f"select * from {table}")
    names = [column.name for column in cursor.description or ()]
    there = [n for n, name in enumerate(names) if name not in OTHERWISE.get(table, ())]
    return sorted((tuple(row[n] for n in there) for row in cursor.fetchall()), key=repr)


@pytest.fixture(scope="module")
def beside(postgres_places: Places) -> Iterator[Callable[[], str]]:
    """A second store, emptied whenever its url is asked for."""
    url = postgres_places.fresh()
    empty = postgres_places.server.emptying(urlsplit(url).path[1:])

    def emptied() -> str:
        empty()
        return url

    yield emptied
    empty.close()


@pytest.fixture
def subject(postgres_places: Places, beside: Callable[[], str]) -> Make:
    def make(clock: ManualClock) -> Backend:
        planning = open_store(postgres_places.emptied(), clock)
        other = open_store(beside(), clock)
        assert isinstance(planning, PostgresBackend)
        assert isinstance(other, PostgresBackend)
        return Twice(planning, other)

    return make


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Section]:
    """The sections of all plans that were carried out."""
    seen: list[Section] = []
    succeed = Line._succeed

    def noted(line: Line, job: Job, version: int) -> None:
        assert job.plan is not None
        seen.extend(job.plan.writes)
        succeed(line, job, version)

    monkeypatch.setattr(Line, "_succeed", noted)
    return seen


def test_a_few_commands_leave_the_same_rows(
    subject: Make, planned: list[Section], seed: int
) -> None:
    run(subject, seed, QUICK, kind=SparsePlaces, shrink=False)
    assert planned


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("narrow", [None, at_work], ids=["everything", "work"])
def test_planned_rows_are_those_of_the_interactive_way(
    subject: Make, planned: list[Section], narrow: Narrowing | None, seed: int
) -> None:
    run(subject, seed, EXAMPLES, narrow=narrow, kind=SparsePlaces)
    assert len(planned) > EXAMPLES


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "left_out",
    [MOVED_SESSIONS, NEW_DOCUMENTS, USED_DAYS, KEPT_NOTES, DROPPED_DRAFTS, SETTLED_LINES,
     RAISED_LINES],
    ids=lambda section: f"{section.kind}-{section.table.name}",
)  # fmt: skip
def test_a_plan_that_leaves_something_out_is_found(
    subject: Make, left_out: Section, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    settle = postgres_plan._settle

    def forgetful(made: postgres_plan.Plan, *rest: Any) -> None:
        settle(made, *rest)
        made.writes.pop(left_out, None)

    monkeypatch.setattr(postgres_plan, "_settle", forgetful)
    narrow = at_work if left_out in (SETTLED_LINES, RAISED_LINES) else None
    with pytest.raises(Differs):
        run(subject, seed, CONTROL_EXAMPLES, narrow=narrow, kind=SparsePlaces, shrink=False)
