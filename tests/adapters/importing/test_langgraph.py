"""Threads of LangGraph's own savers go on in a store where they were."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import apsw
import psycopg
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import TASKS
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

from ledgerstone import Store
from ledgerstone.adapters.importing.langgraph_source import Write
from ledgerstone.adapters.importing.langgraph_threads import Imported, import_sessions, in_place
from ledgerstone.adapters.langgraph import LedgerSaver
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.errors import Corrupt, NotADatabase, NotSupported, Unavailable
from tests.adapters.importing.origins import (
    EDITS,
    Origin,
    filled,
    history,
    postgres_origin,
    say,
    sqlite_origin,
)
from tests.adapters.langgraph.graphs import chat, programmable, thread


@pytest.fixture(params=("sqlite", pytest.param("postgres", marks=pytest.mark.slow)))
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Origin]:
    """Where a stock saver writes."""
    if request.param == "sqlite":
        yield sqlite_origin(tmp_path)
        return
    with postgres_origin(request.getfixturevalue("postgres_url")) as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Origin:
    return sqlite_origin(tmp_path)


def test_a_thread_goes_on_where_it_was(origin: Origin, adapter_store: Store) -> None:
    with origin.opened() as saver:
        graph = filled(saver)
        told = import_sessions(adapter_store, origin.source)
        stock = {name: history(graph, name) for name in ("one", "two")}
        ours = programmable(LedgerSaver(adapter_store))
        assert {name: history(ours, name) for name in ("one", "two")} == stock
        assert told.sessions == 2
        assert told.checkpoints > 20
        assert (told.known, told.pickled, told.refused, told.damaged) == (0, 0, 0, 0)
        # The same graph on each: its names go on counting.
        texts = {}
        for name, checkpointer in (("stock", saver), ("ours", LedgerSaver(adapter_store))):
            graph.checkpointer = checkpointer
            for n in ("one", "two"):
                done = graph.invoke(Command(resume="yes"), thread(n))
                texts[name, n] = ([one.text for one in done["messages"]], done["notes"])
            say(graph, "one", "say")
        assert texts["ours", "one"] == texts["stock", "one"]
        assert texts["ours", "two"] == texts["stock", "two"]
        assert "you said yes" in texts["ours", "one"][0]
    assert adapter_store.messages.last("one", 1)[0].text.startswith("I have")


@pytest.mark.parametrize("name", ["edits", "x" * 300, "two\nlines"])
def test_lists_that_were_edited_and_names_of_any_kind(
    origin: Origin, adapter_store: Store, name: str
) -> None:
    with origin.opened() as saver:
        graph = programmable(saver)
        say(graph, name, *EDITS)
        import_sessions(adapter_store, origin.source)
        ours = programmable(LedgerSaver(adapter_store))
        assert history(ours, name) == history(graph, name)
        assert import_sessions(adapter_store, origin.source).checkpoints == 0


@pytest.mark.slow
def test_tasks_to_be_started_of_the_old_form(postgres_url: str, adapter_store: Store) -> None:
    with postgres_origin(postgres_url) as origin, origin.opened() as saver:
        config = thread("t", checkpoint_ns="")
        versions = {"x": saver.get_next_version(None, None)}
        for n in range(2):
            checkpoint = empty_checkpoint() | {
                "v": 3,
                "channel_values": {"x": [n]},
                "channel_versions": versions,
            }
            config = saver.put(config, checkpoint, {}, versions)
            if n == 0:
                saver.put_writes(config, [(TASKS, Send("leaf", {"n": 1}))], "task")
            versions = {"x": saver.get_next_version(versions["x"], None)}
        stock = saver.get_tuple(config)
        import_sessions(adapter_store, origin.source)
        ours = LedgerSaver(adapter_store).get_tuple(config)
    assert stock.checkpoint["channel_values"][TASKS] == [Send("leaf", {"n": 1})]
    assert ours is not None
    assert ours.checkpoint["channel_values"] == stock.checkpoint["channel_values"]
    assert ours.checkpoint["channel_versions"] == {"x": 2, TASKS: 2}


def test_a_second_run_changes_nothing(origin: Origin, adapter_store: Store) -> None:
    with origin.opened() as saver:
        filled(saver)
    first = import_sessions(adapter_store, origin.source)
    before = [adapter_store.sessions.head(name) for name in ("one", "two")]
    again = import_sessions(adapter_store, origin.source)
    assert again == Imported(sessions=2, known=first.checkpoints)
    assert [adapter_store.sessions.head(name) for name in ("one", "two")] == before


def test_pruned_in_the_store_it_stays_so(origin: Origin, adapter_store: Store) -> None:
    with origin.opened() as stock:
        filled(stock)
    first = import_sessions(adapter_store, origin.source)
    saver = LedgerSaver(adapter_store)
    saver.prune(["one"])
    left = list(saver.list(thread("one")))
    again = import_sessions(adapter_store, origin.source)
    assert again == Imported(sessions=2, known=first.checkpoints)
    assert list(LedgerSaver(adapter_store).list(thread("one"))) == left
    assert adapter_store.admin.verify().ok


def test_a_source_that_has_grown_is_followed(origin: Origin, adapter_store: Store) -> None:
    with origin.opened() as saver:
        graph = filled(saver)
        import_sessions(adapter_store, origin.source)
        graph.invoke(Command(resume="later"), thread("one"))
        say(graph, "one", "call")
        told = import_sessions(adapter_store, origin.source)
        assert told.checkpoints > 0
        ours = programmable(LedgerSaver(adapter_store))
        assert history(ours, "one") == history(graph, "one")


def test_the_source_is_not_touched(file: Origin, adapter_store: Store) -> None:
    with file.opened() as saver:
        filled(saver)
    before = hashlib.sha256(Path(file.source).read_bytes()).digest()
    import_sessions(adapter_store, file.source)
    assert hashlib.sha256(Path(file.source).read_bytes()).digest() == before


def test_another_tenant_sees_nothing(file: Origin, adapter_store: Store) -> None:
    with file.opened() as saver:
        filled(saver)
    import_sessions(adapter_store.for_tenant("a"), file.source, only=lambda name: name == "one")
    assert adapter_store.for_tenant("a").sessions.get("two") is None
    other = programmable(LedgerSaver(adapter_store.for_tenant("b")))
    assert other.get_state(thread("one")).values == {}


def test_an_imported_thread_takes_as_much_as_one_that_was_made_here(
    file: Origin, tmp_path: Path
) -> None:
    """Messages are shared between checkpoints and writes, whichever way they came."""

    def talk(saver: Any) -> None:
        graph = chat(saver)
        for n in range(30):
            text = f"{n} ".ljust(1000, "u")
            graph.invoke({"messages": [HumanMessage(text, id=f"u{n}")]}, thread("t"))

    with file.opened() as saver:
        talk(saver)
    for name in ("imported", "made"):
        with Store.open(tmp_path / name, durability="process") as store:
            import_sessions(store, file.source) if name == "imported" else talk(LedgerSaver(store))
    imported, made = ((tmp_path / name).stat().st_size for name in ("imported", "made"))
    assert imported < 1.1 * made


KILLED = """
import os, signal, sys
from ledgerstone import Store
from ledgerstone.adapters.importing.langgraph_threads import import_sessions
from ledgerstone.adapters.langgraph.saver import LedgerSaver

