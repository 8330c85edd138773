"""How much a session may keep, and input that no artifact can be made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import Quota
from ledgerstone.codec import sha256
from ledgerstone.errors import InvalidValue, QuotaExceeded
from ledgerstone.testing.bed import Bed

__all__ = ["TestArtifactQuota", "TestArtifactInput"]

OLDEST_OUT = Quota(count=3, size_bytes=10, on_full="oldest_out")
WRONG: Any = "wrong"
ODD_NAMES = [
    "a/b",
    "../../etc/passwd",
    "..",
    "/",
    "C:\\x",
    "a b",
    "%2e%2e%2f",
    "naïve ☃",
    "'; drop table artifacts; --",
    "x" * 255,
    "s:",
    "artifact:1",
]
BAD_NAMES: dict[str, Any] = {
    "empty": "",
    "NUL": "a\0b",
    "a newline": "a\nb",
    "10,000 characters": "x" * 10_000,
    "a lone surrogate": "\ud800",
    "a number": 7,
    "None": None,
}
BAD_FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "an empty id": ("id", {"id": ""}),
    "an id with NUL": ("id", {"id": "\0"}),
    "no media type": ("media_type", {"media_type": "image"}),
    "a long media type": ("media_type", {"media_type": "a/" + "b" * 300}),
    "a media type with NUL": ("media_type", {"media_type": "a/b\0"}),
    "metadata that is no JSON": ("metadata.x", {"metadata": {"x": b"raw"}}),
    "metadata with NaN": ("metadata.x", {"metadata": {"x": float("nan")}}),
    "a tool with NUL": ("tool", {"tool": "a\0"}),
    "a negative size": ("original_bytes", {"original_bytes": -1}),
    "a size that is none": ("shown_bytes", {"shown_bytes": True}),
    "a uri with a newline": ("uri", {"uri": "a\nb"}),
    "an empty uri": ("uri", {"uri": ""}),
    "a quota that is none": ("quota", {"quota": 5}),
    "a quota of nothing": ("quota.count", {"quota": Quota(count=0)}),
    "a quota with an unknown rule": ("quota.on_full", {"quota": Quota(on_full=WRONG)}),
    "two owners": ("user", {"session": "s", "user": "ada"}),
    "a user with NUL": ("user", {"user": "\0", "session": None}),
    "two sources": ("data", {"blob": "0" * 64}),
}


def names(backend: Bed) -> list[str]:
    return [one.name for one in backend.store.artifacts.list(session="s", newest=False)]


class TestArtifactQuota:
    """Bounds of a session: refused, or the oldest go."""

    def test_more_than_the_quota_is_refused_and_changes_nothing(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        for name in "abc":
            artifacts.put(name, b"123", session="s", quota=Quota(count=3))
        with pytest.raises(QuotaExceeded) as caught:
            artifacts.put("d", b"1", session="s", quota=Quota(count=3))
        error = caught.value
        assert (error.session, error.limit, error.asked, error.unit) == ("s", 3, 4, "artifacts")
        with pytest.raises(QuotaExceeded) as caught:
            artifacts.put("d", b"12", session="s", quota=Quota(size_bytes=10))
        error = caught.value
        assert (error.session, error.limit, error.asked, error.unit) == ("s", 10, 11, "bytes")
        assert names(backend) == ["a", "b", "c"]
        assert artifacts.put("d", b"1", session="s", quota=Quota(size_bytes=10)).version == 1

    @pytest.mark.promise(171)
    def test_the_usual_quota_is_256_artifacts(self, backend: Bed) -> None:
        store, blob = backend.store, backend.store.blobs.put(b"x")
        given = [{"name": f"n{n}", "blob": blob} for n in range(257)]
        with pytest.raises(QuotaExceeded):
            store.artifacts.save("s", given)
        assert store.artifacts.load("s") is None
        store.artifacts.save("s", given[:256])
        with pytest.raises(QuotaExceeded):
            store.artifacts.put("one more", b"x", session="s")
        store.artifacts.put("n0", b"y", session="s", id=(store.artifacts.load("s") or [])[0].id)
        store.artifacts.put("one more", b"x", session="s", quota=None)
        assert len(store.artifacts.list(session="s")) == 257

    @pytest.mark.promise(171)
    def test_the_oldest_go_first_and_never_the_new_one(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        for name in "abcd":
            artifacts.put(name, b"123", session="s", quota=OLDEST_OUT)
        assert names(backend) == ["b", "c", "d"]
        artifacts.put("b", b"1234", session="s", quota=OLDEST_OUT, uri="u:1")
        assert names(backend) == ["c", "d", "b"]
        artifacts.put("e", b"12345678", session="s", quota=OLDEST_OUT)
        assert names(backend) == ["e"]
        with pytest.raises(QuotaExceeded) as caught:
            artifacts.put("f", b"x" * 11, session="s", quota=OLDEST_OUT)
        assert (caught.value.limit, caught.value.asked, caught.value.unit) == (10, 11, "bytes")
        assert not backend.store.blobs.exists(sha256(b"x" * 11)), "it did not travel in vain"
        with pytest.raises(QuotaExceeded):
            artifacts.put("f", iter([b"x" * 11]), session="s", quota=OLDEST_OUT)
        assert names(backend) == ["e"]

    @pytest.mark.promise(171)
    def test_a_replaced_one_counts_once_and_is_young_again(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        for name in "abc":
            artifacts.put(name, b"123", session="s", uri=f"u:{name}", quota=OLDEST_OUT)
        artifacts.put("a", b"1234", session="s", uri="u:a", quota=OLDEST_OUT)
        assert names(backend) == ["b", "c", "a"]
        artifacts.put("d", b"1", session="s", quota=OLDEST_OUT)
        assert names(backend) == ["c", "a", "d"]

    def test_a_set_leaves_out_its_first_ones(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        given = [(name, b"1234") for name in "abcd"]
        saved = artifacts.save("s", given, quota=OLDEST_OUT)
        assert [one.name for one in saved] == ["c", "d"]
        assert artifacts.load("s") == saved
        with pytest.raises(QuotaExceeded):
            artifacts.save("s", [("big", b"x" * 11), ("a", b"1")], quota=OLDEST_OUT)
        with pytest.raises(QuotaExceeded):
            artifacts.save("s", given, quota=Quota(size_bytes=15))
        assert artifacts.load("s") == saved

    def test_each_session_has_its_own_and_others_have_none(self, backend: Bed) -> None:
        artifacts, one = backend.store.artifacts, Quota(count=1)
        for session in ("s", "t"):
            artifacts.put("a", b"1", session=session, quota=one)
        for _ in range(3):
            artifacts.put("a", b"1", user="ada", quota=one)
            artifacts.put("a", b"1", quota=one)
        assert len(artifacts.versions("a", user="ada")) == 3
        assert len(artifacts.versions("a")) == 3

    def test_a_turn_keeps_to_its_quota(self, backend: Bed) -> None:
        store = backend.store
        blob = store.blobs.put(b"123")
        with store.turns.begin("s", create=True) as turn:
            for name in "abc":
                turn.artifact(name, blob, quota=OLDEST_OUT)
        turn = store.turns.begin("s")
        turn.user("more")
        turn.artifact("d", blob, quota=Quota(count=3))
        with backend.unchanged("s"), pytest.raises(QuotaExceeded):
            turn.commit()
        with store.turns.begin("s") as turn:
            turn.artifact("d", blob, quota=OLDEST_OUT)
        assert names(backend) == ["b", "c", "d"]
        with store.turns.begin("s") as turn:
            turn.artifact("e", blob, quota=None)
        assert names(backend) == ["b", "c", "d", "e"]
        assert store.admin.verify().defects == []

    def test_deleting_makes_room(self, backend: Bed) -> None:
        artifacts, one = backend.store.artifacts, Quota(count=1)
        artifacts.put("a", b"1", session="s", quota=one)
        artifacts.delete("a", session="s")
        artifacts.put("b", b"1", session="s", quota=one)
        assert names(backend) == ["b"]


class TestArtifactInput:
    """Names are data, never paths; what is wrong is named and leaves nothing behind."""

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_any_printable_name_is_a_name(self, backend: Bed, name: str) -> None:
        artifacts = backend.store.artifacts
        owners: list[dict[str, Any]] = [{"session": name}, {"user": name}, {}]
        for whose in owners:
            made = artifacts.put(name, name.encode(), **whose)
            found = artifacts.read(name, **whose)
            assert found is not None
            assert (found.id, found.name, found.data) == (made.id, name, name.encode())
        backend.reopen()
        assert [one.name for one in backend.store.artifacts.list(session=name)] == [name]

    @pytest.mark.parametrize("bad", BAD_NAMES)
    def test_a_name_that_is_none_is_refused(self, backend: Bed, bad: str) -> None:
        name, artifacts = BAD_NAMES[bad], backend.store.artifacts
        turn = backend.store.turns.begin("s")
        calls: list[Callable[[], object]] = [
            lambda: artifacts.put(name, b"1", session="s"),
            lambda: artifacts.get(name, session="s"),
            lambda: artifacts.delete(name, session="s"),
            lambda: artifacts.save("s", [(name, b"1")]),
            lambda: turn.artifact(name, "0" * 64),
        ]
        for call in calls:
            with pytest.raises(InvalidValue, match="name"):
                call()
        self.nothing(backend)

    @pytest.mark.parametrize("bad", BAD_FIELDS)
    def test_a_field_that_is_wrong_is_named(self, backend: Bed, bad: str) -> None:
        field, given = BAD_FIELDS[bad]
        keywords: dict[str, Any] = {"session": "s", **given}
        with pytest.raises(InvalidValue) as caught:
            backend.store.artifacts.put("a", b"1", **keywords)
        assert caught.value.field == field
        self.nothing(backend)

    def test_what_is_no_source_is_refused(self, backend: Bed) -> None:
        store: Any = backend.store
        bad_sources: list[dict[str, Any]] = [
            {},
            {"data": "text"},
            {"data": 7},
            {"data": [1, 2]},
            {"blob": "not a hash"},
            {"blob": "0" * 63 + "G"},
            {"blob": 7},
        ]
        for given in bad_sources:
            with pytest.raises(InvalidValue) as caught:
                store.artifacts.put("a", session="s", **given)
            assert caught.value.field in ("data", "blob", "ref")
        for bad in (7, ("a",), {"data": b"1"}, {"name": "a", "data": b"1", "nme": 1}):
            with pytest.raises(InvalidValue):
                store.artifacts.save("s", [bad])
        self.nothing(backend)

    def test_one_artifact_is_asked_for_in_one_way(self, backend: Bed) -> None:
        artifacts: Any = backend.store.artifacts
        for given in (
            {},
            {"name": "a", "id": "x"},
            {"id": "x", "uri": "u"},
            {"id": "x", "version": 1},
        ):
            with pytest.raises(InvalidValue):
                artifacts.get(**given)
        for bad in ({}, {"name": "a", "id": "x"}, {"name": "a", "version": 0}):
            with pytest.raises(InvalidValue):
                artifacts.delete(**bad)
        with pytest.raises(InvalidValue, match="session"):
            artifacts.clear()

    def nothing(self, backend: Bed) -> None:
        """No artifact, and no bytes that nobody will ever ask for."""
        assert backend.store.artifacts.load("s") is None
        assert backend.store.artifacts.list() == []
        assert not backend.store.blobs.exists(sha256(b"1"))
