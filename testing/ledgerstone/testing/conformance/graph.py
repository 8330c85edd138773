"""The message graph: nodes of any kind, paths, tombstones, vacuum."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ledgerstone import assistant, user
from ledgerstone.errors import (
    AlreadyExists,
    InvalidValue,
    NotSupported,
    SessionNotFound,
    TurnConflict,
)
from ledgerstone.records.nodes import Node, Opaque
from ledgerstone.testing.bed import Bed


def ids(nodes: object) -> list[str]:
    return [node.id for node in nodes]  # type: ignore[attr-defined]


class OnATree:
    @pytest.fixture
    def tree(self, backend: Bed) -> str:
        """main: m1 m2 m3; side: m1 d2. Commit order: m1 m2 m3 d2."""
        store = backend.store
        store.messages.append(
            "s", user("one", id="m1"), assistant("two", id="m2"), user("three", id="m3"),
            create=True,
        )  # fmt: skip
        store.branches.create("s", "side", at="m1")
        store.messages.append("s", assistant("zwei", id="d2"), branch="side")
        return "s"


class TestNodes(OnATree):
    @pytest.mark.promise(75)
    def test_a_node_keeps_its_whole_envelope_and_body(self, backend: Bed, tree: str) -> None:
        now_us = backend.clock.now_us()
        with backend.store.turns.begin(tree) as turn:
            turn.node(
                "plugin",
                {"plugin_type": "todo", "body": {"items": [1, None, "x"]}},
                id="p4",
                label="todo/list",
                meta={"frame": "f1", "n": 3},
            )
        node = backend.store.nodes.get(tree, "p4")
        assert node is not None
        assert (node.id, node.session, node.kind, node.parent) == ("p4", tree, "plugin", "m3")
        assert (node.ord, node.seq, node.label) == (5, 4, "todo/list")
        assert node.meta == {"frame": "f1", "n": 3}
        assert node.body == {"plugin_type": "todo", "body": {"items": [1, None, "x"]}}
        assert node.created_us >= now_us
        assert node.deleted_us is None

    @pytest.mark.promise(75)
    def test_an_opaque_body_comes_back_byte_for_byte(self, backend: Bed, tree: str) -> None:
        foreign = Opaque("msgpack", bytes(range(256)))
        backend.store.nodes.append(tree, Node(id="o", kind="checkpoint", body=foreign))
        node = backend.store.nodes.get(tree, "o")
        assert node is not None
        assert node.body == foreign

    @pytest.mark.promise(75)
    def test_a_node_names_the_run_that_wrote_it(self, backend: Bed, tree: str) -> None:
        backend.store.nodes.append(tree, Node(id="r", kind="frame", body=1, run_id="run 1"))
        found = list(backend.store.nodes.iter(tree, run_id="run 1"))
        assert ids(found) == ["r"]
        assert found[0].run_id == "run 1"

    @pytest.mark.promise(76)
    def test_an_unknown_node_is_none(self, backend: Bed, tree: str) -> None:
        assert backend.store.nodes.get(tree, "nowhere") is None
        assert backend.store.nodes.get("nowhere", "m1") is None

    @pytest.mark.promise(76)
    def test_a_node_is_found_by_its_id(self, backend: Bed, tree: str) -> None:
        node = backend.store.nodes.get(tree, "m2")
        assert node is not None
        assert (node.id, node.kind, node.ord, node.seq, node.parent) == (
            "m2",
            "message",
            2,
            2,
            "m1",
        )

    def test_an_id_is_found_in_every_session_of_the_tenant(self, backend: Bed, tree: str) -> None:
        backend.store.sessions.fork(tree, new_id="f")
        found = backend.store.nodes.find("m1")
        assert sorted(node.session for node in found) == ["f", "s"]
        assert backend.store.nodes.find("nowhere") == []

    def test_the_nodes_of_a_purged_session_are_found_nowhere(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.sessions.fork(tree, new_id="f")
        store.sessions.purge(tree)
        assert [node.session for node in store.nodes.find("m1")] == ["f"]
        assert {node.session for node in store.nodes.iter()} == {"f"}
        store.sessions.purge("f")
        assert store.nodes.find("m1") == []
        assert store.messages.get("m1") is None
        assert list(store.nodes.iter()) == []
        store.messages.append(tree, user("again", id="m1"), create=True)
        assert [node.session for node in store.nodes.find("m1")] == [tree]

    @pytest.mark.promise(77)
    def test_the_full_graph_has_every_branch_in_commit_order(self, backend: Bed, tree: str) -> None:
        nodes = list(backend.store.nodes.iter(tree, order="ord"))
        assert [(n.id, n.ord, n.parent) for n in nodes] == [
            ("m1", 1, None),
            ("m2", 2, "m1"),
            ("m3", 3, "m2"),
            ("d2", 4, "m1"),
        ]

    @pytest.mark.promise(77)
    def test_iteration_is_complete_however_many_nodes_there_are(self, backend: Bed) -> None:
        made = [Node(id=f"n{n:04d}", kind="event", body=n) for n in range(1203)]
        backend.store.nodes.append("big", *made, create=True)
        for order, wanted in (("ord", made), ("-ord", made[::-1]), ("id", made)):
            assert ids(backend.store.nodes.iter("big", order=order)) == ids(wanted)

    @pytest.mark.promise(78)
    def test_the_active_path_is_the_ancestry_of_the_leaf_root_first(
        self, backend: Bed, tree: str
    ) -> None:
        assert ids(backend.store.nodes.path(tree)) == ["m1", "m2", "m3"]
        assert ids(backend.store.nodes.path(tree, branch="side")) == ["m1", "d2"]

    @pytest.mark.promise(78)
    def test_any_node_can_be_asked_for_its_path(self, backend: Bed, tree: str) -> None:
        assert ids(backend.store.nodes.path(tree, at="d2")) == ["m1", "d2"]
        assert ids(backend.store.nodes.path(tree, at="m2")) == ["m1", "m2"]
        assert [m.id for m in backend.store.messages.history(tree, at="d2")] == ["m1", "d2"]
        assert backend.store.nodes.path(tree, at="nowhere") == []

    @pytest.mark.promise(77, 78, 81)
    def test_a_loaded_session_has_the_path_or_the_whole_graph(
        self, backend: Bed, tree: str
    ) -> None:
        path = backend.store.sessions.load(tree)
        whole = backend.store.sessions.load(tree, scope="graph")
        other = backend.store.sessions.load(tree, leaf="d2")
        assert path is not None
        assert whole is not None
        assert other is not None
        assert (ids(path.graph.nodes), path.graph.leaf) == (["m1", "m2", "m3"], "m3")
        assert (ids(whole.graph.nodes), whole.graph.leaf) == (["m1", "m2", "m3", "d2"], "m3")
        assert (ids(other.graph.nodes), other.graph.leaf) == (["m1", "d2"], "d2")
        assert (path.session, path.revision) == (tree, 3)

    @pytest.mark.promise(79)
    def test_before_the_first_commit_there_is_no_head(self, backend: Bed) -> None:
        backend.store.sessions.create(id="new")
        assert backend.store.sessions.head("new") is None
        assert backend.store.sessions.head("nowhere") is None
        assert backend.store.sessions.load("new") is None
        assert backend.store.sessions.load("nowhere") is None

    @pytest.mark.promise(80, 201)
    def test_a_scope_that_nobody_serves_is_not_supported(self, backend: Bed, tree: str) -> None:
        with pytest.raises(NotSupported) as caught:
            backend.store.sessions.load(tree, scope="sideways")
        assert "sideways" in caught.value.capability
        with pytest.raises(InvalidValue) as refused:
            list(backend.store.nodes.iter(tree, order="sideways"))
        assert refused.value.field == "order"

    def test_nodes_are_filtered_by_kind_label_and_meta(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.nodes.append(
            tree,
            Node(id="a", kind="frame", label="x", meta={"k": 1}),
            Node(id="b", kind="frame", label="y", meta={"k": 1, "more": True}),
            Node(id="c", kind="plugin", label="x", meta={"k": "1"}),
        )
        assert ids(store.nodes.iter(tree, kind="frame", order="id")) == ["a", "b"]
        assert ids(store.nodes.iter(tree, label="x", order="id")) == ["a", "c"]
        assert ids(store.nodes.iter(tree, meta_contains={"k": 1}, order="id")) == ["a", "b"]
        assert ids(store.nodes.iter(tree, kind="frame", label="x")) == ["a"]
        assert ids(store.nodes.path(tree, kind="message")) == ["m1", "m2", "m3"]

    @pytest.mark.promise(84)
    def test_a_taken_id_is_refused_and_nothing_is_written(self, backend: Bed, tree: str) -> None:
        with backend.unchanged(tree), pytest.raises(AlreadyExists) as caught:
            backend.store.nodes.append(
                tree, Node(id="new", kind="event", body=1), Node(id="m2", kind="event", body=2)
            )
        assert caught.value.id == "m2"
        assert backend.store.nodes.get(tree, "new") is None

    @pytest.mark.promise(84)
    def test_a_tombstoned_id_stays_taken(self, backend: Bed, tree: str) -> None:
        backend.store.nodes.tombstone(tree, ["m2"])
        with backend.unchanged(tree), pytest.raises(AlreadyExists):
            backend.store.nodes.append(tree, Node(id="m2", kind="event", body=2))

    @pytest.mark.promise(85)
    def test_an_unknown_parent_is_refused(self, backend: Bed, tree: str) -> None:
        lost = Node(id="n", kind="event", body=1, parent="nowhere")
        with backend.unchanged(tree), pytest.raises(InvalidValue) as caught:
            backend.store.nodes.append(tree, lost)
        assert caught.value.field == "parent"

    @pytest.mark.promise(85)
    def test_an_unknown_parent_may_become_a_root_on_request(self, backend: Bed, tree: str) -> None:
        lost = Node(id="n", kind="event", body=1, parent="nowhere")
        backend.store.nodes.append(tree, lost, parent_missing="root")
        node = backend.store.nodes.get(tree, "n")
        assert node is not None
        assert (node.parent, node.seq) == (None, 1)

    def test_what_append_answers_is_what_is_read_later(self, backend: Bed, tree: str) -> None:
        store = backend.store
        made = store.nodes.append(
            tree,
            Node(id="e", kind="event", body={"a": [1]}, label="l", meta={"k": 1}, run_id="r"),
            user("said", id="x", metadata={"m": 1}),
            {"id": "o", "kind": "blob", "body": Opaque("bin", b"1")},
        )
        assert [node.kind for node in made] == ["event", "message", "blob"]
        assert made == [store.nodes.get(tree, node.id) for node in made]

    def test_nodes_off_the_path_move_no_branch(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.nodes.append(tree, Node(id="e", kind="event"), user("aside", id="x"), on_path=False)
        assert ids(store.nodes.path(tree)) == ["m1", "m2", "m3"]
        aside, hung = store.nodes.get(tree, "e"), store.nodes.get(tree, "x")
        assert aside is not None
        assert hung is not None
        assert (aside.parent, hung.parent) == ("m3", "m3")
        assert store.messages.append(tree, user("next"))[0].parent == "m3"

    def test_a_turn_has_messages_beside_the_path(self, backend: Bed, tree: str) -> None:
        store = backend.store
        turn = store.turns.begin(tree, id="t")
        first, second = (user(f"aside {n}", id=f"a{n}") for n in (1, 2))
        turn.add(first, replace(second, parent="a1"), on_path=False)
        turn.user("next", id="m4")
        turn.add(user("later aside", id="a3"), on_path=False)
        done = turn.commit()
        parents = [(message.id, message.parent) for message in done.messages]
        assert parents == [("a1", "m3"), ("a2", "a1"), ("m4", "m3"), ("a3", "m4")]
        backend.reopen()
        store = backend.store
        assert ids(store.nodes.path(tree)) == ["m1", "m2", "m3", "m4"]
        assert ids(store.nodes.path(tree, at="a2")) == ["m1", "m2", "m3", "a1", "a2"]
        assert store.messages.count(tree) == 4
        assert store.messages.append(tree, user("last"))[0].parent == "m4"
        assert store.admin.verify().defects == []

    def test_beside_the_path_is_another_turn(self, backend: Bed, tree: str) -> None:
        store = backend.store
        for on_path, replayed in ((False, False), (False, True)):
            turn = store.turns.begin(tree, id="t")
            turn.add(user("same"), on_path=on_path)
            assert turn.commit().replayed is replayed
        turn = store.turns.begin(tree, id="t")
        turn.add(user("same"))
        with pytest.raises(TurnConflict):
            turn.commit()
        with pytest.raises(InvalidValue, match="on_path"):
            turn.add(user("same"), on_path=1)  # type: ignore[arg-type]

    def test_appending_to_an_unknown_session_is_refused(self, backend: Bed) -> None:
        with pytest.raises(SessionNotFound):
            backend.store.nodes.append("nowhere", Node(kind="event", body=1))
        assert backend.store.sessions.get("nowhere") is None

    @pytest.mark.promise(78)
    def test_seq_is_the_position_on_the_path_and_dense(self, backend: Bed, tree: str) -> None:
        for branch in ("main", "side"):
            path = backend.store.nodes.path(tree, branch=branch)
            assert [node.seq for node in path] == list(range(1, len(path) + 1))


class TestTombstones(OnATree):
    @pytest.mark.promise(76, 77, 78, 87)
    def test_a_tombstone_hides_at_once_from_every_read(self, backend: Bed, tree: str) -> None:
        store = backend.store
        assert store.nodes.tombstone(tree, ["m2"]) == 1
        assert store.nodes.get(tree, "m2") is None
        assert store.nodes.find("m2") == []
        assert ids(store.nodes.iter(tree, order="ord")) == ["m1", "m3", "d2"]
        assert ids(store.nodes.path(tree)) == ["m1", "m3"]
        assert backend.texts(tree) == ["one", "three"]

    @pytest.mark.promise(87)
    def test_a_second_tombstone_does_nothing(self, backend: Bed, tree: str) -> None:
        assert backend.store.nodes.tombstone(tree, ["m2", "m3"]) == 2
        assert backend.store.nodes.tombstone(tree, ["m2", "m3"]) == 0

    @pytest.mark.promise(87)
    def test_unknown_ids_and_an_empty_list_are_ignored(self, backend: Bed, tree: str) -> None:
        assert backend.store.nodes.tombstone(tree, []) == 0
        assert backend.store.nodes.tombstone(tree, ["nowhere"]) == 0
        assert ids(backend.store.nodes.path(tree)) == ["m1", "m2", "m3"]

    @pytest.mark.promise(87, 89)
    def test_a_tombstoned_leaf_is_reported_beside_the_effective_one(
        self, backend: Bed, tree: str
    ) -> None:
        store = backend.store
        store.nodes.tombstone(tree, ["m3"])
        head = store.sessions.head(tree)
        assert head is not None
        assert (head.leaf, head.effective_leaf, head.nodes) == ("m3", "m2", 3)
        added = store.messages.append(tree, user("next"))
        assert (added[0].parent, added[0].seq) == ("m2", 3)

    @pytest.mark.promise(89)
    def test_the_head_counts_live_nodes_and_messages_of_main(self, backend: Bed, tree: str) -> None:
        backend.store.nodes.tombstone(tree, ["m1"])
        head = backend.store.sessions.head(tree)
        assert head is not None
        assert (head.nodes, head.messages, head.user_messages) == (3, 2, 1)


class TestVacuum(OnATree):
    @pytest.mark.promise(88)
    def test_vacuum_says_how_many_it_removed_and_then_none(self, backend: Bed, tree: str) -> None:
        backend.store.nodes.tombstone(tree, ["m2", "d2"])
        assert backend.store.admin.vacuum(tree).nodes == 2
        assert backend.store.admin.vacuum(tree).nodes == 0

    @pytest.mark.promise(88)
    def test_a_dry_run_only_counts(self, backend: Bed, tree: str) -> None:
        backend.store.nodes.tombstone(tree, ["m2"])
        planned = backend.store.admin.vacuum(tree, dry_run=True)
        assert (planned.nodes, planned.dry_run) == (1, True)
        assert planned.freed_bytes > 0
        assert backend.store.messages.get("m2", session=tree) is not None
        assert backend.store.admin.vacuum(tree).nodes == 1

    @pytest.mark.promise(88)
    def test_what_was_vacuumed_can_not_be_read_any_more(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.nodes.tombstone(tree, ["m2"])
        hidden = store.messages.get("m2", session=tree)
        assert hidden is not None
        assert hidden.text == "two"
        store.admin.vacuum(tree)
        assert store.messages.get("m2", session=tree) is None
        assert backend.texts(tree) == ["one", "three"]

    @pytest.mark.promise(88)
    def test_the_chain_still_holds_over_the_stubs(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.messages.amend("m2", session=tree, metadata={"secret": "x"})
        store.nodes.tombstone(tree, ["m1", "m2", "d2"])
        store.admin.vacuum(tree)
        verified = store.admin.verify(tree)
        assert verified.defects == []
        assert verified.turns == 5
        backend.reopen()
        assert backend.store.admin.verify(tree).defects == []

    @pytest.mark.promise(84, 88)
    def test_the_id_of_a_stub_stays_taken(self, backend: Bed, tree: str) -> None:
        backend.store.nodes.tombstone(tree, ["m2"])
        backend.store.admin.vacuum(tree)
        with backend.unchanged(tree), pytest.raises(AlreadyExists):
            backend.store.messages.append(tree, user("other", id="m2"))

    def test_only_old_tombstones_go_when_an_age_is_given(self, backend: Bed, tree: str) -> None:
        backend.store.nodes.tombstone(tree, ["m2"])
        backend.clock.advance(100)
        backend.store.nodes.tombstone(tree, ["m3"])
        assert backend.store.admin.vacuum(tree, older_than_s=50).nodes == 1
        assert backend.store.messages.get("m2", session=tree) is None
        assert backend.store.messages.get("m3", session=tree) is not None

    def test_unreachable_nodes_go_only_on_request(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.messages.pop(tree)
        assert store.admin.vacuum(tree).nodes == 0
        assert store.admin.vacuum(tree, unreachable=True).nodes == 1
        assert ids(store.nodes.iter(tree, order="ord")) == ["m1", "m2", "d2"]
        assert store.admin.verify(tree).defects == []

    def test_what_is_live_is_never_touched(self, backend: Bed, tree: str) -> None:
        with backend.unchanged(tree):
            assert backend.store.admin.vacuum(tree, unreachable=True).nodes == 0
