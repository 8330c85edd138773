"""What was stored once is read forever: bodies as stores have them, and their messages.

Stored edits were made against what `messages._write` says, so a change of it would change messages
that were stored before, without a word. Lines of `stored_messages.jsonl` are only ever added.
"""

from __future__ import annotations

import json
from base64 import b64decode
from hashlib import sha256
from pathlib import Path

import pytest

from ledgerstone.adapters.agent_framework import messages as form
from ledgerstone.records.messages import Message
from ledgerstone.rules.bodies import read_body

STORED = Path(__file__).parent / "stored_messages.jsonl"
PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ")


def test_what_was_stored_before() -> None:
    known = {sha256(PNG).hexdigest(): PNG}
    lines = STORED.read_text("utf-8").splitlines()
    assert len(lines) > 10
    for line in lines:
        body, native = json.loads(line)
        stored = Message(body=read_body(json.dumps(body).encode(), "body"))
        (shown,) = form.show([stored], known)
        assert shown.to_dict() == native


def test_a_change_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    write = form._write
    monkeypatch.setattr(form, "_write", lambda *a: {**write(*a), "message_id": "new"})
    with pytest.raises(AssertionError):
        test_what_was_stored_before()
