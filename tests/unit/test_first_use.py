"""Imports on first use: how few modules an opening needs, and that nothing is lost by it."""

from __future__ import annotations

import ast
import importlib
import pickle
import pkgutil
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ledgerstone
from ledgerstone import AsyncStore, Store, commands, errors, user
from ledgerstone.commands import Command, Query
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.connect import open_backend
from ledgerstone.engines.sqlite.own_queries import OWN
from ledgerstone.engines.sqlite.reads import OWN_QUERIES, POINT_QUERIES
from ledgerstone.handlers import registry
from ledgerstone.handlers.all import HANDLERS

OPENING_MAX = 90
"""Modules of ours that opening a SQLite store may import; it was 87."""
APPEND_MAX = 150
"""The same with a first append; it was 146."""
OPENING = """
    import sys
    from ledgerstone import Store
    Store.open(sys.argv[1]).close()
"""
OPENING_ASYNC = """
    import asyncio, sys
    from ledgerstone import AsyncStore
    async def main():
        store = await AsyncStore.open(sys.argv[1])
        await store.close()
    asyncio.run(main())
"""
APPEND = """
    import sys
    from ledgerstone import Store, user
    with Store.open(sys.argv[1]) as store:
        store.messages.append("chat", user("hello"), create=True)
"""


