"""Bad input gets a clear error that names the field, before anything is sent."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ledgerstone import InvalidValue, Message, Node, Opaque, SessionBindingMismatch, Store, user
from ledgerstone.intake import checks
from ledgerstone.records.leases import Lease
from ledgerstone.records.messages import MessageBody

Call = Callable[[Store], object]
ANY: Any = "a text, whatever was asked for"
NAIVE = datetime(2024, 1, 1, tzinfo=UTC).replace(tzinfo=None)
LEASE = Lease("other", "o", "t", 1, 0, 0)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open("memory://") as store:
        store.messages.append("s", user("hi", id="m1"), create=True)
        yield store


BAD: list[tuple[str, Call]] = [
    ("session", lambda s: s.messages.append("", user("x"))),
    ("session", lambda s: s.messages.append("x" * 256, user("x"))),
    ("session", lambda s: s.messages.append("a\nb", user("x"))),
    ("session", lambda s: s.messages.append(5, user("x"))),  # type: ignore[arg-type]
    ("role", lambda s: s.messages.append("s", {"role": "robot", "content": "x"})),
    ("messages[0].role", lambda s: s.messages.append("s", {"content": "x"})),
    ("messages[1]", lambda s: s.messages.append("s", user("x"), "text")),
    ("messages", lambda s: s.messages.replace("s", user("x"))),  # type: ignore[arg-type]
    ("role", lambda s: s.messages.append("s", Message(body=MessageBody(role=ANY)))),
    ("message.metadata.a", lambda s: s.messages.append("s", _by_hand({"a": math.nan}))),
    ("message", lambda s: s.messages.append("s", _by_hand({"a": object()}))),
    ("id", lambda s: s.messages.append("s", Message(body=MessageBody(role="user"), id="\0"))),
    ("branch", lambda s: s.messages.append("s", user("x"), branch="")),
    ("run_id", lambda s: s.messages.append("s", user("x"), run_id="")),
    ("create", lambda s: s.messages.append("s", user("x"), create="yes")),  # type: ignore[arg-type]
    ("lease", lambda s: s.messages.append("s", user("x"), lease="mine")),  # type: ignore[arg-type]
    ("expected_revision", lambda s: s.messages.append("s", user("x"), expected_revision=-1)),
    ("expected_revision", lambda s: s.turns.begin("s", expected_revision=True)),
    ("limit", lambda s: s.messages.list("s", limit=0)),
    ("limit", lambda s: s.messages.list("s", limit=-5)),
    ("limit", lambda s: s.messages.list("s", limit=True)),
    ("limit", lambda s: s.messages.list("s", limit=1.5)),  # type: ignore[arg-type]
    ("offset", lambda s: s.messages.list("s", offset=-1)),
    ("order", lambda s: s.messages.list("s", order="random")),
    ("cursor", lambda s: s.messages.list("s", cursor="nonsense")),
    ("cursor", lambda s: s.messages.list("s", cursor=b"x")),  # type: ignore[arg-type]
    ("n", lambda s: s.messages.last("s", 0)),
    ("n", lambda s: s.messages.pop("s", 0)),
    ("range.first", lambda s: s.messages.range("s", 0, 3)),
    ("range", lambda s: s.messages.range("s", 3, 2)),
    ("after", lambda s: s.messages.replace("s", [], after="nobody")),
    ("session", lambda s: s.messages.amend("m1", is_summary=True)),
    ("fields", lambda s: s.messages.amend("m1", session="s")),
    ("role", lambda s: s.messages.amend("m1", session="s", role="user")),
    ("parts", lambda s: s.messages.amend("m1", session="s", parts=None)),
    ("wrong", lambda s: s.messages.amend("m1", session="s", wrong=1)),
    ("message", lambda s: s.messages.amend("m1", session="s", is_summary="yes")),
    ("order", lambda s: s.sessions.list(order="size")),
    ("colour", lambda s: s.sessions.list(colour="red")),
    ("status", lambda s: s.sessions.list(status="sleepy")),
    ("created_after", lambda s: s.sessions.list(created_after=NAIVE)),
    ("created_after", lambda s: s.sessions.list(created_after="yesterday")),
    ("created_before", lambda s: s.sessions.list(created_before=1 << 62)),
    ("metadata_contains", lambda s: s.sessions.list(metadata_contains={"a b": 1})),
    ("deleted", lambda s: s.sessions.count(deleted=1)),
    ("colour", lambda s: s.sessions.create(colour="red")),
    ("title", lambda s: s.sessions.create(title=5)),
    ("title", lambda s: s.sessions.create(title="a\0b")),
    ("title", lambda s: s.sessions.create(title="\ud800")),
    ("title", lambda s: s.sessions.create(title="x" * 4097)),
    ("metadata", lambda s: s.sessions.create(metadata={1: 2})),
    ("metadata.a", lambda s: s.sessions.create(metadata={"a": math.inf})),
    ("cause", lambda s: s.sessions.create(cause="c1")),
    ("user", lambda s: s.sessions.get_or_create(None)),  # type: ignore[arg-type]
    ("document", lambda s: s.sessions.update("s", document=[])),  # type: ignore[arg-type]
    ("session", lambda s: s.sessions.put("s")),  # type: ignore[arg-type]
    ("revision", lambda s: s.sessions.at("s", -1)),
    ("leaf", lambda s: s.sessions.load("s", leaf="nobody")),
    ("leaf", lambda s: s.sessions.load("s", scope="graph", leaf="m1")),
    ("ttl_s", lambda s: s.leases.take("s", ttl_s=-1)),
    ("ttl_s", lambda s: s.leases.take("s", ttl_s=math.nan)),
    ("ttl_s", lambda s: s.leases.hold("s", ttl_s=0)),
    ("wait_s", lambda s: s.leases.hold("s", wait_s="long")),  # type: ignore[arg-type]
    ("owner", lambda s: s.leases.take("s", owner="")),
    ("lease", lambda s: s.leases.renew("lease")),  # type: ignore[arg-type]
    ("by", lambda s: s.leases.break_("s", by=None, reason="x")),  # type: ignore[arg-type]
    ("kind", lambda s: s.nodes.append("s", Node(kind=""))),
    ("kind", lambda s: s.nodes.append("s", Node(kind="message", body={}))),
    ("kind", lambda s: s.nodes.append("s", {"body": 1})),
    ("size", lambda s: s.nodes.append("s", {"kind": "x", "size": 1})),
    ("label", lambda s: s.nodes.append("s", Node(kind="x", label="y" * 1025))),
    ("meta", lambda s: s.nodes.append("s", Node(kind="x", meta=[1]))),  # type: ignore[arg-type]
    ("body", lambda s: s.nodes.append("s", Node(kind="x", body={1, 2}))),
    ("values", lambda s: s.nodes.append("s", Node(kind="x", values=("abc",)))),
    ("parent_missing", lambda s: s.nodes.append("s", Node(kind="x"), parent_missing="ok")),
    ("data", lambda s: s.nodes.append("s", Node(kind="x", body=Opaque("f", ANY)))),
    ("key", lambda s: s.nodes.annotate("s", "m1", {"": 1})),
    ("key", lambda s: s.nodes.annotate("s", "m1", {"ledger.draft/start": 1})),
    ("mode", lambda s: s.nodes.annotate("s", "m1", {"a": 1}, mode="merge")),
    ("notes", lambda s: s.nodes.annotate("s", "m1", [1])),  # type: ignore[arg-type]
    ("order", lambda s: s.nodes.iter("s", order="up")),
    ("branch", lambda s: s.branches.create("s", "")),
    ("payloads", lambda s: s.work.enqueue("s")),
    ("payload", lambda s: s.work.enqueue("s", object())),
    ("run", lambda s: s.runs.put({"id": "r"})),  # type: ignore[arg-type]
    ("status", lambda s: s.runs.create("s", status="lost")),
    ("before", lambda s: s.attachments.uncommitted(before=True)),
    ("session", lambda s: s.drafts.discard("d1")),
    ("older_than_s", lambda s: s.admin.vacuum("s", older_than_s=-1)),
    ("older_than_s", lambda s: s.admin.vacuum("s", older_than_s=1e30)),
    ("status", lambda s: s.turns.begin("s").run("lost")),
    ("colour", lambda s: s.turns.begin("s").run("done", colour=1)),
    ("steps", lambda s: s.turns.begin("s").run("done", steps="many")),
    ("usage.input", lambda s: s.turns.begin("s").use("m", _counts("many"))),
    ("usage.input", lambda s: s.turns.begin("s").use("m", _usage(True))),
    ("cost", lambda s: s.turns.begin("s").use("m", {}, cost=1.5)),  # type: ignore[arg-type]
    ("state.a", lambda s: s.turns.begin("s").state(a=math.nan)),
    ("frames", lambda s: s.turns.begin("s").head(current_frame="f")),
    ("checkpoint", lambda s: s.turns.begin("s").checkpoint(colour=1)),
    ("turn_state", lambda s: s.turns.begin("s").checkpoint(turn_state=[])),
    ("tool_state_ref", lambda s: s.turns.begin("s").checkpoint(tool_state_ref="abc")),
    ("release", lambda s: s.turns.begin("s").commit(release=True)),
    ("draft", lambda s: s.turns.begin("s").adopt("d1")),  # type: ignore[arg-type]
    ("parts", lambda s: s.turns.begin("s").draft(parts=["x"])),
    ("wrong", lambda s: s.turns.begin("s").draft(wrong=1)),
]


@pytest.mark.parametrize(("field", "call"), BAD, ids=lambda x: x if isinstance(x, str) else "")
def test_bad_input_is_refused_by_name(store: Store, field: str, call: Call) -> None:
    with pytest.raises(InvalidValue) as caught:
        call(store)
    assert caught.value.field == field
    assert store.messages.count("s") == 1
    assert store.sessions.count() == 1


def _by_hand(metadata: dict[str, Any]) -> Message:
    return Message(body=MessageBody(role="user", metadata=metadata))


def _counts(count: Any) -> Any:
    return {"input": count}


def _usage(count: Any) -> Any:
    from ledgerstone import Usage

    return Usage(count)


def test_a_lease_of_another_session_is_never_accepted(store: Store) -> None:
    calls: list[Call] = [
        lambda s: s.messages.append("s", user("x"), lease=LEASE),
        lambda s: s.messages.clear("s", lease=LEASE),
        lambda s: s.branches.create("s", "b", lease=LEASE),
        lambda s: s.nodes.tombstone("s", ["m1"], lease=LEASE),
        lambda s: s.turns.begin("s", lease=LEASE),
        lambda s: s.turns.begin("s").commit(lease=LEASE),
    ]
    for call in calls:
        with pytest.raises(SessionBindingMismatch):
            call(store)


def test_records_are_accepted_for_their_ids(store: Store) -> None:
    session = store.sessions.create(id=uuid.UUID(int=5), user="ada")
    (first,) = store.messages.append(session, user("one"))
    (second,) = store.messages.append(first, user("two"))
    assert store.messages.get(second) == second
    assert [m.text for m in store.messages.history(session, at=first)] == ["one"]
    branch = store.branches.create(session, "side", at=first)
    assert store.branches.move(session, branch, to=second).leaf == second.id
    lease = store.leases.take(session)
    assert lease is not None
    assert store.messages.append(lease, user("guarded"))[0].seq == 3
    store.leases.release(lease)
    assert store.messages.amend(first, metadata={"a": 1}).metadata == {"a": 1}
    assert store.messages.delete(first) is True
    assert store.messages.delete(first) is False
    assert store.nodes.get(session, second) is not None
    run = store.runs.create(session)
    assert store.runs.get(run) == run
    assert store.turns.begin(session, run_id=run).run_id == run.id
    created = store.sessions.list(created_after=datetime(2020, 1, 1, tzinfo=UTC), user="ada")
    assert [found.id for found in created] == [session.id]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "a duration of at least 0 expected, got -1"),
        (-math.inf, "a duration of at least 0 expected, got -inf"),
        (1e30, "too long a duration in seconds: 1e+30"),
        (math.inf, "too long a duration in seconds: inf"),
        (10**5000, "too long a duration in seconds: a huge integer"),
        (math.nan, "seconds expected, got nan"),
        (True, "seconds expected, got True"),
        ("1", "seconds expected, got '1'"),
    ],
    ids=lambda x: f"{x!s:.20}" if isinstance(x, str | float) else "",
)
def test_a_duration_is_refused_for_what_is_wrong_with_it(value: object, reason: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        checks.seconds(value, "ttl_s")
    assert caught.value.reason == reason
