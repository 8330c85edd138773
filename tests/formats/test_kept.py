"""What was kept once is read forever: bodies as stores have them, and the natives they came of.

A converter may learn to read and to render better. What it writes for a style is what stored edits
were made against, so a change of it would change natives that were kept before, without a word; no
round trip notices that. Lines of `kept/` are only ever added.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import formats
from ledgerstone.codec import encode_struct
from ledgerstone.formats.natives import _format
from ledgerstone.records.messages import Message
from ledgerstone.rules.bodies import read_body
from tests.formats.natives import natives
from tests.formats.values import Native

# ADK and its libraries warn about themselves when they are imported.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

KEPT = Path(__file__).parent / "kept"


def kept(format: str) -> list[tuple[Message, str]]:
    """Messages as they were stored, and the text of the native of each."""
    lines = (KEPT / f"{format}.jsonl").read_text("utf-8").splitlines()
    pairs = [json.loads(line) for line in lines]
    return [
        (Message(body=read_body(json.dumps(body).encode(), format)), json.dumps(native))
        for body, native in pairs
    ]


def shown(format: str, message: Message) -> str:
    (native,) = formats.native(format, [message])
    return json.dumps(native)


def style(message: Message) -> str:
    found: str = (message.body.extra or {})["native"][1]
    return found


@pytest.mark.parametrize("format", formats.NAMES)
def test_what_was_kept_before(format: str) -> None:
    for message, native in kept(format):
        assert shown(format, message) == native


@pytest.mark.parametrize("format", formats.NAMES)
def test_every_style_is_there(format: str) -> None:
    """One that is new needs a line, by which it is remembered."""
    known = {style(message) for message, _ in kept(format)}
    assert {style(formats.keep(format, native)) for native in natives(format)} <= known


class Changed:
    """A converter of a later version, that writes one field more."""

    def __init__(self, known: Any) -> None:
        self._known = known

    def read(self, native: Native) -> Any:
        return self._known.read(native)

    def write(self, message: Message, style: str) -> Native:
        return {**self._known.write(message, style), "later": None}


@pytest.mark.parametrize("format", formats.NAMES)
def test_a_converter_that_changed_is_caught(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, and nowhere else: what it keeps itself comes back."""
    changed: Any = Changed(_format(format))
    monkeypatch.setattr("ledgerstone.formats.natives._format", lambda name: changed)
    assert any(shown(format, message) != native for message, native in kept(format))
    for native in natives(format):
        body = encode_struct(formats.keep(format, native).body, format)
        assert shown(format, Message(body=read_body(body, format))) == json.dumps(native)
