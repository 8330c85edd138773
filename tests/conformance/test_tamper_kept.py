"""Somebody edits bytes, evidence, budgets or memories by hand: verify says where.

Every sealed column is changed once. What follows from other rows is counted again instead: sums of
usage and of calls, what of a budget is spent, the spaces of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from ledgerstone import Store, Usage, user
from ledgerstone.clock import ManualClock
from ledgerstone.codec import sha256
from ledgerstone.commands.blobs import BeginUpload
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import Corrupt
from ledgerstone.records.usage import Cost
from ledgerstone.testing.bed import Bed
from tests.conformance.test_tamper import tamper
from tests.conformance.test_tamper_seals import changes

DATA = b"some bytes"
REF = sha256(DATA)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Bed]:
    path, clock = str(tmp_path / "store.db"), ManualClock()
    with Bed("sqlite", lambda: open_sqlite(path, clock=clock), clock=clock, url=path) as bed:
        fill(bed.store)
        bed.write(BeginUpload(tenant="default", key="k1", place="database"))
        assert bed.store.admin.verify().defects == []
        bed.close()
        yield bed


def fill(store: Store) -> None:
    """Session s (number 1) with something of each."""
    store.messages.append("s", user("one"), create=True)
    store.artifacts.put(
        "plan", DATA, session="s", id="i1", media_type="text/plain", metadata={"eur": 1}
    )
    store.traces.append("s", {"kind": "k", "name": "one"})
    store.reports.append("s", {"subject": "two"})
    store.usage.budget(session="s", tokens=1000, id="g1")
    store.usage.record("s", "m", Usage(3, 4), cost=Cost(7))
    store.executions.finish(
        store.executions.start("s", id="x1", call_id="c1", tool="mail"), result=1
    )
    store.memories.put(("a",), "k", {"eur": 1}, vector=[1.0, 0.0], ttl_s=60)
    store.embeddings.put([0.0, 1.0], id="e1", session="s", metadata={"eur": 1})


def edited(column: str, old: str = "eur", new: str = "usd") -> str:
    return f"{column} = cast(replace(cast({column} as text), '{old}', '{new}') as blob)"


SEALED = {
    **changes("blobs", "1", "size_bytes", "media_type = null", "place = 'objects'", "key = 'x'",
        "sums = x'00'", "created_us", "touched_us", "ref = 'x'", "tenant = 'red'"),
    **changes("uploads", "key = 'k1'", "place = 'objects'", "created_us", "leaving", "key = 'k2'",
        "tenant = 'red'"),
    **changes("artifacts", "id = 'i1'", "id = 'i2'", "scope = 'u:eve'", "name = 'plot'", "version",
        "place", "uri = 'x:'", "ref = 'x'", "size_bytes", "created_us", "tenant = 'red'",
        edited("body")),
    **changes("evidence", "kind = 'trace' and n = 1", "session = 'c'", "kind = 'report2'", "n",
        "created_us", edited("body", "one", "two"), "tenant = 'red'"),
    **changes("budgets", "id = 'g1'", "id = 'g2'", "scope = 'user'", "subject = 'c'",
        "tenant = 'red'", edited("body", "1000", "9000")),
    **changes("memories", "key = 'k'", "key = 'k2'", "namespace = 'b' || char(31)", "ttl_us",
        "created_us", "updated_us", "expires_us", edited("value"),
        "tenant = 'red'"),
    **changes("embeddings", "id = 'e1'", "kind = 'memory'", "id = 'e2'", "model = 'm'",
        "change = 77", "session = 'c'", "namespace = 'b' || char(31)", "created_us",
        edited("metadata"), "vector = x'0000803f0000803f'",
        "tenant = 'red'"),
}  # fmt: skip


@pytest.mark.parametrize("name", SEALED)
def test_a_change_of_what_is_kept_is_found(backend: Bed, name: str) -> None:
    statement, table = SEALED[name]
    defects = tamper(backend, statement)
    seals = [defect.where for defect in defects if defect.kind == "seal"]
    assert any(where.startswith(f"{table} ") for where in seals), defects


COUNTED = {
    "calls of a day": ("update usage_days set calls = calls + 1", "usage"),
    "tokens of a day": ("update usage_days set input = input + 1", "usage"),
    "cost of a day": ("update usage_days set cost_nano = cost_nano - 1", "usage"),
    "day": ("update usage_days set day = day + 1", "usage"),
    "model": ("update usage_days set model = 'n'", "usage"),
    "tenant": ("update usage_days set tenant = 'red'", "usage"),
    "a day that is gone": ("delete from usage_days", "usage"),
    "tool calls": ("update call_sums set failed = failed + 1", "count"),
    "tool calls that are gone": ("delete from call_sums", "count"),
    "tokens of a budget": ("update budgets set spent_tokens = 0", "budget"),
    "cost of a budget": ("update budgets set spent_nano = 1", "budget"),
    "dimension of a space": ("update spaces set dimension = 3", "space"),
    "rows of a space": ("update spaces set count = count + 1", "space"),
    "changes of a space": ("update spaces set changes = 0", "space"),
    "a space that is gone": ("delete from spaces", "space"),
    "a row of a space that is gone": ("delete from embeddings where id = 'e1'", "space"),
    "usage of a turn": ("update turns set usage = null where usage is not null", ""),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_change_of_what_is_counted_is_found(backend: Bed, name: str) -> None:
    statement, kind = COUNTED[name]
    defects = tamper(backend, statement)
    assert defects
    assert not kind or kind in {defect.kind for defect in defects}, defects


@pytest.mark.parametrize(
    "what", ["data = x'00'", "data = substr(data, 2)", "data = cast(data || x'00' as blob)"]
)
def test_changed_bytes_are_never_handed_out(backend: Bed, what: str) -> None:
    connection = apsw.Connection(backend.url)
    connection.execute(f"update chunks set {what}")
    connection.close()
    with pytest.raises(Corrupt):
        backend.store.blobs.get(REF)
    with pytest.raises(Corrupt), backend.store.artifacts.open("plan", session="s") as reader:
        list(reader)


def test_another_tenant_is_not_told_which(backend: Bed) -> None:
    tamper(backend, SEALED["artifacts.name"][0])
    found = backend.store.for_tenant("red").admin.verify().defects
    assert [defect.where for defect in found] == ["artifacts of another tenant"]


def test_what_the_store_writes_later_fits(backend: Bed) -> None:
    """The negative control: no write of the store leaves a seal or a sum that does not fit."""
    store = backend.store
    store.artifacts.put("plan", b"more", session="s", id="i1")
    store.artifacts.put("plan", b"third", session="s")
    store.traces.save("s", [])
    store.usage.record("s", "m", Usage(1, 1))
    store.usage.budget(session="s", tokens=9, id="g1")
    store.executions.start("s", id="x2", call_id="c2", tool="mail")
    store.memories.get(("a",), "k", touch=True)
    store.memories.put(("a",), "k", 2)
    store.embeddings.put([1.0, 1.0], id="e1", model="n")
    store.admin.gc(older_than_s=0, attachments_older_than_s=0)
    store.usage.delete("s")
    store.sessions.copy("s", "c")
    store.sessions.purge("s")
    assert store.admin.verify().defects == []
