"""Whether a recorded history of lease calls could have happened one call at a time.

Each call took effect at one moment between its start and its end. The search (Wing and Gong, with
the memory of Lowe) looks for an order of such moments in which every answer is the one that the
rules give. Sessions are judged one by one: they have nothing to do with each other.

A lease ends by the clock, and a backend may have looked at the clock at any time between the start
and the end of the call: while that lies on both sides of the expiry, both answers are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

STATES_MAX = 5_000_000

Rules = Callable[[Any, Any], Iterator[Any]]
"""From a state and a call to the states that it may lead to."""


class Op(msgspec.Struct, frozen=True, kw_only=True):
    """One call and its answer. `*_s` never jump and order the calls, `*_us` are the store's time.

    `result` is "ok", "no" (None or False) or the name of an error.
    """

    session: str
    call: str
    owner: str = ""
    token: str | None = None
    fence: int | None = None
    ttl_us: int = 0
    reenter: bool = False
    start_s: float = 0.0
    end_s: float = 0.0
    start_us: int = 0
    end_us: int = 0
    result: str = "ok"
    got_token: str | None = None
    got_fence: int = 0
    got_expires_us: int = 0
    got_revision: int = 0


class Head(msgspec.Struct, frozen=True):
    """What the rules look at."""

    fence: int = 0
    owner: str | None = None
    token: str | None = None
    expires_us: int = 0
    revision: int = 0


def check(
    history: Iterable[Op], rules: Rules | None = None, first: Hashable | None = None
) -> Iterator[str]:
    """One sentence for each session whose history no order explains.

    `rules` say where a call leads from a state, `first` is the state at the beginning; without
    them, leases are judged.
    """
    ordered = sorted(history, key=lambda op: (op.session, op.start_s))
    for session, ops in groupby(ordered, key=lambda op: op.session):
        stuck = _explain(list(ops), rules or steps, first or Head())
        if stuck is not None:
            yield f"{session}: no order explains {stuck}"


def _explain(ops: list[Op], rules: Rules, state: Hashable) -> Op | None:
    """None when an order was found, else the call that no order could get past."""
    first = _Place(0, frozenset(), state)
    seen, waiting, furthest = {first}, [first], first
    while waiting:
        place = waiting.pop()
        if place.done == len(ops):
            return None
        if len(seen) > STATES_MAX:
            raise AssertionError(f"{len(ops)} calls are too many to judge at once")
        furthest = max(furthest, place, key=lambda one: one.done + len(one.ahead))
        for following in _following(ops, place, rules):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return ops[min(_next(ops, furthest), key=lambda n: ops[n].end_s)]


class _Place(msgspec.Struct, frozen=True):
    """How far an order got: all calls before `done`, those in `ahead`, and where that leads."""

    done: int
    ahead: frozenset[int]
    state: Hashable


def _next(ops: list[Op], place: _Place) -> list[int]:
    """The calls that may come next: those that began before any other open one had ended."""
    found: list[int] = []
    earliest_end_s = float("inf")
    for n in range(place.done, len(ops)):
        if ops[n].start_s > earliest_end_s:
            break
        if n not in place.ahead:
            found.append(n)
            earliest_end_s = min(earliest_end_s, ops[n].end_s)
    return [n for n in found if ops[n].start_s <= earliest_end_s]


def _following(ops: list[Op], place: _Place, rules: Rules) -> Iterator[_Place]:
    # The one that ended first is pushed last and so tried first: it is the likeliest next.
    for n in sorted(_next(ops, place), key=lambda n: -ops[n].end_s):
        for state in rules(place.state, ops[n]):
            done, ahead = place.done, set(place.ahead) | {n}
            while done in ahead:
                ahead.remove(done)
                done += 1
            yield _Place(done, frozenset(ahead), state)


def steps(head: Head, op: Op) -> Iterator[Head]:
    """Where the call leads from here when it answers as recorded; nothing when it cannot."""
    for live in lives(head, op):
        yield from _RULES[op.call](head, op, live)


def lives(head: Head, op: Op) -> Iterator[bool]:
    """Whether somebody holds the session, for each way in which the clock may have been read."""
    if head.owner is not None and head.expires_us > op.start_us:
        yield True
    if head.owner is None or head.expires_us <= op.end_us:
        yield False


def _take(head: Head, op: Op, live: bool) -> Iterator[Head]:
    if not live or (head.owner == op.owner and not op.reenter):
        granted = Head(head.fence + 1, op.owner, op.token, op.got_expires_us, head.revision)
        if answers(op, granted) and is_end(op):
            yield granted
    elif head.owner != op.owner:
        if op.result == "no":
            yield head
    else:
        yield from _extended(head, op)


def _renew(head: Head, op: Op, live: bool) -> Iterator[Head]:
    if op.fence != head.fence:
        if op.result == "Fenced":
            yield head
    elif not live or not _holds(head, op):
        if op.result == "LeaseExpired":
            yield head
    else:
        yield from _extended(head, op)


def _extended(head: Head, op: Op) -> Iterator[Head]:
    """The same grant with a later end, or with the end it has when that is later."""
    longer = msgspec.structs.replace(head, expires_us=op.got_expires_us)
    kept = op.got_expires_us == head.expires_us
    later = op.got_expires_us > head.expires_us and is_end(op)
    if answers(op, longer) and (kept or later):
        yield longer


def _release(head: Head, op: Op, live: bool) -> Iterator[Head]:
    held = _holds(head, op)
    if held and op.result == "ok":
        yield Head(fence=head.fence, revision=head.revision)
    elif not held and op.result == "no":
        yield head


def _break(head: Head, op: Op, live: bool) -> Iterator[Head]:
    if live and op.result == "ok":
        yield Head(fence=head.fence + 1, revision=head.revision)
    elif not live and op.result == "no":
        yield head


def _get(head: Head, op: Op, live: bool) -> Iterator[Head]:
    told = answers(op, head) and op.got_expires_us == head.expires_us
    if told if live else op.result == "no":
        yield head


def _commit(head: Head, op: Op, live: bool) -> Iterator[Head]:
    if op.fence is None:
        refusal = "LeaseHeld" if live else None
    elif op.fence != head.fence or (head.owner is not None and op.token != head.token):
        refusal = "Fenced"
    else:
        refusal = None if live else "LeaseExpired"
    if refusal is not None:
        if op.result == refusal:
            yield head
    elif op.result == "ok" and op.got_revision == head.revision + 1:
        yield msgspec.structs.replace(head, revision=op.got_revision)


def _holds(head: Head, op: Op) -> bool:
    return (head.owner, head.token, head.fence) == (op.owner, op.token, op.fence)


def answers(op: Op, head: Head) -> bool:
    """Whether this lease was the answer."""
    return op.result == "ok" and (op.got_fence, op.got_token) == (head.fence, head.token)


def is_end(op: Op) -> bool:
    """Whether the lease that it got ends as long after the call as was asked for."""
    return op.start_us + op.ttl_us <= op.got_expires_us <= op.end_us + op.ttl_us


_RULES = {
    "take": _take,
    "renew": _renew,
    "release": _release,
    "break": _break,
    "get": _get,
    "commit": _commit,
}
