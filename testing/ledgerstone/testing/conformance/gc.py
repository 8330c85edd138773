"""The collector: only what nothing refers to goes, and never before everything live was read."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from ledgerstone import ids, user
from ledgerstone.commands.blobs import CheckRoots, GetBlob, RecordIntent
from ledgerstone.commands.nodes import GetValues, VacuumSession
from ledgerstone.commands.turns import CommitTurn, NewCheckpoint
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.records.blobs import Blob, BlobCounts, Collected
from ledgerstone.records.parts import Image
from ledgerstone.records.turns import Checkpoint
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.uploads import begin, counts

HOUR = 3600
DAY = 86_400


def fill(bed: Bed, count: int) -> list[str]:
    """Blobs that nothing refers to."""
    return [bed.store.blobs.put(b"loose %d" % n).ref for n in range(count)]


def blob_of(bed: Bed, ref: str) -> Blob:
    found = bed.ask(GetBlob(tenant="default", ref=ref))
    assert found is not None
    return found


BROKEN = {
    "no manifest": (b"not a manifest", sha256(b"not a manifest").hexdigest()),
    "another manifest": (b"{}", "c" * 64),
    "nothing": (b"", sha256(b"").hexdigest()),
}


def broken_checkpoint(bed: Bed, session: str, how: str) -> None:
    """A commit whose manifest nobody can read, or trust."""
    data, ref = BROKEN[how]
    given = NewCheckpoint(ref, Checkpoint(), data)
    bed.write(
        CommitTurn(
            tenant="default",
            session=session,
            turn=ids.new_id(),
            kind="checkpoint",
            checkpoint=given,
        )
    )


class TestCollecting:
    @pytest.mark.promise(179)
    def test_an_empty_store_is_fine(self, backend: Bed) -> None:
        assert backend.store.admin.gc() == Collected()
        assert backend.store.admin.gc(dry_run=True) == Collected(dry_run=True)

    @pytest.mark.promise(179)
    def test_what_nothing_refers_to_goes(self, backend: Bed) -> None:
        store = backend.store
        refs = fill(backend, 3)
        backend.clock.advance(HOUR)
        assert store.admin.gc() == Collected(deleted=3, freed_bytes=21)
        assert [store.blobs.get(ref) for ref in refs] == [None] * 3
        assert counts(backend) == BlobCounts()
        assert store.admin.gc() == Collected()

    def test_what_is_young_or_was_put_again_stays(self, backend: Bed) -> None:
        store = backend.store
        fill(backend, 2)
        backend.clock.advance(HOUR - 1)
        store.blobs.put(b"loose 0")
        assert store.admin.gc().deleted == 0
        backend.clock.advance(1)
        assert store.admin.gc() == Collected(deleted=1, retained=1, freed_bytes=7)
        assert store.blobs.get(store.blobs.put(b"loose 0")) == b"loose 0"

    @pytest.mark.promise(178, 179)
    def test_what_is_collected_can_be_put_again(self, backend: Bed) -> None:
        (ref,) = fill(backend, 1)
        key = blob_of(backend, ref).key
        backend.store.admin.gc(older_than_s=0)
        assert fill(backend, 1) == [ref]
        assert backend.store.blobs.get(ref) == b"loose 0"
        assert blob_of(backend, ref).key != key

    @pytest.mark.promise(173, 179)
    def test_what_a_turn_uses_stays(self, backend: Bed) -> None:
        store = backend.store
        named = store.blobs.put(b"named by a part")
        attached = store.attachments.put("s", b"attached")
        store.attachments.put("s", b"intended")
        with store.turns.begin("s", create=True) as turn:
            turn.user(["see", Image(blob=named.ref)])
            turn.attach(attached)
        backend.clock.advance(DAY)
        found = store.admin.gc()
        assert (found.roots, found.attachments, found.deleted, found.retained) == (3, 1, 1, 2)
        assert store.blobs.get(named) == b"named by a part"
        assert store.blobs.get(attached) == b"attached"
        assert {one.id for one in store.attachments.list("s")} == {named.ref, attached.id}

    def test_an_artifact_keeps_its_bytes(self, backend: Bed) -> None:
        store = backend.store
        store.artifacts.put("plan", b"first", session="s")
        store.artifacts.put("plan", b"second", user="u")
        backend.clock.advance(DAY)
        found = store.admin.gc(older_than_s=0)
        assert (found.roots, found.deleted, found.retained) == (2, 0, 2)
        store.artifacts.delete("plan", session="s")
        assert store.admin.gc(older_than_s=0).deleted == 1

    @pytest.mark.promise(174)
    def test_an_intent_protects_bytes_that_are_not_there_yet(self, backend: Bed) -> None:
        store = backend.store
        ref = store.blobs.put(b"bytes").ref
        backend.write(RecordIntent(tenant="default", session="s", id=ref, uri="x:"))
        assert store.admin.gc(older_than_s=0).deleted == 0
        gone = store.admin.gc(older_than_s=0, attachments_older_than_s=0)
        assert (gone.attachments, gone.deleted) == (1, 1)

    def test_bytes_stay_while_any_session_needs_them(self, backend: Bed) -> None:
        store = backend.store
        for session in ("a", "b"):
            attached = store.attachments.put(session, b"shared")
            with store.turns.begin(session, create=True) as turn:
                turn.attach(attached)
        store.sessions.delete("a")
        store.sessions.delete("b")
        assert store.admin.gc(older_than_s=0).deleted == 0
        store.sessions.purge("a")
        assert store.admin.gc(older_than_s=0).deleted == 0
        assert store.blobs.get(attached) == b"shared"
        store.sessions.purge("b")
        assert store.admin.gc(older_than_s=0).deleted == 1

    def test_a_copy_needs_the_bytes_as_well(self, backend: Bed) -> None:
        store = backend.store
        ref = store.blobs.put(b"shared").ref
        with store.turns.begin("s", create=True) as turn:
            turn.user([Image(blob=ref)])
        fork, copy = store.sessions.fork("s"), store.sessions.copy("s", "copy")
        store.sessions.purge("s")
        store.sessions.purge(copy.id)
        assert store.admin.gc(older_than_s=0).deleted == 0
        store.sessions.purge(fork.id)
        assert store.admin.gc(older_than_s=0).deleted == 1

    def test_another_tenant_is_not_touched(self, backend: Bed) -> None:
        other = backend.store.for_tenant("other")
        kept = other.blobs.put(b"loose 0")
        fill(backend, 1)
        begin(backend, "k")
        assert backend.store.admin.gc(older_than_s=0).deleted == 1
        assert other.blobs.get(kept) == b"loose 0"
        assert counts(backend, "other") == BlobCounts(blobs=1, size_bytes=7)

    @pytest.mark.parametrize("name", ["older_than_s", "attachments_older_than_s"])
    @pytest.mark.parametrize("value", [-1, True, "1", float("nan"), None])
    def test_an_age_is_a_duration(self, backend: Bed, name: str, value: Any) -> None:
        fill(backend, 1)
        with pytest.raises(InvalidValue) as caught:
            backend.store.admin.gc(**{name: value})
        assert caught.value.field == name
        wrong: dict[str, Any] = {"dry_run": 1, "on_progress": 3}
        for other, bad in wrong.items():
            with pytest.raises(InvalidValue):
                backend.store.admin.gc(**{other: bad})
        assert counts(backend).blobs == 1


class TestCollectedValues:
    @pytest.mark.promise(179)
    def test_values_that_nothing_names_go(self, backend: Bed) -> None:
        store = backend.store
        with store.turns.begin("s", create=True) as turn:
            names = {name: turn.value(name.encode()) for name in ("loose", "node", "note", "gone")}
            turn.node("thing", 1, values=[names["node"]])
            turn.note("n1", "k", 1, values=[names["note"]])
            hidden = turn.node("thing", 2, values=[names["gone"]])
            first = turn.checkpoint(tool_state={"a": 1})
        store.nodes.tombstone("s", hidden.id)
        with store.turns.begin("s") as turn:
            second = turn.checkpoint(tool_state={"b": 2})
        before = backend.snapshot("s")
        found = store.admin.gc()
        # Two checkpoints, of which the live one counts: its manifest and one value.
        assert (found.roots, found.values) == (2, 3)
        assert backend.snapshot("s") == before
        digests = (*names.values(), first.tool_state or "", second.tool_state or "")
        stored = backend.ask(GetValues(tenant="default", session="s", digests=digests))
        kept = {names["node"], names["note"], names["gone"], second.tool_state}
        assert set(stored) == kept
        assert store.admin.verify().ok
        assert store.admin.gc().values == 0

    def test_values_only_leaves_nodes_and_notes(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("hi", id="m1"), create=True)
        store.messages.delete("m1", session="s")
        command = VacuumSession(
            tenant="default", session="s", values_only=True, notes_before_us=2**60
        )
        with backend.unchanged("s"):
            assert backend.write(command).nodes == 0
        versions = store.messages.versions("m1", session="s")
        assert [one.text for one in versions] == ["hi"]

    @pytest.mark.promise(179)
    def test_roots_are_counted(self, backend: Bed) -> None:
        store = backend.store
        assert backend.ask(CheckRoots(tenant="default", session="nowhere")) == 0
        with store.turns.begin("s", create=True) as turn:
            turn.user("hi")
        assert backend.ask(CheckRoots(tenant="default", session="s")) == 0
        with store.turns.begin("s") as turn:
            turn.checkpoint(tool_state={"a": 1}, plugins={"b": 1}, execution={"c": 1})
        assert backend.ask(CheckRoots(tenant="default", session="s")) == 4

    @pytest.mark.promise(179)
    @pytest.mark.parametrize("how", BROKEN)
    @pytest.mark.parametrize("deleted", [False, True], ids=["live", "deleted"])
    def test_an_unreadable_manifest_stops_everything(
        self, backend: Bed, deleted: bool, how: str
    ) -> None:
        store = backend.store
        for session in ("a", "m", "z"):
            with store.turns.begin(session, create=True) as turn:
                turn.value(b"loose value")
        broken_checkpoint(backend, "m", how)
        if deleted:
            store.sessions.delete("m")
        refs = fill(backend, 2)
        store.attachments.intent("a", refs[0], "x:")
        begin(backend, "k")
        backend.clock.advance(DAY)
        before = counts(backend)
        for dry_run in (True, False):
            with pytest.raises(Corrupt):
                store.admin.gc(dry_run=dry_run)
        assert counts(backend) == before
        assert len(store.attachments.list("a")) == 1
        digest = backend.store.blobs.put(b"loose value").ref
        query = GetValues(tenant="default", session="a", digests=(digest,))
        assert backend.ask(query) == {digest: b"loose value"}


class TestDryRuns:
    @pytest.mark.promise(179)
    def test_the_same_is_counted_and_nothing_written(self, backend: Bed) -> None:
        store = backend.store
        fill(backend, 3)
        begin(backend, "k")
        for session, data in (("s", b"intended"), ("s", b"used"), ("t", b"used")):
            attached = store.attachments.put(session, data)
        with store.turns.begin("t", create=True) as turn:
            turn.attach(attached)
            turn.value(b"loose value")
        store.blobs.put(b"loose and touched")
        store.memories.put(("a",), "k", 1, ttl_s=1)
        backend.clock.advance(DAY)
        store.blobs.put(b"young")
        before = (counts(backend), store.attachments.list("s"), backend.snapshot("t"))
        told = store.admin.gc(dry_run=True)
        assert (counts(backend), store.attachments.list("s"), backend.snapshot("t")) == before
        done = store.admin.gc()
        assert told.dry_run is True
        assert (done.deleted, done.attachments, done.uploads, done.values) == (5, 2, 1, 1)
        assert (done.memories, done.retained) == (1, 2)
        assert Collected(**{**_fields(told), "dry_run": False}) == done

    def test_progress_is_told(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        fill(backend, 2)
        for dry_run in (True, False):
            told: list[tuple[str, int, int]] = []
            backend.store.admin.gc(
                older_than_s=0,
                dry_run=dry_run,
                on_progress=lambda *step: told.append(step),  # noqa: B023
            )
            phases = [phase for phase, _, _ in told]
            wanted = ["mark", "attachments", "values", "uploads", "blobs", "memories"]
            assert phases == wanted
            assert told[0] == ("mark", 1, 1)
            assert told[4] == ("blobs", 2, 2)

    def test_progress_is_told_to_a_function(self, backend: Bed) -> None:
        wrong: Any = 3
        with pytest.raises(InvalidValue) as refused:
            backend.store.admin.gc(on_progress=wrong)
        assert refused.value.field == "on_progress"


def _fields(found: Collected) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}
