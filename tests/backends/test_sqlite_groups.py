"""Group commit from an event loop: everybody is answered, in as few flushes as possible."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import AlreadyExists, AsyncStore, user
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.sqlite.backend import SqliteBackend
from ledgerstone.engines.sqlite.writer import GROUP_MAX
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.tables.memories import SPACES, SpaceRow
from ledgerstone.tables.transaction import Tx


def test_more_turns_at_once_than_fit_into_one_group(tmp_path: Path) -> None:
    """All are sent in one round of the loop, so the writer is called once for several groups."""
    count = 2 * GROUP_MAX + 10

    async def write() -> None:
        async with await AsyncStore.open(tmp_path / "store.db") as store:
            turns = [store.turns.begin(f"s{n % 40}", create=True) for n in range(count)]
            for turn in turns:
                turn.add(user("hello"))
            async with asyncio.timeout(60):
                done = await asyncio.gather(*(turn.commit() for turn in turns))
            assert len({(one.session, one.revision) for one in done}) == count

    asyncio.run(write())


def test_the_writer_is_called_once_for_what_one_round_of_the_loop_sends(tmp_path: Path) -> None:
    """How many groups that makes is not said: a writer still awake may take the first of them."""
    calls: list[int] = []

    async def write() -> None:
        async with await AsyncStore.open(tmp_path / "store.db") as store:
            backend = store._handle.backend
            assert isinstance(backend, SqliteBackend)
            call_writer = backend._writer._call_writer

            def counted() -> None:
                calls.append(sent)
                call_writer()

            backend._writer._call_writer = counted  # type: ignore[method-assign]
            sent = 0
            for _ in range(3):
                sent += 50
                appends = (
                    store.messages.append(f"s{n}", user("hi"), create=True) for n in range(50)
                )
                await asyncio.gather(*appends)

    asyncio.run(write())
    assert calls == [50, 100, 150]


def test_two_loops_on_one_backend_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """A loop that was stopped before it called the writer must not keep another one waiting."""

    async def begin(store: AsyncStore) -> None:
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
        await store.messages.append("s", user("first"), create=True)

    async def go_on(store: AsyncStore) -> None:
        async with asyncio.timeout(30):
            await store.messages.append("s", user("second"), create=True)
            texts = [one.text for one in await store.messages.history("s")]
        assert texts == ["first", "second"]
        await store.close()

    first = asyncio.new_event_loop()
    store = first.run_until_complete(AsyncStore.open(tmp_path / "store.db"))
    stopped = first.create_task(begin(store))
    first.run_forever()
    assert not stopped.done()
    asyncio.run(go_on(store))
    first.run_until_complete(stopped)
    first.close()


def together(path: Path, ids: list[str]) -> list[Any]:
    """Appends as one group, each to a session of its own: their errors, and what is there then."""

    async def write() -> list[Any]:
        async with await AsyncStore.open(path) as store:
            for n in range(len(ids)):
                await store.messages.append(f"s{n}", user("first", id="taken"), create=True)
            appends = (store.messages.append(f"s{n}", user("x", id=id)) for n, id in enumerate(ids))
            answers = await asyncio.gather(*appends, return_exceptions=True)
            told = []
            for n, answer in enumerate(answers):
                stored = [one.id for one in await store.messages.history(f"s{n}")]
                told.append((answer if isinstance(answer, Exception) else None, stored))
            assert (await store.admin.verify()).ok
            return told

    return asyncio.run(write())


def test_an_id_that_is_taken_is_refused_to_its_own_command(tmp_path: Path) -> None:
    ids = ["new", "taken", "new", "new", "taken"]
    for id, (error, stored) in zip(ids, together(tmp_path / "store.db", ids), strict=True):
        assert isinstance(error, AlreadyExists) is (id == "taken")
        assert stored == (["taken"] if id == "taken" else ["taken", "new"])


@pytest.mark.parametrize("value", [b"blob", 1 << 70, "\ud800"], ids=["type", "size", "surrogate"])
def test_a_value_that_is_refused_when_rows_are_written_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    """By then it waits among the rows of all others."""
    real = HANDLERS[CommitTurn]

    async def careless(tx: Tx, command: Any) -> Any:
        answer = await real(tx, command)
        if any(node.id == "bad" for node in command.nodes):
            tx.put(SPACES, SpaceRow("t", "m", value, 0, 0, 0))
        return answer

    monkeypatch.setitem(HANDLERS, CommitTurn, careless)
    ids = ["new", "new", "bad", "new"]
    for id, (error, stored) in zip(ids, together(tmp_path / "store.db", ids), strict=True):
        assert (error is not None) is (id == "bad"), error
        assert stored == (["taken"] if id == "bad" else ["taken", "new"])