left = int(sys.argv[3])
put = LedgerSaver.put
def counted(self, *given):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return put(self, *given)
LedgerSaver.put = counted
with Store.open(sys.argv[2]) as store:
    import_sessions(store, sys.argv[1])
"""


@pytest.mark.crash
def test_goes_on_after_a_kill(file: Origin, tmp_path: Path) -> None:
    target = str(tmp_path / "target.db")
    with file.opened() as saver:
        graph = filled(saver)
        stock = {name: history(graph, name) for name in ("one", "two")}
    for count in (1, 6, 9):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, file.source, target, str(count)],
            timeout=60,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
    with Store.open(target) as store:
        told = import_sessions(store, file.source)
        assert told.known == 16
        ours = programmable(LedgerSaver(store))
        assert {name: history(ours, name) for name in ("one", "two")} == stock


class Bomb:
    """Whoever unpickles this makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.mkdir, (self.path,))


@dataclass
class Plan:
    """A class of the user's."""

    city: str


class Holder(TypedDict, total=False):
    held: Any
    n: int


def holding(saver: Any, value: Any) -> Any:
    """A graph whose state holds something odd after its first step."""
    builder = StateGraph(Holder)
    builder.add_node("hold", lambda state: {"held": value, "n": 1})
    builder.add_edge(START, "hold")
    builder.add_edge("hold", END)
    return builder.compile(checkpointer=saver)


