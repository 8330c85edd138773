"""The usual turn when nobody else waits: one plain statement, cheaper than a group of one.

It promises what `ledger_apply` promises; why, says sql/queries/postgres_own/alone.sql. A plan that
writes anything unusual does not fit, and goes the way of groups.
"""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import Any

from ledgerstone.backends.postgres_apply import Judged, array
from ledgerstone.backends.postgres_plan import EXPIRES, MAKES_RUN, OWNER, UPDATED, USES, Plan
from ledgerstone.backends.postgres_port import Blobs
from ledgerstone.backends.postgres_tx import statements
from ledgerstone.sql.tx import Row

_BORDER, _NULL = "\x1f", "\x1e"
_XID_MASK = 0xFFFFFFFF

_RUNS = frozenset({"save_run", "change_run", "extend_run"})
_NODES_AND_TURN = frozenset({"insert_node", "insert_turn"})
_KNOWN = _NODES_AND_TURN | _RUNS | {"add_usage_day", "move_recency", "put_document"}

# What of a head a turn moves, and what it must leave alone to fit.
_moved = itemgetter(*range(3, 12), 20, 21, 22, 23, 24, 25, 27)
_kept = itemgetter(*range(12, 20), 26, 28)

_node_ints = itemgetter(1, 2, 3, 6, 10)
_node_texts = itemgetter(11, 4, 5, 8, 9)
_node_blobs = itemgetter(7, 12, 13)
_turn = itemgetter(8, 2, 3, 4, 10, 11)
_new_run = itemgetter(0, 2, 3, 7, 5, 6, 8)

_FLAGS = {"save_run": "makes_run", "change_run": "changes_run", "extend_run": "extends_run"}
_ALWAYS = (
    *("tenant", "number", "version", "was_us", "expires_us"),
    *("revision", "ord", "leaf", "tip", "tip_seq", "messages", "users", "first_user", "live"),
    *("updated_us", "link", "active_run", "open_run", "latest_run", "ledger", "runs"),
    *("now_us", "ints", "texts", "blobs", "count", "first_ord", "turn", "kind", "hash"),
    *("usage", "effects"),
)
_PLACE = ("run_key", "run_first", "run_last")
_RECORD = ("run_status", "run_parent", "run_body")
_ROWS: dict[str, tuple[str, ...]] = {
    "save_run": (*_PLACE, "run_created_us", *_RECORD),
    "change_run": (*_PLACE, *_RECORD),
    "extend_run": _PLACE,
    "move_recency": ("recency",),
    "add_usage_day": (
        *("day", "model", "provider", "source", "currency", "calls", "input", "output"),
        *("cached_input", "cache_write", "reasoning", "total", "cost_nano"),
    ),
    "put_document": ("document", "document_body"),
}
"""What a write adds to the arguments; the order of the statement's own."""


@cache
def _text(held: bool, writes: tuple[str, ...]) -> str:
    """The statement for a session that is held, or not, and these writes."""
    guarded = "save_run" in writes or "add_usage_day" in writes
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
    if not (_NODES_AND_TURN <= writes.keys() <= _KNOWN) or _kept(before) != _kept(plan.after.head):
        return False
    if before[OWNER] is not None and not plan.live:
        return False
    if [1 for write, rows in writes.items() if len(rows) != 1 and write != "insert_node"]:
        return False
    # A run that gets its first record, or is only mentioned, is saved without being new.
    makes, uses = bool(plan.flags & MAKES_RUN), bool(plan.flags & USES)
    return (
        ("save_run" in writes) == makes
        and ("add_usage_day" in writes) == uses
        and len(writes.keys() & _RUNS) <= 1
    )


def call_of(plan: Plan, now_us: int | None) -> tuple[str, tuple[Any, ...]] | None:
    """The statement and its arguments; None when a text cannot travel as it is."""
    writes, head, before = plan.writes, plan.after.head, plan.before
    nodes, turn = writes["insert_node"], writes["insert_turn"][0]
    texts = _texts(nodes)
    if texts is None:
        return None
    ints: list[int | None] = []
    blobs = Blobs()
    for node in nodes:
        ints += _node_ints(node)
        blobs += _node_blobs(node)
    was = before.head
    arguments = [plan.key[0], head[0], before.version, was[UPDATED], was[EXPIRES], *_moved(head)]
    arguments += (now_us, array(ints), texts, blobs)
    arguments += (turn[9], *_turn(turn))
    others = [write for write in _ROWS if write in writes]
    if plan.flags:
        arguments += (int(bool(plan.flags & USES)), plan.run)
    for write in others:
        row = writes[write][0]
        if write == "save_run":
            arguments += _new_run(row)
        else:
            # Only rows of runs do not begin with the number of the session, which is known.
            arguments += row if write in _RUNS else row[1:]
    return _text(was[OWNER] is not None, tuple(others)), tuple(arguments)


def _texts(nodes: list[Row]) -> str | None:
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
