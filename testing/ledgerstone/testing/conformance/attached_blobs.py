"""Attachments whose bytes are here, and blobs that the parts of messages name."""

from __future__ import annotations

import io
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import tool_result, user
from ledgerstone.api_sync.store import Store
from ledgerstone.commands.blobs import ForgetAttachment
from ledgerstone.errors import BlobNotFound, InvalidValue, SessionDeleted
from ledgerstone.records.messages import Message
from ledgerstone.records.parts import Audio, File, Image, Json, ToolCall, ToolResult, Video
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.uploads import counts

REF = sha256(b"bytes").hexdigest()
MISSING = "0" * 64
ODD_NAMES = ("zz", "my-own-name", "F" * 64, "f" * 63, "f" * 65, "", " ", "a\0b", "\ud800", "é" * 64)
MEDIA = ("file", "image", "audio", "video")


def committed(store: Store, session: str) -> dict[str, bool]:
    """The attachments of a session, and whether a commit used them."""
    return {one.id: one.committed_us is not None for one in store.attachments.list(session)}


class TestAttachedBytes:
    @pytest.mark.promise(172, 178)
    @pytest.mark.parametrize(
        "source",
        [bytes, io.BytesIO, lambda data: [data[:2], data[2:]]],
        ids=["bytes", "a file", "a stream"],
    )
    def test_bytes_are_kept_and_intended(
        self, backend: Bed, source: Callable[[bytes], Any]
    ) -> None:
        store = backend.store
        made = store.attachments.put("s", source(b"bytes"), media_type="text/plain")
        assert (made.session, made.id, made.uri) == ("s", REF, f"blob:{REF}")
        assert (made.intent_us, made.committed_us) == (backend.clock.now_us(), None)
        assert store.attachments.get("s", REF) == made
        assert store.blobs.get(made) == b"bytes"
        assert getattr(store.blobs.stat(made), "media_type", None) == "text/plain"
        assert counts(backend).uploads == 0

    def test_a_path_is_attached(self, backend: Bed, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"bytes")
        assert backend.store.attachments.put("s", tmp_path / "file").id == REF
        assert backend.store.blobs.get(REF) == b"bytes"

    @pytest.mark.promise(172, 173)
    def test_attaching_again_keeps_the_first_intent_and_its_stamp(self, backend: Bed) -> None:
        store = backend.store
        made = store.attachments.put("s", b"bytes")
        backend.clock.advance(5)
        assert store.attachments.put("s", b"bytes") == made
        with store.turns.begin("s", create=True) as turn:
            turn.attach(made)
        stamped = store.attachments.get("s", made)
        assert store.attachments.put("s", io.BytesIO(b"bytes")) == stamped
        assert counts(backend).blobs == 1

    def test_a_given_id_is_checked(self, backend: Bed) -> None:
        store = backend.store
        for data in (b"bytes", [b"byt", b"es"]):
            assert store.attachments.put("s", data, id=REF).id == REF
        for data, field in ((b"other", "id"), ([b"other"], "data")):
            with pytest.raises(InvalidValue) as caught:
                store.attachments.put("s", data, id=sha256(b"more").hexdigest())
            assert caught.value.field == field
        with pytest.raises(InvalidValue) as caught:
            store.attachments.put("s", b"bytes", id="my attachment")
        assert caught.value.field == "id"
        assert (counts(backend).blobs, counts(backend).uploads) == (1, 0)

    def test_a_stream_is_read_though_its_bytes_are_known(self, backend: Bed) -> None:
        store = backend.store
        store.blobs.put(b"bytes")
        with pytest.raises(InvalidValue, match="or the given one is wrong"):
            store.attachments.put("s", [b"other"], id=REF)
        assert store.attachments.list("s") == []
        assert (counts(backend).blobs, counts(backend).uploads) == (1, 0)

    @pytest.mark.parametrize("data", ["text", None, 5])
    def test_what_is_no_bytes_leaves_no_intent(self, backend: Bed, data: Any) -> None:
        with pytest.raises(InvalidValue):
            backend.store.attachments.put("s", data)
        assert backend.store.attachments.list("s") == []

    def test_the_list_is_by_age_and_of_one_session(self, backend: Bed) -> None:
        store = backend.store
        for name in ("c", "a", "b"):
            store.attachments.intent("s", name, "x:")
            store.attachments.intent("other", name, "x:")
            backend.clock.advance(1)
        store.for_tenant("other").attachments.intent("s", "d", "x:")
        assert [one.id for one in store.attachments.list("s")] == ["c", "a", "b"]
        assert store.attachments.list("nowhere") == []

    @pytest.mark.promise(174, 175)
    def test_old_intents_are_swept(self, backend: Bed) -> None:
        store = backend.store
        for name in ("old", "used"):
            store.attachments.intent("s", name, "x:")
        with store.turns.begin("s", create=True) as turn:
            turn.attach("used")
        backend.clock.advance(86_399)
        assert store.attachments.sweep() == 0
        store.attachments.intent("s", "young", "x:")
        backend.clock.advance(1)
        assert store.attachments.sweep() == 1
        assert committed(store, "s") == {"used": True, "young": False}
        assert store.attachments.sweep(older_than_s=1) == 1
        for age in (-1, True, "1"):
            with pytest.raises(InvalidValue):
                store.attachments.sweep(older_than_s=age)  # type: ignore[arg-type]

    @pytest.mark.promise(174, 176)
    def test_what_a_turn_used_meanwhile_is_not_swept(self, backend: Bed) -> None:
        store = backend.store
        store.attachments.intent("s", "a1", "x:")
        sweep = ForgetAttachment(tenant="default", session="s", id="a1", before_us=2**60)
        with store.turns.begin("s", create=True) as turn:
            turn.attach("a1")
        assert backend.write(sweep) is False
        assert committed(store, "s") == {"a1": True}


