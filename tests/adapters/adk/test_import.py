"""Sessions of ADK's own services, moved into a store; the source is only read."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from ledgerstone import Store, formats
from ledgerstone.adapters.adk import LedgerSessionService, store_id
from ledgerstone.adapters.importing import adk_sessions
from ledgerstone.adapters.importing.adk_sessions import (
    Imported,
    aimport_sessions,
    import_sessions,
)
from ledgerstone.errors import Corrupt, NotADatabase, NotSupported, SchemaTooNew, Unavailable
from tests.adapters.adk.foreign import Bomb, rows, shared, write_file, write_server
from tests.adapters.adk.scripted import KEY, calls, event, on, run, texts

HERE: dict[str, Any] = {**KEY, "session_id": "s"}


def said(count: int, first: int = 0, **fields: Any) -> list[Any]:
    found = []
    for n in range(first, first + count):
        delta = {"n": n, "user:n": n}
        found.append(event(f"said {n}", at=100.25 + n, id=f"e{n}", state=delta, **fields))
    return found


def many(count: int, first: int = 0) -> dict[Any, Any]:
    """A session with a tool call among its events, and another one."""
    call = calls(("pay", {"eur": 1, "x": None}))
    special = event(at=99.0, id="call", content=call, long_running_tool_ids={"c"})
    events = [special, *said(count)] if first == 0 else said(count, first)
    return {
        ("trips", "ada", "s"): ({"n": count + first - 1, "k": {"a": None}}, events),
        ("trips", "bob", "s"): ({}, []),
    }


async def opened(store: Any) -> Any:
    got = await LedgerSessionService(store).get_session(**HERE)
    assert got is not None
    return got


@pytest.mark.parametrize("version", ["0", "1"])
def test_a_file(store_url: str, colour: str, tmp_path: Path, version: str) -> None:
    path = tmp_path / "adk.db"
    source = many(450)
    found = [*rows(source, version), *shared({"v": 1}, {"n": 449, "x": None})]
    write_file(path, found, version)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    left = 451 if version == "0" else 0

    async def work(store: Any) -> None:
        done = await aimport_sessions(store, path)
        assert done == Imported(
            sessions=2, events=451, app_values=1, user_values=2, actions_left=left
        )
        got = await opened(store)
        wanted = source["trips", "ada", "s"][1]
        assert got.state == {"n": 449, "k": {"a": None}, "app:v": 1, "user:n": 449, "user:x": None}
        assert [one.id for one in got.events] == [one.id for one in wanted]
        assert [one.content for one in got.events] == [one.content for one in wanted]
        assert [one.timestamp for one in got.events] == [one.timestamp for one in wanted]
        assert got.events[0].long_running_tool_ids == {"c"}
        if version == "1":
            assert got.events == wanted
        again = await aimport_sessions(store, f"sqlite:///{path}")
        assert (again.events, again.known, again.continued) == (0, 451, 0)
        await LedgerSessionService(store).append_event(got, event("goes on"))
        last = await aimport_sessions(store, path)
        assert (last.events, last.continued) == (0, 1)
        assert texts((await opened(store)).events)[-2:] == ["said 449", "goes on"]

    on(store_url, colour, work)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert sorted(one.name for one in tmp_path.glob("adk.db*")) == ["adk.db"]
    assert not Bomb.went_off


@pytest.mark.parametrize("version", ["0", "1"])
def test_a_server(adapter_store: Store, postgres_places: Any, version: str) -> None:
    url = postgres_places.blank()
    source = many(450)
    write_server(url, [*rows(source, version), *shared({"v": 1}, {"n": 1})], version)
    done = import_sessions(adapter_store, url.replace("postgresql://", "postgresql+asyncpg://"))
    left = 451 if version == "0" else 0
    assert done == Imported(sessions=2, events=451, app_values=1, user_values=1, actions_left=left)
    got = run(opened(adapter_store))
    assert got.state == {"n": 449, "k": {"a": None}, "app:v": 1, "user:n": 1}
    assert texts(got.events)[1:] == [f"said {n}" for n in range(450)]
    assert import_sessions(adapter_store, url).known == 451
    assert not Bomb.went_off


def test_a_file_of_the_sqlite_service(adapter_store: Store, tmp_path: Path) -> None:
    """Written by ADK itself, with the state that it would show."""
    path = tmp_path / "adk.db"
    stock = SqliteSessionService(str(path))

    async def fill() -> Any:
        made = await stock.create_session(**HERE, state={"a": 1, "app:v": {"x": None}})
        blob = types.Part.from_bytes(data=b"\xff\x00", mime_type="image/png")
        content = types.Content(role="user", parts=[blob])
        for one in [event(author="user", content=content), *said(3)]:
            # The clock of the events is the past: only then does this service take them.
            one.timestamp = made.last_update_time + 1
            await stock.append_event(made, one)
        return await stock.get_session(**HERE)

    wanted = asyncio.run(fill())
    done = import_sessions(adapter_store, str(path))
    assert (done.sessions, done.events) == (1, 4)
    got = run(opened(adapter_store))
    assert got.events == wanted.events
    assert got.state == wanted.state


def test_interrupted_and_grown(
    adapter_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "adk.db"
    write_file(path, rows(many(450)))
    real = adk_sessions._message
    count = 0

    def failing(*given: Any) -> Any:
        nonlocal count
        count += 1
        if count == 420:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(adk_sessions, "_message", failing)
    with pytest.raises(KeyboardInterrupt):
        import_sessions(adapter_store, path)
    half = run(opened(adapter_store))
    assert 0 < len(half.events) < 451
    assert half.state == {}
    done = import_sessions(adapter_store, path)
    assert (done.known, done.events) == (len(half.events), 451 - len(half.events))
    more = said(30, 450)
    with closing(sqlite3.connect(path)) as db:
        db.execute("update sessions set state = ? where user_id = 'ada'", ('{"n": 479}',))
        db.commit()
    grown = rows({("trips", "ada", "s"): ({}, more)})
    write_file(path, [(table, row) for table, row in grown if table == "events"])
    done = import_sessions(adapter_store, path, only=lambda app, user, name: user == "ada")
    assert (done.sessions, done.events, done.known) == (1, 30, 451)
    got = run(opened(adapter_store))
    assert texts(got.events)[1:] == [f"said {n}" for n in range(480)]
    assert got.state["n"] == 479
    assert adapter_store.admin.verify().ok


def test_an_event_that_came_late(adapter_store: Store, tmp_path: Path) -> None:
    """The source orders by time, and what is appended later may have been made earlier."""
    path = tmp_path / "adk.db"
    first, late, last = said(3)
    key = ("trips", "ada", "s")
    write_file(path, rows({key: ({}, [first, last])}))
    import_sessions(adapter_store, path)
    grown = rows({key: ({}, [late])})
    write_file(path, [(table, row) for table, row in grown if table == "events"])
    assert import_sessions(adapter_store, path) == Imported(sessions=1, events=1, known=2)
    assert import_sessions(adapter_store, path) == Imported(sessions=1, known=3)
    assert run(opened(adapter_store)).events == [first, last, late]


@pytest.mark.parametrize("how", ["pop", "clear", "delete", "retire"])
def test_taken_back_in_the_store(adapter_store: Store, tmp_path: Path, how: str) -> None:
    """It stays so, and the sessions behind it come."""
    path, id = tmp_path / "adk.db", store_id(**HERE)
    write_file(path, rows({("trips", "ada", "s"): ({}, said(3))}))
    import_sessions(adapter_store, path)
    if how == "pop":
        adapter_store.messages.pop(id)
    elif how == "clear":
        adapter_store.messages.clear(id)
    elif how == "delete":
        adapter_store.sessions.delete(id)
    else:
        adapter_store.sessions.purge(id, retire=True)
    before = adapter_store.messages.history(id)
    if how == "delete":
        grown = rows({("trips", "ada", "s"): ({}, said(1, 3))})
        write_file(path, [(table, row) for table, row in grown if table == "events"])
    write_file(path, rows({("trips", "bob", "s"): ({}, said(2))}))
    done = import_sessions(adapter_store, path)
    gone = how in ("delete", "retire")
    assert (done.sessions, done.continued, done.events) == ((1, 1, 2) if gone else (2, 0, 2))
    assert adapter_store.messages.history(id) == before
    assert adapter_store.messages.count(store_id("trips", "bob", "s")) == 2


def test_the_stores_own_values_stay(adapter_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    write_file(path, shared({"v": "old", "w": 1}, {"n": "old"}))
    service = LedgerSessionService(adapter_store)
    run(service.create_session(**HERE, state={"app:v": "new", "user:n": "new"}))
    import_sessions(adapter_store, path)
    assert run(opened(adapter_store)).state == {"app:v": "new", "app:w": 1, "user:n": "new"}


def test_fields_of_a_newer_adk_are_kept(adapter_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    change = """update events set event_data = json_set(event_data, '$.new_thing', 7)"""
    import_sessions(adapter_store, _source(path, change))
    last = adapter_store.messages.last(store_id(**HERE), 1)
    assert formats.native("adk", last)[0]["newThing"] == 7
    assert texts(run(opened(adapter_store)).events)[-1] == "said 1"


def test_only_one_tenant_gets_it(adapter_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    write_file(path, rows(many(2)))
    import_sessions(adapter_store.for_tenant("acme"), path)
    other = LedgerSessionService(adapter_store.for_tenant("globex"))
    assert run(other.get_session(**HERE)) is None


def _source(path: Path, change: str) -> Path:
    write_file(path, rows(many(2)))
    with closing(sqlite3.connect(path)) as db:
        db.execute(change)
        db.commit()
    return path


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ("update adk_internal_metadata set value = '2'", SchemaTooNew, "version 2"),
        ("alter table sessions drop column state", NotSupported, "without state"),
        ("drop table user_states", NotADatabase, "no table user_states"),
        ("update events set event_data = '{x' where id = 'e1'", Corrupt, r"events\[e1\].*not JSON"),
        ("update events set event_data = '[]' where id = 'e1'", Corrupt, "an object expected"),
        (
            """update events set event_data = '{"author": 5}' where id = 'e1'""",
            Corrupt,
            r"events\[e1\]\.author: no event",
        ),
        ("update sessions set state = 'x'", Corrupt, r"sessions\[s\]\.state"),
        (
            """update sessions set state = '{"a": NaN}' where user_id = 'ada'""",
            Corrupt,
            r"state\.a",
        ),
    ],
)
def test_sources_that_are_not_right(
    tmp_path: Path, change: str, error: type[Exception], text: str
) -> None:
    path = _source(tmp_path / "adk.db", change)
    with Store.open("memory://") as store, pytest.raises(error, match=text):
        import_sessions(store, path)


def test_no_source_at_all(adapter_store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotADatabase, match="no file"):
        import_sessions(adapter_store, tmp_path / "missing.db")
    (tmp_path / "text.db").write_text("not a database, but long enough to be looked at" * 99)
    with pytest.raises(NotADatabase, match="not a database"):
        import_sessions(adapter_store, tmp_path / "text.db")
    with pytest.raises(Unavailable) as caught:
        import_sessions(adapter_store, "postgresql://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)
    damaged = tmp_path / "damaged.db"
    write_file(damaged, rows(many(300)))
    raw = bytearray(damaged.read_bytes())
    raw[4096 : len(raw) - 4096] = b"\xa5" * (len(raw) - 8192)
    damaged.write_bytes(bytes(raw))
    with pytest.raises((Corrupt, NotADatabase)):
        import_sessions(adapter_store, damaged)
