"""Files of the SDK's SQLite sessions, moved into a store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, SQLiteSession, function_tool
from agents.extensions.memory import AdvancedSQLiteSession
from msgspec.structs import replace

from ledgerstone import AsyncStore, Store, Usage
from ledgerstone.adapters.importing.openai_sessions import (
    Imported,
    aimport_sessions,
    import_sessions,
)
from ledgerstone.adapters.openai_agents import LedgerSession
from ledgerstone.errors import Corrupt, InvalidValue, Misuse, NotADatabase, NotSupported
from tests.adapters.openai_agents.scripted import Scripted, call, say


def said(n: int) -> Any:
    return {"role": "user", "content": f"say {n}"}


def answer(n: int) -> Any:
    return {"type": "message", "role": "assistant", "content": f"answer {n}", "id": f"m{n}"}


def fill(path: Path, session: str, items: list[Any]) -> list[Any]:
    """Write with the SDK; answers what it reads."""

    async def go() -> list[Any]:
        theirs = SQLiteSession(session, path)
        if items:
            await theirs.add_items(items)
        found = await theirs.get_items()
        theirs.close()
        return list(found)

    return asyncio.run(go())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "conversations.db"
    fill(path, "a", [said(1), answer(1), {"__enc__": 1, "payload": "x"}])
    fill(path, "b", [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}])
    return path


def test_everything_comes_along(adapter_store: Store, source: Path) -> None:
    before = source.read_bytes()
    assert import_sessions(adapter_store, source) == Imported(sessions=2, messages=4)
    for name in ("a", "b"):
        ours = asyncio.run(LedgerSession(adapter_store, name).get_items())
        assert ours == fill(source, name, [])
    made = adapter_store.sessions.get("a")
    assert made is not None
    age_us = adapter_store.messages.last("a")[0].created_us - made.created_us
    assert abs(age_us) < 3600 * 1_000_000
    assert source.read_bytes() == before
    assert adapter_store.admin.verify("a").ok


def test_running_it_again_adds_what_is_new(adapter_store: Store, source: Path) -> None:
    import_sessions(adapter_store, source)
    head = adapter_store.sessions.head("a")
    assert import_sessions(adapter_store, source) == Imported(sessions=2, known=4)
    assert adapter_store.sessions.head("a") == head
    fill(source, "a", [said(2)])
    # Work went on here meanwhile, and an item was taken off: it does not come back.
    asyncio.run(LedgerSession(adapter_store, "a").pop_item())
    assert import_sessions(adapter_store, source) == Imported(sessions=2, messages=1, known=4)
    items = asyncio.run(LedgerSession(adapter_store, "a").get_items())
    assert items == [said(1), answer(1), said(2)]


def test_it_goes_on_where_it_stopped(
    adapter_store: Store, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, "c", [said(n) for n in range(7)])
    monkeypatch.setattr("ledgerstone.adapters.importing.openai_source.CHUNK", 2)
    append, left = adapter_store.messages.append, [4]

    def stopping(*given: Any, **how: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return append(*given, **how)

    monkeypatch.setattr(adapter_store.messages, "append", stopping)
    with pytest.raises(KeyboardInterrupt):
        import_sessions(adapter_store, source)
    monkeypatch.undo()
    done = import_sessions(adapter_store, source)
    assert (done.sessions, done.messages + done.known) == (3, 11)
    assert 0 < done.known < 11
    assert asyncio.run(LedgerSession(adapter_store, "c").get_items()) == [said(n) for n in range(7)]


def test_some_of_them(adapter_store: Store, source: Path) -> None:
    done = import_sessions(adapter_store, source, only=lambda id: id == "b", app="old")
    assert done == Imported(sessions=1, messages=1)
    made = adapter_store.sessions.get("b")
    assert made is not None
    assert made.app == "old"


def test_over_an_async_store(store_url: str, source: Path) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            assert (await aimport_sessions(store, source)).messages == 4
            with pytest.raises(Misuse):
                import_sessions(store, source)

    asyncio.run(main())


def test_other_names_of_tables(adapter_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "own.db"

    async def go() -> None:
        theirs = SQLiteSession("a", path, sessions_table="talks", messages_table='my "items"')
        theirs.close()

    with pytest.raises(sqlite3.OperationalError):
        asyncio.run(go())

    async def again() -> None:
        theirs = SQLiteSession("a", path, sessions_table="talks", messages_table="my_items")
        await theirs.add_items([said(1)])
        theirs.close()

    asyncio.run(again())
    with pytest.raises(NotADatabase, match="agent_sessions"):
        import_sessions(adapter_store, path)
    names: Any = {"sessions_table": "talks", "messages_table": "my_items"}
    assert import_sessions(adapter_store, path, **names).messages == 1


def test_names_of_tables_that_are_alike(adapter_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    names: Any = {"sessions_table": "my_agent_messages", "messages_table": "agent_sessions"}

    async def go() -> None:
        theirs = SQLiteSession("a", path, **names)
        await theirs.add_items([said(1)])
        theirs.close()

    asyncio.run(go())
    assert import_sessions(adapter_store, path, **names) == Imported(sessions=1, messages=1)


def test_branches_of_other_tables_in_the_file(adapter_store: Store, tmp_path: Path) -> None:
    """A session of the same id under other names: which branches there are is said of those."""
    path = tmp_path / "own.db"
    names: Any = {"sessions_table": "talks", "messages_table": "my_items"}

    async def go() -> None:
        theirs = AdvancedSQLiteSession(session_id="a", db_path=path, create_tables=True)
        await theirs.add_items([said(1), answer(1)])
        theirs.close()
        plain = SQLiteSession("a", path, **names)
        await plain.add_items([said(n) for n in range(2, 7)])
        plain.close()

    asyncio.run(go())
    assert import_sessions(adapter_store, path, **names) == Imported(sessions=1, messages=5)
    assert import_sessions(adapter_store, path) == Imported(sessions=1, messages=2)


def test_times_that_no_store_takes(adapter_store: Store, source: Path) -> None:
    change("update agent_messages set created_at = '1960-01-01 00:00:00'")(source)
    change("update agent_sessions set created_at = 'once'")(source)
    for _ in range(2):
        assert import_sessions(adapter_store, source).sessions == 2
    assert len(adapter_store.messages.history("a")) == 3


def test_two_files_with_one_session(adapter_store: Store, tmp_path: Path) -> None:
    """Both count their rows from one; nothing is taken for what the other has."""
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    fill(one, "a", [said(1), said(2)])
    fill(two, "a", [said(3), said(4), said(5)])
    for path, count in ((one, 2), (two, 3)):
        assert import_sessions(adapter_store, path).messages == count
        assert import_sessions(adapter_store, path).known == count
    items = asyncio.run(LedgerSession(adapter_store, "a").get_items())
    assert items == [said(n) for n in (1, 2, 3, 4, 5)]


def test_a_session_without_items(adapter_store: Store, source: Path) -> None:
    change("insert into agent_sessions (session_id) values ('empty')")(source)
    assert import_sessions(adapter_store, source).sessions == 3
    assert import_sessions(adapter_store, source).sessions == 3
    assert adapter_store.sessions.get("empty") is not None


@pytest.mark.parametrize("name", ["", "x" * 300])
def test_ids_that_a_store_does_not_take(adapter_store: Store, source: Path, name: str) -> None:
    fill(source, name, [said(1)])
    with pytest.raises(InvalidValue, match="session_id"):
        import_sessions(adapter_store, source)
    done = import_sessions(adapter_store, source, skip_unreadable=True)
    assert (done.sessions, done.unreadable) == (2, 1)


def test_branches_come_along(adapter_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "advanced.db"
    lists: dict[str, list[Any]] = {}

    async def go() -> None:
        theirs = AdvancedSQLiteSession(session_id="a", db_path=path, create_tables=True)
        for n in (1, 2, 3):
            await theirs.add_items([said(n), answer(n)])
        await theirs.create_branch_from_turn(2, "two")
        await theirs.add_items([said(4), answer(4)])
        await theirs.create_branch_from_turn(2, "three")
        await theirs.add_items([said(5)])
        await theirs.switch_to_branch("main")
        await theirs.add_items([said(6)])
        for name in ("main", "two", "three"):
            lists[name] = list(await theirs.get_items(branch_id=name))
        theirs.close()

    asyncio.run(go())
    done = import_sessions(adapter_store, path)
    assert (done.sessions, done.branches) == (1, 2)
    session = LedgerSession(adapter_store, "a")
    assert asyncio.run(session.branches()) == ["main", "three", "two"]
    for name, items in lists.items():
        assert asyncio.run(session.branch(name).get_items()) == items
    # What they share is stored once.
    assert done.messages == len({item["content"] for one in lists.values() for item in one})
    again = import_sessions(adapter_store, path)
    assert (again.messages, again.known) == (0, done.messages)


def spent(path: Path, *answers: str, branch: str = "main") -> Usage:
    """Runs on the SDK's own session, a turn each with a tool call; answers what it counts."""

    async def go() -> Any:
        theirs = AdvancedSQLiteSession(session_id="a", db_path=path, create_tables=True)
        if branch != "main":
            await theirs.create_branch_from_turn(1, branch)
        for text in answers:
            model = Scripted([call("find", {}, "c")], [say(text)])
            agent = Agent(name="clerk", model=model, tools=[find])
            await theirs.store_run_usage(await Runner.run(agent, "Oslo?", session=theirs))
        found = await theirs.get_session_usage()
        theirs.close()
        return found

    found = asyncio.run(go())
    tokens = found["input_tokens"], found["output_tokens"]
    return Usage(*tokens, 40 * found["requests"], 0, 3 * found["requests"], found["total_tokens"])


