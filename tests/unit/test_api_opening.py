"""Opening, tenants, closing: what a handle is before any data is touched."""

from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ledgerstone
from ledgerstone import AsyncStore, InvalidValue, ManualClock, Misuse, NotSupported, Store, user
from ledgerstone.commands.sessions import GetHead, GetSession
from ledgerstone.connect import open_backend
from ledgerstone.errors import StoreClosed, Unavailable


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("", "sqlite:///path"),
        ("mysql://host/db", "unknown scheme 'mysql'"),
        ("memory://name", "takes no name"),
        ("sqlite:relative.db", "sqlite:///relative.db"),
        ("sqlite://host/x.db", "sqlite:///relative.db"),
        ("sqlite:///", "sqlite:///relative.db"),
        ("memory:", "memory://"),
        ("postgresql:/ann:secret@db/agents", ":// is missing"),
        ("postgresql//ann:secret@db/agents", ":// is missing"),
        ("postgres:agents", ":// is missing"),
        ("file:", "file:///absolute/directory"),
        ("file://host/x", "file:///absolute/directory"),
        ("file:///", "file:///absolute/directory"),
        ("file:///a%00b", "file:///absolute/directory"),
        ("a\0b", "memory://"),
        (7, "got int"),
    ],
)
def test_a_url_that_means_nothing_says_what_would(url: Any, part: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Store.open(url)
    assert caught.value.field == "url"
    assert part in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_both_names_of_a_server_are_understood(scheme: str) -> None:
    with pytest.raises(Unavailable, match="cannot connect to"):
        Store.open(f"{scheme}://127.0.0.1:9/db?connect_timeout_s=2")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("durability", "maybe"), ("pool_size", 0), ("pool_size", True)),
        *(("tenant", ""), ("tenant", 5)),
        *(("blobs", ""), ("blobs", 7), ("blobs", "a\0b"), ("blobs", "ftp://host/b")),
        *(("vectors", ""), ("vectors", "exact"), ("vectors", 7)),
        *(("prices", 7), ("prices", ["m"]), ("prices", "no/such/file.json")),
        *(("prices", {"": {}}), ("prices.m", {"m": 1})),
        ("prices.m.output", {"m": {"input": 1}}),
    ],
)
def test_a_wrong_option_names_its_field(field: str, value: Any) -> None:
    options: dict[str, Any] = {field.partition(".")[0]: value}
    with pytest.raises(InvalidValue) as caught:
        Store.open("memory://", **options)
    assert caught.value.field == field


def test_memory_can_not_be_durable() -> None:
    with pytest.raises(NotSupported):
        Store.open("memory://", durability="power")


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_path_and_a_sqlite_url_are_the_same_place(tmp_path: Path, form: str) -> None:
    place = tmp_path / "a b%c.db"
    with Store.open(place) as store:
        store.messages.append("s", user("hi"), create=True)
    url = form.format(str(place).replace("%", "%25") if form != "{}" else place)
    with Store.open(url) as store:
        assert store.messages.count("s") == 1


