"""What the store really holds, against what was acknowledged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from ledgerstone import Store
from ledgerstone.demo.script import APPROVED_TOOL, STEPS, steps_done


class Acknowledged(msgspec.Struct, frozen=True):
    """A turn whose commit was answered: its id and those of its messages."""

    turn: str
    messages: tuple[str, ...]


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The count. Nothing is right but zeros, one approved payment and a finished conversation.

    `unexpected` are turns that nobody acknowledged, such as a write that got past a fence.
    """

    acknowledged: int
    lost: int
    doubled: int
    approved_by: str
    payments: int
    finished: bool
    drafts_left: int
    unexpected: int
    defects: list[str]

    @property
    def ok(self) -> bool:
        wrong = self.lost or self.doubled or self.unexpected or self.drafts_left or self.defects
        return self.finished and self.payments == 1 and bool(self.approved_by) and not wrong


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the demo proved, as `--json` prints it: what the audit found, and how it came."""

    acknowledged: int
    lost: int
    doubled: int
    ok: bool
    session: str
    store: str | None
    killed_pid: int
    killed_by: str
    draft_characters: int
    draft_kept: bool
    fences: tuple[int, int]
    takeover_s: float
    fenced: bool
    approved_by: str
    payments: int
    finished: bool
    drafts_left: int
    unexpected: int
    defects: list[str]
    seconds: float


def audit(store: Store, session: str, turns: Sequence[Acknowledged]) -> Audit:
    """Read everything back: each turn and each of its messages must be there exactly once."""
    stored_turns = Counter(info.turn for info in store.turns.list(session))
    history = store.messages.history(session)
    stored_messages = Counter(message.id for message in history)
    lost = doubled = 0
    for one in turns:
        counts = [stored_turns[one.turn], *(stored_messages[name] for name in one.messages)]
        lost += min(counts) == 0
        doubled += max(counts) > 1
    made = store.executions.list(session=session)
    paid = [one for one in made if one.tool == APPROVED_TOOL and one.status == "succeeded"]
    verified = store.admin.verify(session)
    return Audit(
        acknowledged=len(turns),
        lost=lost,
        doubled=doubled,
        approved_by=next((one.decision.by or "" for one in paid if one.decision), ""),
        payments=len(paid),
        finished=steps_done(history) == len(STEPS),
        unexpected=len(stored_turns.keys() - {one.turn for one in turns}),
        drafts_left=len(store.drafts.list(session)),
        defects=[f"{defect.kind} at {defect.where}" for defect in verified.defects],
    )
