"""64 sessions in each of 4 processes: no errors, no deadlocks, and every turn is there."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from random import Random
from urllib.parse import urlsplit

import psycopg
import pytest

from ledgerstone.engines.postgres.backend import open_postgres
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.commits import TENANT
from ledgerstone.testing.faults.histories import read_back
from ledgerstone.testing.faults.postgres_crowd import next_revision, play_of
from ledgerstone.testing.faults.races import Race, one_winner
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from ledgerstone.testing.servers.databases import DatabaseServer
from ledgerstone.testing.servers.places import Places

pytestmark = [pytest.mark.faults, pytest.mark.crash, pytest.mark.timeout(900)]

PROCESSES = 4
SECONDS = (2, 30)


def deadlocks(server: DatabaseServer, url: str) -> int:
    """How many the server has seen in that database; its processes tell when they end."""
    with server.connected() as connection:
        row = connection.execute(
            "select deadlocks from pg_stat_database where datname = %s", [urlsplit(url).path[1:]]
        ).fetchone()
    return int(row[0]) if row else 0


def tally(backend: Backend, turns: dict[str, int], line: Line, nodes: int = 2) -> None:
    """Every turn that was answered is there, and no other."""
    for session, count in sorted(turns.items()):
        found = read_back(backend, TENANT, session)
        if (found.revision, len(found.nodes)) != (count, nodes * count):
            line.violations.append(
                f"{session}: {count} answered, revision {found.revision}, {len(found.nodes)} nodes"
            )
        line.violations += [f"{session}: {one.kind} {one.where}" for one in found.defects]


@pytest.mark.parametrize("conflicts", [False, True], ids=["alone", "conflicts"])
def test_four_processes_with_64_sessions_each(
    conflicts: bool,
    postgres_server: DatabaseServer,
    postgres_places: Places,
    seed: int,
    scoreboard: Scoreboard,
    scale: Scale,
) -> None:
    url = postgres_places.fresh()
    title = "64 sessions x 4 processes" + (", one of ten contended" if conflicts else "")
    with scoreboard.line(title, "postgres", seed) as line:
        with Race(partial(open_postgres, url), PROCESSES) as race:
            play = play_of(scale(*SECONDS), seed, conflicts=conflicts)
            outcomes = race.run(play, 1)[0]
        turns: dict[str, int] = {}
        for one in outcomes:
            line.violations += one.answer.errors if one.won else [f"a process got {one.error}"]
            for session, count in one.answer.turns.items() if one.won else ():
                turns[session] = turns.get(session, 0) + count
        moved = sum(one.answer.moved for one in outcomes if one.won)
        line.n = sum(turns.values())
        line.note = f"{moved} told that the session moved" if conflicts else ""
        with closing(open_postgres(url)) as backend:
            looked_at = Random(seed).sample(sorted(turns), scale(60, len(turns)))
            hot = [session for session in turns if session.startswith("hot")]
            tally(backend, {session: turns[session] for session in {*looked_at, *hot}}, line)
        if found := deadlocks(postgres_server, url):
            line.violations.append(f"{found} deadlocks")
        assert bool(moved) == conflicts


def test_one_of_four_processes_commits_on_a_revision(
    postgres_places: Places, scoreboard: Scoreboard, scale: Scale
) -> None:
    url = postgres_places.fresh()
    with scoreboard.line("same expected revision (4 processes, planned)", "postgres") as line:
        with Race(partial(open_postgres, url), PROCESSES) as race:
            while line.n < scale(200, 10_000):
                for outcomes in race.run(next_revision, 100, line.n):
                    line.n += 1
                    found = one_winner(outcomes, loss="RevisionMoved")
                    line.violations += [f"round {line.n}: {text}" for text in found]
        with closing(open_postgres(url)) as backend:
            tally(backend, {"revisions": line.n}, line, nodes=1)


# --- negative control


def test_control_a_deadlock_is_counted(
    postgres_server: DatabaseServer, postgres_places: Places, scoreboard: Scoreboard
) -> None:
    """Two who lock in opposite order, by hand."""
    url = postgres_places.fresh()
    with scoreboard.line("64 x 4, a deadlock", "postgres", control=True) as line:
        with closing(psycopg.connect(url)) as one, closing(psycopg.connect(url)) as other:
            lock = "select pg_advisory_xact_lock(%s)"
            other.execute("set deadlock_timeout = '10ms'")
            one.execute("set deadlock_timeout = '1h'")
            one.execute(lock, [1])
            other.execute(lock, [2])
            one.pgconn.send_query(b"select pg_advisory_xact_lock(2)")
            with pytest.raises(psycopg.errors.DeadlockDetected):
                other.execute(lock, [1])
        line.n = deadlocks(postgres_server, url)
        line.violations = ["found"] * line.n
