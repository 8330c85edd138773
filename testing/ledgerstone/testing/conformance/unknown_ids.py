"""Unknown ids: the error says what is missing, under which id, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import Store, errors, tool_call, user
from ledgerstone.errors import InvalidValue, LedgerstoneError, NotFound
from ledgerstone.records.parts import File
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.security import FOREIGN as OLDER
from ledgerstone.testing.conformance.tenants import FOREIGN

NOPE = "nope"
BYTES = "0" * 64
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]
NOUNS: dict[type[LedgerstoneError], str] = {
    errors.SessionNotFound: "session",
    errors.MessageNotFound: "message",
    errors.NodeNotFound: "node",
    errors.BranchNotFound: "branch",
    errors.RunNotFound: "run",
    errors.TicketNotFound: "ticket",
    errors.ExecutionNotFound: "execution",
    errors.BatchNotFound: "dead batch",
    errors.BlobNotFound: "blob",
}


def _turn(store: Store, fill: Callable[[Any], object]) -> None:
    with store.turns.begin("s") as turn:
        fill(turn)


def _hold(store: Store) -> None:
    with store.leases.hold(NOPE):
        pass


def _open(store: Store) -> None:
    with store.artifacts.open(NOPE, session="s"):
        pass


def _park(store: Store) -> None:
    store.work.enqueue("s", 1)
    with store.work.hold() as (_, claim):
        store.work.park(claim, waiting_for=NOPE)


# In a session that is there: the call, and what it does not find.
CALLS: dict[str, tuple[Callable[[Store], Any], str]] = {
    "messages.append": (lambda s: s.messages.append(NOPE, user("x")), "session"),
    "messages.append to": (lambda s: s.messages.append("s", user("x"), branch=NOPE), "branch"),
    "messages.append after": (lambda s: s.messages.append("s", user("x", parent=NOPE)), "node"),
    "messages.append with": (lambda s: s.messages.append("s", user([File(blob=NOPE)])), "blob"),
    "messages.replace": (lambda s: s.messages.replace("s", [], branch=NOPE), "branch"),
    "messages.amend": (lambda s: s.messages.amend(NOPE, session="s", name="x"), "message"),
    "messages.compact": (lambda s: s.messages.compact("s", "x", tail_start=NOPE), "message"),
    "nodes.append": (lambda s: s.nodes.append("s", {"kind": "k", "parent": NOPE}), "node"),
    "branches.create": (lambda s: s.branches.create("s", "b", at=NOPE), "node"),
    "branches.move": (lambda s: s.branches.move("s", NOPE, to=None), "branch"),
    "branches.move to": (lambda s: s.branches.move("s", "main", to=NOPE), "node"),
    "branches.diff": (lambda s: s.branches.diff("s", "main", NOPE), "branch"),
    "sessions.fork": (lambda s: s.sessions.fork("s", branch=NOPE), "branch"),
    "sessions.fork at": (lambda s: s.sessions.fork("s", at=NOPE), "node"),
    "sessions.update": (lambda s: s.sessions.update(NOPE, title="x"), "session"),
    "runs.update": (lambda s: s.runs.update(NOPE, status="done"), "run"),
    "tickets.resolve": (lambda s: s.tickets.resolve(NOPE, "approve", by="ada"), "ticket"),
    "executions.start": (lambda s: s.executions.start("s", ticket=NOPE), "ticket"),
    "executions.finish": (lambda s: s.executions.finish(NOPE, result=1), "execution"),
    "executions.retry": (lambda s: s.executions.retry(NOPE), "execution"),
    "turn.execution": (lambda s: _turn(s, lambda t: t.execution(NOPE, result=1)), "execution"),
    "turn.amend": (lambda s: _turn(s, lambda t: t.amend(NOPE, name="x")), "message"),
    "turn.artifact": (lambda s: _turn(s, lambda t: t.artifact("a", BYTES)), "blob"),
    "turn.enqueue": (lambda s: _turn(s, lambda t: t.enqueue(1, session=NOPE)), "session"),
    "turns.begin": (lambda s: s.turns.begin(NOPE).commit(), "session"),
    "leases.take": (lambda s: s.leases.take(NOPE), "session"),
    "leases.hold": (_hold, "session"),
    "work.enqueue": (lambda s: s.work.enqueue(NOPE, 1), "session"),
    "work.park": (_park, "execution"),
    "work.replay": (lambda s: s.work.replay(NOPE), "dead batch"),
    "artifacts.put": (lambda s: s.artifacts.put("a", blob=BYTES), "blob"),
    "artifacts.open": (_open, "artifact"),
}


def check_text(store: Store, error: Exception, noun: str, id: str) -> None:
    """What is missing, its id, and a next step whose calls exist."""
    said, _, step = str(error).partition("; ")
    if isinstance(error, NotFound):
        assert (said, error.id) == (f"{noun} not found: {id}", id)
    else:
        assert said.endswith(f"no such {noun}: {id}")
    named = re.findall(r"store\.(\w+)\.(\w+)", step)
    assert named, str(error)
    for namespace, method in named:
        assert callable(getattr(getattr(store, namespace), method))


def raises(wanted: object) -> bool:
    """Whether a table of calls expects an error."""
    return isinstance(wanted, type)


class TestUnknownIds:
    @pytest.mark.promise(195)
    @pytest.mark.parametrize("name", CALLS)
    def test_the_error_names_noun_id_and_next_step(self, backend: Bed, name: str) -> None:
        store = backend.store
        store.messages.append("s", user("hi"), create=True)
        call, noun = CALLS[name]
        with pytest.raises((NotFound, InvalidValue)) as caught:
            call(store)
        id = BYTES if "artifact" in name and noun == "blob" else NOPE
        check_text(store, caught.value, noun, id)

    @pytest.mark.promise(195)
    def test_so_does_every_call_on_an_empty_store(self, backend: Bed) -> None:
        """The tables that the tenants are checked with know every method."""
        backend.store.messages.append("s", user("hi"), create=True)
        lease = backend.store.leases.take("s", owner="ann")
        calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            **{name: (call, (lease,)) for name, (call, wanted) in OLDER.items() if raises(wanted)},
            **{name: (call, ()) for name, (call, wanted) in FOREIGN.items() if raises(wanted)},
        }
        seen = set()
        for name, (call, more) in calls.items():
            empty = backend.store.for_tenant(name)
            with pytest.raises(LedgerstoneError) as caught:
                call(empty, *more)
            error = caught.value
            if isinstance(error, NotFound):
                noun = "artifact" if name == "artifacts.open" else NOUNS[type(error)]
                check_text(empty, error, noun, error.id)
                assert error.id
                seen.add(name)
        assert len(seen) > 40

    @pytest.mark.promise(195)
    def test_every_kind_has_a_noun_and_a_step(self, backend: Bed) -> None:
        kinds = {kind for kind in KINDS if issubclass(kind, NotFound) and kind is not NotFound}
        assert kinds == set(NOUNS)
        for kind in kinds:
            check_text(backend.store, kind(NOPE), NOUNS[kind], NOPE)
        assert str(NotFound(NOPE)) == "not found: nope"

    @pytest.mark.promise(195, 220)
    @pytest.mark.parametrize("odd", ["", "a\nb", "a\0b", "\ud800", "x" * 100_000])
    def test_an_id_that_cannot_be_shown_is_shown_short(self, backend: Bed, odd: str) -> None:
        """A part may name its bytes by any text."""
        with pytest.raises(errors.BlobNotFound) as caught:
            backend.store.messages.append("s", user([File(blob=odd)]), create=True)
        assert caught.value.id == odd
        assert len(str(caught.value)) < 300
        assert str(caught.value).isprintable()

    @pytest.mark.promise(195)
    def test_a_ticket_of_another_store_is_named_in_a_turn(self, backend: Bed) -> None:
        store = backend.store
        with store.turns.begin("s", create=True) as turn:
            turn.assistant([tool_call("pay", {}, id="c1")])
            turn.ask("c1", id="k1")
        with pytest.raises(errors.TicketNotFound) as caught:
            store.tickets.resolve("k2", "approve", by="ada")
        check_text(store, caught.value, "ticket", "k2")
