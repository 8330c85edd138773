"""Somebody edits what no commit vouches for: its seal no longer fits, and verify says where.

Every sealed column is changed once. What is compared instead of sealed, because every commit writes
it, comes after: times of change, pointers at runs and what the runs wrote. Not covered: rows that
are taken away whole and that nothing else names (a note, a batch of the queue, an attachment).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from ledgerstone import Node, Store, assistant, user
from ledgerstone.clock import ManualClock
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.testing.bed import Bed
from tests.conformance.test_tamper import tamper

NOBODY = ""
"""The session of a defect that belongs to none."""


class Stopped(Exception):
    """What ends the writer of a draft."""


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Bed]:
    path, clock = str(tmp_path / "store.db"), ManualClock()
    with Bed("sqlite", lambda: open_sqlite(path, clock=clock), clock=clock, url=path) as bed:
        fill(bed.store, clock)
        assert bed.store.admin.verify().defects == []
        bed.close()
        yield bed


def fill(store: Store, clock: ManualClock) -> None:
    """Session s (number 1), its copy c (number 2), and what purged sessions leave behind."""
    store.sessions.create(
        id="s", user="ada", app="desk", title="Oslo", model="m", cwd="desk", metadata={"a": 1},
        document={"notes": "of mine"},
    )  # fmt: skip
    store.messages.append("s", user("one", id="m1"), assistant("two", id="m2"))
    store.branches.create("s", "side", at="m1")
    store.messages.amend("m1", session="s", metadata={"v": 1})
    with store.turns.begin("s", run_id="r1") as turn:
        turn.user("three", id="m3")
        turn.ask("c1", tool="pay", arguments={"eur": 1}, id="t1", reason="money", expires_s=60)
        turn.run("running")
        turn.state(mood="good")
    store.nodes.append("s", Node(id="n1", kind="event", body={"x": 1}))
    store.nodes.tombstone("s", ["m2"])
    clock.advance(1)
    store.sessions.copy("s", "c")
    store.nodes.annotate("s", "n1", {"stars": 5})
    with suppress(Stopped), store.turns.begin("s").draft(id="draft") as draft:
        draft.write("never finished " * 100)
        raise Stopped
    store.executions.start("s", id="x1", call_id="c2", tool="mail", message="m3", run_id="r1")
    store.work.enqueue("s", {"task": 0}, id="w0")
    held = store.leases.take("s", owner="ann")
    assert held is not None
    poisoned = store.work.claim(held)
    assert poisoned is not None
    store.work.fail(poisoned, "it never works", bury=True)
    store.leases.release(held)
    store.work.enqueue("s", {"task": 1}, id="w1", key="k1")
    store.attachments.intent("s", "a1", "blob://one")
    store.artifacts.put("chart", b"png", session="s", id="f1", tool="plot")
    store.traces.append("s", {"kind": "k", "name": "grep"}, {"kind": "k", "name": "sed"})
    store.leases.take("s", owner="ann", ttl_s=3600)
    store.runs.create("s", id="r2", agent="planner")
    store.messages.append("old", user("soon gone"), create=True)
    store.runs.create("old", id="kept", agent="archivist")
    store.sessions.purge("old", keep_runs=True)
    clock.advance(1)
    store.sessions.update("s", title="Bergen")


def changes(table: str, where: str, *columns: str) -> dict[str, tuple[str, str]]:
    """One changed column each: as is given, otherwise by one."""
    found = {}
    for column in columns:
        change = column if " = " in column else f"{column} = {column} + 1"
        name = f"{table}.{change.partition(' ')[0]}"
        found[name] = (f"update {table} set {change} where {where}", table)
    return found


OF_S = {
    **changes(
        "sessions", "number = 1", "user = 'eve'", "app = 'fesk'", "title = null",
        "model = null", "cwd = 'tesk'", "status = 'paused'",
        "metadata = x'7b7d'", "parent = 'c'",
        'cause = cast(\'{"kind":"k","id":"i"}\' as blob)', "created_us",
    ),
    **changes("heads", "number = 1", "incarnation", "deleted_us = 5", "fence", "owner = 'eve'",
        "token = 'x'", "claimed_us", "expires_us", "enqueued", "touched_us"),
    **changes("nodes", "key = (1 << 32) + 2", "deleted_us"),
    **changes("branches", "number = 1", "leaf"),
    **changes("amendments", "key >> 32 = 1", "created_us"),
    **changes("notes", "number = 1 and key = 'stars'", "body = x'36'", "format = 'bin'",
        "refs = 'x'", "created_us", "key = 'starz'", "node = 'n2'"),
    **changes("documents", "number = 1 and name = 'document'", "body = x'7b7d'", "name = 'extra'"),
    **changes("runs", "id = 'r2' and key >> 32 = 1", "tenant = 'red'", "status = 'done'",
        "parent_run = 'r1'", "created_us",
        "body = cast(replace(cast(body as text), 'planner', 'plumber') as blob)"),
    **changes("work", "number = 1", "id = 'w2'", "source_key = 'k2'", "payloads = x'5b5d'",
        "claim = 'c'", "claim_fence", "enqueued_us", "seq", "queue = 'q'", "later = 1",
        "priority", "delivery = 'earliest_safe_boundary'", "slot = 'join'", "merge = 'payload'",
        "available_us", "attempts", "max_attempts = null", "backoff_us", "last_error = 'x'",
        "claim_token = 'x'", "claim_owner = 'eve'", "claimed_us", "claim_expires_us",
        "superseded = 'x'"),
    **changes("tickets", "id = 't1'", "id = 't2'", "tenant = 'red'", "run = 'r2'",
        "status = 'resolved'", "reason = 'fun'", "created_us", "expires_us",
        "body = cast(replace(cast(body as text), 'eur', 'usd') as blob)"),
    **changes("executions", "id = 'x1'", "id = 'x2'", "tenant = 'red'", "call = 'c1'",
        "message = 'm1'", "run = 'r2'", "ticket = 't1'", "status = 'succeeded'", "fence = 1",
        "created_us", "body = cast(replace(cast(body as text), 'mail', 'pale') as blob)"),
    **changes("ended_work", "number = 1", "id = 'w4'", "seq", "state = 'superseded'", "ended_us",
        "reason = 'x'", "body = x'7b7d'", "tenant = 'red'"),
}  # fmt: skip
OF_COPY = {
    **changes("nodes", "key = (2 << 32) + 2", "deleted_us"),
    **changes("branches", "number = 2", "leaf"),
    **changes("amendments", "key >> 32 = 2", "created_us"),
    **changes("documents", "number = 2 and name = 'state'", "body = x'7b7d'"),
    **changes("runs", "key >> 32 = 2", "tenant = 'default'", "status = 'done'", "created_us = 1"),
}
OF_NOBODY = {
    **changes("documents", "number = 1 and name = 'document'", "number = 77"),
    **changes("notes", "number = 1 and key = 'stars'", "number = 77"),
    **changes("ended_work", "number = 1", "number = 77"),
    **changes("executions", "id = 'x1'", "number = 77"),
    **changes("attachments", "id = 'a1'", "uri = 'x'", "intent_us", "committed_us = 1",
        "session = 'c'", "id = 'a2'"),
    **changes("artifacts", "id = 'f1'", "tenant = 'red'", "id = 'f2'", "scope = 's:c'",
        "name = 'graph'", "version", "place", "uri = 'x'", "ref = 'x'", "size_bytes", "created_us",
        "body = cast(replace(cast(body as text), 'plot', 'slot') as blob)"),
    **changes("evidence", "kind = 'trace' and n = 1", "tenant = 'red'", "session = 'c'",
        "kind = 'report'", "n = 9", "created_us",
        "body = cast(replace(cast(body as text), 'grep', 'drop') as blob)"),
    **changes("kept_runs", "id = 'kept'", "body = x'7b7d'", "id = 'other'", "session = 's'",
        "status = 'done'", "parent_run = 'r1'", "created_us"),
    **changes("stubs", "id = 'old'", "incarnation", "fence", "link = x'00'", "retired = 1",
        "id = 'odd'"),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_S)
def test_a_change_of_a_sealed_row_is_found(backend: Bed, name: str) -> None:
    found_in("s", backend, *OF_S[name])


@pytest.mark.parametrize("name", OF_COPY)
def test_a_change_of_what_a_copy_brought_along_is_found(backend: Bed, name: str) -> None:
    found_in("c", backend, *OF_COPY[name])


@pytest.mark.parametrize("name", OF_NOBODY)
def test_a_change_of_what_belongs_to_no_session_is_found(backend: Bed, name: str) -> None:
    found_in(NOBODY, backend, *OF_NOBODY[name])


def found_in(session: str, backend: Bed, statement: str, table: str) -> None:
    defects = tamper(backend, statement)
    assert session in {defect.session for defect in defects}, defects
    seals = [defect.where for defect in defects if defect.kind == "seal"]
    assert any(where.startswith(f"{table} ") for where in seals), defects


HEAD = "update heads set {} where number = 1"
RUN = "update runs set {} where id = 'r1' and key >> 32 = 1"
COMPARED = {
    "updated": HEAD.format("updated_us = updated_us + 1"),
    "recency": "update sessions set recency = recency + 1 where number = 1",
    "latest run": HEAD.format("latest_run = 'r3'"),
    "no latest run": HEAD.format("latest_run = null"),
    "open run": HEAD.format("open_run = 'r3'"),
    "another open run": HEAD.format("open_run = 'r1'"),
    "active run": HEAD.format("active_run = 'r1'"),
    "fewer runs": HEAD.format("runs = 0"),
    "more runs": HEAD.format("runs = runs + 1"),
    "first node of a run": RUN.format("first_ord = first_ord + 1"),
    "last node of a run": RUN.format("last_ord = 0"),
}


@pytest.mark.parametrize("name", COMPARED)
def test_a_change_of_what_every_commit_writes_is_found(backend: Bed, name: str) -> None:
    defects = tamper(backend, COMPARED[name])
    assert {defect.session for defect in defects} == {"s"}, defects


def test_work_that_is_moved_to_another_session_is_missed_and_found(backend: Bed) -> None:
    defects = tamper(backend, "update work set number = 77 where number = 1")
    assert [(one.session, one.where) for one in defects] == [
        (NOBODY, "work 77/2"),
        ("s", "queue default"),
    ]


@pytest.mark.parametrize(
    ("statement", "session", "where"),
    [
        ("update ready set priority = priority - 1", "s", "queue default"),
        ("update ready set queue = 'other'", "s", "queue other"),
        ("delete from ready", "s", "queue default"),
        ("update ready set number = 77", NOBODY, "ready 77/default"),
    ],
)
def test_a_changed_place_in_the_line_of_workers_is_found(
    backend: Bed, statement: str, session: str, where: str
) -> None:
    assert (session, where) in [(one.session, one.where) for one in tamper(backend, statement)]


CALL_IS = "cast(replace(cast(body as text), '\"eur\":1', '\"eur\":9') as blob)"


@pytest.mark.parametrize(
    ("statement", "detail"),
    [
        (f"update tickets set body = {CALL_IS}", "not what its turn asked"),
        ("delete from tickets", "is not there"),
    ],
)
def test_a_question_is_what_its_turn_asked(backend: Bed, statement: str, detail: str) -> None:
    found = [(one.where, one.detail) for one in tamper(backend, statement)]
    assert ("ticket t1", detail) in found


def test_a_session_without_its_head_is_found(backend: Bed) -> None:
    (defect,) = tamper(backend, "delete from heads where number = 2")
    assert (defect.session, defect.kind, defect.where) == (NOBODY, "head", "sessions 2")


def test_a_changed_schema_is_found(backend: Bed) -> None:
    connection = apsw.Connection(backend.url)
    connection.execute("drop index work_id")
    connection.close()
    assert [one.where for one in backend.store.admin.verify().defects] == ["schema"]


def test_another_tenant_is_not_named(backend: Bed) -> None:
    statement, _ = OF_NOBODY["stubs.fence"]
    tamper(backend, statement)
    found = backend.store.for_tenant("red").admin.verify().defects
    assert [defect.where for defect in found] == ["stubs of another tenant"]
    assert backend.store.for_tenant("red").admin.verify(whole=False).defects == []


def test_one_session_is_verified_without_the_rest(backend: Bed) -> None:
    tamper(backend, OF_NOBODY["stubs.fence"][0])
    assert backend.store.admin.verify("s").defects == []


def test_what_the_store_writes_later_fits(backend: Bed) -> None:
    """The negative control: no write of the store leaves a seal that does not fit."""
    store = backend.store
    store.sessions.update("s", title="Stavanger", metadata=[1])
    store.nodes.annotate("s", "n1", {"stars": 4})
    store.runs.create("c", id="r9", agent="late")
    store.runs.update("r9", parent_run="kept", status="done")
    store.runs.update("r2", status="waiting", lease=store.leases.get("s"))
    store.sessions.delete("c")
    store.sessions.restore("c")
    store.messages.append("c", user("four"), branch="side")
    store.branches.delete("c", "side")
    store.leases.break_("s", by="ops", reason="it hangs")
    store.work.enqueue("s", {"task": 2})
    store.messages.append("old", user("again"), create=True)
    store.runs.update("kept", status="done")
    store.sessions.purge("old", retire=True)
    store.admin.vacuum("s")
    assert store.admin.verify().defects == []


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("delete from blobs", "artifacts f1"),
        ("delete from evidence where kind = 'trace' and n = 0", "evidence s/trace"),
        ("delete from evidence where kind = 'trace' and n = 1", "evidence s/trace"),
    ],
)
def test_what_is_missing_beside_a_session_is_found(
    backend: Bed, statement: str, where: str
) -> None:
    assert where in [defect.where for defect in tamper(backend, statement)]