def run(program: str, *arguments: str) -> str:
    """What a program in a fresh interpreter prints."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_after(program: str, folder: Path) -> set[str]:
    shown = textwrap.dedent(program) + "\nprint(*sys.modules)"
    return set(run(shown, str(folder / "store.db")).split())


@pytest.mark.parametrize(
    ("program", "most"),
    [(OPENING, OPENING_MAX), (OPENING_ASYNC, OPENING_MAX), (APPEND, APPEND_MAX)],
    ids=["opening", "opening-async", "append"],
)
def test_a_program_imports_what_it_uses(program: str, most: int, tmp_path: Path) -> None:
    found = modules_after(program, tmp_path)
    ours = {name for name in found if name.partition(".")[0] == "ledgerstone"}
    assert len(ours) <= most, sorted(ours)
    engines = {name.split(".")[2] for name in ours if name.startswith("ledgerstone.engines.")}
    assert not engines & {"memory", "postgres"}
    others = {"numpy", "random", "secrets", "urllib.parse", "pathlib", "psycopg", "asyncpg"}
    if program is OPENING_ASYNC:
        others -= {"random", "urllib.parse", "pathlib"}  # asyncio may import them.
    assert not found & others


def all_kinds() -> set[type]:
    for module in pkgutil.iter_modules(commands.__path__, "ledgerstone.commands."):
        importlib.import_module(module.name)
    kinds: list[type] = [Command, Query]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {kind for kind in kinds if kind.__module__.startswith("ledgerstone.commands.")}


def test_the_table_of_handlers_names_each_command_and_its_module_once() -> None:
    kinds = all_kinds()
    named = [name for names in registry.MODULES.values() for name in names.split()]
    assert [name for name, times in Counter(named).items() if times > 1] == []
    assert sorted(kind.__name__ for kind in kinds) == sorted(named)
    assert set(HANDLERS) == kinds
    module_of = {name: m for m, names in registry.MODULES.items() for name in names.split()}
    for kind, handler in HANDLERS.items():
        assert handler.__module__ == f"ledgerstone.handlers.{module_of[kind.__name__]}", kind


def test_a_command_has_one_handler() -> None:
    async def other(tx: Any, command: CommitTurn) -> None: ...

    with pytest.raises(ValueError, match="CommitTurn has two handlers"):
        registry.handles(CommitTurn)(other)
    assert registry.handler_of(type("CommitTurn", (), {})) is None
    assert registry.handler_of(type("Unheard", (), {})) is None
    with pytest.raises(KeyError):
        _ = HANDLERS[type("Unheard", (), {})]


def test_queries_that_are_known_by_name_exist() -> None:
    assert {kind.__name__ for kind in OWN} == OWN_QUERIES
    named = {kind.__name__ for kind in all_kinds()}
    assert POINT_QUERIES | {"ReadMessages"} <= named


def test_type_checkers_see_the_public_names_that_are_imported_on_first_use() -> None:
    tree = ast.parse(Path(ledgerstone.__file__).read_text("utf-8"))
    seen: dict[str, str] = {}
    for block in tree.body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for one in block.body:
                assert isinstance(one, ast.ImportFrom)
                seen |= {alias.name: f"{one.module}" for alias in one.names}
    table: dict[str, str] = vars(ledgerstone)["_MODULE_OF"]
    assert seen == {name: f"ledgerstone.{module}" for name, module in table.items()}
    assert set(ledgerstone.__all__) - seen.keys() <= vars(errors).keys()


def test_public_names_are_what_they_are_where_they_live() -> None:
    program = """
        import ledgerstone, sys
        assert set(ledgerstone.__all__) <= set(dir(ledgerstone))
        assert "ledgerstone.records.messages" not in sys.modules
        from ledgerstone import *
        from ledgerstone.records.messages import Message as Same
        assert Message is Same is ledgerstone.Message
        assert hasattr(ledgerstone, "Prices") and not hasattr(ledgerstone, "Shop")
    """
    run(program)
    given = user("hello", id="m1")
    assert pickle.loads(pickle.dumps(given)) == given


@pytest.mark.parametrize("kind", [Store, AsyncStore])
def test_namespaces_are_listed_and_made_once(kind: Any) -> None:
    names = {name for name in kind.__annotations__ if not name.startswith("_")}
    assert names <= set(dir(kind))
    backend = open_backend("memory://")
    store = kind(backend)
    for name in names:
        namespace = getattr(store, name)
        assert type(namespace).__name__ == kind.__annotations__[name]
        assert type(namespace).__module__.rpartition(".")[0] == kind.__module__.rpartition(".")[0]
        assert getattr(store, name) is namespace
    assert "namespace" in repr(kind.messages)
    backend.close()


def test_threads_that_ask_at_once_get_one_namespace() -> None:
    with Store.open("memory://") as store:
        found: list[object] = []
        start = threading.Barrier(8)

        def ask() -> None:
            start.wait()
            found.append(store.messages)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert {id(one) for one in found} == {id(store.messages)}


def test_the_first_calls_of_many_threads(tmp_path: Path) -> None:
    """Each call imports, in another order, while others commit: nothing waits for ever or fails."""
    program = """
        import sys, threading
        from ledgerstone import Store
        sys.setswitchinterval(1e-5)
        store = Store.open(sys.argv[1])
        start, failed = threading.Barrier(12), []
        def append(n):
            from ledgerstone import user
            store.messages.append(f"s{n}", user("hello"), create=True)
        def turn(n):
            with store.turns.begin(f"s{n}", create=True) as turn:
                turn.user("hello")
                turn.note("m", "k", 1)
        calls = [
            append,
            turn,
            lambda n: store.sessions.ensure(f"s{n}"),
            lambda n: store.memories.put(("a",), f"k{n}", 1),
            lambda n: store.admin.verify(),
            lambda n: store.runs.list(),
        ]
        def work(n):
            start.wait()
            try:
                for step in range(len(calls)):
                    calls[(n + step) % len(calls)](n)
            except BaseException as error:
                failed.append(repr(error))
        threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
        for thread in threads: thread.start()
        for thread in threads: thread.join(100)
        assert not failed, failed
        assert not any(thread.is_alive() for thread in threads)
        store.close()
    """
    run(program, str(tmp_path / "store.db"))


INTERRUPTED = """
    import builtins, importlib.abc, sys
    from importlib.machinery import PathFinder

    class Interrupting(importlib.abc.MetaPathFinder):
        '''Ctrl-C in each import of ours, once: before it begins, or after it ended.'''
        def __init__(self):
            self.met = set()
        def find_spec(self, name, path=None, target=None):
            if not name.startswith("ledgerstone.") or name in self.met:
                return None
            self.met.add(name)
            if sys.argv[2] == "before":
                raise KeyboardInterrupt
            spec = PathFinder.find_spec(name, path, target)
            load = spec.loader.exec_module
            def exec_module(module):
                load(module)
                raise KeyboardInterrupt
            spec.loader.exec_module = exec_module
            return spec

    def again(call):
        for _ in range(400):
            try:
                return call()
            except KeyboardInterrupt:
                pass
        raise AssertionError("interrupted for ever")

    import ledgerstone
    sys.meta_path.insert(0, Interrupting())
    store = again(lambda: ledgerstone.Store.open(sys.argv[1]))
    made = again(lambda: [ledgerstone.user("one", id="m1"), ledgerstone.assistant("two", id="m2")])
    again(lambda: store.messages.append("chat", *made, create=True))
    again(lambda: store.memories.put(("a",), "k", 1))
    def turn():
        turn = store.turns.begin("chat", id="t1")
        turn.add(ledgerstone.user("three", id="m3"))
        turn.note("m3", "k", 1)
        turn.state(a=1)
        turn.commit()
    again(turn)
    found = again(lambda: store.messages.list("chat")).items
    assert [one.id for one in found] == ["m1", "m2", "m3"]
    assert again(lambda: store.admin.verify()).ok
    again(store.close)
    again(lambda: ledgerstone.Store.open(sys.argv[1])).close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_in_any_import_leaves_a_store_that_works(when: str, tmp_path: Path) -> None:
    run(INTERRUPTED, str(tmp_path / "store.db"), when)


def test_ctrl_c_between_two_handlers_of_a_module(tmp_path: Path) -> None:
    program = """
        import sys
        from ledgerstone import Store, user
        from ledgerstone.handlers import registry
        real, left = registry.handles, [1]
        def handles(kind):
            if kind.__name__ == "GetTurn" and left:
                left.pop()
                raise KeyboardInterrupt
            return real(kind)
        registry.handles = handles
        with Store.open(sys.argv[1]) as store:
            try:
                store.messages.append("chat", user("hello", id="m1"), create=True)
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError("not interrupted")
            store.messages.append("chat", user("hello", id="m1"), create=True)
            assert len(store.messages.list("chat").items) == 1
    """
    run(program, str(tmp_path / "store.db"))
