"""Runs, as far as a turn and a checkpoint need them."""

from __future__ import annotations

import pytest

from ledgerstone import user
from ledgerstone.errors import (
    AlreadyExists,
    IllegalTransition,
    SessionBindingMismatch,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.records.decisions import CallDecision, Decision
from ledgerstone.records.runs import (
    RUN_STATUSES,
    Outcome,
    Run,
    RunInput,
    RunOutput,
    RunRequest,
    RunStatus,
    SeqRange,
    Termination,
    Waiting,
    WaitingTicket,
)
from ledgerstone.testing.bed import Bed

LEGAL = {
    ("created", "running"),
    ("created", "done"),
    ("running", "waiting"),
    ("running", "done"),
    ("waiting", "running"),
    ("waiting", "done"),
}
MOVES = [(old, new) for old in RUN_STATUSES for new in RUN_STATUSES]


class TestRuns:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        backend.store.sessions.create(id="s")
        return "s"

    @pytest.mark.promise(90, 91)
    def test_a_run_is_stored_and_found_by_its_id(self, backend: Bed, session: str) -> None:
        made = backend.store.runs.create(session, id="r1", agent="scribe", input={"q": 1})
        backend.reopen()
        assert backend.store.runs.get("r1") == made
        assert (made.session, made.agent, made.input) == (
            session,
            "scribe",
            RunInput(data={"q": 1}),
        )
        assert made.status == "running"

    @pytest.mark.promise(90)
    def test_a_taken_id_is_refused(self, backend: Bed, session: str) -> None:
        first = backend.store.runs.create(session, id="r1", agent="one")
        with backend.unchanged(session), pytest.raises(AlreadyExists) as caught:
            backend.store.runs.create(session, id="r1", agent="two")
        assert caught.value.id == "r1"
        assert backend.store.runs.get("r1") == first

    @pytest.mark.promise(91)
    def test_an_unknown_run_is_none(self, backend: Bed) -> None:
        assert backend.store.runs.get("nowhere") is None

    @pytest.mark.promise(92)
    def test_the_latest_run_is_the_one_updated_last(self, backend: Bed, session: str) -> None:
        store = backend.store
        assert store.runs.latest(session) is None
        first = store.runs.create(session, id="r1")
        backend.clock.advance(1)
        store.runs.create(session, id="r2")
        latest = store.runs.latest(session)
        assert latest is not None
        assert latest.id == "r2"
        backend.clock.advance(1)
        store.runs.put(first)
        latest = store.runs.latest(session)
        assert latest is not None
        assert latest.id == "r1"

    @pytest.mark.promise(92)
    def test_a_run_of_another_session_is_never_the_latest(self, backend: Bed, session: str) -> None:
        backend.store.sessions.create(id="other")
        backend.store.runs.create("other", id="r1")
        assert backend.store.runs.latest(session) is None

    @pytest.mark.promise(94, 95, 96, 99)
    def test_every_field_comes_back(self, backend: Bed, session: str) -> None:
        run = Run(
            id="r1",
            session=session,
            agent="scribe",
            parent_run="r0",
            status="done",
            request=RunRequest(
                origin="a2a",
                sender="planner",
                input_messages=["m1", "m2"],
                input_count=2,
                extras={"trace": "t"},
                decisions=[CallDecision(call_id="c1", decision=Decision(action="resume"))],
                frontend_tools=[{"name": "pick"}],
                parent_session="s0",
                transport_id="t1",
            ),
            input=RunInput(
                session=session,
                range=SeqRange(1, 4),
                triggers=["m4"],
                selected=["m1", "m4"],
                context_policy="recent",
                compacted_snapshot="snap",
                data={"text": "\x00 \ud800", "n": 2**70},
            ),
            output=RunOutput(
                session=session, range=SeqRange(5, 5), messages=["m5"], data=["a", None]
            ),
            termination=Termination(type="stopped", value={"code": "max_rounds"}),
            final_output="done \ud800",
            error={"kind": "oops"},
            dispatch_id="d1",
            external_id="e1",
            transport_id="t2",
            waiting=Waiting(
                reason="tool_permission",
                ticket_ids=["k1"],
                tickets=[
                    WaitingTicket(id="k1", call_id="c1", tool="pay", arguments=[1], updated_us=4)
                ],
                since_dispatch="d0",
                message="may I?",
            ),
            outcome=Outcome(
                termination=Termination(type="error", value="boom"), final_output="", error=[1]
            ),
            steps=7,
            input_tokens=11,
            output_tokens=13,
            state={"k": [1.5]},
            details={"colour": "d"},
            created_us=5,
            started_us=6,
            finished_us=7,
        )
        stored = backend.store.runs.put(run)
        backend.reopen()
        assert backend.store.runs.get("r1") == stored
        for name in Run.__struct_fields__:
            if name not in ("updated_us", "incarnation"):
                assert getattr(stored, name) == getattr(run, name), name

    @pytest.mark.promise(94)
    def test_times_are_filled_in(self, backend: Bed, session: str) -> None:
        store = backend.store
        made = store.runs.create(session, id="r1", status="created")
        assert (made.started_us, made.finished_us) == (None, None)
        assert made.created_us == made.updated_us
        backend.clock.advance(1)
        started = store.runs.put(Run(id="r1", session=session))
        backend.clock.advance(1)
        ended = store.runs.put(Run(id="r1", session=session, status="done"))
        assert ended.created_us == made.created_us
        assert ended.started_us == started.updated_us
        assert ended.finished_us == ended.updated_us > started.updated_us > made.updated_us

    @pytest.mark.promise(100)
    @pytest.mark.parametrize(("old", "new"), MOVES)
    def test_only_legal_moves_are_made(
        self, backend: Bed, session: str, old: RunStatus, new: RunStatus
    ) -> None:
        store = backend.store
        store.runs.put(Run(id="r1", session=session, status=old))
        if old == new or (old, new) in LEGAL:
            assert store.runs.put(Run(id="r1", session=session, status=new)).status == new
            return
        with backend.unchanged(session), pytest.raises(IllegalTransition) as caught:
            store.runs.put(Run(id="r1", session=session, status=new))
        assert (caught.value.run, caught.value.old, caught.value.new) == ("r1", old, new)

    def test_a_run_belongs_to_one_session(self, backend: Bed, session: str) -> None:
        backend.store.runs.create(session, id="r1")
        backend.store.sessions.create(id="other")
        with backend.unchanged("other"), pytest.raises(SessionBindingMismatch) as caught:
            backend.store.runs.put(Run(id="r1", session="other"))
        assert (caught.value.bound, caught.value.other) == (session, "other")

    def test_a_run_needs_a_live_session(self, backend: Bed, session: str) -> None:
        with pytest.raises(SessionNotFound):
            backend.store.runs.create("nowhere")
        backend.store.sessions.delete(session)
        with pytest.raises(SessionDeleted):
            backend.store.runs.create(session)

    @pytest.mark.promise(4)
    def test_runs_go_with_the_session_unless_they_are_kept(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        store.sessions.create(id="kept")
        store.runs.create(session, id="gone")
        store.runs.create("kept", id="stays")
        store.sessions.purge(session)
        store.sessions.purge("kept", keep_runs=True)
        backend.reopen()
        assert backend.store.runs.get("gone") is None
        stays = backend.store.runs.get("stays")
        assert stays is not None
        assert (stays.session, stays.incarnation) == ("kept", 1)

    def test_a_kept_run_is_not_the_latest_of_a_new_incarnation(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        store.runs.create(session, id="old")
        store.sessions.purge(session, keep_runs=True)
        store.messages.append(session, user("again"), create=True)
        head = store.sessions.get(session)
        assert head is not None
        assert (head.incarnation, head.latest_run) == (2, None)
