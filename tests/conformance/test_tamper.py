"""Somebody edits the file by hand: verify finds it, and says what and where.

Covered: the history (nodes, turns, amendments), where it stands (heads, branches) and what it
refers to (values, documents). What no commit vouches for (titles, notes, runs, the queue, leases)
has seals instead: test_tamper_seals.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from ledgerstone import Node, Opaque, Store, Usage, assistant, user
from ledgerstone.clock import ManualClock
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.records.reports import Defect
from ledgerstone.testing.bed import Bed

# Ords of session "s", which is number 1 in the file: key = 1 << 32 | ord.
M1, M2, SIDE, M3, PLUGIN, OPAQUE, M4 = range(1, 8)
BASE = 1 << 32
VERIFY_TIMEOUT_S = 20


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Bed]:
    path, clock = str(tmp_path / "store.db"), ManualClock()
    with Bed("sqlite", lambda: open_sqlite(path, clock=clock), clock=clock, url=path) as bed:
        fill(bed.store)
        assert bed.store.admin.verify().defects == []
        bed.close()
        yield bed


def fill(store: Store) -> None:
    """A session in which every covered column holds something, and an innocent neighbour."""
    store.messages.append("s", user("one", id="m1"), assistant("two", id="m2"), create=True)
    store.branches.create("s", "side", at="m1")
    store.messages.append("s", assistant("zwei", id="d2"), branch="side")
    store.messages.amend("m1", session="s", metadata={"v": 1})
    store.messages.amend("m1", session="s", metadata={"v": 2})
    with store.turns.begin("s", run_id="r1") as turn:
        turn.user("three", id="m3")
        digest = turn.value(b"bytes")
        turn.node("plugin", {"n": 1}, id="p", label="l", meta={"k": 1}, values=[digest])
        turn.run("running")
        turn.use("m", Usage(input=5, output=1))
        turn.state(mood="good")
        turn.head(config={"model": "m"}, frames=[{"frame_id": "f"}], current_frame="f")
        turn.checkpoint(turn_state={"n": 1}, execution=b"state of the machine")
    store.nodes.append("s", Node(id="o", kind="blob", body=Opaque("bin", b"\x00\xff")))
    store.nodes.tombstone("s", ["m2"])
    store.admin.vacuum("s")
    store.messages.append("s", user("four", id="m4"))
    store.nodes.tombstone("s", ["p"])
    store.messages.append("other", user("innocent"), create=True)


def tamper(backend: Bed, statement: str) -> list[Defect]:
    """Change the closed file, and let a new store look at it."""
    connection = apsw.Connection(backend.url)
    connection.execute(statement)
    assert connection.changes() > 0, "the statement hit nothing"
    connection.close()
    return backend.store.admin.verify().defects


def node(ord: int, change: str) -> str:
    return f"update nodes set {change} where key = {BASE + ord}"


def turn(revision: int, change: str) -> str:
    return f"update turns set {change} where number = 1 and revision = {revision}"


def head(change: str) -> str:
    return f"update heads set {change} where number = 1"


NODES = {
    "body": node(M3, "body = cast(replace(cast(body as text), 'three', 'tree') as blob)"),
    "body gone": node(M3, "body = null"),
    "body no json": node(M3, "body = cast('{' as blob)"),
    "opaque body": node(OPAQUE, "body = x'00fe'"),
    "salt": node(M3, "salt = zeroblob(16)"),
    "salt gone": node(M3, "salt = null"),
    "role": node(M3, "role = 3"),
    "unknown role": node(M3, "role = 9"),
    "kind": node(OPAQUE, "kind = 'clob'"),
    "label": node(PLUGIN, "label = 'other'"),
    "run": node(M3, "run = null"),
    "run renamed": "update runs set id = 'r2' where id = 'r1'",
    "meta": node(PLUGIN, "meta = cast('{\"k\":2}' as blob)"),
    "format": node(OPAQUE, "format = 'txt'"),
    "refs": node(PLUGIN, "refs = null"),
    "time": node(M3, "created_us = created_us + 1"),
    "id": node(M3, "id = 'm9'"),
    "parent": node(M4, f"parent = {M1}"),
    "parent of nobody": node(M4, "parent = 99"),
    "seq": node(M4, "seq = seq + 1"),
    "hidden": node(M3, "deleted_us = 1, deleted_rev = 2"),
    "shown again": node(PLUGIN, "deleted_us = null, deleted_rev = null"),
    "hidden at another revision": node(PLUGIN, "deleted_rev = 2"),
    "stub's commitment": node(M2, "commitment = zeroblob(32)"),
    "stub's id": node(M2, "id = 'm9'"),
    "stub's parent": node(M2, "parent = 0, seq = 1"),
    "stub shown again": node(M2, "deleted_us = null, deleted_rev = null"),
    "row gone": f"delete from nodes where key = {BASE + M3}",
    "last row gone": f"delete from nodes where key = {BASE + M4}",
    "row invented": "insert into nodes select key + 1, key & 4294967295, seq + 1, role, kind,"
    " label, run, meta, format, refs, created_us, 'fake', salt, body, null, null, null, null"
    f" from nodes where key = {BASE + M4}",
    "rows swapped": "update nodes set body = (select other.body from nodes other where other.key ="
    f" {BASE + M1} + {BASE + M3} - nodes.key) where key in ({BASE + M1}, {BASE + M3})",
}
TURNS = {
    "id": turn(6, "id = 'other'"),
    "kind": turn(6, "kind = 'append'"),
    "hash": turn(6, "hash = zeroblob(32)"),
    "link": turn(6, "link = zeroblob(32)"),
    "time": turn(6, "created_us = created_us + 1"),
    "leaf": turn(6, f"leaf = {M1}"),
    "first node": turn(6, "first_ord = first_ord - 1"),
    "fewer nodes": turn(6, "count = count - 1"),
    "usage": turn(6, "usage = cast(replace(cast(usage as text), '5', '6') as blob)"),
    "usage gone": turn(6, "usage = null"),
    "effects": turn(6, "effects = cast(replace(cast(effects as text), 'good', 'bad') as blob)"),
    "effects gone": turn(6, "effects = null"),
    "effects no json": turn(6, "effects = cast('{' as blob)"),
    "tombstones": turn(8, "effects = null"),
    "revision": turn(10, "revision = 99"),
    "first turn gone": "delete from turns where number = 1 and revision = 1",
    "a turn gone": "delete from turns where number = 1 and revision = 5",
    "last turn gone": "delete from turns where number = 1 and revision = 10",
    "turns swapped": "update turns set revision = case revision when 4 then 500 else 4 end"
    " where number = 1 and revision in (4)",
}
HEADS = {
    "revision": head("revision = revision - 1"),
    "revision ahead": head("revision = revision + 1"),
    "link": head("link = zeroblob(32)"),
    "ord": head("ord = ord + 1"),
    "leaf": head(f"leaf = {M3}"),
    "leaf of nobody": head("leaf = 99"),
    "no leaf": head("leaf = 0"),
    "leaf and all that follows": head(
        f"leaf = {M1}, tip = {M1}, tip_seq = 1, messages = 1, users = 1, first_user = {M1}"
    ),
    "tip": head(f"tip = {M1}"),
    "tip's seq": head("tip_seq = tip_seq + 1"),
    "messages": head("messages = messages + 1"),
    "users": head("users = users - 1"),
    "first user": head(f"first_user = {M3}"),
    "live": head("live = live - 1"),
    "branched": head("branched = 0"),
    "named": head("named = 0"),
    "amended": head("amended = 0"),
    "ledger": head("ledger = cast(replace(cast(ledger as text), '5', '6') as blob)"),
    "ledger gone": head("ledger = null"),
    "checkpoint": head("checkpoint = null"),
    "checkpoint of nobody": head(f"checkpoint = '{'0' * 64}'"),
}
REST = {
    "amendment's patch": "update amendments set patch = cast('{\"metadata\":{}}' as blob)"
    " where version = 2",
    "amendment's salt": "update amendments set salt = zeroblob(16) where version = 1",
    "amendment's commitment": "update amendments set commitment = zeroblob(32) where version = 1",
    "amendment's revision": "update amendments set revision = 9 where version = 1",
    "amendment's version": "update amendments set version = 7 where version = 2",
    "amendment gone": "delete from amendments where version = 2",
    "amendment invented": "insert into amendments select key, 3, revision, created_us, salt, patch,"
    " commitment, seal from amendments where version = 2",
    "branch moved": f"update branches set leaf = {M3}",
    "branch at nobody": "update branches set leaf = 99",
    "branch renamed": "update branches set name = 'slide'",
    "branch gone": "delete from branches",
    "branch invented": f"insert into branches values (1, 'fake', {M1}, null)",
    "value": "update contents set data = x'00' where data = cast('state of the machine' as blob)",
    "value gone": "delete from contents where data = cast('state of the machine' as blob)",
    "manifest gone": "delete from contents where digest = (select checkpoint from heads"
    " where number = 1)",
    "config": "update documents set body = cast('{\"model\":\"x\"}' as blob) where name = 'config'",
    "config gone": "delete from documents where name = 'config'",
    "frames": 'update documents set body = cast(\'{"current":"","frames":[]}\' as blob)'
    " where name = 'frames'",
    "state": "update documents set body = cast('{\"mood\":\"bad\"}' as blob) where name = 'state'",
    "state gone": "delete from documents where name = 'state'",
    "checkpoint document": "update documents set body = cast('{\"schema\":1}' as blob)"
    " where name = 'checkpoint'",
}


@pytest.mark.parametrize("name", NODES)
def test_a_change_of_a_node_is_found(backend: Bed, name: str) -> None:
    found(tamper(backend, NODES[name]))


@pytest.mark.parametrize("name", TURNS)
def test_a_change_of_a_turn_is_found(backend: Bed, name: str) -> None:
    found(tamper(backend, TURNS[name]))


@pytest.mark.parametrize("name", HEADS)
def test_a_change_of_the_head_is_found(backend: Bed, name: str) -> None:
    found(tamper(backend, HEADS[name]))


@pytest.mark.parametrize("name", REST)
def test_a_change_of_what_hangs_on_it_is_found(backend: Bed, name: str) -> None:
    found(tamper(backend, REST[name]))


def found(defects: list[Defect]) -> None:
    assert defects, "verify saw nothing"
    for defect in defects:
        assert defect.session == "s", "the neighbour is innocent"
        assert defect.kind
        assert defect.where


@pytest.mark.parametrize(
    ("statement", "kind", "where"),
    [
        (NODES["body"], "link", "turn"),
        (NODES["body no json"], "body", "m3"),
        (NODES["parent of nobody"], "parent", "m4"),
        (NODES["seq"], "seq", "m4"),
        (NODES["row gone"], "count", "turn"),
        (TURNS["link"], "link", "turn"),
        (HEADS["revision"], "head", "revision"),
        (HEADS["leaf of nobody"], "leaf", "main"),
        (HEADS["messages"], "count", "head"),
        (REST["branch at nobody"], "leaf", "side"),
        (REST["value"], "value", ""),
        (REST["value gone"], "reference", ""),
    ],
)
def test_a_defect_is_called_by_its_name(
    backend: Bed, statement: str, kind: str, where: str
) -> None:
    defects = tamper(backend, statement)
    assert any(defect.kind == kind and where in defect.where for defect in defects), defects


def test_what_nobody_touched_is_clean(backend: Bed) -> None:
    """The negative control: writing everything as it was is no defect."""
    untouched = "update nodes set body = body, seq = seq, parent = parent"
    assert tamper(backend, untouched) == []


CIRCLES = {
    "itself": node(M4, f"parent = {M4}"),
    "its child": node(M1, f"parent = {M4}"),
    "its grandchild": node(M3, f"parent = {M4}"),
}


@pytest.mark.parametrize("name", CIRCLES)
def test_a_circle_of_parents_does_not_trap_verify(backend: Bed, name: str) -> None:
    """In a process of its own: a statement that runs for ever cannot be interrupted here."""
    connection = apsw.Connection(backend.url)
    connection.execute(CIRCLES[name])
    connection.close()
    script = (
        "import sys; from ledgerstone import Store; store = Store.open(sys.argv[1]);"
        "print(*(defect.kind for defect in store.admin.verify('s').defects))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, backend.url],
        capture_output=True,
        text=True,
        timeout=VERIFY_TIMEOUT_S,
        check=True,
    )
    assert "parent" in done.stdout.split()


def test_verify_goes_on_after_the_first_defect(backend: Bed) -> None:
    defects = tamper(backend, "update turns set kind = 'x' where number = 1")
    links = [defect for defect in defects if defect.kind == "link"]
    assert len(links) == 10


def test_a_damaged_session_does_not_hide_its_neighbour(backend: Bed) -> None:
    tamper(backend, NODES["row gone"])
    assert [message.text for message in backend.store.messages.history("other")] == ["innocent"]


def test_nothing_of_a_vacuumed_message_stays_in_the_file(backend: Bed) -> None:
    secret = "please forget 8f1c0de5"
    store = backend.store
    store.messages.append("s", user(secret, id="x", metadata={"k": secret}))
    store.messages.amend("x", session="s", parts=secret + "!")
    store.nodes.tombstone("s", ["x"])
    store.admin.vacuum("s")
    backend.close()
    connection = apsw.Connection(backend.url)
    tables = [name for (name,) in connection.execute("select name from sqlite_schema")]
    rows = [
        row
        for (kind, name) in connection.execute("select type, name from sqlite_schema")
        if kind == "table"
        for row in connection.execute(f"select * from {name}")
    ]
    connection.close()
    assert len(tables) > 10
    assert len(rows) > 20
    assert not [row for row in rows if secret in str(row) or secret in repr(row)]
