"""Artifacts: named, versioned bytes of a session, a user or the tenant."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledgerstone import Artifact, user
from ledgerstone.errors import AlreadyExists, BlobNotFound, SessionDeleted
from ledgerstone.records.artifacts import ArtifactContent
from ledgerstone.testing.bed import Bed

__all__ = [
    "TestArtifacts",
    "TestArtifactScopes",
    "TestArtifactTurns",
]

PNG = b"\x89PNG\r\n\x1a\n\x00\xff"
OWNERS: dict[str, dict[str, Any]] = {
    "session": {"session": "s"},
    "user": {"user": "ada"},
    "tenant": {},
}


class TestArtifacts:
    """Put, get, read, delete."""

    @pytest.mark.promise(168, 169)
    @pytest.mark.parametrize("owner", OWNERS)
    def test_what_is_put_is_read(self, backend: Bed, owner: str) -> None:
        artifacts, whose = backend.store.artifacts, OWNERS[owner]
        made = artifacts.put(
            "chart.png", PNG, media_type="image/png", metadata={"dpi": 96}, **whose
        )
        assert (made.name, made.version, made.media_type) == ("chart.png", 1, "image/png")
        assert (made.session, made.user) == (whose.get("session"), whose.get("user"))
        assert (made.size_bytes, made.metadata) == (len(PNG), {"dpi": 96})
        assert made.created_us == backend.clock.now_us()
        assert made.uri == f"artifact:{made.id}"
        assert made.id[14] == "7", "ids are UUIDv7"
        assert artifacts.get("chart.png", **whose) == artifacts.get(id=made.id) == made
        found = artifacts.read("chart.png", **whose)
        assert found is not None
        assert (found.data, found.id, found.metadata) == (PNG, made.id, {"dpi": 96})
        with artifacts.open("chart.png", **whose) as reader:
            assert reader.artifact == made
            assert reader.media_type == "image/png"
            assert reader.read() == PNG

    @pytest.mark.promise(168)
    def test_the_bytes_are_base64_in_json(self, backend: Bed) -> None:
        backend.store.artifacts.put("chart.png", PNG, session="s")
        found = backend.store.artifacts.read("chart.png", session="s")
        data = msgspec.json.encode(found)
        assert msgspec.json.decode(data)["data"] == base64.standard_b64encode(PNG).decode()
        assert msgspec.json.decode(data, type=ArtifactContent) == found

    @pytest.mark.promise(169)
    def test_what_is_not_there_is_none(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        assert artifacts.get("x", session="s") is None
        assert artifacts.read(id="x") is None
        assert artifacts.get(uri="x:1") is None
        assert artifacts.list(session="s") == artifacts.versions("x") == []
        with pytest.raises(BlobNotFound), artifacts.open("x", session="s"):
            pass

    def test_bytes_come_from_files_streams_and_blobs(self, backend: Bed, tmp_path: Path) -> None:
        store, data = backend.store, bytes(range(256)) * 9000
        (tmp_path / "in.bin").write_bytes(data)
        blob = store.blobs.put(data, media_type="application/x-thing")
        sources: list[dict[str, Any]] = [
            {"data": tmp_path / "in.bin"},
            {"data": io.BytesIO(data)},
            {"data": (data[at : at + 7777] for at in range(0, len(data), 7777))},
            {"blob": blob},
            {"blob": blob.ref},
        ]
        made = [store.artifacts.put("same", session="s", **source) for source in sources]
        assert {artifact.ref for artifact in made} == {blob.ref}
        assert [artifact.version for artifact in made] == [1, 2, 3, 4, 5]
        assert made[3].media_type == "application/x-thing"
        found = store.artifacts.read("same", session="s")
        assert found is not None
        assert found.data == data

    @pytest.mark.promise(169)
    def test_the_same_id_replaces_and_becomes_the_newest(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        artifacts.put("a", b"1", session="s", id="x")
        artifacts.put("b", b"2", session="s")
        backend.clock.advance(5)
        again = artifacts.put("a", b"three", session="s", id="x")
        assert (again.id, again.version, again.size_bytes) == ("x", 1, 5)
        assert again.created_us == backend.clock.now_us()
        assert [one.name for one in artifacts.list(session="s")] == ["b", "a"]
        assert artifacts.load("s") == artifacts.list(session="s")

    @pytest.mark.promise(169)
    def test_an_identical_put_answers_the_same(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        keywords: Any = {"session": "s", "id": "x", "metadata": {"k": [1]}}
        first = artifacts.put("a", b"1", **keywords)
        artifacts.put("b", b"2", session="s")
        backend.clock.advance(5)
        assert artifacts.put("a", b"1", **keywords) == first
        assert [one.name for one in artifacts.list(session="s")] == ["a", "b"]

    @pytest.mark.promise(169)
    def test_deleting_is_idempotent_and_counts(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        made = [artifacts.put(name, b"x", session="s") for name in "aaab"]
        assert artifacts.delete("a", session="s", version=2) == 1
        assert artifacts.delete("a", session="s", version=2) == 0
        assert artifacts.delete(id=made[0]) == 1
        assert artifacts.delete(id=made[0]) == 0
        assert artifacts.delete(id=made[2].id, session="other") == 0
        assert [one.id for one in artifacts.load("s") or []] == [made[2].id, made[3].id]
        assert artifacts.delete("a", session="s") == 1
        assert artifacts.clear("s") == 1
        assert artifacts.clear("s") == 0
        assert artifacts.load("s") == []

    @pytest.mark.promise(171)
    def test_tool_artifacts_are_found_by_uri_and_keep_their_sizes(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        made = artifacts.put(
            "grep", b"cut", session="s", uri="tool://s/1", tool="grep", original_bytes=9000,
            shown_bytes=2,
        )  # fmt: skip
        assert artifacts.get(uri="tool://s/1") == made
        assert (made.tool, made.original_bytes, made.shown_bytes) == ("grep", 9000, 2)
        plain = artifacts.put("plain", b"12345", session="s", original_bytes=7)
        assert (plain.original_bytes, plain.shown_bytes) == (7, 7)
        plain = artifacts.put("plain", b"12345", session="s")
        assert (plain.original_bytes, plain.shown_bytes) == (5, 5)

    @pytest.mark.promise(171)
    def test_the_same_uri_replaces_and_becomes_the_newest(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        first = artifacts.put("out", b"1", session="s", uri="u:1")
        artifacts.put("out", b"2", session="s", uri="u:2")
        again = artifacts.put("out", b"3", session="s", uri="u:1")
        assert (again.id, again.version, again.uri) == (first.id, 1, "u:1")
        assert [one.uri for one in artifacts.load("s") or []] == ["u:2", "u:1"]
        renamed = artifacts.put("other", b"4", session="s", uri="u:1")
        assert (renamed.id, renamed.name, renamed.version) == (first.id, "other", 1)
        assert [one.uri for one in artifacts.versions("out", session="s")] == ["u:2"]

    def test_an_id_keeps_its_address_unless_it_gets_another(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        artifacts.put("a", b"1", session="s", id="x", uri="u:1")
        assert artifacts.put("a", b"2", session="s", id="x").uri == "u:1"
        assert artifacts.put("a", b"3", session="s", id="x", uri="u:2").uri == "u:2"
        assert artifacts.get(uri="u:1") is None
        artifacts.put("b", b"4", session="s", uri="u:3")
        with pytest.raises(AlreadyExists):
            artifacts.put("a", b"5", session="s", id="x", uri="u:3")

    def test_what_was_handed_out_may_be_changed(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        given = {"list": [1]}
        for found in (
            artifacts.put("a", b"1", session="s", id="x", metadata=given),
            artifacts.get("a", session="s"),
            (artifacts.load("s") or [])[0],
            artifacts.list(session="s")[0],
        ):
            assert found is not None
            found.metadata["list"].append(2)
        given["list"].append(3)
        kept = artifacts.get(id="x")
        assert kept is not None
        assert kept.metadata == {"list": [1]}

    @pytest.mark.promise(170)
    def test_artifacts_survive_a_reopening(self, backend: Bed) -> None:
        for whose in OWNERS.values():
            for name in ("a", "b", "a"):
                backend.store.artifacts.put(name, name.encode(), metadata={"é": 1}, **whose)
        before = [backend.store.artifacts.list(newest=False, **own) for own in OWNERS.values()]
        store = backend.reopen()
        after = [store.artifacts.list(newest=False, **own) for own in OWNERS.values()]
        assert after == before
        found = store.artifacts.read("b", user="ada")
        assert found is not None
        assert found.data == b"b"
        again = store.artifacts.put("a", b"new", id=before[0][0].id, session="s")
        assert (again.version, store.artifacts.get(uri=again.uri)) == (1, again)
        assert store.admin.verify().defects == []

    @pytest.mark.promise(24, 30)
    def test_artifacts_go_with_their_session(self, backend: Bed) -> None:
        store = backend.store
        for session in ("s", "other"):
            store.messages.append(session, user("hi"), create=True)
            store.artifacts.put("a", b"1", session=session, uri=f"u:{session}")
        store.sessions.purge("s")
        assert store.artifacts.load("s") is None
        assert store.artifacts.get(uri="u:s") is None
        assert store.artifacts.get(uri="u:other") is not None
        assert store.artifacts.put("a", b"2", session="s", uri="u:s").version == 1
        store.sessions.purge("s")

    def test_a_deleted_session_takes_no_more_but_shows_what_it_has(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("hi"), create=True)
        made = store.artifacts.put("a", b"1", session="s")
        store.sessions.delete("s")
        writes: list[Callable[[], object]] = [
            lambda: store.artifacts.put("a", b"2", session="s"),
            lambda: store.artifacts.save("s", []),
            lambda: store.artifacts.delete("a", session="s"),
            lambda: store.artifacts.delete(id=made),
            lambda: store.artifacts.clear("s"),
        ]
        for write in writes:
            with pytest.raises(SessionDeleted):
                write()
        assert store.artifacts.load("s") == [made]
        store.artifacts.put("a", b"2", user="ada")
        store.sessions.restore("s")
        assert store.artifacts.put("a", b"2", session="s").version == 2


class TestArtifactScopes:
    """Sessions, users and the tenant have each their own; other tenants see nothing."""

    def test_the_same_name_in_each_scope_is_another_artifact(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        scopes: list[dict[str, Any]] = [*OWNERS.values(), {"session": "ada"}, {"user": "s"}]
        for n, whose in enumerate(scopes):
            artifacts.put("a", f"{n}".encode(), **whose)
        read = [artifacts.read("a", **whose) for whose in scopes]
        assert [one.data for one in read if one is not None] == [b"0", b"1", b"2", b"3", b"4"]
        assert [len(artifacts.list(**whose)) for whose in scopes] == [1] * 5
        assert artifacts.clear(user="ada") == 1
        assert [len(artifacts.list(**whose)) for whose in scopes] == [1, 0, 1, 1, 1]

    @pytest.mark.parametrize("whose", [{"session": "t"}, {"user": "s"}, {}])
    def test_an_id_or_uri_of_somebody_else_is_taken(
        self, backend: Bed, whose: dict[str, Any]
    ) -> None:
        artifacts = backend.store.artifacts
        made = artifacts.put("a", b"1", session="s", id="x", uri="u:1")
        names: list[dict[str, Any]] = [{"id": "x"}, {"uri": "u:1"}, {"uri": "u:1", "id": "x"}]
        for taken in names:
            with pytest.raises(AlreadyExists):
                artifacts.put("a", b"2", **taken, **whose)
        assert artifacts.get(id="x") == artifacts.get(uri="u:1", session="s") == made
        assert artifacts.get(id="x", **whose) == (made if not whose else None)
        assert artifacts.delete(id="x", **whose) == (1 if not whose else 0)

    def test_another_tenant_sees_nothing_and_may_use_the_same_ids(self, backend: Bed) -> None:
        ours, theirs = backend.store, backend.open("theirs")
        made = ours.artifacts.put("a", b"secret", session="s", id="x", uri="u:1")
        assert theirs.artifacts.load("s") is None
        assert theirs.artifacts.get(id="x") is theirs.artifacts.get(uri="u:1") is None
        assert theirs.artifacts.delete(id="x") == theirs.artifacts.clear("s") == 0
        with pytest.raises(BlobNotFound):
            theirs.artifacts.put("a", blob=made.ref, session="s")
        copy = theirs.artifacts.put("a", b"mine", session="s", id="x", uri="u:1")
        assert copy.version == 1
        assert ours.artifacts.load("s") == [made]


class TestArtifactTurns:
    """Artifacts that come with a commit."""

    @pytest.mark.promise(169)
    def test_they_come_with_their_turn_or_not_at_all(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("one", id="m1"), create=True)
        blob = store.blobs.put(b"body", media_type="text/plain")

        def commit(message: str, turn_id: str) -> tuple[str, bool]:
            turn = store.turns.begin("s", id=turn_id)
            turn.user("more", id=message)
            made = turn.artifact("a", blob, tool="sh", metadata={"k": 1})
            return made, turn.commit().replayed

        with backend.unchanged("s"), pytest.raises(AlreadyExists):
            commit("m1", "t1")
        assert store.artifacts.load("s") is None
        made, replayed = commit("m2", "t2")
        assert not replayed
        assert commit("m2", "t2")[1] is True, "built again, it has other ids and the same content"
        (found,) = store.artifacts.load("s") or []
        assert (found.id, found.name, found.version, found.ref) == (made, "a", 1, blob.ref)
        assert (found.tool, found.metadata, found.media_type) == ("sh", {"k": 1}, "text/plain")
        assert found.created_us == store.messages.last("s", 1)[0].created_us
        assert store.admin.verify().defects == []

    def test_a_turn_with_bytes_nobody_has_is_refused(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("one"), create=True)
        turn = store.turns.begin("s")
        turn.user("two")
        turn.artifact("a", "0" * 64)
        with backend.unchanged("s"), pytest.raises(BlobNotFound):
            turn.commit()
        assert store.artifacts.load("s") is None

    def test_several_of_a_turn_are_versions_in_order(self, backend: Bed) -> None:
        store = backend.store
        blobs = [store.blobs.put(data) for data in (b"1", b"2")]
        with store.turns.begin("s", create=True) as turn:
            ids = [turn.artifact("a", blob) for blob in blobs]
        found = store.artifacts.versions("a", session="s")
        assert [(one.id, one.ref) for one in found] == [
            (id, blob.ref) for id, blob in zip(ids, blobs, strict=True)
        ]

    def test_an_artifact_keeps_its_bytes(self, backend: Bed) -> None:
        store = backend.store
        kept: Artifact = store.artifacts.put("a", b"kept", session="s")
        gone = store.artifacts.put("b", b"gone", session="s")
        store.artifacts.delete(id=gone)
        backend.clock.advance(7200)
        assert store.admin.gc().deleted == 1
        assert store.blobs.get(kept) == b"kept"
        assert store.blobs.get(gone) is None
