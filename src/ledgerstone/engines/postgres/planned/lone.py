"""The usual turn when nobody else waits: one plain statement, cheaper than a group of one.

It promises what `ledger_apply` promises; why, says sql/queries/postgres_own/alone.sql. A plan that
writes anything unusual does not fit, and goes the way of groups.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ledgerstone.engines.postgres.drivers.port import Blobs
from ledgerstone.engines.postgres.planned.apply import Judged, array
from ledgerstone.engines.postgres.planned.known_rows import MAKES_RUN, USES
from ledgerstone.engines.postgres.planned.plan import Plan
from ledgerstone.engines.postgres.planned.sections import (
    CHANGED_RUNS,
    MOVED_HEADS,
    MOVED_SESSIONS,
    NEW_DOCUMENTS,
    NEW_NODES,
    NEW_RUNS,
    NEW_TURNS,
    USED_DAYS,
    Section,
    values_of,
)
from ledgerstone.engines.postgres.transaction import statements
from ledgerstone.sql.tx import Row
from ledgerstone.tables.graph import NodeRow

_BORDER, _NULL = "\x1f", "\x1e"
_XID_MASK = 0xFFFFFFFF

_TURN = frozenset({MOVED_HEADS, NEW_NODES, NEW_TURNS})
_KNOWN = _TURN | {NEW_RUNS, CHANGED_RUNS, USED_DAYS, MOVED_SESSIONS, NEW_DOCUMENTS}

_MOVED = (
    *("revision", "ord", "leaf", "tip", "tip_seq", "messages", "users", "first_user", "live"),
    *("updated_us", "link", "active_run", "open_run", "latest_run", "ledger", "runs"),
)
"""What of a head such a turn moves; the rest it must leave alone to fit."""

_moved = values_of(MOVED_HEADS, *_MOVED)
_left = values_of(MOVED_HEADS, *(name for name in MOVED_HEADS.columns if name not in _MOVED))
_node_ints = values_of(NEW_NODES, "parent", "seq", "role", "run", "created_us")
_node_texts = values_of(NEW_NODES, "id", "kind", "label", "format", "refs")
_node_blobs = values_of(NEW_NODES, "meta", "salt", "body")
_turn = values_of(NEW_TURNS, "count", "first_ord", "id", "kind", "hash", "usage", "effects")

_FLAGS = {NEW_RUNS: "makes_run", CHANGED_RUNS: "changes_run"}
_ALWAYS = (
    *("tenant", "number", "version", "was_us", "expires_us"),
    *_MOVED,
    *("now_us", "ints", "texts", "blobs", "count", "first_ord", "turn", "kind", "hash"),
    *("usage", "effects"),
)
_PLACE = ("run_key", "run_first", "run_last")
_RECORD = ("run_status", "run_parent", "run_body")
_DAY = (
    *("day", "model", "provider", "source", "currency", "calls", "input", "output"),
    *("cached_input", "cache_write", "reasoning", "total", "cost_nano"),
)
_ROWS: dict[Section, tuple[str, ...]] = {
    NEW_RUNS: (*_PLACE, "run_created_us", *_RECORD),
    CHANGED_RUNS: (*_PLACE, *_RECORD),
    MOVED_SESSIONS: ("recency",),
    USED_DAYS: _DAY,
    NEW_DOCUMENTS: ("document", "document_body"),
}
"""What a write adds to the arguments; the order of the statement's own."""
_ORDS, _SAID = ("key", "first_ord", "last_ord"), ("status", "parent_run", "body")
_VALUES = {
    NEW_RUNS: values_of(NEW_RUNS, *_ORDS, "created_us", *_SAID),
    CHANGED_RUNS: values_of(CHANGED_RUNS, *_ORDS, *_SAID),
    MOVED_SESSIONS: values_of(MOVED_SESSIONS, "recency"),
    USED_DAYS: values_of(USED_DAYS, *_DAY),
    NEW_DOCUMENTS: values_of(NEW_DOCUMENTS, "name", "body"),
}


@cache
def _text(held: bool, writes: tuple[Section, ...]) -> str:
    """The statement for a session that is held, or not, and these writes."""
    guarded = NEW_RUNS in writes or USED_DAYS in writes
    given = [*_ALWAYS, *(("uses", "run") if guarded else ())]
    flags = [*(("is_held",) if held else ()), *(("is_guarded",) if guarded else ())]
    for write in writes:
        given += _ROWS[write]
        flags += [_FLAGS[write]] if write in _FLAGS else []
    text, bound = statements()["commit_alone"].variant(frozenset((*given, *flags)))
    assert bound == tuple(given), (bound, given)
    return text


def fits(plan: Plan | None) -> bool:
    """Whether it is a turn that writes nothing but what most turns write, each once."""
    if plan is None or plan.error is not None or plan.flags & ~(USES | MAKES_RUN):
        return False
    writes, before = plan.writes, plan.before.head
    if not (_TURN <= writes.keys() <= _KNOWN) or _left(before) != _left(plan.after.head):
        return False
    if before.owner is not None and not plan.live:
        return False
    if [1 for section, rows in writes.items() if len(rows) != 1 and section is not NEW_NODES]:
        return False
    # A run that gets its first record, or is only mentioned, is saved without being new.
    makes, uses = bool(plan.flags & MAKES_RUN), bool(plan.flags & USES)
    return (
        (NEW_RUNS in writes) == makes
        and (USED_DAYS in writes) == uses
        and not (makes and CHANGED_RUNS in writes)
    )


def call_of(plan: Plan, now_us: int | None) -> tuple[str, tuple[Any, ...]] | None:
    """The statement and its arguments; None when a text cannot travel as it is."""
    writes, head, before = plan.writes, plan.after.head, plan.before
    nodes = writes[NEW_NODES]
    texts = _texts(nodes)
    if texts is None:
        return None
    ints: list[int | None] = []
    blobs = Blobs()
    for node in nodes:
        ints += _node_ints(node)
        blobs += _node_blobs(node)
    was = before.head
    arguments = [plan.key[0], head.number, before.version, was.updated_us, was.expires_us]
    arguments += (*_moved(head), now_us, array(ints), texts, blobs)
    arguments += _turn(writes[NEW_TURNS][0])
    others = [section for section in _ROWS if section in writes]
    if plan.flags:
        arguments += (int(bool(plan.flags & USES)), plan.run)
    for section in others:
        arguments += _VALUES[section](writes[section][0])
    return _text(was.owner is not None, tuple(others)), tuple(arguments)


def _texts(nodes: list[NodeRow]) -> str | None:
    texts: list[str | None] = []
    for node in nodes:
        texts += _node_texts(node)
    joined = _BORDER.join([_NULL if text is None else text for text in texts])
    if joined.count(_BORDER) != len(texts) - 1 or joined.count(_NULL) != texts.count(None):
        return None
    return None if "\0" in joined or "\x01" in joined else joined


def judged(rows: list[Row]) -> Judged | None:
    """None when it was not carried out; somebody else says why."""
    if not rows:
        return None
    xid, clock_us = rows[0]
    return Judged(xid & _XID_MASK, clock_us, {})
