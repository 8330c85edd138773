"""Artifacts: versions of a name, and the artifacts of a session as one set."""

from __future__ import annotations

import io
from typing import Any

import pytest

from ledgerstone.errors import AlreadyExists, BlobNotFound, InvalidValue
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.artifacts import OWNERS

__all__ = ["TestArtifactVersions", "TestArtifactSets"]

BAD_SETS: dict[str, tuple[str, Any]] = {
    "nothing": ("artifacts", None),
    "a number": ("artifacts", 7),
    "text": ("artifacts", "ab"),
    "one dictionary": ("artifacts", {"name": "a", "data": b"1"}),
    "nothing in it": ("artifacts[1]", [("a", b"1"), None]),
    "text in it": ("artifacts[0]", ["ab"]),
    "one without a name": ("artifacts[0].name", [{"data": b"1"}]),
    "one without bytes": ("data", [{"name": "a"}]),
    "a pair without bytes": ("data", [("a", None)]),
    "a field nobody knows": ("artifact", [{"name": "a", "data": b"1", "colour": 1}]),
}


class TestArtifactVersions:
    """Each put of a name is its next version."""

    @pytest.mark.parametrize("owner", OWNERS)
    def test_versions_count_from_one(self, backend: Bed, owner: str) -> None:
        artifacts, whose = backend.store.artifacts, OWNERS[owner]
        for n in range(1, 4):
            assert artifacts.put("a", f"{n}".encode(), **whose).version == n
        artifacts.put("b", b"other", **whose)
        assert [one.version for one in artifacts.versions("a", **whose)] == [1, 2, 3]
        read = [artifacts.read("a", version=n, **whose) for n in (1, 2, 3, None)]
        assert [one.data for one in read if one is not None] == [b"1", b"2", b"3", b"3"]
        assert artifacts.get("a", version=4, **whose) is None

    def test_the_next_version_follows_the_greatest(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        for _ in range(3):
            artifacts.put("a", b"x", session="s")
        artifacts.delete("a", session="s", version=2)
        assert artifacts.put("a", b"x", session="s").version == 4
        first = artifacts.get("a", session="s", version=1)
        assert first is not None
        artifacts.put("a", b"replaced", session="s", id=first.id)
        newest = artifacts.get("a", session="s")
        assert newest is not None
        assert newest.version == 4

    def test_a_list_shows_the_newest_of_each_name_or_all(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        for name in "abcab":
            artifacts.put(name, b"x", session="s")
        shown = [(one.name, one.version) for one in artifacts.list(session="s")]
        assert shown == [("c", 1), ("a", 2), ("b", 2)]
        shown = [(one.name, one.version) for one in artifacts.iter(session="s", newest=False)]
        assert shown == [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 2)]
        assert [one.version for one in artifacts.list(session="s", name="a")] == [2]

    def test_long_lists_are_read_to_their_end(self, backend: Bed) -> None:
        blob = backend.store.blobs.put(b"same")
        given = [{"name": f"n{n}", "blob": blob} for n in range(1103)]
        backend.store.artifacts.save("s", given, quota=None)
        found = backend.store.artifacts.list(session="s")
        assert [one.name for one in found] == [one["name"] for one in given]


class TestArtifactSets:
    """The artifacts of a session as one thing that is saved and loaded."""

    @pytest.mark.promise(170)
    def test_none_before_the_first_and_the_session_need_not_exist(self, backend: Bed) -> None:
        store = backend.store
        assert store.artifacts.load("s") is None
        assert store.artifacts.save("s", []) == []
        assert store.artifacts.load("s") == []
        store.artifacts.put("a", b"1", session="t")
        assert len(store.artifacts.load("t") or []) == 1
        assert store.sessions.count() == 0

    @pytest.mark.promise(170)
    def test_saving_replaces_the_set(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        old = artifacts.put("old", b"1", session="s", uri="u:old")
        saved = artifacts.save(
            "s",
            [
                ("a", b"one"),
                {"name": "b", "data": b"two", "uri": "u:b", "tool": "sh", "metadata": {"k": 1}},
                {"name": "a", "data": io.BytesIO(b"three"), "media_type": "text/plain"},
            ],
        )
        assert [(one.name, one.version) for one in saved] == [("a", 1), ("b", 1), ("a", 2)]
        assert artifacts.load("s") == saved
        assert artifacts.get(id=old) is None
        assert artifacts.get(uri="u:old") is None
        assert artifacts.get(uri="u:b") == saved[1]

    @pytest.mark.promise(170)
    def test_what_was_loaded_may_be_saved_again(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        for name in "aba":
            artifacts.put(name, name.encode(), session="s", metadata={"of": name})
        artifacts.delete("a", session="s", version=1)
        before = artifacts.load("s")
        assert before is not None
        backend.clock.advance(9)
        assert artifacts.save("s", before) == before
        whole = [artifacts.read(id=one.id) for one in before]
        assert artifacts.save("s", [one for one in whole if one is not None]) == before
        swapped = artifacts.save("s", before[::-1])
        assert swapped == before[::-1] == artifacts.load("s")

    @pytest.mark.promise(170)
    def test_a_set_keeps_versions_and_counts_on(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        kept = [artifacts.put("a", b"x", session="s") for _ in range(3)][2]
        saved = artifacts.save("s", [("a", b"new"), kept])
        assert [one.version for one in saved] == [4, 3]

    @pytest.mark.promise(170, 183)
    def test_a_refused_set_changes_nothing(self, backend: Bed) -> None:
        artifacts = backend.store.artifacts
        artifacts.put("mine", b"1", session="s")
        foreign = artifacts.put("theirs", b"2", session="other")
        before = artifacts.load("s")
        refused: list[Any] = [
            [("a", b"1"), {"name": "b", "blob": "0" * 64}],
            [("a", b"1"), foreign],
            [{"name": "a", "data": b"1", "id": "x"}, {"name": "b", "data": b"2", "id": "x"}],
            [{"name": "a", "data": b"1", "uri": "x"}, {"name": "b", "data": b"2", "uri": "x"}],
        ]
        for given in refused:
            with pytest.raises((BlobNotFound, AlreadyExists)):
                artifacts.save("s", given)
            assert artifacts.load("s") == before
        assert artifacts.load("other") == [foreign]

    @pytest.mark.promise(170)
    @pytest.mark.parametrize("case", BAD_SETS)
    def test_what_is_no_set_is_refused_by_name(self, backend: Bed, case: str) -> None:
        field, bad = BAD_SETS[case]
        with pytest.raises(InvalidValue) as caught:
            backend.store.artifacts.save("s", bad)
        assert caught.value.field == field
        assert backend.store.artifacts.load("s") is None
