"""Servers that are killed, restarted and replaced under load: what was answered stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from random import Random
from urllib.parse import urlsplit

import pytest

from ledgerstone.engines.postgres.backend import open_postgres
from ledgerstone.testing.faults.postgres_load import Load
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from ledgerstone.testing.servers.postgres import PostgresServer

pytestmark = [pytest.mark.faults, pytest.mark.crash, pytest.mark.timeout(1800)]

TURNS = (5, 120)
"""So many turns are answered before the next blow."""
LATE = {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
"""A server that answers before anything is on the disk."""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as one:
        yield one


def note(load: Load, line: Line) -> None:
    tally = load.tally
    line.note = f"{tally.acked:,} turns, {tally.replayed} replayed, {len(tally.again)} sent again"
    print(sorted(set(tally.again))[:10])


def both(first: PostgresServer, second: PostgresServer, url: str) -> str:
    """One url for two servers: whichever takes writes."""
    database = urlsplit(url).path
    hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
    return f"postgresql://postgres@{hosts}{database}?target_session_attrs=read-write"


def test_a_killed_server_keeps_what_it_answered(
    server: PostgresServer, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    url, random = server.create_database("killed"), Random(seed)
    with scoreboard.line("kill -9 of the server under load", "postgres", seed) as line:
        with Load(partial(open_postgres, url)) as load:
            for line.n in range(1, scale(3, 50) + 1):
                load.wait_for(random.randint(*TURNS))
                server.restart(hard=True)
            load.wait_for(TURNS[0])
        with closing(open_postgres(url)) as backend:
            line.violations = load.judge(backend)
        note(load, line)


def test_a_restart_is_not_noticed(
    server: PostgresServer, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    """Shut down and started again, the calls of that moment take longer and nothing else."""
    url, random = server.create_database("restarted"), Random(seed)
    with scoreboard.line("restart of the server under load", "postgres", seed) as line:
        with Load(partial(open_postgres, url)) as load:
            for line.n in range(1, scale(2, 20) + 1):
                load.wait_for(random.randint(*TURNS))
                server.restart()
            load.wait_for(TURNS[0])
        with closing(open_postgres(url)) as backend:
            line.violations = load.judge(backend)
        note(load, line)
        line.violations += [f"a caller was told: {text}" for text in load.tally.again]


def test_a_promoted_standby_has_what_was_answered(
    seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    """The primary dies, its synchronous standby takes over, and everybody goes on there."""
    random = Random(seed)
    with scoreboard.line("primary killed, standby promoted", "postgres", seed) as line:
        for line.n in range(1, scale(1, 5) + 1):
            with PostgresServer() as primary:
                url = primary.create_database("replaced")
                standby = primary.standby()
                with Load(partial(open_postgres, both(primary, standby, url))) as load:
                    load.wait_for(random.randint(*TURNS))
                    primary.kill()
                    standby.promote()
                    load.wait_for(TURNS[1])
                with closing(open_postgres(standby.url("replaced"))) as backend:
                    line.violations += load.judge(backend)
                note(load, line)


# --- negative controls


def test_control_an_answer_before_the_disk_is_found_out(seed: int, scoreboard: Scoreboard) -> None:
    with (
        scoreboard.line("kill -9 of a server that answers early", "postgres", control=True) as line,
        PostgresServer(settings=LATE) as server,
    ):
        url = server.create_database("late")
        with Load(partial(open_postgres, url, durability="process")) as load:
            load.wait_for(TURNS[1])
            server.restart(hard=True)
        with closing(open_postgres(url, durability="process")) as backend:
            line.violations = [one for one in load.judge(backend) if "lost" in one]
        line.n = load.tally.acked


def test_control_a_standby_that_lags_is_found_out(scoreboard: Scoreboard) -> None:
    with (
        scoreboard.line("primary killed, standby lags", "postgres", control=True) as line,
        PostgresServer() as primary,
    ):
        url = primary.create_database("replaced")
        standby = primary.standby(synchronous=False)
        with Load(partial(open_postgres, both(primary, standby, url))) as load:
            load.wait_for(TURNS[0])
            standby.stop()
            load.wait_for(TURNS[1])
            primary.kill()
            standby.start()
            standby.promote()
        with closing(open_postgres(standby.url("replaced"))) as backend:
            line.violations = [one for one in load.judge(backend) if "lost" in one]
        line.n = load.tally.acked
