"""The savers that the graphs run on: LangGraph's own as its documentation shows, and ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

from bench.adapters.graphs import AsyncGraphs, Chat, Graphs, Script
from bench.adapters.objects import ObjectSaver
from bench.postgres.floor import POOL
from bench.postgres.place import url
from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.langgraph import LedgerSaver

OBJECTS: Final = ObjectSaver()
"""Outlives its contender, which is closed and opened again as if there were a file."""


def _nothing() -> None:
    """Objects need no closing."""


def open_objects(path: Path) -> Graphs:
    return Graphs(lambda: OBJECTS, _nothing)


def open_objects_async(path: Path) -> AsyncGraphs:
    return AsyncGraphs(lambda: OBJECTS, _nothing)


# --- LangGraph's own


def open_stock(path: Path, script: Script | None = None) -> Graphs:
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    return Graphs(lambda: saver, connection.close, script=script)


async def open_stock_async(path: Path) -> AsyncGraphs:
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    connection = await aiosqlite.connect(path)
    saver = AsyncSqliteSaver(connection)
    return AsyncGraphs(lambda: saver, connection.close)


def open_pg_stock(path: Path, script: Script | None = None) -> Graphs:
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg_pool import ConnectionPool

    pool: Any = ConnectionPool(url(path), min_size=POOL, max_size=POOL, kwargs=_kwargs(), open=True)
    pool.wait()
    saver = PostgresSaver(pool)
    saver.setup()
    return Graphs(lambda: saver, pool.close, script=script)


async def open_pg_stock_async(path: Path) -> AsyncGraphs:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg_pool import AsyncConnectionPool

    pool: Any = AsyncConnectionPool(
        url(path), min_size=POOL, max_size=POOL, kwargs=_kwargs(), open=False
    )
    await pool.open(wait=True)
    saver = AsyncPostgresSaver(pool)
    await saver.setup()
    return AsyncGraphs(lambda: saver, pool.close)


def _kwargs() -> dict[str, Any]:
    """What its documentation asks of a connection."""
    from psycopg.rows import dict_row

    return {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


# --- ours


def _blocking(place: str, *, cold: bool, script: Script | None = None) -> Graphs:
    store = Store.open(place)
    return Graphs(lambda: LedgerSaver(store), store.close, cold=cold, script=script)


async def _async(place: str, *, cold: bool) -> AsyncGraphs:
    store = await AsyncStore.open(place)
    return AsyncGraphs(lambda: LedgerSaver(store), store.close, cold=cold)


def open_blocking_warm(path: Path) -> Graphs:
    return _blocking(str(path), cold=False)


def open_blocking_cold(path: Path) -> Graphs:
    return _blocking(str(path), cold=True)


async def open_async_warm(path: Path) -> AsyncGraphs:
    return await _async(str(path), cold=False)


async def open_async_cold(path: Path) -> AsyncGraphs:
    return await _async(str(path), cold=True)


def open_pg_blocking_warm(path: Path) -> Graphs:
    return _blocking(url(path), cold=False)


def open_pg_blocking_cold(path: Path) -> Graphs:
    return _blocking(url(path), cold=True)


async def open_pg_async_warm(path: Path) -> AsyncGraphs:
    return await _async(url(path), cold=False)


async def open_pg_async_cold(path: Path) -> AsyncGraphs:
    return await _async(url(path), cold=True)


# --- the conversation whose bytes are weighed


def open_chat_stock(path: Path) -> Graphs:
    return open_stock(path, Chat())


def open_pg_chat_stock(path: Path) -> Graphs:
    return open_pg_stock(path, Chat())


def open_chat(path: Path) -> Graphs:
    return _blocking(str(path), cold=False, script=Chat())


def open_pg_chat(path: Path) -> Graphs:
    return _blocking(url(path), cold=False, script=Chat())
