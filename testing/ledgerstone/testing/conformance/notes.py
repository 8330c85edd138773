"""Notes and values: small records beside nodes that may not exist yet, bytes kept once."""

from __future__ import annotations

import hashlib

import pytest

from ledgerstone import user
from ledgerstone.errors import InvalidValue, SessionDeleted, SessionNotFound, TurnConflict
from ledgerstone.records.nodes import Node, Opaque
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.testing.bed import Bed

DAY_S = 86_400


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class TestNotes:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        backend.store.messages.append("s", user("hi", id="m1"), create=True)
        return "s"

    def bodies(self, backend: Bed, node: str = "m1", prefix: str = "") -> dict[str, object]:
        found = backend.store.nodes.notes("s", [node], prefix=prefix).get(node, {})
        return {key: note.body for key, note in found.items()}

    def test_notes_are_kept_and_come_in_key_order(self, backend: Bed, session: str) -> None:
        written = backend.store.nodes.annotate(session, "m1", {"b": [1], "a/2": None, "a/10": "x"})
        assert written == 3
        backend.reopen()
        assert list(self.bodies(backend).items()) == [("a/10", "x"), ("a/2", None), ("b", [1])]
        assert list(self.bodies(backend, prefix="a/")) == ["a/10", "a/2"]

    def test_the_first_body_of_a_key_stays_unless_it_is_replaced(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        store.nodes.annotate(session, "m1", {"k": "first"})
        assert store.nodes.annotate(session, "m1", {"k": "second", "l": 1}) == 1
        assert self.bodies(backend) == {"k": "first", "l": 1}
        assert store.nodes.annotate(session, "m1", {"k": "third"}, mode="replace") == 1
        assert self.bodies(backend) == {"k": "third", "l": 1}

    def test_a_note_may_come_before_its_node(self, backend: Bed, session: str) -> None:
        backend.store.nodes.annotate(session, "later", {"k": 1})
        backend.store.messages.append(session, user("now", id="later"))
        node = backend.store.nodes.get(session, "later", notes=True)
        assert node is not None
        assert node.notes is not None
        assert node.notes["k"].body == 1

    def test_notes_touch_neither_revision_nor_lease(self, backend: Bed, session: str) -> None:
        store = backend.store
        lease = store.leases.take(session, owner="ann")
        store.nodes.annotate(session, "m1", {"k": 1})
        assert backend.revision(session) == 1
        assert store.leases.get(session) == lease

    def test_opaque_bodies_come_back_as_they_were(self, backend: Bed, session: str) -> None:
        foreign = Opaque("bin", b"\x00\xff")
        backend.store.nodes.annotate(session, "m1", {"k": foreign})
        assert self.bodies(backend) == {"k": foreign}

    def test_a_turn_writes_notes_with_its_nodes(self, backend: Bed, session: str) -> None:
        with backend.store.turns.begin(session) as turn:
            turn.node("event", 1, id="e")
            turn.note("e", "k", "with it")
        assert self.bodies(backend, "e") == {"k": "with it"}

    def test_a_turn_keeps_the_first_body_when_it_is_told_to(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        store.nodes.annotate(session, "m1", {"old": "first"})
        with store.turns.begin(session) as turn:
            turn.note("m1", "old", "second", mode="keep")
            turn.note("m1", "new", "first", mode="keep")
            turn.note("m1", "new", "second", mode="keep")
            turn.note("m1", "plain", "second")
        backend.reopen()
        assert self.bodies(backend) == {"old": "first", "new": "first", "plain": "second"}

    def test_a_replacement_wins_over_what_a_turn_keeps(self, backend: Bed, session: str) -> None:
        with backend.store.turns.begin(session) as turn:
            turn.note("m1", "a", "kept", mode="keep")
            turn.note("m1", "a", "replaced")
            turn.note("m1", "b", "replaced")
            turn.note("m1", "b", "kept", mode="keep")
        assert self.bodies(backend) == {"a": "replaced", "b": "replaced"}

    def test_a_turn_notes_nodes_that_come_later(self, backend: Bed, session: str) -> None:
        store = backend.store
        for mode in ("keep", "replace"):
            with store.turns.begin(session) as turn:
                turn.note("later", mode, 1, values=[turn.value(mode)], mode=mode)
        store.messages.append(session, user("now", id="later"))
        node = store.nodes.get(session, "later", notes=True, resolve=True)
        assert node is not None
        assert set(node.notes or ()) == {"keep", "replace"}
        assert set((node.resolved or {}).values()) == {b'"keep"', b'"replace"'}

    def test_a_repeated_turn_notes_nothing_again(self, backend: Bed, session: str) -> None:
        """What its first time kept may be replaced since: the repeat must not touch that."""
        store = backend.store

        def noted(mode: str) -> TurnCommitted:
            turn = store.turns.begin(session, id="t")
            turn.note("m1", "k", "mine", mode=mode)
            return turn.commit()

        first = noted("keep")
        store.nodes.annotate(session, "m1", {"k": "other"}, mode="replace")
        again = noted("keep")
        assert (again.revision, again.replayed) == (first.revision, True)
        assert self.bodies(backend) == {"k": "other"}
        with pytest.raises(TurnConflict):
            noted("replace")

    def test_a_mode_that_there_is_not_is_refused(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session)
        with pytest.raises(InvalidValue, match="mode"):
            turn.note("m1", "k", 1, mode="merge")
        assert self.bodies(backend) == {}

    def test_a_note_needs_a_live_session(self, backend: Bed, session: str) -> None:
        with pytest.raises(SessionNotFound):
            backend.store.nodes.annotate("nowhere", "m1", {"k": 1})
        backend.store.sessions.delete(session)
        with pytest.raises(SessionDeleted):
            backend.store.nodes.annotate(session, "m1", {"k": 1})

    def test_notes_without_a_node_are_swept_after_a_day(self, backend: Bed, session: str) -> None:
        store = backend.store
        store.nodes.annotate(session, "never", {"k": 1})
        store.nodes.annotate(session, "m1", {"k": 1})
        backend.clock.advance(DAY_S - 10)
        assert store.admin.vacuum(session).notes == 0
        backend.clock.advance(20)
        assert store.admin.vacuum(session, dry_run=True).notes == 1
        assert store.admin.vacuum(session).notes == 1
        assert self.bodies(backend, "never") == {}
        assert self.bodies(backend) == {"k": 1}

    def test_notes_go_with_their_session(self, backend: Bed, session: str) -> None:
        backend.store.nodes.annotate(session, "m1", {"k": 1})
        backend.store.sessions.purge(session)
        backend.store.sessions.create(id=session)
        assert self.bodies(backend) == {}


class TestBytesOfNodes:
    def test_values_of_nodes_are_resolved_on_request(self, backend: Bed) -> None:
        store = backend.store
        node = Node(id="n", kind="event", body=1, values=(digest(b"one"), digest(b"two")))
        store.nodes.append("s", node, values=[b"one", b"two"], create=True)
        backend.reopen()
        found = backend.store.nodes.get("s", "n", resolve=True)
        plain = backend.store.nodes.get("s", "n")
        assert found is not None
        assert plain is not None
        assert found.resolved == {digest(b"one"): b"one", digest(b"two"): b"two"}
        assert (plain.resolved, plain.values) == (None, node.values)

    def test_values_of_notes_live_as_long_as_the_note(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("hi", id="m1"), create=True)
        store.nodes.annotate("s", "m1", {"k": 1}, values=[b"bytes"])
        assert store.nodes.values("s", [digest(b"bytes")]) == {digest(b"bytes"): b"bytes"}
        found = store.nodes.get("s", "m1", notes=True, resolve=True)
        assert found is not None
        assert found.resolved == {digest(b"bytes"): b"bytes"}
        backend.clock.advance(2 * DAY_S)
        store.admin.vacuum("s")
        assert store.nodes.values("s", [digest(b"bytes")]) == {digest(b"bytes"): b"bytes"}
        store.nodes.tombstone("s", ["m1"])
        assert store.admin.vacuum("s").values == 1
        assert store.nodes.values("s", [digest(b"bytes")]) == {}

    def test_a_value_that_two_nodes_name_goes_with_the_second(self, backend: Bed) -> None:
        store = backend.store
        for name in ("a", "b"):
            node = Node(id=name, kind="event", values=(digest(b"x"),))
            store.nodes.append("s", node, values=[b"x"], create=True)
        store.nodes.tombstone("s", ["a"])
        assert store.admin.vacuum("s").values == 0
        store.nodes.tombstone("s", ["b"])
        assert store.admin.vacuum("s").values == 1

    def test_values_of_one_session_are_not_those_of_another(self, backend: Bed) -> None:
        store = backend.store
        for session in ("s", "other"):
            store.sessions.create(id=session)
        with store.turns.begin("s") as turn:
            name = turn.value(b"secret")
        assert store.nodes.values("other", [name]) == {}
        assert store.nodes.values("s", [name]) == {name: b"secret"}
