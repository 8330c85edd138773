"""Two commands at the same moment, where one forbids the other: never both are carried out."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import psycopg
import pytest

from ledgerstone.commands import Command, Guard
from ledgerstone.commands.sessions import (
    CreateSession,
    DeleteSession,
    GetSession,
    PurgeSession,
    PutSession,
)
from ledgerstone.commands.work import (
    Completion,
    CountWork,
    DropDead,
    EnqueueWork,
    FailClaim,
    InterruptWork,
    ListEnded,
    ListWork,
    NewBatch,
    PruneWork,
    ReplayWork,
    TakeWork,
)
from ledgerstone.engines.postgres.backend import PostgresBackend
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.sessions import Session
from ledgerstone.records.work import Taken, WorkCounts
from tests.backends.planned import TENANT, commit
from tests.backends.single import begun, outcome

ROUNDS = 25
FOREVER_US = 1 << 60


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def at_once(
    pool: ThreadPoolExecutor, backend: PostgresBackend, *commands: Command[Any]
) -> list[bool]:
    """Which of them were carried out."""
    barrier = Barrier(len(commands))

    def send(command: Command[Any]) -> bool:
        barrier.wait()
        try:
            return bool(backend.write(command))
        except LedgerstoneError:
            return False

    return list(pool.map(send, commands))


def made(id: str, parent: str | None = None, rule: Any = "no_circle") -> CreateSession:
    session = Session(id=id, parent=parent)
    return CreateSession(tenant=TENANT, session=session, parent_rule=rule)


def session(backend: PostgresBackend, id: str) -> Session | None:
    found: Session | None = backend.read([GetSession(tenant=TENANT, id=id)])[0]
    return found


@pytest.mark.parametrize("n", range(ROUNDS))
class TestFamilies:
    """Promises 210 and 211."""

    def test_two_new_sessions_are_not_each_others_parent(
        self, here: PostgresBackend, pool: ThreadPoolExecutor, n: int
    ) -> None:
        assert sum(at_once(pool, here, made("x", "y"), made("y", "x"))) == 1

    def test_two_that_are_there_are_not(
        self, here: PostgresBackend, pool: ThreadPoolExecutor, n: int
    ) -> None:
        for id in "xy":
            here.write(made(id))
        puts = [
            PutSession(tenant=TENANT, session=Session(id=id, parent=parent), parent_rule="exists")
            for id, parent in ("xy", "yx")
        ]
        assert sum(at_once(pool, here, *puts)) == 1

    def test_two_do_not_close_a_circle_over_others(
        self, here: PostgresBackend, pool: ThreadPoolExecutor, n: int
    ) -> None:
        here.write(made("y", "z"))
        here.write(made("w", "x"))
        assert sum(at_once(pool, here, made("x", "y"), made("z", "w"))) == 1

    def test_a_deleted_session_gets_no_child(
        self, here: PostgresBackend, pool: ThreadPoolExecutor, n: int
    ) -> None:
        here.write(made("p"))
        deleting = DeleteSession(tenant=TENANT, id="p", children="reject")
        assert sum(at_once(pool, here, deleting, made("c", "p", "exists"))) == 1


CHANGED = "update sessions set title = 'new' where id = 'c'"
ONE_MORE = """
create temp table more on commit drop as select * from sessions where id = 'c';
update more set number = number + 9, id = 'g', parent = 'c';
insert into sessions select * from more;
create temp table more_heads on commit drop as
  select h.* from heads h join sessions s using (number) where s.id = 'c';
