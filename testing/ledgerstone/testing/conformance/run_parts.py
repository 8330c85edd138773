"""The parts of a run's record: request, input, output, waiting, outcome; and changing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone.api_sync.store import Store
from ledgerstone.errors import (
    Fenced,
    IllegalTransition,
    InvalidValue,
    LeaseHeld,
    RevisionMoved,
    RunNotFound,
    SessionBindingMismatch,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.records.runs import (
    WAITING_REASONS,
    Outcome,
    Run,
    RunInput,
    RunOutput,
    RunRequest,
    SeqRange,
    Termination,
    Waiting,
    WaitingReason,
    WaitingTicket,
)
from ledgerstone.testing.bed import Bed

PLAIN_JSON = {
    "text": "summarise",
    "number": 7,
    "list": [1, {"session": "s"}],
    "foreign object": {"session": "s", "goal": "a trip"},
    "false": False,
}
REFUSED: dict[str, tuple[str, Callable[[Store], Any]]] = {
    "an origin": ("request.origin", lambda s: s.runs.create("s", request={"origin": "moon"})),
    "a message id": ("request.input_messages[1]", lambda s: s.runs.create(
        "s", request={"input_messages": ["m1", 2]})),
    "an action": ("request.decisions[0].decision.action", lambda s: s.runs.create(
        "s", request={"decisions": [{"call_id": "c", "decision": {"action": "maybe"}}]})),
    "an unknown part": ("waiting.tickets[0].colour", lambda s: s.runs.create("s", waiting={
        "reason": "user_input",
        "tickets": [{"id": "k", "call_id": "c", "tool": "t", "colour": 1}]})),
    "a range": ("input.range", lambda s: s.runs.create(
        "s", input={"range": {"first": 3, "last": 2}})),
    "a range from zero": ("output.range", lambda s: s.runs.create(
        "s", output={"range": {"first": 0, "last": 2}})),
    "a reason": ("waiting.reason", lambda s: s.runs.create("s", waiting={"reason": "boredom"})),
    "no reason": ("waiting.reason", lambda s: s.runs.create("s", waiting={})),
    "text": ("outcome", lambda s: s.runs.create("s", outcome="fine")),
    "an end": ("termination.type", lambda s: s.runs.create("s", termination={"type": "boom"})),
    "no JSON": ("request.extras.v", lambda s: s.runs.create("s", request={"extras": {"v": b""}})),
    "NaN": ("input.data", lambda s: s.runs.create("s", input=RunInput(data=float("nan")))),
    "a parent": ("parent_run", lambda s: s.turns.begin("s").run("done", parent_run="\ud800")),
    "a time": ("created_us", lambda s: s.runs.create("s", created_us=1 << 70)),
    "a count": ("steps", lambda s: s.runs.create("s", steps=-1)),
    "no field": ("colour", lambda s: s.runs.create("s", colour=1)),
}  # fmt: skip


class TestRunParts:
    @pytest.fixture(autouse=True)
    def _session(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")

    def test_parts_may_be_given_as_dictionaries(self, backend: Bed) -> None:
        made = backend.store.runs.create(
            "s",
            id="r1",
            status="waiting",
            request={"sender": "ada", "input_messages": ("m1",), "input_count": 1},
            input={"session": "s", "range": {"first": 1, "last": 2}, "triggers": ["m2"]},
            output={"messages": ["m3"]},
            waiting={"reason": "user_input", "ticket_ids": ["k1"]},
            outcome={"termination": {"type": "natural_end"}, "final_output": "ok"},
        )
        assert made.request == RunRequest(sender="ada", input_messages=["m1"], input_count=1)
        assert made.input == RunInput(session="s", range=SeqRange(1, 2), triggers=["m2"])
        assert made.output == RunOutput(messages=["m3"])
        assert made.waiting == Waiting(reason="user_input", ticket_ids=["k1"])
        assert made.outcome == Outcome(
            termination=Termination(type="natural_end"), final_output="ok"
        )
        backend.reopen()
        assert backend.store.runs.get("r1") == made

    @pytest.mark.parametrize("name", PLAIN_JSON)
    def test_any_other_value_becomes_the_data(self, backend: Bed, name: str) -> None:
        value: Any = PLAIN_JSON[name]
        made = backend.store.runs.create("s", id="r1", input=value, output=value)
        assert (made.input, made.output) == (RunInput(data=value), RunOutput(data=value))
        backend.reopen()
        assert backend.store.runs.get("r1") == made

    def test_nothing_given_is_nothing_stored(self, backend: Bed) -> None:
        made = backend.store.runs.create("s", input=None)
        assert (made.input, made.output, made.request, made.waiting) == (None, None, None, None)

    @pytest.mark.promise(95, 99)
    def test_what_is_not_said_has_a_default(self, backend: Bed) -> None:
        ticket: dict[str, Any] = {"id": "k1", "call_id": "c1", "tool": "pay"}
        made = backend.store.runs.create(
            "s", id="r1", request={}, waiting={"reason": "tool_permission", "tickets": [ticket]}
        )
        assert made.request is not None
        assert made.waiting is not None
        assert (made.request.origin, made.request.input_count) == ("user", 0)
        assert made.waiting.tickets == [WaitingTicket(**ticket, updated_us=made.updated_us)]
        assert made.waiting.tickets[0].mode == "replay_tool_call"

    @pytest.mark.parametrize("name", REFUSED)
    def test_what_does_not_fit_is_named(self, backend: Bed, name: str) -> None:
        field, call = REFUSED[name]
        with backend.unchanged("s"), pytest.raises(InvalidValue) as caught:
            call(backend.store)
        assert caught.value.field == field

    def test_an_old_word_for_an_end_is_understood(self, backend: Bed) -> None:
        old = {"type": "plugin_requested"}
        made = backend.store.runs.create("s", termination=old, outcome={"termination": old})
        assert made.termination == Termination(type="behavior_requested")
        assert made.outcome == Outcome(termination=Termination(type="behavior_requested"))

    def test_the_same_run_said_in_two_ways_is_the_same_turn(self, backend: Bed) -> None:
        origin: Any = "".join(("us", "er"))
        for request in ({"origin": origin}, RunRequest(origin=origin), RunRequest()):
            turn = backend.store.turns.begin("s", id="t1", run_id="r1")
            turn.run("running", request=request)
            turn.commit()
        assert backend.revision("s") == 1

    @pytest.mark.promise(97, 98)
    @pytest.mark.parametrize("reason", WAITING_REASONS)
    def test_a_reason_is_told_only_while_it_waits(
        self, backend: Bed, reason: WaitingReason
    ) -> None:
        store = backend.store
        store.runs.create("s", id="r1")
        waiting = store.runs.update("r1", status="waiting", waiting={"reason": reason})
        assert waiting.waiting_reason == reason
        assert waiting.resumable
        assert waiting.waits_for_background == (reason == "background_tasks")
        done = store.runs.update("r1", status="done")
        assert done.waiting == Waiting(reason=reason)
        assert (done.waiting_reason, done.resumable, done.waits_for_background) == (
            None, False, False,
        )  # fmt: skip

    @pytest.mark.promise(97, 98)
    def test_a_run_that_waits_for_nothing_can_not_be_resumed(self, backend: Bed) -> None:
        made = backend.store.runs.create("s", status="waiting")
        assert (made.waiting_reason, made.resumable) == (None, False)


class TestRunChanges:
    @pytest.fixture
    def run(self, backend: Bed) -> Run:
        backend.store.sessions.create(id="s")
        return backend.store.runs.create("s", id="r1", agent="scribe", input="go", steps=1)

    def test_some_fields_change_and_the_others_stay(self, backend: Bed, run: Run) -> None:
        backend.clock.advance(1)
        changed = backend.store.runs.update(run, steps=2, output="gone", status="done")
        assert (changed.steps, changed.output) == (2, RunOutput(data="gone"))
        assert (changed.agent, changed.input) == (run.agent, run.input)
        assert (changed.created_us, changed.started_us) == (run.created_us, run.started_us)
        assert changed.finished_us == changed.updated_us > run.updated_us
        backend.reopen()
        assert backend.store.runs.get("r1") == changed

    def test_no_revision_moves_but_the_pointers_do(self, backend: Bed, run: Run) -> None:
        backend.clock.advance(1)
        changed = backend.store.runs.update("r1", status="done")
        session = backend.store.sessions.get("s")
        assert session is not None
        assert (session.active_run, session.open_run, session.latest_run) == (None, None, "r1")
        assert session.updated_us == changed.updated_us
        assert backend.revision("s") == 0

    @pytest.mark.promise(92)
    def test_a_changed_run_is_the_latest(self, backend: Bed, run: Run) -> None:
        backend.store.runs.create("s", id="r2")
        assert backend.store.runs.latest("s") != run
        changed = backend.store.runs.update("r1", steps=5)
        assert backend.store.runs.latest("s") == changed

    def test_a_turn_keeps_what_it_does_not_say(self, backend: Bed, run: Run) -> None:
        store = backend.store
        store.runs.update("r1", parent_run="r0", waiting={"reason": "user_input"})
        with store.turns.begin("s", run_id="r1") as turn:
            turn.run("done", steps=4)
        done = store.runs.get("r1")
        assert done is not None
        assert (done.status, done.steps, done.parent_run) == ("done", 4, "r0")
        assert (done.agent, done.input) == (run.agent, run.input)
        assert done.waiting == Waiting(reason="user_input")

    @pytest.mark.promise(103)
    def test_put_and_a_checkpoint_overwrite_all_of_it(self, backend: Bed, run: Run) -> None:
        store = backend.store
        assert store.runs.put(Run(id="r1", session="s")).agent == ""
        store.runs.update("r1", agent="scribe")
        store.turns.checkpoint("s", [], Run(id="r1", session="s", steps=2))
        found = store.runs.get("r1")
        assert found is not None
        assert (found.agent, found.input, found.steps) == ("", None, 2)

    @pytest.mark.promise(100)
    def test_an_illegal_move_is_refused(self, backend: Bed, run: Run) -> None:
        backend.store.runs.update("r1", status="done")
        with backend.unchanged("s"), pytest.raises(IllegalTransition):
            backend.store.runs.update("r1", status="running", steps=9)

    @pytest.mark.parametrize("field", ["session", "incarnation", "created_us", "updated_us", "x"])
    def test_what_a_run_is_can_not_be_changed(self, backend: Bed, run: Run, field: str) -> None:
        with backend.unchanged("s"), pytest.raises(InvalidValue) as caught:
            backend.store.runs.update("r1", **dict[str, Any]({field: 1}))
        assert caught.value.field == field

    def test_only_who_holds_the_session_changes_its_runs(self, backend: Bed, run: Run) -> None:
        store = backend.store
        lease = store.leases.take("s", owner="w1", ttl_s=60)
        assert lease is not None
        with backend.unchanged("s"), pytest.raises(LeaseHeld):
            store.runs.update("r1", steps=2)
        assert store.runs.update("r1", steps=2, lease=lease).steps == 2
        backend.clock.advance(61)
        assert store.leases.take("s", owner="w2", ttl_s=60) is not None
        with backend.unchanged("s"), pytest.raises(Fenced):
            store.runs.update("r1", steps=3, lease=lease)

    def test_a_lease_of_another_session_is_no_use(self, backend: Bed, run: Run) -> None:
        backend.store.sessions.create(id="other")
        other = backend.store.leases.take("other", ttl_s=60)
        with backend.unchanged("s"), pytest.raises(SessionBindingMismatch):
            backend.store.runs.update(run, steps=2, lease=other)
        with backend.unchanged("s"), pytest.raises(Fenced):
            backend.store.runs.update("r1", steps=2, lease=other)
        wrong: Any = "lease"
        with pytest.raises(InvalidValue):
            backend.store.runs.update("r1", steps=2, lease=wrong)

    def test_an_expected_revision_is_compared(self, backend: Bed, run: Run) -> None:
        with backend.unchanged("s"), pytest.raises(RevisionMoved):
            backend.store.runs.update("r1", steps=2, expected_revision=3)
        assert backend.store.runs.update("r1", steps=2, expected_revision=0).steps == 2

    def test_a_run_that_is_not_there(self, backend: Bed, run: Run) -> None:
        with pytest.raises(RunNotFound):
            backend.store.runs.update("r2", steps=2)
        backend.store.sessions.delete("s")
        with pytest.raises(SessionDeleted):
            backend.store.runs.update("r1", steps=2)
        backend.store.sessions.purge("s", keep_runs=True)
        with pytest.raises(SessionNotFound):
            backend.store.runs.update("r1", steps=2)
        assert backend.store.runs.get("r1") == run
