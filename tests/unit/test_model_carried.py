"""CommitTurn in the model: what travels with the nodes."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest

from ledgerstone.codec import decode_json
from ledgerstone.commands.attachments import GetAttachment, RecordIntent
from ledgerstone.commands.nodes import (
    AnnotateNodes,
    GetNotes,
    GetValues,
    ListDrafts,
    NewNote,
)
from ledgerstone.commands.runs import GetRun
from ledgerstone.commands.sessions import (
    GetDocument,
    GetSession,
)
from ledgerstone.commands.turns import (
    ListTurns,
    NewCheckpoint,
)
from ledgerstone.errors import (
    IllegalTransition,
    SessionBindingMismatch,
)
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import Checkpoint
from ledgerstone.records.usage import Usage, UsageEntry
from tests.unit.test_model_builders import Bench, S, T, said, value

NEW = Session(id=S, tenant=T, title="made by a commit")


def effects(bench: Bench, revision: int) -> dict[str, Any]:
    data = bench.model.state.turns[(1, revision)].effects
    found: dict[str, Any] = {} if data is None else decode_json(data)
    return found


def test_state_is_patched_and_none_removes() -> None:
    bench = Bench(S)
    bench.commit("t1", kind="state", state={"a": 1, "b": {"c": 2}})
    bench.commit("t2", kind="state", state={"a": None, "d": 0, "zzz": None})
    data = bench.read(GetDocument(tenant=T, session=S, name="state"))
    assert data == b'{"b":{"c":2},"d":0}'
    assert effects(bench, 2) == {"state": {"a": None, "d": 0, "zzz": None}}


def test_a_run_is_settled_inside_the_commit() -> None:
    bench = Bench(S, "s2")
    answer = bench.commit("t1", run=Run(id="r1", session=S, incarnation=9))
    run = bench.read(GetRun(tenant=T, id="r1"))
    assert (run.created_us, run.started_us, run.incarnation) == (answer.created_us,) * 2 + (1,)
    assert effects(bench, 1) == {}
    session = bench.read(GetSession(tenant=T, id=S))
    assert (session.active_run, session.open_run, session.latest_run) == ("r1", "r1", "r1")
    with pytest.raises(SessionBindingMismatch) as mixed:
        bench.commit("t1", session="s2", run=Run(id="r1", session="s2"))
    assert (mixed.value.bound, mixed.value.other) == (S, "s2")
    bench.commit("t2", run=Run(id="r1", session=S, status="done"))
    assert bench.read(GetSession(tenant=T, id=S)).active_run is None
    before = bench.snapshot()
    with pytest.raises(IllegalTransition):
        bench.commit("t3", said("a"), run=Run(id="r1", session=S, status="running"))
    assert bench.snapshot() == before


def test_usage_values_notes_documents_and_checkpoint() -> None:
    bench = Bench(S)
    use = (UsageEntry("m", Usage(1, 2)), UsageEntry("m", Usage(3, 4)))
    tool = value(b"tools")
    manifest = Checkpoint(tool_state=tool.digest)
    data = msgspec.json.encode(manifest)
    given = NewCheckpoint(sha256(data).hexdigest(), manifest, data)
    note = NewNote("a", "k", b"1")
    answer = bench.commit(
        "t1",
        said("a"),
        usage=use,
        values=(tool,),
        notes=(note, NewNote("a", "k", b"2")),
        config=b"{}",
        checkpoint=given,
    )
    assert (answer.checkpoint_ref, answer.checkpoint) == (given.ref, manifest)
    assert bench.head().ledger == [UsageEntry("m", Usage(4, 6, 0, 0, 0, 10))]
    assert bench.head().checkpoint == given.ref
    assert bench.read(GetDocument(tenant=T, session=S, name="checkpoint")) == data
    digests = (tool.digest, given.ref, "f" * 64)
    stored = bench.read(GetValues(tenant=T, session=S, digests=digests))
    assert stored == {tool.digest: b"tools", given.ref: data}
    notes = bench.read(GetNotes(tenant=T, session=S, nodes=("a", "b")))
    assert notes["a"]["k"].body == 2
    assert list(notes) == ["a"]
    assert effects(bench, 1) == {
        "documents": {"config": sha256(b"{}").hexdigest()},
        "checkpoint": given.ref,
    }
    [info] = bench.read(ListTurns(tenant=T, session=S))
    assert (info.usage, info.leaf, info.nodes) == (list(use), "a", 1)
    assert bench.verify().ok


def test_drafts_go_and_attachments_are_stamped_with_the_commit() -> None:
    bench = Bench(S)
    chunk = NewNote("a", "ledger.draft/00000001", b'"x"')
    bench.write(AnnotateNodes(tenant=T, session=S, notes=(chunk, NewNote("a", "keep", b"1"))))
    bench.write(RecordIntent(tenant=T, session=S, id="f1", uri="u"))
    bench.write(RecordIntent(tenant=T, session="s2", id="f2", uri="u"))
    answer = bench.commit("t1", said("a"), drop_drafts=("a",), attach=("f1", "f2", "f3"))
    assert bench.read(ListDrafts(tenant=T, session=S)) == []
    assert list(bench.read(GetNotes(tenant=T, session=S, nodes=("a",)))["a"]) == ["keep"]
    stamped = bench.read(GetAttachment(tenant=T, session=S, id="f1"))
    assert stamped.committed_us == answer.created_us
    assert bench.read(GetAttachment(tenant=T, session="s2", id="f2")).committed_us is None
    bench.commit("t2", attach=("f1",))
    assert bench.read(GetAttachment(tenant=T, session=S, id="f1")) == stamped
    assert effects(bench, 1) == {"attach": ["f1", "f2", "f3"]}