update more_heads set number = number + 9;
insert into heads select * from more_heads;
"""


class TestChildren:
    """Promise 210: somebody else holds the child when its parent goes."""

    @pytest.fixture(autouse=True)
    def family(self, here: PostgresBackend) -> None:
        here.write(made("p"))
        here.write(made("c", "p"))

    def meanwhile(
        self, pool: ThreadPoolExecutor, here: PostgresBackend, command: Command[Any], change: str
    ) -> Any:
        """What a command answers that had to wait for a change of the child."""
        with psycopg.connect(here._target.dsn) as other:
            other.execute("set search_path = ledgerstone")
            other.execute(
                "select from heads h join sessions s using (number) where s.id = 'c' "
                "for no key update of h"
            )
            later = begun(pool, here, command, other)
            other.execute(change)
            other.commit()
            return later.result(10)

    def test_a_cascade_takes_along_who_was_just_made(
        self, here: PostgresBackend, pool: ThreadPoolExecutor
    ) -> None:
        deleting = DeleteSession(tenant=TENANT, id="p", children="cascade")
        assert self.meanwhile(pool, here, deleting, ONE_MORE) is True
        below = session(here, "g")
        assert below is not None
        assert below.deleted_us is not None

    @pytest.mark.parametrize("kind", [DeleteSession, PurgeSession])
    def test_a_child_that_is_detached_keeps_what_it_got(
        self, here: PostgresBackend, pool: ThreadPoolExecutor, kind: Any
    ) -> None:
        going = kind(tenant=TENANT, id="p", children="detach")
        self.meanwhile(pool, here, going, CHANGED)
        child = session(here, "c")
        assert child is not None
        assert (child.parent, child.title) == (None, "new")


def taken(backend: PostgresBackend, *batches: str) -> Taken:
    for id in batches:
        batch = NewBatch(session="s", id=id, payloads=b"[1]", slot="join", merge="g")
        backend.write(EnqueueWork(tenant=TENANT, batch=batch))
    names = {"owner": "w", "lease_token": "k", "claim": "c", "claim_token": "p"}
    found = backend.write(
        TakeWork(tenant=TENANT, queue="default", ttl_us=60_000_000, max_batches=9, **names)
    )
    assert isinstance(found, Taken)
    return found


def completing(found: Taken) -> Command[Any]:
    guard = Guard(found.lease.fence, found.lease.token)
    done = (Completion(found.claim.id, found.claim.token),)
    return commit("s", "t", nodes=(), guard=guard, complete=done, release=True)


def counts(backend: PostgresBackend) -> WorkCounts:
    found: WorkCounts = backend.read([CountWork(tenant=TENANT, session="s")])[0]
    return found


@pytest.mark.parametrize("n", range(ROUNDS))
class TestEndedWork:
    """Promises 205 to 207."""

    def dead(self, backend: PostgresBackend) -> None:
        backend.write(made("s"))
        claim = taken(backend, "b").claim
        failing = FailClaim(
            tenant=TENANT, session="s", claim=claim.id, token=claim.token, error="x", bury=True
        )
        backend.write(failing)
        assert counts(backend).dead == 1

    def test_a_dead_batch_is_forgotten_once(
        self, here: PostgresBackend, pool: ThreadPoolExecutor, n: int
    ) -> None:
        self.dead(here)
        others = (
            DropDead(tenant=TENANT, batch="b"),
            ReplayWork(tenant=TENANT, batch="b"),
            PruneWork(tenant=TENANT, session="s", before_us=FOREVER_US, limit=9),
        )
        two = others[n % 3], others[(n + 1) % 3]
        assert sum(at_once(pool, here, *two)) == 1
        assert counts(here).dead == 0

    def test_what_is_completed_and_interrupted_ends_once(
        self, here: PostgresBackend, pool: ThreadPoolExecutor, n: int
    ) -> None:
        here.write(made("s"))
        found = taken(here, "b1", "b2")
        interrupting = InterruptWork(tenant=TENANT, session="s", reason="stop")
        assert at_once(pool, here, completing(found), interrupting) == [True, True]
        ended = here.read([ListEnded(tenant=TENANT, session="s", state="done")])[0].items
        assert [one.batch.id for one in ended] == ["b1", "b2"]
        assert (counts(here).done, counts(here).superseded) == (2, 0)
        assert here.read([ListWork(tenant=TENANT, session="s")])[0] == []


def test_what_was_interrupted_meanwhile_is_recorded_as_such(here: PostgresBackend) -> None:
    """A claim that this process knows, and that changed since."""
    here.write(made("s"))
    found = taken(here, "b1", "b2")
    here.write(InterruptWork(tenant=TENANT, session="s", reason="stop"))
    outcome(here, completing(found))
    ended = here.read([ListEnded(tenant=TENANT, session="s", state="done")])[0].items
    assert [one.batch.superseded for one in ended] == ["stop", "stop"]