WAYS: dict[str, Callable[[Store, Any], object]] = {
    "a turn": lambda s, part: _in_turn(s, lambda turn: turn.user(["see", part])),
    "a turn with fields": lambda s, part: _in_turn(
        s, lambda turn: turn.assistant([part], model="m")
    ),
    "a message of a turn": lambda s, part: _in_turn(s, lambda turn: turn.add(user([part]))),
    "an append": lambda s, part: s.messages.append("s", user([part])),
    "a replace": lambda s, part: s.messages.replace("s", [user("hi", id="m1"), user([part])]),
    "a node": lambda s, part: s.nodes.append("s", user([part])),
    "an amendment": lambda s, part: s.messages.amend("m1", session="s", parts=[part]),
    "an amendment in a turn": lambda s, part: _in_turn(
        s, lambda turn: turn.amend("m1", parts=[part])
    ),
}


def _places(name: str) -> list[list[Any]]:
    """Parts of every media type, alone and beside others, typed and verbatim."""
    found: list[list[Any]] = [[kind(blob=name)] for kind in (File, Image, Audio, Video)]
    for kind in MEDIA:
        found += [["text", {"type": kind, "blob": name}], [{"type": kind, "blob": name, "x": [1]}]]
        found.append([{"type": kind, "blob": name, "url": "https://x", "data": "AAAA"}])
    result = {"type": "tool-result", "call_id": "c", "content": [{"type": "file", "blob": name}]}
    return [*found, [result], [{**result, "more": 1}]]


ANSWERS: dict[str, Callable[[Store, list[Any]], object]] = {
    "a turn": lambda s, content: _in_turn(s, lambda turn: turn.tool("c1", content)),
    "fields": lambda s, content: _in_turn(s, lambda turn: turn.tool("c1", content, is_error=True)),
    "a message": lambda s, content: s.messages.append("s", tool_result("c1", content)),
    "an amendment": lambda s, content: s.messages.amend(
        "m1", session="s", parts=[ToolResult("c1", content)]
    ),
}


