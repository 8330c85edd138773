"""What is stored and cannot be read is named, never guessed and never skipped."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ledgerstone import Store, user
from ledgerstone.commands.sessions import PutSession
from ledgerstone.commands.turns import CommitTurn, NewNode
from ledgerstone.errors import Corrupt
from ledgerstone.records.sessions import Session
from ledgerstone.testing.bed import Bed

__all__ = ["TestCorruption", "TestTamperedFile"]

BROKEN_DOCUMENTS = {
    "empty": b"",
    "cut": b'{"total_cost": 1.0, "messages": [{"role"',
    "no object": b"[1]",
    "no text": b"\xff\xfe\x00",
    "constant": b'{"total_cost": NaN',
}
BROKEN_BODIES = {
    "unknown role": b'{"parts":[],"role":"wizard"}',
    "no role": b'{"parts":[]}',
    "empty": b"",
    "cut": b'{"parts":[{"text":"hel',
    "no object": b"[]",
    "parts are no list": b'{"parts":7,"role":"user"}',
    "count is text": b'{"parts":[],"role":"user","usage":{"input":"three"}}',
}
# By the dialect of the bed.
TAMPER = {
    "sqlite": Path(__file__).with_name("tamper.sql"),
    "postgres": Path(__file__).with_name("tamper_postgres.sql"),
}


def plant(backend: Bed, body: bytes) -> None:
    """A message between two good ones whose stored body is this."""
    backend.store.messages.append("s", user("before", id="m1"), create=True)
    node = NewNode("bad", "message", 2, body, b"salt" * 4)
    command = CommitTurn(
        tenant="default", session="s", turn="t", kind="append", hash=b"h" * 32, nodes=(node,)
    )
    backend.write(command)
    backend.store.messages.append("s", user("after", id="m3"))


class TestCorruption:
    """Bytes that no writer of ours would write, handed in below the API."""

    @pytest.mark.promise(26, 194)
    @pytest.mark.parametrize("name", BROKEN_DOCUMENTS)
    def test_a_broken_document_is_an_error_and_never_none(self, backend: Bed, name: str) -> None:
        session = Session(id="s")
        backend.write(
            PutSession(tenant="default", session=session, document=BROKEN_DOCUMENTS[name])
        )
        with pytest.raises(Corrupt) as found:
            backend.store.sessions.document("s")
        assert (found.value.table, found.value.field) != ("", "")
        assert "s" in found.value.key
        assert backend.store.sessions.get("s") is not None

    @pytest.mark.promise(74, 194)
    @pytest.mark.parametrize("name", BROKEN_BODIES)
    def test_a_broken_message_is_an_error_wherever_it_is_read(
        self, backend: Bed, name: str
    ) -> None:
        plant(backend, BROKEN_BODIES[name])
        messages = backend.store.messages
        reads: list[Callable[[], object]] = [
            lambda: messages.history("s"),
            lambda: messages.last("s", 2),
            lambda: messages.list("s"),
            lambda: list(messages.iter("s")),
            lambda: messages.range("s", 1, 3),
            lambda: messages.get("bad", session="s"),
        ]
        for read in reads:
            with pytest.raises(Corrupt) as found:
                read()
            assert (found.value.table, found.value.field) == ("nodes", "body")
            assert found.value.reason

    @pytest.mark.promise(74, 194)
    def test_its_neighbours_can_still_be_read(self, backend: Bed) -> None:
        plant(backend, BROKEN_BODIES["cut"])
        messages = backend.store.messages
        assert [m.text for m in messages.last("s", 1)] == ["after"]
        assert [m.text for m in messages.history("s", at="m1")] == ["before"]

    @pytest.mark.promise(194)
    def test_verify_names_it(self, backend: Bed) -> None:
        plant(backend, BROKEN_BODIES["unknown role"])
        defects = backend.store.admin.verify("s").defects
        assert any(defect.kind == "body" for defect in defects)


class TestTamperedFile:
    """A value in one of our own columns that we do not know: only a file can hold it."""

    @pytest.mark.promise(74, 194)
    def test_an_unknown_status_of_a_session(self, backend: Bed) -> None:
        store = tampered(backend, "unknown_status")
        for read in (lambda: store.sessions.get("s"), store.sessions.list):
            with pytest.raises(Corrupt) as found:
                read()
            assert (found.value.table, found.value.field) == ("sessions", "status")

    @pytest.mark.promise(194)
    def test_metadata_that_is_no_json(self, backend: Bed) -> None:
        store = tampered(backend, "broken_metadata")
        with pytest.raises(Corrupt) as found:
            store.sessions.get("s")
        assert (found.value.table, found.value.field) == ("sessions", "metadata")

    @pytest.mark.promise(74, 194)
    def test_an_unknown_status_of_a_run(self, backend: Bed) -> None:
        store = tampered(backend, "unknown_run_status")
        with pytest.raises(Corrupt) as found:
            store.runs.get("r1")
        assert found.value.table == "runs"

    @pytest.mark.promise(74)
    def test_a_role_that_was_changed_in_the_body(self, backend: Bed) -> None:
        store = tampered(backend, "unknown_role")
        with pytest.raises(Corrupt) as found:
            store.messages.history("s")
        assert (found.value.table, found.value.field) == ("nodes", "body")

    @pytest.mark.promise(26)
    def test_a_document_that_was_cut(self, backend: Bed) -> None:
        store = tampered(backend, "cut_document")
        with pytest.raises(Corrupt):
            store.sessions.document("s")

    @pytest.mark.promise(74, 194)
    @pytest.mark.parametrize(
        "change", ["changed_text", "unknown_role", "changed_time", "unknown_role_number"]
    )
    def test_verify_finds_every_change(self, backend: Bed, change: str) -> None:
        assert not tampered(backend, change).admin.verify().ok


def tampered(backend: Bed, change: str) -> Store:
    """A session with everything, changed behind the back of the store."""
    if backend.edit is None:
        pytest.skip("capability edit: none declared, so there are no rows to change")
    store = backend.store
    store.sessions.create(id="s", metadata={"a": 1}, document={"total_cost": 1.0})
    with store.turns.begin("s", run_id="r1") as turn:
        turn.user("hello")
        turn.run("running")
    assert store.admin.verify().ok
    backend.close()
    text = TAMPER[backend.dialect].read_text()
    statements = dict(re.findall(r"-- name: (\w+)\n(.*?);\n", text, re.DOTALL))
    assert backend.edit(statements[change]) > 0
    return backend.store
