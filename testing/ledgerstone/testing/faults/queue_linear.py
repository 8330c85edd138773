"""Whether a recorded history of lease and queue calls could have happened one call at a time.

The search and the rules of leases are those of `linear`; here are the rules of a session's queue
beside them. Each session has a queue of its own name, so that taking work from it concerns no
other session.

When a session is due is written down by one call and read by another. Both may have looked at the
clock before they got their turn, so a worker may come a moment too early and find nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import msgspec
from msgspec.structs import replace

from ledgerstone.testing.faults import linear
from ledgerstone.testing.faults.linear import Head, Op


class QueueOp(Op, frozen=True, kw_only=True):
    """A call about the queue, or about the lease; `got_batches` are those that it was given."""

    claim: str = ""
    batch: str = ""
    release: bool = False
    got_batches: tuple[str, ...] = ()


class Owned(msgspec.Struct, frozen=True):
    """A queued batch and the claim that has it, or had it under an older fence."""

    id: str
    claim: str = ""
    fence: int = 0


class State(msgspec.Struct, frozen=True):
    """What the rules look at; `due_us`: by then, at the latest, workers find the session."""

    head: Head = Head()
    batches: tuple[Owned, ...] = ()
    due_us: int = 0


def check(history: list[QueueOp]) -> Iterator[str]:
    """One sentence for each session whose history no order explains."""
    return linear.check(history, steps, State())


def unhurried(history: list[QueueOp]) -> list[QueueOp]:
    """The history for a backend whose takers pass over a session that somebody is busy with.

    Such a taker may find nothing while another call on that session is under way, and has changed
    nothing: those answers are left out. All others must still be explained.
    """
    found: list[QueueOp] = []
    ordered = sorted(history, key=lambda op: (op.session, op.start_s))
    for _, group in groupby(ordered, key=lambda op: op.session):
        ops = list(group)
        found += [op for op in ops if not (_found_nothing(op) and _was_busy(op, ops))]
    return found


def _found_nothing(op: QueueOp) -> bool:
    return op.call == "take work" and op.result == "no"


def _was_busy(op: QueueOp, others: list[QueueOp]) -> bool:
    return any(
        one is not op and one.call != "get" and one.start_s < op.end_s and one.end_s > op.start_s
        for one in others
    )


def steps(state: State, op: QueueOp) -> Iterator[State]:
    """Where the call leads from here when it answers as recorded; nothing when it cannot."""
    rule = _RULES.get(op.call)
    if rule is not None:
        yield from rule(state, op)
        return
    for head in linear.steps(state.head, op):
        ended = op.call in ("release", "break") and op.result == "ok"
        yield replace(state, head=head, due_us=op.end_us if ended else state.due_us)


def _enqueue(state: State, op: QueueOp) -> Iterator[State]:
    if op.result == "ok":
        due_us = state.due_us if state.batches else op.end_us
        yield replace(state, batches=(*state.batches, Owned(op.batch)), due_us=due_us)


def _take_work(state: State, op: QueueOp) -> Iterator[State]:
    """A session that nobody holds: a fresh grant, and its first batch, whoever had it before."""
    refused = op.result == "no"
    for live in linear.lives(state.head, op):
        if live or not state.batches or (refused and state.due_us > op.start_us):
            if refused:
                yield state
            continue
        head = replace(
            state.head,
            fence=state.head.fence + 1,
            owner=op.owner,
            token=op.token,
            expires_us=op.got_expires_us,
        )
        first = state.batches[0]
        if linear.answers(op, head) and linear.is_end(op) and op.got_batches == (first.id,):
            owned = Owned(first.id, op.claim, head.fence)
            yield State(head, (owned, *state.batches[1:]), op.end_us)


def _claim(state: State, op: QueueOp) -> Iterator[State]:
    """The same claim again, or the first batch that nobody has under this fence."""
    for refusal in _refusals(state.head, op):
        if refusal is not None:
            if op.result == refusal:
                yield state
            continue
        fence = state.head.fence
        mine = [n for n, one in enumerate(state.batches) if _has(one, op, fence)]
        free = [n for n, one in enumerate(state.batches) if not one.claim or one.fence < fence]
        found = mine[:1] or free[:1]
        given = tuple(state.batches[n].id for n in found)
        if op.result != ("ok" if found else "no") or op.got_batches != given:
            continue
        owned = {n: Owned(state.batches[n].id, op.claim, fence) for n in found}
        batches = tuple(owned.get(n, one) for n, one in enumerate(state.batches))
        # The same claim again leaves the line as it is.
        yield replace(state, batches=batches, due_us=state.due_us if mine else op.end_us)


def _complete(state: State, op: QueueOp) -> Iterator[State]:
    for refusal in _refusals(state.head, op):
        kept = tuple(one for one in state.batches if one.claim != op.claim)
        lost = not any(_has(one, op, state.head.fence) for one in state.batches)
        refused = refusal or ("ClaimLost" if lost else None)
        if refused is not None:
            if op.result == refused:
                yield state
        elif op.result == "ok" and op.got_revision == state.head.revision + 1:
            head = replace(state.head, revision=op.got_revision)
            if op.release:
                head = Head(fence=head.fence, revision=head.revision)
            yield State(head, kept, op.end_us)


def _abandon(state: State, op: QueueOp) -> Iterator[State]:
    owned = [one for one in state.batches if _has(one, op, state.head.fence)]
    if not owned and op.result == "no":
        yield state
    elif owned and op.result == "ok":
        batches = tuple(Owned(one.id) if one in owned else one for one in state.batches)
        yield replace(state, batches=batches, due_us=op.end_us)


def _renew_claim(state: State, op: QueueOp) -> Iterator[State]:
    owned = any(_has(one, op, state.head.fence) for one in state.batches)
    if op.result == ("ok" if owned else "ClaimLost"):
        yield state


def _has(one: Owned, op: QueueOp, fence: int) -> bool:
    return (one.claim, one.fence) == (op.claim, fence)


def _refusals(head: Head, op: QueueOp) -> Iterator[str | None]:
    """What the fence says, for each way in which the clock may have been read."""
    for live in linear.lives(head, op):
        if op.fence != head.fence or (head.owner is not None and op.token != head.token):
            yield "Fenced"
        else:
            yield None if live else "LeaseExpired"


_RULES = {
    "enqueue": _enqueue,
    "take work": _take_work,
    "claim": _claim,
    "complete": _complete,
    "abandon": _abandon,
    "renew claim": _renew_claim,
}