def _in_turn(store: Store, fill: Callable[[Any], object]) -> None:
    with store.turns.begin("s") as turn:
        fill(turn)


class TestNamedBlobs:
    @pytest.mark.promise(173, 176)
    @pytest.mark.parametrize("way", WAYS)
    def test_a_blob_that_a_message_names_belongs_to_its_session(
        self, backend: Bed, way: str
    ) -> None:
        store = backend.store
        store.messages.append("s", user("hi", id="m1"), create=True)
        ref = store.blobs.put(b"bytes").ref
        backend.clock.advance(7)
        WAYS[way](store, Image(blob=ref))
        (made,) = store.attachments.list("s")
        assert (made.id, made.uri) == (ref, f"blob:{ref}")
        assert made.intent_us == made.committed_us
        assert backend.store.admin.gc(older_than_s=0).deleted == 0
        assert store.admin.verify().ok

    @pytest.mark.promise(176)
    @pytest.mark.parametrize("way", WAYS)
    def test_a_missing_blob_refuses_all_of_it(self, backend: Bed, way: str) -> None:
        store = backend.store
        store.messages.append("s", user("hi", id="m1"), create=True)
        store.for_tenant("other").blobs.put(b"bytes")
        for missing in (MISSING, REF):
            with backend.unchanged("s"), pytest.raises(BlobNotFound) as caught:
                WAYS[way](store, File(blob=missing))
            assert caught.value.id == missing
        assert store.attachments.list("s") == []

    def test_every_kind_of_media_counts_once(self, backend: Bed) -> None:
        store = backend.store
        refs = [store.blobs.put(b"%d" % n).ref for n in range(5)]
        verbatim = {"type": "image", "blob": refs[4], "more": 1}
        kinds = (File, Image, Audio, Video)
        parts = [kind(blob=ref) for kind, ref in zip(kinds, refs, strict=False)]
        store.messages.append("s", user([*parts, *parts, verbatim, "text"]), create=True)
        assert committed(store, "s") == dict.fromkeys(refs, True)

    @pytest.mark.promise(220)
    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_a_missing_blob_is_refused_whatever_its_id_looks_like(
        self, backend: Bed, name: str, way: str
    ) -> None:
        store = backend.store
        store.messages.append("s", user("hi", id="m1"), create=True)
        for part in (Image(blob=name), {"type": "image", "blob": name, "more": 1}):
            with backend.unchanged("s"), pytest.raises(BlobNotFound) as caught:
                WAYS[way](store, part)
            assert caught.value.id == name

    @pytest.mark.promise(220)
    @pytest.mark.parametrize("name", [MISSING, *ODD_NAMES])
    def test_so_is_every_place_that_may_name_one(self, backend: Bed, name: str) -> None:
        store = backend.store
        store.messages.append("s", user("hi", id="m1"), create=True)
        for parts in _places(name):
            with backend.unchanged("s"), pytest.raises(BlobNotFound) as caught:
                store.messages.append("s", user(parts))
            assert caught.value.id == name
        answer = [{"type": "text", "text": "see"}, {"type": "image", "blob": name}]
        for way, call in ANSWERS.items():
            with backend.unchanged("s"), pytest.raises(BlobNotFound) as caught:
                call(store, answer)
            assert caught.value.id == name, way
        assert store.attachments.list("s") == []
        assert store.admin.verify(blobs=True).ok

    @pytest.mark.promise(176, 220)
    @pytest.mark.parametrize("way", ["a turn", "fields", "a message", "an amendment"])
    def test_what_a_tool_answered_with_is_kept(self, backend: Bed, way: str) -> None:
        """A picture inside a tool's result is protected from the collector as any other."""
        store = backend.store
        store.messages.append("s", user("hi", id="m1"), create=True)
        ref = store.blobs.put(b"bytes").ref
        ANSWERS[way](store, [{"type": "image", "blob": ref}])
        assert committed(store, "s") == {ref: True}
        assert store.admin.gc(older_than_s=0).deleted == 0
        assert store.admin.verify(blobs=True).ok

    @pytest.mark.promise(220)
    @pytest.mark.parametrize(
        "value",
        [
            {"type": "file", "blob": "zz"},
            [{"type": "file", "blob": "zz", "sha": "0"}],
            [{"type": "file", "blob": "zz"}, 7],
            {"tree": [{"type": "image", "blob": "zz"}]},
        ],
    )
    def test_values_of_a_tool_name_none(self, backend: Bed, value: Any) -> None:
        """What a tool says is its own unless it is a list of text and media."""
        store = backend.store
        with store.turns.begin("s", create=True) as turn:
            turn.tool("c1", value)
        store.messages.append("s", user([Json(value), ToolCall("c2", "t", value)]))
        assert store.attachments.list("s") == []
        assert store.admin.verify(blobs=True).ok

    @pytest.mark.promise(220)
    def test_parts_of_unknown_types_stay_verbatim(self, backend: Bed) -> None:
        part = {"type": "hologram", "blob": "zz"}
        backend.store.messages.append("s", user([part]), create=True)
        found = backend.store.messages.history("s")[0]
        assert isinstance(found, Message)
        assert found.parts == [part]
        assert backend.store.attachments.list("s") == []

    def test_an_intent_is_stamped(self, backend: Bed) -> None:
        store = backend.store
        made = store.attachments.put("s", b"bytes")
        backend.clock.advance(5)
        for _ in range(2):
            store.messages.append("s", user([Image(blob=made.id)]), create=True)
        (found,) = store.attachments.list("s")
        assert found.intent_us == made.intent_us
        assert found.committed_us == store.messages.history("s")[0].created_us

    def test_a_repeated_turn_needs_the_bytes_no_more(self, backend: Bed) -> None:
        """The first answer is told again, though the bytes went with the session's purge."""
        store = backend.store
        ref = store.blobs.put(b"bytes").ref
        turn = store.turns.begin("s", create=True, id="t1")
        turn.user([Image(blob=ref)])
        turn.commit()
        store.attachments.forget("s", ref)
        store.admin.gc(older_than_s=0)
        again = store.turns.begin("s", id="t1")
        again.user([Image(blob=ref)])
        assert again.commit().replayed is True

    def test_a_deleted_session_takes_none(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        ref = store.blobs.put(b"bytes").ref
        store.sessions.delete("s")
        with pytest.raises(SessionDeleted):
            store.messages.append("s", user([Image(blob=ref)]))
        assert store.attachments.list("s") == []


class TestCopiedAttachments:
    @pytest.mark.parametrize("way", ["fork", "copy"])
    def test_a_copy_has_the_committed_ones(self, backend: Bed, way: str) -> None:
        store = backend.store
        ref = store.blobs.put(b"bytes").ref
        store.messages.append("s", user([Image(blob=ref)]), create=True)
        store.attachments.intent("s", "open", "x:")
        (source, _) = sorted(store.attachments.list("s"), key=lambda one: one.id == "open")
        backend.clock.advance(5)
        copy = store.sessions.fork("s") if way == "fork" else store.sessions.copy("s", "copy")
        (made,) = store.attachments.list(copy)
        assert made.session == copy.id
        assert (made.id, made.uri) == (source.id, source.uri)
        assert (made.intent_us, made.committed_us) == (source.intent_us, source.committed_us)
        assert store.admin.verify().ok

    def test_an_intent_of_the_target_is_stamped(self, backend: Bed) -> None:
        store = backend.store
        early = store.attachments.put("copy", b"bytes")
        backend.clock.advance(5)
        store.messages.append("s", user([Image(blob=early.id)]), create=True)
        store.sessions.copy("s", "copy")
        (made,) = store.attachments.list("copy")
        (source,) = store.attachments.list("s")
        assert (made.intent_us, made.committed_us) == (early.intent_us, source.committed_us)
