"""Behind a pooler in transaction mode, with prepare=no: everything works as without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import psycopg
import pytest

from ledgerstone import Store
from ledgerstone.engines.postgres.backend import open_postgres
from ledgerstone.errors import LedgerstoneError
from ledgerstone.testing.faults.postgres_load import Load
from ledgerstone.testing.faults.postgres_pooler import Pooler
from ledgerstone.testing.on_loop import OnLoop
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.servers.pgbouncer import pgbouncer, program
from tests.faults import api_calls

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(900)]

POOLERS = ("simulated pooler", "pgbouncer")
FACES = ("blocking", "async")
every_pooler = pytest.mark.parametrize("kind", POOLERS)


@contextmanager
def pooled(kind: str, url: str) -> Iterator[str]:
    """The url through a pooler."""
    if kind == "simulated pooler":
        with Pooler(url) as pooler:
            yield pooler.url
            assert pooler.transactions
        return
    if program() is None:
        pytest.skip("not run: pgbouncer is not installed (apt-get install pgbouncer)")
    with pgbouncer(url) as address:
        yield address


def unprepared(url: str) -> str:
    return url + ("&" if "?" in url else "?") + "prepare=no"


@every_pooler
@pytest.mark.parametrize("face", FACES)
def test_every_call_of_the_api(
    kind: str, face: str, postgres_url: str, scoreboard: Scoreboard
) -> None:
    """The same calls with the same answers or errors as on a connection of one's own."""
    title = f"every call of the API behind a {kind} ({face})"
    with scoreboard.line(title, "postgres") as line:
        with pooled(kind, postgres_url) as url, closing(open_postgres(unprepared(url))) as backend:
            store = Store(OnLoop(backend) if face == "async" else backend)
            api_calls.prepare(store)
            for name, call in {**api_calls.READS, **api_calls.WRITES}.items():
                line.n += 1
                try:
                    call(store, "s")
                except LedgerstoneError as error:
                    if "postgres:" in str(error) or error.retryable:
                        line.violations.append(f"{name}: {type(error).__name__}: {error}")
                except TypeError as error:
                    if name != "sessions.list filter":  # There is no filter of that name.
                        line.violations.append(f"{name}: {error}")
            store.close()
        with Store.open(postgres_url) as straight:
            assert straight.admin.verify().ok


@every_pooler
def test_many_callers_share_few_connections(
    kind: str, postgres_url: str, scoreboard: Scoreboard, scale: Scale
) -> None:
    with scoreboard.line(f"8 callers behind a {kind}", "postgres") as line:
        with pooled(kind, postgres_url) as url:
            with Load(partial(open_postgres, unprepared(url)), callers=8) as load:
                load.wait_for(scale(150, 5_000))
            line.n = load.tally.acked
        with closing(open_postgres(postgres_url)) as backend:
            line.violations = load.judge(backend)
        line.violations += load.tally.again


# --- negative controls


def test_control_two_transactions_meet_two_servers(
    postgres_url: str, scoreboard: Scoreboard
) -> None:
    """What breaks behind a pooler does break here: settings and prepared statements."""
    with (
        scoreboard.line(
            "simulated pooler, what outlives a transaction", "postgres", control=True
        ) as line,
        Pooler(postgres_url) as pooler,
        psycopg.connect(pooler.url, autocommit=True) as client,
    ):
        client.execute("set search_path = elsewhere")
        path = client.execute("show search_path").fetchone()
        if path != ("elsewhere",):
            line.violations.append(f"the setting is gone: {path}")
        client.execute("prepare mine as select 1")
        try:
            client.execute("execute mine")
        except psycopg.Error as error:
            line.violations.append(f"the statement is gone: {error}")
        line.n = 2
        assert len(line.violations) == line.n


def test_control_prepared_statements_are_refused_with_a_hint(
    postgres_url: str, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("simulated pooler, prepare=yes", "postgres", control=True) as line,
        Pooler(postgres_url) as pooler,
    ):
        with pytest.raises(LedgerstoneError, match="prepare=no") as caught:
            open_postgres(pooler.url)
        line.violations.append(str(caught.value))
        line.n = 1
