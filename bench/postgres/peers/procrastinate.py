"""procrastinate: jobs deferred in one batch, and a worker that runs until it has caught up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from procrastinate import App, PsycopgConnector

from bench.floor_queue import payload
from bench.postgres.place import url

CONCURRENCY: Final = 50
POOL: Final = 10
LIMIT_S: Final = 60.0
APPLIED: Final = "select to_regclass('procrastinate_jobs') is not null as there"


class Jobs:
    def __init__(self, app: Any) -> None:
        self.app = app
        self.done = 0
        self.task = app.task(name="order")(self._order)

    async def jobs(self, numbers: Sequence[int], batches: int, size: int) -> int:
        before, count = self.done, len(numbers) * batches * size
        orders = [{"order": payload(place)} for place in range(count)]
        await self.task.batch_defer_async(*orders)
        await self.app.run_worker_async(
            concurrency=CONCURRENCY,
            wait=False,
            install_signal_handlers=False,
            delete_jobs="always",
            shutdown_graceful_timeout=LIMIT_S,
        )
        if self.done - before != count:
            raise RuntimeError(f"{self.done - before} jobs done, not {count}")
        return count

    async def close(self) -> None:
        await self.app.close_async()

    async def _order(self, order: dict[str, Any]) -> None:
        self.done += 1


async def open_procrastinate(path: Path) -> Jobs:
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app = App(connector=PsycopgConnector(conninfo=url(path), min_size=1, max_size=POOL))
    await app.open_async()
    if not (await app.connector.execute_query_one_async(APPLIED))["there"]:
        await app.schema_manager.apply_schema_async()
    return Jobs(app)