@function_tool
def find() -> str:
    """Find."""
    return "9:40"


def test_usage_comes_along_once(adapter_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "advanced.db"
    spent(path, "one", "two")
    wanted = spent(path, "three", branch="other")
    assert wanted == Usage(600, 60, 240, 0, 18, 660)
    adapter_store.usage.budget(tokens=10)
    for usages in (3, 0):
        assert import_sessions(adapter_store, path).usages == usages
        (one,) = adapter_store.usage.summary(by=("model", "source"))
        assert (one.usage, one.calls) == (wanted, 3)
        assert one.by == {"model": "unknown", "source": "openai-agents"}
    assert adapter_store.admin.verify("a").ok


def test_a_turn_that_went_on_since(adapter_store: Store, tmp_path: Path) -> None:
    """The SDK replaces its row; what is recorded is what it says then, more or less of it."""
    path = tmp_path / "advanced.db"
    wanted = spent(path, "one", "two")
    import_sessions(adapter_store, path, model="gpt-5")
    for count in (300, 50, 200):
        change(f"update turn_usage set input_tokens = {count} where user_turn_number = 1")(path)
        assert import_sessions(adapter_store, path, model="gpt-5").usages == 1
        assert import_sessions(adapter_store, path, model="gpt-5").usages == 0
        (one,) = adapter_store.usage.summary(session="a")
        assert one.usage == replace(wanted, input=wanted.input - 200 + count)


def test_usage_of_two_files_with_one_session(adapter_store: Store, tmp_path: Path) -> None:
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    wanted = spent(one, "one") + spent(two, "two")
    for table in ("agent_sessions", "agent_messages"):
        change(f"update {table} set created_at = '2025-01-01 10:00:00'")(two)
    for path in (one, two, one, two):
        import_sessions(adapter_store, path)
    (found,) = adapter_store.usage.summary(session="a")
    assert found.usage == wanted


@pytest.mark.parametrize("value", ["-1", "'many'", "1.5", str(1 << 53)])
def test_usage_that_is_none(adapter_store: Store, tmp_path: Path, value: str) -> None:
    path = tmp_path / "advanced.db"
    spent(path, "one", "two")
    change(f"update turn_usage set output_tokens = {value} where user_turn_number = 1")(path)
    with pytest.raises(Corrupt, match=r"turn_usage\[1\].output_tokens"):
        import_sessions(adapter_store, path)
    done = import_sessions(adapter_store, path, skip_unreadable=True)
    assert (done.usages, done.unreadable) == (1, 1)


def change(statement: str) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)

    return do


