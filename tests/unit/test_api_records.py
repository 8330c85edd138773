"""The session document and the session state: the two records with rules of their own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ledgerstone import InvalidValue, NotSupported, Opaque, SchemaTooNew, SchemaTooOld, Store, user
from ledgerstone.codec import sha256
from ledgerstone.commands.turns import CommitTurn, NewCheckpoint
from ledgerstone.records.document import read_document, scrub_config, tool_names, write_document
from ledgerstone.records.nodes import Node
from ledgerstone.records.sessions import Graph, Head
from ledgerstone.records.state import GraphDelta, Policy, SessionState, check_schema
from ledgerstone.records.turns import Checkpoint

KEY = "sk-never-stored"


class TestDocument:
    def test_secrets_and_engines_are_left_out_where_fields_are_typed(self) -> None:
        document: dict[str, Any] = {
            "config": {"api_key": KEY, "llm_config": {"api_key": KEY}, "hook_engine": object()},
            "llm_config": {"api_key": KEY, "model": "m"},
            "hook_engine": object(),
        }
        data = write_document(document)
        assert KEY.encode() not in data
        assert b"hook_engine" not in data
        assert read_document(data)["llm_config"] == {"model": "m"}
        assert document["llm_config"]["api_key"] == KEY

    def test_what_users_wrote_is_never_altered(self) -> None:
        messages = [{"role": "user", "api_key": "mine", "content": {"api_key": "mine"}}]
        read = read_document(write_document({"messages": messages, "other": {"api_key": 1}}))
        assert read["messages"] == messages
        assert read["other"] == {"api_key": 1}

    def test_absent_fields_take_their_defaults(self) -> None:
        first, second = read_document(b"{}"), read_document(b"{}")
        assert first["state"] == "unknown"
        assert (first["total_cost"], first["cost_records"], first["tasks"]) == (0.0, [], [])
        assert first["context_usage"] == {
            "used_tokens": 0,
            "max_tokens": 200_000,
            "percent": 0.0,
            "turns": 0,
        }
        assert first["config"]["auto_compact_threshold"] == 0.80
        assert first["config"]["goal_tracking"] is False
        first["tasks"].append(1)
        first["config"]["name"] = "changed"
        assert (second["tasks"], second["config"]["name"]) == ([], "")

    def test_todos_are_tasks(self) -> None:
        assert read_document(b'{"todos":[1]}')["tasks"] == [1]
        both = read_document(b'{"todos":[1],"tasks":[2]}')
        assert both["tasks"] == [2]
        assert "todos" not in both

    @pytest.mark.parametrize("data", [b"", b"[]", b"null", b'{"a":', b"\xff"])
    def test_anything_but_an_object_is_an_error(self, data: bytes) -> None:
        with pytest.raises(ValueError, match=r"object expected|JSON|truncated|column|decode"):
            read_document(data)

    @pytest.mark.parametrize("document", [[], "x", {"state": "asleep"}, {1: 2}, {"a": {1, 2}}])
    def test_what_can_not_be_stored_is_refused(self, document: Any) -> None:
        with pytest.raises(InvalidValue, match="document"):
            write_document(document)

    def test_tool_names_keep_the_order_of_the_definitions(self) -> None:
        assert tool_names([{"name": "b"}, Tool("a")]) == ["b", "a"]
        with pytest.raises(InvalidValue):
            tool_names([{"title": "b"}])

    def test_a_config_that_is_no_object_is_left_alone(self) -> None:
        assert scrub_config([1]) == [1]


class Tool(msgspec.Struct):
    name: str


class TestState:
    def test_a_head_gives_policy_revision_and_an_initial_frame(self) -> None:
        head = Head(session="s", revision=7, config={"provider_id": "p", "model": {"id": "m"}})
        state = SessionState.from_head(head, Graph([], None))
        assert (state.revision, state.replace_required) == (7, False)
        assert state.policy == Policy(session="s", provider_id="p", model={"id": "m"})
        (frame,) = state.frames
        assert frame["assignment"]["policy"]["provider_id"] == "p"
        assert state.current_frame == frame["frame_id"]
        assert SessionState.from_head(head, Graph([], None)) == state

    def test_stored_frames_stay_as_they_are(self) -> None:
        head = Head(frames=[{"frame_id": "a"}, {"frame_id": "b"}], current_frame="a")
        state = SessionState.from_head(head, Graph([], None))
        assert (state.frames, state.current_frame) == (head.frames, "a")

    def test_a_refresh_keeps_the_callers_policy(self) -> None:
        mine = SessionState(session="s", policy=Policy(session="mine", max_turns=3))
        head = Head(session="s", revision=2, config={"provider_id": "p"})
        fresh = SessionState.from_head(head, Graph([], None))
        after = mine.refresh(fresh)
        assert (after.policy.session, after.policy.max_turns) == ("mine", 3)
        assert (after.policy.provider_id, after.revision) == ("p", 2)
        assert mine.refresh(None) is mine

    def test_the_first_commit_replaces_and_later_ones_change_nothing(self) -> None:
        graph = Graph([Node(id="a", kind="x")], "a")
        new = SessionState(session="s", graph=graph)
        assert new.graph_delta() == GraphDelta("replace", "a", graph.nodes)
        old = msgspec.structs.replace(new, revision=4)
        assert old.graph_delta() == GraphDelta("unchanged", "a")
        flagged = msgspec.structs.replace(old, replace_required=True)
        assert flagged.graph_delta().kind == "replace"

    def test_deltas(self) -> None:
        a, b = Node(id="a", kind="x"), Node(id="b", kind="x")
        graph = Graph([a], "a")
        assert GraphDelta("unchanged", None).apply(graph) == Graph([a], None)
        assert GraphDelta("append", "b", [b]).apply(graph) == Graph([a, b], "b")
        assert GraphDelta("replace", "b", [b]).apply(graph) == Graph([b], "b")

    def test_a_record_version_must_be_the_known_one(self) -> None:
        check_schema("checkpoint", 1, 1)
        with pytest.raises(SchemaTooNew) as new:
            check_schema("checkpoint", 2, 1)
        assert (new.value.kind, new.value.actual, new.value.expected) == ("checkpoint", 2, 1)
        with pytest.raises(SchemaTooOld):
            check_schema("checkpoint", 0, 1)
        with pytest.raises(InvalidValue):
            check_schema("checkpoint", True, 1)

    def test_a_checkpoint_of_a_newer_version_is_not_guessed_at(self) -> None:
        data = msgspec.json.encode(Checkpoint(schema=2))
        with Store.open("memory://") as store:
            store.sessions.create(id="s")
            command = CommitTurn(
                tenant="default",
                session="s",
                turn="t",
                kind="turn",
                checkpoint=NewCheckpoint(sha256(data), Checkpoint(schema=2), data),
            )
            store._handle.write(command)
            with pytest.raises(SchemaTooNew):
                store.sessions.load("s")

    def test_loading(self) -> None:
        with Store.open("memory://") as store:
            store.sessions.create(id="s")
            assert store.sessions.load("s") is None
            assert store.sessions.load("nobody") is None
            turn = store.turns.begin("s")
            first = turn.user("a")
            turn.node("frame", Opaque("f", b"\0"))
            missing = sha256(b"somewhere else")
            turn.checkpoint(tool_state={"a": 1}, plugins_ref=missing)
            turn.commit()
            store.branches.create("s", "side", at=first)
            side = store.messages.append("s", user("b"), branch="side")[0]
            path = store.sessions.load("s")
            graph = store.sessions.load("s", scope="graph")
            other = store.sessions.load("s", leaf=side)
            assert path is not None
            assert graph is not None
            assert other is not None
            assert [n.kind for n in path.graph.nodes] == ["message", "frame"]
            assert [n.ord for n in graph.graph.nodes] == [1, 2, 3]
            assert [n.id for n in other.graph.nodes] == [first.id, side.id]
            assert other.graph.leaf == side.id
            assert path.checkpoint is not None
            assert path.checkpoint.tool_state == {"a": 1}
            assert (path.checkpoint.plugins_ref, path.checkpoint.plugins) == (missing, None)
            with pytest.raises(NotSupported):
                store.sessions.load("s", scope="dream")
