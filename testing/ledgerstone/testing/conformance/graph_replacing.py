"""A whole graph is replaced in one commit."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ledgerstone import Node, assistant, user
from ledgerstone.errors import (
    AlreadyExists,
    BlobNotFound,
    Fenced,
    InvalidValue,
    LeaseHeld,
    RevisionMoved,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.sessions import at_once

__all__ = ["TestReplacingTheGraph"]


def event(id: str, parent: Any = None, body: object = 1) -> Node:
    return Node(id=id, kind="event", body=body, parent=parent)


def graph(backend: Bed, session: str = "s") -> dict[str, Any]:
    """The live nodes of a session with their parents."""
    return {node.id: node.parent for node in backend.store.nodes.iter(session, order="ord")}


def path(backend: Bed, branch: str = "main") -> list[str]:
    return [node.id for node in backend.store.nodes.path("s", branch=branch)]


@pytest.mark.promise(219, 82)
class TestReplacingTheGraph:
    """`nodes.replace(session, nodes, leaf=...)`."""

    @pytest.fixture
    def nodes(self, backend: Bed) -> list[Node]:
        """a - b - c, and beside b another branch with d."""
        made = [event("a"), event("b", "a"), event("c", "b"), event("d", "a")]
        backend.store.nodes.append("s", *made[:3], create=True)
        backend.store.branches.create("s", "other", at="a")
        backend.store.nodes.append("s", made[3], branch="other")
        return made

    def test_the_graph_is_what_was_given(self, backend: Bed, nodes: list[Node]) -> None:
        before = backend.revision("s")
        wanted = [event("a"), event("x", "a"), event("y", "x"), event("z", "a")]
        made = backend.store.nodes.replace("s", wanted, leaf="y")
        assert (made.kept, made.removed, [one.id for one in made.added]) == (1, 3, ["x", "y", "z"])
        assert (made.leaf, made.revision) == ("y", before + 1)
        backend.reopen()
        assert graph(backend) == {"a": None, "x": "a", "y": "x", "z": "a"}
        assert path(backend) == ["a", "x", "y"]
        assert path(backend, "other") == ["a"]
        assert backend.store.admin.verify().ok

    def test_what_stands_there_stays(self, backend: Bed, nodes: list[Node]) -> None:
        store = backend.store
        old = {node.id: node for node in store.nodes.iter("s")}
        made = store.nodes.replace("s", nodes, leaf="d")
        assert (made.kept, made.removed, made.added, made.leaf) == (4, 0, (), "d")
        assert {node.id: node for node in store.nodes.iter("s")} == old
        assert path(backend) == ["a", "d"]

    def test_a_graph_as_it_was_loaded_goes_back_as_it_is(self, backend: Bed) -> None:
        store = backend.store
        messages = (user("one"), assistant("two", model="m"), user("three"))
        store.messages.append("s", *messages, create=True, run_id="r")
        store.nodes.append("s", event("e", None), on_path=False)
        state = store.sessions.load("s", scope="graph")
        assert state is not None
        loaded = state.graph.nodes
        made = store.nodes.replace("s", loaded, leaf=state.graph.leaf)
        assert (made.kept, made.removed) == (4, 0)
        leaf = loaded[1].id
        made = store.nodes.replace("s", loaded[:2], leaf=leaf)
        assert (made.kept, made.removed) == (2, 2)
        assert backend.texts("s") == ["one", "two"]
        assert store.messages.count("s") == 2
        assert store.messages.append("s", user("next"))[0].seq == 3

    def test_into_another_session_it_is_copied(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("one"), assistant("two"), create=True)
        state = store.sessions.load("s", scope="graph")
        assert state is not None
        made = store.nodes.replace("t", state.graph.nodes, leaf=state.graph.leaf, create=True)
        assert (made.kept, len(made.added), made.revision) == (0, 2, 1)
        assert backend.texts("t") == ["one", "two"]
        picker = store.sessions.picker("t")
        assert picker is not None
        assert (picker.first_user_message, picker.user_messages) == ("one", 1)
        assert graph(backend, "t") == graph(backend, "s")

    def test_messages_follow_each_other_unless_they_say_otherwise(self, backend: Bed) -> None:
        store = backend.store
        given: list[Any] = [
            user("one", id="m1"),
            {"kind": "event", "id": "e"},
            assistant("two", id="m2"),
        ]
        store.nodes.replace(
            "s", [*given, user("else", id="m3", parent="m1")], leaf="m2", create=True
        )
        assert graph(backend) == {"m1": None, "e": "m1", "m2": "e", "m3": "m1"}
        assert backend.texts("s") == ["one", "two"]
        store.nodes.replace("s", store.messages.history("s")[:1], leaf="m1")
        assert graph(backend) == {"m1": None}

    def test_bytes_that_new_messages_name_must_be_there(self, backend: Bed) -> None:
        store = backend.store
        ref = store.blobs.put(b"photo").ref
        named = user([{"type": "image", "blob": ref}], id="m1")
        store.nodes.replace("s", [named], leaf="m1", create=True)
        assert store.attachments.get("s", ref) is not None
        store.nodes.replace("s", [*store.nodes.iter("s"), user("more", id="m2")], leaf="m2")
        lost = user([{"type": "image", "blob": "0" * 64}], id="m3")
        with backend.unchanged("s"), pytest.raises(BlobNotFound):
            store.nodes.replace("s", [lost], leaf="m3")

    def test_an_empty_graph(self, backend: Bed, nodes: list[Node]) -> None:
        made = backend.store.nodes.replace("s", [], leaf=None)
        assert (made.removed, made.leaf) == (4, None)
        assert graph(backend) == {}
        backend.store.nodes.append("s", Node(id="new", kind="event"))
        assert graph(backend) == {"new": None}

    def test_the_leaf_may_be_before_everything(self, backend: Bed, nodes: list[Node]) -> None:
        assert backend.store.nodes.replace("s", nodes, leaf=None).leaf is None
        assert path(backend) == []
        assert len(graph(backend)) == 4

    def test_of_a_branch_the_leaf_moves(self, backend: Bed, nodes: list[Node]) -> None:
        backend.store.nodes.replace("s", [*nodes, event("e", "d")], leaf="e", branch="other")
        assert path(backend, "other") == ["a", "d", "e"]
        assert path(backend) == ["a", "b", "c"]

    def test_an_id_with_other_content_is_refused_and_nothing_changes(
        self, backend: Bed, nodes: list[Node]
    ) -> None:
        replaced = backend.store.nodes.replace
        others = [replace(nodes[0], body=2), replace(nodes[0], label="x"), event("b", None)]
        for other in others:
            with backend.unchanged("s"), pytest.raises(AlreadyExists) as refused:
                replaced("s", [other], leaf=None)
            assert refused.value.id == other.id
        replaced("s", nodes[:1], leaf="a")
        with pytest.raises(AlreadyExists):
            replaced("s", nodes, leaf="a")

    def test_a_graph_that_does_not_hold_together_is_refused(
        self, backend: Bed, nodes: list[Node]
    ) -> None:
        wrong: list[tuple[str, list[Any], str | None]] = [
            ("parent", [event("x", "nowhere")], None),
            ("parent", [event("y", "x"), event("x")], None),
            ("parent", [event("b", "a")], None),
            ("parent", [event("x", "x")], None),
            ("leaf", [event("a")], "b"),
            ("id", [event("x"), event("x")], None),
            ("body", [Node(id="m", kind="message", body={"role": "nobody"})], None),
            ("nodes", [5], None),
        ]
        for field, given, leaf in wrong:
            with backend.unchanged("s"), pytest.raises(InvalidValue) as refused:
                backend.store.nodes.replace("s", given, leaf=leaf)
            assert refused.value.field == field

    def test_only_who_may_write_replaces(self, backend: Bed, nodes: list[Node]) -> None:
        store = backend.store
        with pytest.raises(SessionNotFound):
            store.nodes.replace("nobody", [], leaf=None)
        with pytest.raises(RevisionMoved):
            store.nodes.replace("s", [], leaf=None, expected_revision=99)
        lease = store.leases.take("s", owner="w", ttl_s=10)
        assert lease is not None
        with pytest.raises(LeaseHeld):
            store.nodes.replace("s", [], leaf=None)
        assert store.nodes.replace(lease, nodes, leaf="c").kept == 4
        backend.clock.advance(11)
        store.leases.take("s", owner="x", ttl_s=10)
        with pytest.raises(Fenced):
            store.nodes.replace(lease, nodes, leaf="c")
        backend.clock.advance(11)
        store.sessions.delete("s")
        with pytest.raises(SessionDeleted):
            store.nodes.replace("s", [], leaf=None)
        assert len(graph(backend)) == 4

    def test_of_two_at_once_both_happen_whole(self, backend: Bed, nodes: list[Node]) -> None:
        def one(n: int) -> int:
            given = [event("a"), *(event(f"{n}-{m}", "a") for m in range(20))]
            return backend.store.nodes.replace("s", given, leaf="a").revision

        before = backend.revision("s")
        assert sorted(at_once(4, one)) == [before + n for n in (1, 2, 3, 4)]
        left = {id.partition("-")[0] for id in graph(backend)} - {"a"}
        assert len(left) == 1
        assert len(graph(backend)) == 21
