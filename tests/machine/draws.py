"""Random parts of commands, drawn from small pools so that they collide all the time."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from ledgerstone.codec import encode_json, encode_struct, sha256
from ledgerstone.commands.nodes import NewNote, NewValue
from ledgerstone.commands.turns import Amendment, BranchMove, NewCheckpoint, NewNode, Rewind
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.messages import ROLES, MessageBody
from ledgerstone.records.parts import Text
from ledgerstone.records.runs import RUN_STATUSES
from ledgerstone.records.sessions import Cause, Session
from ledgerstone.records.turns import Checkpoint
from ledgerstone.records.usage import Cost, Usage, UsageEntry

TENANTS = (*("default",) * 9, "other")
SESSIONS = ("s1", "s2", "s3")
NODES = tuple(f"n{n}" for n in range(1, 13))
TURNS = tuple(f"t{n}" for n in range(1, 25))
OWNERS = ("ann", "bob")
TOKENS = ("k1", "k2", "k3", "k4")
BRANCHES = (*("main",) * 6, "b1", "b1", "b2")
RUNS = ("r1", "r2", "r3")
CLAIMS = ("c1", "c2", "c3")
BATCHES = ("w1", "w2", "w3", "w4")
ATTACHMENTS = ("a1", "a2")
KEYS = ("k", "k/1", f"{DRAFT_PREFIX}start", f"{DRAFT_PREFIX}00000001", f"{DRAFT_PREFIX}00000002")
VALUES = tuple(NewValue(sha256(data), data) for data in (b"one", b"two", b"\x00" * 9))
FRESH = "?"
"""Stands for a new node id, and for the leaf as it is now: the machine knows both."""
START_US = 1_700_000_000_000_000

tenants = st.sampled_from(TENANTS)
sessions = st.sampled_from(("s1", "s1", "s1", "s1", "s2", "s2", "s3"))
node_ids = st.sampled_from(NODES)
new_ids = st.sampled_from((*(FRESH,) * 9, "n1", "n2", "n30"))
turns = st.sampled_from(TURNS)
branches = st.sampled_from(BRANCHES)
runs = st.sampled_from(RUNS)
salts = st.sampled_from((b"0" * 16, b"1" * 16))
texts = st.sampled_from(("", "a", "b", "naïve \u2603", "\ud800", "nul\x00"))
GUARDS = (
    *("fit",) * 12, "fit+revision", "free", "held", "stale", "wrong token", "revision", "old",
    "fit+incarnation", "another", "absent",
)  # fmt: skip
guards = st.sampled_from(GUARDS)
small_json: st.SearchStrategy[Any] = st.sampled_from(
    (None, 0, 1, True, -0.0, 1e308, 2**64, "x", [], {}, {"a": 1}, {"a": {"b": [1, None]}, "c": "d"})
)
objects: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    ({}, {"a": 1}, {"a": 2, "b": None}, {"b": {"$set": "", "": 1}})
)
times = st.sampled_from((0, 0, 0, START_US - 5, START_US + 7))
offsets = st.integers(0, 4)
limits = st.integers(1, 4)
# UNSET: the caller does not care where the branch stands.
expected = st.one_of(st.sampled_from((msgspec.UNSET, msgspec.UNSET, FRESH, None)), node_ids)
parents = st.one_of(st.sampled_from((msgspec.UNSET, msgspec.UNSET, None)), node_ids)


def once(elements: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[Any]:
    return st.lists(elements, max_size=most, unique=True).map(tuple)


@st.composite
def message_nodes(draw: st.DrawFn) -> NewNode:
    role = draw(st.sampled_from(ROLES))
    body = MessageBody(
        role=role, parts=[Text(draw(texts))], metadata=draw(objects), usage=draw(st.none())
    )
    return NewNode(
        draw(new_ids),
        "message",
        ROLES.index(role) + 1,
        encode_struct(body, "body"),
        draw(salts),
        run_id=draw(st.one_of(st.none(), runs)),
        created_us=draw(times),
        parent=draw(parents),
        on_path=draw(st.sampled_from((True, True, True, False))),
    )


@st.composite
def other_nodes(draw: st.DrawFn) -> NewNode:
    opaque = draw(st.booleans())
    body = b"\xff\x00" if opaque else encode_json(draw(small_json), "body")
    meta = draw(st.one_of(st.none(), objects))
    return NewNode(
        draw(new_ids),
        draw(st.sampled_from(("frame", "plugin"))),
        None,
        body,
        draw(salts),
        label=draw(st.sampled_from(("", "l1", "l2"))),
        run_id=draw(st.one_of(st.none(), runs)),
        meta=encode_json(meta, "meta") if meta else None,
        format="bin" if opaque else None,
        refs=tuple(value.digest for value in draw(once(st.sampled_from(VALUES), 2))),
        parent=draw(parents),
        on_path=draw(st.booleans()),
    )


nodes = st.lists(
    st.one_of(message_nodes(), message_nodes(), message_nodes(), other_nodes()), max_size=3
).map(tuple)
plain_nodes = st.lists(message_nodes(), min_size=1, max_size=3).map(
    lambda made: tuple(msgspec.structs.replace(n, parent=msgspec.UNSET, on_path=True) for n in made)
)


@st.composite
def rewinds(draw: st.DrawFn) -> Rewind:
    pop = draw(st.sampled_from((0, 0, 1, 2, 9)))
    to = None if pop else draw(st.one_of(st.none(), node_ids))
    return Rewind(to=to, pop=pop, expected=draw(expected), supersede=draw(st.booleans()))


@st.composite
def amendments(draw: st.DrawFn) -> Amendment:
    patch = draw(
        st.sampled_from(
            (
                {"is_summary": True},
                {"metadata": {"m": 1}},
                {"parts": [{"type": "text", "text": "z"}]},
            )
        )
    )
    return Amendment(draw(node_ids), encode_json(patch, "patch"), draw(salts))


@st.composite
def branch_moves(draw: st.DrawFn) -> BranchMove:
    verb = draw(st.sampled_from(("create", "create", "move", "delete")))
    to_branch = draw(st.sampled_from((None, None, "main", "b1", "nowhere")))
    to = None if verb == "delete" or to_branch else draw(st.one_of(st.none(), node_ids))
    return BranchMove(
        draw(branches if verb == "move" else st.sampled_from(("b1", "b2", "b3", "main"))),
        to=to,
        to_branch=None if verb == "delete" else to_branch,
        create=verb == "create",
        delete=verb == "delete",
        expected=draw(expected) if verb == "move" else msgspec.UNSET,
    )


@st.composite
def notes(draw: st.DrawFn) -> NewNote:
    key = draw(st.sampled_from(KEYS))
    return NewNote(
        draw(node_ids),
        key,
        _note_body(draw, key),
        refs=tuple(value.digest for value in draw(once(st.sampled_from(VALUES), 1))),
    )


@st.composite
def notes_of_a_turn(draw: st.DrawFn) -> tuple[NewNote, ...]:
    """Few places, so that a turn meets what is there and what it says itself."""
    places = draw(
        st.lists(st.tuples(st.sampled_from(NODES[:2]), st.sampled_from(KEYS[1:3])), max_size=2)
    )
    return tuple(NewNote(node, key, _note_body(draw, key)) for node, key in places)


def _note_body(draw: st.DrawFn, key: str) -> bytes:
    if key.endswith("start"):
        started = {"role": "assistant", "owner": draw(st.sampled_from(OWNERS)), "fields": {}}
        return encode_json(started, "note")
    if key.startswith(DRAFT_PREFIX):
        return encode_json(draw(texts), "note")
    return encode_json(draw(small_json), "note")


@st.composite
def usages(draw: st.DrawFn) -> UsageEntry:
    usage = Usage(draw(st.integers(-2, 9)), draw(offsets), total=draw(st.sampled_from((None, 3))))
    return UsageEntry(
        draw(st.sampled_from(("m1", "m2"))),
        usage,
        draw(st.sampled_from(("", "tool"))),
        provider=draw(st.sampled_from((None, None, "p1"))),
        cost=draw(st.sampled_from((None, Cost(5), Cost(5), Cost(-2), Cost(3, "EUR")))),
        run_id=draw(st.one_of(st.none(), runs)),
    )


@st.composite
def checkpoints(draw: st.DrawFn) -> NewCheckpoint:
    value = draw(st.sampled_from(VALUES))
    manifest = Checkpoint(turn_state=draw(objects), tool_state=value.digest)
    data = encode_struct(manifest, "checkpoint")
    return NewCheckpoint(sha256(data), manifest, data)


@st.composite
def new_sessions(draw: st.DrawFn, id: str) -> Session:
    return Session(
        id=id,
        tenant=draw(tenants),
        user=draw(st.sampled_from((None, "u1", "u2"))),
        app=draw(st.sampled_from(("", "app"))),
        title=draw(st.sampled_from((None, "title"))),
        metadata=draw(st.one_of(st.none(), objects)),
        parent=draw(st.sampled_from((None, "s1"))),
        cause=draw(st.sampled_from((None, Cause("tool_call", "c1")))),
        created_us=draw(times),
        updated_us=draw(times),
    )


frames = st.sampled_from((None, None, {"frames": [{"id": "f1"}], "current": "f1"}))
run_statuses = st.sampled_from(RUN_STATUSES)
