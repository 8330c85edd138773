"""The turn hash, the commitment and the link: what counts and what does not, field by field.

Every field of every struct stands in a table here. A new field fails the test until somebody
decides whether it is content (another hash) or envelope (the same hash), contract 112 and D26.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ledgerstone.commands import Guard
from ledgerstone.commands.artifacts import NewArtifact
from ledgerstone.commands.executions import Finish
from ledgerstone.commands.memories import NewMemory
from ledgerstone.commands.nodes import NewNote, NewValue
from ledgerstone.commands.tickets import NewTicket
from ledgerstone.commands.turns import (
    Amendment,
    BranchMove,
    CommitTurn,
    NewCheckpoint,
    NewNode,
    Rewind,
)
from ledgerstone.commands.work import NewBatch
from ledgerstone.records.artifacts import Quota
from ledgerstone.records.runs import (
    Outcome,
    Run,
    RunInput,
    RunOutput,
    RunRequest,
    Termination,
    Waiting,
    WaitingTicket,
)
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import Checkpoint
from ledgerstone.records.usage import Cost, Usage, UsageEntry
from ledgerstone.rules.chain import (
    amendment_commitment,
    commit_fields,
    commitment,
    frame,
    link,
    turn_hash,
)
from ledgerstone.rules.rows import GENESIS

D1, D2 = "a" * 64, "b" * 64

NODE = NewNode("n1", "message", 2, b'{"role":"user"}', b"salt")
REWIND = Rewind(to="n0")
AMENDMENT = Amendment("n0", b'{"usage":1}', b"salt")
MOVE = BranchMove("cheap", to="n0")
NOTE = NewNote("n0", "key", b"1")
VALUE = NewValue(D1, b"data")
ENTRY = UsageEntry("m", Usage(1, 2))
RUN = Run(id="r", session="s")
CHECKPOINT = NewCheckpoint(D1, Checkpoint(), b"{}")
TURN = CommitTurn(
    tenant="default",
    session="s",
    turn="t",
    kind="turn",
    rewind=REWIND,
    nodes=(NODE,),
    amendments=(AMENDMENT,),
    tombstones=("n0",),
    branches=(MOVE,),
    state={"a": 1},
    run=RUN,
    usage=(ENTRY,),
    values=(VALUE,),
    notes=(NOTE,),
    kept_notes=(NOTE,),
    config=b"{}",
    frames=b"{}",
    checkpoint=CHECKPOINT,
    attach=("att",),
)

# struct: (base, how it sits in a turn, fields that count, fields that do not)
CONTENT: dict[str, dict[str, Any]] = {
    "CommitTurn": {
        "kind": "append",
        "branch": "cheap",
        "rewind": None,
        "nodes": (),
        "amendments": (),
        "tombstones": ("n9",),
        "branches": (),
        "state": {"a": 2},
        "run": None,
        "usage": (),
        "values": (),
        "notes": (),
        "kept_notes": (),
        "config": b"[]",
        "frames": b"[]",
        "checkpoint": None,
        "attach": ("other",),
        "tickets": (NewTicket(id="k", call_id="c", tool="pay", arguments=b"{}"),),
        "executions": (Finish(id="e", result=b"1"),),
        "enqueue": (NewBatch(session="s", id="b", payloads=b"[1]"),),
        "artifacts": (NewArtifact(id="a", name="n", ref=D1),),
        "traces": (b"{}",),
        "reports": (b"{}",),
        "memories": (NewMemory(namespace="a\x1f", key="k", value=b"1"),),
    },
    "NewNode": {
        "kind": "event",
        "role": 3,
        "body": b'{"role":"assistant"}',
        "label": "x",
        "run_id": "r",
        "meta": b"{}",
        "format": "pickle",
        "refs": (D1,),
        "on_path": False,
    },
    "Rewind": {"pop": 1, "supersede": True, "to": None},
    "Amendment": {"node": "n9", "patch": b"{}"},
    "BranchMove": {"name": "x", "to": "n9", "to_branch": "main", "create": True, "delete": True},
    "NewNote": {"node": "n9", "key": "x", "body": b"2", "format": "f", "refs": (D1,)},
    "NewValue": {"digest": D2},
    "NewCheckpoint": {"ref": D2},
    "UsageEntry": {
        "model": "x",
        "usage": Usage(1, 3),
        "source": "x",
        "provider": "x",
        "cost": Cost(5),
        "run_id": "r",
    },
    "Run": {
        "id": "x",
        "session": "x",
        "agent": "x",
        "parent_run": "x",
        "status": "done",
        "request": RunRequest(sender="x"),
        "input": RunInput(data=1),
        "output": RunOutput(data=1),
        "termination": Termination(type="stopped"),
        "final_output": "x",
        "error": 1,
        "dispatch_id": "x",
        "external_id": "x",
        "transport_id": "x",
        "waiting": Waiting(reason="user_input"),
        "outcome": Outcome(termination=Termination(type="stopped")),
        "steps": 1,
        "input_tokens": 1,
        "output_tokens": 1,
        "state": 1,
        "details": {"x": 1},
        "incarnation": 2,
    },
}

# Envelope: ids and times, ownership, expectations, what a retry may carry anew. The bytes of a
# value and of a checkpoint stand behind their digest.
ENVELOPE: dict[str, dict[str, Any]] = {
    "CommitTurn": {
        "tenant": "other",
        "session": "other",
        "turn": "other",
        "hash": b"x",
        "guard": Guard(3, "token", 7),
        "create": Session(id="s", title="x"),
        "missing_parent": "root",
        "parent_rule": "exists",
        "drop_drafts": ("d",),
        "complete": ("claim",),
        "release": True,
        "blobs": (D1,),
        "quota": Quota(),
        "over_budget": True,
    },
    "NewNode": {"id": "other", "salt": b"other", "created_us": 5, "parent": "n0"},
    "Rewind": {"expected": "n0"},
    "Amendment": {"salt": b"other"},
    "BranchMove": {"expected": "n0"},
    "NewNote": {},
    "NewValue": {"data": b"other"},
    "NewCheckpoint": {"manifest": Checkpoint(schema=2), "data": b"[]"},
    "UsageEntry": {"estimated": True, "id": "other", "message": "other"},
    "Run": {"created_us": 1, "started_us": 1, "finished_us": 1, "updated_us": 1},
}

BASES: dict[str, msgspec.Struct] = {
    "CommitTurn": TURN,
    "NewNode": NODE,
    "Rewind": REWIND,
    "Amendment": AMENDMENT,
    "BranchMove": MOVE,
    "NewNote": NOTE,
    "NewValue": VALUE,
    "NewCheckpoint": CHECKPOINT,
    "UsageEntry": ENTRY,
    "Run": RUN,
}
PLACE = {
    "NewNode": "nodes",
    "Rewind": "rewind",
    "Amendment": "amendments",
    "BranchMove": "branches",
    "NewNote": "notes",
    "NewValue": "values",
    "NewCheckpoint": "checkpoint",
    "UsageEntry": "usage",
    "Run": "run",
}


def changed(struct: str, field: str, value: Any) -> CommitTurn:
    """The turn with one field of one of its parts set to something else."""
    part = replace(BASES[struct], **{field: value})
    if struct == "CommitTurn":
        return part  # type: ignore[return-value]
    place = PLACE[struct]
    whole = (part,) if isinstance(getattr(TURN, place), tuple) else part
    return replace(TURN, **{place: whole})


def cases(table: dict[str, dict[str, Any]]) -> list[Any]:
    return [
        pytest.param(struct, field, value, id=f"{struct}.{field}")
        for struct, fields in table.items()
        for field, value in fields.items()
    ]


@pytest.mark.parametrize("struct", BASES)
def test_every_field_was_decided(struct: str) -> None:
    decided = [*CONTENT[struct], *ENVELOPE[struct]]
    assert sorted(decided) == sorted(BASES[struct].__struct_fields__)


@pytest.mark.promise(112)
@pytest.mark.parametrize(("struct", "field", "value"), cases(CONTENT))
def test_content_changes_the_hash(struct: str, field: str, value: Any) -> None:
    assert turn_hash(changed(struct, field, value)) != turn_hash(TURN)


@pytest.mark.promise(112)
@pytest.mark.parametrize(("struct", "field", "value"), cases(ENVELOPE))
def test_the_envelope_does_not(struct: str, field: str, value: Any) -> None:
    assert turn_hash(changed(struct, field, value)) == turn_hash(TURN)


def test_all_these_hashes_differ_from_each_other() -> None:
    """Not only from the base: no two changes look alike."""
    all_cases = [(s, f, v) for s, fields in CONTENT.items() for f, v in fields.items()]
    hashes = [turn_hash(changed(*case)) for case in all_cases]
    # A node of role 2 with the label "x" is one thing wherever the label came from.
    assert len(set(hashes)) == len(hashes)


def test_arguments_called_id_or_timestamp_count() -> None:
    """Nothing is searched and removed inside bodies (D26)."""
    for body in (b'{"id":"1"}', b'{"id":"2"}', b'{"timestamp":1}', b'{"timestamp":2}'):
        node = replace(NODE, body=body)
        others = [b'{"id":"1"}', b'{"id":"2"}', b'{"timestamp":1}', b'{"timestamp":2}']
        hashes = {turn_hash(replace(TURN, nodes=(replace(node, body=one),))) for one in others}
        assert len(hashes) == 4


def test_order_and_borders_count() -> None:
    """Two nodes are not one, and their order matters."""
    a, b = replace(NODE, body=b"1"), replace(NODE, body=b"2")
    bodies = [(a, b), (b, a), (a,), (b,), (a, a, b)]
    hashes = {turn_hash(replace(TURN, nodes=nodes)) for nodes in bodies}
    assert len(hashes) == len(bodies)


def test_a_tombstone_is_not_an_attachment() -> None:
    """The same id in another list is other content."""
    bare = replace(TURN, tombstones=(), attach=())
    hashes = {
        turn_hash(bare),
        turn_hash(replace(bare, tombstones=("x",))),
        turn_hash(replace(bare, attach=("x",))),
        turn_hash(replace(bare, tombstones=("attach", "x"))),
    }
    assert len(hashes) == 4


def test_frames_keep_borders_and_types() -> None:
    framed = [
        frame("ab", "c"),
        frame("a", "bc"),
        frame("abc"),
        frame(b"abc"),
        frame("1"),
        frame(1),
        frame(None),
        frame(""),
        frame(),
        frame("a", None),
        frame(None, "a"),
    ]
    assert len(set(framed)) == len(framed)


# --- the commitment of a node, the link of a turn

COMMIT = {
    "salt": b"salt",
    "role": 2,
    "kind": "message",
    "label": "",
    "run_id": None,
    "meta": None,
    "format": None,
    "refs": "",
    "created_us": 7,
    "body": b"{}",
}
COMMIT_CHANGED = {
    "salt": b"other",
    "role": 3,
    "kind": "event",
    "label": "x",
    "run_id": "r",
    "meta": b"{}",
    "format": "f",
    "refs": D1,
    "created_us": 8,
    "body": b"[]",
}


@pytest.mark.parametrize("field", COMMIT)
def test_every_field_of_a_node_is_in_its_commitment(field: str) -> None:
    base: Any = COMMIT
    other: Any = {**COMMIT, field: COMMIT_CHANGED[field]}
    assert commit_fields(*other.values()) != commit_fields(*base.values())


def test_the_commitment_of_a_new_node_is_that_of_its_row() -> None:
    node = replace(NODE, refs=(D1, D2), label="x")
    row = commit_fields(
        b"salt", 2, "message", "x", None, None, None, D1 + D2, 7, b'{"role":"user"}'
    )
    assert commitment(node, 7) == row


def test_an_amendment_is_committed_with_its_salt() -> None:
    base = amendment_commitment(AMENDMENT)
    assert amendment_commitment(replace(AMENDMENT, salt=b"x")) != base
    assert amendment_commitment(replace(AMENDMENT, patch=b"{}")) != base


LINK: dict[str, Any] = {
    "revision": 1,
    "turn": "t",
    "kind": "turn",
    "hash": b"h",
    "created_us": 7,
    "leaf": 1,
    "tip": None,
    "usage": None,
    "effects": None,
    "nodes": [(1, 0, "n", b"c")],
}
LINK_CHANGED: dict[str, list[Any]] = {
    "revision": [2],
    "turn": ["x"],
    "kind": ["x"],
    "hash": [b"x"],
    "created_us": [8],
    "leaf": [0],
    "tip": [1],
    "usage": [b"[]"],
    "effects": [b"{}"],
    "nodes": [
        [],
        [(2, 0, "n", b"c")],
        [(1, 1, "n", b"c")],
        [(1, 0, "x", b"c")],
        [(1, 0, "n", b"x")],
        [(1, 0, "n", b"c"), (2, 1, "m", b"c")],
    ],
}


@pytest.mark.parametrize("field", LINK)
def test_every_field_of_a_turn_is_in_its_link(field: str) -> None:
    base = link(GENESIS, **LINK)
    for value in LINK_CHANGED[field]:
        assert link(GENESIS, **{**LINK, field: value}) != base


def test_a_link_holds_all_links_before_it() -> None:
    assert link(b"\1" * 32, **LINK) != link(GENESIS, **LINK)
    assert link(GENESIS, **LINK) == link(GENESIS, **{**LINK, "nodes": iter(LINK["nodes"])})


@pytest.mark.promise(112)
def test_the_names_of_tickets_are_not_content() -> None:
    def hash_of(id: str, tool: str) -> bytes:
        ticket = WaitingTicket(id=id, call_id="c1", tool=tool, updated_us=len(id))
        waiting = Waiting(reason="tool_permission", ticket_ids=[id], tickets=[ticket])
        return turn_hash(replace(TURN, run=replace(RUN, status="waiting", waiting=waiting)))

    assert hash_of("k1", "pay") == hash_of("k22", "pay") != hash_of("k1", "call")
