"""Reads in threads and reads on the loop: answers, errors, cancellation, closing, locked files."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from ledgerstone.clock import Clock
from ledgerstone.commands import Query
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetSession
from ledgerstone.engines.reader_threads import ReaderThreads
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.engines.sqlite.connection import Reader
from ledgerstone.engines.sqlite.reads import BRIEF_MESSAGES_MAX, is_brief, read_snapshot


def test_answers_and_errors_come_back_to_who_asked() -> None:
    async def ask() -> None:
        threads = ReaderThreads(2)
        assert await asyncio.gather(*(threads.run(abs, -n) for n in range(20))) == [*range(20)]
        with pytest.raises(ValueError, match="invalid literal"):
            await threads.run(int, "x")
        assert await threads.run(int, "3") == 3
        threads.close()

    asyncio.run(ask())


def test_it_starts_only_as_many_threads_as_are_busy() -> None:
    async def ask() -> None:
        threads = ReaderThreads(3)
        names = {await threads.run(lambda _: threading.current_thread().name, n) for n in range(9)}
        assert names == {"ledgerstone-reader-0"}
        gate = threading.Barrier(3)
        await asyncio.gather(*(threads.run(gate.wait, 10) for _ in range(3)))
        threads.close()

    before = threading.active_count()
    asyncio.run(ask())
    assert threading.active_count() == before


def test_a_cancelled_wait_leaves_the_thread_for_others() -> None:
    async def ask() -> None:
        threads = ReaderThreads(1)
        gate = threading.Event()
        waiting = asyncio.ensure_future(threads.run(gate.wait, 10))
        behind = asyncio.ensure_future(threads.run(int, "behind"))
        await asyncio.sleep(0)
        waiting.cancel()
        behind.cancel()
        gate.set()
        assert await threads.run(int, "7") == 7
        threads.close()

    asyncio.run(ask())


def test_only_reads_of_a_few_pages_are_brief() -> None:
    path = partial(ReadMessages, tenant="t", session="s")
    assert is_brief(GetSession(tenant="t", id="s"))
    assert is_brief(path(last=BRIEF_MESSAGES_MAX))
    assert is_brief(path(first=1))
    assert not is_brief(path(last=BRIEF_MESSAGES_MAX + 1))
    assert not is_brief(path())


def test_a_short_read_of_a_locked_file_goes_to_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In WAL mode readers are hardly ever locked out, so the lock is played here."""
    backend = open_sqlite(str(tmp_path / "store.db"))
    readers: list[str] = []

    def locked_on_the_loop(tx: Reader, queries: Sequence[Query[Any]], clock: Clock) -> list[Any]:
        readers.append(threading.current_thread().name)
        if tx.patience_ms == 0:
            raise apsw.BusyError("locked")
        return read_snapshot(tx, queries, clock)

    monkeypatch.setattr("ledgerstone.engines.sqlite.backend.read_snapshot", locked_on_the_loop)
    assert asyncio.run(backend.aread([GetSession(tenant="t", id="s")])) == [None]
    assert readers == ["MainThread", "ledgerstone-reader-0"]
    backend.close()
