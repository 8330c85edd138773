"""A session as a runtime keeps it in memory: loaded, refreshed, committed again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ledgerstone import Usage, user
from ledgerstone.errors import InvalidValue
from ledgerstone.records.runs import Run, RunInput
from ledgerstone.records.sessions import Graph
from ledgerstone.records.state import GraphDelta, Policy, SessionState
from ledgerstone.testing.bed import Bed


def load(backend: Bed, session: str = "s") -> SessionState:
    loaded = backend.store.sessions.load(session)
    assert loaded is not None
    return loaded


class TestSessionState:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        """A session with config but without frames, at revision 1."""
        with backend.store.turns.begin("s", create=True) as turn:
            turn.user("one", id="m1")
            turn.head(config={"provider_id": "acme", "model": {"id": "m-1"}})
            turn.use("m-1", Usage(input=3))
        return "s"

    @pytest.mark.promise(118)
    def test_a_rebuilt_state_has_the_stored_provider_and_model(
        self, backend: Bed, session: str
    ) -> None:
        backend.reopen()
        state = load(backend)
        assert (state.policy.provider_id, state.policy.model) == ("acme", {"id": "m-1"})
        assert (state.session, state.revision) == (session, 1)
        assert state.replace_required is False
        assert [entry.usage.input for entry in state.ledger] == [3]

    @pytest.mark.promise(118)
    def test_a_rebuilt_state_has_an_initial_frame(self, backend: Bed, session: str) -> None:
        state = load(backend)
        assert len(state.frames) == 1
        assert state.frames[0]["reason"] == "initial"
        assert state.current_frame == state.frames[0]["frame_id"] != ""
        assert load(backend).current_frame == state.current_frame

    @pytest.mark.promise(86, 118)
    def test_stored_frames_are_kept_as_they_are(self, backend: Bed, session: str) -> None:
        frames = [
            {"frame_id": "f1", "reason": "initial"},
            {"frame_id": "f2", "reason": "compaction"},
        ]
        with backend.store.turns.begin(session) as turn:
            turn.head(frames=frames, current_frame="f2")
        state = load(backend)
        assert (state.frames, state.current_frame) == (frames, "f2")

    @pytest.mark.promise(117)
    def test_a_refresh_keeps_the_callers_policy_and_takes_the_rest(
        self, backend: Bed, session: str
    ) -> None:
        mine = replace(load(backend), policy=Policy(session="mine", max_turns=7, provider_id="old"))
        with backend.store.turns.begin(session) as turn:
            turn.user("two", id="m2")
            turn.head(config={"provider_id": "new", "model": "m-2"})
        fresh = mine.refresh(load(backend))
        assert (fresh.policy.session, fresh.policy.max_turns) == ("mine", 7)
        assert (fresh.policy.provider_id, fresh.policy.model) == ("new", "m-2")
        assert fresh.revision == 2
        assert [node.id for node in fresh.graph.nodes] == ["m1", "m2"]
        assert mine.refresh(None) == mine

    @pytest.mark.promise(83)
    def test_a_state_that_was_never_committed_replaces_everything(self, backend: Bed) -> None:
        new = SessionState(session="s", graph=Graph([], None))
        assert new.revision is None
        assert new.graph_delta().kind == "replace"

    @pytest.mark.promise(83)
    def test_a_loaded_state_leaves_the_nodes_unless_it_is_flagged(
        self, backend: Bed, session: str
    ) -> None:
        state = load(backend)
        assert state.graph_delta() == GraphDelta("unchanged", "m1")
        flagged = replace(state, replace_required=True)
        assert flagged.graph_delta() == GraphDelta("replace", "m1", state.graph.nodes)

    @pytest.mark.promise(82)
    def test_each_delta_does_to_the_graph_what_it_says(self, backend: Bed, session: str) -> None:
        backend.store.messages.append(session, user("two", id="m2"))
        both = load(backend).graph
        first, second = both.nodes
        alone = Graph([first], "m1")
        assert GraphDelta("unchanged", "m1").apply(both) == Graph([first, second], "m1")
        assert GraphDelta("append", "m2", [second]).apply(alone) == both
        assert GraphDelta("replace", "m2", [second]).apply(alone) == Graph([second], "m2")

    def test_a_leaf_that_is_not_there_can_not_be_loaded(self, backend: Bed, session: str) -> None:
        with pytest.raises(InvalidValue) as caught:
            backend.store.sessions.load(session, leaf="nowhere")
        assert caught.value.field == "leaf"

    @pytest.mark.promise(153)
    def test_a_run_may_name_a_compacted_snapshot_and_a_frame_its_reason(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        request, _ = store.messages.compact(session, "so far", tail_start="m1")
        given = RunInput(session=session, compacted_snapshot=request.id, context_policy="recent")
        store.runs.put(Run(id="r1", session=session, input=given))
        with store.turns.begin(session) as turn:
            turn.head(frames=[{"frame_id": "f1", "reason": "compaction"}], current_frame="f1")
        backend.reopen()
        run = backend.store.runs.get("r1")
        assert run is not None
        assert run.input == given
        assert load(backend).frames[0]["reason"] == "compaction"
