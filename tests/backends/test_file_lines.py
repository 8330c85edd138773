"""Journals are for people too: readable lines, exact bytes, names that come from numbers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import Store, user
from ledgerstone.clock import ManualClock
from ledgerstone.commands.sessions import GetDocument, PutSession
from ledgerstone.commands.turns import CommitTurn, NewNode
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.file.codec import joined, split
from ledgerstone.engines.file.journal import journal_name, journal_number
from ledgerstone.records.sessions import Session
from ledgerstone.tables.graph import NODES
from tests.backends.journals import bed, filled, holders, journal_of, journals, lines

HUMAN = ["pos", "n", "at", "do"]
ODD_BODIES = {
    "empty": b"",
    "object": b'{"a":1}',
    "spaces inside": b'{"a": [1 , 2]}',
    "spaces around": b' {"a":1}',
    "newline at the end": b'{"a":1}\n',
    "newline inside": b'{"a":\n1}',
    "carriage return": b'{"a":\r1}',
    "no JSON": b"plain text",
    "cut": b'{"a":',
    "two values": b"1 2",
    "constant": b"NaN",
    "binary": bytes(range(256)),
    "not UTF-8 in quotes": b'"\xff"',
    "NUL": b"\x00",
    "escaped NUL": b'"\\u0000"',
    "lone surrogate": b'"\\ud800"',
    "surrogate pair": b'"\\ud83d\\ude00"',
    "duplicate keys": b'{"a":1,"a":2}',
    "great number": b"1" + b"0" * 400,
    "beyond a float": b"1e999",
    "minus zero": b"-0.0",
    "line separator": '"\u2028\u0085"'.encode(),
    "byte order mark": b"\xef\xbb\xbf1",
    "own names": b'{"body64":"AA==","sum":"0123456789abcdef"}',
    "ends like a line": b'","sum":"0123456789abcdef"}',
    "deep": b"[" * 300 + b"]" * 300,
    "too deep": b"[" * 5000 + b"]" * 5000,
    "wide": b"[" + b"[]," * 5000 + b"[]]",
}


def test_every_line_is_json_with_the_human_fields_first(tmp_path: Path) -> None:
    path = filled(tmp_path / "store")
    positions = []
    for file in journals(path):
        for n, line in enumerate(lines(file), start=1):
            found = json.loads(line)
            assert list(found)[:4] == HUMAN
            assert list(found)[-2:] == ["prev", "sum"]
            assert found["n"] == n
            assert found["at"].endswith("Z")
            positions.append(found["pos"])
    purged = [json.loads(line) for line in lines(path / "store.jsonl") if b'"drops"' in line]
    dropped = sum(n for line in purged for _, n in line["drops"])
    assert len(purged) == 1
    assert len(positions) == len(set(positions))
    assert len(positions) + dropped == max(positions)


def test_a_command_is_one_line_and_a_read_is_none(tmp_path: Path) -> None:
    with bed(tmp_path / "store") as backend:
        backend.store.messages.append("s", user("one"), user("two"), create=True)
        file = journal_of(tmp_path / "store", "s")
        assert len(lines(file)) == 1
        backend.store.messages.append("s", user("three"))
        assert len(lines(file)) == 2
        before = file.read_bytes()
        assert backend.texts("s") == ["one", "two", "three"]
        backend.store.admin.verify()
        backend.store.admin.health()
        assert backend.store.sessions.ensure("s") is not None
        assert backend.store.sessions.delete("nobody") is False
        backend.store.admin.vacuum("s", dry_run=True)
        backend.store.admin.vacuum("s")
        assert file.read_bytes() == before, "what changes no row writes nothing"


def test_grep_and_tail_find_what_was_said(tmp_path: Path) -> None:
    path = filled(tmp_path / "store")
    grep = ["grep", "-l", '"session":"other"', "-r", str(path)]
    found = subprocess.run(grep, capture_output=True, text=True, check=True).stdout.split()
    assert found == [str(journal_of(path, "other"))]
    tail = subprocess.run(["tail", "-n1", found[0]], capture_output=True, check=True).stdout
    body = json.loads(tail)["put"]["nodes"][0]["body"]
    assert body["parts"][0]["text"] == "still innocent"


def test_text_stands_as_it_is(tmp_path: Path) -> None:
    with bed(tmp_path / "store") as backend:
        backend.store.messages.append("s", user("Grüße, 世界 \u2028 \U0001f600"), create=True)
    assert "Grüße, 世界 \u2028 \U0001f600" in journal_of(tmp_path / "store", "s").read_text()


def test_names_come_from_numbers(tmp_path: Path) -> None:
    with bed(tmp_path / "store") as backend:
        for name in ("../escaped", "a/b", "\U0001f600", "x" * 255, "store.jsonl", "."):
            backend.store.messages.append(name, user("hi"), create=True)
        names = sorted(file.name for file in (tmp_path / "store" / "sessions").iterdir())
    assert names == [f"{number:010d}.jsonl" for number in range(1, 7)]


@pytest.mark.parametrize(
    "name", ["1.jsonl", "0000000000.jsonl", "0000000001.jsonl.torn", "x.jsonl", "²000000001.jsonl"]
)
def test_other_names_are_no_journals(name: str) -> None:
    assert journal_number(name) is None
    assert journal_number(journal_name(12_345_678_901)) == 12_345_678_901


@pytest.mark.parametrize("name", ODD_BODIES)
def test_odd_bytes_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    """As a body, as a document, as a note of the store below the API; the line stays JSON."""
    body = ODD_BODIES[name]
    with bed(tmp_path / "store", snapshot_lines=1) as backend:
        node = NewNode("n", "odd", None, body, b"salt" * 4, meta=body)
        place: dict[str, Any] = {"tenant": "default", "session": "s"}
        commit = CommitTurn(
            turn="t", kind="append", hash=b"h" * 32, nodes=(node,), create=Session(id="s"), **place
        )
        backend.write(commit)
        backend.write(PutSession(tenant="default", session=Session(id="d"), document=body))
        for _ in range(2):  # Once from the journals, once from a snapshot.
            backend.reopen()
            row = backend.port._books.rows.tables[NODES][1, 1]  # type: ignore[attr-defined]
            assert row.body == body
            assert row.meta == body
            question = GetDocument(tenant="default", session="d", name="document")
            assert backend.ask(question) == body
        for file in journals(tmp_path / "store")[1:]:
            for line in lines(file):
                json.loads(line, parse_int=str, parse_float=str)


def test_json_is_embedded_and_nothing_else() -> None:
    for name, body in ODD_BODIES.items():
        embedded, blob = split(body)
        assert joined(embedded, blob) == body, name
    assert bytes(split(b'{"a":1}')[0]) == b'{"a":1}'  # type: ignore[arg-type]
    assert split(b'"\xff"')[1] == b'"\xff"'
    assert split(None) == split(None)
    assert joined(*split(None)) is None


def test_secrets_of_the_document_are_not_on_disk(tmp_path: Path) -> None:
    secret = "sk-proj-abcdef123456"
    document = {"total_cost": 1.0, "llm_config": {"provider": "p", "api_key": secret}}
    with bed(tmp_path / "store", snapshot_lines=1) as backend:
        backend.store.sessions.create(id="s", document={**document, "messages": []})
    assert list(holders(tmp_path / "store", b'"provider"'))
    assert list(holders(tmp_path / "store", secret.encode())) == []


def test_a_lone_surrogate_in_a_name_is_refused(tmp_path: Path) -> None:
    from ledgerstone.errors import InvalidValue

    with bed(tmp_path / "store") as backend:
        backend.store.sessions.create(id="s")
        put = PutSession(tenant="default", session=Session(id="s", title="\ud800"))
        with pytest.raises(InvalidValue):
            backend.write(put)
        backend.store.messages.append("s", user("goes on"))
    with bed(tmp_path / "store") as backend:
        assert backend.texts("s") == ["goes on"]


def test_a_clock_beyond_the_calendar(tmp_path: Path) -> None:
    clock = ManualClock(10**18)
    backend = open_file(str(tmp_path / "store"), clock=clock)
    Store(backend, clock=clock).messages.append("s", user("late"), create=True)
    backend.close()
    with bed(tmp_path / "store") as again:
        assert again.texts("s") == ["late"]
        assert again.store.admin.verify().ok
