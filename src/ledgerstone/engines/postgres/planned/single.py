"""A planned command when nobody else waits: one plain statement, cheaper than a group of one.

It promises what `ledger_apply` promises, with one snapshot that is taken before the head is locked.
Whoever changes a session, its runs, its turns or its sums, deletes or purges it, writes its head;
so the version of the head, which is compared again after a wait, vouches for all of that. What else
a plan assumes is said beside each condition. A statement that finds anything else writes nothing
and has no answer, or is taken back: then the command goes the way of groups, which says why.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ledgerstone.engines.postgres.drivers.port import Blobs, Row
from ledgerstone.engines.postgres.planned.apply import Judged, array, joined
from ledgerstone.engines.postgres.planned.known_rows import IS_DELETED, IS_TIMED, MAKES_RUN, USES
from ledgerstone.engines.postgres.planned.plan import Plan
from ledgerstone.engines.postgres.planned.sections import (
    CHANGED_RUNS,
    COMPLETED_CLAIMS,
    DROPPED_DRAFTS,
    MOVED_HEADS,
    MOVED_SESSIONS,
    NEW_TURNS,
    NEW_WORK,
    RAISED_LINES,
    SECTIONS,
    SETTLED_LINES,
    Section,
    values_of,
)
from ledgerstone.engines.postgres.planned.session_cache import CachedSession
from ledgerstone.engines.postgres.planned.writes import SETTLE_IN_PLACE, WRITES, columns_of

_XID_MASK = 0xFFFFFFFF
_CLOCK = "coalesce(cast($6 as bigint), ledger_clock())"
_OF_HEAD = (
    ("revision", "updated_us", "link"),
    (
        *("ord", "leaf", "tip", "tip_seq", "messages", "users", "first_user", "live"),
        *("active_run", "open_run", "latest_run", "ledger", "runs"),
    ),
    ("fence", "owner", "token", "claimed_us", "expires_us"),
    ("enqueued",),
    ("branched", "named", "amended", "checkpoint"),
)
"""Columns of a head that most often change together: few statements, none with all of them."""
_HEAD = [(names, values_of(MOVED_HEADS, *names)) for names in _OF_HEAD]
ONE_AT_MOST = frozenset(
    {NEW_TURNS, CHANGED_RUNS, MOVED_SESSIONS, NEW_WORK, COMPLETED_CLAIMS, SETTLED_LINES}
)
_WHOLE_QUEUE = frozenset({NEW_WORK, RAISED_LINES})


class Shape(NamedTuple):
    """What distinguishes the statements of plans."""

    head: tuple[int, ...]
    """Which of _OF_HEAD change."""
    owned: bool
    """Whether somebody has a lease on the session, over or not; `live`: it is not."""
    live: bool
    flags: int
    keyed: bool
    """Whether a batch is queued that has the key of its source."""
    writes: tuple[tuple[Section, bool], ...]
    """What is written besides the head, and whether it is more than one row."""


def shape_of(plan: Plan | None) -> Shape | None:
    """None where no single statement can do it."""
    if plan is None or MOVED_HEADS not in plan.writes or plan.flags & IS_DELETED:
        return None
    writes, before, after = plan.writes, plan.before.head, plan.after.head
    # No part of a statement sees what another one does.
    if DROPPED_DRAFTS in writes or (SETTLED_LINES in writes and writes.keys() & _WHOLE_QUEUE):
        return None
    parts = tuple([(one, len(writes[one]) != 1) for one in SECTIONS[1:] if one in writes])
    if [1 for section, several in parts if several and section in ONE_AT_MOST]:
        return None
    changed = [n for n, (_, get) in enumerate(_HEAD) if get(before) != get(after)]
    if not changed:
        return None
    keyed = NEW_WORK in writes and writes[NEW_WORK][0].source_key is not None
    return Shape(
        tuple(changed), before.owner is not None, bool(plan.live), plan.flags, keyed, parts
    )


def call_of(plan: Plan, shape: Shape, now_us: int | None) -> tuple[str, Row] | None:
    """The statement and its arguments; None when a text cannot travel as it is."""
    writes = plan.writes
    given: list[Any] = [*standing(plan.key[0], plan.before), now_us]
    for n in shape.head:
        given += _HEAD[n][1](plan.after.head)
    if shape.flags & IS_TIMED:
        given.append(plan.now_us)
    if shape.flags & MAKES_RUN:
        given.append(plan.run)
    if NEW_TURNS in writes:
        given.append(writes[NEW_TURNS][0].id)
    if NEW_WORK in writes:
        (batch,) = writes[NEW_WORK]
        given += (batch.id, batch.source_key) if shape.keyed else (batch.id,)
    if COMPLETED_CLAIMS in writes:
        (claim,) = writes[COMPLETED_CLAIMS]
        given += (claim.claim, claim.token, f"{{{claim.batches}}}")
    for section, several in shape.writes:
        rows = writes[section]
        if section is COMPLETED_CLAIMS:
            continue
        if section is SETTLED_LINES:
            given += (rows[0].floor_us, rows[0].queue)
            continue
        if not several:
            given += section.values(rows[0])
            continue
        ints, texts, blobs = list[int | None](), list[str | None](), Blobs()
        section.carry(0, rows, ints, texts, blobs)
        text = joined(texts)
        if text is None:
            return None
        given += (len(rows), array(ints), text, blobs)
    return statement(shape), tuple(given)


def standing(tenant: str, known: CachedSession) -> tuple[Any, ...]:
    """By what a head is known again: the first arguments of every statement for one session."""
    head = known.head
    return tenant, head.number, known.version, head.updated_us, head.expires_us


def judged(rows: list[Row]) -> Judged | None:
    """None when it was not carried out; somebody else says why."""
    if not rows:
        return None
    xid, clock_us = rows[0]
    return Judged(xid & _XID_MASK, clock_us, {})


class _Parameters:
    """Numbers for what is bound after the first six."""

    def __init__(self) -> None:
        self.count = 6

    def one(self, kind: str) -> str:
        self.count += 1
        return f"cast(${self.count} as {kind})"


@cache
def statement(shape: Shape) -> str:
    """The text for plans of this shape; what it binds, `call_of` gives in the same order."""
    bound = _Parameters()
    changes = [f"{name} = {bound.one(_kind(name))}" for n in shape.head for name in _OF_HEAD[n]]
    holds, still, drops = _conditions(shape, bound)
    parts = []
    for section, several in shape.writes:
        if section is SETTLED_LINES:
            parts.append(_settled(bound, drops[0] if drops else "''"))
        elif section is COMPLETED_CLAIMS:
            claim, batches = drops
            parts.append(
                f"done as (delete from work w using moved where w.number = $2 and w.tenant = $1 "
                f"and w.claim = {claim} and w.superseded is null "
                f"and w.seq = any (cast({batches} as bigint[])) returning 1)"
            )
        else:
            rows = _several(section, bound) if several else _one(section, bound)
            parts.append(f"{section.name} as ({WRITES[section].replace('{rows}', rows)})")
    refused = [f"case when {' and '.join(still)} then 0 else ledger_refuse() end"] if still else []
    moved = [
        "cast(cast(pg_current_xact_id() as text) as bigint) as xid",
        f"{_CLOCK} as clock_us",
        *[f"{one} as refused" for one in refused],
    ]
    head = (
        f"moved as (update heads h set {', '.join(changes)} where {' and '.join(holds)} "
        f"returning {', '.join(moved)})"
    )
    clock = "m.clock_us"
    if drops:
        count = f"cardinality(cast({drops[1]} as bigint[]))"
        clock += (
            f" + case when (select count(*) from done) = {count} then 0 else ledger_refuse() end"
        )
    return f"with {', '.join([head, *parts])} select m.xid, {clock} from moved m"


def _kind(name: str) -> str:
    kinds = {"text": MOVED_HEADS.texts, "bytea": MOVED_HEADS.blobs}
    return next((kind for kind, names in kinds.items() if name in names), "bigint")


def _conditions(shape: Shape, bound: _Parameters) -> tuple[list[str], list[str], tuple[str, ...]]:
    """What must hold of the head; what must still hold when it is written, after a wait; the claim
    that is completed, and its batches."""
    holds = [
        "h.number = $2 and h.tenant = $1 and h.xmin = $3",
        "h.updated_us = $4 and h.expires_us = $5",
    ]
    still, sections = [], [section for section, _ in shape.writes]
    if shape.owned:
        still.append(f"(cast($5 as bigint) > {_CLOCK}) = {str(shape.live).lower()}")
    if shape.flags & IS_TIMED:
        still.append(f"abs({_CLOCK} - {bound.one('bigint')}) <= 250000")
    holds += still
    if shape.flags & (USES | MAKES_RUN):
        # Other sessions may make the run, and set a budget. Nobody is waited for here.
        run = bound.one("text") if shape.flags & MAKES_RUN else "null"
        used = "pg_try_advisory_xact_lock_shared(ledger_lock_key($1, 'u'))"
        made = f"pg_try_advisory_xact_lock(ledger_lock_key($1, 'r:' || {run}))"
        holds.append(
            f"ledger_is_free($1, {run}, {used if shape.flags & USES else 'null'}, "
            f"{made if shape.flags & MAKES_RUN else 'null'})"
        )
    if NEW_TURNS in sections:
        # As a pair: only the index on both fits that, whatever else the planner may think of.
        turn = bound.one("text")
        holds.append(
            f"(select true from turns t where (t.id, t.number) >= ({turn}, $2) "
            f'and (t.id, t.number) <= ({turn}, $2) and t.tenant = $1 collate "POSIX") is null'
        )
    if NEW_WORK in sections:
        holds.append(_no_work(f"w.id = {bound.one('text')}"))
        if shape.keyed:
            holds.append(_no_work(f"w.source_key = {bound.one('text')}"))
    if SETTLED_LINES in sections:
        # Nothing is due behind a batch that waits for a decision: only groups know that.
        holds.append(_no_work("w.claim_fence = 9223372036854775807"))
    if COMPLETED_CLAIMS not in sections:
        return holds, still, ()
    # A claim may be handed back, and a batch interrupted, without the head being written.
    claim, token, batches = bound.one("text"), bound.one("text"), bound.one("text")
    holds.append(
        f"(select count(*) from work w where w.number = $2 and w.tenant = $1 "
        f"and w.claim = {claim} and w.claim_token = {token} and w.superseded is null) "
        f"= cardinality(cast({batches} as bigint[]))"
    )
    return holds, still, (claim, batches)


def _no_work(condition: str) -> str:
    return (
        f"(select true from work w where w.number = $2 and w.tenant = $1 and {condition} limit 1) "
        "is null"
    )


def _one(section: Section, bound: _Parameters) -> str:
    kinds = ((section.ints, "bigint"), (section.texts, "text"), (section.blobs, "bytea"))
    values = [f"{bound.one(kind)} as {name}" for names, kind in kinds for name in names]
    return f"(select $1 as whose, 0 as r, {', '.join(values)} from moved)"


def _several(section: Section, bound: _Parameters) -> str:
    count, ints, texts = bound.one("bigint"), bound.one("text"), bound.one("text")
    width, blobs = len(section.ints) + 1, bound.one("bytea[]")
    columns = columns_of(
        section,
        f"p.ints[x.r * {width} + 1 + {{}}]",
        f"p.texts[x.r * {len(section.texts)} + {{}}]",
        f"p.blobs[x.r * {len(section.blobs)} + {{}}]",
    )
    return (
        f"(select $1 as whose, x.r, {columns} from moved, ("
        f"select cast({ints} as bigint[]) as ints, {blobs} as blobs, "
        f"string_to_array({texts}, chr(31), chr(30)) as texts offset 0) p, "
        f"generate_series(0, {count} - 1) x (r))"
    )


def _settled(bound: _Parameters, claim: str) -> str:
    floor_us, queue = bound.one("bigint"), bound.one("text")
    text = SETTLE_IN_PLACE
    for name, value in (("claim", claim), ("floor_us", floor_us), ("queue", queue)):
        text = text.replace(f"{{{name}}}", value)
    return text
