"""A worker in a process of its own, told what to do by its arguments and ended by a signal.

    worker_process.py PATH GRACE_S WORK_S

Prints "ready" when the store is open, and the name of every event but "idle".
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from ledgerstone import AsyncStore
from ledgerstone.worker import Context, Worker


async def main(path: str, grace_s: float, work_s: float) -> None:
    def tell(name: str, fields: dict[str, Any]) -> None:
        if name != "idle":
            print(name, flush=True)

    async def handler(context: Context) -> None:
        context.turn.assistant(f"did {context.payloads[0]}")
        await asyncio.sleep(work_s)

    async with await AsyncStore.open(path) as store:
        # It must be woken by the change: no look of its own would come in time.
        worker = Worker(store, handler, grace_s=grace_s, poll_s=60, on_event=tell)
        print("ready", flush=True)
        await worker.run()
    print("ended", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
