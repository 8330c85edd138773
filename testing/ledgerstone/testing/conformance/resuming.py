"""What an approval is good for: the call that was asked about, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import Ticket, assistant, user
from ledgerstone.errors import SessionBindingMismatch, TicketClosed, TicketNotFound, TicketStale
from ledgerstone.records.decisions import RESUME_MODES
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.tickets import ARGUMENTS, OnATicket


class TestStaleTickets(OnATicket):
    """A yes is good for one call, as it was asked, while the question still stands."""

    def approved(self, backend: Bed, **fields: Any) -> Ticket:
        asked = self.ask(backend)
        return backend.store.tickets.resolve(asked, "approve", by="bob", **fields)

    def refused(self, backend: Bed, session: str, ticket: Ticket, **fields: Any) -> None:
        with backend.unchanged(session), pytest.raises(TicketStale) as caught:
            backend.store.executions.start(session, ticket=ticket, **fields)
        assert caught.value.ticket == ticket.id
        assert backend.store.executions.list(session=session) == []

    @pytest.mark.parametrize(
        "changed",
        [
            {"arguments": {**ARGUMENTS, "eur": 121}},
            {"arguments": None},
            {"tool": "steal"},
            {"call_id": "c2"},
        ],
    )
    def test_another_call_can_not_run(
        self, backend: Bed, session: str, changed: dict[str, Any]
    ) -> None:
        self.refused(backend, session, self.approved(backend), **changed)

    def test_the_original_can_not_run_once_it_was_edited(self, backend: Bed, session: str) -> None:
        ticket = self.approved(backend, arguments={"eur": 5})
        self.refused(backend, session, ticket, arguments=ARGUMENTS)
        started = backend.store.executions.start(session, ticket=ticket)
        assert started.arguments == {"eur": 5}

    def test_the_question_was_popped(self, backend: Bed, session: str) -> None:
        ticket = self.approved(backend)
        backend.store.messages.pop(session, 1)
        self.refused(backend, session, ticket)

    def test_the_question_was_deleted(self, backend: Bed, session: str) -> None:
        ticket = self.approved(backend)
        assert ticket.node is not None
        backend.store.messages.delete(ticket.node, session=session)
        self.refused(backend, session, ticket)

    def test_the_question_was_rewound(self, backend: Bed, session: str) -> None:
        ticket = self.approved(backend)
        first = backend.store.messages.history(session)[0]
        backend.store.branches.move(session, "main", to=first.id)
        self.refused(backend, session, ticket)
        backend.store.messages.append(session, user("something else"))
        self.refused(backend, session, ticket)

    def test_the_question_was_rewritten(self, backend: Bed, session: str) -> None:
        ticket = self.approved(backend)
        backend.store.messages.replace(session, [user("forget it")])
        self.refused(backend, session, ticket)

    def test_another_branch_still_asks(self, backend: Bed, session: str) -> None:
        ticket = self.approved(backend)
        first = backend.store.messages.history(session)[0]
        backend.store.branches.create(session, "kept", at=ticket.node)
        backend.store.branches.move(session, "main", to=first.id)
        backend.store.messages.append(session, user("meanwhile"))
        assert backend.store.executions.start(session, ticket=ticket).status == "started"

    def test_the_conversation_may_go_on(self, backend: Bed, session: str) -> None:
        ticket = self.approved(backend)
        backend.store.messages.append(session, user("still there?"), assistant("yes"))
        assert backend.store.executions.start(session, ticket=ticket).tool == "pay"

    def test_after_a_pop_nothing_is_tried_again(self, backend: Bed, session: str) -> None:
        ticket = self.approved(backend)
        started = backend.store.executions.start(session, ticket=ticket)
        backend.store.executions.finish(started, error="down")
        backend.store.messages.pop(session, 1)
        with pytest.raises(TicketStale):
            backend.store.executions.retry(started)

    def test_not_decided_yet_or_refused(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend)
        for status in ("open", "cancelled"):
            with backend.unchanged(session), pytest.raises(TicketClosed) as caught:
                backend.store.executions.start(session, ticket=asked)
            assert (caught.value.ticket, caught.value.status) == (asked.id, status)
            if status == "open":
                backend.store.tickets.resolve(asked, "reject", by="bob", reason="no")
        withdrawn = self.ask(backend, call="c2")
        backend.store.tickets.cancel(withdrawn)
        with pytest.raises(TicketClosed) as caught:
            backend.store.executions.start(session, ticket=withdrawn)
        assert caught.value.status == "withdrawn"

    def test_a_ticket_of_another_session(self, backend: Bed, session: str) -> None:
        ticket = self.approved(backend)
        backend.store.sessions.create(id="other")
        with pytest.raises(SessionBindingMismatch) as caught:
            backend.store.executions.start("other", ticket=ticket)
        assert (caught.value.bound, caught.value.other) == (session, "other")
        with pytest.raises(TicketNotFound):
            backend.store.executions.start("other", ticket="nowhere")


class TestResuming(OnATicket):
    """From the question to the end of the run, for each way to go on."""

    def pay(self, arguments: Any, said: Any = None) -> dict[str, Any]:
        return {"paid": arguments["eur"], "said": said}

    @pytest.mark.promise(94, 98, 99)
    @pytest.mark.parametrize("mode", RESUME_MODES)
    def test_asked_decided_woken_run_and_done(self, backend: Bed, session: str, mode: str) -> None:
        asked = self.ask(backend, mode=mode)
        store = backend.reopen()
        store.tickets.resolve(asked, "approve", by="bob", result={"answer": 42})
        taken = store.work.take(owner="w2")
        assert taken is not None
        lease, claim = taken
        wake = claim.payloads[0]
        assert (wake["wake"], wake["run"], wake["action"]) == ("ticket", "r-s", "resume")
        turn = store.turns.begin(lease, run_id=wake["run"])
        calls = 0
        with store.executions.run(lease, ticket=wake["ticket"]) as running:
            assert running.mode == mode
            assert running.decision is not None
            if running.needs_run:
                calls += 1
                said = running.decision.result if mode == "pass_decision_to_tool" else None
                running.result = self.pay(running.arguments, said)
        turn.tool(wake["call_id"], running.result)
        turn.run("done")
        turn.complete(claim)
        turn.commit(release=True)

        store = backend.reopen()
        wanted: dict[str, Any] = {"paid": 120, "said": None}
        if mode == "pass_decision_to_tool":
            wanted["said"] = {"answer": 42}
        if mode == "use_decision_as_tool_result":
            wanted = {"answer": 42}
        assert calls == (0 if mode == "use_decision_as_tool_result" else 1)
        (execution,) = store.executions.list(session=session)
        assert (execution.status, execution.result) == ("succeeded", wanted)
        assert (execution.mode, execution.ticket, execution.run_id) == (mode, asked.id, "r-s")
        assert execution.decision == self.get(backend, asked).decision
        last = store.messages.last(session, 1)[0]
        assert last.parts[0].content == wanted  # type: ignore[union-attr]
        run = store.runs.get("r-s")
        assert run is not None
        assert (run.status, run.waiting_reason) == ("done", None)
        assert store.work.list(session) == []
        assert store.executions.unresolved() == []
