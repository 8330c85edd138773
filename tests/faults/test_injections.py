"""Hostile text in filters, namespaces, keys, orders, cursors and names: a value, or refused.

The memory backend speaks no query language, so whatever the others answer must be what it answers,
and a tenant who asks for nothing must keep every row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from ledgerstone import Store, user
from ledgerstone.clock import ManualClock
from ledgerstone.commands import Query
from ledgerstone.commands.memories import SearchMemories
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.errors import BackendError, LedgerstoneError
from ledgerstone.records.memories import Forget, Remember
from ledgerstone.testing.faults.payloads import injections
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.backends.places import quick_disk
from tests.faults.test_payloads import every_backend, plain

pytestmark = [pytest.mark.faults, pytest.mark.slow]

Call = Callable[[Any, str], Any]

TABLES = "memories embeddings spaces artifacts sessions heads nodes turns blobs evidence runs"
LEAKS = re.compile(
    r'\bselect\b|syntax error|near "|no such|sqlite|insert into|delete from|malformed|traceback'
    rf"|\b(from|into|update|table) ({'|'.join(TABLES.split())})\b",
    re.IGNORECASE,
)

STEMS = (
    "$", "$.", "$[0]", "$.a.b", "$**", "$.*", "$.a[*]", "$.a[last()]", "$.\"a\"", "$['a']",
    "a.b.c.d.e.f.g.h.i", "a..b", ".a", "a.", "a[0]", "a->b", "a->>'$.b'", "a' -> 'b", "a:b", "a/b",
    "json_extract(value, '$.v')", "value->>'v'", "v) or (1=1", "v' or 'x'='x", 'v" or "x"="x',
    "v = 1 or 1 = 1", "v`; --", "v; attach database ':memory:' as x", "v\\", "v\\'", "v''", 'v""',
    "$eq", "$ne", "$gt", "$where", "$expr", "$function", "$regex", "$or", "$and", "$not", "$$ROOT",
    "$gt$lt", "$GT", " $gt", "$gt ", "\uff04gt", "__proto__", "constructor", "__class__", "{}",
    "%", "_", "a%", "%a%", "a_c", "[a-z]", "*", "?", "a*b", "glob:*", "like '%'", "escape '\\'",
    "a\x1fb", "\x1f", "a\x1f", "a\x20b", "a\x7f", "a\x1e\x1fb", "\x00", "a\x00b", "\ud800",
    "a,b", "('a','b')", "a') union select seal from memories--", "a' union select vector from x--",
    "main.memories", "sqlite_master", "rowid", "seal", "tenant", "tenant = 'control'", "control",
    "-updated", "updated desc", "id; drop table memories", "id collate nocase", "(select 1)", "1,2",
    "random()", "case when 1 then id end", "rowid desc --", "eyJpZCI6MX0", "eyJ9", "====", "AAAA",
    "../../etc/passwd", "C:\\x", "a/../b", "./.", "%2e%2e%2f", "\u202egnp.exe", "a\u200bb", "İ",
    "text-embedding-3' or '1", "model\nname", "m" * 1024, "m" * 1025, "k" * 255, "k" * 256,
    "NaN", "Infinity", "-0", "1e999", "0x10", "true", "null", "undefined", "''", '""', " ",
    "9" * 400, "\u00a0", "ß", "\ufffe", "[]",
)  # fmt: skip
TAILS = ("", "'--", '") or true', ";")


def hostile() -> list[str]:
    """More than 800 texts; no two are equal."""
    made = [stem + tail for stem in STEMS for tail in TAILS]
    return list(dict.fromkeys([*made, *injections()]))


def search(**where: Any) -> Call:
    return lambda s, p: s.memories.search(**{name: one(p) for name, one in where.items()})


def ids(page: Any) -> list[str]:
    """Not the records: packed, they leave out defaults by identity, which differs by backend."""
    return [one.id for one in page.items]


READS: dict[str, Call] = {
    "filter key": search(filter=lambda p: {p: 1}),
    "filter path": search(filter=lambda p: {f"v.{p}": 1}),
    "filter operator": search(filter=lambda p: {"v": {p: 1}}),
    "filter operators": search(filter=lambda p: {"v": {"$gt": 0, p: 1}}),
    "filter value": search(filter=lambda p: {"v": p}),
    "filter range": search(filter=lambda p: {"v": {"$gte": p}}),
    "filter list": search(filter=lambda p: {"v": {"$in": [p, 1]}}),
    "filter object": search(filter=lambda p: {"v": {"x": {p: p}}}),
    "filter near": search(filter=lambda p: {"v": {"$ne": p}}, vector=lambda _: [1.0]),
    "prefix": lambda s, p: s.memories.search((p,)),
    "prefix text": lambda s, p: s.memories.search(p),
    "prefix below": lambda s, p: list(s.memories.iter(("a", p))),
    "get": lambda s, p: s.memories.get(("a",), p),
    "match": lambda s, p: s.memories.namespaces(match=(p,)),
    "suffix": lambda s, p: s.memories.namespaces(suffix=("a", p)),
    "model": search(vector=lambda _: [1.0], model=lambda p: p),
    "embeddings key": lambda s, p: s.embeddings.search([1.0], filter={p: 1}),
    "embeddings value": lambda s, p: s.embeddings.search([1.0], filter={"v": {"$nin": [p]}}),
    "embeddings model": lambda s, p: s.embeddings.search([1.0], model=p),
    "embeddings namespace": lambda s, p: s.embeddings.search([1.0], namespace=(p,)),
    "embeddings session": lambda s, p: list(s.embeddings.iter(session=p)),
    "embeddings get": lambda s, p: s.embeddings.get(p),
    "sessions key": lambda s, p: ids(s.sessions.list(metadata_contains={p: 1})),
    "sessions value": lambda s, p: ids(s.sessions.list(metadata_contains={"k": {p: p}})),
    "sessions order": lambda s, p: ids(s.sessions.list(order=p)),
    "sessions cursor": lambda s, p: ids(s.sessions.list(cursor=p)),
    "messages order": lambda s, p: s.messages.list("s", order=p).items,
    "messages cursor": lambda s, p: s.messages.list("s", cursor=p).items,
    "nodes order": lambda s, p: list(s.nodes.iter("s", order=p)),
    "runs cursor": lambda s, p: s.runs.list(cursor=p).items,
    "artifact name": lambda s, p: s.artifacts.get(p, session="s"),
    "artifact versions": lambda s, p: s.artifacts.versions(p, session="s"),
}
WRITES: dict[str, Call] = {
    "put": lambda s, p: s.memories.put((p, "x"), p, {p: p}),
    "put model": lambda s, p: s.memories.put(("m",), "k", p, vector=[2.0], model=p),
    "batch": lambda s, p: s.memories.batch([Remember(("b", p), p, 1), Forget((p,), "k")]),
    "touch": lambda s, p: s.memories.get((p, "x"), p, touch=True),
    "embed": lambda s, p: (
        s.embeddings.put([3.0], id=p, model=p, namespace=(p,), metadata={p: p}).id
    ),
    "remember": lambda s, p: remembered(s, p),
    "artifact": lambda s, p: s.artifacts.put(p, b"bytes", session="s", metadata={p: p}).version,
    "delete": lambda s, p: s.memories.delete((p,), p),
    "unembed": lambda s, p: s.embeddings.delete(p + "x"),
}


def remembered(store: Any, text: str) -> None:
    with store.turns.begin("s") as turn:
        turn.remember((text,), text, text)


def prepare(store: Store) -> None:
    store.messages.append("s", user("hello", id="m1"), create=True)
    store.sessions.update("s", metadata={"k": {"v": 1}})
    store.artifacts.put("plan", b"bytes", session="s", id="i1")
    for n, namespace in enumerate(((), ("a",), ("a", "b"), ("a", "bc"), ("ab",))):
        store.memories.put(namespace, "k", {"v": n}, vector=[float(n + 1)])
    store.embeddings.put([1.0], id="e1", session="s", namespace=("a",), metadata={"v": 1})


def rows(store: Store) -> list[Any]:
    """All that the corpus could have changed."""
    head = store.sessions.head("s")
    return [
        [(one.namespace, one.key, one.value) for one in store.memories.iter()],
        [(one.id, one.model, one.namespace, one.metadata) for one in store.embeddings.iter()],
        [(one.name, one.version, one.metadata) for one in store.artifacts.list(session="s")],
        [one.text for one in store.messages.history("s")],
        None if head is None else head.revision,
    ]


def answer(call: Call, store: Store, text: str) -> tuple[object, str]:
    """What came of a call, as far as backends must agree; and what is wrong with it."""
    try:
        return plain(call(store, text)), ""
    except LedgerstoneError as error:
        said = without_echo(str(error), text)
        wrong = isinstance(error, BackendError) or bool(LEAKS.search(said))
        return type(error).__name__, f"says {said[:100]!r}" if wrong else ""
    except Exception as error:
        return type(error).__name__, f"raised {type(error).__name__}: {error!s:.100}"


def without_echo(said: str, text: str) -> str:
    """What an error says besides the beginning of what it was given."""
    for given in (text, repr(text), repr(text)[1:-1]):
        for size in range(min(len(given), 80), 3, -1):
            said = said.replace(given[:size], "")
    return said


def test_hostile_text_is_a_value_or_refused(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    texts = hostile()
    assert len(texts) >= 800
    if chosen := scale(80, 0):
        texts = Random(seed).sample(texts, chosen)
    with (
        quick_disk(tmp_path) as folder,
        every_backend(folder) as backends,
        scoreboard.line("hostile text in filters and names", "all", seed) as line,
    ):
        controls = {
            name: Store(backend, tenant="control", clock=clock)
            for name, (backend, clock) in backends.items()
        }
        for store in controls.values():
            prepare(store)
        before = {name: rows(store) for name, store in controls.items()}
        for n, text in enumerate(texts):
            stores = {name: one.for_tenant(f"t{n}") for name, one in controls.items()}
            for store in stores.values():
                prepare(store)
            line.violations += differences(line, stores, text)
        for name, store in controls.items():
            if rows(store) != before[name]:
                line.violations.append(f"the rows of another tenant changed on {name}")
            if not store.admin.verify().ok:
                line.violations.append(f"verify finds defects on {name}")
        line.note = f"{len(texts)} texts, {len(READS) + len(WRITES)} calls"


def differences(line: Any, stores: dict[str, Store], text: str) -> list[str]:
    """Calls whose answers differ from the memory backend's, or tell what they should not."""
    wrong = []
    for call_name, call in {**READS, **WRITES}.items():
        answers = {name: answer(call, store, text) for name, store in stores.items()}
        for name, (found, flaw) in answers.items():
            line.n += 1
            if flaw:
                wrong.append(f"{call_name}({text!r:.60}) on {name} {flaw}")
            elif call_name in READS and found != answers["memory"][0]:
                wrong.append(f"{call_name}({text!r:.60}) on {name}: other rows")
    wanted = rows(stores["memory"])
    for name, store in stores.items():
        if rows(store) != wanted:
            wrong.append(f"{text!r:.60} left other rows on {name}")
    return wrong


class Pattern(Wrapper):
    """Takes a namespace for a pattern, as a peer did."""

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return self.inner.read([self._loose(query) for query in queries])

    def _loose(self, query: Query[Any]) -> Query[Any]:
        if isinstance(query, SearchMemories) and "%" in query.namespace:
            return msgspec.structs.replace(query, namespace=query.namespace.split("%")[0])
        return query


def test_a_backend_that_takes_text_for_a_pattern_is_found_out(scoreboard: Scoreboard) -> None:
    stores = {
        "memory": Store(MemoryBackend(ManualClock()), tenant="t"),
        "pattern": Store(Pattern(MemoryBackend(ManualClock())), tenant="t"),
    }
    for store in stores.values():
        prepare(store)
    name = "hostile text in filters and names, a namespace is a pattern"
    with scoreboard.line(name, "memory", control=True) as line:
        for text in hostile():
            line.n += 1
            found = {one: answer(READS["prefix"], store, text)[0] for one, store in stores.items()}
            if found["memory"] != found["pattern"]:
                line.violations.append(text)
