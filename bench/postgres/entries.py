"""The contenders on PostgreSQL that are not peers: the floors and Ledgerstone's two faces."""

from __future__ import annotations

from typing import Final

from bench.contender import Entry

POOL: Final = Entry(
    key="pg-pool",
    title="floor, asyncpg pool, one CTE",
    kind="floor",
    opener="bench.postgres.floor:open_pool",
)
# The same code on a copy of the same data: how far its ratio is from 1 is the noise of the run.
POOL_AGAIN: Final = Entry(
    key="pg-pool-again",
    title="the same floor again (A/A)",
    kind="floor",
    opener="bench.postgres.floor:open_pool",
)
BARE: Final = Entry(
    key="pg-bare",
    title="floor, bare asyncpg connection, one CTE",
    kind="floor",
    opener="bench.postgres.floor:open_bare",
)
BLOCKING: Final = Entry(
    key="pg-blocking",
    title="floor, bare psycopg connection, one CTE",
    kind="floor",
    opener="bench.postgres.floor_blocking:open_blocking",
)
GROUP: Final = Entry(
    key="pg-group",
    title="floor, groups in one statement",
    kind="floor",
    opener="bench.postgres.floor_group:open_group",
)
GROUP_AGAIN: Final = Entry(
    key="pg-group-again",
    title="the same floor again (A/A)",
    kind="floor",
    opener="bench.postgres.floor_group:open_group",
)
QUEUE: Final = Entry(
    key="pg-queue",
    title="floor, SKIP LOCKED, one connection",
    kind="floor",
    opener="bench.postgres.floor_queue:open_queue",
)
QUEUE_AGAIN: Final = Entry(
    key="pg-queue-again",
    title="the same floor again (A/A)",
    kind="floor",
    opener="bench.postgres.floor_queue:open_queue",
)
OURS: Final = Entry(
    key="pg-ours",
    title="ours, blocking",
    kind="ours",
    opener="bench.postgres.ours:open_blocking",
    needs="ledgerstone.engines.postgres.backend",
)
OURS_ASYNC: Final = Entry(
    key="pg-ours-async",
    title="ours, async",
    kind="ours",
    opener="bench.postgres.ours:open_async",
    needs="ledgerstone.engines.postgres.backend",
)
