"""dbos: workflows of one step in a queue of the database, and their results awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dbos import DBOS

from bench.floor_queue import payload
from bench.postgres.place import url

QUEUE: Final = "orders"
POLL_S: Final = 0.05
"""Its own default of a second would be most of the time of a round."""


async def _order(_order: dict[str, Any]) -> int:
    return 1


order: Any = DBOS.workflow()(_order)


class Jobs:
    async def jobs(self, numbers: Sequence[int], batches: int, size: int) -> int:
        count = len(numbers) * batches * size

        async def put(place: int) -> int:
            handle = await DBOS.enqueue_workflow_async(QUEUE, order, payload(place))
            return int(await handle.get_result(polling_interval_sec=POLL_S))

        done = sum(await asyncio.gather(*(put(place) for place in range(count))))
        if done != count:
            raise RuntimeError(f"{done} jobs done, not {count}")
        return count

    def close(self) -> None:
        DBOS.destroy()


async def open_dbos(path: Path) -> Jobs:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url(path),
            "log_level": "ERROR",
            "run_admin_server": False,
            "enable_otlp": False,
        }
    )
    DBOS.launch()
    await DBOS.register_queue_async(QUEUE, polling_interval_sec=POLL_S)
    return Jobs()
