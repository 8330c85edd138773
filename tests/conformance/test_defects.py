"""A defect of our own comes out as it is: never as damage, nothing written, the store goes on.

Handlers are the code that may have one. Each of them is replaced by one that raises what a defect
raises, at its beginning and after all its writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import apsw
import msgspec
import pytest

from ledgerstone import AsyncStore, user
from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command, Query
from ledgerstone.commands.blobs import PutChunk
from ledgerstone.commands.transfer import ImportRows
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.postgres import connections as postgres
from ledgerstone.engines.postgres import overrides as postgres_overrides
from ledgerstone.engines.sqlite import backend as sqlite
from ledgerstone.engines.sqlite import own_queries
from ledgerstone.errors import Corrupt
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.wrappers import Wrapper
from tests.conformance.conftest import bed_of
from tests.faults.api_calls import WRITES, prepare

DEFECTS: tuple[type[Exception], ...] = (
    AttributeError, TypeError, AssertionError, KeyError, IndexError, ZeroDivisionError, ValueError,
)  # fmt: skip
REGISTRIES: dict[str, tuple[dict[type, Any], ...]] = {
    "memory": (HANDLERS,),
    "file": (HANDLERS,),
    "sqlite": (HANDLERS, own_queries.OWN),
    "postgres": (HANDLERS, postgres_overrides.OWN),
}
# Bytes in the database, and a copy without rows, which has no part that is carried out.
NOT_IN_FILES = (PutChunk, ImportRows)
CROWD = 12
WAIT_S = 60


@pytest.fixture(params=["memory", "file", "sqlite", "postgres", "postgres-async"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bed]:
    """Those whose handlers run in this process."""
    with bed_of(str(request.param), str(tmp_path / "store.db"), ManualClock(), request) as bed:
        yield bed


class Defects:
    """Replaces handlers; `met` counts how often one was reached, `refused` how often it refused.

    SQLite lets a handler decide once more when it failed on an assumption, and it may refuse then.
    """

    def __init__(self, bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
        self._registries = REGISTRIES[bed.name]
        self._patch = monkeypatch
        self.met = self.refused = 0

    def plant(self, kind: type, error: Exception, *, late: bool = False) -> None:
        for registry in self._registries:
            if kind in registry:
                self._patch.setitem(registry, kind, self._faulty(registry[kind], error, late))

    def _faulty(self, real: Callable[..., Any], error: Exception, late: bool) -> Callable[..., Any]:
        async def awaited(tx: Any, command: Any) -> Any:
            if late:
                try:
                    await real(tx, command)
                except Exception:
                    self.refused += 1
                    raise
            self.met += 1
            raise error

        return awaited


SIMPLE: dict[Any, Any] = {
    str: "s", int: 1, bytes: b"x" * 32, bool: False, float: 1.0, Any: None, list: [], dict: {},
    tuple: (), frozenset: frozenset(), set: set(), Mapping: {}, Sequence: (),
}  # fmt: skip


def make(kind: Any) -> Any:
    """Some value of a type: its command reaches the handler, and nobody looks at it before."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind)
        fields = msgspec.structs.fields(kind)
        return kind(**{f.name: make(hints[f.name]) for f in fields if f.required})
    if get_origin(kind) in (Union, UnionType):
        return make(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    return SIMPLE[get_origin(kind) or kind]


def carry_out(backend: Bed, command: Any) -> Any:
    return backend.ask(command) if isinstance(command, Query) else backend.write(command)


def _raised(call: Callable[[Any, str], Any], store: Any) -> Exception | None:
    try:
        call(store, "m1")
    except Exception as error:
        return error
    return None


def seen(bed: Bed) -> list[Any]:
    store = bed.store
    lists = [store.sessions.list().items, store.memories.search(), store.usage.summary()]
    return [bed.snapshot("s"), bed.snapshot("other"), lists]


@pytest.mark.promise(229)
def test_a_defect_in_any_handler_comes_out_as_it_is(
    backend: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres.Connections, "fast", lambda face, command: None)
    backend.store.messages.append("s", user("one", id="m1"), create=True)
    left_out = NOT_IN_FILES if backend.name == "file" else ()
    every = [kind for registry in REGISTRIES[backend.name] for kind in registry]
    kinds = [kind for kind in dict.fromkeys(every) if kind not in left_out]
    assert len(kinds) > 100
    for n, kind in enumerate(kinds):
        for defect in DEFECTS if n % 8 == 0 else DEFECTS[:4]:
            command, error = make(kind), defect("a defect of our own")
            with monkeypatch.context() as patch:
                defects = Defects(backend, patch)
                defects.plant(kind, error)
                with pytest.raises(defect) as found:
                    carry_out(backend, command)
                assert found.value is error, kind
                assert any(entry.name == "awaited" for entry in found.traceback)
    assert backend.texts("s") == ["one"]
    assert backend.store.admin.verify().ok


@pytest.mark.promise(229)
def test_a_defect_after_the_writes_leaves_nothing_written(
    backend: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres.Connections, "fast", lambda face, command: None)
    prepare(backend.store)
    before, error = seen(backend), AttributeError("a defect of our own")
    reached = 0
    for name, call in WRITES.items():
        with monkeypatch.context() as patch:
            defects = Defects(backend, patch)
            for kind in [kind for kind in HANDLERS if issubclass(kind, Command)]:
                defects.plant(kind, error, late=True)
            raised = _raised(call, backend.store)
            # Else it was refused before, or by the handler itself.
            assert raised is error or defects.refused or not defects.met, name
            assert not isinstance(raised, Corrupt), name
            reached += defects.met
        assert seen(backend) == before, name
    assert reached > len(WRITES) // 3
    backend.store.messages.append("s", user("goes on", id="on"))
    assert backend.texts("s")[-1] == "goes on"


@pytest.mark.promise(229)
def test_a_defect_of_one_in_a_group_is_its_own(
    backend: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Group commits and planned calls: everybody is answered, and only one with the defect."""
    ids = [f"s{n}" for n in range(CROWD)]
    for id in ids:
        backend.store.messages.append(id, user("one"), create=True)

    def faulty(real: Callable[..., Any], tx: Any, command: Any) -> Any:
        answer = real(tx, command)
        if command.session == "s3":
            if asyncio.iscoroutine(answer):
                answer.close()
            raise AttributeError("a defect of our own")
        return answer

    for registry in REGISTRIES[backend.name]:
        if CommitTurn in registry:
            monkeypatch.setitem(registry, CommitTurn, partial(faulty, registry[CommitTurn]))
    port = _inner(backend.port)

    store = AsyncStore(port, tenant="default", clock=backend.clock)

    async def together() -> Sequence[Any]:
        calls = [store.messages.append(id, user("two")) for id in ids]
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), WAIT_S)

    answers = asyncio.run(together())
    failed = {id: one for id, one in zip(ids, answers, strict=True) if isinstance(one, Exception)}
    assert list(failed) == ["s3"], failed
    assert type(failed["s3"]) is AttributeError
    monkeypatch.undo()
    assert backend.texts("s3") == ["one"]
    assert backend.texts("s4") == ["one", "two"]
    backend.store.messages.append("s3", user("goes on"))


def _inner(port: Backend) -> Backend:
    """The async face itself."""
    return port.inner if isinstance(port, Wrapper) else port


@pytest.mark.promise(229)
def test_a_row_that_does_not_fit_its_column_is_damage(tmp_path: Path) -> None:
    """The other side: a value of another type in a page is Corrupt, with its place."""
    path = str(tmp_path / "store.db")
    backend = sqlite.open_sqlite(path, clock=ManualClock())
    with Bed("sqlite", lambda: backend, clock=ManualClock()) as bed:
        bed.store.messages.append("s", user("one", id="m1"), create=True)
    connection = apsw.Connection(path)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.execute("PRAGMA writable_schema = 1")
    loosen = "update sqlite_schema set sql = replace(sql, 'strict', '') where name = 'heads'"
    connection.execute(loosen)
    connection.close()
    connection = apsw.Connection(path)
    connection.execute("update heads set revision = 'three'")
    connection.execute("PRAGMA writable_schema = 1")
    connection.execute(
        "update sqlite_schema set sql = sql || ' strict' where name = 'heads' and type = 'table'"
    )
    connection.close()
    reopened = sqlite.open_sqlite(path, clock=ManualClock())
    with Bed("sqlite", lambda: reopened, clock=ManualClock()) as bed:
        with pytest.raises(Corrupt) as found:
            bed.store.messages.append("s", user("two"))
        assert (found.value.table, found.value.field) == ("heads", "revision")