def test_a_file_url_names_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slashes lead to an absolute one, however many there are."""
    monkeypatch.chdir(tmp_path)
    with Store.open("file:a b/journals") as store:
        store.messages.append("s", user("hi"), create=True)
    for url in (
        f"file://{tmp_path}/a%20b/journals",
        f"file:///{tmp_path}/a b/journals/",
        f"file:{tmp_path}/a b/journals",
    ):
        with Store.open(url) as store:
            assert store.messages.count("s") == 1
            assert store.capabilities.name == "file"
    assert (tmp_path / "a b" / "journals" / "store.json").is_file()


def test_the_async_store_opens_by_await_and_by_async_with() -> None:
    async def main() -> None:
        store = await AsyncStore.open("memory://")
        await store.messages.append("s", user("hi"), create=True)
        assert await store.messages.count("s") == 1
        await store.close()
        with pytest.raises(StoreClosed):
            await store.messages.count("s")
        async with AsyncStore.open("memory://") as other, other as same:
            assert same is other
        with pytest.raises(StoreClosed):
            await other.sessions.get("s")

    asyncio.run(main())


def test_opening_does_not_block_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def slow(*args: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return open_backend(*args, **options)

    monkeypatch.setattr("ledgerstone.api.store.open_backend", slow)

    async def main() -> None:
        async with AsyncStore.open("memory://"):
            pass

    asyncio.run(main())
    assert threads != [threading.main_thread()]


def test_a_cancelled_opening_leaves_nothing_open(tmp_path: Path) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(asyncio.wait_for(_open(tmp_path / "a.db"), 0.0001))
        with pytest.raises((TimeoutError, asyncio.CancelledError)):
            await task

    asyncio.run(main())
    gc.collect()
    with Store.open(tmp_path / "a.db") as store:
        assert store.sessions.count() == 0


async def _open(place: Path) -> AsyncStore:
    return await AsyncStore.open(place)


def test_the_blocking_store_works_inside_a_running_loop() -> None:
    async def main() -> int:
        with Store.open("memory://") as store:
            store.messages.append("s", user("hi"), create=True)
            return store.messages.count("s")

    assert asyncio.run(main()) == 1


def test_a_forgotten_store_closes_itself_but_not_under_its_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = []

    class Watched:
        def read(self, queries: list[object]) -> list[bool]:
            return [False for _ in queries]

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr("ledgerstone.api_sync.store.open_backend", lambda *_, **__: Watched())
    store = Store.open("memory://")
    child = store.for_tenant("a")
    messages = child.messages
    del store, child
    gc.collect()
    assert not closed
    del messages
    gc.collect()
    assert closed == [True]

    mine: Any = Watched()
    Store(mine)
    gc.collect()
    assert closed == [True]
    with Store(mine) as store:
        pass
    store.close()
    assert closed == [True, True]


def test_a_tenant_sees_only_its_own() -> None:
    with Store.open("memory://") as store:
        store.messages.append("s", user("mine"), create=True)
        other = store.for_tenant("other")
        assert (store.tenant, other.tenant) == ("default", "other")
        assert other.sessions.get("s") is None
        other.close()
        with pytest.raises(StoreClosed):
            other.sessions.get("s")
        assert store.messages.count("s") == 1
        assert store.for_tenant("other").sessions.count() == 0


def test_closing_the_opener_closes_its_tenants() -> None:
    store = Store.open("memory://")
    child = store.for_tenant("a")
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        child.sessions.count()
    with pytest.raises(StoreClosed):
        store.for_tenant("b").sessions.count()


def test_a_root_handle_refuses_every_data_call() -> None:
    with Store.open("memory://", tenant=None) as root:
        calls: list[Callable[[], object]] = [
            lambda: root.sessions.create(),
            lambda: root.messages.append("s", user("x"), create=True),
            lambda: root.turns.begin("s"),
            lambda: root.leases.take("s"),
            lambda: list(root.messages.iter("s")),
            lambda: list(root.nodes.iter()),
            lambda: root.admin.verify(),
            lambda: root.read(GetSession(tenant="default", id="s")),
        ]
        for call in calls:
            with pytest.raises(Misuse, match="for_tenant"):
                call()
        assert root.admin.tenants() == []
        assert root.admin.health().ok
        root.for_tenant("a").sessions.create(id="s")
        assert root.admin.tenants() == ["a"]


def test_a_batch_read_answers_in_order_and_for_this_tenant_only() -> None:
    with Store.open("memory://") as store:
        store.messages.append("s", user("x"), create=True)
        session, head, none = store.read(
            GetSession(tenant="default", id="s"),
            GetHead(tenant="default", id="s"),
            GetHead(tenant="default", id="t"),
        )
        assert (session.id, head.revision, none) == ("s", 1, None)
        with pytest.raises(InvalidValue):
            store.read(GetSession(tenant="other", id="s"))
        with pytest.raises(InvalidValue):
            store.read("GetSession")  # type: ignore[arg-type]


def test_the_clock_that_was_given_is_the_one_that_counts() -> None:
    clock = ManualClock()
    with Store.open("memory://", clock=clock) as store:
        assert store.sessions.create(id="s").created_us == clock.now_us()


NAMESPACES = (
    *("sessions", "messages", "nodes", "branches", "turns", "drafts"),
    *("leases", "runs", "attachments", "work", "admin"),
    *("blobs", "artifacts", "traces", "reports", "usage", "memories", "embeddings"),
)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_both_faces_have_the_same_names_and_arguments(namespace: str) -> None:
    async def face() -> object:
        async with AsyncStore.open("memory://") as store:
            return getattr(store, namespace)

    with Store.open("memory://") as store:
        blocking, async_ = type(getattr(store, namespace)), type(asyncio.run(face()))
    names = [name for name in dir(async_) if not name.startswith("_")]
    assert names == [name for name in dir(blocking) if not name.startswith("_")]
    for name in names:
        one = inspect.signature(getattr(async_, name)).parameters
        other = inspect.signature(getattr(blocking, name)).parameters
        assert list(one) == list(other)
        assert [p.kind for p in one.values()] == [p.kind for p in other.values()]


def test_every_public_name_is_there() -> None:
    for name in ledgerstone.__all__:
        assert getattr(ledgerstone, name) is not None


def test_the_blocking_face_loads_no_event_loop() -> None:
    code = "import sys, ledgerstone; ledgerstone.Store.open('memory://').close(); "
    code += "sys.exit('asyncio' in sys.modules or 'socket' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError):
        _ = ledgerstone.Shop  # type: ignore[attr-defined]