def test_nothing_is_unpickled(file: Origin, adapter_store: Store, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    with file.opened() as saver:
        saver.serde = JsonPlusSerializer(pickle_fallback=True)
        holding(saver, Bomb(str(trap))).invoke({"n": 0}, thread("t"))
    with pytest.raises(NotSupported, match="pickle"):
        import_sessions(adapter_store, file.source)
    told = import_sessions(adapter_store, file.source, skip_unreadable=True)
    assert told.pickled > 0
    assert told.checkpoints + told.known > 0
    assert not trap.exists()


@pytest.mark.filterwarnings("ignore:Deserializing unregistered type:UserWarning")
def test_own_classes_need_leave(origin: Origin, adapter_store: Store) -> None:
    with origin.opened() as saver:
        holding(saver, Plan("Oslo")).invoke({"n": 0}, thread("t"))
    with pytest.raises(NotSupported, match="Plan"):
        import_sessions(adapter_store, origin.source)
    told = import_sessions(adapter_store, origin.source, skip_unreadable=True)
    assert told.refused > 0
    store = adapter_store.for_tenant("trusting")
    import_sessions(store, origin.source, allow=[Plan])
    state = holding(LedgerSaver(store, allow=[Plan]), None).get_state(thread("t"))
    assert state.values == {"held": Plan("Oslo"), "n": 1}


def broken(file: Origin, statement: str) -> str:
    """The file after a change that no saver would make."""
    with file.opened() as saver:
        holding(saver, "x").invoke({"n": 0}, thread("t"))
    connection = apsw.Connection(file.source)
    connection.execute(statement)
    connection.close()
    return file.source


def test_a_thread_without_a_name_is_not_passed_over(origin: Origin, adapter_store: Store) -> None:
    with origin.opened() as saver:
        graph = programmable(saver)
        say(graph, "", "say")
        say(graph, "t", "say")
    with pytest.raises(NotSupported, match="name is empty"):
        import_sessions(adapter_store, origin.source)
    told = import_sessions(adapter_store, origin.source, skip_unreadable=True)
    assert (told.sessions, told.refused) == (1, 1)


def test_damage_is_named(file: Origin, adapter_store: Store) -> None:
    newest = "select max(checkpoint_id) from checkpoints"
    source = broken(
        file, f"update checkpoints set checkpoint = x'c1ff' where checkpoint_id = ({newest})"
    )
    [(id,)] = apsw.Connection(source).execute(newest)
    with pytest.raises(Corrupt, match=id):
        import_sessions(adapter_store, source)
    assert import_sessions(adapter_store, source, skip_unreadable=True).damaged == 1


def test_what_no_store_takes_is_named(file: Origin, adapter_store: Store) -> None:
    source = broken(file, "update checkpoints set checkpoint_ns = printf('%.2000c', 'n')")
    with pytest.raises(NotSupported, match=r"of thread 't': .*checkpoint_ns"):
        import_sessions(adapter_store, source)
    told = import_sessions(adapter_store, source, skip_unreadable=True)
    assert (told.sessions, told.checkpoints) == (1, 0)
    assert told.refused > 0


NEWER = '{"v": 9, "id": "1", "ts": "", "channel_versions": {}, "versions_seen": {}}'


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("drop table checkpoints", NotADatabase),
        ("alter table checkpoints rename column checkpoint to body", NotSupported),
        ("update checkpoints set metadata = 'no'", Corrupt),
        ("update checkpoints set type = 'mystery'", Corrupt),
        ("update checkpoints set type = 'json', checkpoint = '[]'", Corrupt),
        ("update checkpoints set type = 'json', checkpoint = '{}'", Corrupt),
        (f"update checkpoints set type = 'json', checkpoint = '{NEWER}'", NotSupported),
    ],
)
def test_strange_files_are_refused(
    file: Origin, adapter_store: Store, statement: str, error: type[Exception]
) -> None:
    source = broken(file, statement)
    with pytest.raises(error):
        import_sessions(adapter_store, source)
    assert list(adapter_store.sessions.iter()) == []


def test_what_is_no_database(adapter_store: Store, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to be one" * 100)
    with pytest.raises(NotADatabase):
        import_sessions(adapter_store, tmp_path / "text")
    with pytest.raises(NotADatabase):
        import_sessions(adapter_store, tmp_path / "absent")


@pytest.mark.slow
def test_a_server_that_is_not_there_or_newer(adapter_store: Store, postgres_url: str) -> None:
    with pytest.raises(Unavailable) as caught:
        import_sessions(adapter_store, "postgresql://ada:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)
    assert "check host and port" in str(caught.value)
    dsn = parse_target(postgres_url).dsn
    with pytest.raises(NotADatabase, match="check the name"):
        import_sessions(adapter_store, f"{dsn.rpartition('/')[0]}/absent")
    with postgres_origin(postgres_url) as origin:
        with origin.opened() as saver:
            saver.conn.execute("insert into checkpoint_migrations values (99)")
        with pytest.raises(NotSupported, match="99"):
            import_sessions(adapter_store, origin.source)


def write(idx: int) -> Write:
    return Write("", "task", idx, f"c{idx}", "null", b"")


def test_writes_keep_their_numbers() -> None:
    given = [write(-3), write(0), write(2)]
    assert in_place(given) == [write(0), write(-3), write(2)]
    assert in_place([write(-1), write(0), write(1)]) == [write(0), write(1), write(-1)]
    assert in_place([write(3)]) == [write(3)]


@pytest.mark.slow
def test_a_view_of_a_server_is_refused(postgres_url: str, adapter_store: Store) -> None:
    with postgres_origin(postgres_url) as origin:
        with origin.opened():
            pass
        with psycopg.connect(origin.source, autocommit=True) as db:
            db.execute("alter table checkpoint_migrations rename to theirs")
            db.execute("create view checkpoint_migrations as select 1 as v")
        with pytest.raises(NotSupported, match="checkpoint_migrations is a view"):
            import_sessions(adapter_store, origin.source)
