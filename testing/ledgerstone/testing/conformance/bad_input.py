"""Bad input gets a clear error, and nothing is lost.

Each refusal names the field that is wrong, and leaves the session exactly as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ledgerstone import assistant, user
from ledgerstone.errors import InvalidValue
from ledgerstone.records.nodes import Node, Opaque
from ledgerstone.records.runs import Run
from ledgerstone.testing.bed import Bed

# The store is Any here: what these calls pass is wrong on purpose.
Call = Callable[[Any], object]
CallWith = Callable[[Any, Any], object]

BAD_IDS: dict[str, Any] = {
    "empty": "",
    "too long": "x" * 256,
    "a control character": "a\x00b",
    "a newline": "a\nb",
    "a C1 control character": "a\x85b",
    "a lone surrogate": "a\ud800b",
    "a number": 7,
    "bytes": b"s",
    "a list": ["s"],
}


class Refusing:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        """A session with two messages and a side branch, which no refusal may change."""
        store = backend.store
        store.messages.append("s", user("one", id="m1"), assistant("two", id="m2"), create=True)
        store.branches.create("s", "side", at="m1")
        return "s"

    def refused(self, backend: Bed, call: Call) -> InvalidValue:
        """The error of a call that must fail and change nothing."""
        sessions = backend.store.sessions.count(deleted=True)
        with backend.unchanged("s"), pytest.raises(InvalidValue) as caught:
            call(backend.store)
        assert backend.store.sessions.count(deleted=True) == sessions
        assert caught.value.field in str(caught.value)
        return caught.value


ID_CALLS: dict[str, tuple[str, CallWith]] = {
    "session": ("session", lambda s, bad: s.messages.append(bad, user("x"), create=True)),
    "session to read": ("session", lambda s, bad: s.messages.history(bad)),
    "session to lease": ("session", lambda s, bad: s.leases.take(bad)),
    "new session": ("id", lambda s, bad: s.sessions.ensure(bad)),
    "message": ("id", lambda s, bad: s.messages.get(bad, session="s")),
    "node": ("id", lambda s, bad: s.nodes.get("s", bad)),
    "tombstone": ("id", lambda s, bad: s.nodes.tombstone("s", [bad])),
    "turn": ("id", lambda s, bad: s.turns.begin("s", id=bad)),
    "run": ("id", lambda s, bad: s.runs.get(bad)),
    "run of a session": ("id", lambda s, bad: s.runs.put(Run(id=bad, session="s"))),
    "owner": ("owner", lambda s, bad: s.leases.take("s", owner=bad)),
    "fork": ("id", lambda s, bad: s.sessions.copy("s", bad)),
    "branch": ("branch", lambda s, bad: s.messages.history("s", branch=bad)),
    "attachment": ("id", lambda s, bad: s.attachments.intent("s", bad, "uri")),
    "tenant": ("tenant", lambda s, bad: s.for_tenant(bad)),
}


class TestBadIds(Refusing):
    @pytest.mark.parametrize("bad", BAD_IDS)
    @pytest.mark.parametrize("name", ID_CALLS)
    def test_an_id_that_breaks_the_rules_is_refused_by_name(
        self, backend: Bed, session: str, name: str, bad: str
    ) -> None:
        if name == "branch" and bad == "too long":
            return  # names of branches may be longer: the next test
        field, call = ID_CALLS[name]
        error = self.refused(backend, lambda store: call(store, BAD_IDS[bad]))
        assert error.field == field

    @pytest.mark.parametrize("bad", BAD_IDS)
    def test_a_new_message_with_a_bad_id_is_refused(
        self, backend: Bed, session: str, bad: str
    ) -> None:
        if bad == "empty":
            return  # no id: one is assigned
        given = {"role": "user", "content": "x", "id": BAD_IDS[bad]}
        error = self.refused(backend, lambda store: store.messages.append("s", given))
        assert error.field == "id"

    @pytest.mark.parametrize("call", ["branch", "label", "note", "kind"])
    def test_names_may_have_1024_characters_and_no_more(
        self, backend: Bed, session: str, call: str
    ) -> None:
        calls: dict[str, CallWith] = {
            "branch": lambda s, name: s.branches.create("s", name, at="m1"),
            "label": lambda s, name: s.nodes.append("s", Node(kind="k", label=name)),
            "note": lambda s, name: s.nodes.annotate("s", "m1", {name: 1}),
            "kind": lambda s, name: s.nodes.append("s", Node(kind=name)),
        }
        self.refused(backend, lambda store: calls[call](store, "x" * 1025))
        calls[call](backend.store, "x" * 1024)

    def test_the_longest_ids_are_kept_whole(self, backend: Bed) -> None:
        for id in ("x" * 255, "\U0001f600" * 255):
            backend.store.messages.append(id, user("hi", id=id), create=True)
            assert [m.id for m in backend.store.messages.history(id)] == [id]


BAD_CALLS: dict[str, tuple[str, Call]] = {
    "an unknown role": ("role", lambda s: s.messages.append("s", {"role": "robot"})),
    "no role": ("messages[0].role", lambda s: s.messages.append("s", {"content": "x"})),
    "a role that is no text": ("messages[0].role", lambda s: s.messages.append("s", {"role": 1})),
    "a message that is text": ("messages[0]", lambda s: s.messages.append("s", "hello")),
    "a message that is none": ("messages[0]", lambda s: s.messages.append("s", None)),
    "an unknown field": ("colour", lambda s: s.messages.append("s", {"role": "user", "colour": 1})),
    "content of the wrong type": ("parts", lambda s: s.turns.begin("s").user(7)),
    "a part without a type": ("parts[0]", lambda s: s.turns.begin("s").user([{"text": "x"}])),
    "metadata that is no object": (
        "metadata",
        lambda s: s.turns.begin("s").user("x", metadata=[1]),
    ),
    "keys that are no text": (
        "metadata",
        lambda s: s.turns.begin("s").user("x", metadata={1: 2}),
    ),
    "a value that is no JSON": ("state.k", lambda s: s.turns.begin("s").state(k=object())),
    "bytes in a body": ("body.b", lambda s: s.turns.begin("s").node("k", {"b": b"x"})),
    "an unknown parent": (
        "parent",
        lambda s: s.messages.append("s", user("x", parent="nowhere")),
    ),
    "itself as the parent": (
        "parent",
        lambda s: s.nodes.append("s", Node(id="n", kind="k", parent="n")),
    ),
    "a circle of parents": (
        "parent",
        lambda s: s.nodes.append(
            "s", Node(id="a", kind="k", parent="b"), Node(id="b", kind="k", parent="a")
        ),
    ),
    "an id used twice": (
        "id",
        lambda s: s.nodes.append("s", Node(id="a", kind="k"), Node(id="a", kind="k")),
    ),
    "an unknown leaf to move to": ("to", lambda s: s.branches.move("s", "main", to="nowhere")),
    "an unknown leaf to load": ("leaf", lambda s: s.sessions.load("s", leaf="nowhere")),
    "an unknown node to fork at": ("at", lambda s: s.sessions.fork("s", at="nowhere")),
    "an unknown message to follow": (
        "after",
        lambda s: s.messages.replace("s", [user("x")], after="nowhere"),
    ),
    "an unknown order of messages": ("order", lambda s: s.messages.list("s", order="mood")),
    "an unknown order of sessions": ("order", lambda s: s.sessions.list(order="mood")),
    "an unknown mode": ("mode", lambda s: s.nodes.annotate("s", "m1", {"k": 1}, mode="maybe")),
    "an unknown filter": ("colour", lambda s: s.sessions.list(colour="red")),
    "an unknown status": ("status", lambda s: s.sessions.update("s", status="sleepy")),
    "an unknown run status": ("status", lambda s: s.runs.create("s", status="sleepy")),
    "text for a lease": ("lease", lambda s: s.messages.append("s", user("x"), lease="mine")),
    "text for a run": ("run", lambda s: s.turns.checkpoint("s", [], "run")),
    "a message for a list": ("messages", lambda s: s.messages.replace("s", user("x"))),
    "a negative time to live": ("ttl_s", lambda s: s.leases.take("s", ttl_s=-1)),
    "no time to live": ("ttl_s", lambda s: s.leases.take("s", ttl_s=float("nan"))),
    "a time to live beyond all time": ("ttl_s", lambda s: s.leases.take("s", ttl_s=1e30)),
    "a time to live without end": ("ttl_s", lambda s: s.leases.take("s", ttl_s=float("inf"))),
    "a time to live too long to print": ("ttl_s", lambda s: s.leases.take("s", ttl_s=10**5000)),
    "a revision too long to print": (
        "expected_revision",
        lambda s: s.messages.append("s", user("x"), expected_revision=10**5000),
    ),
    "text for a time to live": ("ttl_s", lambda s: s.leases.take("s", ttl_s="60")),
    "a naive time": ("created_after", lambda s: s.sessions.list(created_after="yesterday")),
    "a negative revision": (
        "expected_revision",
        lambda s: s.messages.append("s", user("x"), expected_revision=-1),
    ),
    "text for a revision": (
        "expected_revision",
        lambda s: s.messages.append("s", user("x"), expected_revision="1"),
    ),
    "a fraction of tokens": (
        "usage.input",
        lambda s: s.turns.begin("s").use("m", {"input": 1.5}),
    ),
    "too many tokens": ("usage.input", lambda s: s.turns.begin("s").use("m", {"input": 2**62})),
    "a digest that is none": ("values", lambda s: s.turns.begin("s").node("k", 1, values=["x"])),
    "a message as a node": ("kind", lambda s: s.turns.begin("s").node("message", {})),
    "a draft's note": ("key", lambda s: s.nodes.annotate("s", "m1", {"ledger.draft/start": 1})),
    "a format without a name": ("format", lambda s: Opaque("", b"")),
    "text for opaque bytes": ("data", lambda s: Opaque("f", s.tenant)),
    "a range from zero": ("range.first", lambda s: s.messages.range("s", 0, 1)),
    "a range backwards": ("range", lambda s: s.messages.range("s", 2, 1)),
    "release without a lease": ("release", lambda s: s.turns.begin("s").commit(release=True)),
    "both offset and cursor": ("offset", lambda s: s.sessions.list(offset=1, cursor="x")),
}
LIMITS: dict[str, Any] = {"zero": 0, "negative": -1, "a fraction": 1.5, "text": "5", "true": True}
COUNTED: dict[str, tuple[str, CallWith]] = {
    "messages.list limit": ("limit", lambda s, n: s.messages.list("s", limit=n)),
    "sessions.list limit": ("limit", lambda s, n: s.sessions.list(limit=n)),
    "nodes.iter limit": ("limit", lambda s, n: list(s.nodes.iter("s", limit=n))),
    "nodes.path limit": ("limit", lambda s, n: s.nodes.path("s", limit=n)),
    "turns.list limit": ("limit", lambda s, n: s.turns.list("s", limit=n)),
    "messages.last": ("n", lambda s, n: s.messages.last("s", n)),
    "messages.pop": ("n", lambda s, n: s.messages.pop("s", n)),
}
OFFSETS: dict[str, tuple[str, CallWith]] = {
    "messages.list": ("offset", lambda s, n: s.messages.list("s", offset=n)),
    "sessions.list": ("offset", lambda s, n: s.sessions.list(offset=n)),
    "messages.history": ("after_seq", lambda s, n: s.messages.history("s", after_seq=n)),
    "sessions.at": ("revision", lambda s, n: s.sessions.at("s", n)),
}


class TestBadCalls(Refusing):
    @pytest.mark.parametrize("name", BAD_CALLS)
    def test_it_is_refused_by_name(self, backend: Bed, session: str, name: str) -> None:
        field, call = BAD_CALLS[name]
        assert self.refused(backend, call).field == field

    @pytest.mark.parametrize("limit", LIMITS)
    @pytest.mark.parametrize("name", COUNTED)
    def test_a_count_is_a_positive_integer(
        self, backend: Bed, session: str, name: str, limit: str
    ) -> None:
        field, call = COUNTED[name]
        assert self.refused(backend, lambda store: call(store, LIMITS[limit])).field == field

    @pytest.mark.parametrize("offset", ["negative", "a fraction", "text", "true"])
    @pytest.mark.parametrize("name", OFFSETS)
    def test_an_offset_is_an_integer_of_at_least_zero(
        self, backend: Bed, session: str, name: str, offset: str
    ) -> None:
        field, call = OFFSETS[name]
        assert self.refused(backend, lambda store: call(store, LIMITS[offset])).field == field

    def test_a_limit_beyond_the_largest_is_clamped_and_said(self, backend: Bed) -> None:
        backend.store.messages.append("s", *(user(str(n)) for n in range(201)), create=True)
        page = backend.store.messages.list("s", limit=10**9)
        assert (len(page), page.has_more) == (200, True)

    @pytest.mark.parametrize("cursor", ["x", "", "ä", "AAAA", "x" * 5000, 7])
    def test_something_that_is_no_cursor_is_refused(
        self, backend: Bed, session: str, cursor: Any
    ) -> None:
        for call in (
            lambda s: s.sessions.list(cursor=cursor),
            lambda s: s.messages.list("s", cursor=cursor),
        ):
            assert self.refused(backend, call).field == "cursor"

    def test_a_cursor_of_another_list_is_refused(self, backend: Bed, session: str) -> None:
        store = backend.store
        store.messages.append("other", user("1"), user("2"), create=True)
        cursor = store.messages.list("s", limit=1).cursor
        assert cursor is not None
        for call in (
            lambda s: s.messages.list("other", cursor=cursor),
            lambda s: s.messages.list("s", order="-seq", cursor=cursor),
            lambda s: s.sessions.list(cursor=cursor),
            lambda s: s.for_tenant("stranger").sessions.list(cursor=cursor),
        ):
            assert self.refused(backend, call).field == "cursor"

    def test_a_damaged_cursor_is_refused(self, backend: Bed, session: str) -> None:
        cursor = backend.store.messages.list("s", limit=1).cursor
        assert cursor is not None
        for n in range(0, len(cursor), 5):
            other = "A" if cursor[n] != "A" else "B"
            damaged = cursor[:n] + other + cursor[n + 1 :]
            call = partial(_list_from, damaged)
            assert self.refused(backend, call).field == "cursor"

    def test_a_cursor_does_not_survive_a_new_incarnation(self, backend: Bed, session: str) -> None:
        store = backend.store
        cursor = store.messages.list("s", limit=1).cursor
        store.sessions.purge("s")
        store.messages.append("s", user("1"), user("2"), create=True)
        assert (
            self.refused(backend, lambda s: s.messages.list("s", cursor=cursor)).field == "cursor"
        )


def _list_from(cursor: str, store: Any) -> object:
    return store.messages.list("s", cursor=cursor)