def overwrite(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink(missing_ok=True)
    path.write_bytes(b"no database at all" * 100)


@pytest.mark.parametrize(
    ("harm", "error", "match"),
    [
        (Path.unlink, NotADatabase, "no file"),
        (overwrite, NotADatabase, "not a database"),
        (change("drop table agent_messages"), NotADatabase, "no table agent_messages"),
        (
            change("alter table agent_messages rename column message_data to body"),
            NotSupported,
            "without message_data",
        ),
        (change("update agent_messages set message_data = '{' where id = 2"), Corrupt, "2"),
        (change("update agent_messages set message_data = '[1]' where id = 2"), Corrupt, "object"),
        (
            change("""update agent_messages set message_data = '{"role": "user", "x": NaN}'"""),
            Corrupt,
            "x",
        ),
    ],
)
def test_what_can_not_be_read(
    adapter_store: Store, source: Path, harm: Any, error: type[Exception], match: str
) -> None:
    harm(source)
    with pytest.raises(error, match=match):
        import_sessions(adapter_store, source)
    assert adapter_store.sessions.get("a") is None


def test_rows_that_are_no_items_may_be_left_out(adapter_store: Store, source: Path) -> None:
    change("update agent_messages set message_data = '{' where id = 2")(source)
    done = import_sessions(adapter_store, source, skip_unreadable=True)
    assert done == Imported(sessions=2, messages=3, unreadable=1)
    assert asyncio.run(LedgerSession(adapter_store, "a").get_items()) == fill(source, "a", [])
