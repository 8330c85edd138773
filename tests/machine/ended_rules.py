"""What the oracle does not know: interrupting, records of ended work, stamps without a turn.

Each is carried out on the subject, and on the model by the commands that have the same effect on
what is queued and dead.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RULE_MARKER, RuleBasedStateMachine, rule

from ledgerstone.clock import ManualClock
from ledgerstone.commands.blobs import (
    CommitAttachments,
    ForgetAttachment,
    ListAttachments,
    RecordIntent,
)
from ledgerstone.commands.sessions import GetSession
from ledgerstone.commands.work import (
    CancelWork,
    CountWork,
    DropDead,
    InterruptWork,
    ListDead,
    ListEnded,
    ListPrunable,
    ListWork,
    PruneWork,
)
from ledgerstone.ports.backend import Backend
from ledgerstone.records.work import END_STATES
from tests.machine import draws

MANY = 1000


def without_ended(machine: type[RuleBasedStateMachine]) -> type[RuleBasedStateMachine]:
    """The same machine for a subject that is the oracle itself."""
    names = [name for name in vars(EndedRules) if hasattr(getattr(EndedRules, name), RULE_MARKER)]
    return type("WithoutEnded", (machine,), dict.fromkeys(names))


class EndedRules(RuleBasedStateMachine):
    """A part of the machine."""

    model: Backend
    subject: Backend
    clock: ManualClock

    @rule(tenant=draws.tenants, session=draws.sessions)
    def interrupt_what_waits(self, tenant: str, session: str) -> None:
        """While nothing runs it is as if everything was cancelled."""
        place: dict[str, Any] = {"tenant": tenant, "session": session}
        found, queued, pending = self.model.read(
            [
                GetSession(tenant=tenant, id=session),
                ListWork(**place),
                ListWork(pending=True, **place),
            ]
        )
        if found is None or found.deleted_us is not None or len(pending) < len(queued):
            return
        before = self.subject.read([CountWork(**place)])[0]
        answer = self.subject.write(InterruptWork(**place))
        for batch in pending:
            assert self.model.write(CancelWork(batch=batch.id, **place)) is not None
        assert (answer.superseded, answer.running) == (len(pending), [])
        after = self.subject.read([CountWork(**place)])[0]
        assert after.epoch == answer.epoch == before.epoch + 1
        assert after.superseded == before.superseded + len(pending)

    @rule(tenant=draws.tenants, session=draws.sessions, age_us=st.sampled_from((0, 1, 30_000_000)))
    def prune_what_ended(self, tenant: str, session: str, age_us: int) -> None:
        place: dict[str, Any] = {"tenant": tenant, "session": session}
        before_us = self.clock.now_us() - age_us
        every, mine = self.model.read(
            [ListDead(tenant=tenant, limit=MANY), ListDead(limit=MANY, **place)]
        )
        ids = [one.id for one in every.items]
        old = [one.id for one in mine.items if one.dead_us < before_us]
        if any(ids.count(id) > 1 for id in old):
            return  # A dead letter is dropped by its id: it may be another session's.
        self.subject.write(PruneWork(before_us=before_us, limit=MANY, **place))
        for id in old:
            assert self.model.write(DropDead(tenant=tenant, batch=id))
        prunable = self.subject.read([ListPrunable(tenant=tenant, before_us=before_us, limit=MANY)])
        assert session not in prunable[0]

    @rule(ids=st.lists(st.sampled_from(draws.ATTACHMENTS), min_size=1, unique=True))
    def use_attachments_outside_of_turns(self, ids: list[str]) -> None:
        """In a tenant of its own, which is empty again afterwards: the oracle has no such stamp."""
        place: dict[str, Any] = {"tenant": "apart", "session": "s"}
        for id in ids:
            self.subject.write(RecordIntent(id=id, uri="u", **place))
        used = ids[::2]
        stamped = self.subject.write(CommitAttachments(ids=(*used, "unknown"), **place))
        assert {one.id: one.committed_us for one in stamped} == dict.fromkeys(
            used, self.clock.now_us()
        )
        found = self.subject.read([ListAttachments(**place)])[0]
        assert {one.id for one in found if one.committed_us is None} == set(ids) - set(used)
        for id in ids:
            assert self.subject.write(ForgetAttachment(id=id, **place))

    @rule(tenant=draws.tenants, session=draws.sessions)
    def count_what_ended(self, tenant: str, session: str) -> None:
        place: dict[str, Any] = {"tenant": tenant, "session": session}
        counts = self.subject.read([CountWork(**place)])[0]
        listed = self.subject.read(
            [ListEnded(state=state, limit=MANY, total=True, **place) for state in END_STATES]
        )
        for state, page in zip(END_STATES, listed, strict=True):
            assert getattr(counts, state) == page.total == len(page.items)
            assert all(one.state == state for one in page.items)
