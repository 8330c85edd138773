"""Tickets: asked inside a turn, decided once, and never good for anything else."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import Ticket, assistant, tool_call
from ledgerstone.errors import (
    AlreadyExists,
    InvalidValue,
    SessionBindingMismatch,
    SessionDeleted,
    TicketClosed,
    TicketNotFound,
)
from ledgerstone.testing.bed import Bed

ARGUMENTS = {"eur": 120, "to": "Ada"}


class OnATicket:
    """A session with a run that waits for permission to pay."""

    @pytest.fixture
    def session(self, backend: Bed) -> str:
        backend.store.sessions.create(id="s", user="ada")
        return "s"

    def ask(self, backend: Bed, session: str = "s", call: str = "c1", **fields: Any) -> Ticket:
        """One turn of one run that asks about one call, and nobody holds the session then."""
        turn = backend.store.turns.begin(session, run_id=f"r-{session}")
        turn.user("pay her")
        turn.assistant([tool_call("pay", ARGUMENTS, id=call)])
        ticket = turn.ask(call, **fields)
        turn.commit()
        return ticket

    def get(self, backend: Bed, ticket: Ticket) -> Ticket:
        found = backend.store.tickets.get(ticket)
        assert found is not None
        return found


class TestAsking(OnATicket):
    @pytest.mark.promise(94, 99)
    def test_a_turn_asks_and_its_run_waits(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend, reason="money", message="Pay Ada?")
        run = backend.reopen().runs.get("r-s")
        assert run is not None
        assert run.resumable
        assert (run.status, run.waiting_reason) == ("waiting", "tool_permission")
        assert run.waiting is not None
        assert run.waiting.ticket_ids == [asked.id]
        (known,) = run.waiting.tickets
        assert (known.id, known.call_id, known.tool) == (asked.id, "c1", "pay")
        assert (known.arguments, known.mode, known.reason) == (
            ARGUMENTS,
            "replay_tool_call",
            "money",
        )
        assert known.updated_us == run.updated_us

    def test_the_ticket_says_what_was_asked(self, backend: Bed, session: str) -> None:
        schema = {"type": "object"}
        asked = self.ask(
            backend, reason="money", message="Pay?", response_schema=schema, expires_s=60
        )
        backend.reopen()
        found = self.get(backend, asked)
        last = backend.store.messages.last(session, 1)[0]
        assert (found.session, found.call_id, found.tool) == (session, "c1", "pay")
        assert (found.arguments, found.effective_arguments) == (ARGUMENTS, ARGUMENTS)
        assert (found.reason, found.message, found.response_schema) == ("money", "Pay?", schema)
        assert (found.run_id, found.node, found.user) == ("r-s", last.id, "ada")
        assert (found.status, found.revision, found.decision) == ("open", 1, None)
        assert (found.mode, found.on_expiry) == ("replay_tool_call", "reject")
        assert not found.approved
        assert found.created_us == found.updated_us == last.created_us
        assert found.expires_us == found.created_us + 60_000_000
        assert len(found.digest) == 64

    def test_nothing_is_asked_by_a_turn_that_fails(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session, expected_revision=7)
        turn.assistant([tool_call("pay", id="c1")])
        asked = turn.ask("c1")
        with pytest.raises(Exception, match="version"):
            turn.commit()
        assert backend.store.tickets.get(asked) is None
        assert backend.store.tickets.inbox().items == []

    def test_a_repeated_turn_asks_once_with_the_same_id(self, backend: Bed, session: str) -> None:
        found = []
        for _ in range(2):
            turn = backend.store.turns.begin(session, id="t1", run_id="r1")
            turn.add(assistant([tool_call("pay", ARGUMENTS, id="c1")], id="m1"))
            found.append(turn.ask("c1").id)
            turn.commit()
        assert found[0] == found[1]
        assert [ticket.id for ticket in backend.store.tickets.inbox()] == found[:1]
        assert backend.revision(session) == 1

    def test_a_taken_id_is_refused_with_the_whole_turn(self, backend: Bed, session: str) -> None:
        self.ask(backend, id="t1")
        turn = backend.store.turns.begin(session)
        turn.assistant([tool_call("pay", id="c2")])
        turn.ask("c2", id="t1")
        with backend.unchanged(session), pytest.raises(AlreadyExists) as caught:
            turn.commit()
        assert caught.value.id == "t1"

    @pytest.mark.promise(99)
    def test_one_run_may_wait_for_several(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session, run_id="r1")
        turn.assistant([tool_call("pay", id="c1"), tool_call("name", id="c2")])
        asked = [
            turn.ask("c1", mode="pass_decision_to_tool").id,
            turn.ask("c2", mode="use_decision_as_tool_result").id,
        ]
        turn.commit()
        run = backend.store.runs.get("r1")
        assert run is not None
        assert run.waiting is not None
        assert run.waiting.ticket_ids == asked
        assert [ticket.mode for ticket in run.waiting.tickets] == [
            "pass_decision_to_tool",
            "use_decision_as_tool_result",
        ]
        assert run.waiting.reason == "tool_permission"

    def test_a_question_to_a_person_waits_for_input(self, backend: Bed, session: str) -> None:
        self.ask(backend, mode="use_decision_as_tool_result")
        run = backend.store.runs.get("r-s")
        assert run is not None
        assert run.waiting_reason == "user_input"

    def test_a_turn_without_a_run_asks_too(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session)
        turn.assistant([tool_call("pay", id="c1")])
        asked = turn.ask("c1")
        turn.commit()
        assert self.get(backend, asked).run_id is None
        assert backend.store.runs.latest(session) is None
        backend.store.tickets.resolve(asked, "approve", by="bob")
        assert len(backend.store.work.list(session)) == 1

    def test_the_last_word_on_the_run_counts(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session, run_id="r1")
        turn.assistant([tool_call("pay", id="c1")])
        turn.ask("c1")
        turn.run("running")
        turn.commit()
        run = backend.store.runs.get("r1")
        assert run is not None
        assert (run.status, run.waiting_reason) == ("running", None)

    def test_a_call_of_an_earlier_turn_is_named_in_full(self, backend: Bed, session: str) -> None:
        backend.store.messages.append(session, assistant([tool_call("pay", ARGUMENTS, id="c1")]))
        turn = backend.store.turns.begin(session)
        asked = turn.ask("c1", tool="pay", arguments=ARGUMENTS)
        turn.commit()
        found = self.get(backend, asked)
        assert (found.tool, found.arguments, found.node) == ("pay", ARGUMENTS, None)

    @pytest.mark.parametrize(
        ("field", "given"),
        [
            ("call_id", {"call_id": "c9"}),
            ("call_id", {"call_id": "c9", "arguments": {}}),
            ("call_id", {"call_id": ""}),
            ("call_id", {"call_id": 7}),
            ("mode", {"mode": "ask_again"}),
            ("mode", {"mode": None}),
            ("tool", {"tool": ""}),
            ("tool", {"tool": 5}),
            ("arguments", {"arguments": {"when": object()}}),
            ("arguments.x", {"arguments": {"x": float("nan")}}),
            ("response_schema", {"response_schema": b"{}"}),
            ("expires_s", {"expires_s": -1}),
            ("expires_s", {"expires_s": 11 * 366 * 86_400}),
            ("expires_s", {"expires_s": float("inf")}),
            ("expires_s", {"expires_s": "1"}),
            ("on_expiry", {"on_expiry": "ignore"}),
            ("reason", {"reason": 4}),
            ("message", {"message": "\x00"}),
            ("id", {"id": ""}),
        ],
    )
    def test_bad_questions(
        self, backend: Bed, session: str, field: str, given: dict[str, Any]
    ) -> None:
        turn = backend.store.turns.begin(session, run_id="r1")
        turn.assistant([tool_call("pay", ARGUMENTS, id="c1")])
        with pytest.raises(InvalidValue) as caught:
            turn.ask(**{"call_id": "c1", **given})
        assert caught.value.field.startswith(field)
        turn.commit()
        assert backend.store.tickets.inbox().items == []
        assert backend.store.runs.get("r1") is None

    def test_the_same_call_twice_in_a_turn(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session)
        turn.assistant([tool_call("pay", id="c1")])
        turn.ask("c1")
        with pytest.raises(InvalidValue) as caught:
            turn.ask("c1")
        assert caught.value.field == "id"
        turn.discard()


class TestDeciding(OnATicket):
    @pytest.mark.parametrize(
        ("word", "action"),
        [
            ("approve", "resume"),
            ("resume", "resume"),
            ("reject", "cancel"),
            ("cancel", "cancel"),
        ],
    )
    def test_a_decision_is_kept_and_wakes_the_run(
        self, backend: Bed, session: str, word: str, action: str
    ) -> None:
        asked = self.ask(backend)
        backend.clock.advance(5)
        settled = backend.store.tickets.resolve(
            asked, word, by="bob", result={"ok": 1}, reason="fine"
        )
        found = self.get(backend, asked)
        assert found == settled
        assert found.decision is not None
        decision = found.decision
        assert (decision.action, decision.by, decision.reason) == (action, "bob", "fine")
        assert (decision.result, decision.expired) == ({"ok": 1}, False)
        assert decision.decided_us == found.updated_us == backend.clock.now_us()
        assert (found.status, found.approved) == ("resolved", action == "resume")
        (batch,) = backend.store.work.list(session)
        assert batch.payloads == [
            {
                "wake": "ticket",
                "ticket": asked.id,
                "run": "r-s",
                "call_id": "c1",
                "action": action,
            }
        ]
        run = backend.store.runs.get("r-s")
        assert run is not None
        assert run.status == "waiting"

    def test_the_same_decision_again_is_the_first_answer(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend)
        first = backend.store.tickets.resolve(asked, "approve", by="bob", result=1)
        backend.clock.advance(3)
        with backend.unchanged(session):
            again = backend.reopen().tickets.resolve(asked, "approve", by="bob", result=1)
        assert again == first
        assert len(backend.store.work.list(session)) == 1

    @pytest.mark.parametrize(
        "other",
        [
            {"decision": "reject"},
            {"by": "eve"},
            {"result": True},
            {"reason": "because"},
            {"arguments": {"eur": 1}},
            {"decision_id": "d9"},
        ],
    )
    def test_another_decision_is_refused(
        self, backend: Bed, session: str, other: dict[str, Any]
    ) -> None:
        asked = self.ask(backend)
        said: dict[str, Any] = {"decision": "approve", "by": "bob", "result": 1}
        first = backend.store.tickets.resolve(asked, **said)
        with backend.unchanged(session), pytest.raises(TicketClosed) as caught:
            backend.store.tickets.resolve(asked, **{**said, **other})
        assert (caught.value.ticket, caught.value.status) == (asked.id, "resolved")
        assert self.get(backend, asked) == first

    def test_the_same_decision_id_with_other_words(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend)
        backend.store.tickets.resolve(asked, "approve", by="bob", decision_id="d1")
        with pytest.raises(TicketClosed):
            backend.store.tickets.resolve(asked, "reject", by="bob", decision_id="d1")

    def test_without_a_wake_up(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend)
        backend.store.tickets.resolve(asked, "approve", by="bob", wake=False)
        assert backend.store.work.list(session) == []

    def test_the_wake_up_goes_to_the_queue_that_is_named(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend)
        backend.store.tickets.resolve(asked, "approve", by="bob", queue="slow")
        assert [batch.queue for batch in backend.store.work.list(session)] == ["slow"]

    def test_edited_arguments_are_what_was_approved(self, backend: Bed, session: str) -> None:
        asked = self.get(backend, self.ask(backend))
        settled = backend.store.tickets.resolve(asked, "approve", by="bob", arguments={"eur": 5})
        assert settled.arguments == ARGUMENTS
        assert settled.effective_arguments == {"eur": 5}
        assert settled.digest != asked.digest
        assert backend.reopen().tickets.get(asked) == settled

    def test_a_decision_for_another_session(self, backend: Bed, session: str) -> None:
        backend.store.sessions.create(id="other")
        asked = self.ask(backend)
        with backend.unchanged(session), pytest.raises(SessionBindingMismatch) as caught:
            backend.store.tickets.resolve(asked, "approve", by="bob", session="other")
        assert (caught.value.bound, caught.value.other) == (session, "other")
        assert self.get(backend, asked).status == "open"
        settled = backend.store.tickets.resolve(asked, "approve", by="bob", session=session)
        assert settled.approved

    def test_an_unknown_ticket(self, backend: Bed, session: str) -> None:
        with pytest.raises(TicketNotFound) as caught:
            backend.store.tickets.resolve("nowhere", "approve", by="bob")
        assert caught.value.id == "nowhere"
        assert backend.store.tickets.get("nowhere") is None
        assert backend.store.tickets.cancel("nowhere") is False

    def test_another_tenant_sees_no_ticket(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend)
        other = backend.open("red")
        assert other.tickets.get(asked.id) is None
        assert other.tickets.list(status=None).items == []
        assert other.tickets.expire() == []
        assert other.tickets.cancel(asked.id) is False
        with pytest.raises(TicketNotFound):
            other.tickets.resolve(asked.id, "approve", by="eve")
        assert self.get(backend, asked).status == "open"

    def test_a_deleted_session_takes_no_decision(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend, expires_s=1)
        backend.store.sessions.delete(session)
        with pytest.raises(SessionDeleted):
            backend.store.tickets.resolve(asked, "approve", by="bob")
        with pytest.raises(SessionDeleted):
            backend.store.tickets.cancel(asked)
        backend.clock.advance(2)
        assert backend.store.tickets.expire() == []
        assert backend.store.tickets.inbox().items == []
        assert [one.id for one in backend.store.tickets.inbox(session=session)] == [asked.id]
        backend.store.sessions.restore(session)
        assert [one.id for one in backend.store.tickets.expire()] == [asked.id]

    def test_tickets_go_with_their_session(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend, id="t1", expires_s=1)
        backend.store.sessions.purge(session)
        backend.store.sessions.create(id=session)
        backend.reopen()
        assert backend.store.tickets.get(asked) is None
        assert backend.store.tickets.list(status=None, total=True).total == 0
        assert self.get(backend, self.ask(backend, id="t1")).revision == 1

    def test_a_copy_takes_no_tickets_along(self, backend: Bed, session: str) -> None:
        self.ask(backend)
        backend.store.sessions.copy(session, "copy")
        assert backend.store.tickets.list(session="copy", status=None).items == []

    def test_nobody_needs_to_decide_any_more(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend)
        assert backend.store.tickets.cancel(asked) is True
        assert backend.store.tickets.cancel(asked) is False
        assert self.get(backend, asked).status == "withdrawn"
        assert backend.store.work.list(session) == []
        with pytest.raises(TicketClosed) as caught:
            backend.store.tickets.resolve(asked, "approve", by="bob")
        assert caught.value.status == "withdrawn"

    @pytest.mark.parametrize(
        ("field", "given"),
        [
            ("decision", {"decision": "perhaps"}),
            ("decision", {"decision": True}),
            ("by", {"by": ""}),
            ("by", {"by": None}),
            ("result", {"result": {1, 2}}),
            ("reason", {"reason": 5}),
            ("arguments", {"arguments": {"when": object()}}),
            ("arguments", {"decision": "reject", "arguments": {}}),
            ("decision_id", {"decision_id": ""}),
            ("session", {"session": ""}),
            ("wake", {"wake": 1}),
            ("queue", {"queue": ""}),
        ],
    )
    def test_bad_decisions(
        self, backend: Bed, session: str, field: str, given: dict[str, Any]
    ) -> None:
        asked = self.ask(backend)
        said: dict[str, Any] = {"decision": "approve", "by": "bob"}
        with pytest.raises(InvalidValue) as caught:
            backend.store.tickets.resolve(asked, **{**said, **given})
        assert caught.value.field.startswith(field)
        assert self.get(backend, asked).status == "open"
