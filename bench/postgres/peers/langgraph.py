"""LangGraph on PostgreSQL: the recorded calls of `langgraph_sqlite.py`, to its PostgreSQL saver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench.peers.langgraph_sqlite import LangGraphThreads
from bench.postgres.floor import POOL
from bench.postgres.place import url


async def open_exit(path: Path) -> LangGraphThreads:
    return LangGraphThreads(await _saver(path), every_step=False)


async def open_default(path: Path) -> LangGraphThreads:
    return LangGraphThreads(await _saver(path), every_step=True)


async def _saver(path: Path) -> Any:
    """A pool with the settings that its documentation asks for."""
    settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: Any = AsyncConnectionPool(
        url(path), min_size=POOL, max_size=POOL, kwargs=settings, open=False
    )
    await pool.open(wait=True)
    saver = AsyncPostgresSaver(pool)
    await saver.setup()
    return saver
